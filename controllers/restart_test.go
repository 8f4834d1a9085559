package controllers_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/hubcache"
	"github.com/minifleet/minifleet/hack/lab"
)

var _ = Describe("A restart of MiniFleet", func() {
	// Pending: while a member is being connected, its line is rewritten to Unknown and back.
	It("changes nothing and writes nothing about what is as it was", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "done", brief)
		w.run(ctx, "live", held)
		Eventually(w.line).WithArguments(ctx, "done").Should(Equal("True Succeeded Synced Healthy 1/1"))
		Eventually(w.line).WithArguments(ctx, "live").Should(Equal("True Synced Synced Progressing 1/1"))
		Consistently(w.line).WithArguments(ctx, "live").Should(Equal("True Synced Synced Progressing 1/1"))
		// Of one that can be asked that means nothing, and is taken back.
		annotate(ctx, w, "live", v1alpha1.AnnotationRunGone, w.get(ctx, "live").Status.Runs[0].ID)
		Eventually(func() map[string]string { return w.get(ctx, "live").Annotations }).ShouldNot(HaveKey(v1alpha1.AnnotationRunGone))
		Eventually(w.events).WithArguments(ctx, "live").Should(ContainElement("RunHeardOf"))
		before := writesAbout("hub", w.name)
		told := w.events(ctx, "live")
		Expect(minifleet.Kill()).To(Succeed())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		w.run(ctx, "witness", brief) // when this one is through, the others have been reconciled
		Eventually(w.line).WithArguments(ctx, "witness").Should(Equal("True Succeeded Synced Healthy 1/1"))
		for _, name := range []string{"done", "live"} {
			Expect(about(writesAbout("hub", w.name), "/"+name)).To(Equal(about(before, "/"+name)), name)
		}
		Expect(w.events(ctx, "live")).To(ConsistOf(told))
		Expect(jobsMade("alpine", w.name)).To(Equal(3))
	})

	It("asks the hub for the next page of a list before it has decoded the one before", func(ctx SpecContext) {
		w := newWorld(ctx)
		for _, name := range []string{"a", "b", "c"} {
			Expect(hub.Create(ctx, &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}})).To(Succeed())
		}
		cfg, err := labs.Cluster("hub").RESTConfig()
		Expect(err).NotTo(HaveOccurred())
		client, err := rest.HTTPClientFor(cfg)
		Expect(err).NotTo(HaveOccurred())
		var asked atomic.Int32
		through := client.Transport
		client.Transport = transport(func(req *http.Request) (*http.Response, error) {
			asked.Add(1)
			return through.RoundTrip(req)
		})
		client = hubcache.ReadAhead(client)
		var names []string
		page := func(token string) string {
			GinkgoHelper()
			query := url.Values{"limit": {"1"}}
			if token != "" {
				query.Set("continue", token)
			}
			answer, err := client.Get(cfg.Host + "/apis/minifleet.dev/v1alpha1/namespaces/" + w.name + "/placements?" + query.Encode()) //nolint:noctx // of this spec alone
			Expect(err).NotTo(HaveOccurred())
			defer func() { _ = answer.Body.Close() }()
			var list v1alpha1.PlacementList
			Expect(json.NewDecoder(answer.Body).Decode(&list)).To(Succeed())
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
			return list.Continue
		}
		token := page("")
		Eventually(asked.Load).Should(Equal(int32(2)), "an API server has said where the list goes on elsewhere than at its end")
		Expect(page(page(token))).To(BeEmpty())
		Expect(names).To(Equal([]string{"a", "b", "c"}))
		Expect(asked.Load()).To(Equal(int32(3)))
	})
})

// transport sends requests.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }

// writesAbout are MiniFleet's writes about a namespace of a cluster, without events.
func writesAbout(cluster, namespace string) []string {
	GinkgoHelper()
	var out []string
	for _, e := range audit(cluster, func(e *lab.AuditEvent) bool {
		return e.UserAgent == "minifleet" && e.Write() && e.Object != nil && e.Object.Namespace == namespace && e.Object.Resource != "events"
	}) {
		out = append(out, e.Verb+" "+e.RequestURI)
	}
	return out
}

func about(writes []string, part string) []string {
	var out []string
	for _, s := range writes {
		if strings.Contains(s, part) {
			out = append(out, s)
		}
	}
	return out
}
