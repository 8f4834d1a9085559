package render

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
)

// podTemplate is the template of the brokers' pods. Nothing in it may follow from spec.size.
func (m *miniCluster) podTemplate() corev1.PodTemplateSpec {
	pod := m.podSpec()
	pod.ShareProcessNamespace = ptr.To(m.spec.ShareProcessNamespace)
	pod.RestartPolicy = m.restartPolicy()
	pod.ImagePullSecrets = imagePullSecrets(m.spec.Containers, m.spec.Flux.Container.ImagePullSecret)
	pod.Affinity = m.affinity()
	pod.Overhead = m.spec.Pod.Resources.DeepCopy()
	pod.InitContainers = []corev1.Container{m.viewContainer()}
	pod.Containers = m.containers()
	pod.Volumes = m.volumes()
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Name:        m.name,
			Namespace:   m.namespace,
			Labels:      m.podLabels(),
			Annotations: copyOf(m.spec.Pod.Annotations),
		},
		Spec: pod,
	}
}

// podSpec is what the brokers' pods and the pod of the services have in common: what spec.pod says of both.
func (m *miniCluster) podSpec() corev1.PodSpec {
	pod := &m.spec.Pod
	spec := corev1.PodSpec{
		// With the headless Service of that name, each pod is HOSTNAME.SUBDOMAIN.NAMESPACE.svc.
		Subdomain:                    m.spec.Network.HeadlessName,
		SetHostnameAsFQDN:            ptr.To(false),
		ServiceAccountName:           pod.ServiceAccountName,
		AutomountServiceAccountToken: ptr.To(pod.AutomountServiceAccountToken),
		SchedulerName:                pod.SchedulerName,
		NodeSelector:                 m.nodeSelector(),
		Tolerations:                  m.tolerations(),
		DNSPolicy:                    corev1.DNSPolicy(pod.DNSPolicy),
		SecurityContext:              m.podSecurityContext(),
		HostPID:                      pod.HostPID,
		HostIPC:                      pod.HostIPC,
	}
	if pod.RuntimeClassName != "" {
		spec.RuntimeClassName = ptr.To(pod.RuntimeClassName)
	}
	return spec
}

func (m *miniCluster) podSecurityContext() *corev1.PodSecurityContext {
	context := &m.spec.Pod.SecurityContext
	if equality.Semantic.DeepEqual(*context, corev1.PodSecurityContext{}) {
		return nil
	}
	return context.DeepCopy()
}

// nodeSelector is the spec's, and the architecture that it asks for.
func (m *miniCluster) nodeSelector() map[string]string {
	selector := copyOf(m.spec.Pod.NodeSelector)
	if arch := m.spec.Flux.Arch; arch != "" && selector[corev1.LabelArchStable] == "" {
		if selector == nil {
			selector = map[string]string{}
		}
		selector[corev1.LabelArchStable] = nodeArch(arch)
	}
	return selector
}

// nodeArch is an architecture as nodes are labelled with it, which is Go's name for it. The Flux Operator's
// documents call the 64-bit one of Arm, the only one that there are views for, arm.
func nodeArch(arch string) string {
	switch arch {
	case "x86_64":
		return "amd64"
	case "aarch64", "arm":
		return "arm64"
	default:
		return arch
	}
}

func (m *miniCluster) tolerations() []corev1.Toleration {
	var tolerations []corev1.Toleration
	for _, t := range m.spec.Pod.Tolerations {
		tolerations = append(tolerations, corev1.Toleration{
			Key:      t.Key,
			Operator: corev1.TolerationOperator(t.Operator),
			Value:    t.Value,
			Effect:   corev1.TaintEffect(t.Effect),
		})
	}
	return tolerations
}

// affinity prefers one pod of the MiniCluster per node, and all in one zone.
func (m *miniCluster) affinity() *corev1.Affinity {
	if m.spec.Network.DisableAffinity {
		return nil
	}
	near := func(topology string) []corev1.WeightedPodAffinityTerm {
		return []corev1.WeightedPodAffinityTerm{{
			Weight: 100,
			PodAffinityTerm: corev1.PodAffinityTerm{
				LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: labelAppName, Operator: metav1.LabelSelectorOpIn, Values: []string{m.name}},
				}},
				TopologyKey: topology,
			},
		}}
	}
	return &corev1.Affinity{
		NodeAffinity: m.nodeAffinity(),
		PodAffinity: &corev1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: near("topology.kubernetes.io/zone"),
		},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: near("kubernetes.io/hostname"),
		},
	}
}

func (m *miniCluster) nodeAffinity() *corev1.NodeAffinity {
	if len(m.spec.Pod.NodeAffinity) == 0 {
		return nil
	}
	var requirements []corev1.NodeSelectorRequirement
	for _, label := range slices.Sorted(maps.Keys(m.spec.Pod.NodeAffinity)) {
		requirements = append(requirements, corev1.NodeSelectorRequirement{
			Key:      label,
			Operator: corev1.NodeSelectorOpIn,
			Values:   slices.Clone(m.spec.Pod.NodeAffinity[label]),
		})
	}
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: requirements}},
	}}
}

// imagePullSecrets are those given and those of a pod's containers, each once.
func imagePullSecrets(containers []fluxv1alpha2.MiniClusterContainer, names ...string) []corev1.LocalObjectReference {
	var secrets []corev1.LocalObjectReference
	for i := range containers {
		names = append(names, containers[i].ImagePullSecret)
	}
	seen := map[string]bool{"": true}
	for _, name := range names {
		if !seen[name] {
			secrets = append(secrets, corev1.LocalObjectReference{Name: name})
		}
		seen[name] = true
	}
	return secrets
}

// copyOf clones a map of the spec, so that nothing rendered shares it. Empty becomes nil.
func copyOf[V any](values map[string]V) map[string]V {
	if len(values) == 0 {
		return nil
	}
	return maps.Clone(values)
}
