package clusters

import (
	"context"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// Bounds of one look at why pods are not ready: how many pods are listed at once and how often, and how many
// events.
const (
	podPage      = 500
	maxPodPages  = 10
	maxWarnings  = 100
	lookTimeout  = probeTimeout
	clockSpread  = 10 * time.Second // between the clocks of a member's API server and its controllers
	similarWords = "(combined from similar events): "
	createWords  = "Error creating: "
)

// PodIssue asks the member why not all pods of a live Job are ready: nil where they are, by now.
func (m *Member) PodIssue(ctx context.Context, job *batchv1.Job, now time.Time) (*fleet.PodIssue, error) {
	if err := m.Verify(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	seen, err := m.survey(ctx, job, now)
	if err != nil {
		return nil, err
	}
	if missing := seen.missing(job); missing > 0 {
		o, err := m.whyMissing(ctx, job, seen.newest)
		if err != nil {
			return nil, err
		}
		if seen.worst == nil || o.Reason == reasonFailedCreate {
			o.Pods = missing
			return o, nil
		}
	}
	if seen.worst == nil || seen.how != starting {
		return seen.worst, nil
	}
	return m.whyStarting(ctx, job, seen)
}

// survey is what there is of a Job's pods.
type survey struct {
	worst    *fleet.PodIssue
	how      severity
	worstUID types.UID
	// indexes have a pod that has not succeeded, done ones have. They are counted where all was seen.
	indexes, done int
	all           bool
	newest        time.Time
}

// survey lists the pods of a Job, until it has found some that are not ready.
func (m *Member) survey(ctx context.Context, job *batchv1.Job, now time.Time) (*survey, error) {
	s, next := &survey{}, ""
	for range maxPodPages {
		var pods corev1.PodList
		err := m.GetAPIReader().List(ctx, &pods, client.InNamespace(job.Namespace), client.Limit(podPage),
			client.Continue(next), client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)})
		if err != nil {
			return nil, err
		}
		s.add(pods.Items, now)
		next = pods.Continue
		if s.all = next == ""; s.all || s.worst != nil {
			break
		}
	}
	if s.worst != nil {
		s.worst.AtLeast = !s.all
	}
	return s, nil
}

func (s *survey) add(pods []corev1.Pod, now time.Time) {
	of := oneEach(pods)
	s.worst, s.how = worstOf(of, now)
	for _, pod := range of {
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
}

// missing is how many pods there are to be and are not. Of those that have succeeded some may be gone, and
// others not yet counted by the Job.
func (s *survey) missing(job *batchv1.Job) int {
	size, st := int(ptr.Deref(job.Spec.Completions, 0)), &job.Status
	if !s.all {
		return size - int(st.Succeeded+st.Active+ptr.Deref(st.Terminating, 0))
	}
	return size - s.indexes - max(s.done, int(st.Succeeded))
}

// whyMissing is why the Job controller creates no more pods, as far as the member says: its words are only in
// events. Those that are older than the newest pod are about something that is over.
func (m *Member) whyMissing(ctx context.Context, job *batchv1.Job, newest time.Time) (*fleet.PodIssue, error) {
	o := &fleet.PodIssue{Reason: v1alpha1.ReasonPodsNotReady}
	e, err := m.lastWarning(ctx, job.Namespace, job.UID, fields.OneTermEqualSelector("reason", reasonFailedCreate))
	switch {
	case apierrors.IsForbidden(err):
		o.Message = "why is in the Job's events on the member, which the credentials may not list"
	case err != nil:
		return nil, err
	case e == nil || eventTime(e).Add(clockSpread).Before(newest):
		o.Message = "the member has not said why"
	default:
		o.Reason = reasonFailedCreate
		o.Message = strings.TrimPrefix(strings.TrimPrefix(e.Message, similarWords), createWords)
	}
	return o, nil
}

// whyStarting adds what a node says of a pod that it does not get to start: a volume that cannot be mounted,
// say. That, too, is only in events.
func (m *Member) whyStarting(ctx context.Context, job *batchv1.Job, s *survey) (*fleet.PodIssue, error) {
	e, err := m.lastWarning(ctx, job.Namespace, s.worstUID, fields.OneTermNotEqualSelector("reason", "FailedScheduling"))
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	if e != nil {
		s.worst.Message = sentenceOf(s.worst.Message, sentenceOf(e.Reason, e.Message))
	}
	return s.worst, nil
}

// lastWarning is the latest of an object's warnings that match, or nil.
func (m *Member) lastWarning(ctx context.Context, namespace string, uid types.UID, match fields.Selector) (*corev1.Event, error) {
	var list corev1.EventList
	err := m.GetAPIReader().List(ctx, &list, client.InNamespace(namespace), client.Limit(maxWarnings), client.MatchingFieldsSelector{
		Selector: fields.AndSelectors(fields.OneTermEqualSelector("involvedObject.uid", string(uid)),
			fields.OneTermEqualSelector("type", corev1.EventTypeWarning), match),
	})
	if err != nil || len(list.Items) == 0 {
		return nil, err
	}
	last := slices.MaxFunc(list.Items, func(a, b corev1.Event) int { return eventTime(&a).Compare(eventTime(&b)) })
	return &last, nil
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
