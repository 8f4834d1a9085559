package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

var _ = Describe("A live Job that has lost its FleetMiniCluster", func() {
	unowned := func(ctx context.Context, w *world) []string {
		var out []string
		for _, j := range w.memberCluster(ctx, "a").Status.UnownedJobs {
			out = append(out, j.Namespace+"/"+j.Name+" of "+j.Owner+" run "+j.Run)
		}
		return out
	}
	lose := func(ctx context.Context, w *world, name string) {
		GinkgoHelper()
		Expect(minifleet.Kill()).To(Succeed())
		Eventually(func() error {
			f := w.get(ctx, name)
			f.Finalizers = nil
			return hub.Update(ctx, f)
		}).Should(Succeed())
		Expect(hub.Delete(ctx, w.get(ctx, name))).To(Succeed())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
	}

	It("is named on its MemberCluster until it is deleted, and nothing is done about it", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "lost", held)
		w.run(ctx, "kept", held)
		Eventually(w.line).WithArguments(ctx, "lost").Should(Equal(running))
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal(running))
		Expect(unowned(ctx, w)).To(BeEmpty())
		run := w.get(ctx, "lost").Status.Runs[0]
		lose(ctx, w, "lost")
		Eventually(unowned).WithArguments(ctx, w).Should(Equal([]string{w.name + "/lost of " + w.name + "/lost run " + run.ID}))
		m := w.memberCluster(ctx, "a")
		Expect(statusReason(m.Status.Conditions)).To(Equal("True Connected"))
		condition := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionUnownedJobs)
		Expect(condition).To(And(HaveField("Reason", "OwnerNotFound"), HaveField("Message", And(
			HavePrefix("1 live Job of this fleet is of no FleetMiniCluster on this hub: "+w.name+"/lost"),
			ContainSubstring("put its manifest back"), HaveSuffix("`kubectl --context "+w.member("a")+" -n "+w.name+" delete job lost`")))))
		Eventually(w.events).WithArguments(ctx, w.member("a")).Should(ContainElement("OwnerNotFound"))
		Consistently(func() any { return job(ctx, "alpine", w.name, "lost") }).Should(HaveField("UID", run.JobUID))

		Expect(admins["alpine"].Delete(ctx, job(ctx, "alpine", w.name, "lost"), client.PropagationPolicy("Background"))).To(Succeed())
		Eventually(unowned).WithArguments(ctx, w).Should(BeEmpty())
		Expect(meta.FindStatusCondition(w.memberCluster(ctx, "a").Status.Conditions, v1alpha1.ConditionUnownedJobs)).To(BeNil())
		Expect(w.line(ctx, "kept")).To(Equal(running))
	})
})
