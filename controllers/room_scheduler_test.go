package controllers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/hack/lab"
	"github.com/minifleet/minifleet/internal/fit"
)

const (
	// scheduleRounds names the variable that says how many rounds of scenes are played; default 1. scheduleSeed
	// names the one for the first round's seed.
	scheduleRounds, scheduleSeed = "MINIFLEET_TEST_SCHEDULER_ROUNDS", "MINIFLEET_TEST_SEED"
	// scenesPerRound is how many scenes are played at the same time, each on nodes of its own.
	scenesPerRound = 6
	gangSize       = 9
	// sceneLabel is of a scene's nodes, a label and a taint.
	sceneLabel = "test.minifleet.dev/scene"
	nic        = corev1.ResourceName("example.org/nic")
)

// scene is nodes with other people's pods on them, and a pod of which a gang is to be placed there.
type scene struct {
	name     string
	nodes    []*corev1.Node
	others   []*corev1.Pod
	lingers  []int // of others: those that are being deleted
	finished []int // of others: those that have ended
	gang     corev1.PodSpec
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// randomRequests are some of a container.
func randomRequests(r *rand.Rand) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, some := range []struct {
		name    corev1.ResourceName
		amounts []string
	}{
		{corev1.ResourceCPU, []string{"", "0", "100m", "1500m", "2", "3"}}, {corev1.ResourceMemory, []string{"", "0", "1Gi", "1500M", "3Gi"}},
		{corev1.ResourceEphemeralStorage, []string{"", "", "", "1Gi"}}, {"nvidia.com/gpu", []string{"", "", "", "1", "2"}}, {nic, []string{"", "", "", "1"}},
	} {
		if amount := pick(r, some.amounts...); amount != "" {
			out[some.name] = resource.MustParse(amount)
		}
	}
	return out
}

func randomContainer(r *rand.Rand, name string) corev1.Container {
	c := corev1.Container{Name: name, Image: "example.org/app"}
	c.Resources.Requests = randomRequests(r)
	for _, extended := range []corev1.ResourceName{"nvidia.com/gpu", nic} { // which are never overcommitted
		if q, ok := c.Resources.Requests[extended]; ok {
			if c.Resources.Limits == nil {
				c.Resources.Limits = corev1.ResourceList{}
			}
			c.Resources.Limits[extended] = q
		}
	}
	if _, ok := c.Resources.Requests[corev1.ResourceCPU]; !ok && r.IntN(2) == 0 { // a limit counts as a request then
		if c.Resources.Limits == nil {
			c.Resources.Limits = corev1.ResourceList{}
		}
		c.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("1")
	}
	return c
}

// randomPod is a pod of one to two containers, it may be with init containers and sidecars.
func randomPod(r *rand.Rand) corev1.PodSpec {
	spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}
	for i := range 1 + r.IntN(2) {
		spec.Containers = append(spec.Containers, randomContainer(r, fmt.Sprintf("c%d", i)))
	}
	for i := range r.IntN(3) {
		c := randomContainer(r, fmt.Sprintf("i%d", i))
		if r.IntN(2) == 0 {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		spec.InitContainers = append(spec.InitContainers, c)
	}
	if r.IntN(4) == 0 { // for the whole pod
		spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("13")}}
	}
	return spec
}

// rare says whether a pod asks for what few nodes have.
func rare(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(slices.Concat(spec.Containers, spec.InitContainers), func(c corev1.Container) bool {
		_, gpu := c.Resources.Requests["nvidia.com/gpu"]
		_, card := c.Resources.Requests[nic]
		return gpu || card
	})
}

func randomNode(r *rand.Rand, scene, name string) *corev1.Node {
	allocatable := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(pick(r, "4", "15500m", "32", "64")), corev1.ResourceMemory: resource.MustParse(pick(r, "7Gi", "31Gi", "64Gi")),
		corev1.ResourceEphemeralStorage: resource.MustParse(pick(r, "2Gi", "100Gi")), corev1.ResourcePods: resource.MustParse(pick(r, "4", "8", "110")),
	}
	if r.IntN(2) == 0 {
		allocatable["nvidia.com/gpu"] = resource.MustParse(pick(r, "0", "2", "8"))
	}
	if r.IntN(2) == 0 {
		allocatable[nic] = resource.MustParse("4")
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{sceneLabel: scene, corev1.LabelHostname: name, "disk": pick(r, "ssd", "hdd")}},
		Spec:       corev1.NodeSpec{Unschedulable: r.IntN(8) == 0},
		Status:     corev1.NodeStatus{Allocatable: allocatable, Capacity: allocatable},
	}
	n.Spec.Taints = []corev1.Taint{{Key: sceneLabel, Value: scene, Effect: corev1.TaintEffectNoSchedule}}
	if r.IntN(3) == 0 {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: pick(r, "x", "y"), Value: pick(r, "", "1"), Effect: pick(r, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)})
	}
	return n
}

func randomScene(r *rand.Rand, name string) *scene {
	s := &scene{name: name, gang: randomPod(r)}
	for r.IntN(4) > 0 && rare(&s.gang) {
		s.gang = randomPod(r)
	}
	for i := range 1 + r.IntN(4) {
		n := randomNode(r, name, fmt.Sprintf("%s-n%d", name, i))
		s.nodes = append(s.nodes, n)
		for range r.IntN(4) {
			spec := randomPod(r)
			spec.NodeName = n.Name
			spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			spec.RestartPolicy = pick(r, corev1.RestartPolicyNever, corev1.RestartPolicyAlways)
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-o%d", name, len(s.others)), Annotations: held}, Spec: spec}
			switch r.IntN(6) {
			case 0:
				p.Annotations = map[string]string{lab.AskHold: "true", lab.AskLingerSeconds: "3600"}
				s.lingers = append(s.lingers, len(s.others))
			case 1:
				p.Annotations, p.Spec.RestartPolicy = brief, corev1.RestartPolicyNever
				s.finished = append(s.finished, len(s.others))
			}
			s.others = append(s.others, p)
		}
	}
	// The gang goes to these nodes only, and, of all pods that the scheduler finds a node for, only the gang.
	s.gang.NodeSelector = map[string]string{sceneLabel: name}
	s.gang.Tolerations = []corev1.Toleration{{Key: sceneLabel, Value: name, Effect: corev1.TaintEffectNoSchedule}}
	if r.IntN(3) == 0 {
		s.gang.NodeSelector["disk"] = "ssd"
	}
	if r.IntN(3) == 0 {
		s.gang.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "disk", Operator: pick(r, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{"hdd"}},
			}}},
		}}}
	}
	for _, key := range []string{"x", "y", corev1.TaintNodeUnschedulable} {
		if r.IntN(3) == 0 {
			s.gang.Tolerations = append(s.gang.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: pick(r, "", corev1.TaintEffectNoSchedule)})
		}
	}
	return s
}

// build makes the nodes, and the pods on them.
func (s *scene) build(ctx context.Context, c client.Client, namespace string) {
	GinkgoHelper()
	for _, n := range s.nodes {
		Expect(c.Create(ctx, n.DeepCopy())).To(Succeed())
	}
	for i, p := range s.others {
		p.Namespace = namespace
		Expect(c.Create(ctx, p)).To(Succeed())
		if slices.Contains(s.lingers, i) {
			Expect(c.Delete(ctx, p)).To(Succeed())
		}
	}
}

// place makes the gang.
func (s *scene) place(ctx context.Context, c client.Client, namespace string) {
	GinkgoHelper()
	for i := range gangSize {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-g%d", s.name, i), Labels: map[string]string{"gang": s.name}, Annotations: held,
		}, Spec: *s.gang.DeepCopy()}
		Expect(c.Create(ctx, p)).To(Succeed())
	}
}

// placed is how many pods of the gang the scheduler has found a node for; -1 as long as it has not tried all.
func (s *scene) placed(ctx context.Context, c client.Client, namespace string) int {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{"gang": s.name}); err != nil {
		return -1
	}
	n := 0
	for i := range list.Items {
		p := &list.Items[i]
		refused := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
		})
		switch {
		case p.Spec.NodeName != "":
			n++
		case !refused:
			return -1
		}
	}
	return n
}

// unaware is nobody who wants to watch members.
type unaware struct{}

func (unaware) Engage(context.Context, multicluster.ClusterName, cluster.Cluster) error { return nil }

// roomOf observes a cluster as the hub does.
func roomOf(ctx context.Context, kubeconfig []byte) *clusters.Member {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := clusters.NewProvider(logr.Discard(), time.Now, func(string, bool) {})
	done := make(chan error, 1)
	go func() { done <- p.Start(ctx, unaware{}) }()
	DeferCleanup(func() error { cancel(); return <-done })
	p.Ensure("seen", clusters.Target{Spec: v1alpha1.MemberClusterSpec{Capacity: v1alpha1.CapacityObserve}, Kubeconfig: kubeconfig})
	var m *clusters.Member
	Eventually(func() (err error) { m, err = p.Member("seen"); return err }).Should(Succeed())
	return m
}

// unseen says what of a scene is not in the room of a member yet: its nodes, ready, and every pod that takes some.
func (s *scene) unseen(m *clusters.Member) string {
	nodes, pods := 0, int64(0)
	for _, n := range m.Room().Nodes {
		if n.Labels[sceneLabel] != s.name {
			continue
		}
		notReady := slices.ContainsFunc(n.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
		cordoned := slices.ContainsFunc(n.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable })
		if notReady || cordoned != n.Unschedulable {
			return fmt.Sprintf("node %s has the taints %v", n.Name, n.Taints)
		}
		nodes++
		i := slices.IndexFunc(s.nodes, func(w *corev1.Node) bool { return w.Name == n.Name })
		pods += s.nodes[i].Status.Allocatable.Pods().Value() - n.Free[corev1.ResourcePods]
	}
	if want := len(s.others) - len(s.finished); nodes != len(s.nodes) || pods != int64(want) {
		return fmt.Sprintf("%d of %d nodes, %d of %d pods", nodes, len(s.nodes), pods, want)
	}
	return ""
}

func (s *scene) check(m *clusters.Member) fit.Result {
	return fit.Check(m.Room().Nodes, fit.Gang{Pod: fit.PodOf(&s.gang), Size: gangSize})
}

func setting(name string, otherwise uint64) uint64 {
	GinkgoHelper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	Expect(err).NotTo(HaveOccurred(), name)
	return n
}

var _ = Describe("What the hub says of room", func() {
	It("is what a scheduler then finds", func(ctx SpecContext) {
		w := newWorld(ctx)
		c := admins["basalt"]
		Expect(c.Create(ctx, w.onMember())).To(Succeed())
		m := roomOf(ctx, labs.Cluster("basalt").Kubeconfig())
		seed := setting(scheduleSeed, 1)
		for round := range setting(scheduleRounds, 1) {
			playScenes(ctx, c, m, w.name, seed+round)
		}
	})
})

// playScenes compares the hub and the scheduler in some scenes that follow from a seed.
func playScenes(ctx context.Context, c client.Client, m *clusters.Member, namespace string, seed uint64) {
	GinkgoHelper()
	r := rand.New(rand.NewPCG(seed, 0))
	var scenes []*scene
	for i := range scenesPerRound {
		scenes = append(scenes, randomScene(r, fmt.Sprintf("s%d-%d", seed, i)))
	}
	defer func() {
		for _, s := range scenes {
			s.remove(ctx, c, namespace)
		}
	}()
	for _, s := range scenes {
		s.build(ctx, c, namespace)
	}
	said := map[string]fit.Result{}
	for _, s := range scenes {
		Eventually(s.unseen).WithArguments(m).Should(BeEmpty(), "seed %d: %s", seed, s.name)
		said[s.name] = s.check(m)
	}
	for _, s := range scenes {
		s.place(ctx, c, namespace)
	}
	for _, s := range scenes {
		var n int
		Eventually(func() int { n = s.placed(ctx, c, namespace); return n }).Should(BeNumerically(">=", 0), "seed %d: %s is not scheduled", seed, s.name)
		Expect(n).To(Equal(said[s.name].Pods), "seed %d: %s: the scheduler differs from the hub, which says %q of %+v", seed, s.name, said[s.name].Miss, s.gang)
		GinkgoWriter.Printf("seed %d %s: %d of %d pods; %s\n", seed, s.name, n, gangSize, said[s.name].Miss)
	}
}

// remove takes a scene away again.
func (s *scene) remove(ctx context.Context, c client.Client, namespace string) {
	GinkgoHelper()
	Expect(c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0))).To(Succeed())
	for _, n := range s.nodes {
		Expect(client.IgnoreNotFound(c.Delete(ctx, n))).To(Succeed())
	}
}
