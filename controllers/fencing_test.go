package controllers_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// otherHub is a second hub, for which basalt's API server serves.
type otherHub struct {
	client.Client
	process *lab.Process
}

// newOtherHub prepares a hub without a fleet. Nothing of it is left at the end of the test.
func newOtherHub(ctx context.Context) *otherHub {
	GinkgoHelper()
	root, err := lab.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	basalt := labs.Cluster("basalt")
	Expect(basalt.ApplyCRDs(ctx, filepath.Join(root, "config", "crd", "bases"))).To(Succeed())
	config := hubKubeconfig + ".other"
	Expect(os.WriteFile(config, basalt.Kubeconfig(), 0o600)).To(Succeed())
	o := &otherHub{Client: clientOf(basalt), process: &lab.Process{
		Name: "other-hub", Path: minifleet.Path, Args: slices.Concat(minifleet.Args, withoutReceiver), Env: minifleet.Env,
		PidsDir: minifleet.PidsDir, LogsDir: minifleet.LogsDir,
	}}
	o.process.Args[slices.Index(o.process.Args, hubKubeconfig)] = config
	err = o.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}})
	Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
	DeferCleanup(o.remove)
	return o
}

func (o *otherHub) remove(ctx SpecContext) {
	_ = o.process.Kill()
	for _, list := range []client.ObjectList{&v1alpha1.MemberClusterList{}, &v1alpha1.FleetMiniClusterList{}} {
		Expect(o.List(ctx, list)).To(Succeed())
		objects, err := meta.ExtractList(list)
		Expect(err).NotTo(HaveOccurred())
		for _, object := range objects {
			obj := object.(client.Object)
			obj.SetFinalizers(nil)
			Expect(o.Update(ctx, obj)).To(Succeed())
			Expect(client.IgnoreNotFound(o.Delete(ctx, obj))).To(Succeed())
		}
	}
	Expect(client.IgnoreNotFound(o.Delete(ctx, fleetConfigMap(nil)))).To(Succeed())
	removeRecords(ctx)
}

// removeRecords has members forget which hub leads which fleet.
func removeRecords(ctx context.Context) {
	for _, member := range admins {
		var list corev1.ConfigMapList
		Expect(member.List(ctx, &list, client.InNamespace("default"), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})).To(Succeed())
		for i := range list.Items {
			Expect(client.IgnoreNotFound(member.Delete(ctx, &list.Items[i]))).To(Succeed())
		}
	}
}

// register registers alpine as a member of this hub.
func (o *otherHub) register(ctx context.Context) {
	GinkgoHelper()
	name := metav1.ObjectMeta{Name: "alpine", Namespace: managerNamespace}
	secret := &corev1.Secret{ObjectMeta: name, Data: map[string][]byte{v1alpha1.KubeconfigKey: labs.Cluster("alpine").Kubeconfig()}}
	Expect(o.Create(ctx, secret)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(o.Delete(ctx, secret)) })
	Expect(o.Create(ctx, &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "alpine"},
		Spec:       v1alpha1.MemberClusterSpec{Namespaces: v1alpha1.AllNamespaces(), KubeconfigSecretRef: v1alpha1.LocalReference{Name: "alpine"}},
	})).To(Succeed())
}

// lead starts this hub with an identity.
func (o *otherHub) lead(ctx context.Context, data map[string]string) {
	GinkgoHelper()
	Expect(o.process.Kill()).To(Succeed())
	Expect(client.IgnoreNotFound(o.Delete(ctx, fleetConfigMap(nil)))).To(Succeed())
	Expect(o.Create(ctx, fleetConfigMap(data))).To(Succeed())
	Expect(o.process.Start()).To(Succeed())
}

// reason is STATUS REASON of alpine, and message what is said of it.
func (o *otherHub) reason(ctx context.Context) string {
	return statusReason(o.alpine(ctx).Status.Conditions)
}

func (o *otherHub) message(ctx context.Context) string {
	return meta.FindStatusCondition(o.alpine(ctx).Status.Conditions, v1alpha1.ConditionReady).Message
}

func (o *otherHub) alpine(ctx context.Context) *v1alpha1.MemberCluster {
	var m v1alpha1.MemberCluster
	_ = o.Get(ctx, client.ObjectKey{Name: "alpine"}, &m)
	return &m
}

func fleetConfigMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: v1alpha1.FleetConfigMap}, Data: data}
}

// fleetData is the identity of the fleet as a hub has it.
func fleetData(ctx context.Context, hub client.Client) map[string]string {
	GinkgoHelper()
	cm := fleetConfigMap(nil)
	Expect(hub.Get(ctx, client.ObjectKeyFromObject(cm), cm)).To(Succeed())
	return cm.Data
}

// uidOf is that of a hub.
func uidOf(ctx context.Context, hub client.Client) string {
	GinkgoHelper()
	var ns corev1.Namespace
	Expect(hub.Get(ctx, client.ObjectKey{Name: "kube-system"}, &ns)).To(Succeed())
	return string(ns.UID)
}

// recordOf is what a member has recorded of the hub that leads the fleet.
func recordOf(ctx context.Context, cluster string) *corev1.ConfigMap {
	var list corev1.ConfigMapList
	if err := admins[cluster].List(ctx, &list, client.InNamespace("default"), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}); err != nil || len(list.Items) != 1 {
		return &corev1.ConfigMap{}
	}
	return &list.Items[0]
}

// resetFleet has the hub of all tests lead the fleet as it did.
func resetFleet(ctx SpecContext, before map[string]string) {
	Expect(minifleet.Kill()).To(Succeed())
	removeRecords(ctx)
	Expect(client.IgnoreNotFound(hub.Delete(ctx, fleetConfigMap(nil)))).To(Succeed())
	before["members"] = ""
	Expect(hub.Create(ctx, fleetConfigMap(before))).To(Succeed())
	startMinifleet(labs.Cluster("hub").Kubeconfig())
}

// documented runs the commands of docs/recovery.md that follow a comment of this name, in a directory, with a cluster.
func documented(name, directory string, cluster *lab.Cluster) {
	GinkgoHelper()
	root, err := lab.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	doc, err := os.ReadFile(filepath.Join(root, "docs", "recovery.md"))
	Expect(err).NotTo(HaveOccurred())
	_, rest, found := strings.Cut(string(doc), "<!-- "+name+" -->")
	Expect(found).To(BeTrue(), name)
	_, rest, _ = strings.Cut(rest, "```sh\n")
	commands, _, _ := strings.Cut(rest, "```")
	path, before, err := lab.Binary("kubectl")
	Expect(err).NotTo(HaveOccurred())
	script := "set -eu -o pipefail\nkubectl() { '" + strings.Join(append([]string{path}, before...), "' '") + "' \"$@\"; }\n" + commands
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir, cmd.Env = directory, append(os.Environ(), "KUBECONFIG="+cluster.KubeconfigPath())
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", commands, out)
}

func nextEpoch(data map[string]string) string {
	GinkgoHelper()
	epoch, err := strconv.Atoi(data["epoch"])
	Expect(err).NotTo(HaveOccurred())
	return strconv.Itoa(epoch + 1)
}

var _ = Describe("A fleet with two hubs", func() {
	It("is led by the first where both are of the same epoch: the second is fenced", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "kept", held)
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal(running))
		before, record := job(ctx, "alpine", w.name, "kept"), recordOf(ctx, "alpine").Data
		Expect(record).To(HaveKeyWithValue("hub", uidOf(ctx, hub)))
		Expect(fleetData(ctx, hub)["members"]).To(ContainSubstring(w.member("a") + " "))

		other := newOtherHub(ctx)
		other.register(ctx)
		Expect(client.IgnoreAlreadyExists(other.Create(ctx, w.onMember()))).To(Succeed())
		for _, name := range []string{"kept", "more"} {
			f := w.fmc(name, held)
			f.Spec.Placement = &v1alpha1.PlacementSpec{}
			Expect(other.Create(ctx, f)).To(Succeed())
		}
		data := fleetData(ctx, hub)
		other.lead(ctx, map[string]string{"id": data["id"], "epoch": data["epoch"]})
		Eventually(other.reason).WithArguments(ctx).Should(Equal("False Fenced"))
		Expect(other.message(ctx)).To(And(ContainSubstring(uidOf(ctx, hub)), ContainSubstring("in epoch "+data["epoch"]),
			ContainSubstring(record["since"]), ContainSubstring("ConfigMap minifleet-fleet"), ContainSubstring("to "+nextEpoch(data))))
		Consistently(func(g Gomega) {
			g.Expect(jobsMade("alpine", w.name)).To(Equal(1))
			g.Expect(other.reason(ctx)).To(Equal("False Fenced"))
			g.Expect(w.reason(ctx, "a")).To(Equal("True Connected"))
			g.Expect(recordOf(ctx, "alpine").Data).To(Equal(record))
		}, "4s").Should(Succeed())
		Expect(job(ctx, "alpine", w.name, "kept")).To(And(HaveField("UID", before.UID), HaveField("Generation", before.Generation)))
	})

	It("is taken over by the one of a higher epoch, and the other is fenced at once until that is undone", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "kept", held)
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal(running))
		other := newOtherHub(ctx)
		other.register(ctx)
		data := fleetData(ctx, hub)
		other.lead(ctx, map[string]string{"id": data["id"], "epoch": nextEpoch(data)})
		Eventually(other.reason).WithArguments(ctx).Should(Equal("True Connected"))
		Eventually(w.reason, "3s").WithArguments(ctx, "a").Should(Equal("False Fenced"))
		Expect(w.message(ctx, "a")).To(And(ContainSubstring(uidOf(ctx, other)), ContainSubstring("in epoch "+nextEpoch(data))))
		Expect(strings.Fields(fleetData(ctx, other)["members"])).To(Equal([]string{"alpine", uidOf(ctx, admins["alpine"]), nextEpoch(data)}))
		Eventually(w.on).WithArguments(ctx, "kept", "a").Should(Equal("Unknown Unknown"))

		By("starting nothing on the hub that is fenced, after a restart either")
		live := job(ctx, "alpine", w.name, "kept")
		w.run(ctx, "more", brief)
		nothing := func(g Gomega) {
			g.Expect(jobsMade("alpine", w.name)).To(Equal(1))
			g.Expect(job(ctx, "alpine", w.name, "kept")).To(HaveField("UID", live.UID))
			g.Expect(w.reason(ctx, "a")).To(Equal("False Fenced"))
		}
		Consistently(nothing).Should(Succeed())
		Expect(minifleet.Kill()).To(Succeed())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Consistently(nothing, "4s").Should(Succeed())

		By("stopping the other hub and removing its record")
		Expect(other.process.Kill()).To(Succeed())
		removeRecords(ctx)
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))
		Eventually(w.line).WithArguments(ctx, "more").Should(Equal("True Succeeded Synced Healthy 1/1"))
		Expect(w.line(ctx, "kept")).To(Equal(running))
		Expect(jobsMade("alpine", w.name)).To(Equal(2))
	})

	It("is led by one that is rebuilt as docs/recovery.md says, and the lost one is fenced when it returns", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "kept", held)
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal(running))
		before := fleetData(ctx, hub)
		kept := GinkgoT().TempDir()
		documented("keep", kept, labs.Cluster("hub"))
		Expect(minifleet.Kill()).To(Succeed())

		other := newOtherHub(ctx)
		Expect(other.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}})).To(Succeed())
		Eventually(func() error {
			return other.Get(ctx, client.ObjectKey{Name: managerNamespace}, &corev1.Namespace{})
		}).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		documented("rebuild", kept, labs.Cluster("basalt"))
		data := fleetData(ctx, other)
		Expect(data).To(And(HaveKeyWithValue("id", before["id"]), HaveKeyWithValue("epoch", nextEpoch(before)), HaveKeyWithValue("members", before["members"])))
		other.register(ctx)
		Expect(other.process.Start()).To(Succeed())
		Eventually(other.reason).WithArguments(ctx).Should(Equal("True Connected"))
		Eventually(func() []v1alpha1.UnownedJob { return other.alpine(ctx).Status.UnownedJobs }).Should(HaveLen(1))

		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("False Fenced"))
		Consistently(func() int { return jobsMade("alpine", w.name) }).Should(Equal(1))

		By("raising the epoch of the former, so that it leads again")
		for range 2 {
			documented("restore", kept, labs.Cluster("hub"))
		}
		DeferCleanup(resetFleet, before)
		Expect(minifleet.Kill()).To(Succeed())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal(running))
		Eventually(other.reason).WithArguments(ctx).Should(Equal("False Fenced"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})

	It("is not told from one hub that was restored: that adopts the epoch which members know it by", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "kept", held)
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal(running))
		before := fleetData(ctx, hub)
		DeferCleanup(resetFleet, before)
		Expect(minifleet.Kill()).To(Succeed())
		record := recordOf(ctx, "alpine")
		record.Data["epoch"] = nextEpoch(before)
		Expect(admins["alpine"].Update(ctx, record)).To(Succeed())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(func(g Gomega) {
			now := fleetData(ctx, hub)
			g.Expect(now["epoch"]).To(Equal(nextEpoch(before)))
			g.Expect(strings.Split(now["members"], "\n")).To(ContainElement(And(HavePrefix(w.member("a")+" "), HaveSuffix(" "+nextEpoch(before)))))
		}).Should(Succeed())
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal(running))
		Expect(w.reason(ctx, "a")).To(Equal("True Connected"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
		w.run(ctx, "more", brief)
		Eventually(w.line).WithArguments(ctx, "more").Should(Equal("True Succeeded Synced Healthy 1/1"))
	})
})
