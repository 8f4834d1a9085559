package fleet

import (
	"regexp"
	"strings"
)

// PodIssue is why pods of a live Job are not ready: the worst that there is.
type PodIssue struct {
	// Reason is one that Kubernetes has and that is known here, or ReasonPodsNotReady; never one of the member's
	// choice.
	Reason string
	// Message is the member's, unbounded and as it comes, until it has been sanitized.
	Message string
	// Pod is the name of the first pod that this goes for, by completion index; empty for pods that were
	// not created. Pods is how many there are; with AtLeast, there may be more.
	Pod     string
	Pods    int
	AtLeast bool
}

// backingOff is what kubelets say between attempts to pull an image. Older ones do not say why. This is
// text of Kubernetes, which has no field for it.
const backingOff = "Back-off pulling image "

// varying are the parts of a message that may differ from one answer to the next though nothing else does:
// counters, ages, names that end at random.
var varying = regexp.MustCompile(`[^\s"'(),;=:\[\]]*[0-9][^\s"'(),;=:\[\]]*`)

// Repeats says whether an issue is the one before, told differently, so that the earlier message may stay. Either
// may be nil.
func (i *PodIssue) Repeats(before *PodIssue) bool {
	if i == nil || before == nil {
		return i == before
	}
	a, b := *i, *before
	a.Message, b.Message = varying.ReplaceAllString(a.Message, "#"), varying.ReplaceAllString(b.Message, "#")
	if strings.Contains(i.Message, backingOff) {
		a.Message = b.Message
	}
	return a == b
}
