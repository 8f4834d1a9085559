package controllers_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

const webhookToken = "a token that the forge has as well"

// webhook posts what GitHub sends, signed with a token, and returns the status.
func webhook(ctx context.Context, path, event, body, token string) int {
	GinkgoHelper()
	mac := hmac.New(sha256.New, []byte(token))
	_, _ = io.WriteString(mac, body)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, receiverURL+path, strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	res, err := http.DefaultClient.Do(r)
	Expect(err).NotTo(HaveOccurred())
	Expect(res.Body.Close()).To(Succeed())
	return res.StatusCode
}

// heldRefs is a Git server whose next answer about its refs waits, once that is asked for.
type heldRefs struct {
	url   string
	hold  atomic.Bool
	asked chan struct{} // gets one when the answer is there
	let   chan struct{} // lets it go
}

// holdRefs is between MiniFleet and a Git server.
func holdRefs(server string) *heldRefs {
	GinkgoHelper()
	to, err := url.Parse(server)
	Expect(err).NotTo(HaveOccurred())
	h := &heldRefs{asked: make(chan struct{}, 1), let: make(chan struct{})}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: to.Scheme, Host: to.Host})
	proxy.ModifyResponse = func(res *http.Response) error {
		if !strings.HasSuffix(res.Request.URL.Path, "/info/refs") {
			return nil
		}
		refs, err := io.ReadAll(res.Body) // as they are now
		if err != nil {
			return err
		}
		res.Body = io.NopCloser(bytes.NewReader(refs))
		if h.hold.CompareAndSwap(true, false) {
			h.asked <- struct{}{}
			<-h.let
		}
		return nil
	}
	web := httptest.NewServer(proxy)
	DeferCleanup(web.Close)
	h.url = web.URL + to.Path
	return h
}

var _ = Describe("A webhook", func() {
	It("has the repository read at once, and no push is missed while it is being read", func(ctx SpecContext) {
		w := newWorld(ctx)
		r := w.newRepository(ctx)
		r.commit(map[string]string{"a.txt": "nothing yet"})
		held := holdRefs(r.server.URL("fleet"))
		key := client.ObjectKey{Namespace: w.name, Name: "hooked"}
		gitSource(ctx, w.name, "hooked", held.url, func(s *v1alpha1.GitSourceSpec) {
			s.Interval = metav1.Duration{Duration: 24 * time.Hour}
			s.DefaultPlacement = &v1alpha1.LocalReference{Name: "all"}
			s.Receiver = &v1alpha1.GitReceiver{Type: v1alpha1.ReceiverGitHub, SecretRef: v1alpha1.LocalReference{Name: "webhook"}}
		})
		now := func() *v1alpha1.GitSource {
			var s v1alpha1.GitSource
			Expect(hub.Get(ctx, key, &s)).To(Succeed())
			return &s
		}
		path := func() string { return now().Status.WebhookPath }
		ask := func(token string) {
			GinkgoHelper()
			Eventually(func() error {
				s := now()
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.AnnotationRequestedAt, token)
				return hub.Update(ctx, s)
			}).Should(Succeed())
			Eventually(func() string { return now().Status.LastHandledReconcileAt }).Should(Equal(token))
		}

		By("having no Secret yet")
		Eventually(func() string {
			if c := meta.FindStatusCondition(now().Status.Conditions, v1alpha1.ConditionReceiverFailed); c != nil {
				return c.Reason + " " + c.Message
			}
			return ""
		}).Should(HavePrefix("SecretInvalid spec.receiver.secretRef: there is no Secret " + w.name + "/webhook"))
		Expect(statusReason(now().Status.Conditions)).To(Equal("True Succeeded"), "it is read nevertheless")
		Expect(path()).To(BeEmpty())
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "webhook"},
			Data:       map[string][]byte{v1alpha1.ReceiverTokenKey: []byte(webhookToken)},
		}
		Expect(hub.Create(ctx, secret)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(hub.Delete(ctx, secret)) })
		ask("first")
		Expect(path()).To(MatchRegexp("^/hook/[0-9a-f]{64}$"))
		Expect(meta.FindStatusCondition(now().Status.Conditions, v1alpha1.ConditionReceiverFailed)).To(BeNil())

		By("trying it out")
		Expect(webhook(ctx, path(), "ping", `{"zen":"x"}`, webhookToken)).To(Equal(http.StatusOK))
		Eventually(w.events).WithArguments(ctx, "hooked").Should(ContainElement(v1alpha1.ReasonWebhookPing))

		By("pushing")
		r.commit(map[string]string{"a.yaml": harmlessFile})
		Expect(webhook(ctx, path(), "push", `{"ref":"refs/heads/main"}`, "a token that the forge has not")).To(Equal(http.StatusUnauthorized))
		Expect(webhook(ctx, "/hook/"+strings.Repeat("0", 64), "push", `{"ref":"refs/heads/main"}`, webhookToken)).To(Equal(http.StatusUnauthorized))
		Expect(webhook(ctx, path(), "push", `{"ref":"refs/tags/v1"}`, webhookToken)).To(Equal(http.StatusOK))
		Consistently(func() []string { return w.names(ctx) }, "1s").Should(BeEmpty())
		Expect(webhook(ctx, path(), "push", `{"ref":"refs/heads/main"}`, webhookToken)).To(Equal(http.StatusAccepted))
		Eventually(func() []string { return w.names(ctx) }).Should(ConsistOf("harmless"))

		By("pushing while the repository is being read, after its refs were")
		held.hold.Store(true)
		Expect(webhook(ctx, path(), "push", `{"ref":"refs/heads/main"}`, webhookToken)).To(Equal(http.StatusAccepted))
		Eventually(held.asked).Should(Receive())
		r.commit(map[string]string{"b.yaml": strings.Replace(harmlessFile, "name: harmless", "name: another", 1)})
		Expect(webhook(ctx, path(), "push", `{"ref":"refs/heads/main"}`, webhookToken)).To(Equal(http.StatusAccepted))
		close(held.let)
		Eventually(func() []string { return w.names(ctx) }).Should(ConsistOf("harmless", "another"))

		By("changing the token, which changes the path")
		before := path()
		secret.Data[v1alpha1.ReceiverTokenKey] = []byte(webhookToken + ", and nobody else")
		Expect(hub.Update(ctx, secret)).To(Succeed())
		ask("second")
		Expect(path()).NotTo(Equal(before))
		Expect(webhook(ctx, before, "push", `{"ref":"refs/heads/main"}`, webhookToken)).To(Equal(http.StatusUnauthorized))
		Expect(webhook(ctx, path(), "push", `{"ref":"refs/heads/main"}`, webhookToken+", and nobody else")).To(Equal(http.StatusAccepted))
	})
})
