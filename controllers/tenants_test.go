package controllers_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// open says who may use a member.
func open(access *v1alpha1.NamespaceAccess) func(*v1alpha1.MemberCluster) {
	return func(m *v1alpha1.MemberCluster) { m.Spec.Namespaces = access }
}

func named(namespaces ...string) *v1alpha1.NamespaceAccess {
	return &v1alpha1.NamespaceAccess{From: v1alpha1.NamespacesFromNames, Names: namespaces}
}

func targeting(t v1alpha1.TargetNamespaces) func(*v1alpha1.MemberCluster) {
	return func(m *v1alpha1.MemberCluster) { m.Spec.TargetNamespaces = &t }
}

// merge patches a MemberCluster of this world.
func (w *world) merge(ctx context.Context, member, patch string) {
	GinkgoHelper()
	Expect(hub.Patch(ctx, w.memberCluster(ctx, member), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// lineOn is what the status of a FleetMiniCluster says of a member.
func (w *world) lineOn(ctx context.Context, name, member string) v1alpha1.ClusterStatus {
	for _, c := range w.get(ctx, name).Status.Clusters {
		if c.Name == w.member(member) {
			return c
		}
	}
	return v1alpha1.ClusterStatus{}
}

// namespaceOn is a namespace of alpine.
func namespaceOn(ctx context.Context, name string) *corev1.Namespace {
	var ns corev1.Namespace
	if err := admins["alpine"].Get(ctx, client.ObjectKey{Name: name}, &ns); err != nil {
		return &corev1.Namespace{}
	}
	return &ns
}

var _ = Describe("A member that says who may use it", func() {
	It("is used by nobody else, and counted for them", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig(), open(named(w.name+"-other")), func(m *v1alpha1.MemberCluster) {
			m.Spec.Taints = []v1alpha1.Taint{{Key: "team", Value: "other", Effect: v1alpha1.NoSelect}}
		})
		f := w.fmc("stranger", held)
		f.Spec.Placement.Tolerations = []v1alpha1.Toleration{{Operator: v1alpha1.TolerateExists}}
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.ready).WithArguments(ctx, "stranger").Should(Equal("False NoClusterMatches"))
		Expect(w.readyMessage(ctx, "stranger")).To(And(ContainSubstring("spec.namespaces"), Not(ContainSubstring(w.member("a")))))

		By("one more that it may use")
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig(), open(&v1alpha1.NamespaceAccess{
			From: v1alpha1.NamespacesFromSelector, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": w.name}},
		}))
		Consistently(w.ready).WithArguments(ctx, "stranger").Should(Equal("False NoClusterMatches"))
		var ns corev1.Namespace
		Expect(hub.Get(ctx, client.ObjectKey{Name: w.name}, &ns)).To(Succeed())
		label := fmt.Sprintf(`{"metadata":{"labels":{"team":%q}}}`, w.name)
		Expect(hub.Patch(ctx, &ns, client.RawPatch(types.MergePatchType, []byte(label)))).To(Succeed())
		Eventually(w.on).WithArguments(ctx, "stranger", "b").Should(Equal("Synced Progressing"))
		Expect(fmt.Sprint(w.get(ctx, "stranger").Status)).NotTo(ContainSubstring(w.member("a")))
		Expect(jobsMade("alpine", w.name)).To(BeZero())

		By("withdrawing it: what is live goes on")
		w.merge(ctx, "b", `{"spec":{"namespaces":{"from":"Names","names":["nobody"],"selector":null}}}`)
		Consistently(w.on).WithArguments(ctx, "stranger", "b").Should(Equal("Synced Progressing"))
		Expect(jobsMade("basalt", w.name)).To(Equal(1))
		Expect(jobsDeleted("basalt", w.name)).To(BeZero())
		w.run(ctx, "late", held)
		Eventually(w.ready).WithArguments(ctx, "late").Should(Equal("False NoClusterMatches"))
	})

	It("has to say it", func(ctx SpecContext) {
		w := newWorld(ctx)
		m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: w.member("silent")}}
		m.Spec.KubeconfigSecretRef.Name = "x"
		Expect(hub.Create(ctx, m)).To(MatchError(And(ContainSubstring("spec.namespaces"), ContainSubstring("say which namespaces of the hub may use the member"))))
		said := w.enroll(ctx, "said")
		Expect(hub.Patch(ctx, said, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"namespaces":null}}`)))).
			To(MatchError(ContainSubstring("say which namespaces of the hub may use the member")))
	})

	It("is used in the namespaces that it names", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig(), targeting(v1alpha1.TargetNamespaces{Template: w.name + "-of-{namespace}"}))
		site := w.name + "-of-" + w.name
		w.run(ctx, "mapped", held)
		Eventually(w.on).WithArguments(ctx, "mapped", "a").Should(Equal("Synced Progressing"))
		Expect(job(ctx, "alpine", site, "mapped")).NotTo(BeNil())
		Expect(w.get(ctx, "mapped").Status.Runs[0].Namespace).To(Equal(site))
		Expect(namespaceOn(ctx, w.name).Name).To(BeEmpty())
		Expect(namespaceOn(ctx, site).Labels).To(And(
			HaveKeyWithValue("pod-security.kubernetes.io/enforce", "baseline"), HaveKeyWithValue(v1alpha1.LabelHubNamespace, w.name)))
		Expect(hub.Delete(ctx, w.get(ctx, "mapped"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "mapped").Should(BeFalse())
		Expect(job(ctx, "alpine", site, "mapped")).To(BeNil())
	})

	It("does not lend namespaces that MiniFleet has not made", func(ctx SpecContext) {
		w := newWorld(ctx)
		theirs := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
		Expect(admins["alpine"].Create(ctx, theirs)).To(Succeed())
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "intruder", held)
		Eventually(func() string { return w.lineOn(ctx, "intruder", "a").Reason }).Should(Equal(v1alpha1.ReasonNamespaceDenied))
		message := w.lineOn(ctx, "intruder", "a").Message
		Expect(message).To(ContainSubstring("was not made by MiniFleet"))
		Expect(w.get(ctx, "intruder").Status.Runs).To(BeEmpty())
		Expect(writesTo("alpine")).NotTo(ContainElement(ContainSubstring("/namespaces/" + w.name + "/")))

		By("doing what it says")
		_, command, _ := strings.Cut(message, "`kubectl ")
		command, _, _ = strings.Cut(command, "`")
		kubectlOn("alpine", strings.Fields(command)...)
		Eventually(w.on).WithArguments(ctx, "intruder", "a").Should(Equal("Synced Progressing"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})

	It("reserves namespaces", func(ctx SpecContext) {
		w := newWorld(ctx)
		made := jobsMade("alpine", "kube-system") // by other specs, as other accounts
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig(), targeting(v1alpha1.TargetNamespaces{
			Names: []v1alpha1.TargetNamespace{{Namespace: w.name, Target: "kube-system"}},
		}))
		w.run(ctx, "system", held)
		Eventually(func() string { return w.lineOn(ctx, "system", "a").Message }).Should(ContainSubstring("namespace kube-system of the member is reserved (kube-*)"))
		Expect(jobsMade("alpine", "kube-system")).To(Equal(made))
	})

	It("keeps a run where it is when the mapping changes, and moves the next", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "moves", held)
		Eventually(w.on).WithArguments(ctx, "moves", "a").Should(Equal("Synced Progressing"))
		first := job(ctx, "alpine", w.name, "moves")
		Expect(first).NotTo(BeNil())

		site := w.name + "-site"
		w.merge(ctx, "a", fmt.Sprintf(`{"spec":{"targetNamespaces":{"names":[{"namespace":%q,"target":%q}]}}}`, w.name, site))
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))
		Consistently(func() types.UID {
			if j := job(ctx, "alpine", w.name, "moves"); j != nil {
				return j.UID
			}
			return ""
		}).Should(Equal(first.UID))
		Expect(jobsMade("alpine", site)).To(BeZero())

		By("restarting the hub, which finds it there")
		Expect(minifleet.Kill()).To(Succeed())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Consistently(func() int { return jobsMade("alpine", w.name) + jobsMade("alpine", site) }).Should(Equal(1))

		By("letting it end, and asking for one more")
		w.releasePod(ctx, "moves", "0")
		Eventually(func() string { return string(w.get(ctx, "moves").Status.Runs[0].State) }).Should(Equal("Succeeded"))
		Consistently(func() int { return jobsMade("alpine", site) }).Should(BeZero())
		annotate(ctx, w, "moves", v1alpha1.AnnotationRerunAt, "again")
		Eventually(func() int { return jobsMade("alpine", site) }).Should(Equal(1))
		Expect(job(ctx, "alpine", w.name, "moves")).To(BeNil())
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
		states := func() []string {
			var out []string
			for _, r := range w.get(ctx, "moves").Status.Runs {
				out = append(out, r.Namespace+" "+string(r.State))
			}
			return out
		}
		Eventually(states).Should(Equal([]string{site + " Succeeded", site + " Running"}), "nothing of the first is left where it was")

		By("deleting it: nothing is left in either namespace")
		Expect(hub.Delete(ctx, w.get(ctx, "moves"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "moves").Should(BeFalse())
		Expect(leftOn(ctx, "alpine", w.name)).To(BeEmpty())
		Expect(leftOn(ctx, "alpine", site)).To(BeEmpty())
	})

	It("may be confined to the namespaces that are named", func(ctx SpecContext) {
		w := newWorld(ctx)
		second, site, other := w.name+"-second", w.name+"-site", w.name+"-other"
		w.makeNamespace(ctx, second)
		for _, name := range []string{site, other} {
			Expect(admins["alpine"].Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
		}
		root, err := lab.RepositoryRoot()
		Expect(err).NotTo(HaveOccurred())
		applied("alpine", "config/member/namespaces")
		for _, args := range [][]string{{"-f", root + "/config/member/namespaces/leader.yaml"}, {"-n", site, "-f", root + "/config/member/namespaces/binding.yaml"}} {
			kubectlOn("alpine", append([]string{"apply"}, args...)...)
			DeferCleanup(func() { kubectlOn("alpine", append([]string{"delete"}, args...)...) })
		}
		kubeconfig, err := labs.Cluster("alpine").KubeconfigFor(memberAccount)
		Expect(err).NotTo(HaveOccurred())
		w.register(ctx, "a", kubeconfig, targeting(v1alpha1.TargetNamespaces{
			Names: []v1alpha1.TargetNamespace{{Namespace: w.name, Target: site}}, Only: true,
		}))
		w.run(ctx, "inside", held)
		Eventually(w.on).WithArguments(ctx, "inside", "a").Should(Equal("Synced Progressing"))
		Expect(job(ctx, "alpine", site, "inside")).NotTo(BeNil())
		Expect(refusals("alpine", memberAccount)).To(BeEmpty())

		outside := w.fmc("outside", held)
		outside.Namespace = second
		Expect(hub.Create(ctx, outside)).To(Succeed())
		Eventually(func() string { return says(fmcIn(ctx, second, "outside").Status.Conditions) }).
			Should(ContainSubstring("no namespace of the member is for namespace " + second))
		Expect(hub.Delete(ctx, w.get(ctx, "inside"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "inside").Should(BeFalse())
		Expect(leftOn(ctx, "alpine", site)).To(BeEmpty())
	})
})

var _ = Describe("A Job that somebody makes up on a member", func() {
	It("counts for nobody in a namespace that is not theirs", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "victim", held)
		Eventually(w.on).WithArguments(ctx, "victim", "a").Should(Equal("Synced Progressing"))
		forged := job(ctx, "alpine", w.name, "victim").DeepCopy()
		Expect(hub.Delete(ctx, w.get(ctx, "victim"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "victim").Should(BeFalse())

		other := w.name + "-other"
		Expect(admins["alpine"].Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}})).To(Succeed())
		spec := forged.Spec
		spec.Selector, spec.ManualSelector, spec.Suspend = nil, nil, nil
		for _, key := range []string{"batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-name", "job-name"} {
			delete(spec.Template.Labels, key)
		}
		forged = &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Namespace: other, Name: "victim", Labels: forged.Labels, Annotations: forged.Annotations,
		}, Spec: spec}
		for _, key := range []string{"batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-name", "job-name"} {
			delete(forged.Labels, key)
		}
		Expect(admins["alpine"].Create(ctx, forged)).To(Succeed())
		w.run(ctx, "victim", held)
		Eventually(func() *batchv1.Job { return job(ctx, "alpine", w.name, "victim") }).ShouldNot(BeNil())
		Expect(w.get(ctx, "victim").Status.Runs).To(HaveExactElements(HaveField("Namespace", w.name)))
		Expect(secretOn(ctx, admins["alpine"], other, "victim-curve")).To(BeNil())
	})
})
