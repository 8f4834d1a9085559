package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// stallable puts a gateway in front of alpine, and returns it with the kubeconfig that leads through it.
func stallable() (*lab.Gateway, []byte) {
	GinkgoHelper()
	g, err := lab.NewGateway(labs.Cluster("alpine").Kubeconfig())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(g.Close)
	kubeconfig, err := g.Kubeconfig(g.Address())
	Expect(err).NotTo(HaveOccurred())
	return g, kubeconfig
}

// preferred is a FleetMiniCluster on one member, which is a if that can take it.
func (w *world) preferred(ctx context.Context, name string) {
	GinkgoHelper()
	w.retaint(ctx, "b", v1alpha1.Taint{Key: "later", Effect: v1alpha1.PreferNoSelect})
	f := w.fmc(name, held)
	f.Spec.Placement.NumberOfClusters = ptr.To[int32](1)
	Expect(hub.Create(ctx, f)).To(Succeed())
}

var _ = Describe("A member whose room is not known yet", func() {
	It("is waited for by what would go there, and not once what hangs has had its time", func(ctx SpecContext) {
		w := newWorld(ctx)
		gateway, kubeconfig := stallable()
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
		gateway.SetTrouble(lab.Trouble{StallKind: "nodes"})
		w.register(ctx, "a", kubeconfig)
		w.preferred(ctx, "late")
		Eventually(w.readyMessage).WithArguments(ctx, "late").Should(ContainSubstring(
			"0 of 1 members chosen (none); waits, for no longer than 10s, until it is known what is free; " + w.member("a") + ": its nodes and pods have not been listed yet"))
		Expect(w.line(ctx, "late")).To(Equal("False Connecting OutOfSync Missing 0/1"))
		Eventually(w.line).WithArguments(ctx, "late").Should(Equal(running))
		Expect(w.get(ctx, "late").Status.Placement.Clusters).To(Equal([]string{w.member("b")}))
		w.preferred(ctx, "later")
		Eventually(w.line).WithArguments(ctx, "later").Should(Equal(running))
		Expect(w.get(ctx, "later").Status.Placement.Clusters).To(Equal([]string{w.member("b")}))

		By("restarting MiniFleet, which then waits again, and listing the nodes in time")
		Expect(minifleet.Kill()).To(Succeed())
		w.preferred(ctx, "patient")
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(w.readyMessage).WithArguments(ctx, "patient").Should(ContainSubstring("until it is known what is free; " + w.member("a")))
		gateway.SetTrouble(lab.Trouble{})
		Eventually(w.line).WithArguments(ctx, "patient").Should(Equal(running))
		Expect(w.get(ctx, "patient").Status.Placement.Clusters).To(Equal([]string{w.member("a")}))
		Expect(w.line(ctx, "late")).To(Equal(running))
		Expect(w.get(ctx, "late").Status.Runs).To(HaveLen(1))
	})
})
