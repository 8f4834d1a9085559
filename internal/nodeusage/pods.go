package nodeusage

import (
	"iter"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podresources "k8s.io/component-helpers/resource"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// Pod is what is kept of a pod while all are being listed: whole pods would for a moment take as much memory as
// all that others have on the member.
type Pod struct {
	// ObjectMeta has no more than namespace, name and UID.
	metav1.ObjectMeta

	node string
	pod  pod
}

// PodFrom reduces a pod to what is kept of it.
func PodFrom(p *corev1.Pod) *Pod {
	// With what the kubelet reports, of a pod whose requests are changed in place: until it is done, the old ones
	// may count, as they do for schedulers.
	requests := podresources.PodRequests(p, podresources.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	return &Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, node: p.Spec.NodeName,
		pod: pod{amount: amountOf(requests), extra: extraOf(requests), run: strings.Clone(fleet.RunID(p.Labels)), kind: podKindOf(p)},
	}
}

// Size is about what is kept of the pod, in bytes of memory.
func (p *Pod) Size() int64 {
	const structs = 512 // with the entries of maps
	return int64(structs + len(p.Namespace) + len(p.Name) + len(p.UID) + len(p.node) + len(p.pod.extra) + len(p.pod.run))
}

// pod is where a pod is and what it asks for.
type pod struct {
	at     *usage // set once it is in the sums
	amount amount
	extra  string // what else it requests, as extraOf writes it
	run    string // the id of the run that it belongs to, if it is one of ours
	kind   podKind
}

type podKind uint8

const (
	// comesAndGoes is any pod but those below.
	comesAndGoes podKind = iota
	// servesRun is the pod of services beside a run.
	servesRun
	// staysOnNode is a pod that never ends by itself.
	staysOnNode
)

// podKindOf tells pods apart. Those of Jobs do not bear the label that MiniFleet's own objects do. Pods that
// are always restarted never end by themselves, unless they are being deleted: those of Deployments and DaemonSets,
// and of the kubelet.
func podKindOf(p *corev1.Pod) podKind {
	switch {
	case p.Labels[v1alpha1.LabelRun] != "" && p.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy:
		return servesRun
	case p.Spec.RestartPolicy == corev1.RestartPolicyAlways && p.DeletionTimestamp.IsZero():
		return staysOnNode
	default:
		return comesAndGoes
	}
}

// SetPod adds or replaces a pod, which has a node and has not ended.
func (s *Sums) SetPod(p *Pod) (changed bool) { return s.setPod(p.UID, p.node, &p.pod) }

// RemovePod removes a pod.
func (s *Sums) RemovePod(uid types.UID) (changed bool) { return s.setPod(uid, "", nil) }

// ReplacePods takes a list of all pods that have a node and have not ended.
func (s *Sums) ReplacePods(pods iter.Seq[*Pod]) (changed bool) {
	s.pods, s.used, s.runs = map[types.UID]pod{}, map[string]*usage{}, map[string]fleet.Scheduled{}
	for p := range pods {
		s.SetPod(p)
	}
	s.listed[Pods] = true
	return s.touch()
}

// setPod replaces a pod's requests, or removes them where next is nil.
func (s *Sums) setPod(uid types.UID, node string, next *pod) (changed bool) {
	if next != nil {
		if next.at = s.used[node]; next.at == nil {
			next.at = newUsage(node)
		}
	}
	old, had := s.pods[uid]
	if next != nil && had && *next == old {
		return false
	}
	if had {
		s.use(&old, -1)
	}
	delete(s.pods, uid)
	if next != nil {
		s.pods[uid] = *next
		s.use(next, 1)
	}
	return s.touch()
}

// use adds a pod to the sums of its node and its run, or takes it away.
func (s *Sums) use(p *pod, sign int64) {
	p.at.add(p, sign)
	if p.at.all[corev1.ResourcePods] == 0 {
		delete(s.used, p.at.node)
	} else {
		s.used[p.at.node] = p.at
	}
	if p.run == "" {
		return
	}
	n := s.runs[p.run]
	if p.kind == servesRun {
		n.Services += int(sign)
	} else {
		n.Pods += int(sign)
	}
	if n == (fleet.Scheduled{}) {
		delete(s.runs, p.run)
		return
	}
	s.runs[p.run] = n
}
