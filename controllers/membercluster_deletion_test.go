package controllers_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

const isDone = "True Succeeded Synced Healthy 1/1"

var _ = Describe("A member that is deleted with deletionPolicy Block", func() {
	It("waits for its live run, then has nothing left there, and results stay", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig(), onDeletion(v1alpha1.DeletionBlock))
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig(), comesLater)
		put(ctx, hub, secretIn(w.name, "token", travels))
		for name, pods := range map[string]map[string]string{"done": brief, "failed": {lab.AskSeconds: "0", lab.AskExitCode: "3"}, "live": held} {
			f := w.using(name, "token")
			f.Spec.MiniCluster.Pod.Annotations, f.Spec.Placement.NumberOfClusters = pods, ptr.To[int32](1)
			Expect(hub.Create(ctx, f)).To(Succeed())
		}
		Eventually(w.line).WithArguments(ctx, "done").Should(Equal(isDone))
		Eventually(w.line).WithArguments(ctx, "failed").Should(HavePrefix("False RunFailed Synced Degraded"))
		w.podsRun(ctx, "live", "1/1")
		Expect(tokenOn(ctx, admins["alpine"], w.name, "token")).To(Equal(canary))
		before := w.results(ctx, "done", "failed")

		Expect(hub.Delete(ctx, w.memberCluster(ctx, "a"))).To(Succeed())
		Eventually(w.drained).WithArguments(ctx, "a").Should(Equal("False RunsLive"))
		Expect(w.drainedMessage(ctx, "a")).To(Equal("1 run is live: " + w.name + "/live (run " + w.get(ctx, "live").Status.Runs[0].ID +
			"); the deletion waits for that to end: set spec.deletionPolicy: Drain to stop what is live, Orphan to leave it"))
		Consistently(w.drained).WithArguments(ctx, "a").Should(Equal("False RunsLive"))
		Expect(job(ctx, "alpine", w.name, "live").DeletionTimestamp).To(BeNil())
		Expect(job(ctx, "alpine", w.name, "done")).NotTo(BeNil(), "nothing is removed before all has ended")

		_, err := labs.Cluster("alpine").Release(ctx, w.name, v1alpha1.LabelOwner+"=live", 0)
		Expect(err).NotTo(HaveOccurred())
		Eventually(w.registered).WithArguments(ctx, "a").Should(BeFalse())
		Expect(leftOn(ctx, "alpine", w.name)).To(BeEmpty())
		Eventually(w.line).WithArguments(ctx, "live").Should(Equal(isDone))
		Expect(w.results(ctx, "done", "failed")).To(Equal(before))
		Consistently(func() []string { return w.results(ctx, "done", "failed") }).Should(Equal(before))
		Eventually(w.events).WithArguments(ctx, w.member("a")).Should(ContainElements("RunsLive", "CleanedUp"))
		Expect(jobsMade("alpine", w.name)).To(Equal(3))
		Expect(jobsMade("basalt", w.name)).To(BeZero(), "what has run is not repeated elsewhere")
	})

	It("goes soon where nothing is, also if it was never reached", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig(), onDeletion(v1alpha1.DeletionBlock))
		w.enroll(ctx, "b", onDeletion(v1alpha1.DeletionBlock))
		Eventually(w.reason).WithArguments(ctx, "b").Should(Equal("False KubeconfigMissing"))
		for _, name := range []string{"a", "b"} {
			Expect(w.memberCluster(ctx, name).Finalizers).To(ContainElement(v1alpha1.Finalizer))
			Expect(hub.Delete(ctx, w.memberCluster(ctx, name))).To(Succeed())
			Eventually(w.registered).WithArguments(ctx, name).Should(BeFalse())
		}
	})

	It("is cleaned up although its Secret is deleted with it, and after a restart of MiniFleet", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig(), onDeletion(v1alpha1.DeletionBlock))
		w.run(ctx, "live", held)
		w.podsRun(ctx, "live", "1/1")
		Expect(hub.Delete(ctx, w.memberCluster(ctx, "a"))).To(Succeed())
		Eventually(w.drained).WithArguments(ctx, "a").Should(Equal("False RunsLive"))
		Expect(hub.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: w.member("a")}})).To(Succeed())
		Consistently(w.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))

		By("restarting")
		Expect(minifleet.Kill()).To(Succeed())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("False KubeconfigMissing"))
		Expect(w.drainedMessage(ctx, "a")).To(ContainSubstring("cannot be reached (KubeconfigMissing)"))
		w.secret(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))
		Expect(job(ctx, "alpine", w.name, "live").DeletionTimestamp).To(BeNil())
		Expect(minifleet.Kill()).To(Succeed())
		_, err := labs.Cluster("alpine").Release(ctx, w.name, "", 0)
		Expect(err).NotTo(HaveOccurred())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(w.registered).WithArguments(ctx, "a").Should(BeFalse())
		Expect(leftOn(ctx, "alpine", w.name)).To(BeEmpty())
		Eventually(w.line).WithArguments(ctx, "live").Should(Equal(isDone))
	})

	It("waits for a member that is away, until that returns", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxy, kubeconfig := through(labs.Cluster("basalt"))
		w.register(ctx, "away", kubeconfig, onDeletion(v1alpha1.DeletionBlock))
		w.run(ctx, "done", brief)
		w.run(ctx, "live", held)
		Eventually(w.line).WithArguments(ctx, "done").Should(Equal(isDone))
		Eventually(w.line).WithArguments(ctx, "live").Should(Equal(runsOn1))
		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		Eventually(w.reason).WithArguments(ctx, "away").Should(Equal("Unknown Unreachable"))
		Expect(hub.Delete(ctx, w.memberCluster(ctx, "away"))).To(Succeed())
		Eventually(w.drainedMessage).WithArguments(ctx, "away").Should(And(
			HavePrefix("the member cannot be reached (Unreachable), and of what was live there it is not known whether it still is: 1 run is live: "+w.name+"/live"),
			HaveSuffix("set spec.deletionPolicy: Orphan to leave everything there as it is")))
		By("giving the run up, so that only objects are left")
		Eventually(func() error {
			f := w.get(ctx, "live")
			f.Annotations = map[string]string{v1alpha1.AnnotationRunGone: f.Status.Runs[0].ID}
			return hub.Update(ctx, f)
		}).Should(Succeed())
		Eventually(w.drained).WithArguments(ctx, "away").Should(Equal("True Drained"))
		Expect(w.drainedMessage(ctx, "away")).To(ContainSubstring("remove what is left there of " + w.name + "/done, " + w.name + "/live: set spec.deletionPolicy: Orphan"))
		Consistently(w.registered).WithArguments(ctx, "away").Should(BeTrue())
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		Eventually(w.registered).WithArguments(ctx, "away").Should(BeFalse())
		Expect(leftOn(ctx, "basalt", w.name)).To(BeEmpty())
	})

	It("works off what was left of deleted FleetMiniClusters first", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxy, kubeconfig := through(labs.Cluster("basalt"))
		w.register(ctx, "away", kubeconfig, onDeletion(v1alpha1.DeletionBlock))
		f := w.fmc("given-up", held)
		f.Spec.DeletionDeadlineSeconds = ptr.To[int32](1)
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "given-up").Should(Equal(runsOn1))
		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		Eventually(w.reason).WithArguments(ctx, "away").Should(Equal("Unknown Unreachable"))
		Expect(hub.Delete(ctx, w.memberCluster(ctx, "away"))).To(Succeed())
		Expect(hub.Delete(ctx, w.get(ctx, "given-up"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "given-up").Should(BeFalse())
		Eventually(w.drainedMessage).WithArguments(ctx, "away").Should(ContainSubstring("remove what is left there of " + w.name + "/given-up"))
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		Eventually(w.registered).WithArguments(ctx, "away").Should(BeFalse())
		Expect(leftOn(ctx, "basalt", w.name)).To(BeEmpty())
	})

	It("needs no more rights than config/member gives", func(ctx SpecContext) {
		w := newWorld(ctx)
		user, namespace := w.name+"-user", w.name+"-site"
		Expect(admins["alpine"].Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		grant(ctx, "alpine", "namespaced", namespace, user)
		kubeconfig, err := labs.Cluster("alpine").KubeconfigFor(user)
		Expect(err).NotTo(HaveOccurred())
		w.register(ctx, "a", kubeconfig, confinedTo(namespace), onDeletion(v1alpha1.DeletionBlock))
		put(ctx, hub, secretIn(w.name, "token", travels))
		f := w.using("app", "token")
		f.Spec.MiniCluster.Services = []fluxv1alpha2.MiniClusterContainer{{Name: "database", Image: "example.org/database"}}
		f.Spec.MiniCluster.Pod.Annotations = brief
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "app").Should(Equal(isDone))
		Expect(hub.Delete(ctx, w.memberCluster(ctx, "a"))).To(Succeed())
		Eventually(w.registered).WithArguments(ctx, "a").Should(BeFalse())
		Expect(leftOn(ctx, "alpine", namespace)).To(BeEmpty())
		Expect(w.line(ctx, "app")).To(Equal(isDone))
		Expect(refusals("alpine", user)).To(HaveEach("get /api/v1/namespaces/kube-system"))
	})
})

var _ = Describe("A member that is deleted with deletionPolicy Drain", func() {
	It("has its live run stopped, also when that is said while the deletion waits; the run goes on elsewhere", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig(), onDeletion(v1alpha1.DeletionBlock))
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig(), comesLater, onDeletion(v1alpha1.DeletionDrain))
		w.roomKnown(ctx, "a", "b")
		for name, pods := range map[string]map[string]string{"done": brief, "live": held} {
			f := w.fmc(name, pods)
			f.Spec.Placement.NumberOfClusters = ptr.To[int32](1)
			Expect(hub.Create(ctx, f)).To(Succeed())
		}
		Eventually(w.line).WithArguments(ctx, "done").Should(Equal(isDone))
		Eventually(w.line).WithArguments(ctx, "live").Should(Equal(runsOn1))
		before := w.results(ctx, "done")
		Expect(hub.Delete(ctx, w.memberCluster(ctx, "a"))).To(Succeed())
		Eventually(w.drained).WithArguments(ctx, "a").Should(Equal("False RunsLive"))
		w.amend(ctx, "a", onDeletion(v1alpha1.DeletionDrain))
		Eventually(w.registered).WithArguments(ctx, "a").Should(BeFalse())
		Expect(leftOn(ctx, "alpine", w.name)).To(BeEmpty())
		Eventually(w.line).WithArguments(ctx, "live").Should(Equal(runsOn1))
		Expect(w.get(ctx, "live").Status.Runs).To(HaveExactElements(
			And(HaveField("Cluster", w.member("a")), HaveField("State", v1alpha1.RunReplaced), HaveField("Stop", v1alpha1.StopDrained)),
			And(HaveField("Cluster", w.member("b")), HaveField("State", v1alpha1.RunRunning))))

		By("deleting the last member")
		Expect(hub.Delete(ctx, w.memberCluster(ctx, "b"))).To(Succeed())
		Eventually(w.registered).WithArguments(ctx, "b").Should(BeFalse())
		Expect(leftOn(ctx, "basalt", w.name)).To(BeEmpty())
		Eventually(w.line).WithArguments(ctx, "live").Should(HavePrefix("False N"), "it waits for a member")
		Expect(w.results(ctx, "done")).To(Equal(before))
		Expect([]int{jobsMade("alpine", w.name), jobsMade("basalt", w.name)}).To(Equal([]int{2, 1}))
	})
})

var _ = Describe("A run that is just about to begin on a member that is deleted", Ordered, func() {
	It("is waited for", func(ctx SpecContext) {
		g := newAPIProxy(labs.Cluster("hub"))
		slow := &slowTransport{next: g.target.Load().transport, asked: make(chan struct{}), answer: make(chan struct{})}
		g.target.Store(&target{host: g.target.Load().host, transport: slow})
		Expect(minifleet.Kill()).To(Succeed())
		startMinifleet(g.kubeconfig())
		DeferCleanup(func() {
			Expect(minifleet.Kill()).To(Succeed())
			startMinifleet(labs.Cluster("hub").Kubeconfig())
		})
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig(), onDeletion(v1alpha1.DeletionBlock))
		put(ctx, hub, secretIn(w.name, "token", travels))
		slow.hold(fmt.Sprintf("/api/v1/namespaces/%s/secrets/token", w.name))
		put(ctx, hub, w.using("begins", "token"))
		Eventually(slow.asked).Should(BeClosed(), "the reconciliation has decided to begin, and reads what the run needs")
		Expect(hub.Delete(ctx, w.memberCluster(ctx, "a"))).To(Succeed())
		Consistently(func(g Gomega) {
			g.Expect(w.registered(ctx, "a")).To(BeTrue())
			g.Expect(w.drained(ctx, "a")).NotTo(HavePrefix("True"))
		}).WithTimeout(4 * time.Second).Should(Succeed())
		close(slow.answer)
		Eventually(w.drained).WithArguments(ctx, "a").Should(Equal("False RunsLive"))
		w.podsRun(ctx, "begins", "1/1")
		_, err := labs.Cluster("alpine").Release(ctx, w.name, "", 0)
		Expect(err).NotTo(HaveOccurred())
		Eventually(w.registered).WithArguments(ctx, "a").Should(BeFalse())
		Expect(leftOn(ctx, "alpine", w.name)).To(BeEmpty())
		Eventually(w.line).WithArguments(ctx, "begins").Should(Equal(isDone))
	})
})

// slowTransport answers the first request for a path when it is told to.
type slowTransport struct {
	next          http.RoundTripper
	path          atomic.Value
	once          sync.Once
	asked, answer chan struct{}
}

func (s *slowTransport) hold(path string) { s.path.Store(path) }

// RoundTrip implements http.RoundTripper.
func (s *slowTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path == s.path.Load() {
		s.once.Do(func() {
			close(s.asked)
			select {
			case <-s.answer:
			case <-req.Context().Done():
			}
		})
	}
	return s.next.RoundTrip(req)
}

var _ = Describe("A member that is deleted with deletionPolicy Orphan", func() {
	It("goes at once, whatever is there, also when that is said while the deletion waits", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxy, kubeconfig := through(labs.Cluster("basalt"))
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.register(ctx, "b", kubeconfig, onDeletion(v1alpha1.DeletionBlock))
		w.run(ctx, "done", brief)
		w.run(ctx, "live", held)
		Eventually(w.line).WithArguments(ctx, "done").Should(Equal("True Succeeded Synced Healthy 2/2"))
		Eventually(w.line).WithArguments(ctx, "live").Should(Equal("True Synced Synced Progressing 2/2"))
		Expect(hub.Delete(ctx, w.memberCluster(ctx, "a"))).To(Succeed())
		Eventually(w.registered).WithArguments(ctx, "a").Should(BeFalse())
		Eventually(w.events).WithArguments(ctx, w.member("a")).Should(ContainElement("Orphaned"))
		Eventually(w.on).WithArguments(ctx, "live", "a").Should(Equal("Unknown Unknown"))

		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		Expect(hub.Delete(ctx, w.memberCluster(ctx, "b"))).To(Succeed())
		Eventually(w.drained).WithArguments(ctx, "b").Should(Equal("False RunsLive"))
		Consistently(w.registered).WithArguments(ctx, "b").Should(BeTrue())
		w.amend(ctx, "b", onDeletion(v1alpha1.DeletionOrphan))
		Eventually(w.registered).WithArguments(ctx, "b").Should(BeFalse())
		for _, cluster := range []string{"alpine", "basalt"} {
			for _, name := range []string{"done", "live"} {
				Expect(job(ctx, cluster, w.name, name)).To(HaveField("DeletionTimestamp", BeNil()), "%s on %s", name, cluster)
			}
		}
		// It may have been said meanwhile that the member cannot be reached.
		Eventually(w.line).WithArguments(ctx, "done").Should(Equal("True Succeeded Synced Healthy 2/2"))
	})

	It("is told to stop a run that was given up meanwhile, when it is registered anew; a retry waits for that", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.both(ctx)
		w.single(ctx, "live", nil)
		w.single(ctx, "fails", func(f *v1alpha1.FleetMiniCluster) { f.Spec.Retries = 1 })
		w.podsRun(ctx, "live", "1/1")
		w.podsRun(ctx, "fails", "1/1")
		w.suspend(ctx, "a", true) // so that the retry does not begin before the member is deleted
		_, err := labs.Cluster("alpine").Release(ctx, w.name, v1alpha1.LabelOwner+"=fails", 3)
		Expect(err).NotTo(HaveOccurred())
		Eventually(w.runsOf).WithArguments(ctx, "fails").Should(Equal([]string{"a Failed"}))
		Expect(hub.Delete(ctx, w.memberCluster(ctx, "a"))).To(Succeed())
		Eventually(w.registered).WithArguments(ctx, "a").Should(BeFalse())
		Eventually(w.readyMessage).WithArguments(ctx, "fails").Should(ContainSubstring("retry 1 of 1 waits, for its MemberCluster no longer exists"))
		annotate(ctx, w, "live", v1alpha1.AnnotationRunGone, w.get(ctx, "live").Status.Runs[0].ID)
		Eventually(w.runsOf).WithArguments(ctx, "live").Should(Equal([]string{"a Replaced DeclaredGone", "b Running"}))
		Expect(job(ctx, "alpine", w.name, "live")).NotTo(BeNil())
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		Eventually(func() any { return job(ctx, "alpine", w.name, "live") }).Should(BeNil())
		Eventually(w.line).WithArguments(ctx, "live").Should(Equal(running))
		Expect(w.runsOf(ctx, "live")).To(Equal([]string{"a Replaced DeclaredGone", "b Running"}))
	})
})

var _ = Describe("The condition Drained", func() {
	It("follows the runs of a member that is drained, and goes with the annotation", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig(), capacityNone) // whose changes would be news, too
		w.run(ctx, "live", held)
		w.podsRun(ctx, "live", "1/1")
		Expect(w.drained(ctx, "a")).To(BeEmpty())
		w.lock(ctx, "live", true) // the Job stays however it is deleted
		w.amend(ctx, "a", drain("1"))
		Eventually(w.drained).WithArguments(ctx, "a").Should(Equal("False RunsLive"))
		Expect(w.drainedMessage(ctx, "a")).To(HavePrefix("1 run is live: " + w.name + "/live (run "))
		Consistently(w.drained).WithArguments(ctx, "a").Should(Equal("False RunsLive"))
		w.lock(ctx, "live", false)
		_, err := labs.Cluster("alpine").Release(ctx, w.name, "", 0)
		Expect(err).NotTo(HaveOccurred())
		kubectl("", "wait", "--for=condition=Drained", "--timeout=60s", "mcl/"+w.member("a"))
		Expect(w.drained(ctx, "a")).To(Equal("True Drained"))
		Expect(w.get(ctx, "live").Status.Runs).To(HaveEach(HaveField("CompletionTime", Not(BeNil()))))

		w.amend(ctx, "a", drain("maybe"))
		Eventually(w.drained).WithArguments(ctx, "a").Should(Equal("False InvalidAnnotation"))
		Expect(w.drainedMessage(ctx, "a")).To(ContainSubstring(`"maybe" is neither true nor false`))
		w.amend(ctx, "a", drain("false"))
		Eventually(w.drained).WithArguments(ctx, "a").Should(BeEmpty())
	})

	It("costs nothing once it is told, nor where nobody asks", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
		w.amend(ctx, "a", drain("true"))
		Eventually(w.drained).WithArguments(ctx, "a").Should(Equal("True Drained"))
		about := func() int {
			return len(audit("hub", func(e *lab.AuditEvent) bool {
				return e.UserAgent == "minifleet" && e.Object != nil && e.Object.Resource != "leases" && e.Verb != "watch" &&
					(strings.HasPrefix(e.Object.Name, w.name) || e.Object.Resource == "fleetminiclusters" && e.Object.Namespace == "")
			}))
		}
		var before int
		Eventually(func() bool { // its own capacity may still be on its way
			before = about()
			time.Sleep(time.Second)
			return about() == before
		}).Should(BeTrue())
		Consistently(about).WithTimeout(3 * time.Second).Should(Equal(before))
	})
})

func onDeletion(p v1alpha1.DeletionPolicy) func(*v1alpha1.MemberCluster) {
	return func(m *v1alpha1.MemberCluster) { m.Spec.DeletionPolicy = p }
}

func comesLater(m *v1alpha1.MemberCluster) {
	m.Spec.Taints = []v1alpha1.Taint{{Key: "later", Effect: v1alpha1.PreferNoSelect}}
}

func drain(value string) func(*v1alpha1.MemberCluster) {
	return func(m *v1alpha1.MemberCluster) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1alpha1.AnnotationDrain, value)
	}
}

// amend edits a MemberCluster.
func (w *world) amend(ctx context.Context, member string, change func(*v1alpha1.MemberCluster)) {
	GinkgoHelper()
	Eventually(func() error {
		m := w.memberCluster(ctx, member)
		change(m)
		return hub.Update(ctx, m)
	}).Should(Succeed())
}

// registered says whether a MemberCluster is still there.
func (w *world) registered(ctx context.Context, name string) bool {
	return w.memberCluster(ctx, name).UID != ""
}

// drained is STATUS REASON of a member's condition Drained, or nothing.
func (w *world) drained(ctx context.Context, name string) string {
	if c := meta.FindStatusCondition(w.memberCluster(ctx, name).Status.Conditions, v1alpha1.ConditionDrained); c != nil {
		return string(c.Status) + " " + c.Reason
	}
	return ""
}

func (w *world) drainedMessage(ctx context.Context, name string) string {
	if c := meta.FindStatusCondition(w.memberCluster(ctx, name).Status.Conditions, v1alpha1.ConditionDrained); c != nil {
		return c.Message
	}
	return ""
}

// results are what FleetMiniClusters say of what has ended: Complete, Failed, and their runs.
func (w *world) results(ctx context.Context, names ...string) []string {
	var out []string
	for _, name := range names {
		f := w.get(ctx, name)
		for _, kind := range []string{v1alpha1.ConditionComplete, v1alpha1.ConditionFailed} {
			if c := meta.FindStatusCondition(f.Status.Conditions, kind); c != nil {
				out = append(out, name+" "+kind+" "+string(c.Status)+" "+c.Reason+" "+c.Message+" "+c.LastTransitionTime.UTC().String())
			}
		}
		for _, run := range f.Status.Runs {
			out = append(out, name+" "+run.ID+" "+run.Cluster+" "+string(run.State)+" "+run.Message)
		}
	}
	return out
}

// lock keeps the Job of a FleetMiniCluster on alpine, though it be deleted, or lets it go.
func (w *world) lock(ctx context.Context, name string, lock bool) {
	GinkgoHelper()
	Eventually(func() error {
		j := job(ctx, "alpine", w.name, name)
		if lock {
			controllerutil.AddFinalizer(j, "test.minifleet.dev/lock")
		} else {
			controllerutil.RemoveFinalizer(j, "test.minifleet.dev/lock")
		}
		return admins["alpine"].Update(ctx, j)
	}).Should(Succeed())
}

// leftOn are the objects of MiniFleet in a namespace of a cluster.
func leftOn(ctx context.Context, cluster, namespace string) []string {
	GinkgoHelper()
	var out []string
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}} {
		Expect(admins[cluster].List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})).To(Succeed())
		objects, err := meta.ExtractList(list)
		Expect(err).NotTo(HaveOccurred())
		for _, o := range objects {
			out = append(out, fmt.Sprintf("%T %s", o, o.(client.Object).GetName()))
		}
	}
	return out
}
