package controllers_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

var _ = Describe("A request to read a repository now", func() {
	It("is answered at once, unless the source is suspended", func(ctx SpecContext) {
		w := newWorld(ctx)
		r := w.newRepository(ctx)
		r.commit(map[string]string{"a.yaml": harmlessFile})
		now := r.source(ctx)
		edit := func(change func(*v1alpha1.GitSource)) {
			GinkgoHelper()
			Eventually(func() error {
				s := now()
				change(s)
				return hub.Update(ctx, s)
			}).Should(Succeed())
		}
		request := func(token string) {
			edit(func(s *v1alpha1.GitSource) {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.AnnotationReconcileAt, token)
			})
		}
		commits := func() []v1alpha1.Commit { return now().Status.Commits }
		handled := func() string { return now().Status.LastHandledReconcileAt }
		edit(func(s *v1alpha1.GitSource) { s.Spec.Interval = metav1.Duration{Duration: 24 * time.Hour} })
		Eventually(commits).Should(HaveLen(1))
		Expect(commits()[0]).To(And(HaveField("Subject", "change"), HaveField("Author", "test"), HaveField("Time", Not(BeNil())),
			HaveField("Hash", now().Status.Commit), HaveField("Revision", now().Status.Revision)))

		By("asking after a commit that the interval would find tomorrow")
		Eventually(func() int64 { return now().Status.ObservedGeneration }).Should(Equal(now().Generation))
		r.commit(map[string]string{"b.txt": "b"})
		Consistently(commits, "1s").Should(HaveLen(1))
		request("first")
		Eventually(handled).Should(Equal("first"))
		Eventually(commits).Should(HaveLen(2))
		Expect(commits()[0].Hash).To(Equal(now().Status.Commit))

		By("asking while it is suspended")
		w.suspendSource(ctx, true)
		r.commit(map[string]string{"b.txt": "c"})
		request("second")
		says := func() string {
			return meta.FindStatusCondition(now().Status.Conditions, v1alpha1.ConditionReady).Message
		}
		Eventually(says).Should(ContainSubstring("minifleet.dev/reconcile-at=second waits until spec.suspend is false"))
		Consistently(handled, "1s").Should(Equal("first"))
		Expect(commits()).To(HaveLen(2))
		w.suspendSource(ctx, false)
		Eventually(handled).Should(Equal("second"))
		Eventually(commits).Should(HaveLen(3))
	})
})
