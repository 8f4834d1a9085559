package controllers_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// endless is a body of JSON that never ends. It counts what is read of it.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	if e.read.Add(int64(len(p))) == int64(len(p)) {
		p[0] = '"'
	}
	return len(p), nil
}

// saying is an answer with a body of JSON.
func saying(req *http.Request, body io.Reader) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 2, Request: req, ContentLength: -1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(body),
	}
}

func isIdentity(req *http.Request) bool {
	return req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/namespaces/kube-system")
}

var _ = Describe("A hostile member", func() {
	It("is quarantined for an answer beyond a limit until a person lifts that, also by a hub that is restarted, and nobody else notices", func(ctx SpecContext) {
		w := newWorld(ctx)
		g := newAPIProxy(labs.Cluster("alpine"))
		w.register(ctx, "a", g.kubeconfig())
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
		w.run(ctx, "kept", held)
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal("True Synced Synced Progressing 2/2"))
		uid := job(ctx, "alpine", w.name, "kept").UID

		By("answering without end")
		var sent endless
		g.answer(func(req *http.Request) *http.Response {
			if !isIdentity(req) {
				return nil
			}
			return saying(req, &sent)
		})
		g.server.CloseClientConnections()
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("False Quarantined"))
		Expect(w.message(ctx, "a")).To(And(ContainSubstring("GET /api/v1/namespaces/kube-system"), ContainSubstring("at most 8 MiB"),
			ContainSubstring(v1alpha1.AnnotationLiftQuarantine)))
		Expect(w.memberCluster(ctx, "a").Status.Quarantine).To(HaveField("Limit", "Object"))
		Expect(w.memberCluster(ctx, "a").Status.LastHeardTime).NotTo(BeNil())
		Eventually(w.events).WithArguments(ctx, w.member("a")).Should(ContainElement("Quarantined"))
		Eventually(w.on).WithArguments(ctx, "kept", "a").Should(Equal("Unknown Unknown"))
		Expect(w.on(ctx, "kept", "b")).To(Equal("Synced Progressing"))
		Expect(sent.read.Load()).To(BeNumerically("<", 64<<20), "what was read of an endless answer")
		g.answer(nil)

		By("not being asked any more")
		var asked atomic.Int32
		g.hold(func(*http.Request) { asked.Add(1) })
		w.run(ctx, "meanwhile", brief)
		Eventually(w.on).WithArguments(ctx, "meanwhile", "b").Should(Equal("Synced Healthy"))
		Expect(minifleet.Kill()).To(Succeed())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		w.run(ctx, "later", brief)
		Eventually(w.on).WithArguments(ctx, "later", "b").Should(Equal("Synced Healthy"))
		w.amend(ctx, "a", func(m *v1alpha1.MemberCluster) {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1alpha1.AnnotationLiftQuarantine, "now")
		})
		Eventually(w.message).WithArguments(ctx, "a").Should(ContainSubstring("is no time"))
		Expect(w.reason(ctx, "a")).To(Equal("False Quarantined"))
		Expect(w.on(ctx, "kept", "a")).To(Equal("Unknown Unknown"))
		Expect(w.runsOf(ctx, "kept")).To(ConsistOf(HavePrefix("a "), HavePrefix("b ")))
		Expect(asked.Load()).To(BeZero())

		By("being forgiven")
		w.amend(ctx, "a", func(m *v1alpha1.MemberCluster) {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1alpha1.AnnotationLiftQuarantine, time.Now().Add(2*time.Second).UTC().Format(time.RFC3339))
		})
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))
		Expect(w.memberCluster(ctx, "a").Status.Quarantine).To(BeNil())
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal("True Synced Synced Progressing 2/2"))
		Expect(job(ctx, "alpine", w.name, "kept").UID).To(Equal(uid))
		Expect(jobsDeleted("alpine", w.name)).To(BeZero())
		Eventually(w.line).WithArguments(ctx, "later").Should(Equal("True Succeeded Synced Healthy 2/2"))
		Expect(jobsMade("alpine", w.name)).To(Equal(3))
		Expect(jobsMade("basalt", w.name)).To(Equal(3))
	})

	It("that redirects is refused, and nothing is sent to where it leads", func(ctx SpecContext) {
		w := newWorld(ctx)
		elsewhere := newAPIProxy(labs.Cluster("basalt"))
		var stolen atomic.Int32
		elsewhere.hold(func(*http.Request) { stolen.Add(1) })
		g := newAPIProxy(labs.Cluster("alpine"))
		w.register(ctx, "a", g.kubeconfig())
		w.run(ctx, "kept", held)
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal("True Synced Synced Progressing 1/1"))
		g.answer(func(req *http.Request) *http.Response {
			return refusal(req, http.StatusTemporaryRedirect, map[string]string{"Location": elsewhere.server.URL + req.URL.Path})
		})
		g.server.CloseClientConnections()
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("False RedirectRefused"))
		Eventually(w.on).WithArguments(ctx, "kept", "a").Should(Equal("Unknown Unknown"))
		Expect(stolen.Load()).To(BeZero())
		g.answer(nil)
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal("True Synced Synced Progressing 1/1"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})

	It("that claims the identity of another is refused, though it was registered first, and both are told", func(ctx SpecContext) {
		w := newWorld(ctx)
		var system corev1.Namespace
		Expect(admins["alpine"].Get(ctx, client.ObjectKey{Name: "kube-system"}, &system)).To(Succeed())
		g := newAPIProxy(labs.Cluster("basalt"))
		g.answer(func(req *http.Request) *http.Response { return refusal(req, http.StatusServiceUnavailable, nil) })
		w.secret(ctx, "liar", g.kubeconfig())
		w.enroll(ctx, "liar")
		Eventually(w.reason).WithArguments(ctx, "liar").Should(Equal("Unknown Unreachable"))
		w.register(ctx, "honest", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "kept", held)
		Eventually(w.on).WithArguments(ctx, "kept", "honest").Should(Equal("Synced Progressing"))

		before := writesTo("basalt")
		g.answer(func(req *http.Request) *http.Response {
			if !isIdentity(req) {
				return nil
			}
			return saying(req, strings.NewReader(fmt.Sprintf(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":%q}}`, system.UID)))
		})
		Eventually(w.reason).WithArguments(ctx, "liar").Should(Equal("False IdentityClaimed"))
		Expect(w.message(ctx, "liar")).To(And(ContainSubstring("MemberCluster "+w.member("honest")), ContainSubstring(g.server.URL)))
		Eventually(w.events).WithArguments(ctx, w.member("honest")).Should(ContainElement("IdentityClaimed"))
		Consistently(w.reason).WithArguments(ctx, "honest").Should(Equal("True Connected"))

		By("being as it is after a restart of the hub")
		Expect(minifleet.Kill()).To(Succeed())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		w.run(ctx, "later", brief)
		Eventually(w.on).WithArguments(ctx, "later", "honest").Should(Equal("Synced Healthy"))
		Consistently(w.reason).WithArguments(ctx, "liar").Should(Equal("False IdentityClaimed"))
		Expect(w.on(ctx, "kept", "honest")).To(Equal("Synced Progressing"))
		Expect(w.memberCluster(ctx, "liar").Status.ClusterUID).To(BeEmpty())
		Expect(writesTo("basalt")).To(Equal(before))

		By("saying who it is")
		g.answer(nil)
		Eventually(w.reason).WithArguments(ctx, "liar").Should(Equal("True Connected"))
		Expect(w.reason(ctx, "honest")).To(Equal("True Connected"))
	})

	It("is told from one whose address and CA its administrator changes", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		before := w.memberCluster(ctx, "a").Status
		Expect(before.Identity.Server).To(Equal("https://" + labs.Cluster("alpine").Address()))
		g := newAPIProxy(labs.Cluster("alpine"))
		w.secret(ctx, "a", g.kubeconfig())
		Eventually(func() string { return w.memberCluster(ctx, "a").Status.Identity.Server }).Should(Equal(g.server.URL))
		after := w.memberCluster(ctx, "a").Status
		Expect(after.ClusterUID).To(Equal(before.ClusterUID))
		Expect(after.Identity.CA).NotTo(Equal(before.Identity.CA))
		Expect(after.Identity.Since).To(Equal(before.Identity.Since))
		Expect(w.reason(ctx, "a")).To(Equal("True Connected"))
	})
})
