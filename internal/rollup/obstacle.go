package rollup

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Obstacle is why pods of a live run are not ready: the worst that there is.
type Obstacle struct {
	// Reason is a word that the hub knows, Message the member's, safe to be shown.
	Reason, Message string
	// Pod is the name of the first pod that this goes for; empty for pods that were not created.
	Pod string
	// Pods is how many there are; with AtLeast, there may be more.
	Pods    int
	AtLeast bool
}

// sentence says how many pods are ready, and why others are not.
func (o *Obstacle) sentence(p v1alpha1.PodCounts) string {
	out := fmt.Sprintf("%d of %d pods ready", p.Ready+p.Succeeded, p.Desired)
	if p.Succeeded > 0 {
		out += " or done"
	}
	least := ""
	if o.AtLeast {
		least = "at least "
	}
	switch {
	case o.Pod == "":
		out += fmt.Sprintf("; %d not created", o.Pods)
	case o.Pods > 1:
		out += fmt.Sprintf("; %s and %s%d more", o.Pod, least, o.Pods-1)
	default:
		out += "; " + o.Pod
	}
	if o.Reason != v1alpha1.ReasonPodsNotReady {
		out += ": " + o.Reason
	}
	if o.Message != "" {
		out += ": " + o.Message
	}
	return out
}

// backingOff is what kubelets say between attempts to pull an image. Older ones do not say why.
const backingOff = "Back-off pulling image "

// varying are the words of a message that may differ from one look to the next though nothing else does:
// counters, ages, names that end at random.
var varying = regexp.MustCompile(`[^\s"'(),;=:\[\]]*[0-9][^\s"'(),;=:\[\]]*`)

// Repeats says whether an obstacle is the one before in other words, so that those may stay.
func (o *Obstacle) Repeats(before *Obstacle) bool {
	if o == nil || before == nil {
		return o == before
	}
	a, b := *o, *before
	a.Message, b.Message = varying.ReplaceAllString(a.Message, "#"), varying.ReplaceAllString(b.Message, "#")
	if strings.Contains(o.Message, backingOff) {
		a.Message = b.Message
	}
	return a == b
}

// obstruct puts what keeps pods from being ready on the line of a member whose run is live, after what else
// there is to say.
func (m *Member) obstruct(s *v1alpha1.ClusterStatus) {
	if !m.obstructed() {
		return
	}
	if s.Message != "" {
		s.Message += "; " + m.Obstacle.sentence(s.Pods)
		return
	}
	s.Reason, s.Message = m.Obstacle.Reason, m.Obstacle.sentence(s.Pods)
}

func (m *Member) obstructed() bool {
	return m.Obstacle != nil && m.Job != nil && m.Run != nil && m.Run.State == v1alpha1.RunRunning
}

// onlyObstructed says whether a member's line tells of an obstacle and of nothing else.
func (m *Member) onlyObstructed() bool {
	return m.obstructed() && m.Step.Message == "" && m.Lost == nil && m.Failed == nil && !m.Connecting
}

// explained is of how many members a condition says more than the name.
const explained = 3

// running names the members with a live run, and what there is to say of the first of them.
func running(cs []v1alpha1.ClusterStatus) string {
	var out []string
	told, more := 0, 0
	for _, c := range slices.SortedFunc(slices.Values(cs), func(a, b v1alpha1.ClusterStatus) int { return cmp.Compare(a.Name, b.Name) }) {
		switch {
		case c.State.Ended():
			continue
		case c.Message == "":
			out = append(out, c.Name)
		case told < explained:
			told++
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
