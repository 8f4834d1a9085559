package rollup

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// readyMessage says how many pods are ready, and why others are not.
func readyMessage(i *fleet.PodIssue, p v1alpha1.PodCounts) string {
	out := fmt.Sprintf("%d of %d pods ready", p.Ready+p.Succeeded, p.Desired)
	if p.Succeeded > 0 {
		out += " or done"
	}
	least := ""
	if i.AtLeast {
		least = "at least "
	}
	switch {
	case i.Pod == "":
		out += fmt.Sprintf("; %d not created", i.Pods)
	case i.Pods > 1:
		out += fmt.Sprintf("; %s and %s%d more", i.Pod, least, i.Pods-1)
	default:
		out += "; " + i.Pod
	}
	if i.Reason != v1alpha1.ReasonPodsNotReady {
		out += ": " + i.Reason
	}
	if i.Message != "" {
		out += ": " + i.Message
	}
	return out
}

// showPodIssue puts what keeps pods from being ready on the line of a member whose run is live, after what else
// there is to say.
func (m *Member) showPodIssue(s *v1alpha1.ClusterStatus) {
	if !m.hasPodIssue() {
		return
	}
	if m.Step.Explained() {
		s.Message += "; " + readyMessage(m.PodIssue, s.Pods)
		return
	}
	s.Reason, s.Message = m.PodIssue.Reason, readyMessage(m.PodIssue, s.Pods)
}

func (m *Member) hasPodIssue() bool {
	return m.PodIssue != nil && m.Job != nil && m.Run != nil && m.Run.State == v1alpha1.RunRunning
}

// onlyPodIssue says whether a member's line tells of an issue of its pods and of nothing else.
func (m *Member) onlyPodIssue() bool {
	return m.hasPodIssue() && !m.Step.Explained() && m.Lost == nil && m.Failed == nil && !m.Connecting
}

// mostExplained is of how many members a condition says more than the name.
const mostExplained = 3

// running names the members with a live run, and what there is to say of the first of them.
func running(cs []v1alpha1.ClusterStatus) string {
	var out []string
	explained, more := 0, 0
	for _, c := range slices.SortedFunc(slices.Values(cs), func(a, b v1alpha1.ClusterStatus) int { return cmp.Compare(a.Name, b.Name) }) {
		switch {
		case c.State.Ended():
			continue
		case c.Message == "":
			out = append(out, c.Name)
		case explained < mostExplained:
			explained++
			out = append(out, c.Name+" ("+c.Message+")")
		default:
			more++
			out = append(out, c.Name)
		}
	}
	s := "running on " + join(out)
	if more > 0 {
		s += fmt.Sprintf("; for %d more see status.clusters", more)
	}
	return s
}
