package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// releasePod lets one pod of a Job on alpine end with 0.
func (w *world) releasePod(ctx context.Context, name, index string) {
	GinkgoHelper()
	selector := batchv1.JobNameLabel + "=" + name + "," + batchv1.JobCompletionIndexAnnotation + "=" + index
	Expect(labs.Cluster("alpine").Release(ctx, w.name, selector, 0)).To(Equal(1))
}

// failPod reports of a pod of a Job on alpine, in the kubelet's place, that its container has failed.
func (w *world) failPod(ctx context.Context, name, index string) {
	GinkgoHelper()
	Eventually(func(g Gomega) { // the Job controller writes to it as well
		var pods corev1.PodList
		g.Expect(admins["alpine"].List(ctx, &pods, client.InNamespace(w.name),
			client.MatchingLabels{batchv1.JobNameLabel: name, batchv1.JobCompletionIndexAnnotation: index})).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(1))
		pod := &pods.Items[0]
		pod.Status.Phase = corev1.PodFailed
		for i := range pod.Status.ContainerStatuses {
			pod.Status.ContainerStatuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}}
		}
		g.Expect(admins["alpine"].Status().Update(ctx, pod)).To(Succeed())
	}).Should(Succeed())
}

var _ = Describe("A run whose lead has succeeded", func() {
	const done = "True Succeeded Synced Healthy 1/1"
	var w *world
	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
	})

	It("has succeeded, and what still runs of it is stopped", func(ctx SpecContext) {
		f := w.fmc("led", held)
		f.Spec.MiniCluster.Size = 3
		Expect(hub.Create(ctx, f)).To(Succeed())
		w.podsRun(ctx, "led", "3/3")
		w.releasePod(ctx, "led", "1")
		Consistently(w.line).WithArguments(ctx, "led").Should(Equal(running))
		w.releasePod(ctx, "led", "0")
		Eventually(w.line).WithArguments(ctx, "led").Should(Equal(done))
		status := w.get(ctx, "led").Status
		Expect(status.Runs[0].Message).To(Equal("the lead succeeded; 2 of 3 pods had ended by then"))
		Expect(status.Summary.Pods).To(Equal("3/3"))
		Expect(status.Clusters[0].Pods.Succeeded).To(BeEquivalentTo(2))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})

	It("has succeeded although a pod of it never got a node, since minSize of them had room", func(ctx SpecContext) {
		w.freeCPU(ctx, "64/64")
		f := w.asking("partial", 5, "20", held)
		f.Spec.MiniCluster.MinSize = 2
		Expect(hub.Create(ctx, f)).To(Succeed())
		w.podsRun(ctx, "partial", "3/5")
		Eventually(w.told).WithArguments(ctx, "partial", "a").Should(HavePrefix("Unschedulable: 3 of 5 pods ready; partial-"))
		Expect(w.get(ctx, "partial").Status.Runs[0].RunningTime).NotTo(BeNil())

		By("having what it may still take reserved")
		other := w.asking("other", 1, "20", held)
		Expect(hub.Create(ctx, other)).To(Succeed())
		Eventually(w.readyMessage).WithArguments(ctx, "other").Should(ContainSubstring("0 of 1 pods fit"))
		w.releasePod(ctx, "partial", "1")
		w.podsRun(ctx, "partial", "4/5")
		Consistently(w.line).WithArguments(ctx, "other").Should(HavePrefix("False InsufficientCapacity"))

		w.releasePod(ctx, "partial", "0")
		Eventually(w.line).WithArguments(ctx, "partial").Should(Equal(done))
		Expect(w.get(ctx, "partial").Status.Summary.Pods).To(Equal("5/5"))
		Eventually(w.line).WithArguments(ctx, "other").Should(Equal(running))
	})

	It("is not called that before its last pod has ended, and not failed by one that fails then, nor cancelled", func(ctx SpecContext) {
		f := w.fmc("slow", map[string]string{lab.AskHold: "true", lab.AskLingerSeconds: "60"})
		f.Spec.MiniCluster.Size = 3
		Expect(hub.Create(ctx, f)).To(Succeed())
		w.podsRun(ctx, "slow", "3/3")
		w.releasePod(ctx, "slow", "0")
		const waits = "WaitingForCompletion: it has succeeded; waiting until the member has stopped what still runs of it"
		Eventually(w.told).WithArguments(ctx, "slow", "a").Should(Equal(waits))
		run := w.get(ctx, "slow").Status.Runs[0]
		Expect(run.State).To(Equal(v1alpha1.RunRunning))
		annotate(ctx, w, "slow", v1alpha1.AnnotationCancel, run.ID)
		w.failPod(ctx, "slow", "1")
		Consistently(w.told).WithArguments(ctx, "slow", "a").Should(Equal(waits))
		w.failPod(ctx, "slow", "2")
		Eventually(w.line).WithArguments(ctx, "slow").Should(Equal(done))
		Expect(w.get(ctx, "slow").Status.Runs[0].Message).To(Equal("the lead succeeded; 1 of 3 pods had ended by then"))
		Expect(jobsDeleted("alpine", w.name)).To(BeZero())
	})
})
