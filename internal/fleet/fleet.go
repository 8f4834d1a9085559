// Package fleet holds the values that the packages below the controllers share: whose an object on a member is,
// which run it is part of, what a member's nodes have, how many pods of a run have a node, and why its pods are
// not ready. Those who read members fill them in, and those who decide take them, so that neither knows the
// other. It is pure, and knows nothing but the API's types and those of Kubernetes.
package fleet

import (
	"regexp"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Origin says which FleetMiniCluster of which fleet an object on a member belongs to.
type Origin struct {
	// FleetID is the identity of the fleet.
	FleetID string
	// Owner is NAMESPACE/NAME of the FleetMiniCluster, OwnerUID its UID.
	Owner, OwnerUID string
}

// Owns says whether an object is of the FleetMiniCluster of this namespace and name in this fleet, whatever object has
// borne the name on the hub, or on a hub before it.
func (o Origin) Owns(obj metav1.Object) bool {
	a := obj.GetAnnotations()
	return o.FleetID != "" && o.Owner != "" && a[v1alpha1.AnnotationFleetID] == o.FleetID && a[v1alpha1.AnnotationOwner] == o.Owner
}

// Made says whether an object was made for the very object on the hub.
func (o Origin) Made(obj metav1.Object) bool {
	return o.Owns(obj) && o.OwnerUID != "" && obj.GetAnnotations()[v1alpha1.AnnotationOwnerUID] == o.OwnerUID
}

// Annotations are those that say so on an object.
func (o Origin) Annotations() map[string]string {
	return map[string]string{v1alpha1.AnnotationFleetID: o.FleetID, v1alpha1.AnnotationOwner: o.Owner, v1alpha1.AnnotationOwnerUID: o.OwnerUID}
}

// OriginOf is what an object says of itself.
func OriginOf(obj metav1.Object) Origin {
	a := obj.GetAnnotations()
	return Origin{FleetID: a[v1alpha1.AnnotationFleetID], Owner: a[v1alpha1.AnnotationOwner], OwnerUID: a[v1alpha1.AnnotationOwnerUID]}
}

// Namespace is that of the owner on the hub.
func (o Origin) Namespace() string {
	namespace, _, _ := strings.Cut(o.Owner, "/")
	return namespace
}

// Key is the owner's namespace and name; ok is false where Owner is not of that form.
func (o Origin) Key() (key types.NamespacedName, ok bool) {
	namespace, name, ok := strings.Cut(o.Owner, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}, ok && namespace != "" && name != ""
}

var runID = regexp.MustCompile(`^[0-9a-f]{10}$`)

// IsRunID says whether a text is the id of a run: ten hexadecimal digits.
func IsRunID(text string) bool { return runID.MatchString(text) }

// RunID returns the id of the run that an object with these labels is part of: ten hexadecimal digits, or "" where
// the label is missing or holds what MiniFleet cannot have put there.
func RunID(labels map[string]string) string {
	if id := labels[v1alpha1.LabelRun]; IsRunID(id) {
		return id
	}
	return ""
}

// RunOf is the id of the run that a Job was made for, or "". That in its pod template counts, for it cannot be edited
// once there are pods; the Job's own label is for whoever looks for it.
func RunOf(job *batchv1.Job) string {
	if id := RunID(job.Spec.Template.Labels); id != "" {
		return id
	}
	return RunID(job.Labels)
}

// Queued says whether a Job with these labels is released by a queue on the member:
// https://kueue.sigs.k8s.io/docs/tasks/run/jobs/
func Queued(jobLabels map[string]string) bool { return jobLabels["kueue.x-k8s.io/queue-name"] != "" }

// Scheduled is how many pods of a run have a node and have not ended.
type Scheduled struct {
	// Pods of the Job.
	Pods int
	// Services pods beside it: 0 or 1.
	Services int
}

// Amounts are quantities of resources: CPU in millicores, all others in their own unit, such as bytes, GPUs
// or pods.
type Amounts = map[corev1.ResourceName]int64

// MaxAmount is the largest amount. More counts as so much: a few of them add up to no overflow.
const MaxAmount = int64(1) << 60

// AmountsOf reads a list of resources.
func AmountsOf(list corev1.ResourceList) Amounts {
	out := make(Amounts, len(list))
	for name, q := range list {
		switch n := q.Value(); {
		case name != corev1.ResourceCPU:
			out[name] = min(n, MaxAmount)
		case n > MaxAmount/1000:
			out[name] = MaxAmount
		default:
			out[name] = q.MilliValue()
		}
	}
	return out
}

// Times multiplies an amount. The product is MaxAmount at most.
func Times(amount, n int64) int64 {
	if amount > 0 && n > MaxAmount/amount {
		return MaxAmount
	}
	return amount * n
}

// IsGPU says whether a resource counts GPUs, of whatever make.
func IsGPU(name corev1.ResourceName) bool { return strings.HasSuffix(string(name), "/gpu") }

// Node is a node of a member. What its maps and slices hold may be shared, and is not changed.
type Node struct {
	Name          string
	Labels        map[string]string
	Taints        []corev1.Taint
	Unschedulable bool
	// Allocatable is what pods may request in all. Total is what is allocatable less what pods use that never end by themselves; Free is allocatable less
	// what all scheduled pods use. Free is negative where more is used than there is.
	Allocatable, Total, Free Amounts
	// Ending are the pods on it that end by themselves, by what they request. EndingOmitted says that they request so many
	// different things that they are not listed.
	Ending        []PodGroup
	EndingOmitted bool
}

// PodGroup is so many pods that request the same.
type PodGroup struct {
	Requests Amounts
	Count    int
}
