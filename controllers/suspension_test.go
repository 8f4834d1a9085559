package controllers_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

var _ = Describe("A run that is suspended", func() {
	It("has failed once it is decided that its Job fails", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "killed", held)
		w.podsRun(ctx, "killed", "1/1")
		w.change(ctx, "killed", func(f *v1alpha1.FleetMiniCluster) { f.Spec.Suspend = true })
		Eventually(w.line).WithArguments(ctx, "killed").Should(Equal("True Suspended Synced Suspended 1/1"))
		suspended := func() []batchv1.JobCondition { return job(ctx, "alpine", w.name, "killed").Status.Conditions }
		Eventually(suspended).Should(ContainElement(HaveField("Type", batchv1.JobSuspended)))

		By("deciding that it fails, as for a pod that was killed at the end of its grace")
		Eventually(func() error {
			j := job(ctx, "alpine", w.name, "killed")
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
				Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
				Reason: batchv1.JobReasonPodFailurePolicy, Message: "container killed failed with exit code 137",
			})
			return admins["alpine"].Status().Update(ctx, j)
		}).Should(Succeed())
		Eventually(w.line).WithArguments(ctx, "killed").Should(Equal("False RunFailed Synced Degraded 1/1"))
		Expect(w.get(ctx, "killed").Status.Runs[0].Message).To(ContainSubstring("exit code 137"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})
})
