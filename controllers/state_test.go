package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

var _ = Describe("The state in one word", func() {
	It("follows a run, its member and what people do", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxy, kubeconfig := through(labs.Cluster("basalt"))
		w.register(ctx, "b", kubeconfig)
		state := func(ctx context.Context, name string) v1alpha1.State { return w.get(ctx, name).Status.State }
		invalid := w.fmc("invalid", nil)
		invalid.Spec.MiniCluster.Containers[0].SecurityContext.Privileged = ptr.To(true) // which nobody has allowed
		Expect(hub.Create(ctx, invalid)).To(Succeed())
		w.run(ctx, "short", nil)
		w.run(ctx, "long", held)
		Eventually(state).WithArguments(ctx, "invalid").Should(Equal(v1alpha1.StateInvalid))
		Eventually(state).WithArguments(ctx, "short").Should(Equal(v1alpha1.StateSucceeded))
		Eventually(state).WithArguments(ctx, "long").Should(Equal(v1alpha1.StateRunning))

		By("losing the member and finding it again")
		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		Eventually(state).WithArguments(ctx, "long").Should(Equal(v1alpha1.StateUnknown))
		Consistently(state, "1s").WithArguments(ctx, "short").Should(Equal(v1alpha1.StateSucceeded))
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		Eventually(state).WithArguments(ctx, "long").Should(Equal(v1alpha1.StateRunning))

		By("suspending and resuming it")
		suspend := func(to bool) {
			w.change(ctx, "long", func(f *v1alpha1.FleetMiniCluster) { f.Spec.Suspend = to })
		}
		suspend(true)
		Eventually(state).WithArguments(ctx, "long").Should(Equal(v1alpha1.StateSuspended))
		suspend(false)
		Eventually(state).WithArguments(ctx, "long").Should(Equal(v1alpha1.StateRunning))

		By("cancelling it, and deleting it while its member is away")
		w.change(ctx, "long", func(f *v1alpha1.FleetMiniCluster) {
			metav1.SetMetaDataAnnotation(&f.ObjectMeta, v1alpha1.AnnotationCancel, f.Status.Runs[0].ID)
		})
		Eventually(state).WithArguments(ctx, "long").Should(Equal(v1alpha1.StateCancelled))
		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		Expect(hub.Delete(ctx, w.get(ctx, "long"))).To(Succeed())
		Eventually(state).WithArguments(ctx, "long").Should(Equal(v1alpha1.StateDeleting))
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "long").Should(BeFalse())
	})
})
