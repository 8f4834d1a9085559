package controllers_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// called is a file with a MiniCluster of that name.
func called(name string) string {
	return strings.Replace(harmlessFile, "name: harmless", "name: "+name, 1)
}

// editSource changes the GitSource fleet of a world as a person does.
func (w *world) editSource(ctx context.Context, change func(*v1alpha1.GitSource)) {
	GinkgoHelper()
	Eventually(func() error {
		var s v1alpha1.GitSource
		if err := hub.Get(ctx, client.ObjectKey{Namespace: w.name, Name: "fleet"}, &s); err != nil {
			return err
		}
		change(&s)
		return hub.Update(ctx, &s)
	}).Should(Succeed())
}

var _ = Describe("What a commit changes", func() {
	It("is told by a dry run, which writes nothing, and done once that ends", func(ctx SpecContext) {
		w := newWorld(ctx)
		put(ctx, admins["alpine"], w.lenient())
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		r := w.newRepository(ctx)
		r.commit(map[string]string{"a.yaml": called("a"), "b.yaml": called("b")})
		source := r.source(ctx)
		Eventually(func() []string { return w.names(ctx) }).Should(ConsistOf("a", "b"))
		w.editSource(ctx, func(s *v1alpha1.GitSource) {
			s.Spec.Mode, s.Spec.DeletionPolicy = v1alpha1.SourceDryRun, v1alpha1.SourceDelete
		})
		Eventually(func() string { return statusReason(source().Status.Conditions) }).Should(Equal("True DryRun"))
		applied := source().Status.Commit
		r.commit(map[string]string{"a.yaml": "", "c.yaml": called("c")})
		Eventually(func() string { return says(source().Status.Conditions) }).Should(ContainSubstring("1 to create, 1 to delete; nothing of it is done"))
		Expect(source().Status.DryRun.Changes).To(ConsistOf(
			And(HaveField("Object", "FleetMiniCluster/c"), HaveField("Action", v1alpha1.ChangeCreate)),
			And(HaveField("Object", "FleetMiniCluster/a"), HaveField("Action", v1alpha1.ChangeDelete)),
		))
		Expect(w.names(ctx)).To(ConsistOf("a", "b"))
		Expect(source().Status.Commit).To(Equal(applied))
		Expect(source().Status.LastAttempted.Hash).NotTo(Equal(applied))
		Expect(source().Finalizers).To(BeEmpty())

		w.editSource(ctx, func(s *v1alpha1.GitSource) { s.Spec.Mode = v1alpha1.SourceApply })
		Eventually(func() []string { return w.names(ctx) }).Should(ConsistOf("b", "c"))
		Eventually(source).Should(And(HaveField("Status.DryRun", BeNil()), HaveField("Finalizers", ConsistOf(v1alpha1.Finalizer))))
		Eventually(func() *v1alpha1.Changes { return source().Status.Commits[0].Changes }).Should(Equal(&v1alpha1.Changes{
			Created: 1, Deleted: 1, Objects: []string{"+FleetMiniCluster/c", "-FleetMiniCluster/a"}}))
		Eventually(func() []v1alpha1.InventoryEntry { return source().Status.Inventory }).Should(Equal([]v1alpha1.InventoryEntry{
			{Object: "FleetMiniCluster/b", Path: "b.yaml", State: v1alpha1.InventorySynced}, {Object: "FleetMiniCluster/c", Path: "c.yaml", State: v1alpha1.InventorySynced}}))
		Expect(w.get(ctx, "c").Annotations).To(And(HaveKeyWithValue(v1alpha1.AnnotationSourceAuthor, "test"), HaveKeyWithValue(v1alpha1.AnnotationSourceSubject, "change"),
			HaveKeyWithValue(v1alpha1.AnnotationSourceCommit, source().Status.Commit), HaveKeyWithValue(v1alpha1.AnnotationSourceUID, string(source().UID))))
		Eventually(func() []v1alpha1.Run { return w.get(ctx, "c").Status.Runs }).Should(ConsistOf(
			HaveField("Commit", Equal(&v1alpha1.RunCommit{Hash: source().Status.Commit, Author: "test", Subject: "change"}))))

		By("refusing the name of what somebody else has created")
		w.run(ctx, "taken", held)
		before := w.get(ctx, "taken").Generation
		r.commit(map[string]string{"taken.yaml": called("taken")})
		Eventually(func() []v1alpha1.FileProblem { return source().Status.Problems }).Should(ConsistOf(And(HaveField("Path", "taken.yaml"),
			HaveField("Message", ContainSubstring("FleetMiniCluster "+w.name+"/taken exists already and was not created by a GitSource")))))
		Expect(w.get(ctx, "taken").Generation).To(Equal(before))
	})

	It("goes with the source if that is to delete it, even while Git is down, but for what is not to be pruned", func(ctx SpecContext) {
		w := newWorld(ctx)
		r := w.newRepository(ctx)
		r.commit(map[string]string{"a.yaml": called("a"), "kept.yaml": called("kept"), "b.yaml": called("b")})
		source := r.source(ctx)
		Eventually(func() []string { return w.names(ctx) }).Should(ConsistOf("a", "b", "kept"))
		Eventually(func() error {
			kept := w.get(ctx, "kept")
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, v1alpha1.AnnotationPrune, v1alpha1.PruneDisabled)
			return hub.Update(ctx, kept)
		}).Should(Succeed())
		r.commit(map[string]string{"kept.yaml": ""})
		Eventually(func() []v1alpha1.InventoryEntry { return source().Status.Inventory }).Should(ContainElement(
			v1alpha1.InventoryEntry{Object: "FleetMiniCluster/kept", Path: "kept.yaml", State: v1alpha1.InventoryKept}))
		w.editSource(ctx, func(s *v1alpha1.GitSource) { s.Spec.DeletionPolicy = v1alpha1.SourceDelete })
		Eventually(source).Should(HaveField("Finalizers", ConsistOf(v1alpha1.Finalizer)))
		Expect(r.server.Stop()).To(Succeed())
		Expect(hub.Delete(ctx, source())).To(Succeed())
		Eventually(func() []string { return w.names(ctx) }).Should(ConsistOf("kept"))
		Eventually(source).Should(HaveField("UID", BeEmpty()))

		By("deleting the namespace of a source whose rights are deleted with it")
		other := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: w.name + "-ends", Name: "fleet"}}
		other.Spec = v1alpha1.GitSourceSpec{
			URL: "https://localhost:1/fleet", DeletionPolicy: v1alpha1.SourceDelete, ServiceAccountName: "nobody",
			Interval: metav1.Duration{Duration: time.Second}, Timeout: metav1.Duration{Duration: time.Second},
		}
		w.makeNamespace(ctx, other.Namespace)
		Expect(hub.Create(ctx, other)).To(Succeed())
		Eventually(func() []string {
			Expect(hub.Get(ctx, client.ObjectKeyFromObject(other), other)).To(Succeed())
			return other.Finalizers
		}).ShouldNot(BeEmpty())
		Expect(hub.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other.Namespace}})).To(Succeed())
		Expect(client.IgnoreNotFound(hub.Delete(ctx, other))).To(Succeed()) // as the namespace controller does
		Eventually(func() bool { return apierrors.IsNotFound(hub.Get(ctx, client.ObjectKeyFromObject(other), other)) }).Should(BeTrue())
	})

	It("waits for approval where the source or the owner is another one, however little it is", func(ctx SpecContext) {
		w := newWorld(ctx)
		r := w.newRepository(ctx)
		files := map[string]string{}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			files[name+".yaml"] = called(name)
		}
		r.commit(files)
		source := r.source(ctx)
		Eventually(func() []string { return w.names(ctx) }).Should(HaveLen(5))
		blocked := func() string {
			if c := meta.FindStatusCondition(source().Status.Conditions, v1alpha1.ConditionPruneBlocked); c != nil {
				return c.Message
			}
			return ""
		}

		By("reading another repository, in which one is missing")
		Eventually(func() string { return statusReason(source().Status.Conditions) }).Should(Equal("True Succeeded"))
		Expect(r.server.CreateRepo("other")).To(Succeed())
		r.git(r.dir, "rm", "-q", "a.yaml")
		r.git(r.dir, "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "-q", "-m", "Drop a")
		r.git(r.dir, "push", "-q", r.server.URL("other"), "HEAD")
		w.editSource(ctx, func(s *v1alpha1.GitSource) { s.Spec.URL = r.server.TLSURL("other") })
		Eventually(blocked).Should(And(ContainSubstring("spec.url or the path of the GitSource has changed"), ContainSubstring("FleetMiniCluster/a")))
		Expect(source().Status.Origin).To(And(HaveField("Moving", true), HaveField("URL", Not(ContainSubstring("other")))))
		follow(blocked())
		Eventually(func() []string { return w.names(ctx) }).Should(ConsistOf("b", "c", "d", "e"))
		Eventually(func() *v1alpha1.SourceOrigin { return source().Status.Origin }).Should(And(HaveField("Moving", false), HaveField("URL", ContainSubstring("other"))))

		By("making the source anew under its name")
		uid := source().UID
		spec := source().Spec
		Expect(hub.Delete(ctx, source())).To(Succeed())
		r.git(r.dir, "rm", "-q", "b.yaml")
		r.git(r.dir, "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "-q", "-m", "Drop b")
		r.git(r.dir, "push", "-q", r.server.URL("other"), "HEAD")
		Eventually(source).Should(HaveField("UID", BeEmpty()))
		Expect(hub.Create(ctx, &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "fleet"}, Spec: spec})).To(Succeed())
		Eventually(blocked).Should(And(ContainSubstring("this GitSource has not applied them before"), ContainSubstring("FleetMiniCluster/b")))
		Expect(source().UID).NotTo(Equal(uid))
		Eventually(func() string { return w.get(ctx, "c").Annotations[v1alpha1.AnnotationSourceUID] }).Should(Equal(string(source().UID)))
		follow(blocked())
		Eventually(func() []string { return w.names(ctx) }).Should(ConsistOf("c", "d", "e"))
	})
})
