package controllers_test

import (
	"context"

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

func annotate(ctx context.Context, w *world, name, key, value string) {
	GinkgoHelper()
	Eventually(func() error {
		f := w.get(ctx, name)
		if f.Annotations == nil {
			f.Annotations = map[string]string{}
		}
		f.Annotations[key] = value
		return hub.Update(ctx, f)
	}).Should(Succeed())
}

var _ = Describe("A run that fails", func() {
	It("says which pod and container failed first, and with what exit code", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		f := w.fmc("fails", map[string]string{lab.AskSeconds: "0", lab.AskExitCode: "42"})
		f.Spec.MiniCluster.Size = 3
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "fails").Should(HavePrefix("False RunFailed"))
		run := w.get(ctx, "fails").Status.Runs[0]
		Expect(run.State).To(Equal(v1alpha1.RunFailed))
		Expect(run.Exit).NotTo(BeNil())
		Expect(run.Exit.Pod).To(HavePrefix("fails-"))
		Expect(run.Exit.Container).To(Equal("fails"))
		Expect(run.Exit.ExitCode).To(HaveValue(BeEquivalentTo(42)))
		Expect(run.Message).To(ContainSubstring("container fails, exit code 42"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})

	It("is tried again as often as asked for, one Job after the other, and no more", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		f := w.fmc("retried", map[string]string{lab.AskSeconds: "0", lab.AskExitCode: "1"})
		f.Spec.Retries = 1
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "retried").Should(HavePrefix("False RetryWaiting OutOfSync Progressing"))
		Eventually(w.line).WithArguments(ctx, "retried").Should(HavePrefix("False RunFailed Synced Degraded"))
		status := w.get(ctx, "retried").Status
		Expect(status.Runs).To(HaveLen(2))
		Expect(status.Runs[1].Attempt).To(BeEquivalentTo(1))
		Expect(status.Runs[1].StartTime.Sub(status.Runs[0].CompletionTime.Time).Seconds()).To(BeNumerically(">=", 9), "the back-off is waited out")
		Consistently(func() int { return jobsMade("alpine", w.name) }).Should(Equal(2))
	})
})

var _ = Describe("A run that is cancelled", func() {
	It("ends, is not repeated, and makes way for what is asked for after it", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		f := w.fmc("stopped", held)
		f.Spec.Retries = 3
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "stopped").Should(Equal("True Synced Synced Progressing 1/1"))
		annotate(ctx, w, "stopped", v1alpha1.AnnotationCancel, "0123456789, "+w.get(ctx, "stopped").Status.Runs[0].ID)
		Eventually(w.line).WithArguments(ctx, "stopped").Should(Equal("False RunCancelled Synced Degraded 1/1"))
		Expect(job(ctx, "alpine", w.name, "stopped")).To(BeNil())
		Expect(w.get(ctx, "stopped").Status.Runs[0].State).To(Equal(v1alpha1.RunCancelled))
		Consistently(func() int { return jobsMade("alpine", w.name) }).Should(Equal(1))

		By("asking for another run")
		annotate(ctx, w, "stopped", v1alpha1.AnnotationRerunAt, "again")
		Eventually(w.line).WithArguments(ctx, "stopped").Should(Equal("True Synced Synced Progressing 1/1"))
		Expect(jobsMade("alpine", w.name)).To(Equal(2))
	})
})

var _ = Describe("A run after one whose Job somebody has deleted", func() {
	It("waits until the pods of that one have ended", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "orphaned", held)
		Eventually(w.line).WithArguments(ctx, "orphaned").Should(Equal("True Synced Synced Progressing 1/1"))
		pods := func() []corev1.Pod {
			var list corev1.PodList
			Expect(admins["alpine"].List(ctx, &list, client.InNamespace(w.name), client.MatchingLabels{v1alpha1.LabelOwner: "orphaned"})).To(Succeed())
			return list.Items
		}
		Eventually(pods).Should(HaveLen(1))
		Expect(admins["alpine"].Delete(ctx, job(ctx, "alpine", w.name, "orphaned"), client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "orphaned").Should(Equal("False Deleting OutOfSync Progressing 0/1"))
		annotate(ctx, w, "orphaned", v1alpha1.AnnotationRerunAt, "again")
		Eventually(func() string { return w.get(ctx, "orphaned").Status.Clusters[0].Message }).Should(ContainSubstring("pod orphaned-0"))
		Consistently(func() int { return jobsMade("alpine", w.name) }).Should(Equal(1))
		old := pods()
		Expect(admins["alpine"].Delete(ctx, &old[0], client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "orphaned").Should(Equal("True Synced Synced Progressing 1/1"))
		Expect(jobsMade("alpine", w.name)).To(Equal(2))
		Expect(w.runsOf(ctx, "orphaned")).To(Equal([]string{"a Failed Deleted", "a Running"}))
	})
})

var _ = Describe("The history of runs", func() {
	It("keeps no Job beyond its limit or its time to live, and forgets no result", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		none := w.fmc("none", brief)
		none.Spec.SuccessfulRunsHistoryLimit = ptr.To[int32](0)
		short := w.fmc("short", brief)
		short.Spec.TTLSecondsAfterFinished = ptr.To[int32](3)
		kept := w.fmc("kept", brief)
		kept.Spec.FailedRunsHistoryLimit = ptr.To[int32](0)
		for _, f := range []*v1alpha1.FleetMiniCluster{none, short, kept} {
			Expect(hub.Create(ctx, f)).To(Succeed())
		}
		for _, name := range []string{"none", "short", "kept"} {
			Eventually(w.line).WithArguments(ctx, name).Should(Equal("True Succeeded Synced Healthy 1/1"))
		}
		for _, name := range []string{"none", "short"} {
			Eventually(func(g Gomega) {
				g.Expect(job(ctx, "alpine", w.name, name)).To(BeNil())
				var list corev1.SecretList
				g.Expect(admins["alpine"].List(ctx, &list, client.InNamespace(w.name), client.MatchingLabels{v1alpha1.LabelOwner: name})).To(Succeed())
				g.Expect(list.Items).To(BeEmpty())
			}).Should(Succeed())
			Expect(w.line(ctx, name)).To(Equal("True Succeeded Synced Healthy 1/1"))
		}
		Expect(job(ctx, "alpine", w.name, "kept")).NotTo(BeNil())
		Expect(jobsMade("alpine", w.name)).To(Equal(3))
	})
})

var _ = Describe("A run on a member that is lost", func() {
	It("is not repeated elsewhere until a person says that it is gone, and stopped should it return", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxy, kubeconfig := through(labs.Cluster("basalt"))
		w.register(ctx, "lost", kubeconfig)
		f := w.fmc("fenced", held)
		f.Spec.Placement.NumberOfClusters = ptr.To[int32](1)
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "fenced").Should(Equal("True Synced Synced Progressing 1/1"))
		run := w.get(ctx, "fenced").Status.Runs[0].ID
		w.register(ctx, "spare", labs.Cluster("alpine").Kubeconfig())

		By("giving it up while its member can be asked")
		annotate(ctx, w, "fenced", v1alpha1.AnnotationRunGone, run)
		Consistently(w.line).WithArguments(ctx, "fenced").Should(Equal("True Synced Synced Progressing 1/1"))

		By("giving it up while its member can be asked and the hub is not there")
		Expect(minifleet.Kill()).To(Succeed())
		annotate(ctx, w, "fenced", v1alpha1.AnnotationRunGone, "x,"+run)
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(func() string { return w.get(ctx, "fenced").Annotations[v1alpha1.AnnotationRunGone] }).Should(Equal("x"))
		Expect(w.events(ctx, "fenced")).To(ContainElement("RunHeardOf"))
		Expect(w.line(ctx, "fenced")).To(Equal("True Synced Synced Progressing 1/1"))

		By("giving it up when its member is lost")
		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		Eventually(w.on).WithArguments(ctx, "fenced", "lost").Should(Equal("Unknown Unknown"))
		Consistently(func() int { return jobsMade("alpine", w.name) }).Should(BeZero())
		annotate(ctx, w, "fenced", v1alpha1.AnnotationRunGone, run)
		Eventually(w.on).WithArguments(ctx, "fenced", "spare").Should(Equal("Synced Progressing"))

		By("the member returning with it")
		Expect(job(ctx, "basalt", w.name, "fenced")).NotTo(BeNil())
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		Eventually(func() *batchv1.Job { return job(ctx, "basalt", w.name, "fenced") }).Should(BeNil())
		Eventually(w.line).WithArguments(ctx, "fenced").Should(Equal("True Synced Synced Progressing 1/1"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
		Expect(jobsMade("basalt", w.name)).To(Equal(1))
	})
})
