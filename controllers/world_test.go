package controllers_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// world is what one test has for itself: a namespace, which has the same name on the hub and on the members, and the
// members that it registers. More namespaces begin with that name and a hyphen.
type world struct{ name string }

var worlds int

func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	worlds++
	w := &world{name: fmt.Sprintf("world-%d", worlds)}
	w.makeNamespace(ctx, w.name)
	DeferCleanup(func(ctx SpecContext) {
		ensureMinifleet()
		w.removeFromHub(ctx)
		for _, cluster := range []string{"alpine", "basalt"} {
			w.removeFrom(ctx, admins[cluster])
		}
	})
	return w
}

func (w *world) makeNamespace(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
}

// onMember is the namespace of this world on a member, as its administrator makes it for that of the hub.
func (w *world) onMember() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name, Labels: map[string]string{v1alpha1.LabelHubNamespace: w.name}}}
}

// lenient is that namespace with pods of any Pod Security level.
func (w *world) lenient() *corev1.Namespace {
	ns := w.onMember()
	ns.Labels[v1alpha1.LabelPodSecurity] = "privileged"
	return ns
}

// owns says whether a namespace is one of this world.
func (w *world) owns(namespace string) bool {
	return namespace == w.name || strings.HasPrefix(namespace, w.name+"-")
}

// removeFromHub removes the members, the sources and the FleetMiniClusters of this world, and waits until MiniFleet has done with
// them: after that it writes nothing to a member that the next test would count.
func (w *world) removeFromHub(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var members v1alpha1.MemberClusterList
		g.Expect(hub.List(ctx, &members, client.MatchingLabels{"world": w.name})).To(Succeed())
		for i := range members.Items {
			m := &members.Items[i]
			if m.Spec.DeletionPolicy != v1alpha1.DeletionOrphan {
				m.Spec.DeletionPolicy = v1alpha1.DeletionOrphan // its proxy is closed by now: it cannot be cleaned up
				g.Expect(hub.Update(ctx, m)).To(Succeed())
			}
			if m.DeletionTimestamp == nil {
				g.Expect(client.IgnoreNotFound(hub.Delete(ctx, m))).To(Succeed())
			}
		}
		sources := w.deleteSources(ctx, g)
		left := w.deleteFleetMiniClusters(ctx, g)
		g.Expect(sources).To(BeEmpty())
		g.Expect(members.Items).To(BeEmpty())
		g.Expect(left).To(BeEmpty())
	}).Should(Succeed(), "what is left on the hub of %s", w.name)
}

// deleteSources returns those that are still there: one that stays would be asked for, and counted, until the suite ends.
func (w *world) deleteSources(ctx context.Context, g Gomega) []string {
	var all v1alpha1.GitSourceList
	g.Expect(hub.List(ctx, &all)).To(Succeed())
	var left []string
	for i := range all.Items {
		s := &all.Items[i]
		if !w.owns(s.Namespace) {
			continue
		}
		left = append(left, s.Namespace+"/"+s.Name)
		if s.Spec.DeletionPolicy != v1alpha1.SourceOrphan {
			s.Spec.DeletionPolicy = v1alpha1.SourceOrphan // its account may not be allowed to delete anything any more
			g.Expect(client.IgnoreNotFound(hub.Update(ctx, s))).To(Succeed())
		}
		if s.DeletionTimestamp == nil {
			g.Expect(client.IgnoreNotFound(hub.Delete(ctx, s))).To(Succeed())
		}
	}
	return left
}

// deleteFleetMiniClusters returns those that are still there.
func (w *world) deleteFleetMiniClusters(ctx context.Context, g Gomega) []string {
	var all v1alpha1.FleetMiniClusterList
	g.Expect(hub.List(ctx, &all)).To(Succeed())
	var left []string
	for i := range all.Items {
		f := &all.Items[i]
		if !w.owns(f.Namespace) {
			continue
		}
		left = append(left, f.Namespace+"/"+f.Name)
		if f.DeletionTimestamp == nil {
			g.Expect(client.IgnoreNotFound(hub.Delete(ctx, f))).To(Succeed())
		}
	}
	return left
}

// removeFrom removes the Jobs and pods of this world from a member, so that none of them takes room there, or waits
// to be scheduled to a node that another test makes.
func (w *world) removeFrom(ctx context.Context, member client.Client) {
	GinkgoHelper()
	var jobs batchv1.JobList
	Expect(member.List(ctx, &jobs)).To(Succeed())
	for i := range jobs.Items {
		if j := &jobs.Items[i]; w.owns(j.Namespace) {
			err := member.Delete(ctx, j, client.PropagationPolicy(metav1.DeletePropagationBackground))
			Expect(client.IgnoreNotFound(err)).To(Succeed())
		}
	}
	Eventually(func(g Gomega) {
		var pods corev1.PodList
		g.Expect(member.List(ctx, &pods)).To(Succeed())
		var left []string
		for i := range pods.Items {
			if p := &pods.Items[i]; w.owns(p.Namespace) {
				g.Expect(client.IgnoreNotFound(member.Delete(ctx, p, client.GracePeriodSeconds(0)))).To(Succeed())
				left = append(left, p.Namespace+"/"+p.Name)
			}
		}
		g.Expect(left).To(BeEmpty())
	}).Should(Succeed(), "pods of %s", w.name)
}

// secret writes the kubeconfig Secret of a member, or replaces it.
func (w *world) secret(ctx context.Context, member string, kubeconfig []byte) {
	GinkgoHelper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: w.member(member)}}
	err := hub.Get(ctx, client.ObjectKeyFromObject(s), s)
	s.Data = map[string][]byte{v1alpha1.KubeconfigKey: kubeconfig}
	if err == nil {
		Expect(hub.Update(ctx, s)).To(Succeed())
		return
	}
	Expect(hub.Create(ctx, s)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(hub.Delete(ctx, s)) })
}

// member is the name of a MemberCluster of this world.
func (w *world) member(name string) string { return w.name + "-" + name }

// enroll makes the MemberCluster alone.
func (w *world) enroll(ctx context.Context, name string, change ...func(*v1alpha1.MemberCluster)) *v1alpha1.MemberCluster {
	GinkgoHelper()
	m := &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: w.member(name), Labels: map[string]string{"world": w.name, "member": name}},
		Spec: v1alpha1.MemberClusterSpec{
			Namespaces:          v1alpha1.AllNamespaces(),
			KubeconfigSecretRef: v1alpha1.LocalReference{Name: w.member(name)},
			DeletionPolicy:      v1alpha1.DeletionOrphan, // nothing is waited for at the end of a test
		},
	}
	for _, f := range change {
		f(m)
	}
	Expect(hub.Create(ctx, m)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(hub.Delete(ctx, m)) })
	return m
}

// register makes the Secret and the MemberCluster and waits until the member is connected.
func (w *world) register(ctx context.Context, name string, kubeconfig []byte, change ...func(*v1alpha1.MemberCluster)) {
	GinkgoHelper()
	w.secret(ctx, name, kubeconfig)
	w.enroll(ctx, name, change...)
	Eventually(w.reason).WithArguments(ctx, name).Should(Equal("True Connected"))
}

func confinedTo(namespace string) func(*v1alpha1.MemberCluster) {
	return func(m *v1alpha1.MemberCluster) { m.Spec.Namespace = namespace }
}

func (w *world) memberCluster(ctx context.Context, name string) *v1alpha1.MemberCluster {
	var m v1alpha1.MemberCluster
	if err := hub.Get(ctx, client.ObjectKey{Name: w.member(name)}, &m); err != nil {
		return &v1alpha1.MemberCluster{}
	}
	return &m
}

// reason is STATUS REASON of a member's Ready condition.
func (w *world) reason(ctx context.Context, name string) string {
	return statusReason(w.memberCluster(ctx, name).Status.Conditions)
}

// message is that of a member's Ready condition.
func (w *world) message(ctx context.Context, name string) string {
	if c := meta.FindStatusCondition(w.memberCluster(ctx, name).Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Message
	}
	return ""
}

func statusReason(conditions []metav1.Condition) string {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// fmc is a FleetMiniCluster of one pod on all members of the world; annotations tell the lab what its pods do.
func (w *world) fmc(name string, annotations map[string]string) *v1alpha1.FleetMiniCluster {
	f := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	f.Spec.Placement = &v1alpha1.PlacementSpec{ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"world": w.name}}}
	f.Spec.MiniCluster = fluxv1alpha2.MiniClusterSpec{
		Size:       1,
		Containers: []fluxv1alpha2.MiniClusterContainer{{Image: "example.org/app", Command: "true"}},
	}
	f.Spec.MiniCluster.Pod.Annotations = annotations
	return f
}

var (
	held  = map[string]string{lab.AskHold: "true"}
	brief = map[string]string{lab.AskSeconds: "0"}
)

// run creates a FleetMiniCluster.
func (w *world) run(ctx context.Context, name string, annotations map[string]string) *v1alpha1.FleetMiniCluster {
	GinkgoHelper()
	f := w.fmc(name, annotations)
	Expect(hub.Create(ctx, f)).To(Succeed())
	return f
}

func (w *world) get(ctx context.Context, name string) *v1alpha1.FleetMiniCluster {
	return fmcIn(ctx, w.name, name)
}

func fmcIn(ctx context.Context, namespace, name string) *v1alpha1.FleetMiniCluster {
	var f v1alpha1.FleetMiniCluster
	if err := hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &f); err != nil {
		return &v1alpha1.FleetMiniCluster{}
	}
	return &f
}

// line is READY REASON SYNC HEALTH CLUSTERS.
func (w *world) line(ctx context.Context, name string) string { return lineOf(w.get(ctx, name)) }

func lineOf(f *v1alpha1.FleetMiniCluster) string {
	summary := v1alpha1.Summary{}
	if f.Status.Summary != nil {
		summary = *f.Status.Summary
	}
	return strings.Join([]string{statusReason(f.Status.Conditions), string(f.Status.Sync), string(f.Status.Health), summary.Clusters}, " ")
}

// on is SYNC HEALTH of a FleetMiniCluster on one member.
func (w *world) on(ctx context.Context, name, member string) string {
	for _, c := range w.get(ctx, name).Status.Clusters {
		if c.Name == w.member(member) {
			return string(c.Sync) + " " + string(c.Health)
		}
	}
	return ""
}

// podsRun waits until a FleetMiniCluster says that so many of its pods run.
func (w *world) podsRun(ctx context.Context, name, pods string) {
	GinkgoHelper()
	Eventually(func() string {
		if s := w.get(ctx, name).Status.Summary; s != nil {
			return s.Pods
		}
		return ""
	}).Should(Equal(pods))
}

// exists says whether a FleetMiniCluster is still there.
func (w *world) exists(ctx context.Context, name string) bool { return w.get(ctx, name).UID != "" }

// events are the reasons of the events of a FleetMiniCluster or a MemberCluster of this world, each once.
func (w *world) events(ctx context.Context, name string) []string {
	var list eventsv1.EventList
	if err := hub.List(ctx, &list); err != nil {
		return nil
	}
	var out []string
	for _, e := range list.Items {
		ours := e.Regarding.Namespace == w.name || e.Regarding.Namespace == ""
		if ours && e.Regarding.Name == name && !slices.Contains(out, e.Reason) {
			out = append(out, e.Reason)
		}
	}
	return out
}

// job returns a Job on a cluster, or nil.
func job(ctx context.Context, cluster, namespace, name string) *batchv1.Job {
	var j batchv1.Job
	if err := admins[cluster].Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &j); err != nil {
		return nil
	}
	return &j
}

// audit returns the answered requests to a cluster that match, from its audit log.
func audit(cluster string, match func(*lab.AuditEvent) bool) []lab.AuditEvent {
	GinkgoHelper()
	all, err := audits[cluster].Read()
	Expect(err).NotTo(HaveOccurred())
	var out []lab.AuditEvent
	for i := range all {
		if match(&all[i]) {
			out = append(out, all[i])
		}
	}
	return out
}

// jobsMade is how many Jobs were created in a namespace of a cluster.
func jobsMade(cluster, namespace string) int {
	GinkgoHelper()
	return len(audit(cluster, func(e *lab.AuditEvent) bool {
		return e.Verb == "create" && e.Object != nil && e.Object.Resource == "jobs" && e.Object.Subresource == "" &&
			e.Object.Namespace == namespace && e.Response.Code == 201
	}))
}

// podsMade is how many pods were created in a namespace of alpine.
func podsMade(namespace string) int {
	GinkgoHelper()
	return len(audit("alpine", func(e *lab.AuditEvent) bool {
		return e.Verb == "create" && e.Object != nil && e.Object.Resource == "pods" && e.Object.Subresource == "" &&
			e.Object.Namespace == namespace && e.Response.Code == 201
	}))
}

// jobsDeleted is how often anybody asked a cluster to delete Jobs in a namespace.
func jobsDeleted(cluster, namespace string) int {
	GinkgoHelper()
	return len(audit(cluster, func(e *lab.AuditEvent) bool {
		return strings.HasPrefix(e.Verb, "delete") && e.Object != nil && e.Object.Resource == "jobs" && e.Object.Namespace == namespace
	}))
}

// writesTo are MiniFleet's writes to a cluster so far.
func writesTo(cluster string) []string {
	GinkgoHelper()
	var out []string
	for _, e := range audit(cluster, func(e *lab.AuditEvent) bool { return e.UserAgent == "minifleet" && e.Write() }) {
		out = append(out, e.Verb+" "+e.RequestURI)
	}
	return out
}

func kubectl(stdin string, args ...string) string {
	GinkgoHelper()
	path, before, err := lab.Binary("kubectl")
	Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(path, slices.Concat(before, []string{"--kubeconfig", labs.Cluster("hub").KubeconfigPath()}, args)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
	return string(out)
}

// edited returns a kubeconfig with changes to its one cluster and its one user.
func edited(kubeconfig []byte, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	GinkgoHelper()
	cfg, err := clientcmd.Load(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	current := cfg.Contexts[cfg.CurrentContext]
	change(cfg.Clusters[current.Cluster], cfg.AuthInfos[current.AuthInfo])
	out, err := clientcmd.Write(*cfg)
	Expect(err).NotTo(HaveOccurred())
	return out
}

// through puts a proxy in front of a cluster and returns it with the kubeconfig that leads through it.
func through(c *lab.Cluster) (*lab.Proxy, []byte) {
	GinkgoHelper()
	p, err := lab.NewProxy(c.Address())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	kubeconfig, err := lab.WithServer(c.Kubeconfig(), p.Address())
	Expect(err).NotTo(HaveOccurred())
	return p, kubeconfig
}
