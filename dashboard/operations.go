package dashboard

import (
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// MiniClusterPath names a MiniCluster.
type MiniClusterPath struct {
	Namespace string `path:"namespace" maxLength:"63" doc:"Namespace on the hub."`
	Name      string `path:"name" maxLength:"253"`
}

// SourcePath names a GitSource.
type SourcePath struct {
	Namespace string `path:"namespace" maxLength:"63"`
	Name      string `path:"name" maxLength:"253"`
}

// MemberPath names a MemberCluster.
type MemberPath struct {
	Name string `path:"name" maxLength:"253"`
}

// FilterQuery says which MiniClusters are meant. Values of one parameter are alternatives; parameters are conditions that
// all hold.
type FilterQuery struct {
	Query     string   `query:"q" maxLength:"512" doc:"Pieces of NAMESPACE/NAME, and terms: label=value, label, state:failed, member:alpine, source:fleet, ns:physics, commit:1a2b3c4, health:degraded, sync:outofsync. All of them hold."`
	State     []string `query:"state,explode" maxItems:"16"`
	Namespace []string `query:"namespace,explode" maxItems:"64"`
	Source    []string `query:"source,explode" maxItems:"64" doc:"NAMESPACE/NAME."`
	Member    []string `query:"member,explode" maxItems:"64"`
}

// PageQuery says which page of a list is asked for.
type PageQuery struct {
	Offset int `query:"offset" minimum:"0" default:"0"`
	Limit  int `query:"limit" minimum:"0" maximum:"1000" default:"200"`
}

type listRequest struct {
	FilterQuery
	PageQuery
	Sort   string   `query:"sort" enum:"attention,name,namespace,state,pods,member,commit,since,created" default:"attention" doc:"attention: failed, invalid and unknown first, then what waits, runs, and has ended; the latest change first."`
	Order  string   `query:"order" enum:"asc,desc" default:"asc"`
	Fields []string `query:"fields" maxItems:"24" doc:"Of each item only these, beside namespace and name; separated by commas."`
}

type summaryRequest struct{ FilterQuery }

type gridRequest struct {
	FilterQuery
	PageQuery
	Revisions int `query:"revisions" minimum:"1" maximum:"50" default:"10" doc:"At most so many latest runs of each MiniCluster on each member."`
}

type timelineRequest struct {
	FilterQuery
	From  time.Time `query:"from" doc:"Default: two hours before to."`
	To    time.Time `query:"to" doc:"Default: now."`
	Limit int       `query:"limit" minimum:"1" maximum:"5000" default:"1000" doc:"At most so many bars, the latest."`
}

type changesRequest struct {
	After string `query:"after" required:"true" maxLength:"128" doc:"A cursor."`
}

type logsRequest struct {
	MiniClusterPath
	Member    string `query:"member" maxLength:"253" doc:"Default: the member of the run, or the only one."`
	Run       string `query:"run" maxLength:"64" doc:"Default: the latest one there."`
	Rank      int32  `query:"rank" minimum:"0" default:"0" doc:"Index of the pod."`
	Container string `query:"container" maxLength:"63" doc:"Default: that of the MiniCluster."`
	Previous  bool   `query:"previous" doc:"Of the container before its last restart."`
	Follow    bool   `query:"follow"`
	Tail      int64  `query:"tail" minimum:"0" maximum:"100000" default:"1000" doc:"At most so many lines from the end."`
	Since     string `query:"since" maxLength:"64" doc:"RFC 3339, with fractions: only lines after it, to go on after a connection was lost."`
}

// LogLine is a line of the answer of logs. One of its members is set.
type LogLine struct {
	Time *time.Time `json:"time,omitempty"`
	Text *string    `json:"text,omitempty" doc:"Without what steers terminals."`
	Lost int64      `json:"lost,omitempty" doc:"So many lines, at least, cannot be had any more."`
	End  string     `json:"end,omitempty" doc:"Why there are no more: ended, disconnected, forbidden, limit."`
}

// Session says who asks and what may be asked for.
type Session struct {
	Name    string     `json:"name"`
	Groups  []string   `json:"groups"`
	Writes  bool       `json:"writes" doc:"Whether this dashboard takes writes at all."`
	Members bool       `json:"members" doc:"Whether the person may see members."`
	Version string     `json:"version"`
	Expires *time.Time `json:"expires,omitempty"`
	Now     time.Time  `json:"now"`
}

type body[T any] struct{ Body T }

// Start is a MiniCluster to run. Either a name or generateName is needed.
type Start struct {
	Namespace               string            `json:"namespace" maxLength:"63"`
	Name                    string            `json:"name,omitempty" maxLength:"58" doc:"Default: generateName and a few letters and digits."`
	GenerateName            string            `json:"generateName,omitempty" maxLength:"48"`
	Labels                  map[string]string `json:"labels,omitempty"`
	MiniCluster             map[string]any    `json:"miniCluster" doc:"The spec of a flux-framework.org/v1alpha2 MiniCluster."`
	PlacementRef            string            `json:"placementRef,omitempty" doc:"Name of a Placement in the namespace; exactly one of it and placement."`
	Placement               map[string]any    `json:"placement,omitempty" doc:"The spec of a Placement."`
	Priority                int32             `json:"priority,omitempty"`
	Retries                 int32             `json:"retries,omitempty"`
	TTLSecondsAfterFinished *int32            `json:"ttlSecondsAfterFinished,omitempty"`
}

// Started is the MiniCluster that a request has created, or that an earlier one with its Idempotency-Key has.
type Started struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty" doc:"Absent for a dry run."`
	URL       string `json:"url" doc:"Path of it in this API."`
	Page      string `json:"page" doc:"Path of the page about it."`
	Created   bool   `json:"created" doc:"false: an earlier request with the same Idempotency-Key has. Of a dry run: it would be."`
	DryRun    bool   `json:"dryRun"`
	Message   string `json:"message" doc:"What was asked for, in a sentence."`
}

type startRequest struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"128" doc:"Repeated with the same body, the request is answered with what the first one has created; with another body it is refused."`
	DryRun         bool   `query:"dryRun" doc:"Everything is checked, by the API server too, and nothing is created."`
	Body           Start
}

type startResponse struct {
	Status   int
	Location string `header:"Location"`
	Body     Started
}

// Done is what an action has done.
type Done struct {
	Message string `json:"message" doc:"What was asked for, in a sentence."`
	Changed bool   `json:"changed" doc:"false: it was so before."`
	DryRun  bool   `json:"dryRun"`
}

// ActionRequest asks for something to be done with a MiniCluster.
type ActionRequest struct {
	MiniClusterPath
	DryRun bool `query:"dryRun"`
}

type rerunRequest struct {
	ActionRequest
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"128" doc:"Repeated, the request asks for no second run. Without one, a request is the same as the one before until that run has begun."`
}

// RunIDs are the ids of runs.
type RunIDs struct {
	Runs []string `json:"runs,omitempty" maxItems:"100" doc:"Ids of runs; default for cancel: all that are live."`
}

type runsRequest struct {
	ActionRequest
	Body *RunIDs
}

// GoneRuns are runs of which a person has made sure that they are gone.
type GoneRuns struct {
	Runs    []string `json:"runs" minItems:"1" maxItems:"100"`
	Confirm bool     `json:"confirm" doc:"true: the person has made sure that no pod of these runs runs any more. The same work may then run elsewhere."`
}

type goneRequest struct {
	ActionRequest
	Body GoneRuns
}

// Size is a number of pods.
type Size struct {
	Size int32 `json:"size" minimum:"1" maximum:"100000"`
}

type scaleRequest struct {
	ActionRequest
	Body Size
}

type emptyRequest struct {
	ActionRequest
}

// Revision names what is approved.
type Revision struct {
	Revision string `json:"revision" minLength:"1" maxLength:"300" doc:"Full hash of the commit that was shown; another one is not approved by it."`
}

type sourceRequest struct {
	SourcePath
	DryRun bool `query:"dryRun"`
}

type approveRequest struct {
	SourcePath
	DryRun bool `query:"dryRun"`
	Body   Revision
}

type memberRequest struct {
	MemberPath
	DryRun bool `query:"dryRun"`
}

// operation describes one of the API's.
func operation(id, method, path, tag, summary string) huma.Operation {
	o := huma.Operation{
		OperationID: id, Method: method, Path: "/api/v1" + path, Tags: []string{tag}, Summary: summary,
		Errors:   []int{http.StatusUnauthorized, http.StatusNotFound, http.StatusTooManyRequests, http.StatusServiceUnavailable},
		Security: []map[string][]string{{"bearer": {}}, {"cookie": {}}},
	}
	if method == http.MethodPost {
		o.Errors = append(o.Errors, http.StatusForbidden, http.StatusConflict, http.StatusUnsupportedMediaType)
	}
	return o
}

func get(id, path, tag, summary string) huma.Operation {
	return operation(id, http.MethodGet, path, tag, summary)
}

func post(id, path, tag, summary string) huma.Operation {
	return operation(id, http.MethodPost, path, tag, summary)
}

// Paths of what the operations are about.
const (
	miniClusterAt = "/miniclusters/{namespace}/{name}"
	sourceAt      = "/sources/{namespace}/{name}"
	memberAt      = "/members/{name}"
)
