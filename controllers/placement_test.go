package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// both registers alpine as member a and basalt as member b.
func (w *world) both(ctx context.Context, change ...func(*v1alpha1.MemberCluster)) {
	GinkgoHelper()
	w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig(), change...)
	w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig(), change...)
}

// retaint gives a member these taints, and no others.
func (w *world) retaint(ctx context.Context, member string, taints ...v1alpha1.Taint) {
	GinkgoHelper()
	Eventually(func() error {
		m := w.memberCluster(ctx, member)
		m.Spec.Taints = taints
		return hub.Update(ctx, m)
	}).Should(Succeed())
}

// rejections are the reasons why members were not chosen.
func (w *world) rejections(ctx context.Context, name string) map[string]string {
	out := map[string]string{}
	if d := w.get(ctx, name).Status.Placement; d != nil {
		for _, r := range d.Rejected {
			out[r.Name] = r.Reason
		}
	}
	return out
}

var _ = Describe("Placement", func() {
	It("keeps new runs away from taints, and leaves runs that exist", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.both(ctx)
		w.run(ctx, "before", held)
		Eventually(w.line).WithArguments(ctx, "before").Should(Equal("True Synced Synced Progressing 2/2"))
		w.retaint(ctx, "a", v1alpha1.Taint{Key: "maintenance", Value: "spring", Effect: v1alpha1.NoSelect})

		w.run(ctx, "after", brief)
		Eventually(w.line).WithArguments(ctx, "after").Should(Equal("True Succeeded Synced Healthy 1/1"))
		Expect(w.rejections(ctx, "after")).To(HaveKeyWithValue(w.member("a"), "its taint maintenance=spring:NoSelect is not tolerated"))
		Expect(w.line(ctx, "before")).To(Equal("True Synced Synced Progressing 2/2"))
		Expect(jobsDeleted("alpine", w.name)).To(BeZero())

		tolerant := w.fmc("tolerant", brief)
		tolerant.Spec.Placement.Tolerations = []v1alpha1.Toleration{{Key: "maintenance", Operator: v1alpha1.TolerateExists}}
		Expect(hub.Create(ctx, tolerant)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "tolerant").Should(Equal("True Succeeded Synced Healthy 2/2"))

		w.retaint(ctx, "a")
		Eventually(w.line).WithArguments(ctx, "after").Should(Equal("True Succeeded Synced Healthy 2/2"))
		Expect(w.reason(ctx, "a")).To(Equal("True Connected"))
	})

	It("chooses by score, says so, and does not move what runs when scores change", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.both(ctx)
		relabel := func(member, cost string) {
			Eventually(func() error {
				m := w.memberCluster(ctx, member)
				m.Labels["cost"] = cost
				return hub.Update(ctx, m)
			}).Should(Succeed())
		}
		relabel("a", "3")
		relabel("b", "1")
		f := w.fmc("thrifty", held)
		f.Spec.Placement.NumberOfClusters = ptr.To[int32](1)
		f.Spec.Placement.PrioritizerPolicy.Configurations = []v1alpha1.PrioritizerConfig{{
			ScoreCoordinate: v1alpha1.ScoreCoordinate{Type: v1alpha1.ScoreLabel, Label: "cost"}, Weight: ptr.To[int32](2),
		}}
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "thrifty").Should(Equal("True Synced Synced Progressing 1/1"))
		d := w.get(ctx, "thrifty").Status.Placement
		Expect(d.Clusters).To(Equal([]string{w.member("b")}))
		Expect(d.Decisions).To(Equal([]v1alpha1.ClusterDecision{{Name: w.member("b"), Score: 66, Reason: "label cost 2×33 (1), Steady 0"}}))
		relabel("a", "0")
		relabel("b", "9")
		w.run(ctx, "witness", brief)
		Eventually(w.line).WithArguments(ctx, "witness").Should(Equal("True Succeeded Synced Healthy 2/2"))
		Expect(w.get(ctx, "thrifty").Status.Placement).To(Equal(d))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})
})
