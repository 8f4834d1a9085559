package view

import "time"

// Column is a member in a grid.
type Column struct {
	Member     string     `json:"member"`
	StaleSince *time.Time `json:"staleSince,omitempty"`
}

// GridRow is a MiniCluster in a grid, with its runs on all members, oldest first.
type GridRow struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     string `json:"state"`
	Runs      []Run  `json:"runs"`
}

// Grid is MiniClusters × members × revisions.
type Grid struct {
	Columns   []Column  `json:"columns"`
	Revisions []Commit  `json:"revisions" doc:"Those of the runs in it, latest first."`
	Rows      []GridRow `json:"rows"`
	Total     int       `json:"total" doc:"How many MiniClusters match, on all pages."`
	Cursor    string    `json:"cursor"`
}

// Lane is a member in a timeline.
type Lane struct {
	Member     string     `json:"member" doc:"Empty for what waits and has no member yet."`
	Room       *Room      `json:"room,omitempty"`
	StaleSince *time.Time `json:"staleSince,omitempty"`
	Bars       []Bar      `json:"bars" doc:"By start."`
}

// Bar is a run, or the time that a MiniCluster has waited, in a timeline.
type Bar struct {
	Run
	Waiting bool `json:"waiting" doc:"It waits for room and has no run; then Start is since when."`
}

// Timeline is the runs of a time, per member.
type Timeline struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Now    time.Time `json:"now"`
	Lanes  []Lane    `json:"lanes"`
	Total  int       `json:"total" doc:"How many bars there are; Lanes may hold fewer."`
	Cursor string    `json:"cursor"`
}

// Place is a place in the line for room on a member.
type Place struct {
	Place     int32      `json:"place" doc:"From 1. Those that the reader may not see are counted, and hidden."`
	Hidden    bool       `json:"hidden,omitempty" doc:"The reader may not see who it is, nor what it needs."`
	Namespace string     `json:"namespace,omitempty"`
	Name      string     `json:"name,omitempty"`
	Priority  int32      `json:"priority"`
	Since     *time.Time `json:"since,omitempty"`
	Pods      int32      `json:"pods"`
	Each      Amount     `json:"each" doc:"What each pod asks for."`
	Fits      int32      `json:"fits" doc:"How many of its pods have room now, in its turn."`
	Miss      string     `json:"miss,omitempty" doc:"What is missing, nearest first."`
	Turn      string     `json:"turn,omitempty" doc:"Why it may not begin though it fits."`
	Quota     bool       `json:"quota,omitempty" doc:"It would exceed what its namespace may use there; miss or turn say how."`
	Behind    *Ref       `json:"behind,omitempty" doc:"Who comes before it and waits for the same room; both empty for one that the reader may not see."`
}

// Line is the line for room on a member.
type Line struct {
	Member     string     `json:"member"`
	StaleSince *time.Time `json:"staleSince,omitempty"`
	Places     []Place    `json:"places" doc:"At most 500."`
	Total      int        `json:"total" doc:"How many stand in it."`
	Unknown    string     `json:"unknown,omitempty" doc:"Why it is not known what is free there; then everything is taken to fit."`
}

// Queue is all lines in which somebody waits.
type Queue struct {
	Lines  []Line `json:"lines"`
	Cursor string `json:"cursor"`
}

// NodeFit is how many pods of a gang would lie on a node.
type NodeFit struct {
	Node     string `json:"node"`
	Pods     int32  `json:"pods" doc:"Of the gang, that fit here."`
	Free     Amount `json:"free"`
	Total    Amount `json:"total"`
	Nearest  bool   `json:"nearest,omitempty" doc:"It lacks least of all for one more pod, where not all fit."`
	Lacks    string `json:"lacks,omitempty" doc:"What is missing for one more pod, e.g. 2 CPU."`
	Excluded string `json:"excluded,omitempty" doc:"Why none may lie here, whatever is free: cordoned, a taint, a selector."`
}

// GangFit is how the pods of a MiniCluster would lie on the nodes of a member.
type GangFit struct {
	Member  string    `json:"member"`
	Pods    int32     `json:"pods"`
	Fits    int32     `json:"fits"`
	Each    Amount    `json:"each"`
	Nodes   []NodeFit `json:"nodes" doc:"At most 200: those that take pods, then those that nearly do. Empty for those who may not see members."`
	Total   int       `json:"total" doc:"How many nodes the member has."`
	Beside  string    `json:"beside,omitempty" doc:"What is missing for the pod of services beside them, where they all fit."`
	Unknown string    `json:"unknown,omitempty" doc:"Why the nodes are not known."`
}

// Why is why a MiniCluster does not run, or runs where it does.
type Why struct {
	Sentence string     `json:"sentence"`
	State    string     `json:"state"`
	Line     *Line      `json:"line,omitempty" doc:"The line that it stands in, on the member that is nearest."`
	Gangs    []GangFit  `json:"gangs" doc:"On the members that it might run on, the nearest miss first; at most 5."`
	Chosen   []OnMember `json:"chosen"`
	Rejected []Rejected `json:"rejected"`
	Cursor   string     `json:"cursor"`
}

// Taint of a member.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// Member is a cluster that MiniClusters run on.
type Member struct {
	Name      string            `json:"name"`
	Ready     bool              `json:"ready"`
	Reason    string            `json:"reason"`
	Message   string            `json:"message"`
	Labels    map[string]string `json:"labels"`
	Taints    []Taint           `json:"taints"`
	Version   string            `json:"version,omitempty"`
	Cordoned  bool              `json:"cordoned"`
	Draining  bool              `json:"draining"`
	Drained   bool              `json:"drained"`
	Deleting  bool              `json:"deleting"`
	Room      *Room             `json:"room,omitempty" doc:"Absent where it is not known."`
	Live      int               `json:"live" doc:"Runs there that the reader may see and that have not ended."`
	Waiting   int               `json:"waiting" doc:"How many stand in the line for it."`
	LastHeard *time.Time        `json:"lastHeard,omitempty" doc:"Set only while it cannot be reached."`
	Unowned   int               `json:"unowned" doc:"Live Jobs of this fleet there that nobody owns."`
	Orphans   int               `json:"orphans"`
	Since     time.Time         `json:"since" doc:"Of the state that it is in."`
}

// Members are all of them, by name.
type Members struct {
	Items  []Member `json:"items"`
	Cursor string   `json:"cursor"`
}

// Node is one of a member's.
type Node struct {
	Name          string  `json:"name"`
	Free          Amount  `json:"free"`
	Total         Amount  `json:"total"`
	Unschedulable bool    `json:"unschedulable"`
	Taints        []Taint `json:"taints"`
}

// UnownedJob is a live Job of this fleet that no FleetMiniCluster owns.
type UnownedJob struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Owner     string    `json:"owner,omitempty"`
	Run       string    `json:"run,omitempty"`
	Since     time.Time `json:"since"`
}

// MemberDetail is all that is known of a member.
type MemberDetail struct {
	Member
	Conditions  []Condition  `json:"conditions"`
	Nodes       []Node       `json:"nodes" doc:"By name, at most 5000."`
	NodesError  string       `json:"nodesError,omitempty" doc:"Why they are not known."`
	Runs        []Run        `json:"runs" doc:"Live ones that the reader may see."`
	Line        Line         `json:"line"`
	UnownedJobs []UnownedJob `json:"unownedJobs"`
	Actions     []Action     `json:"actions"`
	Cursor      string       `json:"cursor"`
}

// Problem is something in Git that could not be applied.
type Problem struct {
	Path    string `json:"path"`
	Line    int32  `json:"line,omitempty"`
	Object  string `json:"object,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	Warning bool   `json:"warning"`
}

// Source is a Git repository.
type Source struct {
	Namespace    string    `json:"namespace"`
	Name         string    `json:"name"`
	URL          string    `json:"url"`
	Path         string    `json:"path,omitempty" doc:"Folders that are read, separated by commas; all of it without any."`
	Ref          string    `json:"ref" doc:"Branch, tag, version range or commit that it follows."`
	Ready        bool      `json:"ready"`
	Reason       string    `json:"reason"`
	Message      string    `json:"message"`
	Suspended    bool      `json:"suspended"`
	DryRun       bool      `json:"dryRun" doc:"Nothing of it is applied: it only says what would be done."`
	Verify       string    `json:"verify,omitempty" doc:"What has to be signed: HEAD, Tag or TagAndHEAD."`
	Commit       *Commit   `json:"commit,omitempty" doc:"That is applied."`
	MiniClusters int32     `json:"miniClusters"`
	Problems     int32     `json:"problems"`
	PruneBlocked bool      `json:"pruneBlocked"`
	RunsBlocked  bool      `json:"runsBlocked"`
	Since        time.Time `json:"since"`
}

// Sources are those that the reader may see, by namespace and name.
type Sources struct {
	Items  []Source `json:"items"`
	Cursor string   `json:"cursor"`
}

// SourceDetail is all that is known of a source.
type SourceDetail struct {
	Source
	Conditions  []Condition     `json:"conditions"`
	Commits     []AppliedCommit `json:"commits" doc:"Latest first."`
	Attempted   *AppliedCommit  `json:"attempted,omitempty" doc:"That was read last, where it is not the one that is applied."`
	Planned     *Planned        `json:"planned,omitempty" doc:"What would be done, in a dry run."`
	Inventory   []Declared      `json:"inventory" doc:"The first 1000 objects of the source, by name."`
	Objects     int32           `json:"objects" doc:"How many objects the source has."`
	ProblemList []Problem       `json:"problemList"`
	Prune       []string        `json:"prune" doc:"KIND/NAME of what a blocked prune would delete."`
	PruneRuns   int             `json:"pruneLiveRuns" doc:"How many live runs that would stop."`
	RunsAnew    []string        `json:"runsAnew" doc:"KIND/NAME of what would run anew and waits for approval."`
	Actions     []Action        `json:"actions"`
	Cursor      string          `json:"cursor"`
}

// AppliedCommit is a commit with what came of it.
type AppliedCommit struct {
	Commit
	Applied  *time.Time `json:"applied,omitempty" doc:"When it was first applied."`
	SignedBy []string   `json:"signedBy" doc:"Keys by which the commit and its tag are signed, where that was checked."`
	Created  int32      `json:"created"`
	Updated  int32      `json:"updated"`
	Deleted  int32      `json:"deleted"`
	Changed  []string   `json:"changed" doc:"The first 20 objects, as +KIND/NAME, ~KIND/NAME and -KIND/NAME."`
}

// Declared is an object of a source.
type Declared struct {
	Object string `json:"object" doc:"KIND/NAME."`
	Path   string `json:"path,omitempty" doc:"File that declares it, or did last."`
	State  string `json:"state" doc:"Synced, OutOfSync, WaitingForApproval, Kept or Deleting."`
}

// Planned is what would be done for a commit.
type Planned struct {
	Commit  AppliedCommit   `json:"commit"`
	Total   int32           `json:"total" doc:"How many objects would change."`
	Changes []PlannedChange `json:"changes" doc:"The first 200 of them."`
}

// PlannedChange is what would become of one object.
type PlannedChange struct {
	Object        string `json:"object" doc:"KIND/NAME."`
	Action        string `json:"action" doc:"Create, Update, Run, Delete, Keep or Refuse."`
	Path          string `json:"path,omitempty"`
	NeedsApproval bool   `json:"needsApproval"`
	Message       string `json:"message,omitempty"`
}

// Ref names an object.
type Ref struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Change is what is different after a cursor.
type Change struct {
	Cursor       string    `json:"cursor"`
	Reset        bool      `json:"reset" doc:"The cursor is not known any more: everything is to be read again."`
	MiniClusters []Row     `json:"miniClusters" doc:"As they are now."`
	Removed      []Ref     `json:"removed" doc:"MiniClusters that are not there any more, or not for this reader."`
	Members      []string  `json:"members" doc:"Names of those that changed, appeared or went."`
	Sources      []Ref     `json:"sources"`
	Queue        bool      `json:"queue" doc:"A line for room may be different."`
	Now          time.Time `json:"now"`
}
