package controllers_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// gitSource makes a GitSource that is not of a repository of this test.
func gitSource(ctx context.Context, namespace, name, url string, change ...func(*v1alpha1.GitSourceSpec)) {
	GinkgoHelper()
	s := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Spec = v1alpha1.GitSourceSpec{URL: url, Interval: metav1.Duration{Duration: time.Minute}, Timeout: metav1.Duration{Duration: time.Minute}}
	for _, f := range change {
		f(&s.Spec)
	}
	Expect(hub.Create(ctx, s)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(hub.Delete(ctx, s)) })
}

// sourceState is STATUS REASON of Ready and its message.
func sourceState(ctx context.Context, namespace, name string) (reason, message string) {
	var s v1alpha1.GitSource
	if err := hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &s); err != nil {
		return "", ""
	}
	return statusReason(s.Status.Conditions), says(s.Status.Conditions)
}

var _ = Describe("A hostile repository", func() {
	It("is not asked for at addresses of the hub's own, nor without TLS where anything is allowed", func(ctx SpecContext) {
		w := newWorld(ctx)
		var api corev1.Service
		Expect(hub.Get(ctx, client.ObjectKey{Namespace: "default", Name: "kubernetes"}, &api)).To(Succeed())
		gitSource(ctx, w.name, "metadata", "http://169.254.169.254/latest/meta-data")
		gitSource(ctx, w.name, "service", "https://"+api.Spec.ClusterIP+"/x")
		gitSource(ctx, w.name, "mapped", "https://[::ffff:169.254.169.254]/x")
		gitSource(ctx, w.name, "allows", "http://127.0.0.1:1/x", func(s *v1alpha1.GitSourceSpec) { s.Allow = []v1alpha1.Permission{"HostPath"} })
		for name, part := range map[string]string{
			"metadata": "169.254.0.0/16", "mapped": "169.254.0.0/16", "service": "--git-allowed-cidrs", "allows": "http:// is refused where dangerous fields are allowed",
		} {
			Eventually(func(g Gomega) {
				reason, message := sourceState(ctx, w.name, name)
				g.Expect(reason).To(Equal("False URLRefused"))
				g.Expect(message).To(ContainSubstring(part))
			}).Should(Succeed(), name)
		}

		By("allowing something in the namespace of one that allows nothing itself")
		gitSource(ctx, w.name, "plain", "http://127.0.0.1:1/x")
		Eventually(func() string { reason, _ := sourceState(ctx, w.name, "plain"); return reason }).Should(Equal("False Unreachable"))
		w.setAllow(ctx, "HostPath")
		Eventually(func() string { reason, _ := sourceState(ctx, w.name, "plain"); return reason }).Should(Equal("False URLRefused"))
	})

	It("does not hold up those of other namespaces, however many there are and however slow", func(ctx SpecContext) {
		w := newWorld(ctx)
		silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and never answers
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(silent.Close)
		slow := w.name + "-slow"
		w.makeNamespace(ctx, slow)
		for i := range 60 {
			gitSource(ctx, slow, fmt.Sprint("slow-", i), "http://"+silent.Addr().String()+"/x")
		}
		Eventually(func() int {
			waiting := 0
			for i := range 60 {
				if reason, _ := sourceState(ctx, slow, fmt.Sprint("slow-", i)); reason == "Unknown WaitingForTurn" {
					waiting++
				}
			}
			return waiting
		}).Should(BeNumerically(">=", 50))
		r := w.newRepository(ctx)
		r.commit(map[string]string{"a.yaml": harmlessFile})
		source := r.source(ctx)
		Eventually(func() string { return statusReason(source().Status.Conditions) }).Should(Equal("True Succeeded"))
	})

	It("declares no more than its service account may, and loses nothing that it lacks rights for", func(ctx SpecContext) {
		w := newWorld(ctx)
		asDeployed()
		follow("to bind it: kubectl -n " + w.name + " create rolebinding minifleet-secrets --clusterrole=minifleet-secret-reader --serviceaccount=minifleet-system:minifleet-controller-manager")
		r := w.newRepository(ctx)
		r.commit(map[string]string{"a.yaml": harmlessFile, "b.yaml": strings.Replace(harmlessFile, "name: harmless", "name: another", 1)})
		Expect(hub.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "tenant"}})).To(Succeed())
		source := r.source(ctx)
		Eventually(func() []string { return w.names(ctx) }).Should(ConsistOf("harmless", "another"))
		reason := func() string { return statusReason(source().Status.Conditions) }
		problem := func() string {
			if p := source().Status.Problems; len(p) > 0 {
				return p[0].Message
			}
			return ""
		}
		account := func(name string) {
			GinkgoHelper()
			Eventually(func() error { s := source(); s.Spec.ServiceAccountName = name; return hub.Update(ctx, s) }).Should(Succeed())
		}

		By("naming an account that the hub may not act as, with a commit that changes everything")
		account("tenant")
		Eventually(func() int64 { return source().Status.ObservedGeneration }).Should(Equal(source().Generation))
		r.commit(map[string]string{"a.yaml": "", "c.yaml": strings.Replace(harmlessFile, "name: harmless", "name: third", 1)})
		Eventually(func() string { return reason() + ": " + says(source().Status.Conditions) }).Should(HavePrefix("False ImpersonationForbidden"))
		Expect(w.names(ctx)).To(ConsistOf("harmless", "another"))
		follow(says(source().Status.Conditions))

		By("acting as the account, which may do nothing: what replaces something cannot be made, so that stays")
		lacks := "system:serviceaccount:" + w.name + ":tenant lacks the verb create on fleetminiclusters in namespace " + w.name
		Eventually(problem).Should(ContainSubstring(lacks))
		Consistently(func() []string { return w.names(ctx) }).Should(ConsistOf("harmless", "another"))
		follow(problem())
		Eventually(func() []string { return w.names(ctx) }).Should(ConsistOf("another", "third"))
		Eventually(reason).Should(Equal("True Succeeded"))

		By("taking the rights away")
		Expect(hub.Delete(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "minifleet-tenant"}})).To(Succeed())
		r.commit(map[string]string{"c.yaml": ""})
		Eventually(problem).Should(ContainSubstring("tenant lacks the verb delete on fleetminiclusters"))
		Expect(w.names(ctx)).To(ConsistOf("another", "third"))

		By("deleting the source, whose account can do nothing: what it made stays")
		Expect(hub.Delete(ctx, source())).To(Succeed())
		Eventually(func() string { return source().Name }).Should(BeEmpty())
		Expect(w.names(ctx)).To(ConsistOf("another", "third"))
	})
})

// names are those of the FleetMiniClusters of a world.
func (w *world) names(ctx context.Context) []string {
	var list v1alpha1.FleetMiniClusterList
	if err := hub.List(ctx, &list, client.InNamespace(w.name)); err != nil {
		return []string{err.Error()}
	}
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return out
}
