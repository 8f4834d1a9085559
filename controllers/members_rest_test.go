package controllers_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/internal/memberwatches"
	"github.com/minifleet/minifleet/controllers/internal/retry"
)

// restingMembers is how many members are measured: one API server stands for all of them.
const restingMembers = 20

var _ = Describe("A member at rest", func() {
	// What is needed for connections is what net/http runs, and one that reads each watch. Beside these there are the
	// reflector's two for each of seven watches, and three for the member: its connection, its caches and its capacity.
	It("takes few goroutines", func(ctx SpecContext) {
		p := newProvider(ctx, clusters.DefaultIntervals())
		for i := range restingMembers {
			pprof.Do(ctx, pprof.Labels(restingLabel, "true"), func(context.Context) { // whatever it starts has the label, too
				p.Ensure(fmt.Sprint("resting-", i), clusters.Target{Kubeconfig: labs.Cluster("alpine").Kubeconfig()})
			})
		}
		for i := range restingMembers {
			Eventually(stateOf).WithArguments(p, fmt.Sprint("resting-", i)).Should(And(HaveField("Ready", true), HaveField("Capacity", Not(BeNil()))))
		}
		Eventually(func(g Gomega) {
			connections, others := restingGoroutines()
			g.Expect(others).To(BeNumerically("<=", 18*restingMembers), "beside %d for connections: %s", connections, restingProfile())
			g.Expect(others).To(BeNumerically(">=", 10*restingMembers), "the members that are counted are there")
			g.Expect(connections).To(BeNumerically("<=", 18*restingMembers))
		}).Should(Succeed())
	})

	It("is lost when a right that its caches live on is withdrawn, though all watches go on", func(ctx SpecContext) {
		user := newWorld(ctx).name + "-user"
		grant(ctx, "alpine", "cluster", "", user)
		kubeconfig, err := labs.Cluster("alpine").KubeconfigFor(user)
		Expect(err).NotTo(HaveOccurred())
		intervals := clusters.DefaultIntervals().Scale(0.2)
		intervals.Confirm = 500 * time.Millisecond
		p := newProvider(ctx, intervals)
		p.Ensure("resting", clusters.Target{Kubeconfig: kubeconfig})
		Eventually(stateOf).WithArguments(p, "resting").Should(HaveField("Ready", true))
		Consistently(stateOf).WithArguments(p, "resting").Should(HaveField("Ready", true))
		restore := withdraw(ctx, "alpine", user, "secrets", "watch")
		Eventually(stateOf).WithArguments(p, "resting").Should(And(
			HaveField("Reason", v1alpha1.ReasonForbidden), HaveField("Message", ContainSubstring(`cannot watch resource "secrets"`))))
		restore()
		Eventually(stateOf).WithArguments(p, "resting").Should(HaveField("Ready", true))
	})
})

// newProvider watches members as the controllers do, in this process, until the test ends.
func newProvider(ctx context.Context, intervals clusters.Intervals) *clusters.Provider {
	GinkgoHelper()
	queue := workqueue.NewTypedRateLimitingQueue(retry.Limiter[mcreconcile.Request]())
	watches := memberwatches.New()
	for _, kind := range clusters.OwnedKinds() {
		watches.Add(kind, func(multicluster.ClusterName, cluster.Cluster) handler.TypedEventHandler[client.Object, mcreconcile.Request] {
			return handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, client.Object) []mcreconcile.Request { return nil })
		})
	}
	Expect(watches.Source().Start(ctx, queue)).To(Succeed())
	p := clusters.NewProvider(logr.Discard(), time.Now, func(string, bool) {})
	p.SetIntervals(intervals)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = p.Start(running, watches) }()
	DeferCleanup(func() { stop(); <-ended; queue.ShutDown() })
	return p
}

func stateOf(p *clusters.Provider, member string) clusters.State {
	s, _ := p.State(member)
	return s
}

const restingLabel = "resting"

var (
	howMany = regexp.MustCompile(`(?m)^(\d+) @ `)
	// onConnection is in stacks of those that keep a connection, and of those that read from one.
	onConnection = regexp.MustCompile(`net/http2?\.\(`)
)

// restingGoroutines are those of members at rest: those that connections need, and all others.
func restingGoroutines() (connections, others int) {
	for _, of := range strings.Split(restingProfile(), "\n\n") {
		n, _ := strconv.Atoi(howMany.FindStringSubmatch(of)[1])
		if onConnection.MatchString(of) {
			connections += n
		} else {
			others += n
		}
	}
	return connections, others
}

// restingProfile has the stacks of goroutines of members at rest, each with how many have it.
func restingProfile() string {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1) // a buffer takes it
	var out []string
	for _, of := range strings.Split(all.String(), "\n\n") {
		if strings.Contains(of, fmt.Sprintf("%q:%q", restingLabel, "true")) && howMany.MatchString(of) {
			out = append(out, strings.TrimSpace(of))
		}
	}
	return strings.Join(out, "\n\n")
}
