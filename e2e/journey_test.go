package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/miniclustertest"
)

var _ = Describe("From git push to runs", func() {
	It("places, runs and reports MiniClusters", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add two", map[string]string{
			"lammps.yaml": miniCluster("lammps").pods(4).yaml(),
			"osu.yaml":    miniCluster("osu").on("south").yaml(),
		})
		Eventually(w.line).WithArguments(ctx, "lammps").Should(Equal("True Synced Healthy 1/1 4/4"))
		Eventually(w.line).WithArguments(ctx, "osu").Should(Equal("True Synced Healthy 2/2 4/4"))
		w.kubectl("wait", "--for=condition=Complete", "fmc/lammps", "--timeout=10s")

		Expect(w.where(ctx, "lammps")).To(HaveLen(1))
		Expect(w.where(ctx, "osu")).To(Equal([]string{"basalt", "cinder"}))
		Expect(w.jobsMade("lammps")).To(Equal(1))
		Expect(w.jobsMade("osu")).To(Equal(2))

		table := w.kubectl("get", "fmc")
		Expect(strings.Fields(strings.SplitN(table, "\n", 2)[0])).To(Equal(
			[]string{"NAME", "STATE", "READY", "SYNC", "HEALTH", "CLUSTERS", "PODS", "REVISION", "AGE"}))
		Expect(table).To(MatchRegexp(`lammps +Succeeded +True +Synced +Healthy +1/1 +4/4 +m[a-z]+@[0-9a-f]{7} `))
		Expect(w.kubectl("get", "gs")).To(MatchRegexp(`world-\d+ +True +m[a-z]+@[0-9a-f]{7} +2 `))
		Expect(w.kubectl("get", "mcl")).To(MatchRegexp(`alpine +True +v1\.\d+\.\d+\S* +2 +\d+\S*/96 `))
		Eventually(func() string { return w.kubectl("describe", "fmc", "lammps") }).Should(And(
			ContainSubstring("Running Time"), ContainSubstring("RunSucceeded")))
	})

	It("puts the CURVE key into Secrets only, and the same one on every member", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add", map[string]string{"a.yaml": miniCluster("keyed").on("south").yaml()})
		Eventually(w.line).WithArguments(ctx, "keyed").Should(HavePrefix("True Synced Healthy"))
		key := w.curveKey(ctx, "basalt", "keyed")
		Expect(key).NotTo(BeEmpty())
		Expect(w.curveKey(ctx, "cinder", "keyed")).To(Equal(key))

		log, err := os.ReadFile(controller.LogPath())
		Expect(err).NotTo(HaveOccurred())
		Expect(string(log)).NotTo(ContainSubstring(key))
		Expect(w.kubectl("get", "fmc,gs,events", "-o", "yaml")).NotTo(ContainSubstring(key))
		for _, member := range []string{"basalt", "cinder"} {
			Expect(w.configMaps(ctx, member)).NotTo(ContainSubstring(key))
		}
	})

	It("runs manifests of several kinds unchanged, privileged ones once their source may", func(ctx SpecContext) {
		newWorld(ctx).runUnchanged(ctx, named(miniclustertest.Own(), "benchmark", "batchraw", "script", "nested"), "nested")
	})

	It("runs the Flux Operator's examples unchanged, privileged ones once their source may", func(ctx SpecContext) {
		shared, err := miniclustertest.Shared()
		if err != nil {
			Skip("the Flux Operator's examples are not run: " + err.Error())
		}
		newWorld(ctx).runUnchanged(ctx,
			named(shared, "tests-lammps", "tests-osu-benchmarks", "tests-batch", "tests-singularity"), "tests-singularity")
	})

	It("removes from every member what is deleted from Git", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add three", map[string]string{
			"a.yaml": miniCluster("stays").yaml(), "b.yaml": miniCluster("stays-too").yaml(), "c.yaml": miniCluster("goes").on("south").yaml(),
		})
		Eventually(w.line).WithArguments(ctx, "goes").Should(HavePrefix("True Synced Healthy 2/2"))
		Eventually(w.line).WithArguments(ctx, "stays").Should(HavePrefix("True Synced Healthy 1/1"))
		w.commit("remove one", map[string]string{"c.yaml": ""})
		Eventually(func() string { return w.fmc(ctx, "goes").Name }).Should(BeEmpty())
		Expect(w.leftovers(ctx, "goes")).To(BeEmpty())
		Consistently(w.line, 2*second).WithArguments(ctx, "stays").Should(HavePrefix("True Synced Healthy 1/1"))
	})

	It("reports a broken file and applies the good ones beside it", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add good", map[string]string{"good.yaml": miniCluster("good").yaml(), "later.yaml": miniCluster("later-broken").yaml()})
		Eventually(w.line).WithArguments(ctx, "good").Should(HavePrefix("True Synced Healthy"))
		w.commit("break one, add one", map[string]string{
			"later.yaml": "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata:\n  name: later-broken\nspec:\n  size: many\n",
			"new.yaml":   miniCluster("new").yaml(),
		})
		Eventually(w.line).WithArguments(ctx, "new").Should(HavePrefix("True Synced Healthy"))
		c := w.sourceReady(ctx)
		Expect(c.Reason).To(Equal("ProblemsFound"))
		Expect(c.Message).To(And(ContainSubstring("later.yaml:6"), ContainSubstring("size")))
		Expect(w.fmc(ctx, "later-broken").Name).To(Equal("later-broken"), "what a broken file declared is kept")
		Expect(w.fmc(ctx, "later-broken").DeletionTimestamp).To(BeNil())
	})

	It("deletes nothing when the tree is empty, until a person approves", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add", map[string]string{"a.yaml": miniCluster("one").yaml(), "b.yaml": miniCluster("two").yaml()})
		Eventually(w.line).WithArguments(ctx, "two").Should(HavePrefix("True Synced Healthy"))
		w.commit("remove all", map[string]string{"a.yaml": "", "b.yaml": ""})
		Eventually(func() string { return w.sourceReady(ctx).Reason }).Should(Equal("PruneBlocked"))
		Consistently(func() bool { return w.fmc(ctx, "one").DeletionTimestamp == nil && w.fmc(ctx, "one").Name != "" }, 3*second).Should(BeTrue())

		var commit string
		Eventually(func() string {
			commit = w.kubectl("get", "gs", w.name, "-o", "jsonpath={.status.commit}")
			return w.sourceReady(ctx).Message
		}).Should(ContainSubstring("minifleet.dev/approve-prune="))
		w.kubectl("annotate", "gitsource", w.name, "minifleet.dev/approve-prune="+commit)
		Eventually(func() string { return w.fmc(ctx, "one").Name + w.fmc(ctx, "two").Name }).Should(BeEmpty())
	})

	It("keeps everything while the Git server is down", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add", map[string]string{"a.yaml": miniCluster("kept").yaml()})
		Eventually(w.line).WithArguments(ctx, "kept").Should(HavePrefix("True Synced Healthy"))
		Expect(git.Stop()).To(Succeed())
		DeferCleanup(func() { _ = git.Start() })
		Eventually(func() string { return w.sourceReady(ctx).Reason }).Should(Equal("Unreachable"))
		Expect(w.sourceReady(ctx).Message).To(ContainSubstring("stays applied"))
		Expect(w.line(ctx, "kept")).To(HavePrefix("True Synced Healthy"))
		Expect(git.Start()).To(Succeed())
		w.commit("add another", map[string]string{"b.yaml": miniCluster("after").yaml()})
		Eventually(w.line).WithArguments(ctx, "after").Should(HavePrefix("True Synced Healthy"))
	})
})

// named are those manifests that have one of the names, of which none is missing.
func named(manifests []miniclustertest.Manifest, names ...string) []miniclustertest.Manifest {
	GinkgoHelper()
	var found []miniclustertest.Manifest
	for _, m := range manifests {
		if slices.Contains(names, m.Name) {
			found = append(found, m)
		}
	}
	Expect(found).To(HaveLen(len(names)))
	return found
}

// runUnchanged commits manifests, each with its own name for that of its MiniCluster, since those of some are
// all the same, and waits until all have run. The one called privileged is denied until its source may have it, and then
// until the members' administrators allow it, too.
func (w *world) runUnchanged(ctx context.Context, manifests []miniclustertest.Manifest, privileged string) {
	GinkgoHelper()
	files := map[string]string{}
	for _, m := range manifests {
		decoded, err := m.MiniCluster()
		Expect(err).NotTo(HaveOccurred())
		files[m.Name+".yaml"] = strings.Replace(string(m.Text), "name: "+decoded.Name+"\n", "name: "+m.Name+"\n", 1)
	}
	w.commit("add manifests", files)
	Eventually(w.ready).WithContext(ctx).WithArguments(ctx, privileged).Should(Equal("False PolicyDenied"))
	w.allowThroughTLS(ctx, "Privileged")
	if fleet.Cluster("alpine").Owned() { // with the policy of config/member
		Eventually(w.ready).WithContext(ctx).WithArguments(ctx, privileged).Should(Equal("False ApplyFailed"))
		for member := range memberLabels {
			w.allowPrivileged(ctx, member)
		}
	}
	for _, m := range manifests {
		Eventually(w.line).WithContext(ctx).WithArguments(ctx, m.Name).Should(HavePrefix("True Synced Healthy 1/1"), m.Name)
	}
}

// allowPrivileged allows pods beyond the Pod Security level baseline in the world's namespace on a member, as its administrator
// does.
func (w *world) allowPrivileged(ctx context.Context, member string) {
	GinkgoHelper()
	labels := map[string]string{
		"minifleet.dev/allow-privileged": "true", v1alpha1.LabelPodSecurity: "privileged", v1alpha1.LabelHubNamespace: w.name,
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name, Labels: labels}}
	err := members[member].Create(ctx, namespace)
	if apierrors.IsAlreadyExists(err) {
		patch, jsonErr := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
		Expect(jsonErr).NotTo(HaveOccurred())
		err = members[member].Patch(ctx, namespace, client.RawPatch(types.MergePatchType, patch))
	}
	Expect(err).NotTo(HaveOccurred())
}

// allowThroughTLS has a source use a permission, and read its repository with TLS, without which that is refused.
func (w *world) allowThroughTLS(ctx context.Context, permission string) {
	GinkgoHelper()
	Expect(hub.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "git-ca"}, Data: map[string][]byte{v1alpha1.GitCAKey: gitTrust},
	})).To(Succeed())
	w.kubectl("patch", "gitsource", w.name, "--type", "merge", "-p",
		fmt.Sprintf(`{"spec":{"allow":[%q],"url":%q,"secretRef":{"name":"git-ca"}}}`, permission, git.TLSURL(w.name)))
}

// leftovers lists what members still have of a MiniCluster.
func (w *world) leftovers(ctx context.Context, name string) []string {
	var out []string
	for member := range memberLabels {
		for _, o := range w.owned(ctx, member) {
			if strings.Contains(o, "/"+name) {
				out = append(out, member+": "+o)
			}
		}
	}
	return out
}
