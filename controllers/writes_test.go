package controllers_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/fleetminicluster"
	"github.com/minifleet/minifleet/controllers/internal/curvesecret"
	"github.com/minifleet/minifleet/hack/lab"
)

// path are all requests that a MiniCluster costs the hub from a push to its running pods, in the order in which they are sent.
var path = []string{
	"create fleetminiclusters", "update fleetminiclusters/status", "create secrets", "get fleetminiclusters", "update fleetminiclusters/status",
}

// requestsAbout are MiniFleet's requests to the hub about a FleetMiniCluster of a world, its certificate and its events included.
func requestsAbout(w *world, name string) []string {
	GinkgoHelper()
	secret := curvesecret.Name(types.NamespacedName{Namespace: w.name, Name: name})
	var out []string
	for _, e := range audit("hub", func(e *lab.AuditEvent) bool {
		return e.UserAgent == "minifleet" && e.Verb != "watch" && e.Object != nil &&
			(e.Object.Namespace == w.name && (e.Object.Name == name || strings.HasPrefix(e.Object.Name, name+".")) ||
				e.Object.Namespace == managerNamespace && e.Object.Name == secret)
	}) {
		what := e.Verb + " " + e.Object.Resource
		if e.Object.Subresource != "" {
			what += "/" + e.Object.Subresource
		}
		if e.Response.Code >= 300 {
			what += fmt.Sprintf(" (%d)", e.Response.Code)
		}
		out = append(out, what)
	}
	return out
}

// slow says whether a run took so long to get going that its status had to say more.
func slow(f *v1alpha1.FleetMiniCluster) bool {
	run := &f.Status.Runs[0]
	return run.RunningTime.Sub(run.StartTime.Time) > fleetminicluster.DefaultIntervals().Starting-2*time.Second
}

var _ = Describe("The path of a MiniCluster from a push to its running pods", func() {
	It("is four writes to the hub and one read", func(ctx SpecContext) {
		w := newWorld(ctx)
		put(ctx, admins["alpine"], w.lenient())
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		r := w.newRepository(ctx)
		r.commit(map[string]string{"README.txt": "none yet"})
		source := r.source(ctx)
		Eventually(func() string { return statusReason(source().Status.Conditions) }).Should(Equal("True Succeeded"))
		pushed := map[string]bool{}
		push := func(names ...string) {
			files := map[string]string{}
			for _, name := range names {
				files[name+".yaml"], pushed[name] = called(name), true
			}
			r.commit(files)
			for _, name := range names {
				Eventually(func() v1alpha1.State { return w.get(ctx, name).Status.State }).Should(Equal(v1alpha1.StateRunning), name)
			}
		}
		By("pushing one, and then several at once")
		push("alone")
		push("one", "two", "three", "four", "five", "six")

		By("counting until nothing more comes")
		count := func() map[string][]string {
			out := map[string][]string{}
			for name := range pushed {
				out[name] = requestsAbout(w, name)
			}
			return out
		}
		before := count()
		Consistently(count).Should(Equal(before))
		counted := 0
		for _, name := range slices.Sorted(maps.Keys(pushed)) {
			requests, f := before[name], w.get(ctx, name)
			Expect(requests).NotTo(ContainElement(ContainSubstring("events")), name)
			Expect(requests[:4]).To(Equal(path[:4]), name)
			if slow(f) {
				AddReportEntry(name+": NOT TESTED how many statuses were written", "its pods took until "+f.Status.Runs[0].RunningTime.String()+" to run, on a busy machine")
				continue
			}
			counted++
			Expect(requests).To(Equal(path), name)
		}
		if counted == 0 {
			Skip("NOT TESTED how many statuses are written: the pods of none ran within some seconds, on a busy machine")
		}
		Expect(jobsMade("alpine", w.name)).To(Equal(len(pushed)))
	})

	It("loses nothing of what waits to be written when the manager ends", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig(), capacityNone)
		f := w.fmc("waits", held)
		f.Spec.MiniCluster.Pod.NodeSelector = map[string]string{"no": "such-node"}
		Expect(hub.Create(ctx, f)).To(Succeed())
		released := func() bool {
			j := job(ctx, "alpine", w.name, "waits")
			return j != nil && j.Spec.Suspend != nil && !*j.Spec.Suspend
		}
		Eventually(released).Should(BeTrue())
		Consistently(released, "1s").Should(BeTrue()) // by then what the release has come to is known
		Expect(minifleet.Stop()).To(Succeed())
		run := w.get(ctx, "waits").Status.Runs[0]
		Expect(run.State).To(Equal(v1alpha1.RunRunning))
		Expect(run.JobUID).To(Equal(job(ctx, "alpine", w.name, "waits").UID))
		startMinifleet(labs.Cluster("hub").Kubeconfig())
	})
})
