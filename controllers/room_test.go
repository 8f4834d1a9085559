package controllers_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// stallable puts a gateway in front of a cluster, and returns it with the kubeconfig that leads through it.
func stallable(cluster string) (*lab.Gateway, []byte) {
	GinkgoHelper()
	g, err := lab.NewGateway(labs.Cluster(cluster).Kubeconfig())
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
		gateway, kubeconfig := stallable("alpine")
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
		gateway.SetTrouble(lab.Trouble{StallKind: "nodes"})
		w.register(ctx, "a", kubeconfig)
		w.preferred(ctx, "early")
		Eventually(w.readyMessage).WithArguments(ctx, "early").Should(ContainSubstring(
			"0 of 1 members chosen (none); waits, for no longer than 10s, until it is known what is free; " + w.member("a") + ": its nodes and pods have not been listed yet"))
		Expect(w.line(ctx, "early")).To(Equal("False Connecting OutOfSync Missing 0/1"))
		Eventually(w.line).WithArguments(ctx, "early").Should(Equal(running))
		Expect(w.get(ctx, "early").Status.Placement.Clusters).To(Equal([]string{w.member("b")}))
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
		Expect(w.line(ctx, "early")).To(Equal(running))
		Expect(w.get(ctx, "early").Status.Runs).To(HaveLen(1))
	})
})

var _ = Describe("A live run that is to take more room", func() {
	const waits = "False InsufficientCapacity OutOfSync"
	var w *world
	BeforeEach(func(ctx SpecContext) { w = roomyWorld(ctx) })

	It("is resumed once all of it has room, in its turn", func(ctx SpecContext) {
		Expect(hub.Create(ctx, w.asking("first", 4, "10", held))).To(Succeed())
		w.podsRun(ctx, "first", "4/4")
		w.change(ctx, "first", func(f *v1alpha1.FleetMiniCluster) { f.Spec.Suspend = true })
		Expect(hub.Create(ctx, w.asking("second", 2, "20", held))).To(Succeed())
		w.podsRun(ctx, "second", "2/2")
		w.change(ctx, "first", func(f *v1alpha1.FleetMiniCluster) { f.Spec.Suspend = false })
		Eventually(w.readyMessage).WithArguments(ctx, "first").Should(Equal(
			w.member("a") + ": it is resumed when all of its pods have room; 2 of 4 pods fit; 6 CPU short on alpine"))
		Expect(w.line(ctx, "first")).To(Equal(waits + " Suspended 0/1"))
		Expect(hub.Create(ctx, w.asking("third", 1, "24", held))).To(Succeed())
		Eventually(w.readyMessage).WithArguments(ctx, "third").Should(ContainSubstring("its room is kept for " + w.name + "/first"))
		Expect(job(ctx, "alpine", w.name, "first").Spec.Suspend).To(HaveValue(BeTrue()))

		By("restarting MiniFleet, over which it keeps its place")
		Expect(minifleet.Kill()).To(Succeed())
		Expect(hub.Create(ctx, w.asking("youngest", 1, "24", held))).To(Succeed())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(w.readyMessage).WithArguments(ctx, "youngest").Should(ContainSubstring("its room is kept for " + w.name + "/first"))
		Expect(hub.Delete(ctx, w.get(ctx, "second"))).To(Succeed())
		w.podsRun(ctx, "first", "4/4")
		Eventually(w.line).WithArguments(ctx, "first").Should(Equal(running))
		Eventually(w.line).WithArguments(ctx, "third").Should(Equal(running))
		Eventually(w.readyMessage).WithArguments(ctx, "youngest").WithTimeout(90 * time.Second).Should(ContainSubstring("0 of 1 pods fit; 24 CPU short on alpine"))
		Expect(jobsMade("alpine", w.name)).To(Equal(3))
	})

	It("grows as far as there is room, and before those that came after it", func(ctx SpecContext) {
		f := w.asking("first", 2, "16", held)
		f.Spec.MiniCluster.MaxSize = 6
		Expect(hub.Create(ctx, f)).To(Succeed())
		w.podsRun(ctx, "first", "2/2")
		other := w.occupy(ctx, "other", "10")
		w.freeCPU(ctx, "22/64")
		resize := func(size int32) {
			w.change(ctx, "first", func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Size = size })
		}
		resize(4)
		Eventually(w.readyMessage).WithArguments(ctx, "first").Should(Equal(
			w.member("a") + ": it has 3 pods, and gets 1 more as they have room; 0 of 1 pods fit; 10 CPU short on alpine"))
		Eventually(w.line).WithArguments(ctx, "first").Should(Equal(waits + " Progressing 0/1"))
		w.podsRun(ctx, "first", "3/3")
		Expect(hub.Create(ctx, w.asking("young", 1, "1", held))).To(Succeed())
		Eventually(w.readyMessage).WithArguments(ctx, "young").Should(ContainSubstring("its room is kept for " + w.name + "/first"))

		vacate(ctx, other)
		w.podsRun(ctx, "first", "4/4")
		Eventually(w.line).WithArguments(ctx, "first").Should(Equal(running))
		Expect(w.line(ctx, "young")).To(HavePrefix(waits))
		resize(3)
		Eventually(w.line).WithArguments(ctx, "young").Should(Equal(running))
		w.podsRun(ctx, "first", "3/3")
		Expect(w.get(ctx, "first").Status.Runs).To(HaveLen(1))
	})
})

var _ = Describe("A run whose room others have taken meanwhile", func() {
	It("says so in the member's words", func(ctx SpecContext) {
		w := newWorld(ctx)
		gateway, kubeconfig := stallable("alpine")
		w.register(ctx, "a", kubeconfig)
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
		w.freeCPU(ctx, "64/64")
		w.roomKnown(ctx, "b")
		w.retaint(ctx, "b", v1alpha1.Taint{Key: "later", Effect: v1alpha1.PreferNoSelect})
		gateway.SetTrouble(lab.Trouble{StallKind: "pods"}) // so that the hub decides on what was free a moment ago
		w.occupy(ctx, "other", "50")
		Expect(hub.Create(ctx, w.asking("early", 2, "10", held))).To(Succeed())
		Eventually(w.readyMessage).WithArguments(ctx, "early").Should(And(
			HavePrefix("running on "+w.member("a")+" (1 of 2 pods ready; early-"),
			ContainSubstring(": Unschedulable: 0/1 nodes are available: 1 Insufficient cpu")))
		Expect(w.line(ctx, "early")).To(Equal(running))
	})
})
