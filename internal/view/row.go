package view

import "time"

// Pods counts the pods of the latest runs on all chosen members. All of a run that has succeeded count as succeeded, though
// some may not have ended when its lead did.
type Pods struct {
	Desired   int32 `json:"desired"`
	Ready     int32 `json:"ready" doc:"Running and ready."`
	Succeeded int32 `json:"succeeded"`
	Failed    int32 `json:"failed" doc:"Retries included."`
}

// Commit is what Git says of a revision. Only the revision is known of one that its source has forgotten.
type Commit struct {
	Revision string     `json:"revision" doc:"REF@SHORTHASH, as runs name it."`
	Hash     string     `json:"hash,omitempty" doc:"Full hash, where it is known."`
	Subject  string     `json:"subject,omitempty" doc:"First line of the message."`
	Author   string     `json:"author,omitempty"`
	Time     *time.Time `json:"time,omitempty"`
}

// Row is a MiniCluster in a list.
type Row struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       string    `json:"uid"`
	State     string    `json:"state" enum:"Waiting,Starting,Running,Stopping,Suspended,Succeeded,Failed,Cancelled,Unknown,Invalid,Deleting" doc:"How far it is, in one word."`
	Sync      string    `json:"sync" doc:"Synced, OutOfSync or Unknown."`
	Health    string    `json:"health" doc:"Healthy, Progressing, Degraded, Suspended, Missing or Unknown."`
	Why       string    `json:"why" doc:"One sentence for people; empty where there is nothing to say."`
	Place     int32     `json:"place,omitempty" doc:"Place in the line for room, from 1. Absent for one that does not wait for room."`
	Pods      Pods      `json:"pods"`
	Members   []string  `json:"members" doc:"Where it runs, has run, or is to run."`
	Source    string    `json:"source,omitempty" doc:"GitSource that declares it, in the same namespace."`
	Placement string    `json:"placement,omitempty"`
	Commit    *Commit   `json:"commit,omitempty" doc:"That last changed it."`
	Since     time.Time `json:"since" doc:"Since when it is in this state."`
	Created   time.Time `json:"created"`
	// StaleSince is the oldest last news of the members that it may run on and that cannot be reached.
	StaleSince *time.Time `json:"staleSince,omitempty" doc:"What is shown is from then, because a member that it may run on cannot be reached."`
}

// Count is how many there are of something.
type Count struct {
	Value string `json:"value"`
	Count int    `json:"count"`
}

// Facets count MiniClusters by what they can be filtered by, each without its own filter. The most frequent come first.
type Facets struct {
	States     []Count `json:"states"`
	Namespaces []Count `json:"namespaces"`
	Sources    []Count `json:"sources" doc:"NAMESPACE/NAME."`
	Members    []Count `json:"members"`
}

// Rows is one page of a list.
type Rows struct {
	Items  []Row  `json:"items"`
	Total  int    `json:"total" doc:"How many match, on all pages."`
	Facets Facets `json:"facets"`
	Cursor string `json:"cursor" doc:"Of the stream of changes: what comes after it is not in this list."`
}

// Amount is of CPU in cores, memory in bytes, GPUs and pods.
type Amount struct {
	CPU    float64 `json:"cpu" doc:"Cores."`
	Memory float64 `json:"memory" doc:"Bytes."`
	GPUs   float64 `json:"gpus"`
}

// Room is what schedulable nodes have, and what is free of it.
type Room struct {
	Nodes int32  `json:"nodes"`
	Free  Amount `json:"free"`
	Total Amount `json:"total"`
}

// Stale is a member that cannot be reached.
type Stale struct {
	Member  string     `json:"member"`
	Since   *time.Time `json:"since,omitempty" doc:"Last news; absent where there never were any."`
	Message string     `json:"message"`
}

// Summary is the fleet at a glance, as far as the reader may see it.
type Summary struct {
	MiniClusters int       `json:"miniClusters"`
	Facets       Facets    `json:"facets"`
	Queue        int       `json:"queue" doc:"How many wait for room."`
	Members      *Ready    `json:"members,omitempty" doc:"Absent for those who may not see members."`
	Sources      Ready     `json:"sources"`
	Room         *Room     `json:"room,omitempty" doc:"Of all members that tell theirs."`
	Stale        []Stale   `json:"stale" doc:"Members that cannot be reached."`
	Fenced       string    `json:"fenced,omitempty" doc:"Why this hub does nothing, where it does not lead the fleet."`
	Cursor       string    `json:"cursor"`
	Now          time.Time `json:"now"`
}

// Ready is how many of all are in order.
type Ready struct {
	Ready int `json:"ready"`
	Total int `json:"total"`
}
