package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// capPriority sets the highest priority of this world's namespace that counts among those of others.
func (w *world) capPriority(ctx context.Context, value string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var ns corev1.Namespace
		g.Expect(hub.Get(ctx, client.ObjectKey{Name: w.name}, &ns)).To(Succeed())
		metav1.SetMetaDataAnnotation(&ns.ObjectMeta, v1alpha1.AnnotationMaxPriority, value)
		g.Expect(hub.Update(ctx, &ns)).To(Succeed())
	}).Should(Succeed())
}

// allowRuns lets each namespace of the world but its first have so many runs on member a.
func (w *world) allowRuns(ctx context.Context, runs int32) {
	GinkgoHelper()
	w.amend(ctx, "a", func(m *v1alpha1.MemberCluster) {
		m.Spec.Shares = []v1alpha1.NamespaceShare{{Name: "team", Runs: ptr.To(runs), Namespaces: v1alpha1.ShareNamespaces{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.name + "-team"}},
		}}}
	})
}

var _ = Describe("Two namespaces that share a member", func() {
	It("have their turn whatever priority one of them gives itself, within the limits of each", func(ctx SpecContext) {
		w := roomyWorld(ctx)
		team := w.name + "-team"
		w.makeNamespace(ctx, team)
		w.allowRuns(ctx, 1)
		greedy := func(name string, pods int32, cpu string) {
			GinkgoHelper()
			f := w.asking(name, pods, cpu, held)
			f.Spec.Priority = 1 << 30
			Expect(hub.Create(ctx, f)).To(Succeed())
		}
		fair := func(name, cpu string) {
			GinkgoHelper()
			f := w.asking(name, 1, cpu, held)
			f.Namespace = team
			Expect(hub.Create(ctx, f)).To(Succeed())
		}
		teamLine := func(ctx context.Context, name string) string { return lineOf(fmcIn(ctx, team, name)) }
		teamMessage := func(ctx context.Context, name string) string {
			if p := fmcIn(ctx, team, name).Status.Placement; p != nil && len(p.Waiting) > 0 {
				return p.Waiting[0].Reason
			}
			return ""
		}
		greedy("large", 4, "10")
		w.podsRun(ctx, "large", "4/4")
		fair("fair", "30")
		Eventually(teamLine).WithArguments(ctx, "fair").Should(Equal("False InsufficientCapacity OutOfSync Missing 0/1"))
		greedy("small", 1, "6") // 4 CPU would remain beside the 30, whichever of the pods end
		const behind = "room there is kept for a run of another namespace, which waits for it and comes first; its priority 1073741824 counts as 0 among other namespaces"
		Eventually(w.readyMessage).WithArguments(ctx, "small").Should(ContainSubstring(behind))
		Expect(w.readyMessage(ctx, "small")).NotTo(ContainSubstring(team))

		By("having its priority count, which takes effect at once")
		w.capPriority(ctx, "7")
		Eventually(w.line).WithArguments(ctx, "small").Should(Equal(running))

		By("writing what is no number, which counts as nothing and is told")
		w.capPriority(ctx, "high")
		greedy("more", 1, "18")
		Eventually(w.readyMessage).WithArguments(ctx, "more").Should(ContainSubstring(behind))
		Eventually(w.events).WithArguments(ctx, "more").Should(ContainElement(ContainSubstring("InvalidMaxPriority")))

		By("making room, of which the other namespace has its part first")
		Expect(hub.Delete(ctx, w.get(ctx, "large"))).To(Succeed())
		Eventually(teamLine).WithArguments(ctx, "fair").Should(Equal(running))
		Eventually(w.line).WithArguments(ctx, "more").Should(Equal(running))

		By("exceeding what the namespace may have, until it may have more")
		fair("second", "1")
		Eventually(teamMessage).WithArguments(ctx, "second").Should(HavePrefix("quota exceeded: it asks for 1 run; its namespace uses 1 run of the 1 run that it may use there"))
		Expect(fmcIn(ctx, team, "second").Status.Runs).To(BeEmpty())
		w.allowRuns(ctx, 2)
		Eventually(teamLine).WithArguments(ctx, "second").Should(Equal(running))
	})
})
