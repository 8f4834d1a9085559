package controllers_test

import (
	"context"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// turned is an override that runs something else in place of what was declared.
func turned() []v1alpha1.ClusterOverride {
	patch := func(path, value string) v1alpha1.JSONPatch {
		return v1alpha1.JSONPatch{Op: v1alpha1.PatchReplace, Path: path, Value: &apiextensionsv1.JSON{Raw: []byte(value)}}
	}
	return []v1alpha1.ClusterOverride{{Name: "turned", Patches: []v1alpha1.JSONPatch{
		patch("/containers/0/image", `"example.org/evil"`), patch("/containers/0/command", `"sh -c evil"`),
	}}}
}

// overridePlacement gives a Placement of the world these overrides, and no others.
func (w *world) overridePlacement(ctx context.Context, name string, overrides []v1alpha1.ClusterOverride) {
	GinkgoHelper()
	Eventually(func() error {
		var p v1alpha1.Placement
		if err := hub.Get(ctx, client.ObjectKey{Namespace: w.name, Name: name}, &p); err != nil {
			return err
		}
		p.Spec.Overrides = overrides
		return hub.Update(ctx, &p)
	}).Should(Succeed())
}

// rerunRoot asks for one more run of the FleetMiniCluster root.
func (w *world) rerunRoot(ctx context.Context, token string) {
	GinkgoHelper()
	w.change(ctx, "root", func(f *v1alpha1.FleetMiniCluster) {
		metav1.SetMetaDataAnnotation(&f.ObjectMeta, v1alpha1.AnnotationRerunAt, token)
	})
}

// ran is TOKEN STATE of the latest run of a FleetMiniCluster, with a dash for no token.
func (w *world) ran(ctx context.Context, name string) string {
	runs := w.get(ctx, name).Status.Runs
	if len(runs) == 0 {
		return ""
	}
	last := runs[len(runs)-1]
	if last.RerunAt == "" {
		last.RerunAt = "-"
	}
	return last.RerunAt + " " + string(last.State)
}

// imageOfRoot is the image that the Job of root on alpine runs.
func (w *world) imageOfRoot(ctx context.Context) string {
	j := job(ctx, "alpine", w.name, "root")
	if j == nil {
		return ""
	}
	for _, c := range j.Spec.Template.Spec.Containers {
		if c.Name == "root" {
			return c.Image
		}
	}
	return ""
}

// endingFile is dangerousFile with pods that end.
func endingFile(name, placement string) string {
	file := strings.Replace(dangerousFile(name, `"true"`), lab.AskHold+`: "true"`, lab.AskSeconds+`: "0"`, 1)
	if placement != "" {
		file = strings.Replace(file, "  name: "+name+"\n", "  name: "+name+"\n  labels: {"+v1alpha1.LabelPlacement+": "+placement+"}\n", 1)
	}
	return file
}

var _ = Describe("Permissions that are borrowed", func() {
	It("are not lent to what the override of another Placement makes of a MiniCluster", func(ctx SpecContext) {
		w := newWorld(ctx)
		put(ctx, admins["alpine"], w.lenient())
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		r := w.newRepository(ctx)
		r.commit(map[string]string{"root.yaml": endingFile("root", "")})
		source := r.source(ctx, "HostPath", "Privileged")
		Eventually(w.ran).WithArguments(ctx, "root").Should(Equal("- Succeeded"))

		By("editing the Placement, which the source does not declare")
		w.overridePlacement(ctx, "all", turned())
		w.rerunRoot(ctx, "one")
		Eventually(w.ready).WithArguments(ctx, "root").Should(Equal("False PolicyDenied"))
		Expect(says(w.get(ctx, "root").Status.Conditions)).To(And(
			ContainSubstring("securityContext.privileged: makes the container root on the node, which takes the permission Privileged"),
			ContainSubstring("Placement "+w.name+"/all has not the overrides that GitSource "+w.name+"/fleet declares for this MiniCluster"),
			ContainSubstring("kubectl annotate --overwrite namespace "+w.name+" minifleet.dev/allow=HostPath,Privileged"),
		))
		Consistently(func() int { return jobsMade("alpine", w.name) }).Should(Equal(1))

		By("an override that is for no member, which costs nothing")
		elsewhere := turned()
		elsewhere[0].ClusterSelector.MatchLabels = map[string]string{"zone": "nowhere"}
		w.overridePlacement(ctx, "all", elsewhere)
		Eventually(w.ran).WithArguments(ctx, "root").Should(Equal("one Succeeded"))
		Expect(w.imageOfRoot(ctx)).To(Equal("example.org/app"))

		By("having the source name another default placement")
		Expect(hub.Create(ctx, &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "mine"}, Spec: v1alpha1.PlacementSpec{
			ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"world": w.name}}, Overrides: turned()}})).To(Succeed())
		byDefault := func(name string) {
			GinkgoHelper()
			Eventually(func() error {
				s := source()
				s.Spec.DefaultPlacement = &v1alpha1.LocalReference{Name: name}
				return hub.Update(ctx, s)
			}).Should(Succeed())
			Eventually(func() string { return w.get(ctx, "root").Spec.PlacementRef.Name }).Should(Equal(name))
		}
		byDefault("mine")
		w.rerunRoot(ctx, "by-default")
		Eventually(func() string { return says(w.get(ctx, "root").Status.Conditions) }).Should(ContainSubstring("Placement " + w.name + "/mine has not the overrides"))
		Expect(jobsMade("alpine", w.name)).To(Equal(2))
		byDefault("all")
		Eventually(w.ran).WithArguments(ctx, "root").Should(Equal("by-default Succeeded"))
		Expect(w.imageOfRoot(ctx)).To(Equal("example.org/app"))

		By("allowing it in the namespace, for all who may edit there")
		w.overridePlacement(ctx, "all", turned())
		w.rerunRoot(ctx, "two")
		Eventually(w.ready).WithArguments(ctx, "root").Should(Equal("False PolicyDenied"))
		follow(says(w.get(ctx, "root").Status.Conditions))
		Eventually(w.ran).WithArguments(ctx, "root").Should(Equal("two Succeeded"))
		Expect(w.imageOfRoot(ctx)).To(Equal("example.org/evil"))
	})

	It("are lent to what the overrides in Git make of it, and to these while the source is suspended", func(ctx SpecContext) {
		w := newWorld(ctx)
		put(ctx, admins["alpine"], w.lenient())
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		r := w.newRepository(ctx)
		placement := `apiVersion: minifleet.dev/v1alpha1
kind: Placement
metadata: {name: declared}
spec:
  clusterSelector: {matchLabels: {world: ` + w.name + `}}
  overrides:
    - name: registry
      patches:
        - {op: replace, path: /containers/0/image, value: example.org/declared}
        - {op: add, path: /containers/0/environment, value: {B: "2", A: "1.0"}}
        - {op: add, path: /tasks, value: 2.0}
`
		r.commit(map[string]string{"root.yaml": endingFile("root", "declared"), "placement.yaml": placement})
		source := r.source(ctx, "HostPath", "Privileged")
		Eventually(w.ran).WithArguments(ctx, "root").Should(Equal("- Succeeded"))
		Expect(w.imageOfRoot(ctx)).To(Equal("example.org/declared"))
		Expect(source().Status.Needs).To(ConsistOf(HaveField("Overrides", HaveLen(64))))

		By("another version of the overrides in Git")
		r.commit(map[string]string{"placement.yaml": strings.Replace(placement, "example.org/declared", "example.org/next", 1)})
		Eventually(func() string {
			var p v1alpha1.Placement
			Expect(hub.Get(ctx, client.ObjectKey{Namespace: w.name, Name: "declared"}, &p)).To(Succeed())
			return string(p.Spec.Overrides[0].Patches[0].Value.Raw)
		}).Should(ContainSubstring("next"))
		w.rerunRoot(ctx, "one")
		Eventually(w.ran).WithArguments(ctx, "root").Should(Equal("one Succeeded"))
		Expect(w.imageOfRoot(ctx)).To(Equal("example.org/next"))

		By("editing the declared Placement while the source is suspended")
		w.suspendSource(ctx, true)
		w.overridePlacement(ctx, "declared", turned())
		w.rerunRoot(ctx, "two")
		Eventually(w.ready).WithArguments(ctx, "root").Should(Equal("False PolicyDenied"))

		By("naming another Placement, with other overrides and with none")
		w.overridePlacement(ctx, "all", turned())
		named := func(f *v1alpha1.FleetMiniCluster) { f.Spec.PlacementRef = &v1alpha1.LocalReference{Name: "all"} }
		w.change(ctx, "root", named)
		Eventually(func() string { return says(w.get(ctx, "root").Status.Conditions) }).Should(ContainSubstring("Placement " + w.name + "/all has not the overrides"))
		w.overridePlacement(ctx, "all", nil)
		Consistently(w.ready).WithArguments(ctx, "root").Should(Equal("False PolicyDenied"))

		By("writing them into the FleetMiniCluster")
		w.change(ctx, "root", func(f *v1alpha1.FleetMiniCluster) {
			f.Spec.PlacementRef = nil
			f.Spec.Placement = &v1alpha1.PlacementSpec{Overrides: turned()}
		})
		Eventually(func() string { return says(w.get(ctx, "root").Status.Conditions) }).Should(ContainSubstring("spec.placement has not the overrides"))
		Expect(jobsMade("alpine", w.name)).To(Equal(2))

		By("having the source put it all right")
		w.suspendSource(ctx, false)
		Eventually(func() string { return w.ran(ctx, "root") }).Should(Equal("two Succeeded"))
		Expect(w.imageOfRoot(ctx)).To(Equal("example.org/next"))
	})

	It("do not count on a hub without the admission policy, until that is there", func(ctx SpecContext) {
		w := newWorld(ctx)
		put(ctx, admins["alpine"], w.lenient())
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		r := w.newRepository(ctx)
		r.commit(map[string]string{"first.yaml": dangerousFile("first", `"true"`)})
		source := r.source(ctx, "HostPath", "Privileged")
		Eventually(w.line).WithArguments(ctx, "first").Should(Equal("True Synced Synced Progressing 1/1"))

		root, err := lab.RepositoryRoot()
		Expect(err).NotTo(HaveOccurred())
		install := func(ctx context.Context) error {
			return labs.Cluster("hub").ApplyPolicies(ctx, filepath.Join(root, "config", "policy"))
		}
		DeferCleanup(func(ctx SpecContext) error { return install(ctx) })
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "gitsource-allow"}}
		Expect(hub.Delete(ctx, binding)).To(Succeed())
		Eventually(func() string { return statusReason(source().Status.Conditions) }).Should(Equal("False AllowUnenforced"))
		Expect(says(source().Status.Conditions)).To(And(
			ContainSubstring("the hub has no ValidatingAdmissionPolicyBinding gitsource-allow"), ContainSubstring("kubectl apply -k config/policy")))
		r.commit(map[string]string{"second.yaml": dangerousFile("second", `"true"`)})
		Eventually(w.ready).WithArguments(ctx, "second").Should(Equal("False PolicyDenied"))
		Expect(says(w.get(ctx, "second").Status.Conditions)).To(ContainSubstring("What GitSource " + w.name + "/fleet allows does not count: the hub has no"))
		Consistently(func() int { return jobsMade("alpine", w.name) }).Should(Equal(1))
		Expect(jobsDeleted("alpine", w.name)).To(BeZero(), "what is live goes on")

		Expect(install(ctx)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "second").Should(Equal("True Synced Synced Progressing 1/1"))
		Eventually(func() string { return statusReason(source().Status.Conditions) }).Should(Equal("True Succeeded"))
	})
})

var _ = Describe("Tokens of members", func() {
	It("are told by the type of their Secret, whatever its name, and take a permission", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		member := admins["alpine"]
		Expect(member.Create(ctx, w.lenient())).To(Succeed())
		robot := metav1.ObjectMeta{Namespace: w.name, Name: "robot"}
		Expect(member.Create(ctx, &corev1.ServiceAccount{ObjectMeta: robot})).To(Succeed())
		Expect(member.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "harmless", Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}},
			Type:       corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte("hunter2-hunter2-hunter2")},
		})).To(Succeed())

		f := w.fmc("reader", held)
		f.Spec.MiniCluster.Containers[0].Volumes = map[string]fluxv1alpha2.ContainerVolume{"t": {SecretName: "harmless", Path: "/t"}}
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.ready).WithArguments(ctx, "reader").Should(Equal("False PolicyDenied"))
		message := says(w.get(ctx, "reader").Status.Conditions)
		Expect(message).To(And(
			ContainSubstring("spec.miniCluster.containers[0].volumes[t].secretName: reads the token for an API server that Secret harmless in namespace "+w.name+" of the member holds"),
			ContainSubstring("takes the permission ServiceAccountToken"), Not(ContainSubstring("hunter2"))))
		Consistently(func() int { return jobsMade("alpine", w.name) }).Should(BeZero())
		Expect(w.get(ctx, "reader").Status.Runs).To(BeEmpty(), "nothing has begun")

		follow(message)
		Eventually(w.line).WithArguments(ctx, "reader").Should(Equal("True Synced Synced Progressing 1/1"))
	})
})

var _ = Describe("Nodes and programs that are not for everybody", func() {
	It("take a permission: tolerations of the control plane, and annotations that are not known", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		f := w.fmc("broad", map[string]string{lab.AskHold: "true", "k8s.v1.cni.cncf.io/networks": "kube-system/host"})
		f.Spec.MiniCluster.Pod.Tolerations = []fluxv1alpha2.Toleration{
			{Key: "nvidia.com/gpu", Operator: "Exists"}, {Key: "node-role.kubernetes.io/control-plane", Operator: "Exists"}, {Operator: "Exists"},
		}
		f.Spec.MiniCluster.JobLabels = map[string]string{"kueue.x-k8s.io/priority-class": "urgent"}
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.ready).WithArguments(ctx, "broad").Should(Equal("False PolicyDenied"))
		Expect(says(w.get(ctx, "broad").Status.Conditions)).To(And(
			ContainSubstring("spec.miniCluster.jobLabels[kueue.x-k8s.io/priority-class]: "), ContainSubstring("spec.miniCluster.pod.annotations[k8s.v1.cni.cncf.io/networks]: "),
			ContainSubstring("spec.miniCluster.pod.tolerations[1].key: "), ContainSubstring("spec.miniCluster.pod.tolerations[2]: "),
			Not(ContainSubstring("tolerations[0]")), HaveSuffix("minifleet.dev/allow=PodAnnotations,Tolerations")))
		Consistently(func() int { return jobsMade("alpine", w.name) }).Should(BeZero())
		follow(says(w.get(ctx, "broad").Status.Conditions))
		Eventually(w.line).WithArguments(ctx, "broad").Should(Equal("True Synced Synced Progressing 1/1"))
	})
})
