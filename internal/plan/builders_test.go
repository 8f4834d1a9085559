package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/runs"
)

// start is when every test begins.
var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) *metav1.Time { return &metav1.Time{Time: start.Add(d)} }

// ObjectWrapper builds a FleetMiniCluster.
type ObjectWrapper struct{ v1alpha1.FleetMiniCluster }

// MakeObject is hpc/NAME, two pods of one CPU each, on one member.
func MakeObject(name string) *ObjectWrapper {
	return &ObjectWrapper{v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "hpc", Name: name, UID: preferringAlpine(name), Generation: 1,
			CreationTimestamp: metav1.NewTime(start.Add(-time.Hour)), Annotations: map[string]string{},
		},
		Spec: v1alpha1.FleetMiniClusterSpec{
			OnChange:  v1alpha1.AfterCompletion,
			Placement: &v1alpha1.PlacementSpec{NumberOfClusters: ptr.To(int32(1))},
			MiniCluster: fluxv1alpha2.MiniClusterSpec{
				Size: 2,
				Containers: []fluxv1alpha2.MiniClusterContainer{{
					Image: "ghcr.io/example/app", Command: "true", RunFlux: true,
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
				}},
			},
		},
	}}
}

// preferringAlpine are UIDs with which a placement prefers alpine to basalt (TestAlpineIsPreferred).
func preferringAlpine(name string) types.UID { return types.UID("owner1-of-" + name) }

// Obj is what was built.
func (w *ObjectWrapper) Obj() *v1alpha1.FleetMiniCluster { return &w.FleetMiniCluster }

// With applies changes.
func (w *ObjectWrapper) With(changes ...func(*v1alpha1.FleetMiniCluster)) *ObjectWrapper {
	for _, c := range changes {
		c(&w.FleetMiniCluster)
	}
	return w
}

// Size is the number of pods.
func (w *ObjectWrapper) Size(n int32) *ObjectWrapper { return w.With(sized(n)) }

// Everywhere places it on all members.
func (w *ObjectWrapper) Everywhere() *ObjectWrapper {
	w.Spec.Placement.NumberOfClusters = nil
	return w
}

// Placed is the placement on record.
func (w *ObjectWrapper) Placed(members ...string) *ObjectWrapper {
	w.Status.Placement = &v1alpha1.PlacementDecision{
		Digest: digestOf(&w.FleetMiniCluster), Clusters: members, Wanted: 1, Open: w.Spec.Placement.NumberOfClusters == nil,
	}
	for _, m := range members {
		w.Status.Placement.Decisions = append(w.Status.Placement.Decisions, v1alpha1.ClusterDecision{Name: m, Reason: "as on record"})
	}
	return w
}

// Runs appends to the ledger. A run without a digest is for what the object asks for.
func (w *ObjectWrapper) Runs(all ...*RunWrapper) *ObjectWrapper {
	for _, r := range all {
		if r.Digest == "" {
			r.Digest = digestOf(&w.FleetMiniCluster)
		}
		w.Status.Runs = append(w.Status.Runs, r.Run)
	}
	return w
}

// Shown are members in the status.
func (w *ObjectWrapper) Shown(lines ...v1alpha1.ClusterStatus) *ObjectWrapper {
	w.Status.Clusters = append(w.Status.Clusters, lines...)
	return w
}

// Ready is the condition Ready, false for a reason.
func (w *ObjectWrapper) Ready(reason string) *ObjectWrapper {
	meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason})
	return w
}

func digestOf(f *v1alpha1.FleetMiniCluster) string {
	spec := f.Spec.MiniCluster.DeepCopy()
	spec.Default()
	return runs.Digest(f.Name, spec)
}

// Changes of a FleetMiniCluster.
func suspended(f *v1alpha1.FleetMiniCluster) { f.Spec.Suspend = true }
func held(f *v1alpha1.FleetMiniCluster)      { f.Annotations[v1alpha1.AnnotationHold] = "true" }
func resumed(f *v1alpha1.FleetMiniCluster)   { f.Spec.Suspend = false }
func replacing(f *v1alpha1.FleetMiniCluster) { f.Spec.OnChange = v1alpha1.Replace }
func changed(f *v1alpha1.FleetMiniCluster)   { f.Spec.MiniCluster.Containers[0].Command = "false" }
func sized(n int32) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Size = n }
}
func elastic(most int32) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.MaxSize = most }
}
func quorum(n int32) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.MinSize = n }
}
func rerun(token string) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) { f.Annotations[v1alpha1.AnnotationRerunAt] = token }
}
func cancelled(ids ...string) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) { f.Annotations[v1alpha1.AnnotationCancel] = strings.Join(ids, ",") }
}
func declared(ids ...string) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) {
		f.Annotations[v1alpha1.AnnotationRunGone] = strings.Join(ids, ", ")
	}
}
func retried(n int32) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) { f.Spec.Retries = n }
}
func ttl(seconds int32) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) { f.Spec.TTLSecondsAfterFinished = &seconds }
}
func onlyOn(names ...string) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) { f.Spec.Placement.ClusterNames = names }
}
func pendingTimeout(d time.Duration) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) { f.Spec.Placement.PendingTimeout = &metav1.Duration{Duration: d} }
}

// failover is after a minute.
func failover(fencing v1alpha1.Fencing) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) {
		f.Spec.Placement.Failover = &v1alpha1.Failover{AfterSeconds: 60, Fencing: fencing}
	}
}
func priority(n int32) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) { f.Spec.Priority = n }
}
func invalid(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Size = -1 }
func privileged(f *v1alpha1.FleetMiniCluster) {
	f.Spec.MiniCluster.Pod.HostIPC = true
}

// MemberWrapper builds a member.
type MemberWrapper struct{ plan.Member }

// MakeMember is connected, ready, and has room for anything.
func MakeMember(name string) *MemberWrapper {
	w := &MemberWrapper{plan.Member{
		Cluster: &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(start.Add(-time.Hour)), Annotations: map[string]string{}, Labels: map[string]string{},
		}, Spec: v1alpha1.MemberClusterSpec{Namespaces: v1alpha1.AllNamespaces()}},
		Connection: plan.Connection{
			Connected: true, Attempted: true, Ready: true, LastHeard: start, Since: start.Add(-time.Hour),
			UID: "uid-" + name, Namespace: "hpc", NextNamespace: "hpc", Room: nodeusage.Unknown,
		},
	}}
	ready(w.Cluster, metav1.ConditionTrue, v1alpha1.ReasonConnected, "")
	return w
}

func ready(m *v1alpha1.MemberCluster, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message})
}

// Obj is what was built.
func (w *MemberWrapper) Obj() plan.Member { return w.Member }

// Drained stops its runs.
func (w *MemberWrapper) Drained() *MemberWrapper {
	w.Cluster.Annotations[v1alpha1.AnnotationDrain] = "true"
	return w
}

// Suspended gets no new runs.
func (w *MemberWrapper) Suspended() *MemberWrapper {
	w.Cluster.Spec.Suspend = true
	return w
}

// Deleted is about to be unregistered.
func (w *MemberWrapper) Deleted(policy v1alpha1.DeletionPolicy) *MemberWrapper {
	w.Cluster.DeletionTimestamp, w.Cluster.Spec.DeletionPolicy = at(0), policy
	return w
}

// Unreachable was heard of some time before start at last.
func (w *MemberWrapper) Unreachable(before time.Duration) *MemberWrapper {
	w.Connection = plan.Connection{
		Attempted: true, Reason: v1alpha1.ReasonUnreachable, Message: "no answer", LastHeard: start.Add(-before), Since: start.Add(-before),
	}
	ready(w.Cluster, metav1.ConditionFalse, v1alpha1.ReasonUnreachable, "no answer")
	w.Cluster.Status.LastHeardTime = at(-before)
	return w
}

// NeverHeard has never answered.
func (w *MemberWrapper) NeverHeard() *MemberWrapper {
	w.Cluster.Status.LastHeardTime = nil
	return w
}

// Connecting is being connected for the first time since the hub was started.
func (w *MemberWrapper) Connecting() *MemberWrapper {
	w.Connection = plan.Connection{Attempted: true, Reason: v1alpha1.ReasonConnecting, Since: start}
	return w
}

// NeverAttempted is one that the hub has not come to since it was started.
func (w *MemberWrapper) NeverAttempted() *MemberWrapper {
	w.Connection = plan.Connection{}
	return w
}

// NotListed is connected, and its nodes and pods have not been listed yet.
func (w *MemberWrapper) NotListed(since time.Duration) *MemberWrapper {
	w.Connection.Room, w.Connection.Since = nodeusage.Pending, start.Add(since)
	return w
}

// ConnectedFor is since when it is connected.
func (w *MemberWrapper) ConnectedFor(d time.Duration) *MemberWrapper {
	w.Connection.Since = start.Add(-d)
	return w
}

// Observed says that what its nodes have free is known.
func (w *MemberWrapper) Observed() *MemberWrapper {
	w.Connection.Room = nodeusage.Known
	return w
}

// UID is another identity than its name's.
func (w *MemberWrapper) UID(uid string) *MemberWrapper {
	w.Connection.UID = uid
	return w
}

// Declared is a person's word that nothing of it exists any more.
func (w *MemberWrapper) Declared(when time.Duration) *MemberWrapper {
	w.Cluster.Annotations[v1alpha1.AnnotationMemberGone] = start.Add(when).Format(time.RFC3339)
	return w
}

// RunWrapper builds a line of the ledger.
type RunWrapper struct{ v1alpha1.Run }

// MakeRun is of a minute ago.
func MakeRun(id, member string, state v1alpha1.RunState) *RunWrapper {
	r := &RunWrapper{v1alpha1.Run{
		ID: id, Cluster: member, ClusterUID: "uid-" + member, State: state, StartTime: at(-time.Minute),
	}}
	if state != v1alpha1.RunStarting {
		r.JobUID = types.UID("job-" + id)
	}
	if state.Ended() {
		r.CompletionTime = at(-30 * time.Second)
	}
	return r
}

// Obj is what was built.
func (w *RunWrapper) Obj() *v1alpha1.Run { return &w.Run }

// Of is the digest that it was for.
func (w *RunWrapper) Of(digest string) *RunWrapper {
	w.Digest = digest
	return w
}

// Stopped says why.
func (w *RunWrapper) Stopped(why v1alpha1.StopReason) *RunWrapper {
	w.Stop = why
	return w
}

// Created says that its Job was seen.
func (w *RunWrapper) Created() *RunWrapper {
	w.JobUID = types.UID("job-" + w.ID)
	return w
}

// Lost is since when nothing was heard of it.
func (w *RunWrapper) Lost(since time.Duration) *RunWrapper {
	w.LostTime = at(since)
	return w
}

// RunningSince is when its pods began to run.
func (w *RunWrapper) RunningSince(since time.Duration) *RunWrapper {
	w.RunningTime = at(since)
	return w
}

// PendingFrom is since when none of its pods runs any more.
func (w *RunWrapper) PendingFrom(since time.Duration) *RunWrapper {
	w.PendingSince = at(since)
	return w
}

// Attempted is how many runs before it have failed.
func (w *RunWrapper) Attempted(n int32) *RunWrapper {
	w.Attempt = n
	return w
}

// JobWrapper builds a Job on a member.
type JobWrapper struct{ runs.Job }

// MakeJob is a released Job of two pods, none of which runs.
func MakeJob(runID string) *JobWrapper {
	return &JobWrapper{runs.Job{UID: "job-" + runID, RunID: runID, Size: 2, Pods: v1alpha1.PodCounts{Desired: 2, Active: 2}}}
}

// Size is the number of pods.
func (w *JobWrapper) Size(n int32) *JobWrapper {
	w.Job.Size, w.Pods.Desired, w.Pods.Active = n, n, n
	return w
}

// Running is how many pods do.
func (w *JobWrapper) Running() *JobWrapper {
	w.Pods.Ready = w.Job.Size
	return w
}

// Succeeded has ended well.
func (w *JobWrapper) Succeeded() *JobWrapper {
	w.Finished, w.Job.Succeeded, w.Pods = true, true, v1alpha1.PodCounts{Desired: w.Job.Size, Succeeded: w.Job.Size}
	return w
}

// Failed has ended badly.
func (w *JobWrapper) Failed() *JobWrapper {
	w.Finished, w.Pods = true, v1alpha1.PodCounts{Desired: w.Job.Size, Failed: w.Job.Size}
	return w
}

// Deleted is on its way out.
func (w *JobWrapper) Deleted() *JobWrapper {
	w.Deleting = true
	return w
}

// Suspended by MiniFleet.
func (w *JobWrapper) Suspended() *JobWrapper {
	w.Job.Suspended, w.SuspendedByUs, w.Pods.Active = true, true, 0
	return w
}

// SuspendedThere by a queue on the member.
func (w *JobWrapper) SuspendedThere() *JobWrapper {
	w.Job.Suspended, w.Pods.Active = true, 0
	return w
}

// Unreleased since it was created.
func (w *JobWrapper) Unreleased() *JobWrapper {
	w.Job.Unreleased = true
	return w.Suspended()
}

// Obj is what was built.
func (w *JobWrapper) Obj() *runs.Job { return &w.Job }

// Observation is the Job as it was read.
func (w *JobWrapper) Observation() *plan.Observation {
	return &plan.Observation{Job: &w.Job, Object: objectOf(&w.Job)}
}

// Proof is the Job as the member itself says.
func (w *JobWrapper) Proof() *eviction.Proof { return &eviction.Proof{Job: &w.Job} }

// none is a member that has nothing.
func none() *plan.Observation { return &plan.Observation{} }

// objectOf is a Job of pods with one CPU each.
func objectOf(j *runs.Job) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "run", UID: types.UID(j.UID), CreationTimestamp: metav1.NewTime(start.Add(-time.Minute))},
		Spec: batchv1.JobSpec{Completions: ptr.To(j.Size), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}},
		}}},
	}
}

// MakeSnapshot is of an object that names no Placement, with a queue that was restored an hour ago. The object is new, and
// its members have nothing on record.
func MakeSnapshot(f *v1alpha1.FleetMiniCluster, members ...*MemberWrapper) *plan.Snapshot {
	s := &plan.Snapshot{
		Object: f, Placement: f.Spec.Placement, Now: start, Facts: map[string]plan.Facts{}, HadRuns: ptr.To(false),
		Queue: plan.QueueState{Since: start.Add(-time.Hour), Reserved: map[string]queue.Reservation{}, Runs: map[string]int{}},
	}
	for _, m := range members {
		s.Members = append(s.Members, m.Member)
		s.Facts[m.Cluster.Name] = plan.Facts{Record: &plan.Record{}, NamespaceUse: &plan.NamespaceUse{}}
	}
	return s
}

// fact adds to what was read of a member.
func fact(s *plan.Snapshot, member string, change func(*plan.Facts)) {
	f := s.Facts[member]
	change(&f)
	s.Facts[member] = f
}

// observed has a member observed.
func observed(s *plan.Snapshot, member string, o *plan.Observation) {
	fact(s, member, func(f *plan.Facts) { f.Observed = o })
}

// viewed views the room of a member for an object, with CPUs on one node, of which some are used by others' pods.
func viewed(s *plan.Snapshot, q *queue.Queue, member string, cpus, used int) {
	room := roomWith(cpus, map[string]int{"": used})
	view := q.View(member, room, keyOf(s.Object))
	fact(s, member, func(f *plan.Facts) { f.Room, f.RoomBeside = view, view })
}

// anyRoom views the room of all members, about which nothing is known.
func anyRoom(s *plan.Snapshot) {
	for _, m := range s.Members {
		view := queue.New().View(m.Cluster.Name, &nodeusage.Room{State: nodeusage.Unknown}, keyOf(s.Object))
		fact(s, m.Cluster.Name, func(f *plan.Facts) { f.Room, f.RoomBeside = view, view })
	}
}

func keyOf(f *v1alpha1.FleetMiniCluster) queue.Key {
	return queue.Key{Namespace: f.Namespace, Name: f.Name}
}

// roomWith is that of one node with some CPUs, on which pods of one CPU each run, by run.
func roomWith(cpus int, pods map[string]int, without ...string) *nodeusage.Room {
	sums := nodeusage.New(true)
	sums.ReplaceNodes(slices.Values([]*corev1.Node{{
		ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "node"},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			"cpu": *resource.NewQuantity(int64(cpus), resource.DecimalSI), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110"),
		}},
	}}))
	var all []*nodeusage.Pod
	for run, n := range pods {
		for i := range n {
			all = append(all, nodeusage.PodFrom(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{UID: types.UID(run + string(rune('a'+i))), Labels: map[string]string{v1alpha1.LabelRun: run}},
				Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
				}}},
			}))
		}
	}
	sums.ReplacePods(slices.Values(all))
	return sums.Room(without...)
}

// decided is the decision where nothing has to be read.
func decided(t *testing.T, s *plan.Snapshot) *plan.Decision {
	t.Helper()
	d, reads := plan.Decide(s, nil)
	if reads.Any() {
		t.Fatalf("something is to be read: %+v", reads)
	}
	return d
}

// next is the round that follows from a decision where nothing has to be read.
func next(t *testing.T, s *plan.Snapshot, d *plan.Decision) *plan.Round {
	t.Helper()
	r, reads := plan.Next(s, d, d.Ledger)
	if reads.Any() {
		t.Fatalf("something is to be read: %+v", reads)
	}
	return &r
}

// target is that of alpine.
func target(t *testing.T, r *plan.Round) *plan.Target {
	t.Helper()
	for i := range r.Targets {
		if r.Targets[i].Name == "alpine" {
			return &r.Targets[i]
		}
	}
	t.Fatal("alpine is none of the targets")
	return nil
}
