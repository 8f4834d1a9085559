package controllers_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// annotate sets an annotation of member a.
func (w *world) annotate(ctx context.Context, key, value string) {
	GinkgoHelper()
	Eventually(func() error {
		m := w.memberCluster(ctx, "a")
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, key, value)
		return hub.Update(ctx, m)
	}).Should(Succeed())
}

func (w *world) suspend(ctx context.Context, member string, suspend bool) {
	GinkgoHelper()
	Eventually(func() error {
		m := w.memberCluster(ctx, member)
		m.Spec.Suspend = suspend
		return hub.Update(ctx, m)
	}).Should(Succeed())
}

// runsOf are MEMBER STATE STOP of the ledger, oldest first.
func (w *world) runsOf(ctx context.Context, name string) []string {
	var out []string
	for _, r := range w.get(ctx, name).Status.Runs {
		line := r.Cluster[len(w.name)+1:] + " " + string(r.State)
		if r.Stop != "" {
			line += " " + string(r.Stop)
		}
		out = append(out, line)
	}
	return out
}

// lineOnA is the line of member a in a FleetMiniCluster's status.
func (w *world) lineOnA(ctx context.Context, name string) v1alpha1.ClusterStatus {
	for _, c := range w.get(ctx, name).Status.Clusters {
		if c.Name == w.member("a") {
			return c
		}
	}
	return v1alpha1.ClusterStatus{}
}

// single is a FleetMiniCluster on one member, which is a as long as that will do.
func (w *world) single(ctx context.Context, name string, change func(*v1alpha1.FleetMiniCluster)) {
	GinkgoHelper()
	w.roomKnown(ctx, "a", "b")
	w.retaint(ctx, "b", v1alpha1.Taint{Key: "later", Effect: v1alpha1.PreferNoSelect})
	f := w.fmc(name, held)
	f.Spec.Placement.NumberOfClusters = ptr.To[int32](1)
	if change != nil {
		change(f)
	}
	Expect(hub.Create(ctx, f)).To(Succeed())
}

// startedAfterItsEnd waits for a Job on basalt, and makes sure that alpine has neither the Job nor a pod of it by then.
func (w *world) startedAfterItsEnd(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func() any { return job(ctx, "basalt", w.name, name) }).ShouldNot(BeNil())
	Expect(job(ctx, "alpine", w.name, name)).To(BeNil())
	Expect(w.pods(ctx, name)).To(BeEmpty())
}

// bothCuttable registers alpine as member a, through a proxy that can cut it off, and basalt as member b.
func (w *world) bothCuttable(ctx context.Context) *lab.Proxy {
	GinkgoHelper()
	proxy, kubeconfig := through(labs.Cluster("alpine"))
	w.register(ctx, "a", kubeconfig)
	w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
	return proxy
}

// pods are those of a MiniCluster on alpine.
func (w *world) pods(ctx context.Context, name string) []corev1.Pod {
	GinkgoHelper()
	var list corev1.PodList
	Expect(admins["alpine"].List(ctx, &list, client.InNamespace(w.name), client.MatchingLabels{v1alpha1.LabelOwner: name})).To(Succeed())
	return list.Items
}

// stuckOnAlpine waits for 10 s for nodes that only basalt has.
func stuckOnAlpine(f *v1alpha1.FleetMiniCluster) {
	f.Spec.Placement.PendingTimeout = &metav1.Duration{Duration: 10 * time.Second}
	f.Spec.MiniCluster.Pod.NodeSelector = map[string]string{"kubernetes.io/hostname": "basalt"}
}

func failover(fencing v1alpha1.Fencing) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) {
		f.Spec.Placement.Failover = &v1alpha1.Failover{AfterSeconds: 10, Fencing: fencing}
	}
}

func capacityNone(m *v1alpha1.MemberCluster) { m.Spec.Capacity = v1alpha1.CapacityNone }

const running = "True Synced Synced Progressing 1/1"

var _ = Describe("A live run", func() {
	It("is evicted from a member that is drained, starts elsewhere once it has ended, and stays there", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.both(ctx)
		w.single(ctx, "moves", nil)
		Eventually(w.line).WithArguments(ctx, "moves").Should(Equal(running))
		Expect(w.runsOf(ctx, "moves")).To(Equal([]string{"a Running"}))
		w.annotate(ctx, v1alpha1.AnnotationDrain, "true")
		w.startedAfterItsEnd(ctx, "moves")
		Eventually(w.line).WithArguments(ctx, "moves").Should(Equal(running))
		Expect(w.runsOf(ctx, "moves")).To(Equal([]string{"a Replaced Drained", "b Running"}))
		Expect(w.get(ctx, "moves").Status.Runs[0].Message).To(ContainSubstring("its member is drained (annotation minifleet.dev/drain)"))
		Expect(w.rejections(ctx, "moves")).To(HaveKeyWithValue(w.member("a"), ContainSubstring("is drained")))
		w.annotate(ctx, v1alpha1.AnnotationDrain, "false")
		Consistently(w.runsOf).WithArguments(ctx, "moves").Should(HaveLen(2))
		Expect(jobsMade("alpine", w.name) + jobsMade("basalt", w.name)).To(Equal(2))
	})

	It("whose member is drained waits where there is no other, and says so; what has ended stays", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "done", brief)
		Eventually(w.line).WithArguments(ctx, "done").Should(Equal("True Succeeded Synced Healthy 1/1"))
		f := w.fmc("waits", held)
		f.Spec.Placement.NumberOfClusters = ptr.To[int32](1)
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "waits").Should(Equal(running))
		w.annotate(ctx, v1alpha1.AnnotationDrain, "true")
		Eventually(w.line).WithArguments(ctx, "waits").Should(HavePrefix("False NotEnoughClusters OutOfSync Missing"))
		Expect(w.readyMessage(ctx, "waits")).To(ContainSubstring(w.member("a") + ": is drained (annotation minifleet.dev/drain)"))
		Eventually(func() any { return job(ctx, "alpine", w.name, "waits") }).Should(BeNil())
		Consistently(w.line).WithArguments(ctx, "done").Should(Equal("True Succeeded Synced Healthy 1/1"))
		w.annotate(ctx, v1alpha1.AnnotationDrain, "")
		Eventually(w.line).WithArguments(ctx, "waits").Should(Equal(running))
		Expect(w.runsOf(ctx, "waits")).To(Equal([]string{"a Replaced Drained", "a Running"}))
		Expect(w.runsOf(ctx, "done")).To(HaveLen(1))
	})

	It("stays on a member that is suspended, and its retry waits there", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.both(ctx)
		w.single(ctx, "fails", func(f *v1alpha1.FleetMiniCluster) { f.Spec.Retries = 1 })
		w.podsRun(ctx, "fails", "1/1")
		w.suspend(ctx, "a", true)
		Consistently(w.runsOf).WithArguments(ctx, "fails").Should(Equal([]string{"a Running"}))
		_, err := labs.Cluster("alpine").Release(ctx, w.name, "", 3)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() string { return w.lineOnA(ctx, "fails").Message }).
			Should(ContainSubstring("no new run begins on a member that is suspended (spec.suspend)"))
		Expect(w.runsOf(ctx, "fails")).To(Equal([]string{"a Failed"}))
		w.suspend(ctx, "a", false)
		Eventually(w.runsOf).WithArguments(ctx, "fails").Should(Equal([]string{"a Failed", "a Running"}))
		Expect(w.get(ctx, "fails").Status.Runs[1].Attempt).To(BeEquivalentTo(1))
		// Moved, it is the same retry: there is no other one.
		w.annotate(ctx, v1alpha1.AnnotationDrain, "true")
		w.startedAfterItsEnd(ctx, "fails")
		Eventually(w.runsOf).WithArguments(ctx, "fails").Should(Equal([]string{"a Failed", "a Replaced Drained", "b Running"}))
		Expect(w.get(ctx, "fails").Status.Runs[2].Attempt).To(BeEquivalentTo(1))
	})

	It("that does not start in time is withdrawn, and starts elsewhere once", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxy, kubeconfig := through(labs.Cluster("alpine"))
		w.register(ctx, "a", kubeconfig, capacityNone)
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
		w.single(ctx, "stuck", stuckOnAlpine)
		Eventually(w.runsOf).WithArguments(ctx, "stuck").Should(Equal([]string{"a Running"}))
		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("Unknown Unreachable"))
		back := time.Now()
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		w.startedAfterItsEnd(ctx, "stuck")
		Eventually(w.line).WithArguments(ctx, "stuck").Should(Equal(running))
		Expect(w.runsOf(ctx, "stuck")).To(Equal([]string{"a Replaced NotStarted", "b Running"}))
		first := w.get(ctx, "stuck").Status.Runs[0]
		Expect(first.Message).To(Equal("withdrawn: 0 of 1 pods ran after 10s (pendingTimeout)"))
		Expect(first.CompletionTime.Time).To(BeTemporally(">=", back.Add(9*time.Second)), "a member that is back has time to learn what its nodes do")
		Eventually(func() *metav1.Time { return w.get(ctx, "stuck").Status.Runs[1].RunningTime }).ShouldNot(BeNil())
		Expect(w.rejections(ctx, "stuck")).To(HaveKeyWithValue(w.member("a"), ContainSubstring("it comes last, since run "+first.ID+" had to leave it (NotStarted)")))
	})

	It("whose Job a member refuses is withdrawn in time, unless a queue there might release its own later", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.both(ctx)
		w.allowNoJobs(ctx)
		impatient := func(f *v1alpha1.FleetMiniCluster) {
			f.Spec.Placement.PendingTimeout = &metav1.Duration{Duration: 10 * time.Second}
		}
		w.single(ctx, "queued", func(f *v1alpha1.FleetMiniCluster) {
			impatient(f)
			f.Spec.MiniCluster.JobLabels = map[string]string{"kueue.x-k8s.io/queue-name": "users"}
		})
		w.single(ctx, "refused", impatient)
		Eventually(w.runsOf).WithArguments(ctx, "refused").Should(Equal([]string{"a Replaced NotStarted", "b Running"}))
		Expect(w.get(ctx, "refused").Status.Runs[0].Message).To(And(
			ContainSubstring("withdrawn: its Job could not be created in 10s (pendingTimeout)"), ContainSubstring("exceeded quota: no-jobs")))
		Expect(w.runsOf(ctx, "queued")).To(Equal([]string{"a Starting"}))
	})

	It("that does not start in time stays where it is while no other member can take it, and says so", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig(), capacityNone)
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig(), func(m *v1alpha1.MemberCluster) { m.Spec.Suspend = true })
		w.single(ctx, "stuck", stuckOnAlpine)
		Eventually(func() v1alpha1.ClusterStatus { return w.lineOnA(ctx, "stuck") }).Should(And(
			HaveField("Reason", v1alpha1.ReasonRunPending),
			HaveField("Message", ContainSubstring("0 of 1 pods ran after 10s (pendingTimeout); no other member can take it now")),
		))
		Consistently(w.runsOf).WithArguments(ctx, "stuck").Should(Equal([]string{"a Running"}))
		Expect(jobsDeleted("alpine", w.name)).To(BeZero())
		w.suspend(ctx, "b", false)
		Eventually(w.runsOf).WithArguments(ctx, "stuck").Should(Equal([]string{"a Replaced NotStarted", "b Running"}))
	})

	It("whose name is somebody else's on its member can be given up", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.both(ctx)
		theirs := w.somebodysJob(ctx, "taken")
		w.single(ctx, "taken", nil)
		Eventually(func() string { return w.lineOnA(ctx, "taken").Reason }).Should(Equal(v1alpha1.ReasonConflict))
		Expect(w.runsOf(ctx, "taken")).To(Equal([]string{"a Starting"}))
		Eventually(func() error {
			f := w.get(ctx, "taken")
			metav1.SetMetaDataAnnotation(&f.ObjectMeta, v1alpha1.AnnotationRerunAt, "again")
			return hub.Update(ctx, f)
		}).Should(Succeed())
		Eventually(w.runsOf).WithArguments(ctx, "taken").Should(Equal([]string{"a Replaced Changed", "a Starting"}))
		w.annotate(ctx, v1alpha1.AnnotationDrain, "true")
		Eventually(w.runsOf).WithArguments(ctx, "taken").Should(Equal([]string{"a Replaced Changed", "a Replaced Drained", "b Running"}))
		Expect(job(ctx, "alpine", w.name, "taken")).To(HaveField("UID", theirs.UID))
	})

	It("that a queue on the member holds back is withdrawn in time as well", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.both(ctx)
		w.single(ctx, "queued", func(f *v1alpha1.FleetMiniCluster) {
			f.Spec.Placement.PendingTimeout = &metav1.Duration{Duration: 10 * time.Second}
		})
		w.podsRun(ctx, "queued", "1/1")
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))
		Expect(admins["alpine"].Patch(ctx, job(ctx, "alpine", w.name, "queued"), patch)).To(Succeed())
		Eventually(func() string { return w.lineOnA(ctx, "queued").Message }).Should(ContainSubstring("suspended on the member, not by MiniFleet"))
		w.startedAfterItsEnd(ctx, "queued")
		Eventually(w.runsOf).WithArguments(ctx, "queued").Should(Equal([]string{"a Replaced NotStarted", "b Running"}))
	})

	It("that gets going after all goes on, where MiniFleet was killed before it could stop it", func(ctx SpecContext) {
		onAlpine := newAPIProxy(labs.Cluster("alpine"))
		w := newWorld(ctx)
		w.register(ctx, "a", onAlpine.kubeconfig())
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
		w.single(ctx, "slow", func(f *v1alpha1.FleetMiniCluster) {
			f.Spec.Placement.PendingTimeout = &metav1.Duration{Duration: 10 * time.Second}
		})
		w.podsRun(ctx, "slow", "1/1")
		patch := func(suspend string) {
			GinkgoHelper()
			change := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":`+suspend+`}}`))
			Expect(admins["alpine"].Patch(ctx, job(ctx, "alpine", w.name, "slow"), change)).To(Succeed())
		}
		var killed atomic.Bool
		onAlpine.answer(func(req *http.Request) *http.Response {
			if req.Method == http.MethodDelete && strings.Contains(req.URL.Path, "/jobs/") && killed.CompareAndSwap(false, true) {
				_ = minifleet.Kill()
				return refusal(req, http.StatusServiceUnavailable, nil)
			}
			return nil
		})
		patch("true") // as a queue does
		Eventually(killed.Load).Should(BeTrue())
		Expect(w.runsOf(ctx, "slow")).To(Equal([]string{"a Stopping NotStarted"}))
		patch("false")
		Eventually(func() int32 { return ptr.Deref(job(ctx, "alpine", w.name, "slow").Status.Ready, 0) }).Should(BeEquivalentTo(1))
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(w.line).WithArguments(ctx, "slow").Should(Equal(running))
		Expect(w.runsOf(ctx, "slow")).To(Equal([]string{"a Running"}))
		Consistently(func() any { return job(ctx, "basalt", w.name, "slow") }).Should(BeNil())
		Expect(jobsDeleted("alpine", w.name)).To(BeZero())
	})

	It("that was lost with its nodes is proven gone, and starts elsewhere", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.both(ctx)
		w.single(ctx, "lost", failover(v1alpha1.FenceProvenGone))
		Eventually(func() *metav1.Time {
			if all := w.get(ctx, "lost").Status.Runs; len(all) == 1 {
				return all[0].RunningTime
			}
			return nil
		}).ShouldNot(BeNil())
		for _, pod := range w.pods(ctx, "lost") {
			for i := range pod.Status.Conditions {
				pod.Status.Conditions[i].Status = corev1.ConditionFalse
			}
			Expect(admins["alpine"].Status().Update(ctx, &pod)).To(Succeed())
		}
		Eventually(func() *metav1.Time { return w.get(ctx, "lost").Status.Runs[0].PendingSince }).ShouldNot(BeNil())
		w.startedAfterItsEnd(ctx, "lost")
		Eventually(w.runsOf).WithArguments(ctx, "lost").Should(Equal([]string{"a Replaced Lost", "b Running"}))
	})

	It("whose member is cut off goes on when that returns, and starts nowhere else meanwhile", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxy := w.bothCuttable(ctx)
		w.single(ctx, "goes-on", failover(v1alpha1.FenceProvenGone))
		w.single(ctx, "deleted", failover(v1alpha1.FenceProvenGone))
		Eventually(w.line).WithArguments(ctx, "goes-on").Should(Equal(running))
		Eventually(w.line).WithArguments(ctx, "deleted").Should(Equal(running))
		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		Eventually(func() *metav1.Time { return w.get(ctx, "goes-on").Status.Runs[0].LostTime }).ShouldNot(BeNil())
		Expect(w.lineOnA(ctx, "goes-on").Message).To(And(ContainSubstring("starts elsewhere once it is proven gone"),
			ContainSubstring("kubectl annotate --overwrite -n "+w.name+" fmc goes-on minifleet.dev/run-gone="+w.get(ctx, "goes-on").Status.Runs[0].ID)))
		Consistently(w.runsOf, 5*time.Second).WithArguments(ctx, "goes-on").Should(Equal([]string{"a Running"}))
		// What failover is no longer asked for is not made up for elsewhere, although it was noted as lost.
		Eventually(func() *metav1.Time { return w.get(ctx, "deleted").Status.Runs[0].LostTime }).ShouldNot(BeNil())
		Eventually(func() error {
			f := w.get(ctx, "deleted")
			f.Spec.Placement.Failover = nil
			return hub.Update(ctx, f)
		}).Should(Succeed())
		Expect(admins["alpine"].Delete(ctx, job(ctx, "alpine", w.name, "deleted"), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		Eventually(w.runsOf).WithArguments(ctx, "deleted").Should(Equal([]string{"a Failed Deleted"}))
		Eventually(w.line).WithArguments(ctx, "goes-on").Should(Equal(running))
		Expect(w.get(ctx, "goes-on").Status.Runs).To(ConsistOf(HaveField("LostTime", BeNil())))
		Expect(jobsMade("alpine", w.name)).To(Equal(2))
		Expect(jobsMade("basalt", w.name)).To(BeZero())
	})

	It("whose member returns without it starts elsewhere, once no pod of it is left", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxy := w.bothCuttable(ctx)
		w.single(ctx, "vanishes", failover(v1alpha1.FenceProvenGone))
		w.podsRun(ctx, "vanishes", "1/1")
		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		Eventually(func() *metav1.Time { return w.get(ctx, "vanishes").Status.Runs[0].LostTime }).ShouldNot(BeNil())
		// The Job goes, and its pod is left to run.
		Expect(admins["alpine"].Delete(ctx, job(ctx, "alpine", w.name, "vanishes"), client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		Eventually(func() any { return job(ctx, "alpine", w.name, "vanishes") }).Should(BeNil())
		Expect(w.pods(ctx, "vanishes")).To(HaveLen(1))
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		Eventually(func() string { return w.lineOnA(ctx, "vanishes").Message }).Should(ContainSubstring("the Job was deleted on the member, and its pod vanishes-0-"))
		Consistently(w.runsOf).WithArguments(ctx, "vanishes").Should(Equal([]string{"a Running"}))
		Expect(jobsMade("basalt", w.name)).To(BeZero())
		for _, pod := range w.pods(ctx, "vanishes") {
			Expect(admins["alpine"].Delete(ctx, &pod, client.GracePeriodSeconds(0))).To(Succeed())
		}
		w.startedAfterItsEnd(ctx, "vanishes")
		Eventually(w.line).WithArguments(ctx, "vanishes").Should(Equal(running))
		Expect(w.runsOf(ctx, "vanishes")).To(Equal([]string{"a Replaced Lost", "b Running"}))
	})

	It("that only a person may give up is waited for, and the person is told how", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxy := w.bothCuttable(ctx)
		w.single(ctx, "manual", failover(v1alpha1.FenceManual))
		Eventually(w.line).WithArguments(ctx, "manual").Should(Equal(running))
		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		Eventually(func() string { return w.lineOnA(ctx, "manual").Message }).Should(ContainSubstring("may go on there (failover, fencing: Manual); when you have made sure"))
		Expect(w.get(ctx, "manual").Status.Runs[0].LostTime).To(BeNil())
		// Of all that ran on this member until now; what is said of another time means nothing.
		for _, other := range []time.Duration{-time.Hour, time.Hour} {
			w.annotate(ctx, v1alpha1.AnnotationMemberGone, time.Now().Add(other).UTC().Format(time.RFC3339))
			Consistently(w.runsOf).WithArguments(ctx, "manual").Should(Equal([]string{"a Running"}))
		}
		w.annotate(ctx, v1alpha1.AnnotationMemberGone, time.Now().Add(time.Second).UTC().Format(time.RFC3339))
		Eventually(w.runsOf).WithArguments(ctx, "manual").Should(Equal([]string{"a Replaced DeclaredGone", "b Running"}))
		// It was live after all: it is stopped when it is seen, and nothing else is.
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		Eventually(func() any { return job(ctx, "alpine", w.name, "manual") }).Should(BeNil())
		Expect(w.runsOf(ctx, "manual")).To(Equal([]string{"a Replaced DeclaredGone", "b Running"}))
	})
})
