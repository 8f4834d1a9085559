package podhealth

import (
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// ReasonFailedCreate is that of a Job's events about pods that it could not create.
const ReasonFailedCreate = "FailedCreate"

const (
	// clockSkew is between the clocks of a member's API server and its controllers.
	clockSkew = 10 * time.Second
	// similarPrefix and createPrefix stand before the cause in a message of the Job controller, which tells it nowhere
	// else. They are cut off for people; nothing is decided by them.
	similarPrefix = "(combined from similar events): "
	createPrefix  = "Error creating: "
)

// Survey is what there is of a Job's pods. The zero Survey has seen none.
type Survey struct {
	worst    *fleet.PodIssue
	severity severity
	worstUID types.UID
	// indexes have a pod that has not succeeded, done ones have. They are counted where all was seen.
	indexes, done int
	all           bool
	newest        time.Time
}

// Add adds a page of the Job's pods, and says whether others are worth reading: not after the last page, nor once
// there is an issue.
func (s *Survey) Add(pods []corev1.Pod, last bool, now time.Time) (more bool) {
	counted := byIndex(pods)
	s.worst, s.severity = worstOf(counted, now)
	for _, pod := range counted {
		if pod.Status.Phase == corev1.PodSucceeded {
			s.done++
		} else {
			s.indexes++
		}
		if pod.CreationTimestamp.After(s.newest) {
			s.newest = pod.CreationTimestamp.Time
		}
		if s.worst != nil && pod.Name == s.worst.Pod {
			s.worstUID = pod.UID
		}
	}
	s.all = last
	if s.worst != nil {
		s.worst.AtLeast = !last
	}
	return !last && s.worst == nil
}

// Worst is the worst issue of the pods that there are, or nil.
func (s *Survey) Worst() *fleet.PodIssue { return s.worst }

// Missing is how many pods there are to be and are not. Of those that have succeeded some may be deleted, and
// others not yet counted by the Job.
func (s *Survey) Missing(job *batchv1.Job) int {
	size, st := int(ptr.Deref(job.Spec.Completions, 0)), &job.Status
	if !s.all {
		return size - int(st.Succeeded+st.Active+ptr.Deref(st.Terminating, 0))
	}
	return size - s.indexes - max(s.done, int(st.Succeeded))
}

// NotCreated is why the Job controller creates no more pods, if that is worse than what keeps the others from being
// ready. Missing is how many there are, warnings are the Job's of ReasonFailedCreate, and denied says that these may
// not be listed. A warning that is older than the newest pod is about something that is over.
func (s *Survey) NotCreated(missing int, warnings []corev1.Event, denied bool) *fleet.PodIssue {
	issue := &fleet.PodIssue{Reason: v1alpha1.ReasonPodsNotReady, Pods: missing}
	last := latest(warnings)
	switch {
	case denied:
		issue.Message = "why is in the Job's events on the member, which the credentials may not list"
	case last == nil || eventTime(last).Add(clockSkew).Before(s.newest):
		issue.Message = "the member has not said why"
	default:
		issue.Reason = ReasonFailedCreate
		issue.Message = strings.TrimPrefix(strings.TrimPrefix(last.Message, similarPrefix), createPrefix)
	}
	if s.worst == nil || issue.Reason == ReasonFailedCreate {
		return issue
	}
	return nil
}

// Starting returns the UID of the pod of the worst issue, where that is no more than that it has not started yet:
// its warnings may tell more.
func (s *Survey) Starting() (pod types.UID, ok bool) {
	return s.worstUID, s.worst != nil && s.severity == starting
}

// WithWarnings is the worst issue with what the latest warning of its pod says: a volume that cannot be mounted, say.
func (s *Survey) WithWarnings(warnings []corev1.Event) *fleet.PodIssue {
	if last := latest(warnings); last != nil {
		s.worst.Message = sentenceOf(s.worst.Message, sentenceOf(last.Reason, last.Message))
	}
	return s.worst
}

// latest is the event that was seen last, or nil.
func latest(events []corev1.Event) *corev1.Event {
	if len(events) == 0 {
		return nil
	}
	last := slices.MaxFunc(events, func(a, b corev1.Event) int { return eventTime(&a).Compare(eventTime(&b)) })
	return &last
}

// eventTime is when an event was last seen.
func eventTime(e *corev1.Event) time.Time {
	last := e.CreationTimestamp.Time
	for _, t := range []time.Time{e.FirstTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time} {
		if t.After(last) {
			last = t
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(last) {
		last = e.Series.LastObservedTime.Time
	}
	return last
}
