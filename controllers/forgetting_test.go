package controllers_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// onOne is a FleetMiniCluster on one of the members of the world.
func (w *world) onOne(ctx context.Context, name string, annotations map[string]string, change ...func(*v1alpha1.FleetMiniCluster)) {
	GinkgoHelper()
	f := w.fmc(name, annotations)
	f.Spec.Placement.NumberOfClusters = ptr.To(int32(1))
	for _, c := range change {
		c(f)
	}
	Expect(hub.Create(ctx, f)).To(Succeed())
}

// behindProxy registers alpine and basalt, alpine behind a proxy.
func (w *world) behindProxy(ctx context.Context) *lab.Proxy {
	GinkgoHelper()
	p, kubeconfig := through(labs.Cluster("alpine"))
	w.register(ctx, "a", kubeconfig)
	w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
	return p
}

// onA has a FleetMiniCluster placed on the member that is alpine, onAny on any.
func onA(f *v1alpha1.FleetMiniCluster) { f.Spec.Placement.ClusterSelector.MatchLabels["member"] = "a" }

func onAny(f *v1alpha1.FleetMiniCluster) {
	delete(f.Spec.Placement.ClusterSelector.MatchLabels, "member")
}

// changeStatus edits the status of a FleetMiniCluster as somebody with an editor does.
func (w *world) changeStatus(ctx context.Context, name string, change func(*v1alpha1.FleetMiniClusterStatus)) {
	GinkgoHelper()
	Eventually(func() error {
		f := w.get(ctx, name)
		change(&f.Status)
		return hub.Status().Update(ctx, f)
	}).Should(Succeed())
}

func emptied(s *v1alpha1.FleetMiniClusterStatus) { *s = v1alpha1.FleetMiniClusterStatus{} }

// made is how many Jobs were created on alpine and basalt together.
func (w *world) made() int { return jobsMade("alpine", w.name) + jobsMade("basalt", w.name) }

// recreate creates a FleetMiniCluster anew whose finalizer was taken off, so that nothing was removed.
func (w *world) recreate(ctx context.Context, name string, changes ...func(*v1alpha1.FleetMiniCluster)) {
	GinkgoHelper()
	w.bringBack(ctx, w.vanish(ctx, name), changes...)
}

// vanish deletes a FleetMiniCluster without its finalizer.
func (w *world) vanish(ctx context.Context, name string) *v1alpha1.FleetMiniCluster {
	GinkgoHelper()
	old := w.get(ctx, name)
	w.change(ctx, name, func(f *v1alpha1.FleetMiniCluster) { f.Finalizers = nil })
	Expect(client.IgnoreNotFound(hub.Delete(ctx, old))).To(Succeed())
	Eventually(w.exists).WithArguments(ctx, name).Should(BeFalse())
	return old
}

// bringBack creates one as an earlier one was.
func (w *world) bringBack(ctx context.Context, old *v1alpha1.FleetMiniCluster, changes ...func(*v1alpha1.FleetMiniCluster)) {
	GinkgoHelper()
	f := w.fmc(old.Name, nil)
	f.Spec = old.Spec
	for _, c := range changes {
		c(f)
	}
	Expect(hub.Create(ctx, f)).To(Succeed())
}

// somebodysJob creates a Job of this name on alpine that is not MiniFleet's, and makes no pods.
func (w *world) somebodysJob(ctx context.Context, name string) *batchv1.Job {
	GinkgoHelper()
	Expect(admins["alpine"].Create(ctx, w.onMember())).To(Succeed())
	theirs := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}, Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
	theirs.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "theirs", Image: "example.org/theirs"}}}
	Expect(admins["alpine"].Create(ctx, theirs)).To(Succeed())
	return theirs
}

// onRecord is what a member has on record of a FleetMiniCluster; empty for nothing.
func (w *world) onRecord(ctx context.Context, cluster, name string) string {
	GinkgoHelper()
	var list corev1.ConfigMapList
	Expect(admins[cluster].List(ctx, &list, client.InNamespace(w.name), client.MatchingLabels{v1alpha1.LabelOwner: name}, client.HasLabels{v1alpha1.LabelRecord})).To(Succeed())
	for i := range list.Items {
		return list.Items[i].Data["runs"]
	}
	return ""
}

// succeedPod ends the one pod on alpine of a Job that is not there any more: the lab ends those of Jobs only.
func (w *world) succeedPod(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var pods corev1.PodList
		g.Expect(admins["alpine"].List(ctx, &pods, client.InNamespace(w.name), client.MatchingLabels{v1alpha1.LabelOwner: name})).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(1))
		pods.Items[0].Status.Phase = corev1.PodSucceeded
		g.Expect(admins["alpine"].Status().Update(ctx, &pods.Items[0])).To(Succeed())
	}).Should(Succeed())
}

const (
	runs   = "True Synced Synced Progressing 1/1"
	ended1 = "True Succeeded Synced Healthy 1/1"
)

var _ = Describe("A ledger that is lost while MiniFleet is down", func() {
	It("repeats nothing that is live or has succeeded, and all of it is deleted in the end", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.behindProxy(ctx)
		w.onOne(ctx, "live", held, onA)
		w.onOne(ctx, "done", brief, onA)
		w.onOne(ctx, "cleaned", brief, onA, func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Cleanup = true })
		Eventually(w.line).WithArguments(ctx, "live").Should(Equal(runs))
		for _, name := range []string{"done", "cleaned"} {
			Eventually(w.line).WithArguments(ctx, name).Should(Equal(ended1))
		}
		Eventually(job).WithArguments(ctx, "alpine", w.name, "cleaned").Should(BeNil())
		run := w.get(ctx, "live").Status.Runs[0].ID
		Expect(minifleet.Kill()).To(Succeed())
		for _, name := range []string{"live", "done", "cleaned"} {
			w.change(ctx, name, onAny)
			w.changeStatus(ctx, name, emptied)
		}
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(w.line).WithArguments(ctx, "live").Should(Equal(runs))
		for _, name := range []string{"done", "cleaned"} {
			Eventually(w.line).WithArguments(ctx, name).Should(Equal(ended1))
		}
		Expect(w.get(ctx, "live").Status.Runs[0].ID).To(Equal(run))
		Expect(w.made()).To(Equal(3))

		By("deleting them without a ledger")
		Expect(minifleet.Kill()).To(Succeed())
		for _, name := range []string{"live", "done", "cleaned"} {
			w.changeStatus(ctx, name, emptied)
			Expect(hub.Delete(ctx, w.get(ctx, name))).To(Succeed())
		}
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		for _, name := range []string{"live", "done", "cleaned"} {
			Eventually(w.exists).WithArguments(ctx, name).Should(BeFalse())
			Expect(job(ctx, "alpine", w.name, name)).To(BeNil())
		}
		var left corev1.ConfigMapList
		Expect(admins["alpine"].List(ctx, &left, client.InNamespace(w.name), client.HasLabels{v1alpha1.LabelOwner})).To(Succeed())
		Expect(left.Items).To(BeEmpty())
	})

	It("is known to have had a Job that somebody was deleting", func(ctx SpecContext) {
		const hold = "minifleet.dev/test"
		w := newWorld(ctx)
		w.behindProxy(ctx)
		policies := map[string]metav1.DeletionPropagation{"ended": metav1.DeletePropagationForeground, "goes-on": metav1.DeletePropagationOrphan}
		for name := range policies {
			w.onOne(ctx, name, held, onA, func(f *v1alpha1.FleetMiniCluster) { f.Spec.Retries = 3 })
		}
		for name, policy := range policies {
			Eventually(w.line).WithArguments(ctx, name).Should(Equal(runs))
			w.podsRun(ctx, name, "1/1")
			Eventually(func() error {
				j := job(ctx, "alpine", w.name, name)
				j.Finalizers = append(j.Finalizers, hold)
				return admins["alpine"].Update(ctx, j)
			}).Should(Succeed())
			Expect(admins["alpine"].Delete(ctx, job(ctx, "alpine", w.name, name), client.PropagationPolicy(policy))).To(Succeed())
		}
		for name := range policies {
			Eventually(w.onRecord).WithArguments(ctx, "alpine", name).Should(ContainSubstring(`"state":"Running","stop":"Deleted"`))
			Eventually(func() []string { return job(ctx, "alpine", w.name, name).Finalizers }).Should(Equal([]string{hold}))
		}
		Expect(minifleet.Kill()).To(Succeed())
		for name := range policies {
			j := job(ctx, "alpine", w.name, name)
			j.Finalizers = nil
			Expect(admins["alpine"].Update(ctx, j)).To(Succeed())
			w.change(ctx, name, onAny)
			w.changeStatus(ctx, name, emptied)
		}
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(w.runsOf).WithArguments(ctx, "ended").Should(Equal([]string{"a Failed Deleted"}))
		Eventually(w.line).WithArguments(ctx, "goes-on").Should(Equal("False Deleting OutOfSync Progressing 0/1"))
		w.succeedPod(ctx, "goes-on")
		Eventually(w.line).WithArguments(ctx, "goes-on").Should(Equal(ended1))
		for name, state := range map[string]string{"ended": "Failed", "goes-on": "Succeeded"} {
			Eventually(w.onRecord).WithArguments(ctx, "alpine", name).Should(And(ContainSubstring(`"state":"`+state), Not(ContainSubstring("Running"))))
		}
		Expect(w.made()).To(Equal(2))
	})

	It("is waited for while a member cannot be asked, which is said", func(ctx SpecContext) {
		w := newWorld(ctx)
		p := w.behindProxy(ctx)
		w.onOne(ctx, "live", held, onA)
		Eventually(w.line).WithArguments(ctx, "live").Should(Equal(runs))
		Expect(minifleet.Kill()).To(Succeed())
		p.Close()
		w.change(ctx, "live", onAny)
		w.changeStatus(ctx, "live", emptied)
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(func() string { return w.reason(ctx, "a") }).Should(Equal("Unknown Unreachable"))
		Eventually(w.line).WithArguments(ctx, "live").Should(ContainSubstring("MemberNotAsked"))
		Expect(kubectl("", "describe", "-n", w.name, "fmc", "live")).To(ContainSubstring(w.member("a") + ", which may hold a run of this MiniCluster, could not be asked yet"))
		Consistently(w.made, 3*time.Second).Should(Equal(1))

		By("having it answer")
		_, kubeconfig := through(labs.Cluster("alpine"))
		w.secret(ctx, "a", kubeconfig)
		Eventually(w.line).WithArguments(ctx, "live").Should(Equal(runs))
		Expect(w.made()).To(Equal(1))
	})
})

var _ = Describe("A FleetMiniCluster that is created anew", func() {
	// liveAndDone has one run live and one succeeded on a, and MiniFleet down.
	liveAndDone := func(ctx context.Context, w *world) {
		GinkgoHelper()
		w.onOne(ctx, "live", held, onA)
		w.onOne(ctx, "done", brief, onA)
		Eventually(w.line).WithArguments(ctx, "live").Should(Equal(runs))
		Eventually(w.line).WithArguments(ctx, "done").Should(Equal(ended1))
		Expect(minifleet.Kill()).To(Succeed())
	}

	// takesUp expects that nothing of liveAndDone is repeated while a cannot be asked, and that both are taken up once it can.
	takesUp := func(ctx context.Context, w *world, p *lab.Proxy) {
		GinkgoHelper()
		Consistently(w.made, 3*time.Second).Should(Equal(2))
		By("having it answer")
		Expect(p.SetMode(lab.Forward)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "live").Should(Equal(runs))
		Eventually(w.line).WithArguments(ctx, "done").Should(Equal(ended1))
		Expect(w.made()).To(Equal(2))
	}

	It("takes up what its predecessor has left, or waits for it", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.behindProxy(ctx)
		w.onOne(ctx, "same", held, onA)
		w.onOne(ctx, "other", held, onA)
		w.onOne(ctx, "done", brief, onA)
		for _, name := range []string{"same", "other"} {
			Eventually(w.line).WithArguments(ctx, name).Should(Equal(runs))
		}
		Eventually(w.line).WithArguments(ctx, "done").Should(Equal(ended1))
		Expect(minifleet.Kill()).To(Succeed())
		another := func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Containers[0].Command = "date" }
		w.recreate(ctx, "same", onAny)
		w.recreate(ctx, "other", onAny, another)
		w.recreate(ctx, "done", onAny)
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(w.line).WithArguments(ctx, "same").Should(Equal(runs))
		Eventually(w.line).WithArguments(ctx, "done").Should(Equal(ended1))
		Eventually(w.line).WithArguments(ctx, "other").Should(ContainSubstring("WaitingForCompletion"))
		Expect(w.made()).To(Equal(3))
		By("having its predecessor's end")
		_, err := labs.Cluster("alpine").Release(ctx, w.name, v1alpha1.LabelOwner+"=other", 0)
		Expect(err).NotTo(HaveOccurred())
		Eventually(w.line).WithArguments(ctx, "other").Should(Equal(runs))
		Expect(w.made()).To(Equal(4))
		By("seeing whose the Job is now")
		Eventually(func() string {
			if j := job(ctx, "alpine", w.name, "same"); j != nil {
				return j.Annotations[v1alpha1.AnnotationOwnerUID]
			}
			return ""
		}).Should(Equal(string(w.get(ctx, "same").UID)))
	})

	It("has removed what a predecessor without a Job has left", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.behindProxy(ctx)
		w.somebodysJob(ctx, "taken")
		w.onOne(ctx, "taken", held, onA)
		Eventually(w.line).WithArguments(ctx, "taken").Should(HavePrefix("False NameConflict"))
		left := func() int {
			var list corev1.ConfigMapList
			Expect(admins["alpine"].List(ctx, &list, client.InNamespace(w.name), client.MatchingLabels{v1alpha1.LabelOwner: "taken"})).To(Succeed())
			return len(list.Items)
		}
		Expect(left()).To(Equal(1))
		w.recreate(ctx, "taken", func(f *v1alpha1.FleetMiniCluster) { f.Spec.Placement.ClusterSelector.MatchLabels["member"] = "b" })
		Eventually(w.line).WithArguments(ctx, "taken").Should(Equal(runs))
		Expect(hub.Delete(ctx, w.get(ctx, "taken"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "taken").Should(BeFalse())
		Expect(left()).To(BeZero())
	})

	It("waits for a member that is connected late, where that happened while MiniFleet was down", func(ctx SpecContext) {
		w := newWorld(ctx)
		p := w.behindProxy(ctx)
		liveAndDone(ctx, w)
		Expect(p.SetMode(lab.Hang)).To(Succeed())
		for _, name := range []string{"live", "done"} {
			w.recreate(ctx, name, onAny)
		}
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(func() string { return w.reason(ctx, "b") }).Should(HavePrefix("True"))
		for _, name := range []string{"live", "done"} {
			Eventually(w.line).WithArguments(ctx, name).Should(ContainSubstring("MemberNotAsked"))
		}
		takesUp(ctx, w, p)
	})

	It("waits for a member that is away, where its predecessor vanished while MiniFleet was down", func(ctx SpecContext) {
		w := newWorld(ctx)
		p := w.behindProxy(ctx)
		liveAndDone(ctx, w)
		Expect(p.SetMode(lab.Refuse)).To(Succeed())
		var old []*v1alpha1.FleetMiniCluster
		for _, name := range []string{"live", "done"} {
			old = append(old, w.vanish(ctx, name))
		}
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(func() string { return w.reason(ctx, "a") }).Should(Equal("Unknown Unreachable"))
		Eventually(func() string { return w.reason(ctx, "b") }).Should(HavePrefix("True"))
		for _, f := range old {
			w.bringBack(ctx, f, onAny)
			Eventually(w.line).WithArguments(ctx, f.Name).Should(ContainSubstring("MemberNotAsked"))
		}
		takesUp(ctx, w, p)
	})

	It("waits for what has succeeded on a member that is away, and does not repeat it", func(ctx SpecContext) {
		w := newWorld(ctx)
		p := w.behindProxy(ctx)
		w.onOne(ctx, "done", brief, onA)
		Eventually(w.line).WithArguments(ctx, "done").Should(Equal(ended1))
		Expect(p.SetMode(lab.Refuse)).To(Succeed())
		Eventually(func() string { return w.reason(ctx, "a") }).Should(Equal("Unknown Unreachable"))
		w.recreate(ctx, "done", onAny)
		Eventually(w.line).WithArguments(ctx, "done").Should(ContainSubstring("MemberNotAsked"))
		Consistently(w.made, 3*time.Second).Should(Equal(1))
		By("having it answer")
		Expect(p.SetMode(lab.Forward)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "done").Should(Equal(ended1))
		Expect(w.made()).To(Equal(1))
	})

	It("waits for the run of one that vanished while its member was away, and takes it up", func(ctx SpecContext) {
		w := newWorld(ctx)
		p := w.behindProxy(ctx)
		w.onOne(ctx, "vanished", held, onA)
		Eventually(w.line).WithArguments(ctx, "vanished").Should(Equal(runs))
		p.Close()
		Eventually(func() string { return w.reason(ctx, "a") }).Should(Equal("Unknown Unreachable"))
		w.recreate(ctx, "vanished", onAny)
		Eventually(w.line).WithArguments(ctx, "vanished").Should(ContainSubstring("MemberNotAsked"))
		Expect(kubectl("", "describe", "-n", w.name, "fmc", "vanished")).To(ContainSubstring(w.member("a") + " had a live run of this name"))
		Consistently(w.made, 3*time.Second).Should(Equal(1))
		By("having it answer")
		_, kubeconfig := through(labs.Cluster("alpine"))
		w.secret(ctx, "a", kubeconfig)
		Eventually(w.line).WithArguments(ctx, "vanished").Should(Equal(runs))
		Expect(w.made()).To(Equal(1))
	})

	It("waits for the run of one that was deleted while its member was away", func(ctx SpecContext) {
		w := newWorld(ctx)
		p := w.behindProxy(ctx)
		w.onOne(ctx, "again", held, onA, func(f *v1alpha1.FleetMiniCluster) { f.Spec.DeletionDeadlineSeconds = ptr.To(int32(1)) })
		Eventually(w.line).WithArguments(ctx, "again").Should(Equal(runs))
		p.Close()
		Eventually(func() string { return w.reason(ctx, "a") }).Should(Equal("Unknown Unreachable"))
		Expect(hub.Delete(ctx, w.get(ctx, "again"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "again").Should(BeFalse())
		w.onOne(ctx, "again", held)
		Eventually(w.line).WithArguments(ctx, "again").Should(ContainSubstring("MemberNotAsked"))
		Expect(kubectl("", "describe", "-n", w.name, "fmc", "again")).To(ContainSubstring("that was deleted may still be live on " + w.member("a")))
		Consistently(w.made, 3*time.Second).Should(Equal(1))
		By("having it answer")
		_, kubeconfig := through(labs.Cluster("alpine"))
		w.secret(ctx, "a", kubeconfig)
		Eventually(w.line).WithArguments(ctx, "again").Should(Equal(runs))
		Expect(w.made()).To(Equal(2))
	})
})

var _ = Describe("A Job whose labels and annotations are taken off", func() {
	strip := func(ctx context.Context, w *world, name string) {
		GinkgoHelper()
		Eventually(func() error {
			j := job(ctx, "alpine", w.name, name)
			j.Labels, j.Annotations = nil, nil
			return admins["alpine"].Update(ctx, j)
		}).Should(Succeed())
	}

	It("stays that of its run, and gets them back", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		f := w.fmc("stripped", held)
		f.Spec.Retries = 3
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "stripped").Should(Equal(runs))
		before := job(ctx, "alpine", w.name, "stripped")
		strip(ctx, w, "stripped")
		Eventually(func(g Gomega) {
			j := job(ctx, "alpine", w.name, "stripped")
			g.Expect(j).NotTo(BeNil())
			g.Expect(j.UID).To(Equal(before.UID))
			for k, v := range before.Labels {
				g.Expect(j.Labels).To(HaveKeyWithValue(k, v))
			}
			g.Expect(j.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationOwnerUID, string(w.get(ctx, "stripped").UID)))
		}).Should(Succeed())
		Expect(w.events(ctx, "stripped")).To(ContainElement(v1alpha1.ReasonDriftRepaired))

		By("ending while MiniFleet is down and the labels are off")
		Expect(minifleet.Kill()).To(Succeed())
		strip(ctx, w, "stripped")
		_, err := labs.Cluster("alpine").Release(ctx, w.name, v1alpha1.LabelOwner+"=stripped", 0)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() int32 { return job(ctx, "alpine", w.name, "stripped").Status.Succeeded }).Should(Equal(int32(1)))
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(w.line).WithArguments(ctx, "stripped").Should(Equal(ended1))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
		Expect(job(ctx, "alpine", w.name, "stripped")).NotTo(BeNil())
	})

	It("makes way for another run all the same", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "stripped", brief)
		Eventually(w.line).WithArguments(ctx, "stripped").Should(Equal(ended1))
		strip(ctx, w, "stripped")
		annotate(ctx, w, "stripped", v1alpha1.AnnotationRerunAt, "again")
		Eventually(w.runsOf).WithArguments(ctx, "stripped").Should(Equal([]string{"a Succeeded", "a Succeeded"}))
		Expect(jobsMade("alpine", w.name)).To(Equal(2))
	})
})

var _ = Describe("A Job that somebody deletes and whose pods stay", func() {
	It("is judged by these", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		f := w.fmc("orphaned", held)
		f.Spec.Retries = 3
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "orphaned").Should(Equal(runs))
		w.podsRun(ctx, "orphaned", "1/1")
		Expect(admins["alpine"].Delete(ctx, job(ctx, "alpine", w.name, "orphaned"), client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "orphaned").Should(Equal("False Deleting OutOfSync Progressing 0/1"))
		w.succeedPod(ctx, "orphaned")
		Eventually(w.line).WithArguments(ctx, "orphaned").Should(Equal(ended1))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})

	It("has failed where it was deleted with them, and is not retried", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		f := w.fmc("deleted", held)
		f.Spec.Retries = 3
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "deleted").Should(Equal(runs))
		Expect(admins["alpine"].Delete(ctx, job(ctx, "alpine", w.name, "deleted"), client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		Eventually(w.runsOf).WithArguments(ctx, "deleted").Should(Equal([]string{"a Failed Deleted"}))
		Consistently(func() int { return jobsMade("alpine", w.name) }, 4*time.Second).Should(Equal(1))
	})
})

var _ = Describe("A status that somebody edits", func() {
	It("is noticed at once, and neither ends a run nor repeats one", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		f := w.fmc("edited", held)
		f.Spec.Retries = 3
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "edited").Should(Equal(runs))
		edits := map[string]func(*v1alpha1.FleetMiniClusterStatus){
			"emptied":       emptied,
			"succeeded":     func(s *v1alpha1.FleetMiniClusterStatus) { s.Runs[0].State = v1alpha1.RunSucceeded },
			"failed":        func(s *v1alpha1.FleetMiniClusterStatus) { s.Runs[0].State = v1alpha1.RunFailed },
			"replaced":      func(s *v1alpha1.FleetMiniClusterStatus) { s.Runs[0].State = v1alpha1.RunReplaced },
			"of another":    func(s *v1alpha1.FleetMiniClusterStatus) { s.Runs[0].Digest = "0123456789abcdef" },
			"not placed":    func(s *v1alpha1.FleetMiniClusterStatus) { s.Placement = nil },
			"no members":    func(s *v1alpha1.FleetMiniClusterStatus) { s.Clusters = nil },
			"no conditions": func(s *v1alpha1.FleetMiniClusterStatus) { s.Conditions = nil },
		}
		for name, edit := range edits {
			By(name)
			id := w.get(ctx, "edited").Status.Runs[0].ID
			w.changeStatus(ctx, "edited", edit)
			Eventually(func(g Gomega) {
				f := w.get(ctx, "edited")
				g.Expect(lineOf(f)).To(Equal(runs))
				g.Expect(f.Status.Runs).To(HaveLen(1))
				g.Expect(f.Status.Runs[0].ID).To(Equal(id))
				g.Expect(f.Status.Runs[0].State).To(Equal(v1alpha1.RunRunning))
				for _, c := range f.Status.Conditions {
					g.Expect(c.Message).NotTo(BeEmpty())
				}
			}).Should(Succeed(), name)
		}
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
		Expect(jobsDeleted("alpine", w.name)).To(BeZero())

		By("after its end")
		_, err := labs.Cluster("alpine").Release(ctx, w.name, v1alpha1.LabelOwner+"=edited", 0)
		Expect(err).NotTo(HaveOccurred())
		Eventually(w.line).WithArguments(ctx, "edited").Should(Equal(ended1))
		for _, name := range []string{"emptied", "failed", "replaced", "of another", "not placed"} {
			By(name)
			w.changeStatus(ctx, "edited", edits[name])
			Eventually(func(g Gomega) {
				f := w.get(ctx, "edited")
				g.Expect(lineOf(f)).To(Equal(ended1))
				g.Expect(f.Status.Runs[len(f.Status.Runs)-1].State).To(Equal(v1alpha1.RunSucceeded))
			}).Should(Succeed(), name)
		}
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})
})

var _ = Describe("A MiniCluster that comes back to what has succeeded", func() {
	It("is not run again unless a person asks for that", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "back", brief)
		Eventually(w.line).WithArguments(ctx, "back").Should(Equal(ended1))
		command := func(s string) func(*v1alpha1.FleetMiniCluster) {
			return func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Containers[0].Command = s }
		}
		first := w.get(ctx, "back").Status.Runs[0].ID
		w.change(ctx, "back", command("date"))
		Eventually(w.runsOf).WithArguments(ctx, "back").Should(Equal([]string{"a Succeeded", "a Succeeded"}))
		w.change(ctx, "back", command("true"))
		Eventually(func(g Gomega) {
			f := w.get(ctx, "back")
			g.Expect(lineOf(f)).To(Equal(ended1))
			g.Expect(f.Status.Clusters[0].Run).To(Equal(first))
			g.Expect(f.Status.Clusters[0].Message).To(HavePrefix("succeeded before, as run " + first))
		}).Should(Succeed())
		w.change(ctx, "back", command("date"))
		Eventually(func() string { return w.get(ctx, "back").Status.Clusters[0].Run }).ShouldNot(Equal(first))
		Expect(jobsMade("alpine", w.name)).To(Equal(2))
		annotate(ctx, w, "back", v1alpha1.AnnotationRerunAt, "again")
		Eventually(func() int { return jobsMade("alpine", w.name) }).Should(Equal(3))
		Eventually(w.line).WithArguments(ctx, "back").Should(Equal(ended1))
	})
})
