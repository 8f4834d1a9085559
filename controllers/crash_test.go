package controllers_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// crasher kills MiniFleet after one of its writes about a namespace: the API server has acted on it, and
// nobody is left to read the reply.
type crasher struct {
	mu        sync.Mutex
	namespace string
	after     int // writes until the end
	was       string
}

// arm lets the end come after write k about the namespace.
func (c *crasher) arm(namespace string, k int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.namespace, c.after, c.was = namespace, k, ""
}

// hit returns the write that was the last one, or nothing.
func (c *crasher) hit() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.was
}

func (c *crasher) acted(where string) func(*http.Request) bool {
	return func(req *http.Request) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		events := strings.Contains(req.URL.Path, "/events") // nothing depends on them
		concerns := strings.Contains(req.URL.Path, "/namespaces/"+c.namespace+"/") ||
			strings.Contains(req.URL.Path, "/namespaces/"+managerNamespace+"/secrets") // a key, whose namespace is not in the path
		if c.namespace == "" || c.was != "" || events || !concerns {
			return false
		}
		if c.after--; c.after != 0 {
			return false
		}
		c.was = fmt.Sprintf("%s %s %s", where, req.Method, req.URL.Path)
		_ = minifleet.Kill() // it is seen by its absence
		return true
	}
}

// crashWorld is a world whose hub and members are reached through proxies, so that MiniFleet can be killed after any
// of its writes.
func crashWorld(ctx context.Context) (w *world, end *crasher, toHub *apiProxy) {
	GinkgoHelper()
	end, toHub = &crasher{}, newAPIProxy(labs.Cluster("hub"))
	Expect(minifleet.Kill()).To(Succeed())
	startMinifleet(toHub.kubeconfig())
	DeferCleanup(func() {
		Expect(minifleet.Kill()).To(Succeed())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
	})
	w = newWorld(ctx)
	toHub.onWrite(end.acted("hub"))
	for _, cluster := range []string{"alpine", "basalt"} {
		g := newAPIProxy(labs.Cluster(cluster))
		w.register(ctx, cluster, g.kubeconfig())
		g.onWrite(end.acted(cluster))
	}
	return w, end, toHub
}

var _ = Describe("MiniFleet, killed after any of its writes,", func() {
	It("runs every MiniCluster once, with one key", func(ctx SpecContext) {
		w, end, toHub := crashWorld(ctx)
		created := create(ctx, w, "run", mostWrites)
		writes := killAfterEach(ctx, end, toHub, created, func(f *v1alpha1.FleetMiniCluster) error {
			return hub.Create(ctx, f)
		}, complete)
		Expect(writes).To(BeNumerically(">=", 16), "the counter has missed writes") // 10 objects, a key, a finalizer, the status
		for _, f := range created[:writes+1] {
			Eventually(func() bool { return complete(fmcIn(ctx, f.Namespace, f.Name)) }).Should(BeTrue(), "%s", f.Namespace)
			expectOneRunEach(ctx, f.Namespace)
		}
	})

	It("replaces every live run once", func(ctx SpecContext) {
		w, end, toHub := crashWorld(ctx)
		created := create(ctx, w, "replace", 24)
		end.arm("", 0)
		for _, f := range created {
			f.Spec.OnChange, f.Spec.Placement.NumberOfClusters = v1alpha1.Replace, ptr.To[int32](1)
			f.Spec.MiniCluster.Pod.Annotations = held
			Expect(hub.Create(ctx, f)).To(Succeed())
		}
		for _, f := range created {
			Eventually(func() string { return lineOf(fmcIn(ctx, f.Namespace, f.Name)) }).Should(Equal(running), "%s", f.Namespace)
		}
		replaced := func(f *v1alpha1.FleetMiniCluster) bool {
			return len(f.Status.Runs) == 2 && f.Status.Runs[0].State == v1alpha1.RunReplaced && lineOf(f) == running
		}
		writes := killAfterEach(ctx, end, toHub, created, func(f *v1alpha1.FleetMiniCluster) error {
			return retry.RetryOnConflict(retry.DefaultBackoff, func() error { // MiniFleet may be writing, too
				now := fmcIn(ctx, f.Namespace, f.Name)
				now.Spec.MiniCluster.Containers[0].Command = "false"
				return hub.Update(ctx, now)
			})
		}, replaced)
		Expect(writes).To(BeNumerically(">=", 8), "the counter has missed writes") // the status thrice, a deletion, four objects
		for _, f := range created[:writes+1] {
			Eventually(func() bool { return replaced(fmcIn(ctx, f.Namespace, f.Name)) }).Should(BeTrue(), "%s", f.Namespace)
			runs := fmcIn(ctx, f.Namespace, f.Name).Status.Runs
			Expect(runs).To(HaveLen(2), f.Namespace)
			Expect(jobsMade("alpine", f.Namespace)+jobsMade("basalt", f.Namespace)).To(Equal(2), f.Namespace)
		}
	})

	It("removes every MiniCluster completely", func(ctx SpecContext) {
		w, end, toHub := crashWorld(ctx)
		created := create(ctx, w, "remove", 24)
		end.arm("", 0)
		for _, f := range created {
			Expect(hub.Create(ctx, f)).To(Succeed())
		}
		for _, f := range created {
			Eventually(func() bool { return complete(fmcIn(ctx, f.Namespace, f.Name)) }).Should(BeTrue(), "%s", f.Namespace)
		}
		removed := func(f *v1alpha1.FleetMiniCluster) bool { return f.UID == "" }
		writes := killAfterEach(ctx, end, toHub, created, func(f *v1alpha1.FleetMiniCluster) error {
			return hub.Delete(ctx, f)
		}, removed)
		Expect(writes).To(BeNumerically(">=", 12), "the counter has missed writes") // 10 objects, the key and the finalizer
		for _, f := range created[:writes+1] {
			Eventually(func() bool { return removed(fmcIn(ctx, f.Namespace, f.Name)) }).Should(BeTrue(), "%s", f.Namespace)
			expectNothingLeft(ctx, f.Namespace)
			Expect(jobsMade("alpine", f.Namespace)+jobsMade("basalt", f.Namespace)).To(Equal(2), "%s", f.Namespace)
		}
	})
})

// mostWrites is more than the life of a MiniCluster takes.
const mostWrites = 40

// create makes namespaces, each with a Secret that travels, and a FleetMiniCluster for each that names it and
// is not created yet.
func create(ctx context.Context, w *world, what string, n int) []*v1alpha1.FleetMiniCluster {
	GinkgoHelper()
	var out []*v1alpha1.FleetMiniCluster
	for k := range n {
		f := w.using("app", "token")
		f.Spec.MiniCluster.Pod.Annotations = brief
		f.Namespace = fmt.Sprintf("%s-%s-%d", w.name, what, k+1)
		w.makeNamespace(ctx, f.Namespace)
		put(ctx, hub, secretIn(f.Namespace, "token", travels))
		out = append(out, f)
	}
	return out
}

func complete(f *v1alpha1.FleetMiniCluster) bool {
	return lineOf(f) == "True Succeeded Synced Healthy 2/2"
}

// killAfterEach does something about the k-th object and kills MiniFleet after its k-th write about it,
// for k = 1, 2, 3, ... until it gets through without. What was interrupted goes on at each new start, while
// the next one is interrupted. It returns after how many writes MiniFleet was killed.
func killAfterEach(ctx context.Context, end *crasher, toHub *apiProxy, objects []*v1alpha1.FleetMiniCluster,
	do func(*v1alpha1.FleetMiniCluster) error, through func(*v1alpha1.FleetMiniCluster) bool,
) int {
	GinkgoHelper()
	for i, f := range objects {
		end.arm(f.Namespace, i+1)
		Expect(do(f)).To(Succeed())
		Eventually(func(g Gomega) {
			now := fmcIn(ctx, f.Namespace, f.Name)
			g.Expect(end.hit() != "" || through(now)).To(BeTrue(), "%s: %s", f.Namespace, lineOf(now))
		}).WithTimeout(30 * time.Second).WithPolling(10 * time.Millisecond).Should(Succeed())
		hit := end.hit()
		if hit == "" {
			end.arm("", 0)
			return i
		}
		By(fmt.Sprintf("write %d was the last: %s", i+1, hit))
		Eventually(minifleet.Running).Should(BeFalse())
		startMinifleet(toHub.kubeconfig())
	}
	Fail("MiniFleet never stops writing")
	return 0
}

// expectOneRunEach expects one Job on each member, never another, known to the ledger, with the hub's key.
func expectOneRunEach(ctx context.Context, namespace string) {
	GinkgoHelper()
	runs := fmcIn(ctx, namespace, "app").Status.Runs
	Expect(runs).To(HaveLen(2), namespace)
	var kept corev1.Secret
	Expect(hub.Get(ctx, certificateKey(namespace, "app"), &kept)).To(Succeed())
	for _, cluster := range []string{"alpine", "basalt"} {
		// An answer that nobody waited for may be in no audit log. But without a deletion there cannot have
		// been two Jobs of a name.
		Expect(jobsMade(cluster, namespace)).To(BeNumerically("<=", 1), "Jobs made on %s in %s", cluster, namespace)
		Expect(jobsDeleted(cluster, namespace)).To(BeZero(), "Jobs deleted on %s in %s", cluster, namespace)
		j := job(ctx, cluster, namespace, "app")
		Expect(j).NotTo(BeNil(), "the Job on %s in %s", cluster, namespace)
		Expect(runs).To(ContainElement(And(
			HaveField("Cluster", HaveSuffix(cluster)), HaveField("JobUID", j.UID), HaveField("State", v1alpha1.RunSucceeded),
		)), namespace)
		Expect(tokenOn(ctx, admins[cluster], namespace, "token")).To(Equal(canary), "what travels, on %s in %s", cluster, namespace)
		var secrets corev1.SecretList
		Expect(admins[cluster].List(ctx, &secrets, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelOwner: "app"})).To(Succeed())
		Expect(secrets.Items).To(HaveLen(1))
		Expect(secrets.Items[0].Data).To(ContainElement(kept.Data["curve.cert"]), "the key on %s in %s", cluster, namespace)
	}
}

func expectNothingLeft(ctx context.Context, namespace string) {
	GinkgoHelper()
	Expect(secretOn(ctx, hub, managerNamespace, certificateKey(namespace, "app").Name)).To(BeNil(), "the key of %s", namespace)
	for _, cluster := range []string{"alpine", "basalt"} {
		for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}} {
			Expect(admins[cluster].List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})).To(Succeed())
			Expect(meta.LenList(list)).To(BeZero(), "%T on %s", list, cluster)
		}
	}
}
