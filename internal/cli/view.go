package cli

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// brief is what is said of a FleetMiniCluster in one line. All texts can be shown.
type brief struct {
	state, why, pods, members, revision string
	// since is when it came into this state, zero where that is not known.
	since time.Time
}

// briefOf says how far a FleetMiniCluster is, and why in one sentence.
func briefOf(f *v1alpha1.FleetMiniCluster) brief {
	s := brief{
		state: string(f.Status.State), pods: "-", members: "-", revision: orDash(f.Status.Revision),
		since: since(f), why: "-",
	}
	if sum := f.Status.Summary; sum != nil {
		s.pods, s.members = orDash(sum.Pods), orDash(sum.Members)
	}
	if ready := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		s.why = orDash(ready.Message)
	}
	return s
}

// since is when the latest run began, ran or ended, or without one when Ready has changed last. Of what is Unknown it is
// when a member was last heard of.
func since(f *v1alpha1.FleetMiniCluster) time.Time {
	var at time.Time
	for i := range f.Status.Clusters {
		if heard := f.Status.Clusters[i].LastHeardTime; heard != nil && (at.IsZero() || heard.Time.Before(at)) {
			at = heard.Time
		}
	}
	if f.Status.State == v1alpha1.StateUnknown && !at.IsZero() {
		return at
	}
	at = time.Time{}
	for i := range f.Status.Runs {
		run := &f.Status.Runs[i]
		for _, t := range []*metav1.Time{run.StartTime, run.RunningTime, run.CompletionTime} {
			if t != nil && t.After(at) {
				at = t.Time
			}
		}
	}
	ready := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady)
	if at.IsZero() && ready != nil {
		at = ready.LastTransitionTime.Time
	}
	return at
}

// orDash makes text of others one line that can be shown, and never empty.
func orDash(text string) string { return cmp.Or(sanitize.Text(text, sanitize.MaxMessage), "-") }

// age is how long ago something was, as kubectl shows it.
func age(now, at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return duration.HumanDuration(now.Sub(at))
}

// stateReady is that of a condition Ready that is True.
const stateReady = "Ready"

// ready is the state of an object with a condition Ready, and its message.
func ready(conditions []metav1.Condition) (state, message string) {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if c == nil {
		return string(v1alpha1.StateUnknown), "-"
	}
	switch c.Status {
	case metav1.ConditionTrue:
		state = stateReady
	case metav1.ConditionFalse:
		state = "NotReady"
	default:
		state = string(v1alpha1.StateUnknown)
	}
	return state, orDash(c.Message)
}
