package e2e

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

var _ = Describe("Changes", func() {
	It("lets a live run end before the edited one starts", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add", map[string]string{"a.yaml": miniCluster("edit").on("north").held().yaml()})
		Eventually(w.line).WithArguments(ctx, "edit").Should(HavePrefix("True Synced Progressing"))
		first := w.job(ctx, "alpine", "edit")
		w.commit("edit", map[string]string{"a.yaml": miniCluster("edit").on("north").of("example.org/lammps:2").yaml()})
		Eventually(w.ready).WithArguments(ctx, "edit").Should(Equal("False WaitingForCompletion"))
		Consistently(func() any { return w.job(ctx, "alpine", "edit").UID }, 2*second).Should(Equal(first.UID))
		_, err := fleet.Cluster("alpine").Release(ctx, w.name, "", 0)
		Expect(err).NotTo(HaveOccurred())
		Eventually(w.line).WithArguments(ctx, "edit").Should(Equal("True Synced Healthy 1/1 2/2"))
		Eventually(func() string { return w.image(ctx, "edit") }).Should(Equal("example.org/lammps:2"))
		Expect(w.jobsMade("")).To(Equal(2))
		Expect(w.fmc(ctx, "edit").Status.Runs).To(HaveLen(2))
	})

	It("replaces a live run when onChange says so", func(ctx SpecContext) {
		w := newWorld(ctx)
		fmc := func(image string) string {
			return "apiVersion: minifleet.dev/v1alpha1\nkind: FleetMiniCluster\nmetadata:\n  name: swap\nspec:\n  onChange: Replace\n" +
				"  placementRef:\n    name: north\n  miniCluster:\n    size: 2\n    pod:\n      annotations:\n        lab.minifleet.dev/hold: \"true\"\n" +
				"    containers:\n      - image: " + image + "\n        command: sleep infinity\n"
		}
		annotated := strings.Replace(miniCluster("annotated").on("north").yaml(), "metadata:\n",
			"metadata:\n  annotations: {minifleet.dev/on-change: Replace, minifleet.dev/priority: \"7\", minifleet.dev/retries: \"2\"}\n", 1)
		w.commit("add", map[string]string{"a.yaml": fmc("example.org/app:1"), "b.yaml": annotated})
		Eventually(w.line).WithArguments(ctx, "swap").Should(HavePrefix("True Synced Progressing"))
		w.commit("edit", map[string]string{"a.yaml": fmc("example.org/app:2")})
		Eventually(func() string { return w.image(ctx, "swap") }).Should(Equal("example.org/app:2"))
		Eventually(w.line).WithArguments(ctx, "swap").Should(Equal("True Synced Progressing 1/1 2/2"))
		Expect(w.fmc(ctx, "swap").Status.Runs[0].State).To(BeEquivalentTo("Replaced"))
		spec := w.fmc(ctx, "annotated").Spec
		Expect([]any{spec.OnChange, spec.Priority, spec.Retries}).To(HaveExactElements(BeEquivalentTo("Replace"), BeEquivalentTo(7), BeEquivalentTo(2)))
		Expect(w.jobsMade("swap")).To(Equal(2))
	})

	It("scales an elastic MiniCluster in place, within its bounds", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add", map[string]string{"a.yaml": miniCluster("elastic").on("north").pods(2).upTo(4).held().yaml()})
		Eventually(w.line).WithArguments(ctx, "elastic").Should(Equal("True Synced Progressing 1/1 2/2"))
		w.kubectl("scale", "fmc/elastic", "--replicas=4")
		Eventually(w.line).WithArguments(ctx, "elastic").Should(Equal("True Synced Progressing 1/1 4/4"))
		Expect(w.kubectlFails("scale", "fmc/elastic", "--replicas=5")).To(ContainSubstring("maxSize"))
		Consistently(w.line, 3*second).WithArguments(ctx, "elastic").Should(Equal("True Synced Progressing 1/1 4/4"))
		w.kubectl("scale", "fmc/elastic", "--replicas=2")
		Eventually(w.line).WithArguments(ctx, "elastic").Should(Equal("True Synced Progressing 1/1 2/2"))
		Eventually(func() int32 { return w.job(ctx, "alpine", "elastic").Status.Active }).Should(BeEquivalentTo(2))
		Consistently(w.line, 2*second).WithArguments(ctx, "elastic").Should(Equal("True Synced Progressing 1/1 2/2"))
		Expect(w.jobsMade("")).To(Equal(1), "a resize is no new run")
	})

	It("suspends and resumes a live run", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add", map[string]string{"a.yaml": "apiVersion: minifleet.dev/v1alpha1\nkind: FleetMiniCluster\nmetadata:\n  name: nap\nspec:\n" +
			"  placementRef:\n    name: north\n  miniCluster:\n    size: 2\n    pod:\n      annotations:\n        lab.minifleet.dev/hold: \"true\"\n" +
			"    containers:\n      - image: example.org/app\n        command: sleep infinity\n"})
		Eventually(w.line).WithArguments(ctx, "nap").Should(Equal("True Synced Progressing 1/1 2/2"))
		run(w.dir, "sed", "-i", "s/^spec:/spec:\\n  suspend: true/", "a.yaml")
		w.commit("suspend", nil)
		Eventually(w.line).WithArguments(ctx, "nap").Should(HavePrefix("True Synced Suspended"))
		Eventually(func() int32 { return w.job(ctx, "alpine", "nap").Status.Active }).Should(BeZero())
		run(w.dir, "sed", "-i", "/suspend: true/d", "a.yaml")
		w.commit("resume", nil)
		Eventually(w.line).WithArguments(ctx, "nap").Should(Equal("True Synced Progressing 1/1 2/2"))
		Expect(w.jobsMade("")).To(Equal(1))
	})

	It("keeps what a person holds back, whatever Git says of the rest", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add", map[string]string{"a.yaml": miniCluster("mine").on("north").held().yaml()})
		Eventually(w.line).WithArguments(ctx, "mine").Should(Equal("True Synced Progressing 1/1 2/2"))
		suspended := func() bool { return ptr.Deref(w.job(ctx, "alpine", "mine").Spec.Suspend, false) }
		message := func() string { return w.readyMessage(ctx, "mine") }
		first := w.job(ctx, "alpine", "mine")

		By("holding it by spec.suspend")
		w.kubectl("patch", "fmc", "mine", "--type", "merge", "-p", `{"spec":{"suspend":true}}`)
		Eventually(suspended).Should(BeTrue())
		Eventually(message).Should(Equal("suspended on alpine; spec.suspend was set by hand, which Git leaves alone; to go on: kubectl -n " +
			w.name + ` patch fmc mine --type merge -p '{"spec":{"suspend":false}}'`))
		w.commit("change what is no run", map[string]string{"a.yaml": annotated(miniCluster("mine").on("north").held().yaml(), `minifleet.dev/priority: "5"`)})
		Eventually(func() int32 { return w.fmc(ctx, "mine").Spec.Priority }).Should(BeEquivalentTo(5))
		Consistently(suspended, 3*second).Should(BeTrue(), "Git has put spec.suspend back")
		w.kubectl("patch", "fmc", "mine", "--type", "merge", "-p", `{"spec":{"suspend":false}}`)
		Eventually(w.line).WithArguments(ctx, "mine").Should(Equal("True Synced Progressing 1/1 2/2"))

		By("holding it by the annotation")
		w.kubectl("annotate", "fmc", "mine", "minifleet.dev/hold=true")
		Eventually(suspended).Should(BeTrue())
		Eventually(message).Should(ContainSubstring("held by hand (annotation minifleet.dev/hold), which Git leaves alone"))
		w.commit("change it again", map[string]string{"a.yaml": annotated(miniCluster("mine").on("north").held().yaml(), `minifleet.dev/priority: "6"`)})
		Eventually(func() int32 { return w.fmc(ctx, "mine").Spec.Priority }).Should(BeEquivalentTo(6))
		Consistently(suspended, 2*second).Should(BeTrue())
		w.kubectl("annotate", "fmc", "mine", "minifleet.dev/hold-")
		Eventually(w.line).WithArguments(ctx, "mine").Should(Equal("True Synced Progressing 1/1 2/2"))
		Expect(w.job(ctx, "alpine", "mine").UID).To(Equal(first.UID))
	})

	It("asks before a commit runs many anew", func(ctx SpecContext) {
		w := newWorld(ctx)
		files := func(image string) map[string]string {
			out := map[string]string{}
			for _, name := range []string{"one", "two", "three"} {
				out[name+".yaml"] = miniCluster(name).on("north").of(image).yaml()
			}
			return out
		}
		w.commit("add", files("example.org/lammps:1"))
		for _, name := range []string{"one", "two", "three"} {
			Eventually(w.line).WithArguments(ctx, name).Should(Equal("True Synced Healthy 1/1 2/2"))
		}
		before := w.fmc(ctx, "two").Status.Revision

		By("changing all of them, and adding one")
		changed := files("example.org/lammps:2")
		changed["new.yaml"] = miniCluster("new").on("north").yaml()
		w.commit("change all", changed)
		Eventually(func() string { return w.sourceReady(ctx).Reason }).Should(Equal("RunsBlocked"))
		revision := w.kubectl("get", "gs", w.name, "-o", "jsonpath={.status.revision}")
		Expect(w.sourceReady(ctx).Message).To(Equal("revision " + revision + " would run 3 MiniClusters anew that have run before " +
			"(FleetMiniCluster/one, FleetMiniCluster/three, FleetMiniCluster/two); these were not updated. If that is meant: " +
			"kubectl -n " + w.name + " annotate --overwrite gitsource " + w.name + " minifleet.dev/approve-runs=" + w.kubectl("get", "gs", w.name, "-o", "jsonpath={.status.commit}")))
		Eventually(w.line).WithArguments(ctx, "new").Should(Equal("True Synced Healthy 1/1 2/2"), "everything else is applied")
		Expect(w.jobsMade("")).To(Equal(4))
		Expect(w.fmc(ctx, "two").Status.Revision).To(Equal(before))

		By("taking that back")
		w.commit("change none", files("example.org/lammps:1"))
		Eventually(func() string { return w.sourceReady(ctx).Reason }).Should(Equal("Succeeded"))
		Expect(w.fmc(ctx, "two").Status.Revision).To(Equal(before))

		By("approving it")
		w.commit("change all again", files("example.org/lammps:3"))
		Eventually(func() string { return w.sourceReady(ctx).Reason }).Should(Equal("RunsBlocked"))
		w.kubectl("annotate", "gitsource", w.name, "minifleet.dev/approve-runs="+w.kubectl("get", "gs", w.name, "-o", "jsonpath={.status.commit}"))
		for _, name := range []string{"one", "two", "three"} {
			Eventually(func() []v1alpha1.Run { return w.fmc(ctx, name).Status.Runs }).Should(HaveLen(2))
		}
		Eventually(func() string { return w.sourceReady(ctx).Reason }).Should(Equal("Succeeded"))
		Eventually(func() int { return w.jobsMade("") }).Should(Equal(7))
	})

	It("does not say that it has applied what waits for a deletion", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add", map[string]string{"a.yaml": miniCluster("phoenix").on("north").yaml(), "b.yaml": miniCluster("other").on("north").yaml()})
		Eventually(w.line).WithArguments(ctx, "phoenix").Should(Equal("True Synced Healthy 1/1 2/2"))
		first := w.fmc(ctx, "phoenix").UID
		w.kubectl("patch", "fmc", "phoenix", "--type", "json", "-p", `[{"op":"add","path":"/metadata/finalizers/-","value":"example.org/wait"}]`)
		w.kubectl("delete", "fmc", "phoenix", "--wait=false")
		Eventually(func() string { return w.sourceReady(ctx).Reason }).Should(Equal("DeletionPending"))
		Expect(w.sourceReady(ctx).Message).To(HavePrefix("waits for the end of a deletion, to create anew: FleetMiniCluster/phoenix; everything else of revision "))
		Eventually(func() []string { return w.fmc(ctx, "phoenix").Finalizers }).Should(Equal([]string{"example.org/wait"}))
		Consistently(func() string { return w.sourceReady(ctx).Reason }, 3*second).Should(Equal("DeletionPending"))
		w.kubectl("patch", "fmc", "phoenix", "--type", "json", "-p", `[{"op":"replace","path":"/metadata/finalizers","value":[]}]`)
		Eventually(func() string { return w.sourceReady(ctx).Reason }).Should(Equal("Succeeded"))
		Expect(w.fmc(ctx, "phoenix").UID).NotTo(Or(BeEmpty(), Equal(first)))
	})

	It("says clearly that no member matches, and places when one does", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.place(ctx, "moon", map[string]string{"site": "moon"}, ptr.To[int32](1))
		w.commit("add", map[string]string{"a.yaml": miniCluster("far").on("moon").yaml(), "b.yaml": miniCluster("lost").on("nowhere").yaml()})
		Eventually(w.ready).WithArguments(ctx, "far").Should(Equal("False NoClusterMatches"))
		Eventually(w.ready).WithArguments(ctx, "lost").Should(Equal("False PlacementNotFound"))
		w.kubectl("label", "mcl", "cinder", "site=moon", "--overwrite")
		DeferCleanup(func() { w.kubectl("label", "mcl", "cinder", "site=south", "--overwrite") })
		Eventually(w.line).WithArguments(ctx, "far").Should(HavePrefix("True Synced Healthy 1/1"))
		w.place(ctx, "nowhere", map[string]string{"gpu": "true"}, ptr.To[int32](1))
		Eventually(w.line).WithArguments(ctx, "lost").Should(HavePrefix("True Synced Healthy 1/1"))
	})
})

func (w *world) image(ctx context.Context, name string) string {
	j := w.job(ctx, "alpine", name)
	if j == nil {
		return ""
	}
	return j.Spec.Template.Spec.Containers[0].Image
}

// annotated is a manifest with an annotation of its own.
func annotated(manifest, annotation string) string {
	return strings.Replace(manifest, "metadata:\n", "metadata:\n  annotations: {"+annotation+"}\n", 1)
}

func (w *world) readyMessage(ctx context.Context, name string) string {
	c := meta.FindStatusCondition(w.fmc(ctx, name).Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return ""
	}
	return c.Message
}
