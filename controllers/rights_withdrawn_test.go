package controllers_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/hack/lab"
)

var _ = Describe("A right that is withdrawn from a connected member", func() {
	DescribeTable("makes it not ready for the reason that the API server gives, until it is given back", func(ctx SpecContext, resource string, verbs []string, named string) {
		w := newWorld(ctx)
		user := w.name + "-user"
		grant(ctx, "alpine", "cluster", "", user)
		proxy, err := lab.NewProxy(labs.Cluster("alpine").Address())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(proxy.Close)
		kubeconfig, err := labs.Cluster("alpine").KubeconfigFor(user)
		Expect(err).NotTo(HaveOccurred())
		kubeconfig, err = lab.WithServer(kubeconfig, proxy.Address())
		Expect(err).NotTo(HaveOccurred())
		w.register(ctx, "a", kubeconfig)
		w.run(ctx, "kept", held)
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal("True Synced Synced Progressing 1/1"))

		restore := withdraw(ctx, "alpine", user, resource, verbs...)
		proxy.CloseConnections() // and so ends the watches, which outlive their right
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("False Forbidden"))
		Expect(w.message(ctx, "a")).To(And(ContainSubstring(user), ContainSubstring(named)))
		Eventually(w.on).WithArguments(ctx, "kept", "a").Should(Equal("Unknown Unknown"))
		Consistently(w.reason, "3s").WithArguments(ctx, "a").Should(Equal("False Forbidden"))
		restore()
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))
		Eventually(w.on).WithArguments(ctx, "kept", "a").Should(Equal("Synced Progressing"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	},
		Entry("to list and watch Pods", "pods", []string{"list", "watch"}, `cannot list resource "pods"`),
		Entry("to watch Pods", "pods", []string{"watch"}, `cannot watch resource "pods"`),
		Entry("to list and watch Secrets", "secrets", []string{"list", "watch"}, `cannot list resource "secrets"`),
		Entry("to watch Jobs", "jobs", []string{"watch"}, `cannot watch resource "jobs"`),
	)

	It("is noticed when it is needed, though the watches go on", func(ctx SpecContext) {
		w := newWorld(ctx)
		user := w.name + "-user"
		grant(ctx, "alpine", "cluster", "", user)
		kubeconfig, err := labs.Cluster("alpine").KubeconfigFor(user)
		Expect(err).NotTo(HaveOccurred())
		w.register(ctx, "a", kubeconfig)
		w.run(ctx, "again", brief)
		Eventually(w.line).WithArguments(ctx, "again").Should(Equal("True Succeeded Synced Healthy 1/1"))
		restore := withdraw(ctx, "alpine", user, "pods", "list", "watch")
		Eventually(func() error { // pods of earlier runs are listed before another one begins
			f := w.get(ctx, "again")
			f.Spec.MiniCluster.Pod.Annotations = held
			return hub.Update(ctx, f)
		}).Should(Succeed())
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("False Forbidden"))
		Expect(w.message(ctx, "a")).To(ContainSubstring(`cannot list resource "pods"`))
		restore()
		Eventually(w.line).WithArguments(ctx, "again").Should(Equal("True Synced Synced Progressing 1/1"))
		Expect(jobsMade("alpine", w.name)).To(Equal(2))
	})
})

// withdraw takes verbs on a resource from the role that grant has made for a user, and returns what gives them back.
func withdraw(ctx context.Context, cluster, user, resource string, verbs ...string) (restore func()) {
	GinkgoHelper()
	before := change(ctx, cluster, user, func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		var out []rbacv1.PolicyRule
		for _, rule := range rules {
			for _, r := range rule.Resources {
				one := *rule.DeepCopy()
				one.Resources = []string{r}
				if r == resource {
					one.Verbs = slices.DeleteFunc(one.Verbs, func(v string) bool { return slices.Contains(verbs, v) })
				}
				if len(one.Verbs) > 0 {
					out = append(out, one)
				}
			}
		}
		return out
	})
	return func() {
		GinkgoHelper()
		change(ctx, cluster, user, func([]rbacv1.PolicyRule) []rbacv1.PolicyRule { return before })
	}
}

// change writes the rules of a ClusterRole anew, and returns those that it had.
func change(ctx context.Context, cluster, name string, edit func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	GinkgoHelper()
	var role rbacv1.ClusterRole
	Expect(admins[cluster].Get(ctx, client.ObjectKey{Name: name}, &role)).To(Succeed())
	before := role.DeepCopy().Rules
	role.Rules = edit(before)
	Expect(admins[cluster].Update(ctx, &role)).To(Succeed())
	return before
}
