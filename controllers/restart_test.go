package controllers_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/minifleet/minifleet/api/v1alpha1"
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
})

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
