package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/cli/review"
)

// reviewer is what a CI job has: rights to read, and no others.
func (w *world) reviewer(ctx context.Context) *terminal {
	GinkgoHelper()
	return w.newTerminal(w.person(ctx, "ci", "minifleet-reviewer", []rbacv1.PolicyRule{
		{APIGroups: []string{"minifleet.dev"}, Resources: []string{"memberclusters"}, Verbs: []string{"list"}},
	}))
}

// versions are the resource versions of all that is on the hub in the namespace, by KIND/NAME.
func (w *world) versions(ctx context.Context) map[string]string {
	GinkgoHelper()
	out := map[string]string{}
	for _, list := range []client.ObjectList{&v1alpha1.FleetMiniClusterList{}, &v1alpha1.PlacementList{}, &v1alpha1.GitSourceList{}} {
		Expect(hub.List(ctx, list, client.InNamespace(w.name))).To(Succeed())
		switch l := list.(type) {
		case *v1alpha1.FleetMiniClusterList:
			for i := range l.Items {
				out["fmc/"+l.Items[i].Name] = l.Items[i].ResourceVersion
			}
		case *v1alpha1.PlacementList:
			for i := range l.Items {
				out["pl/"+l.Items[i].Name] = l.Items[i].ResourceVersion
			}
		case *v1alpha1.GitSourceList:
			for i := range l.Items {
				out["gs/"+l.Items[i].Name] = l.Items[i].ResourceVersion
			}
		}
	}
	return out
}

// reportOf is what diff says as JSON.
func (t *terminal) reportOf(ctx context.Context, code int, args ...string) *review.Report {
	GinkgoHelper()
	out := &review.Report{}
	Expect(json.Unmarshal([]byte(t.expect(ctx, code, slices.Concat([]string{"diff", "-o", "json"}, args)...)), out)).To(Succeed())
	return out
}

// told is OBJECT KIND STATE MEMBERS of each change.
func told(r *review.Report) []string {
	var out []string
	for i := range r.Changes {
		c := &r.Changes[i]
		line := c.Object + " " + c.Kind
		if c.NeedsApproval {
			line += " approval"
		}
		if p := c.Placement; p != nil {
			line += " " + p.State + " " + strings.Join(p.Members, ",")
		}
		out = append(out, strings.TrimSpace(strings.TrimPrefix(line, "FleetMiniCluster/")))
	}
	slices.Sort(out)
	return out
}

func onePlacement(name, site string) string {
	return fmt.Sprintf("apiVersion: minifleet.dev/v1alpha1\nkind: Placement\nmetadata: {name: %s}\nspec:\n  clusterSelector: {matchLabels: {site: %s}}\n  clusterNames: [alpine, basalt]\n  numberOfClusters: 1\n", name, site)
}

var _ = Describe("minifleet diff of a commit", func() {
	It("says what then happens, and writes nothing", func(ctx SpecContext) {
		w := newWorld(ctx)
		t := w.reviewer(ctx)
		base := map[string]string{
			"placements.yaml": onePlacement("mine", "north"),
			"stays.yaml":      miniCluster("stays").on("mine").yaml(), "again.yaml": miniCluster("again").on("mine").yaml(),
			"ends.yaml": miniCluster("ends").on("mine").yaml(), "other.yaml": miniCluster("other").on("south").yaml(),
		}
		w.commit("base", base)
		names := []string{"stays", "again", "ends", "other"}
		for _, name := range names {
			Eventually(w.line).WithArguments(ctx, name).Should(HavePrefix("True Synced Healthy"))
		}
		applied := strings.TrimSpace(run(w.dir, "git", "rev-parse", "HEAD"))
		branch := strings.TrimSpace(run(w.dir, "git", "symbolic-ref", "--short", "HEAD"))
		Eventually(w.commitRead).WithArguments(ctx).Should(Equal(applied))

		By("comparing what is applied")
		Expect(told(t.reportOf(ctx, 0, "-C", w.dir, "--revision", "HEAD"))).To(BeEmpty())

		By("comparing a change before it is pushed")
		edits := map[string]string{
			"placements.yaml": onePlacement("mine", "south"),
			"again.yaml":      miniCluster("again").on("mine").of("example.org/lammps:2").yaml(),
			"ends.yaml":       "",
			"new.yaml":        miniCluster("new").on("mine").yaml(),
			"large.yaml":      miniCluster("large").on("mine").yaml() + "      resources: {requests: {cpu: \"900\"}}\n",
		}
		for name, content := range edits {
			at := filepath.Join(w.dir, name)
			if content == "" {
				Expect(os.Remove(at)).To(Succeed())
				continue
			}
			Expect(os.WriteFile(at, []byte(content), 0o600)).To(Succeed())
		}
		before := w.versions(ctx)
		want := []string{
			"Placement/mine Changed",
			"again Run Starts basalt",
			"ends Removed",
			"large New Waits",
			"new New Starts basalt",
			"stays Moved",
		}
		tree := t.reportOf(ctx, 1, "-f", w.dir)
		Expect(told(tree)).To(Equal(want))
		large := tree.Changes[slices.IndexFunc(tree.Changes, func(c review.Change) bool { return strings.HasSuffix(c.Object, "/large") })]

		run(w.dir, "git", "add", "-A")
		run(w.dir, "git", "-c", "user.name=e2e", "-c", "user.email=e2e@example.org", "commit", "-q", "-m", "change @everyone")
		commit := strings.TrimSpace(run(w.dir, "git", "rev-parse", "HEAD"))
		run(w.dir, "git", "push", "-q", "origin", "HEAD:refs/pull/7/merge")
		for _, of := range [][]string{{"-C", w.dir, "--revision", "HEAD"}, {"--ref", "refs/pull/7/merge"}} {
			report := t.reportOf(ctx, 1, of...)
			Expect(told(report)).To(Equal(want), "%v", of)
			Expect(report.Read.Commit).To(Equal(commit))
			Expect(report.Changes).To(HaveLen(len(tree.Changes)))
		}
		Expect(t.expect(ctx, 1, "diff", "--ref", "refs/pull/7/merge", "-o", "markdown")).To(HavePrefix(tree.Headline + "\n"))
		Expect(tree.Headline).To(Equal("2 appear, 1 starts a new run, 1 moves, 1 goes away, 1 Placement changes"))
		Expect(w.versions(ctx)).To(Equal(before))
		for _, e := range requests("hub") {
			if strings.HasSuffix(e.User.Username, ":"+w.name+":ci") {
				Expect(e.Write() && (e.Object == nil || !strings.HasSuffix(e.Object.Resource, "reviews"))).To(BeFalse(), "%s %s", e.Verb, e.RequestURI)
			}
		}

		By("applying it")
		jobs := map[string]int{}
		for _, name := range names {
			jobs[name] = w.jobsMade(name)
		}
		run(w.dir, "git", "push", "-q", "origin", "HEAD:"+branch)
		Eventually(w.commitRead).WithArguments(ctx).Should(Equal(commit))
		Eventually(w.line).WithArguments(ctx, "new").Should(HavePrefix("True Synced Healthy"))
		Expect(w.where(ctx, "new")).To(Equal([]string{"basalt"}))
		Eventually(func() []string { return membersOfRuns(w.fmc(ctx, "again")) }).Should(Equal([]string{"alpine", "basalt"}))
		Eventually(func() string { return w.fmc(ctx, "ends").Name }).Should(BeEmpty())
		Eventually(func() string { return string(w.fmc(ctx, "large").Status.State) }).Should(Equal("Waiting"))
		Expect(large.Placement.Waiting).To(HaveLen(1))
		waiting := w.fmc(ctx, "large").Status.Placement.Waiting
		Expect(waiting).To(HaveLen(1))
		Expect(waiting[0].Name).To(Equal(large.Placement.Waiting[0].Member))
		Expect(membersOfRuns(w.fmc(ctx, "stays"))).To(Equal([]string{"alpine"}))
		Expect(w.jobsMade("stays")).To(Equal(jobs["stays"]))
		Expect(w.jobsMade("other")).To(Equal(jobs["other"]))

		By("running again what has moved")
		Expect(hub.Patch(ctx, w.fmc(ctx, "stays"), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"minifleet.dev/rerun-at":"now"}}}`)))).To(Succeed())
		Eventually(func() []string { return membersOfRuns(w.fmc(ctx, "stays")) }).Should(Equal([]string{"alpine", "basalt"}))
	})
})

// membersOfRuns are the members that a FleetMiniCluster has runs on.
func membersOfRuns(f *v1alpha1.FleetMiniCluster) []string {
	out := map[string]bool{}
	for i := range f.Status.Runs {
		out[f.Status.Runs[i].Cluster] = true
	}
	return slices.Sorted(maps.Keys(out))
}
