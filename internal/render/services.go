package render

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// services are the headless one that names the brokers, and one for each sidecar with ports.
func (m *miniCluster) services() []*corev1.Service {
	services := []*corev1.Service{m.headlessService()}
	for i := range m.spec.Containers {
		if c := &m.spec.Containers[i]; i != m.runner && len(c.Ports) > 0 {
			services = append(services, m.sidecarService(c.Name, c.Ports))
		}
	}
	return services
}

// headlessService gives each pod its name in DNS. Brokers look each other up before they are ready, so
// it publishes pods that are not. With minimalService only the lead has a name, which is all that the
// others look up as long as they are its direct children.
func (m *miniCluster) headlessService() *corev1.Service {
	selector := map[string]string{batchv1.JobNameLabel: m.name}
	if m.spec.Flux.MinimalService {
		selector[batchv1.JobCompletionIndexAnnotation] = leadIndex
	}
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: m.objectMeta(m.spec.Network.HeadlessName, nil),
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			Selector:                 selector,
			PublishNotReadyAddresses: true,
		},
	}
}

// sidecarService is called as the container is, and reaches it in any pod of the MiniCluster.
func (m *miniCluster) sidecarService(name string, numbers []int32) *corev1.Service {
	service := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: m.objectMeta(name, nil),
		Spec:       corev1.ServiceSpec{Selector: map[string]string{labelBrokers: m.name}},
	}
	for _, number := range numbers {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name:       "port-" + strconv.Itoa(int(number)),
			Protocol:   corev1.ProtocolTCP,
			Port:       number,
			TargetPort: intstr.FromInt32(number),
		})
	}
	return service
}
