package view

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Entry is a FleetMiniCluster with its row, as lists are made of it. Nobody changes one: it is shared.
type Entry struct {
	Object *v1alpha1.FleetMiniCluster
	Row    Row
	// WaitsForRoom says that it would begin, or go on, if there was room.
	WaitsForRoom bool
	// mentions says that Row.Why names one of another namespace.
	mentions bool
	// rank is that of Row.State in the order of attention: sorting thousands would find it out again and again.
	rank int
}

// EntryOf computes the row of a FleetMiniCluster, once for all readers.
func EntryOf(f *v1alpha1.FleetMiniCluster, c Context) *Entry {
	e := &Entry{Object: f, Row: RowOf(f, c)}
	e.rank = attention[e.Row.State]
	e.WaitsForRoom = waitsForRoom(f, e.Row.State)
	e.mentions = HideOthers(e.Row.Why, func(string) bool { return false }) != e.Row.Why
	return e
}

// LiveRuns are the ids of the runs that have not ended.
func (e *Entry) LiveRuns() []string {
	var out []string
	for i := range e.Object.Status.Runs {
		if r := &e.Object.Status.Runs[i]; !r.State.Ended() {
			out = append(out, r.ID)
		}
	}
	return out
}

// For is the row for one reader: with the place in the line for room, 0 for none, and without what concerns others.
func (e *Entry) For(sees Sees, place int32) Row {
	r := e.Row
	if e.mentions {
		r.Why = HideOthers(r.Why, sees)
	}
	if e.WaitsForRoom {
		r.Place = place
	}
	return r
}

// StateOf is the state that a row tells of a FleetMiniCluster, where these members, by name, cannot be reached.
func StateOf(f *v1alpha1.FleetMiniCluster, stale map[string]Stale) v1alpha1.State {
	return v1alpha1.State(stateOf(f, &Context{Stale: stale}))
}

// WaitsForRoom says whether a FleetMiniCluster in state Waiting stands in the line for room.
func WaitsForRoom(f *v1alpha1.FleetMiniCluster) bool {
	return waitsForRoom(f, string(v1alpha1.StateWaiting))
}

// waitsForRoom says whether a FleetMiniCluster in this state stands in the line for room.
func waitsForRoom(f *v1alpha1.FleetMiniCluster, state string) bool {
	if state != string(v1alpha1.StateWaiting) {
		return false
	}
	if p := f.Status.Placement; p != nil && len(p.Waiting) > 0 {
		return true
	}
	return slices.ContainsFunc(f.Status.Clusters, func(s v1alpha1.ClusterStatus) bool {
		return s.Reason == v1alpha1.ReasonInsufficientCapacity
	})
}

// RowOf computes the row of a FleetMiniCluster.
func RowOf(f *v1alpha1.FleetMiniCluster, c Context) Row {
	r := Row{
		Namespace: f.Namespace, Name: f.Name, UID: string(f.UID), Created: f.CreationTimestamp.Time,
		State: stateOf(f, &c), Sync: orUnknown(string(f.Status.Sync)), Health: string(f.Status.Health),
		Pods: podsOf(f), Members: membersOf(f), Source: f.Labels[v1alpha1.LabelSource], Placement: placementOf(f),
		Commit: c.commit(revisionOf(f)), StaleSince: staleSince(f, &c),
	}
	if r.Health == "" {
		r.Health = string(v1alpha1.Missing)
	}
	if r.StaleSince != nil {
		r.Sync = string(v1alpha1.SyncUnknown)
		// A success is on record and stays true, whatever becomes of the member.
		if r.Health != string(v1alpha1.Degraded) && r.State != string(v1alpha1.StateSucceeded) {
			r.Health = string(v1alpha1.HealthUnknown)
		}
	}
	r.Since = sinceOf(f, &r)
	r.Why = whyOf(f, &r, &c)
	return r
}

func orUnknown(s string) string {
	if s == "" {
		return string(v1alpha1.SyncUnknown)
	}
	return s
}

func placementOf(f *v1alpha1.FleetMiniCluster) string {
	if f.Spec.PlacementRef == nil {
		return ""
	}
	return f.Spec.PlacementRef.Name
}

func revisionOf(f *v1alpha1.FleetMiniCluster) string {
	if f.Status.Revision != "" {
		return f.Status.Revision
	}
	return f.Annotations[v1alpha1.AnnotationSourceRevision]
}

// stateOf is the state that the hub tells, or what follows from the rest of the status; except that what may be live on
// a member which cannot be reached is Unknown.
func stateOf(f *v1alpha1.FleetMiniCluster, c *Context) string {
	switch {
	case !f.DeletionTimestamp.IsZero():
		return string(v1alpha1.StateDeleting)
	case slices.ContainsFunc(f.Status.Runs, func(r v1alpha1.Run) bool { return !r.State.Ended() && isStale(f, r.Cluster, c) }):
		return string(v1alpha1.StateUnknown)
	case f.Status.State != "":
		return string(f.Status.State)
	default:
		return string(derivedState(f))
	}
}

// isStale says whether a member cannot be reached, or could not when the status of the FleetMiniCluster was made.
func isStale(f *v1alpha1.FleetMiniCluster, member string, c *Context) bool {
	if _, stale := c.Stale[member]; stale {
		return true
	}
	line := clusterOf(f, member)
	return line != nil && line.LastHeardTime != nil
}

func clusterOf(f *v1alpha1.FleetMiniCluster, member string) *v1alpha1.ClusterStatus {
	for i := range f.Status.Clusters {
		if f.Status.Clusters[i].Name == member {
			return &f.Status.Clusters[i]
		}
	}
	return nil
}

// derivedState is the state of a FleetMiniCluster whose status has none.
func derivedState(f *v1alpha1.FleetMiniCluster) v1alpha1.State {
	is := func(condition string) bool { return meta.IsStatusConditionTrue(f.Status.Conditions, condition) }
	live, isLive := furthestRun(f)
	failed := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionFailed)
	switch {
	case isLive:
		return live
	case is(v1alpha1.ConditionFailed) && failed.Reason == v1alpha1.ReasonRunCancelled:
		return v1alpha1.StateCancelled
	case is(v1alpha1.ConditionFailed):
		return v1alpha1.StateFailed
	case is(v1alpha1.ConditionStalled):
		return v1alpha1.StateInvalid
	case is(v1alpha1.ConditionComplete):
		return v1alpha1.StateSucceeded
	case f.Suspended():
		return v1alpha1.StateSuspended
	default:
		return v1alpha1.StateWaiting
	}
}

// furthestRun is the state of the live run that is furthest.
func furthestRun(f *v1alpha1.FleetMiniCluster) (state v1alpha1.State, isLive bool) {
	order := []v1alpha1.State{v1alpha1.StateRunning, v1alpha1.StateStarting, v1alpha1.StateStopping, v1alpha1.StateSuspended}
	at := len(order)
	for i := range f.Status.Runs {
		if r := &f.Status.Runs[i]; !r.State.Ended() {
			at = min(at, slices.Index(order, liveState(r)))
		}
	}
	if at == len(order) {
		return "", false
	}
	return order[at], true
}

// liveState is the state of a live run on a member that can be reached.
func liveState(r *v1alpha1.Run) v1alpha1.State {
	switch {
	case r.State == v1alpha1.RunStopping:
		return v1alpha1.StateStopping
	case r.SuspendedTime != nil:
		return v1alpha1.StateSuspended
	case r.State == v1alpha1.RunRunning && r.RunningTime != nil && r.PendingSince == nil:
		return v1alpha1.StateRunning
	default:
		return v1alpha1.StateStarting
	}
}

func isChosen(f *v1alpha1.FleetMiniCluster, member string) bool {
	return f.Status.Placement != nil && slices.Contains(f.Status.Placement.Clusters, member)
}

// podsOf sums over the chosen members.
func podsOf(f *v1alpha1.FleetMiniCluster) Pods {
	var sum Pods
	for i := range f.Status.Clusters {
		if s := &f.Status.Clusters[i]; f.Status.Placement == nil || isChosen(f, s.Name) {
			sum.Desired += s.Pods.Desired
			sum.Ready += s.Pods.Ready
			sum.Succeeded += s.Pods.Succeeded
			if s.State == v1alpha1.RunSucceeded {
				sum.Succeeded += s.Pods.Desired - s.Pods.Succeeded // as kubectl get counts: nobody waits for more than the lead
			}
			sum.Failed += s.Pods.Failed
		}
	}
	if sum == (Pods{}) {
		sum.Desired = sizeOf(f)
		if p := f.Status.Placement; p != nil {
			sum.Desired *= max(p.Wanted, 1)
		}
	}
	return sum
}

func sizeOf(f *v1alpha1.FleetMiniCluster) int32 { return max(f.Spec.MiniCluster.Size, 1) }

// membersOf are the chosen members, the most preferred first, and then others that have, or have had, runs.
func membersOf(f *v1alpha1.FleetMiniCluster) []string {
	out := []string{}
	if f.Status.Placement != nil {
		out = append(out, f.Status.Placement.Clusters...)
	}
	add := func(name string) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for i := range f.Status.Clusters {
		add(f.Status.Clusters[i].Name)
	}
	for i := range f.Status.Runs {
		add(f.Status.Runs[i].Cluster)
	}
	return out
}

// staleSince is the oldest last news of a member that is chosen, or has a live run, and cannot be reached.
func staleSince(f *v1alpha1.FleetMiniCluster, c *Context) *time.Time {
	var oldest *time.Time
	note := func(t *time.Time) {
		if t != nil && (oldest == nil || t.Before(*oldest)) {
			oldest = t
		}
	}
	consider := func(member string) {
		if s, ok := c.Stale[member]; ok {
			note(s.Since)
		}
		if line := clusterOf(f, member); line != nil && line.LastHeardTime != nil {
			note(&line.LastHeardTime.Time)
		}
	}
	if p := f.Status.Placement; p != nil {
		for _, member := range p.Clusters {
			consider(member)
		}
	}
	for i := range f.Status.Runs {
		if r := &f.Status.Runs[i]; !r.State.Ended() {
			consider(r.Cluster)
		}
	}
	return oldest
}

// sinceOf is since when a FleetMiniCluster is in the state of its row.
func sinceOf(f *v1alpha1.FleetMiniCluster, r *Row) time.Time {
	at := func(t *metav1.Time, ok bool) (time.Time, bool) {
		if !ok || t.IsZero() {
			return time.Time{}, false
		}
		return t.Time, true
	}
	var t time.Time
	var ok bool
	switch v1alpha1.State(r.State) {
	case v1alpha1.StateDeleting:
		t, ok = at(f.DeletionTimestamp, true)
	case v1alpha1.StateUnknown:
		if r.StaleSince != nil {
			return *r.StaleSince
		}
	case v1alpha1.StateSucceeded:
		t, ok = at(changeOf(f, v1alpha1.ConditionComplete))
	case v1alpha1.StateFailed, v1alpha1.StateCancelled:
		t, ok = at(changeOf(f, v1alpha1.ConditionFailed))
	case v1alpha1.StateInvalid:
		t, ok = at(changeOf(f, v1alpha1.ConditionStalled))
	case v1alpha1.StateRunning, v1alpha1.StateStarting, v1alpha1.StateStopping, v1alpha1.StateSuspended:
		t, ok = at(latestLive(f, v1alpha1.State(r.State)))
	}
	if !ok {
		t, ok = at(changeOf(f, v1alpha1.ConditionReady))
	}
	if !ok {
		return f.CreationTimestamp.Time
	}
	return t
}

func changeOf(f *v1alpha1.FleetMiniCluster, condition string) (*metav1.Time, bool) {
	c := meta.FindStatusCondition(f.Status.Conditions, condition)
	if c == nil {
		return nil, false
	}
	return &c.LastTransitionTime, true
}

// latestLive is when a live run has come into a state, as far as the ledger says, the latest of them.
func latestLive(f *v1alpha1.FleetMiniCluster, state v1alpha1.State) (*metav1.Time, bool) {
	var out *metav1.Time
	for i := range f.Status.Runs {
		r := &f.Status.Runs[i]
		if r.State.Ended() {
			continue
		}
		t := r.StartTime
		switch state {
		case v1alpha1.StateRunning:
			t = r.RunningTime
		case v1alpha1.StateSuspended:
			t = r.SuspendedTime
		}
		if t != nil && (out == nil || t.After(out.Time)) {
			out = t
		}
	}
	return out, out != nil
}
