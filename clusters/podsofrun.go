package clusters

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// PodOfOtherRun returns the name of a pod of a MiniCluster that has not ended and is of another run, or "". A Job that
// somebody else deletes may be deleted before its pods are, and they would be in the same cluster as those of the
// next run, under the same hostnames.
func (m *Member) PodOfOtherRun(ctx context.Context, key types.NamespacedName, runID string) (string, error) {
	return m.anyPod(ctx, key, []term{{v1alpha1.LabelRun, selection.Exists, nil}, {v1alpha1.LabelRun, selection.NotEquals, []string{runID}}})
}

// PodOfRun returns the name of a pod of a run's Job that has not ended, or "".
func (m *Member) PodOfRun(ctx context.Context, key types.NamespacedName, runID string) (string, error) {
	return m.anyPod(ctx, key, []term{{v1alpha1.LabelRun, selection.Equals, []string{runID}}, {batchv1.JobNameLabel, selection.Exists, nil}})
}

// term is a requirement of a label selector.
type term struct {
	label    string
	operator selection.Operator
	values   []string
}

// anyPod asks the member itself for a pod of a MiniCluster that has not ended.
func (m *Member) anyPod(ctx context.Context, key types.NamespacedName, terms []term) (string, error) {
	if err := m.Verify(ctx); err != nil {
		return "", err
	}
	selector := labels.NewSelector()
	for _, t := range append(terms, term{v1alpha1.LabelOwner, selection.Equals, []string{key.Name}}) {
		requirement, err := labels.NewRequirement(t.label, t.operator, t.values)
		if err != nil {
			return "", fmt.Errorf("selecting pods of a run: %w", err)
		}
		selector = selector.Add(*requirement)
	}
	live := fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
	ctx, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	var pods corev1.PodList
	err := m.GetAPIReader().List(ctx, &pods, client.InNamespace(key.Namespace), client.Limit(1),
		client.MatchingLabelsSelector{Selector: selector}, client.MatchingFieldsSelector{Selector: live})
	if err != nil || len(pods.Items) == 0 {
		return "", err
	}
	return pods.Items[0].Name, nil
}

// LeadOfRun returns the first pod of a run, by completion index, once no pod of it runs any more and its Job is not there;
// nil if no such pod tells how the run has ended. The member itself is asked.
func (m *Member) LeadOfRun(ctx context.Context, key types.NamespacedName, runID string) (*corev1.Pod, error) {
	if err := m.Verify(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	var pods corev1.PodList
	err := m.GetAPIReader().List(ctx, &pods, client.InNamespace(key.Namespace), client.Limit(maxLeads), client.MatchingLabels{
		v1alpha1.LabelOwner: key.Name, v1alpha1.LabelRun: runID, batchv1.JobCompletionIndexAnnotation: "0",
	})
	if err != nil || len(pods.Items) == 0 {
		return nil, err
	}
	return lead(pods.Items), nil
}

// lead is the one of several pods of the first index that tells how its run has ended: one that has succeeded, else one
// that has failed by itself. A pod that is being deleted has been ended by that.
func lead(pods []corev1.Pod) *corev1.Pod {
	var failed *corev1.Pod
	for i := range pods {
		switch pod := &pods[i]; {
		case pod.Status.Phase == corev1.PodSucceeded:
			return pod
		case pod.DeletionTimestamp.IsZero():
			failed = pod
		}
	}
	return failed
}

// maxLeads is how many pods of the first index are listed: those that were lost with their nodes may still be there.
const maxLeads = 20
