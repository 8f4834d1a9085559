package controllers_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

var _ = Describe("The deletion of a FleetMiniCluster", func() {
	It("waits for a member that is away, says so, and ends when that is back", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxy, kubeconfig := through(labs.Cluster("basalt"))
		w.register(ctx, "here", labs.Cluster("alpine").Kubeconfig())
		w.register(ctx, "away", kubeconfig)
		w.run(ctx, "both", held)
		Eventually(w.line).WithArguments(ctx, "both").Should(Equal("True Synced Synced Progressing 2/2"))
		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		Expect(hub.Delete(ctx, w.get(ctx, "both"))).To(Succeed())
		Eventually(func() *batchv1.Job { return job(ctx, "alpine", w.name, "both") }).Should(BeNil())
		Eventually(func(g Gomega) {
			c := meta.FindStatusCondition(w.get(ctx, "both").Status.Conditions, v1alpha1.ConditionReady)
			g.Expect(c).NotTo(BeNil())
			g.Expect(c.Reason).To(Equal("Deleting"))
			g.Expect(c.Message).To(ContainSubstring(w.member("away")))
			g.Expect(c.Message).NotTo(ContainSubstring(w.member("here")))
		}).Should(Succeed())
		Consistently(w.exists).WithArguments(ctx, "both").Should(BeTrue())
		Expect(job(ctx, "basalt", w.name, "both")).NotTo(BeNil())
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "both").Should(BeFalse())
		Expect(job(ctx, "basalt", w.name, "both")).To(BeNil())
	})

	It("waits no longer than its deadline, and is made up for when the member returns", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxy, kubeconfig := through(labs.Cluster("basalt"))
		w.register(ctx, "away", kubeconfig)
		f := w.fmc("given-up", held)
		f.Spec.DeletionDeadlineSeconds = ptr.To[int32](2)
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "given-up").Should(Equal("True Synced Synced Progressing 1/1"))
		uid := w.get(ctx, "given-up").UID
		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		Eventually(w.on).WithArguments(ctx, "given-up", "away").Should(HavePrefix("Unknown"))
		Expect(hub.Delete(ctx, w.get(ctx, "given-up"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "given-up").Should(BeFalse())
		orphans := func() []v1alpha1.Orphan { return w.memberCluster(ctx, "away").Status.Orphans }
		Expect(orphans()).To(HaveLen(1))
		Expect(orphans()[0]).To(And(HaveField("UID", uid), HaveField("Owner", w.name+"/given-up"), HaveField("Namespace", w.name)))
		Expect(job(ctx, "basalt", w.name, "given-up")).NotTo(BeNil())

		By("making one of the same name anew, which waits for the old one to go")
		w.run(ctx, "given-up", held)
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		Eventually(orphans).Should(BeEmpty())
		Eventually(w.line).WithArguments(ctx, "given-up").Should(Equal("True Synced Synced Progressing 1/1"))
		Expect(job(ctx, "basalt", w.name, "given-up").Annotations[v1alpha1.AnnotationOwnerUID]).To(BeEquivalentTo(w.get(ctx, "given-up").UID))
		Eventually(w.events).WithArguments(ctx, w.member("away")).Should(ContainElements("Orphaned", "OrphanRemoved"))
	})

	It("has the record of a run removed later on where the member is away and has nothing else", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxy := w.behindProxy(ctx)
		w.onOne(ctx, "moved", brief, onA)
		Eventually(w.line).WithArguments(ctx, "moved").Should(Equal(ended1))
		onB := func(f *v1alpha1.FleetMiniCluster) { f.Spec.Placement.ClusterSelector.MatchLabels["member"] = "b" }
		w.change(ctx, "moved", func(f *v1alpha1.FleetMiniCluster) {
			onB(f)
			f.Spec.MiniCluster.Containers[0].Command = "date"
		})
		Eventually(w.on).WithArguments(ctx, "moved", "a").Should(BeEmpty())
		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		Eventually(func() string { return w.reason(ctx, "a") }).Should(Equal("Unknown Unreachable"))
		Expect(hub.Delete(ctx, w.get(ctx, "moved"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "moved").Should(BeFalse())
		Expect(w.memberCluster(ctx, "a").Status.Orphans).To(ConsistOf(HaveField("RecordOnly", true)))
		Expect(w.onRecord(ctx, "alpine", "moved")).NotTo(BeEmpty())

		By("making one of the same name anew, which waits for nothing")
		w.onOne(ctx, "moved", brief, onB)
		Eventually(w.line).WithArguments(ctx, "moved").Should(Equal(ended1))
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		Eventually(func() []v1alpha1.Orphan { return w.memberCluster(ctx, "a").Status.Orphans }).Should(BeEmpty())
		Expect(w.onRecord(ctx, "alpine", "moved")).To(BeEmpty())
	})

	It("does not wait for a member that is no longer registered, and says so", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "orphan", held)
		Eventually(w.line).WithArguments(ctx, "orphan").Should(Equal("True Synced Synced Progressing 1/1"))
		Expect(hub.Delete(ctx, w.memberCluster(ctx, "a"))).To(Succeed())
		Eventually(w.on).WithArguments(ctx, "orphan", "a").Should(Equal("Unknown Unknown"))
		Expect(hub.Delete(ctx, w.get(ctx, "orphan"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "orphan").Should(BeFalse())
		Eventually(w.events).WithArguments(ctx, "orphan").Should(ContainElement("MemberRemoved"))
		Expect(job(ctx, "alpine", w.name, "orphan")).NotTo(BeNil(), "nothing is deleted where MiniFleet may not go any more")
	})

	It("never deletes what carries the origin of another hub, or of another object", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		f := w.run(ctx, "mine", held)
		Eventually(w.line).WithArguments(ctx, "mine").Should(Equal("True Synced Synced Progressing 1/1"))
		own := job(ctx, "alpine", w.name, "mine").Annotations
		origins := map[string]map[string]string{
			"of-another-hub":    {v1alpha1.AnnotationFleetID: "another", v1alpha1.AnnotationOwner: w.name + "/mine", v1alpha1.AnnotationOwnerUID: string(f.UID)},
			"of-another-object": {v1alpha1.AnnotationFleetID: own[v1alpha1.AnnotationFleetID], v1alpha1.AnnotationOwner: w.name + "/other", v1alpha1.AnnotationOwnerUID: string(f.UID)},
			"of-nobody":         nil,
		}
		var theirs []client.Object
		for name, annotations := range origins {
			theirs = append(theirs, foreign(w.name, name, annotations)...)
		}
		for _, obj := range theirs {
			Expect(admins["alpine"].Create(ctx, obj)).To(Succeed())
		}
		Expect(hub.Delete(ctx, w.get(ctx, "mine"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "mine").Should(BeFalse())
		Expect(job(ctx, "alpine", w.name, "mine")).To(BeNil())
		for _, obj := range theirs {
			uid := obj.GetUID()
			Expect(admins["alpine"].Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
			Expect(obj.GetUID()).To(Equal(uid))
			Expect(obj.GetDeletionTimestamp()).To(BeNil())
		}
		var left corev1.ConfigMapList
		Expect(admins["alpine"].List(ctx, &left, client.InNamespace(w.name), client.MatchingLabels{v1alpha1.LabelOwner: "mine"})).To(Succeed())
		Expect(left.Items).To(HaveLen(len(origins)))
	})
})

// foreign returns an object of each kind under the labels of a FleetMiniCluster that is called mine.
func foreign(namespace, name string, annotations map[string]string) []client.Object {
	named := metav1.ObjectMeta{
		Namespace: namespace, Name: name, Annotations: annotations,
		Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelOwner: "mine"},
	}
	return []client.Object{
		&corev1.ConfigMap{ObjectMeta: *named.DeepCopy()},
		&corev1.Secret{ObjectMeta: *named.DeepCopy()},
		&corev1.Service{ObjectMeta: *named.DeepCopy(), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}},
		&batchv1.Job{ObjectMeta: *named.DeepCopy(), Spec: batchv1.JobSpec{
			Suspend: ptr.To(true),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "x", Image: "example.org/x"}},
			}},
		}},
	}
}
