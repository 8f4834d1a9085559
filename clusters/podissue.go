package clusters

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/podhealth"
)

// Bounds of one question why pods are not ready, or have failed: how many pods are listed at once and how often, and
// how many events.
const (
	podPage     = 250
	maxPodPages = 20
	maxWarnings = 100
	maxFailures = 100
)

// PodIssue asks the member why not all pods of a live Job are ready: nil where they are, by now.
func (m *Member) PodIssue(ctx context.Context, job *batchv1.Job, now time.Time) (*fleet.PodIssue, error) {
	if err := m.Verify(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	survey, err := m.survey(ctx, job, now)
	if err != nil {
		return nil, err
	}
	if missing := survey.Missing(job); missing > 0 {
		// Why the Job controller creates no more pods is only in events.
		warnings, denied, err := m.warnings(ctx, job.Namespace, job.UID, fields.OneTermEqualSelector("reason", podhealth.ReasonFailedCreate))
		if err != nil {
			return nil, err
		}
		if issue := survey.NotCreated(missing, warnings, denied); issue != nil {
			return issue, nil
		}
	}
	pod, starting := survey.Starting()
	if !starting {
		return survey.Worst(), nil
	}
	// So is what a node says of a pod that it does not get to start.
	warnings, _, err := m.warnings(ctx, job.Namespace, pod, fields.OneTermNotEqualSelector("reason", "FailedScheduling"))
	if err != nil {
		return nil, err
	}
	return survey.WithWarnings(warnings), nil
}

// survey lists the pods of a Job, until it has found some that are not ready.
func (m *Member) survey(ctx context.Context, job *batchv1.Job, now time.Time) (*podhealth.Survey, error) {
	survey, next := &podhealth.Survey{}, ""
	for range maxPodPages {
		var pods corev1.PodList
		err := m.GetAPIReader().List(ctx, &pods, client.InNamespace(job.Namespace), client.Limit(podPage),
			client.Continue(next), client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)})
		if err != nil {
			return nil, err
		}
		next = pods.Continue
		if !survey.Add(pods.Items, next == "", now) {
			break
		}
	}
	return survey, nil
}

// warnings lists an object's warnings that match; denied says that the credentials do not allow that.
func (m *Member) warnings(ctx context.Context, namespace string, uid types.UID, match fields.Selector) (events []corev1.Event, denied bool, err error) {
	var list corev1.EventList
	err = m.GetAPIReader().List(ctx, &list, client.InNamespace(namespace), client.Limit(maxWarnings), client.MatchingFieldsSelector{
		Selector: fields.AndSelectors(fields.OneTermEqualSelector("involvedObject.uid", string(uid)),
			fields.OneTermEqualSelector("type", corev1.EventTypeWarning), match),
	})
	if apierrors.IsForbidden(err) {
		return nil, true, nil
	}
	return list.Items, false, err
}

// FirstFailure asks the member how the pod of a Job has ended that failed first, as far as its pods are still there:
// nil where none is. Its texts are the member's, unbounded and as they come.
func (m *Member) FirstFailure(ctx context.Context, job *batchv1.Job) (*v1alpha1.RunExit, error) {
	if err := m.Verify(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	var pods corev1.PodList
	err := m.GetAPIReader().List(ctx, &pods, client.InNamespace(job.Namespace), client.Limit(maxFailures),
		client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)}, client.MatchingFields{"status.phase": string(corev1.PodFailed)})
	if err != nil {
		return nil, err
	}
	return podhealth.FirstFailure(pods.Items), nil
}
