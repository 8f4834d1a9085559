// Package plan decides what one reconciliation of a FleetMiniCluster is about to do. It is pure: nothing in it reads a
// cluster, takes a lock, or writes to its input.
//
// In comes a Snapshot: the object, its ledger, the members, and what has been read of them so far. Out come a Decision
// (what is asked for, which members run it, which runs are evicted) and, from that, Rounds (what is to be done on each
// member, what is to be written into the ledger, what is to be told). Where a decision needs to know more, it names
// what is to be Read, and is made again when that is in the snapshot; so the snapshot holds no more than is needed,
// and a test can see that nothing is decided without its proof.
//
//	         ┌─ Read ─┐                ┌──────── Read ────────┐
//	         v        │                v                      │
//	Snapshot ── Decide ── Reserve ── Next ── ledger ── actions ── Finish ── Status
//	                                   ^                 │
//	                                   └──── outcomes ───┘
//
//	request.go      what is asked for, and whether it is valid and allowed
//	variant.go      what overrides make of it on a member
//	recover.go      what members know of runs and the ledger does not; unasked.go which of them have to be asked before anything
//	                may begin, and repeat.go what has succeeded already
//	decide.go       which members are chosen: candidates.go says who can be, evictions.go which runs are evicted
//	hold.go         why no new run may begin anywhere
//	target.go       which members matter, and what is known of each
//	next.go         the next step on each member
//	admission.go    whether there is room for it
//	record.go       what the steps write into the ledger
//	upkeep.go       what is to be seen to beside a run
//	finish.go       how live runs get on, the status and its events
//	reservations.go what is reserved in the queue, and the place in its line
//	intervals.go    when it is reconciled again although nothing happens
//	restore.go      what was reserved before the hub was restarted
//
// The rules of how often something runs are those of package runs, which is asked about one member at a time. Which
// members are chosen is decided by placement, who has to leave by eviction, what fits by queue and fit, and how it all
// is told by rollup.
package plan

import (
	"slices"
	"sort"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
)

// Snapshot is all that decisions about one FleetMiniCluster depend on.
type Snapshot struct {
	// Object is the FleetMiniCluster as it was read.
	Object *v1alpha1.FleetMiniCluster
	// NamespaceLabels are those of the object's namespace, by which members are open to it or not.
	NamespaceLabels map[string]string
	// Placement is nil where the object names a Placement that is not there.
	Placement *v1alpha1.PlacementSpec
	// Members are the registered ones of the shard, by name, and those of others that may hold something of the object: their
	// Connection has the reason OtherShard.
	Members []Member
	// Shard is the object's; empty for none. Elsewhere is how many members are of others, PlacementShard that of the Placement
	// where it is another one.
	Shard          string
	Elsewhere      int
	PlacementShard *string
	// Unasked are the names, sorted, of members, registered or not, of which it is not known what they hold of this
	// fleet: another hub has used them, and this one has not read them yet.
	Unasked []string
	Queue   QueueState
	// Now is the time.
	Now time.Time
	// Intervals are the default ones where this is zero.
	Intervals Intervals

	// Grants is what the object may use beyond its own pods, nil before it was read; Confirmed says that the hub
	// itself was asked, and not its cache.
	Grants    *grant.Set
	Confirmed bool
	// Policy is what takes a permission on this hub.
	Policy policy.Rules
	// HadRuns says whether the hub holds what only a run leaves there, beside the ledger; nil before it was read.
	HadRuns *bool
	// Facts are what has been read of members, and what actions there have come to, by member.
	Facts map[string]Facts
}

// QueueState is what the queue has of this FleetMiniCluster, and how many runs are live on each member.
type QueueState struct {
	Since    time.Time
	Reserved map[string]queue.Reservation
	Pending  *queue.Entry
	Runs     map[string]int
	// MaxPriority is the highest priority that counts among those of other namespaces, Problem what is wrong with what the
	// namespace says of it; empty if nothing is.
	MaxPriority int32
	Problem     string
}

// Member is a member of the fleet, and how the hub is connected to it.
type Member struct {
	Cluster    *v1alpha1.MemberCluster
	Connection Connection
}

// Connection is how the hub is connected to a member.
type Connection struct {
	// Connected says that the member can be asked.
	Connected bool
	// Attempted says that a connection was ever attempted since the hub was started. The following are of the latest
	// attempt.
	Attempted       bool
	Ready           bool
	Reason, Message string
	// LastHeard is the time of the last answer; zero before the first. Since is when the attempt began, or, of a
	// member that was lost, when it was connected again.
	LastHeard, Since time.Time

	// UID is the identity of a member that is connected, Namespace the one there that the objects of this FleetMiniCluster
	// are in, NextNamespace the one that its next run is to be in; empty if there is none.
	UID, Namespace, NextNamespace string
	// Room says whether it is known what the member has free, RoomError what it answered instead.
	Room      nodeusage.State
	RoomError string
}

// Facts are what has been read of one member, as far as it has been, and what actions there have come to.
type Facts struct {
	// Cached is the Job as the cache shows it, whether or not the status knows of it, Proof as the member itself says.
	// Record is what the member has on record of runs that have ended.
	Cached *Observation
	Proof  *eviction.Proof
	Record *Record
	// Observed is what steps are decided on: from the cache, and its absence confirmed by the member where a run is
	// live.
	Observed *Observation
	// Exit is how a failed Job's first pod ended; its RunExit is nil where the member cannot tell any more.
	Exit *Exit
	// NamespaceUse is whether the namespace of the member may be used.
	NamespaceUse *NamespaceUse
	// References is whether all that the MiniCluster names can be had on the member.
	References *References
	// Room is what is free with this FleetMiniCluster's own pods counted as ended, RoomBeside with these in place.
	Room, RoomBeside *queue.View

	// Begun says that the latest run was written in this reconciliation, so that nothing of it can be on the member.
	Begun bool
	// Done says that nothing more can be done on the member in this reconciliation.
	Done bool
	// Unreachable and Failed are why not.
	Unreachable, Failed *rollup.Problem
	// Step replaces the step, once it was carried out.
	Step *runs.Step
	// Admitted is the gang that a live run was given room for, until its Job is seen to have it.
	Admitted bool
	// Removed says that nothing is left on the member.
	Removed bool
}

// Observation is what a member has under the MiniCluster's name.
type Observation struct {
	// Job is nil where there is none, Object what it was read from.
	Job    *runs.Job
	Object *batchv1.Job
	// Pod is the name of a pod of the latest run that has not ended, where its Job is not there; Lead is how its first pod
	// has ended, where none is left that has not.
	Pod  string
	Lead *runs.PodEnd
	// Conflict is set where somebody else's Job has the name.
	Conflict *rollup.Problem
}

// Exit is how a failed run ended.
type Exit struct{ *v1alpha1.RunExit }

// NamespaceUse is nil Denied where the namespace of a member may be used.
type NamespaceUse struct{ Denied *rollup.Problem }

// References is nil Missing where everything can be had. Waiting says that a run waits for nothing else.
type References struct{ Missing *rollup.Problem }

// Fact is something that can be read of a member.
type Fact string

// What can be read. Each fills the field of Facts of the same name.
const (
	ReadCached     Fact = "Cached"
	ReadProof      Fact = "Proof"
	ReadRecord     Fact = "Record"
	ReadObserved   Fact = "Observed"
	ReadConfirmed  Fact = "Confirmed" // Observed, and an absence confirmed by the member
	ReadExit       Fact = "Exit"
	ReadNamespace  Fact = "Namespace" // NamespaceUse
	ReadReferences Fact = "References"
	ReadRoom       Fact = "Room"
	ReadRoomBeside Fact = "RoomBeside"
)

// Reads is what is to be read before a decision can be made.
type Reads struct {
	// Grants says that the grants are to be read, from the hub itself if they were read from its cache.
	Grants bool
	// HadRuns says that the fact of this name in the Snapshot is.
	HadRuns bool
	// Members are facts by member.
	Members map[string][]Fact
}

// Any says whether anything is to be read.
func (r Reads) Any() bool { return r.Grants || r.HadRuns || len(r.Members) > 0 }

// onlyRooms says that nothing is to be read but what members have free.
func (r Reads) onlyRooms() bool {
	if r.Grants || r.HadRuns {
		return false
	}
	for _, facts := range r.Members {
		if len(facts) != 1 || facts[0] != ReadRoom {
			return false
		}
	}
	return true
}

func (r *Reads) add(member string, f Fact) {
	if r.Members == nil {
		r.Members = map[string][]Fact{}
	}
	for _, have := range r.Members[member] {
		if have == f {
			return
		}
	}
	r.Members[member] = append(r.Members[member], f)
}

// Event is told once the status that it speaks of is written.
type Event struct {
	// Type is Normal or Warning.
	Type, Reason, Action string
	// Member and Run are what it is about, if anything.
	Member, Run string
	Message     string
}

// Types of events.
const (
	normal  = "Normal"
	warning = "Warning"
)

// After is the sooner of two times to reconcile again; 0 is never.
func After(a, b time.Duration) time.Duration {
	switch {
	case b <= 0:
		return a
	case a <= 0 || b < a:
		return b
	default:
		return a
	}
}

func (s *Snapshot) rank() queue.Rank { return rankOf(s.Object) }

func rankOf(f *v1alpha1.FleetMiniCluster) queue.Rank {
	return queue.Rank{Priority: f.Spec.Priority, Created: f.CreationTimestamp.Time, Key: queue.Key{Namespace: f.Namespace, Name: f.Name}}
}

// Member is the registered member of this name, or nil. It is found at once where they are sorted by name.
func (s *Snapshot) Member(name string) *Member {
	i := sort.Search(len(s.Members), func(i int) bool { return s.Members[i].Cluster.Name >= name })
	if i == len(s.Members) || s.Members[i].Cluster.Name != name {
		i = slices.IndexFunc(s.Members, func(m Member) bool { return m.Cluster.Name == name })
	}
	if i < 0 {
		return nil
	}
	return &s.Members[i]
}

func (s *Snapshot) clusters() []*v1alpha1.MemberCluster {
	out := make([]*v1alpha1.MemberCluster, len(s.Members))
	for i := range s.Members {
		out[i] = s.Members[i].Cluster
	}
	return out
}
