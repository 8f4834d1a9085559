package controllers_test

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// freeze stops MiniFleet at the first request that matches and holds that request back. What it returns sends the
// request on and lets MiniFleet go on.
func freeze(g *apiProxy, match func(*http.Request) bool) (frozen func() bool, thaw func()) {
	var caught atomic.Bool
	release, passed := make(chan struct{}), make(chan struct{})
	g.hold(func(req *http.Request) {
		if !match(req) || !caught.CompareAndSwap(false, true) {
			return
		}
		_ = minifleet.Pause()
		<-release
		close(passed)
	})
	return caught.Load, func() {
		GinkgoHelper()
		close(release)
		Eventually(passed).Should(BeClosed())
		Expect(minifleet.Resume()).To(Succeed())
	}
}

// withoutReceiver is for a second MiniFleet beside the one that has the port.
var withoutReceiver = []string{"--receiver-bind-address", "0"}

// succeed starts another MiniFleet, as a new leader would be.
func succeed() *lab.Process {
	GinkgoHelper()

	other := &lab.Process{
		Name: "successor", Path: minifleet.Path, Args: slices.Concat(minifleet.Args, withoutReceiver), Env: minifleet.Env,
		PidsDir: minifleet.PidsDir, LogsDir: minifleet.LogsDir,
	}
	config := hubKubeconfig + ".successor"
	Expect(os.WriteFile(config, labs.Cluster("hub").Kubeconfig(), 0o600)).To(Succeed())
	for i, arg := range other.Args {
		if arg == hubKubeconfig {
			other.Args[i] = config
		}
	}
	Expect(other.Start()).To(Succeed())
	DeferCleanup(func() { _ = other.Kill() })
	return other
}

// All of this happens without an election: it is what is left when the lease has passed and the old leader does not
// know it yet.
var _ = Describe("MiniFleet, paused in the middle of a write and succeeded by another,", func() {
	jobPost := func(req *http.Request) bool {
		return req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/jobs")
	}
	jobDelete := func(req *http.Request) bool {
		return req.Method == http.MethodDelete && strings.Contains(req.URL.Path, "/jobs/")
	}
	jobPatch := func(req *http.Request) bool {
		return req.Method == http.MethodPatch && strings.Contains(req.URL.Path, "/jobs/")
	}
	statusPut := func(req *http.Request) bool {
		return req.Method == http.MethodPut && strings.HasSuffix(req.URL.Path, "/stale/status")
	}
	edit := func(ctx context.Context, w *world, command string) {
		GinkgoHelper()
		Eventually(func() error {
			f := w.get(ctx, "stale")
			f.Spec.MiniCluster.Containers[0].Command = command
			f.Spec.OnChange = v1alpha1.Replace
			return hub.Update(ctx, f)
		}).Should(Succeed())
	}
	upToDate := func(ctx context.Context, w *world) string {
		f := w.get(ctx, "stale")
		if n := len(f.Status.Runs); n == 0 || f.Status.ObservedGeneration != f.Generation || f.Status.Runs[n-1].Digest != f.Status.Digest {
			return ""
		}
		return lineOf(f)
	}
	apiProxies := func() (toHub, onAlpine *apiProxy) {
		GinkgoHelper()
		toHub, onAlpine = newAPIProxy(labs.Cluster("hub")), newAPIProxy(labs.Cluster("alpine"))
		Expect(minifleet.Kill()).To(Succeed())
		startMinifleet(toHub.kubeconfig())
		DeferCleanup(func() {
			_ = minifleet.Resume()
			Expect(minifleet.Kill()).To(Succeed())
			startMinifleet(labs.Cluster("hub").Kubeconfig())
		})
		return toHub, onAlpine
	}
	DescribeTable("changes nothing when it goes on", func(ctx SpecContext, toMember bool, match func(*http.Request) bool, duringEdit bool) {
		toHub, onAlpine := apiProxies()
		w := newWorld(ctx)
		w.register(ctx, "a", onAlpine.kubeconfig())
		g := toHub
		if toMember {
			g = onAlpine
		}
		if duringEdit {
			w.run(ctx, "stale", held)
			Eventually(w.line).WithArguments(ctx, "stale").Should(Equal(running))
		}
		frozen, thaw := freeze(g, match)
		if duringEdit {
			edit(ctx, w, "second")
		} else {
			w.run(ctx, "stale", held)
		}
		Eventually(frozen).Should(BeTrue())
		next := succeed()
		Eventually(upToDate).WithArguments(ctx, w).Should(Equal(running))
		edit(ctx, w, "third")
		Eventually(upToDate).WithArguments(ctx, w).Should(Equal(running))
		before, made := w.get(ctx, "stale").Status.Runs, jobsMade("alpine", w.name)
		live := job(ctx, "alpine", w.name, "stale")
		thaw()
		Consistently(func(gm Gomega) {
			gm.Expect(job(ctx, "alpine", w.name, "stale")).To(HaveField("UID", live.UID))
			gm.Expect(job(ctx, "alpine", w.name, "stale").DeletionTimestamp).To(BeNil())
			now := w.get(ctx, "stale").Status.Runs
			gm.Expect(now).To(HaveLen(len(before)))
			gm.Expect(now[len(now)-1].ID).To(Equal(before[len(before)-1].ID))
		}, "4s").Should(Succeed())
		Expect(jobsMade("alpine", w.name)).To(Equal(made))
		Expect(made).To(Equal(len(before)), "each run has had one Job")
		Expect(next.Running()).To(BeTrue())
	},
		Entry("while it wrote the first line of the ledger", false, statusPut, false),
		Entry("while it created the Job", true, jobPost, false),
		Entry("while it released the Job", true, jobPatch, false),
		Entry("while it wrote that it would stop the run", false, statusPut, true),
		Entry("while it deleted the Job", true, jobDelete, true),
	)
	It("has nothing left of what was deleted since, and is in nobody's way", func(ctx SpecContext) {
		_, onAlpine := apiProxies()
		w := newWorld(ctx)
		w.register(ctx, "a", onAlpine.kubeconfig())
		frozen, thaw := freeze(onAlpine, jobPost)
		w.run(ctx, "stale", held)
		Eventually(frozen).Should(BeTrue())
		succeed()
		Eventually(w.line).WithArguments(ctx, "stale").Should(Equal(running))
		Expect(hub.Delete(ctx, w.get(ctx, "stale"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "stale").Should(BeFalse())
		made := podsMade(w.name)

		thaw()
		Eventually(jobsMade).WithArguments("alpine", w.name).Should(Equal(2), "the Job of the stale request is there")
		Eventually(func() any { return job(ctx, "alpine", w.name, "stale") }).Should(BeNil(), "and is removed")
		Expect(podsMade(w.name)).To(Equal(made))
		w.run(ctx, "stale", held)
		Eventually(w.line).WithArguments(ctx, "stale").Should(Equal(running))
	})
	It("makes no pod of a run that was started elsewhere since", func(ctx SpecContext) {
		_, onAlpine := apiProxies()
		w := newWorld(ctx)
		w.register(ctx, "a", onAlpine.kubeconfig())
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
		frozen, thaw := freeze(onAlpine, jobPost)
		w.single(ctx, "stale", nil)
		Eventually(frozen).Should(BeTrue())
		succeed()
		Eventually(w.line).WithArguments(ctx, "stale").Should(Equal(running))
		w.annotate(ctx, v1alpha1.AnnotationDrain, "true")
		Eventually(w.runsOf).WithArguments(ctx, "stale").Should(Equal([]string{"a Replaced Drained", "b Running"}))
		made, elsewhere := podsMade(w.name), job(ctx, "basalt", w.name, "stale")

		thaw()
		Eventually(jobsMade).WithArguments("alpine", w.name).Should(Equal(2), "the Job of the stale request is there")
		Eventually(func() any { return job(ctx, "alpine", w.name, "stale") }).Should(BeNil(), "and is removed")
		Expect(podsMade(w.name)).To(Equal(made))
		Expect(w.runsOf(ctx, "stale")).To(Equal([]string{"a Replaced Drained", "b Running"}))
		Expect(job(ctx, "basalt", w.name, "stale")).To(HaveField("UID", elsewhere.UID))
	})
})
