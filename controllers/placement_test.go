package controllers_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// both registers alpine as member a and basalt as member b.
func (w *world) both(ctx context.Context) {
	GinkgoHelper()
	w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
	w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
	w.roomKnown(ctx, "a", "b")
}

// roomKnown waits until the hub knows what is free on members: before, others are chosen.
func (w *world) roomKnown(ctx context.Context, members ...string) {
	GinkgoHelper()
	for _, member := range members {
		Eventually(func() bool {
			m := w.memberCluster(ctx, member)
			return m.Status.Capacity != nil || m.Spec.Capacity == v1alpha1.CapacityNone
		}).Should(BeTrue(), member)
	}
}

// retaint gives a member these taints, and no others.
func (w *world) retaint(ctx context.Context, member string, taints ...v1alpha1.Taint) {
	GinkgoHelper()
	Eventually(func() error {
		m := w.memberCluster(ctx, member)
		m.Spec.Taints = taints
		return hub.Update(ctx, m)
	}).Should(Succeed())
}

// rejections are the reasons why members were not chosen.
func (w *world) rejections(ctx context.Context, name string) map[string]string {
	out := map[string]string{}
	if d := w.get(ctx, name).Status.Placement; d != nil {
		for _, r := range d.Rejected {
			out[r.Name] = r.Reason
		}
	}
	return out
}

// readyMessage is that of the condition Ready of a FleetMiniCluster.
func (w *world) readyMessage(ctx context.Context, name string) string {
	if c := meta.FindStatusCondition(w.get(ctx, name).Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Message
	}
	return ""
}

// asking is a MiniCluster of so many pods that ask for so much CPU each, on one member.
func (w *world) asking(name string, pods int32, cpu string, annotations map[string]string) *v1alpha1.FleetMiniCluster {
	f := w.fmc(name, annotations)
	f.Spec.Placement.NumberOfClusters = ptr.To[int32](1)
	f.Spec.MiniCluster.Size = pods
	f.Spec.MiniCluster.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return f
}

// occupy runs a pod of somebody else's on alpine that ends some day, and returns it.
func (w *world) occupy(ctx context.Context, name, cpu string) *corev1.Pod {
	GinkgoHelper()
	return w.otherPod(ctx, name, cpu, corev1.RestartPolicyNever)
}

func (w *world) otherPod(ctx context.Context, name, cpu string, restart corev1.RestartPolicy) *corev1.Pod {
	GinkgoHelper()
	cluster, namespace := "alpine", w.name+"-other"
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	Expect(client.IgnoreAlreadyExists(admins[cluster].Create(ctx, ns))).To(Succeed())
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: held},
		Spec: corev1.PodSpec{RestartPolicy: restart, Containers: []corev1.Container{{Name: "a", Image: "example.org/other", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		}}}},
	}
	Expect(admins[cluster].Create(ctx, p)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { vacate(ctx, p) })
	Eventually(func() string {
		_ = admins[cluster].Get(ctx, client.ObjectKeyFromObject(p), p)
		return p.Spec.NodeName
	}).ShouldNot(BeEmpty())
	return p
}

// vacate deletes a pod on alpine, and waits until it no longer exists.
func vacate(ctx context.Context, p *corev1.Pod) {
	GinkgoHelper()
	const cluster = "alpine"
	Expect(client.IgnoreNotFound(admins[cluster].Delete(ctx, p, client.GracePeriodSeconds(0)))).To(Succeed())
	Eventually(func() bool {
		return apierrors.IsNotFound(admins[cluster].Get(ctx, client.ObjectKeyFromObject(p), &corev1.Pod{}))
	}).Should(BeTrue())
}

// freeCPU waits until member a says that so much CPU is free of all that it has.
func (w *world) freeCPU(ctx context.Context, want string) {
	GinkgoHelper()
	Eventually(func() string {
		if c := w.memberCluster(ctx, "a").Status.Capacity; c != nil {
			return c.CPU
		}
		return ""
	}).Should(Equal(want))
}

// roomyWorld is a world with alpine as member a, on which nothing runs.
func roomyWorld(ctx context.Context) *world {
	GinkgoHelper()
	w := newWorld(ctx)
	w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
	w.freeCPU(ctx, "64/64")
	return w
}

var _ = Describe("A MiniCluster that has no room", func() {
	const waits = "False InsufficientCapacity OutOfSync Missing 0/1"
	var w *world
	BeforeEach(func(ctx SpecContext) { w = roomyWorld(ctx) })

	It("waits, says what is missing, and starts when room appears", func(ctx SpecContext) {
		other := w.occupy(ctx, "other", "20")
		w.freeCPU(ctx, "44/64")
		Expect(hub.Create(ctx, w.asking("big", 4, "15", brief))).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "big").Should(Equal(waits))
		Expect(w.readyMessage(ctx, "big")).To(ContainSubstring(w.member("a") + ": 2 of 4 pods fit; 1 CPU short on alpine"))
		Expect(w.get(ctx, "big").Status.Placement.Waiting).To(HaveLen(1))
		Expect(w.get(ctx, "big").Status.Runs).To(BeEmpty())
		Consistently(func() int { return jobsMade("alpine", w.name) }).Should(BeZero())

		vacate(ctx, other)
		Eventually(w.line).WithArguments(ctx, "big").WithTimeout(10 * time.Second).Should(Equal("True Succeeded Synced Healthy 1/1"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
		Expect(w.get(ctx, "big").Status.Placement.Waiting).To(BeEmpty())
	})

	It("never gets the room of another that started at the same time", func(ctx SpecContext) {
		for i := range 6 {
			Expect(hub.Create(ctx, w.asking(fmt.Sprintf("rival-%d", i), 2, "16", held))).To(Succeed())
		}
		states := func() map[string]int {
			out := map[string]int{}
			for i := range 6 {
				out[w.line(ctx, fmt.Sprintf("rival-%d", i))]++
			}
			return out
		}
		Eventually(states).Should(Equal(map[string]int{"True Synced Synced Progressing 1/1": 2, waits: 4}))
		Consistently(func() int { return jobsMade("alpine", w.name) }).Should(Equal(2))
	})

	It("goes before those of a lower priority, which take no room from it", func(ctx SpecContext) {
		first := w.occupy(ctx, "first", "30")
		second := w.occupy(ctx, "second", "30")
		w.freeCPU(ctx, "4/64")
		Expect(hub.Create(ctx, w.asking("low", 2, "10", held))).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "low").Should(Equal(waits))
		high := w.asking("high", 4, "15", held)
		high.Spec.Priority = 7
		Expect(hub.Create(ctx, high)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "high").Should(Equal(waits))

		vacate(ctx, first) // room for the low one, and not for the high one
		Eventually(w.readyMessage).WithArguments(ctx, "low").Should(And(ContainSubstring("kept for "+w.name+"/high"), ContainSubstring("priority 7")))
		Consistently(w.line).WithArguments(ctx, "low").Should(Equal(waits))
		vacate(ctx, second)
		Eventually(w.line).WithArguments(ctx, "high").Should(Equal("True Synced Synced Progressing 1/1"))
		Eventually(w.readyMessage).WithArguments(ctx, "low").WithTimeout(90 * time.Second).Should(ContainSubstring("0 of 2 pods fit; 6 CPU short on alpine"))
		Expect(hub.Delete(ctx, w.get(ctx, "high"))).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "low").Should(Equal("True Synced Synced Progressing 1/1"))
	})

	It("holds up nobody if it would have none although everything ended", func(ctx SpecContext) {
		w.otherPod(ctx, "service", "1", corev1.RestartPolicyAlways) // such as a Deployment's, which stays
		w.freeCPU(ctx, "63/64")
		huge := w.asking("huge", 1, "64", brief)
		huge.Spec.Priority = 9
		Expect(hub.Create(ctx, huge)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "huge").Should(Equal(waits))
		Expect(w.readyMessage(ctx, "huge")).To(ContainSubstring("they would not fit either if every run there had ended"))
		Expect(hub.Create(ctx, w.asking("small", 1, "1", brief))).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "small").Should(Equal("True Succeeded Synced Healthy 1/1"))
	})

	It("has that of its own run before, when that has ended", func(ctx SpecContext) {
		f := w.asking("next", 4, "16", held)
		Expect(hub.Create(ctx, f)).To(Succeed())
		w.podsRun(ctx, "next", "4/4")
		Eventually(func() error {
			f := w.get(ctx, "next")
			f.Spec.MiniCluster.Containers[0].Command = "false"
			f.Spec.MiniCluster.Pod.Annotations = brief
			return hub.Update(ctx, f)
		}).Should(Succeed())
		Eventually(w.line).WithArguments(ctx, "next").Should(HavePrefix("False WaitingForCompletion"))
		Expect(labs.Cluster("alpine").Release(ctx, w.name, "", 0)).To(Equal(4))
		Eventually(w.line).WithArguments(ctx, "next").Should(Equal("True Succeeded Synced Healthy 1/1"))
		Expect(jobsMade("alpine", w.name)).To(Equal(2))
	})

	It("finds its room taken after a restart of MiniFleet, too", func(ctx SpecContext) {
		first := w.asking("first", 3, "20", held)
		first.Spec.MiniCluster.Pod.SchedulerName = "nobody" // so that only the hub knows what its pods will take
		Expect(hub.Create(ctx, first)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "first").Should(Equal("True Synced Synced Progressing 1/1"))
		Expect(minifleet.Kill()).To(Succeed())
		Expect(hub.Create(ctx, w.asking("second", 2, "20", brief))).To(Succeed())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(w.line).WithArguments(ctx, "second").Should(Equal(waits))
		Expect(w.readyMessage(ctx, "second")).To(ContainSubstring("0 of 2 pods fit; 16 CPU short on alpine"))
		Expect(hub.Delete(ctx, w.get(ctx, "first"))).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "second").Should(Equal("True Succeeded Synced Healthy 1/1"))
	})

	It("is placed where there is room, or where nodes are not observed", func(ctx SpecContext) {
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
		w.occupy(ctx, "other", "60")
		w.freeCPU(ctx, "4/64")
		for i := range 2 {
			Expect(hub.Create(ctx, w.asking(fmt.Sprintf("elsewhere-%d", i), 4, "8", held))).To(Succeed())
		}
		for i := range 2 {
			Eventually(w.line).WithArguments(ctx, fmt.Sprintf("elsewhere-%d", i)).Should(Equal("True Synced Synced Progressing 1/1"))
		}
		Expect(jobsMade("basalt", w.name)).To(Equal(2))
		Expect(hub.Create(ctx, w.asking("third", 1, "5", held))).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "third").Should(Equal(waits))
		// The nearest miss first: both take none of its pods, so by name.
		Expect(w.readyMessage(ctx, "third")).To(ContainSubstring(w.member("b") + ": 0 of 1 pods fit; 5 CPU short on basalt"))
		Eventually(func() error {
			m := w.memberCluster(ctx, "b")
			m.Spec.Capacity = v1alpha1.CapacityNone
			return hub.Update(ctx, m)
		}).Should(Succeed())
		Eventually(w.line).WithArguments(ctx, "third").Should(Equal("True Synced Synced Progressing 1/1"))
		Expect(job(ctx, "basalt", w.name, "third")).NotTo(BeNil())
	})

	It("begins on each of all members as each has room", func(ctx SpecContext) {
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
		other := w.occupy(ctx, "other", "60")
		w.freeCPU(ctx, "4/64")
		all := w.asking("all", 1, "8", brief)
		all.Spec.Placement.NumberOfClusters = nil
		Expect(hub.Create(ctx, all)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "all").Should(Equal("False InsufficientCapacity Synced Healthy 1/2"))
		vacate(ctx, other)
		Eventually(w.line).WithArguments(ctx, "all").Should(Equal("True Succeeded Synced Healthy 2/2"))
		Expect(jobsMade("alpine", w.name) + jobsMade("basalt", w.name)).To(Equal(2))
	})
})

var _ = Describe("Placement", func() {
	It("keeps new runs away from taints, and runs that exist where they are", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.both(ctx)
		w.run(ctx, "before", held)
		Eventually(w.line).WithArguments(ctx, "before").Should(Equal("True Synced Synced Progressing 2/2"))
		w.retaint(ctx, "a", v1alpha1.Taint{Key: "maintenance", Value: "spring", Effect: v1alpha1.NoSelect})

		w.run(ctx, "after", brief)
		Eventually(w.line).WithArguments(ctx, "after").Should(Equal("True Succeeded Synced Healthy 1/1"))
		Expect(w.rejections(ctx, "after")).To(HaveKeyWithValue(w.member("a"), "its taint maintenance=spring:NoSelect is not tolerated"))
		Expect(w.line(ctx, "before")).To(Equal("True Synced Synced Progressing 2/2"))
		Expect(jobsDeleted("alpine", w.name)).To(BeZero())

		tolerant := w.fmc("tolerant", brief)
		tolerant.Spec.Placement.Tolerations = []v1alpha1.Toleration{{Key: "maintenance", Operator: v1alpha1.TolerateExists}}
		Expect(hub.Create(ctx, tolerant)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "tolerant").Should(Equal("True Succeeded Synced Healthy 2/2"))

		w.retaint(ctx, "a")
		Eventually(w.line).WithArguments(ctx, "after").Should(Equal("True Succeeded Synced Healthy 2/2"))
		Expect(w.reason(ctx, "a")).To(Equal("True Connected"))
	})

	It("chooses by score, says so, and does not move what runs when scores change", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.both(ctx)
		relabel := func(member, cost string) {
			Eventually(func() error {
				m := w.memberCluster(ctx, member)
				m.Labels["cost"] = cost
				return hub.Update(ctx, m)
			}).Should(Succeed())
		}
		relabel("a", "3")
		relabel("b", "1")
		f := w.fmc("thrifty", held)
		f.Spec.Placement.NumberOfClusters = ptr.To[int32](1)
		f.Spec.Placement.PrioritizerPolicy.Configurations = []v1alpha1.PrioritizerConfig{{
			ScoreCoordinate: v1alpha1.ScoreCoordinate{Type: v1alpha1.ScoreLabel, Label: "cost"}, Weight: ptr.To[int32](2),
		}}
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "thrifty").Should(Equal("True Synced Synced Progressing 1/1"))
		d := w.get(ctx, "thrifty").Status.Placement
		Expect(d.Clusters).To(Equal([]string{w.member("b")}))
		Expect(d.Decisions).To(Equal([]v1alpha1.ClusterDecision{{Name: w.member("b"), Score: 66, Reason: "label cost 2×33 (1), Steady 0"}}))
		relabel("a", "0")
		relabel("b", "9")
		w.run(ctx, "witness", brief)
		Eventually(w.line).WithArguments(ctx, "witness").Should(Equal("True Succeeded Synced Healthy 2/2"))
		Expect(w.get(ctx, "thrifty").Status.Placement).To(Equal(d))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})
})

// patched is an override of the image on one member of the world.
func patched(name, member, path, value string) v1alpha1.ClusterOverride {
	return v1alpha1.ClusterOverride{
		Name: name, ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"member": member}},
		Patches: []v1alpha1.JSONPatch{{Op: v1alpha1.PatchAdd, Path: path, Value: &apiextensionsv1.JSON{Raw: []byte(value)}}},
	}
}

// override gives a FleetMiniCluster these overrides, and no others.
func (w *world) override(ctx context.Context, name string, overrides ...v1alpha1.ClusterOverride) {
	GinkgoHelper()
	Eventually(func() error {
		f := w.get(ctx, name)
		f.Spec.Placement.Overrides = overrides
		return hub.Update(ctx, f)
	}).Should(Succeed())
	Eventually(func() bool { f := w.get(ctx, name); return f.Status.ObservedGeneration == f.Generation }).Should(BeTrue())
}

var _ = Describe("Overrides", func() {
	var w *world
	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.both(ctx)
	})
	image := func(ctx context.Context, cluster, name string) string {
		if j := job(ctx, cluster, w.name, name); j != nil {
			return j.Spec.Template.Spec.Containers[0].Image
		}
		return ""
	}

	It("change the MiniCluster on the members that they select, and run nothing again when edited", func(ctx SpecContext) {
		f := w.fmc("local", held)
		f.Spec.Placement.Overrides = []v1alpha1.ClusterOverride{patched("registry", "b", "/containers/0/image", `"registry.south/app"`)}
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "local").Should(Equal("True Synced Synced Progressing 2/2"))
		Expect(image(ctx, "alpine", "local")).To(Equal("example.org/app"))
		Expect(image(ctx, "basalt", "local")).To(Equal("registry.south/app"))
		decisions := w.get(ctx, "local").Status.Placement.Decisions
		for _, d := range decisions {
			if d.Name == w.member("b") {
				Expect(d.Overrides).To(Equal([]string{"registry"}))
				continue
			}
			Expect(d.Overrides).To(BeEmpty())
		}

		w.override(ctx, "local", patched("registry", "b", "/containers/0/image", `"registry.south/other"`), patched("tasks", "a", "/tasks", "4"))
		Consistently(w.line).WithArguments(ctx, "local").Should(Equal("True Synced Synced Progressing 2/2"))
		Expect(w.get(ctx, "local").Status.Placement.Decisions).To(Equal(decisions))
		Expect(image(ctx, "basalt", "local")).To(Equal("registry.south/app"))
		Expect(jobsMade("alpine", w.name) + jobsMade("basalt", w.name)).To(Equal(2))

		Expect(labs.Cluster("alpine").Release(ctx, w.name, "", 0)).To(Equal(1))
		Expect(labs.Cluster("basalt").Release(ctx, w.name, "", 0)).To(Equal(1))
		Eventually(w.line).WithArguments(ctx, "local").Should(Equal("True Succeeded Synced Healthy 2/2"))
		w.override(ctx, "local")
		Consistently(w.line).WithArguments(ctx, "local").Should(Equal("True Succeeded Synced Healthy 2/2"))
		Expect(jobsMade("alpine", w.name) + jobsMade("basalt", w.name)).To(Equal(2))
	})

	It("that make no MiniCluster are named, where they apply, and hold up nothing else", func(ctx SpecContext) {
		f := w.fmc("wrong", brief)
		f.Spec.Placement.Overrides = []v1alpha1.ClusterOverride{patched("bigger", "b", "/size", "9")}
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.on).WithArguments(ctx, "wrong", "a").Should(Equal("Synced Healthy"))
		Eventually(w.on).WithArguments(ctx, "wrong", "b").Should(Equal("OutOfSync Degraded"))
		Expect(w.line(ctx, "wrong")).To(Equal("False InvalidOverride OutOfSync Degraded 1/2"))
		Expect(w.readyMessage(ctx, "wrong")).To(Equal(w.member("b") + ": override bigger: it changes size, which is the same on all members: remove that patch"))
		Expect(jobsMade("basalt", w.name)).To(BeZero())
		w.override(ctx, "wrong", patched("bigger", "b", "/tasks", "9"))
		Eventually(w.line).WithArguments(ctx, "wrong").Should(Equal("True Succeeded Synced Healthy 2/2"))
		w.override(ctx, "wrong", patched("bigger", "b", "/size", "9"))
		Consistently(w.line).WithArguments(ctx, "wrong").Should(Equal("True Succeeded Synced Healthy 2/2"))
		Expect(jobsMade("alpine", w.name) + jobsMade("basalt", w.name)).To(Equal(2))
	})

	It("give no MiniCluster permissions that its namespace does not allow, whatever its source allows", func(ctx SpecContext) {
		put(ctx, admins["basalt"], w.lenient())
		f := w.fmc("sly", brief)
		f.Spec.Placement.Overrides = []v1alpha1.ClusterOverride{patched("host", "b", "/containers/0/volumes", `{"host": {"hostPath": "/etc", "path": "/data"}}`)}
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.on).WithArguments(ctx, "sly", "a").Should(Equal("Synced Healthy"))
		Eventually(w.line).WithArguments(ctx, "sly").Should(Equal("False PolicyDenied OutOfSync Degraded 1/2"))
		Expect(w.readyMessage(ctx, "sly")).To(And(ContainSubstring("HostPath"), ContainSubstring("volumes[host].hostPath")))
		Consistently(func() int { return jobsMade("basalt", w.name) }).Should(BeZero())
		var namespace corev1.Namespace
		Expect(hub.Get(ctx, client.ObjectKey{Name: w.name}, &namespace)).To(Succeed())
		namespace.Annotations = map[string]string{v1alpha1.AnnotationAllow: "HostPath"}
		Expect(hub.Update(ctx, &namespace)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "sly").Should(Equal("True Succeeded Synced Healthy 2/2"))
	})

	It("may name Secrets of their own, which only the members that they select need", func(ctx SpecContext) {
		f := w.fmc("keyed", brief)
		f.Spec.Placement.Overrides = []v1alpha1.ClusterOverride{patched("licence", "b", "/containers/0/secrets", `{"LICENCE": {"name": "licence", "key": "key"}}`)}
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.on).WithArguments(ctx, "keyed", "a").Should(Equal("Synced Healthy"))
		Eventually(w.line).WithArguments(ctx, "keyed").Should(HavePrefix("False ReferenceMissing"))
		Expect(hub.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "licence", Labels: map[string]string{v1alpha1.LabelPropagate: "true"}},
			StringData: map[string]string{"key": "value"},
		})).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "keyed").Should(Equal("True Succeeded Synced Healthy 2/2"))
		var copied corev1.Secret
		Expect(admins["basalt"].Get(ctx, client.ObjectKey{Namespace: w.name, Name: "licence"}, &copied)).To(Succeed())
		Expect(apierrors.IsNotFound(admins["alpine"].Get(ctx, client.ObjectKey{Namespace: w.name, Name: "licence"}, &copied))).To(BeTrue())
	})

	It("count when it is seen whether there is room", func(ctx SpecContext) {
		f := w.asking("lean", 4, "20", brief)
		f.Spec.Placement.Overrides = []v1alpha1.ClusterOverride{patched("lean", "b", "/containers/0/resources/requests/cpu", `"16"`)}
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "lean").Should(Equal("True Succeeded Synced Healthy 1/1"))
		Expect(w.get(ctx, "lean").Status.Placement.Clusters).To(Equal([]string{w.member("b")}))
	})
})
