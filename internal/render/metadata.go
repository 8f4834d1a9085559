package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// Labels of pods that people and the MiniCluster's own affinity and Services select on, as the Flux
// Operator sets them.
const (
	labelApp          = "app"
	labelAppName      = "app.kubernetes.io/name"
	labelBrokers      = "hpa-selector" // the brokers' pods alone: horizontal autoscalers select on it
	labelPodNamespace = "namespace"
	appName           = "flux-operator"
)

// objectMeta is the metadata of every object: whose it is, by label for people and caches and by
// annotation for decisions. The labels given are the user's, and give way to ours.
func (m *miniCluster) objectMeta(name string, labels map[string]string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Name: name, Namespace: m.namespace, Labels: map[string]string{}}
	maps.Copy(meta.Labels, labels)
	meta.Labels[v1alpha1.LabelManagedBy] = v1alpha1.ManagedBy
	meta.Labels[v1alpha1.LabelOwner] = m.name
	if origin := m.in.Origin; origin != (fleet.Origin{}) {
		meta.Annotations = origin.Annotations()
	}
	return meta
}

// podLabels are the user's labels and those that select the pods.
func (m *miniCluster) podLabels() map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, m.spec.Pod.Labels)
	labels[labelApp] = appName
	labels[labelAppName] = m.name
	labels[labelBrokers] = m.name
	labels[labelPodNamespace] = m.namespace
	labels[v1alpha1.LabelOwner] = m.name
	return m.withRun(labels)
}

// withRun adds the run's label, if the run has an id.
func (m *miniCluster) withRun(labels map[string]string) map[string]string {
	if m.in.RunID != "" {
		labels[v1alpha1.LabelRun] = m.in.RunID
	}
	return labels
}

// stampDigest annotates an object with the hash of its content, without that annotation.
func stampDigest(object Object) error {
	annotations := maps.Clone(object.GetAnnotations())
	delete(annotations, v1alpha1.AnnotationDigest)
	object.SetAnnotations(annotations)
	digest, err := digestOf(object)
	if err != nil {
		return fmt.Errorf("digest of %s: %w", object.GetName(), err)
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationDigest] = digest
	object.SetAnnotations(annotations)
	return nil
}

// digestOf is the first 64 bits of the SHA-256 of a value's JSON, in hexadecimal. JSON sorts maps.
func digestOf(value any) (string, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8]), nil
}
