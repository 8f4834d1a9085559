package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// maxNames is how many members a sentence names.
const maxNames = 3

// whyOf is one sentence on why a FleetMiniCluster is in the state of its row.
func whyOf(f *v1alpha1.FleetMiniCluster, r *Row, c *Context) string {
	return c.text(sentence(f, r, c), maxWhy)
}

func sentence(f *v1alpha1.FleetMiniCluster, r *Row, c *Context) string {
	switch v1alpha1.State(r.State) {
	case v1alpha1.StateSucceeded:
		return whySucceeded(f)
	case v1alpha1.StateFailed:
		return whyEnded(f, v1alpha1.RunFailed)
	case v1alpha1.StateCancelled:
		return whyEnded(f, v1alpha1.RunCancelled)
	case v1alpha1.StateUnknown:
		return whyUnknown(f, c)
	case v1alpha1.StateRunning, v1alpha1.StateStarting, v1alpha1.StateStopping:
		return whyLive(f, r)
	case v1alpha1.StateSuspended:
		return whySuspended(f)
	case v1alpha1.StateWaiting:
		return whyWaiting(f)
	case v1alpha1.StateInvalid:
		return cmp.Or(messageOf(f, v1alpha1.ConditionStalled), messageOf(f, v1alpha1.ConditionReady))
	default:
		return messageOf(f, v1alpha1.ConditionReady)
	}
}

func messageOf(f *v1alpha1.FleetMiniCluster, condition string) string {
	if c := meta.FindStatusCondition(f.Status.Conditions, condition); c != nil {
		return c.Message
	}
	return ""
}

// latestRun is the run that the line of a member is about.
func latestRun(f *v1alpha1.FleetMiniCluster, line *v1alpha1.ClusterStatus) *v1alpha1.Run {
	for i := range f.Status.Runs {
		if f.Status.Runs[i].ID == line.Run && line.Run != "" {
			return &f.Status.Runs[i]
		}
	}
	return nil
}

// latestRuns are those of the chosen members that are in one of these states.
func latestRuns(f *v1alpha1.FleetMiniCluster, wanted func(*v1alpha1.Run) bool) []*v1alpha1.Run {
	var out []*v1alpha1.Run
	for i := range f.Status.Clusters {
		line := &f.Status.Clusters[i]
		if r := latestRun(f, line); r != nil && wanted(r) && (f.Status.Placement == nil || isChosen(f, line.Name)) {
			out = append(out, r)
		}
	}
	return out
}

func membersOfRuns(runs []*v1alpha1.Run) []string {
	out := make([]string, 0, len(runs))
	for _, r := range runs {
		out = append(out, r.Cluster)
	}
	return out
}

// whySucceeded says how long the runs took, and where.
func whySucceeded(f *v1alpha1.FleetMiniCluster) string {
	done := latestRuns(f, func(r *v1alpha1.Run) bool { return r.State == v1alpha1.RunSucceeded })
	for _, r := range done {
		if r.RestoredTime != nil && r.Message != "" {
			return r.Message
		}
	}
	parts := make([]string, 0, len(done))
	var shortest, longest time.Duration
	for _, r := range done {
		took, ok := length(r)
		if !ok {
			parts = append(parts, "on "+r.Cluster)
			continue
		}
		if shortest == 0 || took < shortest {
			shortest = took
		}
		longest = max(longest, took)
		parts = append(parts, Length(took)+" on "+r.Cluster)
	}
	if len(parts) <= maxNames {
		return strings.Join(parts, ", ")
	}
	if longest == 0 {
		return fmt.Sprintf("on %d members", len(parts))
	}
	return fmt.Sprintf("%s to %s on %d members", Length(shortest), Length(longest), len(parts))
}

// length is how long a run that has ended has run, or has been live.
func length(r *v1alpha1.Run) (time.Duration, bool) {
	start := r.RunningTime
	if start == nil {
		start = r.StartTime
	}
	if start == nil || r.CompletionTime == nil {
		return 0, false
	}
	return max(r.CompletionTime.Sub(start.Time), 0), true
}

// Length says for people how long something takes, in one unit or two: 45 s, 12 min, 3 h 20 min, 2 d 4 h.
func Length(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 10*time.Minute:
		return two(d, time.Minute, "min", time.Second, "s")
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 24*time.Hour:
		return two(d, time.Hour, "h", time.Minute, "min")
	default:
		return two(d, 24*time.Hour, "d", time.Hour, "h")
	}
}

func two(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	if rest := d % large / small; rest > 0 {
		return fmt.Sprintf("%d %s %d %s", d/large, largeName, rest, smallName)
	}
	return fmt.Sprintf("%d %s", d/large, largeName)
}

// whyEnded is how the first of the runs has ended that are in a state.
func whyEnded(f *v1alpha1.FleetMiniCluster, state v1alpha1.RunState) string {
	runs := latestRuns(f, func(r *v1alpha1.Run) bool { return r.State == state })
	if len(runs) == 0 {
		return cmp.Or(messageOf(f, v1alpha1.ConditionReady), messageOf(f, v1alpha1.ConditionFailed))
	}
	r := runs[0]
	if state == v1alpha1.RunCancelled {
		return "cancelled on " + sanitize.Names(membersOfRuns(runs), maxNames)
	}
	out := r.Cluster + ": " + cmp.Or(r.Message, exitOf(r.Exit), "failed")
	if len(runs) > 1 {
		out = sanitize.Text(out, maxWhy-30) + fmt.Sprintf("; failed on %d more", len(runs)-1)
	}
	return out
}

func exitOf(e *v1alpha1.RunExit) string {
	switch {
	case e == nil:
		return ""
	case e.ExitCode != nil:
		return strings.TrimSuffix(fmt.Sprintf("exit code %d: %s", *e.ExitCode, e.Message), ": ")
	default:
		return cmp.Or(e.Message, e.Reason)
	}
}

func whyUnknown(f *v1alpha1.FleetMiniCluster, c *Context) string {
	var silent []string
	for i := range f.Status.Runs {
		if r := &f.Status.Runs[i]; !r.State.Ended() && isStale(f, r.Cluster, c) && !slices.Contains(silent, r.Cluster) {
			silent = append(silent, r.Cluster)
		}
	}
	if len(silent) == 0 {
		return messageOf(f, v1alpha1.ConditionReady)
	}
	return "no news from " + sanitize.Names(silent, maxNames) + "; the run there may go on"
}

// whyLive says what holds pods up, or where they run.
func whyLive(f *v1alpha1.FleetMiniCluster, r *Row) string {
	for i := range f.Status.Clusters {
		if line := &f.Status.Clusters[i]; line.Message != "" && line.State != "" && !line.State.Ended() {
			return line.Name + ": " + line.Message
		}
	}
	live := latestRuns(f, func(r *v1alpha1.Run) bool { return !r.State.Ended() })
	if len(live) == 0 {
		return messageOf(f, v1alpha1.ConditionReady)
	}
	verb := map[v1alpha1.State]string{
		v1alpha1.StateRunning: "runs on ", v1alpha1.StateStarting: "starts on ", v1alpha1.StateStopping: "is being stopped on ",
	}[v1alpha1.State(r.State)]
	return verb + sanitize.Names(membersOfRuns(live), maxNames)
}

func whySuspended(f *v1alpha1.FleetMiniCluster) string {
	switch {
	case f.Held():
		return "held by a person (annotation " + v1alpha1.AnnotationHold + ")"
	case f.Spec.Suspend:
		return "suspended (spec.suspend)"
	default:
		return messageOf(f, v1alpha1.ConditionReady)
	}
}

// whyWaiting is the nearest miss, where it waits for room, and else what the hub says.
func whyWaiting(f *v1alpha1.FleetMiniCluster) string {
	if p := f.Status.Placement; p != nil && len(p.Waiting) > 0 {
		out := p.Waiting[0].Name + ": " + p.Waiting[0].Reason
		if n := len(p.Waiting) - 1; n > 0 {
			out = sanitize.Text(out, maxWhy-40) + fmt.Sprintf("; no room on %d more either", n)
		}
		return out
	}
	return cmp.Or(messageOf(f, v1alpha1.ConditionReady), "has not been placed yet")
}
