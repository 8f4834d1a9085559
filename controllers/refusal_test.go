package controllers_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// refusal is an answer of a server that is overloaded or broken.
func refusal(req *http.Request, code int, header map[string]string) *http.Response {
	resp := &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader("not now")), Request: req,
	}
	for k, v := range header {
		resp.Header.Set(k, v)
	}
	return resp
}

// deny refuses objects of a resource in one namespace of alpine, with this message.
func deny(ctx context.Context, namespace, group, resource, message string) {
	GinkgoHelper()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	policy.Spec = admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
			},
		}}},
		Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: message}},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	binding.Spec = admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: namespace, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		MatchResources: &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace},
		}},
	}
	for _, obj := range []client.Object{policy, binding} {
		Expect(admins["alpine"].Create(ctx, obj)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { _ = admins["alpine"].Delete(ctx, obj) })
	}
	// It takes a while to be in force.
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "probe-"}}
	if resource == "configmaps" {
		Eventually(func() error { return admins["alpine"].Create(ctx, probe.DeepCopy()) }).Should(MatchError(ContainSubstring(message)))
	}
}

// allowNoJobs has a quota on alpine that lets no Job be created.
func (w *world) allowNoJobs(ctx context.Context) *corev1.ResourceQuota {
	GinkgoHelper()
	ns := w.onMember()
	Expect(admins["alpine"].Create(ctx, ns)).To(Succeed())
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "no-jobs"}}
	quota.Spec.Hard = corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")}
	Expect(admins["alpine"].Create(ctx, quota)).To(Succeed())
	Eventually(func() corev1.ResourceList {
		_ = admins["alpine"].Get(ctx, client.ObjectKeyFromObject(quota), quota)
		return quota.Status.Hard
	}).ShouldNot(BeEmpty())
	return quota
}

var _ = Describe("A member that refuses", func() {
	It("for a while, with 429 and 5xx, is asked again with patience, and others do not wait for it", func(ctx SpecContext) {
		w := newWorld(ctx)
		g := newAPIProxy(labs.Cluster("alpine"))
		w.register(ctx, "a", g.kubeconfig())
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
		var asked atomic.Int32
		g.answer(func(req *http.Request) *http.Response {
			if req.Method == http.MethodGet || !strings.Contains(req.URL.Path, "/namespaces/"+w.name) {
				return nil
			}
			if asked.Add(1)%2 == 0 {
				return refusal(req, http.StatusServiceUnavailable, nil)
			}
			return refusal(req, http.StatusTooManyRequests, map[string]string{"Retry-After": "2"})
		})
		w.run(ctx, "patient", held)
		Eventually(w.on).WithArguments(ctx, "patient", "b").Should(Equal("Synced Progressing"))
		Eventually(w.on).WithArguments(ctx, "patient", "a").ShouldNot(Equal("OutOfSync Missing"))
		before := asked.Load()
		Consistently(asked.Load, "6s").Should(BeNumerically("<=", before+12), "requests in six seconds to a server that asks for patience")
		Expect(asked.Load()).To(BeNumerically(">", before), "it is tried again")
		g.answer(nil)
		Eventually(w.line).WithArguments(ctx, "patient").Should(Equal("True Synced Synced Progressing 2/2"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
		Expect(jobsMade("basalt", w.name)).To(Equal(1))
	})

	It("to have a namespace made tells so, and runs once when it is there", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig(), func(m *v1alpha1.MemberCluster) { m.Spec.CreateNamespaces = ptr.To(false) })
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
		w.run(ctx, "homeless", held)
		Eventually(w.on).WithArguments(ctx, "homeless", "b").Should(Equal("Synced Progressing"))
		Eventually(func() string { return w.lineOnA(ctx, "homeless").Message }).Should(And(ContainSubstring("namespace"), ContainSubstring(w.name)))
		Expect(w.lineOnA(ctx, "homeless").Reason).To(Equal(v1alpha1.ReasonNamespaceDenied))
		Expect(admins["alpine"].Create(ctx, w.onMember())).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "homeless").Should(Equal("True Synced Synced Progressing 2/2"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})

	It("for want of quota, or by admission, is told in the member's own words, and others run", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.both(ctx)
		quota := w.allowNoJobs(ctx)
		w.run(ctx, "refused", held)
		Eventually(w.on).WithArguments(ctx, "refused", "b").Should(Equal("Synced Progressing"))
		Eventually(func() string { return w.lineOnA(ctx, "refused").Message }).Should(ContainSubstring("exceeded quota: no-jobs"))
		Expect(w.lineOnA(ctx, "refused").Reason).To(Equal(v1alpha1.ReasonApplyFailed))
		deny(ctx, w.name, "", "configmaps", "the site forbids ConfigMaps")
		Expect(admins["alpine"].Delete(ctx, quota)).To(Succeed())
		w.run(ctx, "denied", held)
		Eventually(func() string { return w.lineOnA(ctx, "denied").Message }).Should(ContainSubstring("the site forbids ConfigMaps"))
		Eventually(w.line).WithArguments(ctx, "refused").Should(Equal("True Synced Synced Progressing 2/2"))
		Expect(w.readyMessage(ctx, "denied")).To(ContainSubstring("the site forbids ConfigMaps"))
	})

	It("to have a Job released has not started its run", func(ctx SpecContext) {
		w := newWorld(ctx)
		g := newAPIProxy(labs.Cluster("alpine"))
		w.register(ctx, "a", g.kubeconfig())
		g.answer(func(req *http.Request) *http.Response {
			if req.Method != http.MethodPatch || !strings.Contains(req.URL.Path, "/namespaces/"+w.name+"/jobs/") {
				return nil
			}
			return refusal(req, http.StatusForbidden, nil)
		})
		w.run(ctx, "unreleased", held)
		Eventually(w.line).WithArguments(ctx, "unreleased").Should(Equal("False ApplyFailed OutOfSync Degraded 0/1"))
		Eventually(func() types.UID { return w.get(ctx, "unreleased").Status.Runs[0].JobUID }).ShouldNot(BeEmpty())
		Expect(w.get(ctx, "unreleased").Status.Runs[0].State).To(Equal(v1alpha1.RunStarting))
		Expect(w.events(ctx, "unreleased")).NotTo(ContainElement("RunStarted"))
		g.answer(nil)
		Eventually(w.line).WithArguments(ctx, "unreleased").WithTimeout(60 * time.Second).Should(Equal("True Synced Synced Progressing 1/1"))
		Expect(w.get(ctx, "unreleased").Status.Runs[0].State).To(Equal(v1alpha1.RunRunning))
		Eventually(w.events).WithArguments(ctx, "unreleased").Should(ContainElement("RunStarted"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})
})
