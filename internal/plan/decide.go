package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/placement"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
)

const (
	// maxTold is how many members a decision tells about that were not chosen, maxNamed how many a message names.
	maxTold, maxNamed = 20, 3
	// maxWhy is the length of what is told of a member that cannot be used, in bytes.
	maxWhy = 240
)

// Decision is what is decided once in a reconciliation: what is asked for, which members run it, and which runs are
// evicted.
type Decision struct {
	Request
	// Ledger is the snapshot's, less the runs that a person has declared gone, with those that members have told of.
	// Succeeded are the runs beside it that are remembered, Unasked the members that may hold runs which it has lost.
	Ledger    runs.Ledger
	Succeeded []v1alpha1.EndedRun
	Unasked   []string
	// Placement is which members are chosen; nil before the first.
	Placement *v1alpha1.PlacementDecision
	// Failover is what the Placement says of it, nil where it says nothing or is not known.
	Failover *v1alpha1.Failover
	// NoFailover says that the Placement is known, and lets no run start elsewhere that is proven gone.
	NoFailover bool
	// Evictions are the live runs that are evicted, Stay what is wrong with those that would be and have nowhere to go.
	Evictions map[string]eviction.Eviction
	Stay      map[string]string
	Variants  *Variants
	Line      Line
	// Reserve is the room to be reserved before anything else is done. Where that is refused, another decision has to be
	// made, on new views.
	Reserve []queue.Request
	Events  []Event
	// After is when to reconcile again although nothing happens; 0: not.
	After time.Duration

	asked asked
	// unknownRun is why a run may be live that the ledger does not know of; empty if none can be.
	unknownRun string
	// succeeded are members that have done before what is wanted, and are still busy with something else.
	succeeded []string
	// superseded are members on which what is about to start is not needed any more.
	superseded []string
}

// Decide makes the decision. Where something is to be read first, only that counts, and the decision is given to the
// next attempt as the one before, so that what does not depend on what was read is not made again. It is nil for the
// first.
func Decide(s *Snapshot, before *Decision) (*Decision, Reads) {
	var reads Reads
	d := before.again(s)
	if d == nil {
		d = begin(s, before, &reads)
	}
	switch {
	case d.Problem != nil || reads.Any():
		d.Variants = newVariants(s, d.Valid, nil)
	case s.Placement == nil: // what was decided before stays
		d.Problem = noPlacement(s)
		d.Variants = newVariants(s, d.Valid, nil)
	default:
		unplaced := *d
		unplaced.asked, unplaced.Events, unplaced.Evictions = asked{}, slices.Clone(d.Events), maps.Clone(d.Evictions)
		d.place(s, &reads)
		if d.asked.variants, d.asked.unplaced = d.Variants, nil; reads.onlyRooms() {
			d.asked.unplaced = &unplaced
		}
	}
	return d, reads
}

// begin decides all that comes before a placement.
func begin(s *Snapshot, before *Decision, reads *Reads) *Decision {
	d := &Decision{Ledger: runs.Ledger(s.Object.Status.Runs), Placement: s.Object.Status.Placement.DeepCopy()}
	if before.asksFor(s) {
		d.asked = before.asked
	} else {
		d.asked = asked{grants: s.Grants, confirmed: s.Confirmed}
		d.asked.request, d.asked.events = request(s, &d.asked.reads)
	}
	d.Request, d.Events, reads.Grants = d.asked.request, slices.Clone(d.asked.events), d.asked.reads.Grants
	if s.Queue.Problem != "" && s.Object.Spec.Priority > s.Queue.MaxPriority {
		d.Events = append(d.Events, Event{Type: warning, Reason: v1alpha1.ReasonInvalidMaxPriority, Action: "Order", Message: s.Queue.Problem})
	}
	d.giveUpDeclared(s)
	d.catchUp(s, reads)
	d.Evictions = eviction.Drained(d.Ledger, s.clusters())
	return d
}

// again is the decision as it was before it was placed, if no more was read since than what members have free; nil if more was.
func (d *Decision) again(s *Snapshot) *Decision {
	if !d.asksFor(s) || d.asked.unplaced == nil {
		return nil
	}
	out := *d.asked.unplaced
	out.asked, out.Events, out.Evictions = d.asked, slices.Clone(out.Events), maps.Clone(out.Evictions)
	return &out
}

// asksFor says that there was a decision, and that what the object asks for is what it was then.
func (d *Decision) asksFor(s *Snapshot) bool {
	return d != nil && d.asked.grants == s.Grants && d.asked.confirmed == s.Confirmed
}

// asked is what follows from the object and its grants alone, and what an attempt leaves for the next.
type asked struct {
	grants    *grant.Set
	confirmed bool
	request   Request
	events    []Event
	reads     Reads
	// variants are those of the placement, nil before it was asked for.
	variants *Variants
	// members are those that the placement is about, nil before it was asked for.
	members *candidates
	// unplaced is the decision before it was placed, nil where more is to be read than what members have free.
	unplaced *Decision
}

// PlacementName is the name of the Placement that a FleetMiniCluster refers to, or empty.
func PlacementName(f *v1alpha1.FleetMiniCluster) string {
	if f.Spec.PlacementRef == nil {
		return ""
	}
	return f.Spec.PlacementRef.Name
}

// place chooses members. Those that have a run for what is wanted stay chosen.
func (d *Decision) place(s *Snapshot, reads *Reads) {
	spec := s.Placement
	d.Failover, d.NoFailover = spec.Failover, spec.Failover == nil || spec.Failover.Fencing == v1alpha1.FenceManual
	d.override(s, reads)
	overdue := d.overdue(s, reads)
	if reads.Any() {
		return
	}
	if d.asked.members == nil {
		d.asked.members = candidatesOf(s)
	}
	members := d.asked.members
	in := placement.Input{Key: string(s.Object.UID), Spec: *spec, Candidates: members.avoiding(d.Ledger, d.Wanted)}
	d.Line.Unknown = slices.Clone(members.unknown)
	if d.Placement != nil {
		in.Prefer, in.Kept = d.Placement.Clusters, d.Placement.Decisions
	}
	in.Keep = d.keepers(in.Prefer)
	if !d.Wanted.Suspend { // what does not begin needs no room
		in.Room = func(member string) placement.Room { return d.room(s, member, &d.Line, reads) }
	}
	chosen, err := placement.Decide(in)
	if err != nil {
		d.Problem, d.Stalled = &rollup.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: "placement: " + err.Error()}, true
		return
	}
	if len(overdue) > 0 {
		var moved map[string]eviction.Eviction
		moved, d.Stay, in, chosen = eviction.Move(overdue, in, chosen)
		for name, e := range moved {
			d.Evictions[name] = e
		}
		if len(d.Stay) > 0 {
			d.After = After(d.After, s.intervals().Move)
		}
	}
	if reads.Any() {
		s.readMore(chosen.Next, members.fitness, reads)
		return
	}
	if len(chosen.Clusters) == 0 && chosen.Matching == 0 {
		d.Problem = &rollup.Problem{Reason: v1alpha1.ReasonNoClusterMatches, Message: noMatch(s, spec, chosen)}
	}
	d.record(spec, chosen, members.fitness)
	if len(d.Placement.Clusters) < int(d.Placement.Wanted) {
		d.Placement.NotPermitted = int32(s.own() - s.usable()) //nolint:gosec // far fewer than 2³¹ members
	}
	d.reserve(s, in.Keep, reads)
}

// readsAhead is how many times as many rooms are asked for as are known.
const readsAhead = 32

// readMore asks for the room of members whose turn may come, where that of some is known and was not enough: one after the
// other, a fleet without room would take as many attempts as it has members.
func (s *Snapshot) readMore(next []string, members map[string]fitness, reads *Reads) {
	known := 0
	for name := range s.Facts {
		if s.Facts[name].Room != nil {
			known++
		}
	}
	for _, name := range next {
		if len(reads.Members) >= readsAhead*known {
			return
		}
		if members[name].unfit == "" && s.Facts[name].Room == nil {
			reads.add(name, ReadRoom)
		}
	}
}

// override makes the variants of the placement. What is denied is denied once the hub itself was asked: its cache may not
// show yet what the source has declared.
func (d *Decision) override(s *Snapshot, reads *Reads) {
	if d.Variants = d.asked.variants; d.Variants == nil {
		d.Variants = newVariants(s, d.Valid, s.Placement.Overrides)
	}
	if len(s.Placement.Overrides) == 0 {
		return
	}
	if s.Grants == nil || !s.Confirmed && d.Variants.denied(s.Members) {
		reads.Grants = true
	}
}

// keepers are the members that keep what is wanted: they have run it, or may have begun to, and those that are busy with
// something else since.
func (d *Decision) keepers(prefer []string) []string {
	keep := eviction.Keepers(d.Ledger, d.Wanted, prefer, d.Evictions)
	for _, name := range d.succeeded {
		if _, evicted := d.Evictions[name]; !evicted && !slices.Contains(keep, name) {
			keep = append(keep, name)
		}
	}
	return slices.DeleteFunc(keep, func(name string) bool { return slices.Contains(d.superseded, name) })
}

// record puts a placement on record.
func (d *Decision) record(spec *v1alpha1.PlacementSpec, chosen placement.Decision, members map[string]fitness) {
	next := &v1alpha1.PlacementDecision{
		Digest: d.Wanted.Digest, RerunAt: d.Wanted.RerunAt, Clusters: chosen.Clusters,
		Wanted:    int32(chosen.Wanted), //nolint:gosec // far fewer than 2³¹ members
		Decisions: d.Variants.recorded(chosen.Reasons, d.Ledger, d.Wanted),
		Open:      spec.NumberOfClusters == nil, Rejected: chosen.Rejected[:min(len(chosen.Rejected), maxTold)],
		Waiting: chosen.Waiting[:min(len(chosen.Waiting), maxTold)],
	}
	d.Line.Lacking = slices.Clone(chosen.HeldBack) // it keeps its place in the line of each
	for _, w := range slices.Concat(chosen.Awaited, chosen.Waiting) {
		d.Line.Lacking = append(d.Line.Lacking, w.Name)
	}
	d.Line.Awaiting = awaiting(spec, chosen.Awaited)
	for _, m := range chosen.Awaited {
		d.After = After(d.After, members[m.Name].left)
	}
	for _, name := range chosen.Clusters {
		d.After = After(d.After, members[name].left) // it may have to go elsewhere
	}
	if next.Clusters == nil {
		next.Clusters = []string{}
	}
	if tellsPlaced(d.Placement, next) {
		d.Events = append(d.Events, Event{Type: normal, Reason: v1alpha1.ReasonPlaced, Action: "Place", Message: "placed on " + strings.Join(next.Clusters, ", ")})
	}
	d.Placement = next
	if len(next.Clusters) < int(next.Wanted) {
		d.Line.Notify = d.Line.Unknown
	}
}

// tellsPlaced says whether an event tells of a placement: of one that had to wait, or that is another than before. One that is
// made at once is told by the status, with its time, and an event would be one more write for each MiniCluster that merely runs.
func tellsPlaced(before, after *v1alpha1.PlacementDecision) bool {
	return before != nil && len(after.Clusters) > 0 && !slices.Equal(before.Clusters, after.Clusters)
}

// awaiting tells of the members for which places are left empty, though not where every member is to be chosen, and none
// takes the place of another.
func awaiting(spec *v1alpha1.PlacementSpec, members []v1alpha1.RejectedCluster) string {
	if spec.NumberOfClusters == nil || len(members) == 0 {
		return ""
	}
	return fmt.Sprintf("waits, for no longer than %s, until it is known what is free; %s", roomTimeout, reasons(members, ""))
}

// reasons names the first few members with the reasons why they were not chosen, and says where there are more.
func reasons(members []v1alpha1.RejectedCluster, where string) string {
	var parts []string
	for i, m := range members {
		if i == maxNamed {
			parts = append(parts, fmt.Sprintf("and %d more%s", len(members)-i, where))
			break
		}
		parts = append(parts, m.Name+": "+m.Reason)
	}
	return strings.Join(parts, "; ")
}

// noMatch says why no member may be chosen, and what to do.
func noMatch(s *Snapshot, spec *v1alpha1.PlacementSpec, d placement.Decision) string {
	usable, all, others := s.usable(), s.own(), ""
	if all == 0 && s.Elsewhere > 0 {
		return fmt.Sprintf("%s has no MemberClusters, and %d are of other shards: give members its label (kubectl label --overwrite mcl NAME %s), or this FleetMiniCluster and its Placement that of another",
			v1alpha1.ShardName(s.Shard), s.Elsewhere, v1alpha1.ShardArgument(s.Shard))
	}
	if s.Elsewhere > 0 {
		others = fmt.Sprintf("; %d more are of other shards", s.Elsewhere)
	}
	if n := all - usable; n > 0 {
		others += fmt.Sprintf("; %d more do not let this namespace use them, which their administrator says (spec.namespaces)", n)
	}
	switch {
	case usable == 0 && all > 0:
		return fmt.Sprintf("this namespace may use none of %d MemberClusters: their administrator says who may (spec.namespaces)", all)
	case d.Unselected == len(d.Rejected):
		return fmt.Sprintf("none of %d MemberClusters has labels that match the selector %s: change the placement or label a member (`kubectl get mcl --show-labels`)%s",
			usable, metav1.FormatLabelSelector(&spec.ClusterSelector), others)
	default:
		return fmt.Sprintf("none of %d MemberClusters may be chosen: change the placement, or labels or taints of a member; %s%s",
			usable, reasons(d.Rejected, ", see status.placement.rejected"), others)
	}
}

// reserve asks for the room of what is about to begin.
func (d *Decision) reserve(s *Snapshot, keep []string, reads *Reads) {
	hold := d.hold()
	if d.Problem != nil || d.Wanted.Suspend || hold != "" && !d.vacating() {
		return
	}
	for _, name := range d.Placement.Clusters {
		last := d.Ledger.Last(name)
		unknown := slices.Contains(d.Line.Unknown, name) && hold == ""
		if slices.Contains(keep, name) || unknown || last != nil && !last.State.Ended() {
			continue
		}
		gang, err := d.Variants.Gang(name)
		if err != nil {
			continue
		}
		view := s.Facts[name].Room
		if view == nil {
			reads.add(name, ReadRoom)
			continue
		}
		d.Reserve = append(d.Reserve, queue.Request{View: view, Reservation: queue.Reservation{Gang: gang}})
	}
}
