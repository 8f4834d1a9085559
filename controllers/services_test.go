package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// servicesPod returns the services' pod of a FleetMiniCluster on alpine, or nil.
func servicesPod(ctx context.Context, namespace, name string) *corev1.Pod {
	var pod corev1.Pod
	if err := admins["alpine"].Get(ctx, client.ObjectKey{Namespace: namespace, Name: name + "-services"}, &pod); err != nil {
		return nil
	}
	return &pod
}

func phase(pod *corev1.Pod) corev1.PodPhase {
	if pod == nil {
		return "none"
	}
	return pod.Status.Phase
}

var _ = Describe("The services beside a MiniCluster", func() {
	withServices := func(ctx context.Context, w *world, name string, annotations map[string]string) {
		f := w.fmc(name, annotations)
		f.Spec.MiniCluster.Services = []fluxv1alpha2.MiniClusterContainer{{Name: "database", Image: "example.org/database", Ports: []int32{5432}}}
		Expect(hub.Create(ctx, f)).To(Succeed())
	}
	edit := func(ctx context.Context, w *world, name string, change func(*v1alpha1.FleetMiniCluster)) {
		GinkgoHelper()
		Eventually(func() error {
			f := w.get(ctx, name)
			change(f)
			return hub.Update(ctx, f)
		}).Should(Succeed())
	}

	It("run while the run is live, are put back when they are lost, and go with it", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		withServices(ctx, w, "served", held)
		Eventually(w.line).WithArguments(ctx, "served").Should(Equal("True Synced Synced Progressing 1/1"))
		first := servicesPod(ctx, w.name, "served")
		Expect(first).NotTo(BeNil())
		Expect(first.Labels[v1alpha1.LabelRun]).To(Equal(w.get(ctx, "served").Status.Runs[0].ID))
		Eventually(func() corev1.PodPhase { return phase(servicesPod(ctx, w.name, "served")) }).Should(Equal(corev1.PodRunning))

		By("losing the pod")
		Expect(admins["alpine"].Delete(ctx, first, client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(func() types.UID {
			if pod := servicesPod(ctx, w.name, "served"); pod != nil {
				return pod.UID
			}
			return first.UID
		}).ShouldNot(Equal(first.UID))

		By("suspending the run")
		edit(ctx, w, "served", func(f *v1alpha1.FleetMiniCluster) { f.Spec.Suspend = true })
		Eventually(func() *corev1.Pod { return servicesPod(ctx, w.name, "served") }).Should(BeNil())
		edit(ctx, w, "served", func(f *v1alpha1.FleetMiniCluster) { f.Spec.Suspend = false })
		Eventually(func() *corev1.Pod { return servicesPod(ctx, w.name, "served") }).ShouldNot(BeNil())

		By("deleting the object")
		Expect(hub.Delete(ctx, w.get(ctx, "served"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "served").Should(BeFalse())
		Expect(servicesPod(ctx, w.name, "served")).To(BeNil())
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})

	It("end when the run ends", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		withServices(ctx, w, "ends", map[string]string{lab.AskSeconds: "1"})
		Eventually(w.line).WithArguments(ctx, "ends").Should(Equal("True Succeeded Synced Healthy 1/1"))
		Eventually(func() *corev1.Pod { return servicesPod(ctx, w.name, "ends") }).Should(BeNil())
		Expect(job(ctx, "alpine", w.name, "ends")).NotTo(BeNil())
	})

	It("of a new run wait until those of the one before have ended", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		withServices(ctx, w, "lingers", map[string]string{lab.AskHold: "true", lab.AskLingerSeconds: "3"})
		Eventually(w.line).WithArguments(ctx, "lingers").Should(Equal("True Synced Synced Progressing 1/1"))
		first := servicesPod(ctx, w.name, "lingers")
		edit(ctx, w, "lingers", func(f *v1alpha1.FleetMiniCluster) {
			f.Spec.OnChange, f.Spec.MiniCluster.Containers[0].Command = v1alpha1.Replace, "false"
		})
		Eventually(func() string {
			if pod := servicesPod(ctx, w.name, "lingers"); pod != nil && pod.UID != first.UID {
				return pod.Labels[v1alpha1.LabelRun]
			}
			return first.Labels[v1alpha1.LabelRun]
		}).ShouldNot(Equal(first.Labels[v1alpha1.LabelRun]))
		Eventually(w.line).WithArguments(ctx, "lingers").Should(Equal("True Synced Synced Progressing 1/1"))
		Expect(w.events(ctx, "lingers")).NotTo(ContainElement("ApplyFailed"))
	})

	It("never take the place of somebody else's pod", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		Expect(admins["alpine"].Create(ctx, w.onMember())).To(Succeed())
		other := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "taken-services", Annotations: held},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "example.org/other"}}},
		}
		Expect(admins["alpine"].Create(ctx, other)).To(Succeed())
		withServices(ctx, w, "taken", held)
		Eventually(w.line).WithArguments(ctx, "taken").Should(HavePrefix("False NameConflict"))
		Expect(servicesPod(ctx, w.name, "taken").UID).To(Equal(other.UID))
		Expect(job(ctx, "alpine", w.name, "taken")).To(BeNil(), "no run starts without its services")

		By("removing the other pod")
		Expect(admins["alpine"].Delete(ctx, other, client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "taken").Should(Equal("True Synced Synced Progressing 1/1"))
	})
})
