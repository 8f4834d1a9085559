package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
)

// ServicesPodName is the name of the pod of a MiniCluster's services, and its hostname.
func ServicesPodName(miniCluster string) string {
	return miniCluster + "-services"
}

// leadIndex is the completion index of the lead broker's pod.
const leadIndex = "0"

// Labels by which people select pods, though MiniFleet does not.
const (
	legacyJobName = "job-name"  // of a Job
	legacyIndex   = "job-index" // of a MiniCluster, as the Flux Operator numbers them
)

// servicesPod runs spec.services beside the brokers, in one pod, which they reach as
// NAME-services.SUBDOMAIN.NAMESPACE.svc. It is nil where there are none. It has no part in Flux: neither
// the view nor the certificate is in it.
func (m *miniCluster) servicesPod() *corev1.Pod {
	if len(m.spec.Services) == 0 {
		return nil
	}
	name := ServicesPodName(m.name)
	meta := m.objectMeta(name, m.servicesLabels())
	meta.Annotations = m.servicesAnnotations(meta.Annotations)
	pod := m.podSpec()
	pod.Hostname = name
	pod.RestartPolicy = m.servicesRestartPolicy()
	pod.ImagePullSecrets = imagePullSecrets(slices.Concat(m.spec.Services, m.spec.Containers))
	pod.Containers = m.servicesContainers()
	pod.Volumes = m.servicesVolumes()
	if affinity := m.nodeAffinity(); affinity != nil {
		pod.Affinity = &corev1.Affinity{NodeAffinity: affinity}
	}
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: meta,
		Spec:       pod,
	}
}

// servicesLabels are those of the brokers' pods, and those that the headless Service selects its pods by.
// What is about brokers only, an autoscaler and the Services of sidecars, does not select it.
func (m *miniCluster) servicesLabels() map[string]string {
	labels := m.podLabels()
	delete(labels, labelBrokers)
	labels[legacyJobName] = m.name
	labels[legacyIndex] = "services"
	labels[batchv1.JobNameLabel] = m.name
	if m.spec.Flux.MinimalService {
		labels[batchv1.JobCompletionIndexAnnotation] = leadIndex
	}
	return labels
}

// servicesAnnotations are those of the brokers' pods and ours, which win. The profiles of containers that this
// pod does not have are not rendered: an API server would refuse it.
func (m *miniCluster) servicesAnnotations(ours map[string]string) map[string]string {
	annotations := maps.Clone(m.spec.Pod.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		container, isProfile := strings.CutPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
		return isProfile && !slices.ContainsFunc(m.spec.Services, func(c fluxv1alpha2.MiniClusterContainer) bool { return c.Name == container })
	})
	maps.Copy(annotations, ours)
	return annotations
}

// servicesRestartPolicy restarts a service that fails, unless the spec says otherwise.
func (m *miniCluster) servicesRestartPolicy() corev1.RestartPolicy {
	if m.spec.Pod.RestartPolicy == "" {
		return corev1.RestartPolicyOnFailure
	}
	return corev1.RestartPolicy(m.spec.Pod.RestartPolicy)
}

func (m *miniCluster) servicesContainers() []corev1.Container {
	var containers []corev1.Container
	for i := range m.spec.Services {
		c := &m.spec.Services[i]
		container := userContainer(c)
		container.VolumeMounts = userMounts(m.spec.Services, i)
		if wrapsService(c) {
			container.Command = []string{"/bin/bash", fmt.Sprintf("%s/services-%d.sh", scriptsPath, i)}
			container.VolumeMounts = append(container.VolumeMounts,
				corev1.VolumeMount{Name: scriptsVolume, MountPath: scriptsPath, ReadOnly: true})
		}
		containers = append(containers, container)
	}
	return containers
}

// wrapsService says whether a service runs something of ours. One that is given no commands runs as its
// image does, which may not even have a shell.
func wrapsService(c *fluxv1alpha2.MiniClusterContainer) bool {
	return !c.NoWrapEntrypoint && len(servicePieces(c)) > 0
}

// servicesVolumes are the users', and the scripts where one of the services has any. The certificate is not
// among them.
func (m *miniCluster) servicesVolumes() []corev1.Volume {
	volumes := userVolumes(m.spec.Services)
	for i := range m.spec.Services {
		if wrapsService(&m.spec.Services[i]) {
			return append(volumes, corev1.Volume{Name: scriptsVolume, VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: m.configMapName()},
					DefaultMode:          ptr.To(int32(0o555)),
				},
			}})
		}
	}
	return volumes
}

// servicePieces are the files of shell that a service's entrypoint sources, by name.
func servicePieces(c *fluxv1alpha2.MiniClusterContainer) map[string]string {
	pieces := map[string]string{"init": c.Commands.Init, "service-pre": c.Commands.ServicePre, "post": c.Commands.Post}
	if c.Commands.Script != "" {
		pieces["script"] = scriptPiece(c.Commands.Script)
	}
	pieces["command"] = sidecarCommand(c)
	return nonEmpty(pieces)
}

// addServicesFiles adds the entrypoints of the services, and the pieces that they source.
func (m *miniCluster) addServicesFiles(files map[string]string) error {
	for i := range m.spec.Services {
		c := &m.spec.Services[i]
		if !wrapsService(c) {
			continue
		}
		data := entrypointData{
			viewData: m.viewData(), Index: i, Pieces: servicePieces(c),
			Strict: m.spec.Logging.Strict, Quiet: m.spec.Logging.Quiet,
		}
		text, err := m.script("services.sh", data)
		if err != nil {
			return fmt.Errorf("script of service %d: %w", i, err)
		}
		files[pieceFile("services", i)] = text
		for name, piece := range data.Pieces {
			files[pieceFile("services-"+name, i)] = strings.TrimSuffix(piece, "\n") + "\n"
		}
	}
	return nil
}
