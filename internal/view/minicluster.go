package view

import "time"

// Condition is one of an object's conditions.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status" enum:"True,False,Unknown"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// Run is one execution on one member.
type Run struct {
	ID        string     `json:"id"`
	Namespace string     `json:"namespace"`
	Name      string     `json:"name" doc:"Of the MiniCluster."`
	Member    string     `json:"member"`
	State     string     `json:"state" enum:"Starting,Running,Stopping,Succeeded,Failed,Replaced,Cancelled,Unknown,Suspended" doc:"Unknown: it was live when its member was last heard of."`
	Commit    *Commit    `json:"commit,omitempty"`
	Digest    string     `json:"digest"`
	Attempt   int32      `json:"attempt" doc:"How many runs before it failed and were followed by another."`
	Start     *time.Time `json:"start,omitempty" doc:"When the hub decided to start it."`
	Running   *time.Time `json:"running,omitempty" doc:"When all of its pods were first seen running."`
	Pending   *time.Time `json:"pending,omitempty" doc:"Since when it is live without a pod that runs."`
	Lost      *time.Time `json:"lost,omitempty" doc:"Since when nothing was heard of it."`
	End       *time.Time `json:"end,omitempty"`
	Stop      string     `json:"stop,omitempty" doc:"Why it was stopped: Changed, Cancelled, Drained, NotStarted, Lost, DeclaredGone or Deleted."`
	Message   string     `json:"message,omitempty"`
	Exit      *Exit      `json:"exit,omitempty"`
	// StaleSince is set for a run on a member that cannot be reached.
	StaleSince *time.Time `json:"staleSince,omitempty" doc:"What is shown is from then."`
	Remembered bool       `json:"remembered,omitempty" doc:"Only the result is known any more."`
}

// Exit is how the first pod of a failed run ended.
type Exit struct {
	Pod       string `json:"pod"`
	Container string `json:"container,omitempty"`
	Code      *int32 `json:"code,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
}

// OnMember is a MiniCluster on one member.
type OnMember struct {
	Member     string     `json:"member"`
	Chosen     bool       `json:"chosen"`
	Sync       string     `json:"sync"`
	Health     string     `json:"health"`
	State      string     `json:"state" doc:"As of a MiniCluster."`
	Run        string     `json:"run,omitempty" doc:"Id of its latest run there."`
	Pods       Pods       `json:"pods"`
	Reason     string     `json:"reason,omitempty"`
	Message    string     `json:"message,omitempty"`
	Score      int32      `json:"score,omitempty"`
	Because    string     `json:"because,omitempty" doc:"Why it was chosen."`
	Overrides  []string   `json:"overrides"`
	StaleSince *time.Time `json:"staleSince,omitempty"`
}

// Rejected is a member that was not chosen.
type Rejected struct {
	Member string `json:"member"`
	Reason string `json:"reason"`
}

// Action is something that the reader may ask for.
type Action struct {
	Name    string `json:"name" enum:"rerun,cancel,suspend,resume,scale,run-gone,sync,approve-prune,approve-runs,drain,cordon,uncordon"`
	Effect  string `json:"effect" doc:"What it does, in a sentence, before it is done."`
	Enabled bool   `json:"enabled"`
	Reason  string `json:"reason,omitempty" doc:"Why it is not enabled."`
	// Runs are the ids that the action is about, where it is about runs.
	Runs []string `json:"runs,omitempty"`
}

// MiniCluster is all that is known of one.
type MiniCluster struct {
	Row
	Size        int32             `json:"size" doc:"Pods on each member."`
	MaxSize     int32             `json:"maxSize,omitempty"`
	Tasks       int32             `json:"tasks,omitempty"`
	Images      []string          `json:"images"`
	Command     string            `json:"command,omitempty"`
	Priority    int32             `json:"priority"`
	OnChange    string            `json:"onChange"`
	Retries     int32             `json:"retries"`
	SourcePath  string            `json:"sourcePath,omitempty" doc:"File in Git that declares it."`
	Labels      map[string]string `json:"labels"`
	Conditions  []Condition       `json:"conditions"`
	OnMembers   []OnMember        `json:"onMembers"`
	Wanted      int32             `json:"wanted" doc:"How many members its placement asks for."`
	Rejected    []Rejected        `json:"rejected"`
	WaitingFor  []Rejected        `json:"waitingFor" doc:"Members that would be chosen if they had room, the nearest miss first."`
	Runs        []Run             `json:"runs" doc:"Latest first."`
	Actions     []Action          `json:"actions"`
	Cursor      string            `json:"cursor"`
	MayReadLogs bool              `json:"mayReadLogs"`
}

// Node kinds of a tree: Commit, Source, MiniCluster, Member, Job, Pods, Pod, Service, ConfigMap, Secret, Rejected.

// TreeNode is one thing and what came of it.
type TreeNode struct {
	ID       string     `json:"id" doc:"Unique in the tree and stable."`
	Kind     string     `json:"kind" enum:"Commit,Source,MiniCluster,Member,Job,Pods,Pod,Object,Rejected"`
	Name     string     `json:"name"`
	State    string     `json:"state,omitempty" doc:"As of a MiniCluster; of Pods and Pod: Pending, Running, Succeeded, Failed or Unknown; of Source: Synced, OutOfSync or Unknown."`
	Text     string     `json:"text,omitempty" doc:"One short line for people."`
	Count    int32      `json:"count,omitempty" doc:"Of Pods: how many."`
	Rank     *int32     `json:"rank,omitempty" doc:"Of Pod: its index."`
	Node     string     `json:"node,omitempty" doc:"Of Pod: the node that it is on."`
	Since    *time.Time `json:"since,omitempty"`
	Stale    *time.Time `json:"staleSince,omitempty"`
	Link     string     `json:"link,omitempty" doc:"Path of the page about it."`
	Children []TreeNode `json:"children"`
}

// Event is one that was recorded about an object.
type Event struct {
	Time    time.Time `json:"time" doc:"Last seen."`
	First   time.Time `json:"first"`
	Count   int32     `json:"count"`
	Type    string    `json:"type" enum:"Normal,Warning"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// Difference compares one object that is wanted on a member with what is there. Values of Secrets are never in it.
type Difference struct {
	Member    string `json:"member"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     string `json:"state" enum:"Same,Different,Missing,Extra,Unknown" doc:"Unknown: the member cannot be asked."`
	Desired   string `json:"desired,omitempty" doc:"YAML."`
	Live      string `json:"live,omitempty" doc:"YAML, only the fields that are wanted or differ."`
	Message   string `json:"message,omitempty"`
}

// Differences are those of a MiniCluster.
type Differences struct {
	Items []Difference `json:"items"`
}

// Manifest is an object as YAML.
type Manifest struct {
	YAML string `json:"yaml"`
}

// Events are those of an object, latest first.
type Events struct {
	Items []Event `json:"items"`
}
