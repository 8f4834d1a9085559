package gitsource

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/override"
	"github.com/minifleet/minifleet/internal/policy"
)

// privileged are so many MiniClusters that want hostPID, n0, n1 and so on.
func privileged(count int) []parse.Object {
	var out []parse.Object
	for i := range count {
		m := &fluxv1alpha2.MiniCluster{Spec: fluxv1alpha2.MiniClusterSpec{Pod: fluxv1alpha2.PodSpec{HostPID: true}}}
		out = append(out, parse.Object{Kind: parse.KindMiniCluster, Name: fmt.Sprintf("n%d", i), Path: "a.yaml", MiniCluster: m})
	}
	return out
}

// A status holds a bounded number of MiniClusters; whoever is one too many is told, unless its namespace
// allows it what it needs.
func TestNeedsAreBounded(t *testing.T) {
	needs := needsOf(policy.Rules{}, needing{}, privileged(maxNeeds+2))
	source := newSource()
	source.Spec.Allow = v1alpha1.Permissions()
	for allowedByNamespace, wantProblems := range map[string]int{"": 2, "HostPath": 2, "HostNamespaces": 0} {
		t.Run("namespace allows "+allowedByNamespace, func(t *testing.T) {
			namespace := grant.OfNamespace("hpc", map[string]string{v1alpha1.AnnotationAllow: allowedByNamespace})
			d := declarationOf(source, namespace, "", needs, nil)
			if len(d.problems) != wantProblems {
				t.Errorf("%d problems, want %d: %v", len(d.problems), wantProblems, d.problems)
			}
			for _, p := range d.problems {
				if p.Field != "spec.pod.hostPID" || !strings.Contains(p.Message, "minifleet.dev/allow=") {
					t.Errorf("the problem names no field or no remedy: %+v", p)
				}
			}
			if n := len(d.beforeApply()); n != maxNeeds {
				t.Errorf("the status lists %d MiniClusters, want %d", n, maxNeeds)
			}
		})
	}
}

// What is denied is a problem of its file, and is declared all the same: whether it runs is decided on the hub.
func TestDeniedNeedsAreProblemsAndAreDeclared(t *testing.T) {
	for name, tc := range map[string]struct {
		source    []v1alpha1.Permission
		namespace string
		problems  int
	}{
		"nobody allows it":              {nil, "", 1},
		"the source allows it":          {[]v1alpha1.Permission{"HostNamespaces"}, "", 0},
		"the namespace allows it":       {nil, "HostNamespaces", 0},
		"both allow something else":     {[]v1alpha1.Permission{"HostPath"}, "RunAsRoot", 1},
		"the namespace has a misprint":  {nil, "Hostnamespaces", 1},
		"the source allows a bit of it": {[]v1alpha1.Permission{"Host"}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			source := newSource()
			source.Spec.Allow = tc.source
			d := declarationOf(source, grant.OfNamespace("hpc", map[string]string{v1alpha1.AnnotationAllow: tc.namespace}), "", needsOf(policy.Rules{}, needing{}, privileged(1)), nil)
			if len(d.problems) != tc.problems || len(d.needs) != 1 {
				t.Errorf("problems %v, needs %v", d.problems, d.needs)
			}
			for _, p := range d.problems {
				if !strings.Contains(p.Message, "kubectl -n hpc patch gitsource fleet") {
					t.Errorf("the problem names no remedy: %s", p.Message)
				}
			}
		})
	}
}

func TestManyDeniedFieldsAreCounted(t *testing.T) {
	m := &fluxv1alpha2.MiniCluster{}
	for i := range grant.MaxDenied + 2 {
		m.Spec.Containers = append(m.Spec.Containers, fluxv1alpha2.MiniClusterContainer{
			Name: fmt.Sprintf("c%d", i), SecurityContext: corev1.SecurityContext{Privileged: ptr.To(true)},
		})
	}
	needs := needsOf(policy.Rules{}, needing{}, []parse.Object{{Kind: parse.KindMiniCluster, Name: "m", Path: "a.yaml", MiniCluster: m}})
	d := declarationOf(newSource(), grant.OfNamespace("hpc", nil), "", needs, nil)
	if len(d.problems) != grant.MaxDenied+1 {
		t.Fatalf("%d problems, want %d", len(d.problems), grant.MaxDenied+1)
	}
	if last := d.problems[grant.MaxDenied].Message; !strings.HasPrefix(last, "2 more fields") {
		t.Errorf("the last problem is: %s", last)
	}
}

// What a source declared before counts for as long as it is on the hub as it was.
func TestEarlierNeedsStayWhileTheyAreOnTheHub(t *testing.T) {
	source := newSource()
	for _, name := range []string{"n0", "n1", "unreadable", "pruned", "deleted", "handed-over"} {
		source.Status.Needs = append(source.Status.Needs, v1alpha1.DeclaredNeed{Name: name, Digest: "old", Permissions: []v1alpha1.Permission{"HostPath"}})
	}
	have := hubOf(onHub("n0", "fleet", ""), onHub("n1", "fleet", ""), onHub("unreadable", "fleet", ""), onHub("pruned", "fleet", ""), onHub("handed-over", "other", ""))
	objects := privileged(2)
	d := declarationOf(source, grant.OfNamespace("hpc", nil), "", needsOf(policy.Rules{}, needing{}, objects), have)
	names := func(needs []v1alpha1.DeclaredNeed) []string {
		var out []string
		for _, n := range needs {
			name := n.Name
			if n.Digest == "old" {
				name = "old " + name
			}
			out = append(out, name)
		}
		return out
	}
	for when, tc := range map[string]struct{ got, want []string }{
		"before anything is applied": {names(d.beforeApply()), []string{"n0", "n1", "old n0", "old n1", "old unreadable", "old pruned"}},
		"after all is applied":       {names(d.afterApply(objects, nil, []string{"FleetMiniCluster/pruned"})), []string{"n0", "n1", "old unreadable"}},
		"after one is refused": {names(d.afterApply(objects, []string{"FleetMiniCluster/n1"}, []string{"FleetMiniCluster/pruned"})),
			[]string{"n0", "n1", "old n1", "old unreadable"}},
		"after a prune was blocked": {names(d.afterApply(objects, nil, nil)), []string{"n0", "n1", "old unreadable", "old pruned"}},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
}

func TestDeclareRecordsNeedsBeforeAnythingIsApplied(t *testing.T) {
	source := newSource()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hpc"}}
	hub := newHub(t, namespace, source)
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(source), source); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Client: hub}
	stored := func() *v1alpha1.GitSource {
		var s v1alpha1.GitSource
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(source), &s); err != nil {
			t.Fatal(err)
		}
		return &s
	}
	declare := func() {
		t.Helper()
		d, err := r.declare(t.Context(), source, grant.Namespace{Name: "hpc"}, treeOf(privileged(2)...), nil)
		if err := errors.Join(err, r.record(t.Context(), source, d)); err != nil {
			t.Fatal(err)
		}
	}
	declare()
	first := stored()
	if len(first.Status.Needs) != 2 {
		t.Errorf("the status lists %v", first.Status.Needs)
	}
	declare()
	if again := stored(); again.ResourceVersion != first.ResourceVersion {
		t.Error("the same needs are written again")
	}
}

func overriding(path, value string) []v1alpha1.ClusterOverride {
	return []v1alpha1.ClusterOverride{{Name: "o", ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"zone": "north"}},
		Patches: []v1alpha1.JSONPatch{{Op: v1alpha1.PatchAdd, Path: path, Value: &apiextensionsv1.JSON{Raw: []byte(value)}}}}}
}

// A source declares a MiniCluster with the overrides that are beside it in Git, and with no others.
func TestNeedsNameTheOverridesInGit(t *testing.T) {
	image, host := overriding("/containers/0/image", `"example.org/app"`), overriding("/pod/hostPID", "true")
	mini := func(name, placement string, spec fluxv1alpha2.MiniClusterSpec) parse.Object {
		m := &fluxv1alpha2.MiniCluster{Spec: spec}
		if placement != "" {
			m.Labels = map[string]string{v1alpha1.LabelPlacement: placement}
		}
		return parse.Object{Kind: parse.KindMiniCluster, Name: name, MiniCluster: m}
	}
	fleet := func(name string, spec v1alpha1.FleetMiniClusterSpec) parse.Object {
		return parse.Object{Kind: parse.KindFleetMiniCluster, Name: name, FleetMiniCluster: &v1alpha1.FleetMiniCluster{Spec: spec}}
	}
	place := func(name string, overrides []v1alpha1.ClusterOverride) parse.Object {
		return parse.Object{Kind: parse.KindPlacement, Name: name, Placement: &v1alpha1.Placement{Spec: v1alpha1.PlacementSpec{Overrides: overrides}}}
	}
	needy := fluxv1alpha2.MiniClusterSpec{Containers: []fluxv1alpha2.MiniClusterContainer{{}}, Pod: fluxv1alpha2.PodSpec{HostIPC: true}}
	plain := fluxv1alpha2.MiniClusterSpec{Containers: []fluxv1alpha2.MiniClusterContainer{{}}}
	secret := *plain.DeepCopy()
	secret.Containers[0].Volumes = map[string]fluxv1alpha2.ContainerVolume{"v": {SecretName: "s", Path: "/s"}}
	objects := []parse.Object{
		mini("by-default", "", needy), mini("by-label", "images", needy), mini("of-the-hub", "elsewhere", needy),
		fleet("inline", v1alpha1.FleetMiniClusterSpec{MiniCluster: needy, Placement: &v1alpha1.PlacementSpec{Overrides: image}}),
		fleet("by-name", v1alpha1.FleetMiniClusterSpec{MiniCluster: needy, PlacementRef: &v1alpha1.LocalReference{Name: "hosts"}}),
		mini("needs-nothing", "images", plain), mini("needs-it-there", "hosts", plain), mini("with-a-secret", "plain", secret),
		place("images", image), place("hosts", host), place("plain", nil),
	}
	type declared struct{ overrides, permissions string }
	const ipc = "HostNamespaces"
	cases := map[string]struct {
		needing needing
		want    map[string]declared
	}{
		"with a default placement": {needing{placement: "hosts"}, map[string]declared{
			"by-default": {override.Digest(host), ipc}, "by-label": {override.Digest(image), ipc}, "of-the-hub": {"", ipc},
			"inline": {override.Digest(image), ipc}, "by-name": {override.Digest(host), ipc}, "needs-it-there": {override.Digest(host), ipc},
		}},
		"with another, and tokens allowed": {needing{placement: "plain", secrets: true}, map[string]declared{
			"by-default": {"", ipc}, "by-label": {override.Digest(image), ipc}, "of-the-hub": {"", ipc},
			"inline": {override.Digest(image), ipc}, "by-name": {override.Digest(host), ipc}, "needs-it-there": {override.Digest(host), ipc},
			"with-a-secret": {"", ""},
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := map[string]declared{}
			for _, n := range needsOf(policy.Rules{}, c.needing, objects) {
				got[n.entry.Name] = declared{n.entry.Overrides, policy.Join(n.entry.Permissions)}
				if n.entry.Permissions == nil || len(n.entry.Digest) != 64 {
					t.Errorf("%+v cannot be recorded", n.entry)
				}
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(declared{})); diff != "" {
				t.Errorf("declared (-want +got):\n%s", diff)
			}
		})
	}
}

// MiniClusters that may need a permission take no place from those that do need one.
func TestNeedsComeBeforeSecrets(t *testing.T) {
	var objects []parse.Object
	for i := range maxNeeds {
		m := &fluxv1alpha2.MiniCluster{Spec: fluxv1alpha2.MiniClusterSpec{Containers: []fluxv1alpha2.MiniClusterContainer{{ImagePullSecret: "s"}}}}
		objects = append(objects, parse.Object{Kind: parse.KindMiniCluster, Name: fmt.Sprintf("s%d", i), MiniCluster: m})
	}
	objects = append(objects, privileged(1)...)
	d := declarationOf(newSource(), grant.OfNamespace("hpc", nil), "", needsOf(policy.Rules{}, needing{secrets: true}, objects), nil)
	if len(d.needs) != maxNeeds || d.needs[0].Name != "n0" {
		t.Errorf("%d are listed, first %+v", len(d.needs), d.needs[0])
	}
}

// Needs are found anew when what they depend on has changed in the source, and else once.
func TestNeedsFollowTheDefaultPlacement(t *testing.T) {
	tree := treeOf(privileged(1)...)
	tree.parsed.Objects = append(tree.parsed.Objects, parse.Object{Kind: parse.KindPlacement, Name: "p",
		Placement: &v1alpha1.Placement{Spec: v1alpha1.PlacementSpec{Overrides: overriding("/tasks", "2")}}})
	source := newSource()
	overrides := func() string { return tree.needsOf(policy.Rules{}, needingOf(source))[0].entry.Overrides }
	if got := overrides(); got != "" {
		t.Errorf("without a default placement: %s", got)
	}
	source.Spec.DefaultPlacement = &v1alpha1.LocalReference{Name: "p"}
	if got := overrides(); got == "" {
		t.Error("the overrides of the default placement are not declared")
	}
}

// While new overrides are applied, the old ones count too, for as long as the hub has what they were for.
func TestEarlierOverridesStayUntilAllIsApplied(t *testing.T) {
	objects := privileged(1)
	now := needsOf(policy.Rules{}, needing{}, objects)
	before := now[0].entry
	before.Overrides = "old"
	source := newSource()
	source.Status.Needs = []v1alpha1.DeclaredNeed{before}
	d := declarationOf(source, grant.OfNamespace("hpc", nil), "", now, hubOf(onHub("n0", "fleet", "")))
	if diff := cmp.Diff([]v1alpha1.DeclaredNeed{now[0].entry, before}, d.beforeApply()); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]v1alpha1.DeclaredNeed{now[0].entry}, d.afterApply(objects, nil, nil)); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
}

// What a source allows does not count where nobody keeps people from editing that, and the source says so.
func TestWhatIsNotEnforcedIsAProblem(t *testing.T) {
	source := newSource()
	source.Spec.Allow = []v1alpha1.Permission{"HostNamespaces"}
	objects := privileged(1)
	d := declarationOf(source, grant.OfNamespace("hpc", nil), "there is no policy: install it", needsOf(policy.Rules{}, needing{}, objects), nil)
	if len(d.problems) != 1 || !strings.Contains(d.problems[0].Message, "minifleet.dev/allow=HostNamespaces, since what the source allows does not count: there is no policy") {
		t.Errorf("%v", d.problems)
	}
	condition := ready(source, progress{tree: treeOf(objects...), declared: d}, d.problems)
	if condition.Reason != v1alpha1.ReasonAllowUnenforced || !strings.Contains(condition.Message, "spec.allow does not count: there is no policy: install it; everything else") {
		t.Errorf("%+v", condition)
	}
	d = declarationOf(source, grant.OfNamespace("hpc", map[string]string{v1alpha1.AnnotationAllow: "HostNamespaces"}), "there is no policy", needsOf(policy.Rules{}, needing{}, objects), nil)
	if len(d.problems) != 0 {
		t.Errorf("what the namespace allows is a problem: %v", d.problems)
	}
}
