package controllers_test

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// told is REASON: MESSAGE of a FleetMiniCluster's line for a member.
func (w *world) told(ctx context.Context, name, member string) string {
	for _, c := range w.get(ctx, name).Status.Clusters {
		if c.Name == w.member(member) {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// onAlpine makes the namespace of the world there, before the hub would.
func (w *world) onAlpine(ctx context.Context, labels map[string]string) {
	GinkgoHelper()
	ns := w.onMember()
	maps.Copy(ns.Labels, labels)
	Expect(admins["alpine"].Create(ctx, ns)).To(Succeed())
}

// quota allows so many pods in the namespace of the world on alpine, and waits until that counts.
func (w *world) quota(ctx context.Context, pods string) *corev1.ResourceQuota {
	GinkgoHelper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "few"}}
	q.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
	Expect(admins["alpine"].Create(ctx, q)).To(Succeed())
	Eventually(func() corev1.ResourceList {
		Expect(admins["alpine"].Get(ctx, client.ObjectKeyFromObject(q), q)).To(Succeed())
		return q.Status.Used
	}).ShouldNot(BeEmpty())
	return q
}

// asked is how many of MiniFleet's lists of a kind on alpine were in the namespace of the world.
func (w *world) asked(kind string) int {
	return len(audit("alpine", func(e *lab.AuditEvent) bool {
		return e.UserAgent == "minifleet" && e.Verb == "list" && e.Object != nil && e.Object.Resource == kind && e.Object.Namespace == w.name
	}))
}

// statusWrites is how often the hub has written the status of a FleetMiniCluster.
func (w *world) statusWrites(name string) int {
	return len(audit("hub", func(e *lab.AuditEvent) bool {
		return e.Write() && e.Object != nil && e.Object.Resource == "fleetminiclusters" && e.Object.Subresource == "status" &&
			e.Object.Namespace == w.name && e.Object.Name == name
	}))
}

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

var _ = Describe("A run whose pods do not become ready", func() {
	const pending = "True Synced Synced Progressing 1/1"

	It("tells the message of a quota while it holds, writes them once, and then tells no more of it", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.onAlpine(ctx, nil)
		quota := w.quota(ctx, "1")
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		f := w.fmc("many", held)
		f.Spec.MiniCluster.Size = 3
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.told).WithArguments(ctx, "many", "a").Should(And(
			HavePrefix("FailedCreate: 1 of 3 pods ready; 2 not created: FailedCreate: pods \"many-"),
			ContainSubstring("is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1")))
		Expect(w.line(ctx, "many")).To(Equal(pending))
		Expect(says(w.get(ctx, "many").Status.Conditions)).To(HavePrefix("running on " + w.member("a") + " (1 of 3 pods ready; 2 not created: FailedCreate: "))
		described := strings.Join(strings.Fields(kubectl("", "-n", w.name, "describe", "fmc", "many")), " ")
		Expect(described).To(ContainSubstring("exceeded quota: few"))

		By("asking again")
		message, writes, asked := w.told(ctx, "many", "a"), w.statusWrites("many"), w.asked("events")
		Eventually(w.asked).WithArguments("events").Should(BeNumerically(">=", asked+2))
		Expect(w.told(ctx, "many", "a")).To(Equal(message))
		Expect(w.statusWrites("many")).To(Equal(writes))

		By("lifting the quota")
		Expect(admins["alpine"].Delete(ctx, quota)).To(Succeed())
		Eventually(func() int32 {
			line := w.get(ctx, "many").Status.Clusters[0]
			if line.Pods.Ready == 3 && line.Message != "" {
				StopTrying("all pods are ready, and it is told that " + line.Message).Now()
			}
			return line.Pods.Ready
		}).WithTimeout(2 * time.Minute).Should(BeEquivalentTo(3))
		Expect(w.told(ctx, "many", "a")).To(Equal(": "))
		Expect(says(w.get(ctx, "many").Status.Conditions)).To(Equal("running on " + w.member("a")))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})

	It("tells what Pod Security refuses", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.onAlpine(ctx, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "loose", held)
		Eventually(w.told).WithArguments(ctx, "loose", "a").Should(And(
			HavePrefix("FailedCreate: 0 of 1 pods ready; 1 not created: FailedCreate: pods \"loose-0-"),
			ContainSubstring(`is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`)))
		Expect(w.line(ctx, "loose")).To(Equal(pending))
	})

	It("tells that a ServiceAccount is missing, and goes on when it comes", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.setAllow(ctx, string(v1alpha1.PermissionServiceAccount))
		f := w.fmc("nobody", held)
		f.Spec.MiniCluster.Pod.ServiceAccountName = "runner"
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.told).WithArguments(ctx, "nobody", "a").Should(And(HavePrefix("FailedCreate: "), ContainSubstring(`serviceaccount "runner" not found`)))
		Expect(admins["alpine"].Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "runner"}})).To(Succeed())
		Eventually(w.told).WithArguments(ctx, "nobody", "a").WithTimeout(2 * time.Minute).Should(Equal(": "))
	})

	It("tells why no node can take its pods, where the hub does not watch nodes", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig(), func(m *v1alpha1.MemberCluster) { m.Spec.Capacity = v1alpha1.CapacityNone })
		f := w.fmc("choosy", held)
		f.Spec.MiniCluster.Size = 2
		f.Spec.MiniCluster.Pod.NodeSelector = map[string]string{"disk": "golden"}
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.told).WithArguments(ctx, "choosy", "a").Should(MatchRegexp(
			`^Unschedulable: 0 of 2 pods ready; choosy-0-\w{5} and 1 more: Unschedulable: 0/1 nodes are available: 1 node\(s\) didn't match Pod's node affinity/selector`))
		Expect(w.line(ctx, "choosy")).To(Equal(pending))
	})

	It("tells which image cannot be pulled, and no more of it when it can", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		f := w.fmc("picture", map[string]string{lab.AskHold: "true", lab.AskWaiting: "ErrImagePull"})
		f.Spec.MiniCluster.Size = 3
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.told).WithArguments(ctx, "picture", "a").Should(MatchRegexp(
			`^ImagePullBackOff: 0 of 3 pods ready; picture-0-\w{5} and 2 more: ImagePullBackOff: container picture: told to by the test$`))

		By("the kubelet waiting before it tries again")
		message, asked := w.told(ctx, "picture", "a"), w.asked("pods")
		_, err := labs.Cluster("alpine").Tell(ctx, w.name, "job-name=picture", map[string]string{lab.AskWaiting: "ImagePullBackOff"})
		Expect(err).NotTo(HaveOccurred())
		writes := w.statusWrites("picture")
		Eventually(w.asked).WithArguments("pods").Should(BeNumerically(">=", asked+2))
		Expect(w.told(ctx, "picture", "a")).To(HavePrefix(strings.TrimSuffix(message, "told to by the test")))
		Expect(w.statusWrites("picture")).To(BeNumerically("<=", writes+1))

		By("pulling it")
		var pods corev1.PodList
		Expect(admins["alpine"].List(ctx, &pods, client.InNamespace(w.name), client.MatchingLabels{"job-name": "picture"})).To(Succeed())
		Expect(pods.Items).To(HaveLen(3))
		for i := range pods.Items {
			pod := pods.Items[i].DeepCopy()
			delete(pod.Annotations, lab.AskWaiting)
			Expect(admins["alpine"].Patch(ctx, pod, client.MergeFrom(&pods.Items[i]))).To(Succeed())
		}
		Eventually(w.told).WithArguments(ctx, "picture", "a").Should(Equal(": "))
		Expect(w.line(ctx, "picture")).To(Equal(pending))
	})

	It("tells that a container cannot start, in the member's sanitized message", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "evil", map[string]string{lab.AskHold: "true", lab.AskWaiting: "ApplyFailed"})
		var pods corev1.PodList
		Eventually(func(g Gomega) {
			g.Expect(admins["alpine"].List(ctx, &pods, client.InNamespace(w.name), client.MatchingLabels{"job-name": "evil"})).To(Succeed())
			g.Expect(pods.Items).To(HaveLen(1))
			g.Expect(pods.Items[0].Status.ContainerStatuses).To(HaveLen(1))
		}).Should(Succeed())
		pod := pods.Items[0].DeepCopy()
		pod.Status.ContainerStatuses[0].State.Waiting.Message = "\x1b[31m\n" + strings.Repeat("long ", 1000)
		Expect(admins["alpine"].Status().Patch(ctx, pod, client.MergeFrom(&pods.Items[0]))).To(Succeed())
		Eventually(w.told).WithArguments(ctx, "evil", "a").Should(HavePrefix("PodsNotReady: 0 of 1 pods ready; evil-0-"))
		message := w.told(ctx, "evil", "a")
		Expect(message).To(ContainSubstring(": container evil: ApplyFailed: \uFFFD[31m long long"))
		Expect(len(message)).To(BeNumerically("<=", 1000+len("PodsNotReady: ")))
		Expect(w.events(ctx, "evil")).NotTo(ContainElement("ApplyFailed"))
	})

	It("is not lost because its member does not answer why", func(ctx SpecContext) {
		w := newWorld(ctx)
		g := newAPIProxy(labs.Cluster("alpine"))
		through := *g.target.Load()
		var mute atomic.Bool
		var asked atomic.Int32
		mute.Store(true)
		g.target.Store(&target{host: through.host, transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			if !mute.Load() || !strings.Contains(req.URL.RawQuery, "controller-uid") {
				return through.transport.RoundTrip(req)
			}
			asked.Add(1)
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
		})})
		w.register(ctx, "a", g.kubeconfig())
		w.run(ctx, "riddle", map[string]string{lab.AskHold: "true", lab.AskWaiting: "CreateContainerError"})
		Eventually(asked.Load).Should(BeEquivalentTo(2))
		Expect(w.line(ctx, "riddle")).To(Equal(pending))
		Expect(w.told(ctx, "riddle", "a")).To(Equal(": "))
		Expect(w.reason(ctx, "a")).To(Equal("True Connected"))
		mute.Store(false)
		Eventually(w.told).WithArguments(ctx, "riddle", "a").Should(HavePrefix("CreateContainerError: 0 of 1 pods ready; riddle-0-"))
	})

	It("costs nothing if they do so within seconds", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		f := w.fmc("fast", map[string]string{lab.AskSeconds: "8"})
		f.Spec.MiniCluster.Size = 2
		Expect(hub.Create(ctx, f)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "fast").Should(Equal("True Succeeded Synced Healthy 1/1"))
		run := w.get(ctx, "fast").Status.Runs[0]
		if took := run.RunningTime.Sub(run.StartTime.Time); took > 4*time.Second {
			Skip("the pods have started after " + took.String() + ": a member is asked why after 5s")
		}
		Expect(w.asked("pods")).To(BeZero())
		Expect(w.asked("events")).To(BeZero())
	})

	DescribeTable("needs no more rights than config/member gives", func(ctx SpecContext, kind string) {
		w := newWorld(ctx)
		w.onAlpine(ctx, nil)
		w.quota(ctx, "0")
		user, namespace := w.name+"-user", ""
		if kind == "namespaced" {
			namespace = w.name
		}
		grant(ctx, "alpine", kind, namespace, user)
		kubeconfig, err := labs.Cluster("alpine").KubeconfigFor(user)
		Expect(err).NotTo(HaveOccurred())
		w.register(ctx, "a", kubeconfig, confinedTo(namespace))
		w.run(ctx, "modest", held)
		Eventually(w.told).WithArguments(ctx, "modest", "a").Should(ContainSubstring("exceeded quota: few"))
		for _, r := range refusals("alpine", user) {
			Expect(r).To(Equal("get /api/v1/namespaces/kube-system"))
		}
	},
		Entry("for a cluster", "cluster"),
		Entry("for a namespace", "namespaced"),
	)

	It("tells what it can where events may not be listed", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.onAlpine(ctx, nil)
		w.quota(ctx, "0")
		user := w.name + "-user"
		for _, obj := range rights("cluster", "", user) {
			if role, ok := obj.(*rbacv1.ClusterRole); ok {
				for i := range role.Rules {
					if role.Rules[i].Resources[0] == "events" {
						role.Rules[i].Resources[0] = "endpoints"
					}
				}
			}
			Expect(admins["alpine"].Create(ctx, obj)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(admins["alpine"].Delete(ctx, obj)) })
		}
		kubeconfig, err := labs.Cluster("alpine").KubeconfigFor(user)
		Expect(err).NotTo(HaveOccurred())
		w.register(ctx, "a", kubeconfig)
		w.run(ctx, "deaf", held)
		Eventually(w.told).WithArguments(ctx, "deaf", "a").Should(Equal(
			"PodsNotReady: 0 of 1 pods ready; 1 not created: why is in the Job's events on the member, which the credentials may not list"))
		Expect(w.line(ctx, "deaf")).To(Equal(pending))
		Expect(refusals("alpine", user)).NotTo(BeEmpty())
	})
})
