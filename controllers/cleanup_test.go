package controllers_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
)

var _ = Describe("A MiniCluster with cleanup", func() {
	It("has nothing left on its member, keeps its result, and does not run again", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		f := w.fmc("cleaned", brief)
		f.Spec.MiniCluster.Cleanup = true
		f.Spec.MiniCluster.Services = []fluxv1alpha2.MiniClusterContainer{{Name: "database", Image: "example.org/database"}}
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(func(g Gomega) {
			for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}, &corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}} {
				g.Expect(admins["alpine"].List(ctx, list, client.InNamespace(w.name), client.MatchingLabelsSelector{Selector: butTheRecord("cleaned")})).To(Succeed())
				g.Expect(list).To(HaveField("Items", BeEmpty()))
			}
			g.Expect(w.line(ctx, "cleaned")).To(Equal("True Succeeded Synced Healthy 1/1"))
		}).Should(Succeed())
		Expect(w.get(ctx, "cleaned").Status.Runs).To(HaveLen(1))
		before := writesTo("alpine")
		Consistently(w.line).WithArguments(ctx, "cleaned").Should(Equal("True Succeeded Synced Healthy 1/1"))
		Expect(writesTo("alpine")).To(Equal(before), "what was cleaned up is not put back")
		Expect(jobsMade("alpine", w.name)).To(Equal(1))

		By("running it again")
		Eventually(func() error {
			f := w.get(ctx, "cleaned")
			f.Annotations = map[string]string{v1alpha1.AnnotationRerunAt: "again"}
			return hub.Update(ctx, f)
		}).Should(Succeed())
		Eventually(func() int { return jobsMade("alpine", w.name) }).Should(Equal(2))
	})
})

// butTheRecord selects everything of a FleetMiniCluster but the record of its runs.
func butTheRecord(name string) labels.Selector {
	GinkgoHelper()
	selector, err := labels.Parse(v1alpha1.LabelOwner + "=" + name + ",!" + v1alpha1.LabelRecord)
	Expect(err).NotTo(HaveOccurred())
	return selector
}
