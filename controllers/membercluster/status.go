package membercluster

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/internal/condition"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// report writes the status if it has changed, and events if the member was connected or lost, is drained, or has Jobs
// that nobody owns.
func (r *Reconciler) report(ctx context.Context, member *v1alpha1.MemberCluster, state clusters.State, d *drain, removed removal, jobs []v1alpha1.UnownedJob) error {
	before := member.DeepCopy()
	setReady(member, state, r.Now())
	setShard(member, state, r.Elsewhere.Shard)
	setDrained(member, state, d, removed, r.Now())
	setUnowned(member, jobs, r.Now())
	setClosed(member, r.Now())
	if equality.Semantic.DeepEqual(before.Status, member.Status) {
		return nil
	}
	if err := r.Client.Status().Update(ctx, member); err != nil {
		return client.IgnoreNotFound(err)
	}
	if r.sendEvent(before, member, v1alpha1.ConditionReady, "Connect") == v1alpha1.ReasonIdentityClaimed {
		r.tellClaimed(ctx, member)
	}
	r.sendEvent(before, member, v1alpha1.ConditionDrained, "Drain")
	r.sendEvent(before, member, v1alpha1.ConditionUnownedJobs, "Observe")
	r.sendEvent(before, member, v1alpha1.ConditionNotShared, "Observe")
	return nil
}

// sendEvent sends an event if a condition has another reason than before, and returns that.
func (r *Reconciler) sendEvent(before, member *v1alpha1.MemberCluster, kind, action string) string {
	was, is := conditions.Get(before, kind), conditions.Get(member, kind)
	if is == nil || was != nil && was.Reason == is.Reason {
		return ""
	}
	severity := corev1.EventTypeWarning
	if is.Status == metav1.ConditionTrue && kind != v1alpha1.ConditionUnownedJobs && kind != v1alpha1.ConditionNotShared || is.Reason == v1alpha1.ReasonConnecting || is.Reason == v1alpha1.ReasonRunsLive {
		severity = corev1.EventTypeNormal
	}
	r.Recorder.Eventf(member, nil, severity, is.Reason, action, "%s", sanitize.Text(noteOf(member, is), sanitize.MaxNote))
	return is.Reason
}

// noteOf is what an event says of a condition. Those who use namespace default can read the events of MemberClusters, and not
// the MemberClusters: whose runs are there is told by the status alone.
func noteOf(member *v1alpha1.MemberCluster, is *metav1.Condition) string {
	switch is.Reason {
	case v1alpha1.ReasonRunsLive, v1alpha1.ReasonOwnerNotFound, v1alpha1.ReasonDrained:
		what := map[string]string{
			v1alpha1.ReasonRunsLive: "runs are live there", v1alpha1.ReasonDrained: "no run of MiniFleet is live there",
			v1alpha1.ReasonOwnerNotFound: "live Jobs of this fleet there are of no FleetMiniCluster on this hub",
		}[is.Reason]
		return fmt.Sprintf("%s; condition %s of MemberCluster %s says more", what, is.Type, member.Name)
	default:
		return is.Message
	}
}

// setReady puts into the status what is known of the connection.
func setReady(member *v1alpha1.MemberCluster, state clusters.State, now time.Time) {
	s := &member.Status
	was := conditions.Get(member, v1alpha1.ConditionReady)
	s.Quarantine = state.Quarantine
	if state.Reason == v1alpha1.ReasonConnecting && was != nil {
		return // what was known stays until the attempt has succeeded or failed
	}
	s.ObservedGeneration = member.Generation
	setIdentity(member, state, now)
	if state.Version != "" {
		s.Version = state.Version
	}
	if !state.Ready || state.Capacity != nil {
		s.Capacity = state.Capacity // else it is on its way, and what was known stays
	}
	s.LastHeardTime = lastHeard(s.LastHeardTime, was, state)
	condition.Set(member, now, &metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: readiness(state), Reason: state.Reason, Message: state.Message,
	})
}

// lastHeard is nil for a member that answers. After a restart of the hub nothing is known but that the
// member answered when it was last found ready.
func lastHeard(before *metav1.Time, was *metav1.Condition, state clusters.State) *metav1.Time {
	var t metav1.Time
	switch {
	case state.Ready:
		return nil
	case !state.LastHeard.IsZero():
		t = metav1.NewTime(state.LastHeard).Rfc3339Copy()
	case before != nil:
		return before
	case was != nil && was.Status == metav1.ConditionTrue:
		t = was.LastTransitionTime
	default:
		return nil
	}
	return &t
}

// readiness is Unknown for a member that merely does not answer, False for one that cannot be used as it
// is registered.
func readiness(state clusters.State) metav1.ConditionStatus {
	switch {
	case state.Ready:
		return metav1.ConditionTrue
	case state.Reason == v1alpha1.ReasonConnecting, state.Reason == v1alpha1.ReasonUnreachable:
		return metav1.ConditionUnknown
	default:
		return metav1.ConditionFalse
	}
}

// setClosed sets the condition NotShared on a member from before it had to be said who may use it.
func setClosed(member *v1alpha1.MemberCluster, now time.Time) {
	if member.Spec.Namespaces != nil {
		conditions.Delete(member, v1alpha1.ConditionNotShared)
		return
	}
	condition.Set(member, now, conditions.TrueCondition(v1alpha1.ConditionNotShared, v1alpha1.ReasonNamespacesNotSaid,
		`spec.namespaces does not say which namespaces of the hub may use this member, so nothing new begins on it: kubectl patch mcl %s --type merge -p '{"spec":{"namespaces":{"from":"Names","names":["NAMESPACE"]}}}'`, member.Name))
}

// setDrained sets the condition Drained, or removes it from a member that is neither drained nor deleted. While
// nothing new is known, it stays as it is.
func setDrained(member *v1alpha1.MemberCluster, state clusters.State, d *drain, removed removal, now time.Time) {
	const kind = v1alpha1.ConditionDrained
	switch {
	case d == nil:
		conditions.Delete(member, kind)
	case d.invalid != nil:
		condition.Set(member, now, conditions.FalseCondition(kind, v1alpha1.ReasonInvalidAnnotation, "%s", d.invalid))
	case state.Reason == v1alpha1.ReasonConnecting && conditions.Has(member, kind):
	case len(d.live) > 0:
		condition.Set(member, now, conditions.FalseCondition(kind, v1alpha1.ReasonRunsLive, "%s", liveMessage(member, state, d)))
	case d.done:
		condition.Set(member, now, conditions.TrueCondition(kind, v1alpha1.ReasonDrained, "%s", drainedMessage(removed)))
	}
}

func drainedMessage(removed removal) string {
	const message = "no run of MiniFleet is live there"
	if removed.remaining == "" {
		return message
	}
	return message + "; " + removed.remaining
}

// liveMessage says which runs are live on a member, and what becomes of them.
func liveMessage(member *v1alpha1.MemberCluster, state clusters.State, d *drain) string {
	away := !state.Ready && state.Reason != v1alpha1.ReasonConnecting
	text := describeLive(d.live)
	if away {
		text = fmt.Sprintf("the member cannot be reached (%s), and of what was live there it is not known whether it still is: %s", state.Reason, text)
	}
	switch {
	case away && d.deleting:
		return text + "; the deletion waits for the member to return: " + orphanRemedy + " everything there as it is"
	case away:
		return text + "; it is stopped when the member returns; if you have made sure that it is gone, say so with the annotation " + v1alpha1.AnnotationMemberGone
	case d.deleting && member.Spec.DeletionPolicy != v1alpha1.DeletionDrain:
		return text + "; the deletion waits for that to end: set spec.deletionPolicy: Drain to stop what is live, Orphan to leave it"
	default:
		return text + "; being stopped now"
	}
}
