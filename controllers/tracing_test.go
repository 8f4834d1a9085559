package controllers_test

import (
	"context"
	"encoding/hex"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/tracing/tracingtest"
)

// tracesOf are the spans of each trace that has begun in a namespace of the hub, as NAME < PARENT, or NAME MEMBER < PARENT.
func tracesOf(namespace string) map[string][]string {
	names, mine := map[string]string{}, map[string]bool{}
	all := collector.Spans()
	for _, s := range all {
		names[string(s.SpanId)] = s.Name
		if tracingtest.Attribute(s, "k8s.namespace.name") == namespace {
			mine[string(s.TraceId)] = true
		}
	}
	out := map[string][]string{}
	for _, s := range all {
		if mine[string(s.TraceId)] {
			key := hex.EncodeToString(s.TraceId)
			out[key] = append(out[key], described(s, names))
		}
	}
	return out
}

func described(s *tracev1.Span, names map[string]string) string {
	line := s.Name
	if member := tracingtest.Attribute(s, "minifleet.member"); member != "" {
		line += " " + member
	}
	if len(s.ParentSpanId) > 0 {
		line += " < " + names[string(s.ParentSpanId)]
	}
	return line
}

// traceOf is the trace that begins with a commit.
func traceOf(commit string) string {
	for _, s := range collector.Spans() {
		if s.Name == "GitSource commit" && tracingtest.Attribute(s, "minifleet.commit") == commit && len(s.ParentSpanId) == 0 {
			return hex.EncodeToString(s.TraceId)
		}
	}
	return ""
}

var _ = Describe("OpenTelemetry", func() {
	It("is told of a commit's way to its Jobs in one trace, without what is secret", func(ctx SpecContext) {
		const password = "c4n4ry-password"
		w := newWorld(ctx)
		put(ctx, admins["alpine"], w.lenient())
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		r := w.newRepository(ctx)
		r.commit(map[string]string{"first.yaml": called("first")})
		source := r.source(ctx)
		Eventually(func() []string { return w.names(ctx) }).Should(ConsistOf("first"))
		Eventually(func() error {
			var secret corev1.Secret
			if err := hub.Get(ctx, client.ObjectKey{Namespace: w.name, Name: "git"}, &secret); err != nil {
				return err
			}
			secret.StringData = map[string]string{v1alpha1.GitUsernameKey: "c4n4ry-user", v1alpha1.GitPasswordKey: password}
			return hub.Update(ctx, &secret)
		}).Should(Succeed())
		r.commit(map[string]string{"traced.yaml": called("traced")})
		Eventually(func() []string { return w.names(ctx) }).Should(ConsistOf("first", "traced"))
		Eventually(func() int { return len(w.get(ctx, "traced").Status.Runs) }).Should(Equal(1))
		a := w.get(ctx, "traced").Status.Runs[0].Cluster

		commit := source().Status.Commit
		Eventually(func() map[string][]string { return tracesOf(w.name) }).Should(And(HaveLen(2), HaveEach(ContainElements(
			"GitSource commit", "fetch < GitSource commit", "parse < GitSource commit", "apply < GitSource commit",
			"reconcile FleetMiniCluster < GitSource commit", "place < reconcile FleetMiniCluster",
			"create Job "+a+" < reconcile FleetMiniCluster", "render < create Job",
		))))
		Expect(tracesOf(w.name)).To(HaveKey(traceOf(commit)))
		sent := string(collector.Bytes())
		for _, secret := range []string{password, "c4n4ry-user", "http://", "https://", "BEGIN ", w.certificateOf(ctx, "traced")} {
			Expect(strings.Contains(sent, secret)).To(BeFalse(), "sent: %s", secret)
		}
	})
})

// certificateOf is what is secret of the CURVE certificate of a FleetMiniCluster.
func (w *world) certificateOf(ctx context.Context, name string) string {
	GinkgoHelper()
	var secrets corev1.SecretList
	Expect(admins["alpine"].List(ctx, &secrets, client.InNamespace(w.name))).To(Succeed())
	for i := range secrets.Items {
		if text := string(secrets.Items[i].Data["curve.cert"]); strings.HasPrefix(secrets.Items[i].Name, name) && text != "" {
			_, key, found := strings.Cut(text, "secret-key = ")
			Expect(found).To(BeTrue())
			return strings.Trim(strings.TrimSpace(key), "\"")
		}
	}
	Fail("there is no CURVE certificate of " + name)
	return ""
}
