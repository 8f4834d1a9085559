package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// onlyFor has a member used by these worlds alone, each in a namespace of its own there, until the test ends.
func onlyFor(ctx context.Context, member string, shares []v1alpha1.NamespaceShare, worlds ...*world) {
	GinkgoHelper()
	access := &v1alpha1.NamespaceAccess{From: v1alpha1.NamespacesFromNames}
	for _, w := range worlds {
		access.Names = append(access.Names, w.name)
	}
	merge := func(ctx context.Context, spec map[string]any) error {
		patch, err := json.Marshal(map[string]any{"spec": spec})
		if err != nil {
			return err
		}
		m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: member}}
		return hub.Patch(ctx, m, client.RawPatch(types.MergePatchType, patch))
	}
	Expect(merge(ctx, map[string]any{
		"namespaces": access, "shares": shares, "targetNamespaces": map[string]any{"template": "hub1-{namespace}"},
	})).To(Succeed())
	DeferCleanup(func(ctx SpecContext) error {
		return merge(ctx, map[string]any{
			"namespaces": map[string]any{"from": "All", "names": nil}, "shares": nil, "targetNamespaces": nil,
		})
	})
}

// asTeam lets a user edit in the namespace of a world, as an administrator of the hub lets a team.
func (w *world) asTeam(ctx context.Context, user string) {
	GinkgoHelper()
	// What Kubernetes adds up to edit, and this hub, which runs no such controller, does not.
	for i, role := range []string{"minifleet-editor", "minifleet-viewer", "system:aggregate-to-edit", "system:aggregate-to-view"} {
		Expect(hub.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: fmt.Sprint(user, "-", i)},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})).To(Succeed())
	}
	Eventually(func() string {
		path, args := w.kubectlCommand([]string{"--as", user, "auth", "can-i", "create", "fleetminiclusters"})
		out, _ := try("", path, args...)
		return strings.TrimSpace(out)
	}).Should(Equal("yes"))
}

// jobsIn are the Jobs in a namespace of each member: MEMBER NAME.
func jobsIn(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	var out []string
	for member, c := range members {
		var list batchv1.JobList
		Expect(c.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
		for i := range list.Items {
			out = append(out, member+" "+list.Items[i].Name)
		}
	}
	return out
}

var _ = Describe("Two teams on three members", func() {
	It("use what each was given, and learn nothing of each other", func(ctx SpecContext) {
		physics, climate := newWorld(ctx), newWorld(ctx)
		one := int32(1)
		onlyFor(ctx, "alpine", []v1alpha1.NamespaceShare{{
			Name: "teams", Namespaces: v1alpha1.ShareNamespaces{Names: []string{physics.name, climate.name}}, Runs: &one,
		}}, physics, climate)
		onlyFor(ctx, "basalt", nil, physics)
		onlyFor(ctx, "cinder", nil, climate)
		for _, team := range []*world{physics, climate} {
			team.asTeam(ctx, team.name+"-user")
			team.place(ctx, "everywhere", nil, nil)
		}
		user := physics.name + "-user"

		By("running on all members that each may use, in a namespace of its own")
		physics.commit("run", map[string]string{"a.yaml": miniCluster("spectra").on("everywhere").held().yaml()})
		climate.commit("run", map[string]string{"a.yaml": miniCluster("ocean").on("everywhere").held().yaml()})
		Eventually(physics.line).WithArguments(ctx, "spectra").Should(Equal("True Synced Progressing 2/2 4/4"))
		Eventually(climate.line).WithArguments(ctx, "ocean").Should(Equal("True Synced Progressing 2/2 4/4"))
		Expect(jobsIn(ctx, "hub1-"+physics.name)).To(ConsistOf("alpine spectra", "basalt spectra"))
		Expect(jobsIn(ctx, "hub1-"+climate.name)).To(ConsistOf("alpine ocean", "cinder ocean"))
		Expect(append(jobsIn(ctx, physics.name), jobsIn(ctx, climate.name)...)).To(BeEmpty())

		By("asking for a member of the other team, whatever it tolerates")
		Expect(hub.Create(ctx, &v1alpha1.Placement{
			ObjectMeta: metav1.ObjectMeta{Namespace: physics.name, Name: "theirs"},
			Spec: v1alpha1.PlacementSpec{
				ClusterNames: []string{"cinder"}, Tolerations: []v1alpha1.Toleration{{Operator: v1alpha1.TolerateExists}},
			},
		})).To(Succeed())
		physics.commit("ask for theirs", map[string]string{"b.yaml": miniCluster("intruder").on("theirs").yaml()})
		Eventually(physics.ready).WithArguments(ctx, "intruder").Should(Equal("False NoClusterMatches"))

		By("asking for more of the shared member than its share, with a huge priority")
		greedy := `{"apiVersion":"minifleet.dev/v1alpha1","kind":"FleetMiniCluster","metadata":{"name":"greedy"},"spec":{"priority":1000000,
			"placement":{"clusterNames":["alpine"]},"miniCluster":{"size":1,"containers":[{"image":"example.org/app","command":"true"}]}}}`
		file := filepath.Join(workDir, physics.name+".json")
		Expect(os.WriteFile(file, []byte(greedy), 0o600)).To(Succeed())
		Expect(physics.kubectl("--as", user, "apply", "-f", file)).To(ContainSubstring("created"))
		Eventually(func() string { return physics.kubectl("get", "fmc", "greedy", "-o", "yaml") }).Should(ContainSubstring("quota exceeded"))
		Expect(jobsIn(ctx, "hub1-"+physics.name)).To(ConsistOf("alpine spectra", "basalt spectra"))

		By("trying what only administrators may")
		for _, attempt := range [][]string{
			{"get", "fmc", "-n", climate.name},
			{"get", "mcl"},
			{"annotate", "namespace", physics.name, "minifleet.dev/allow=Privileged"},
			{"label", "namespace", physics.name, "team=climate"},
			{"patch", "mcl", "cinder", "--type", "merge", "-p", `{"spec":{"namespaces":{"from":"All","names":null}}}`},
			{"patch", "gitsource", physics.name, "--type", "merge", "-p", `{"spec":{"allow":["Privileged"]}}`},
			{"patch", "fmc", "spectra", "--subresource", "status", "--type", "merge", "-p", `{"status":{"runs":[]}}`},
			{"get", "secrets", "-n", managerNamespace},
		} {
			Expect(physics.kubectlFails(append([]string{"--as", user}, attempt...)...)).To(Or(ContainSubstring("orbidden"), ContainSubstring("allow")), "%v", attempt)
		}

		By("reading all that it may")
		for _, what := range []string{"fmc,gs,pl", "events"} {
			out := physics.kubectl("--as", user, "get", what, "-o", "yaml")
			Expect(out).NotTo(ContainSubstring(climate.name), what)
			Expect(out).NotTo(ContainSubstring("ocean"), what)
		}
		Expect(physics.kubectl("--as", user, "get", "fmc", "spectra", "-o", "yaml")).NotTo(ContainSubstring("cinder"))
		Expect(climate.line(ctx, "ocean")).To(Equal("True Synced Progressing 2/2 4/4"))
	})
})
