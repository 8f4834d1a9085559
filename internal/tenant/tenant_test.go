package tenant_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/tenant"
)

func TestMayUse(t *testing.T) {
	selector := func(s *metav1.LabelSelector) *v1alpha1.NamespaceAccess {
		return &v1alpha1.NamespaceAccess{From: v1alpha1.NamespacesFromSelector, Selector: s}
	}
	cases := map[string]struct {
		access *v1alpha1.NamespaceAccess
		want   bool
	}{
		"nothing is said":           {nil, false},
		"all":                       {v1alpha1.AllNamespaces(), true},
		"named":                     {&v1alpha1.NamespaceAccess{From: v1alpha1.NamespacesFromNames, Names: []string{"climate", "physics"}}, true},
		"others are named":          {&v1alpha1.NamespaceAccess{From: v1alpha1.NamespacesFromNames, Names: []string{"climate", "physics-2"}}, false},
		"selected":                  {selector(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "physics"}}), true},
		"not selected":              {selector(&metav1.LabelSelector{MatchLabels: map[string]string{"team": "climate"}}), false},
		"any label":                 {selector(&metav1.LabelSelector{}), true},
		"no selector":               {selector(nil), false},
		"a selector that is none":   {selector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}), false},
		"something else is said":    {&v1alpha1.NamespaceAccess{From: "Anyone", Names: []string{"physics"}}, false},
		"all, and others are named": {&v1alpha1.NamespaceAccess{From: v1alpha1.NamespacesFromSelector, Names: []string{"physics"}}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tenant.MayUse(c.access, "physics", map[string]string{"team": "physics"}); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func targets(template string, only bool, names ...v1alpha1.TargetNamespace) v1alpha1.MemberClusterSpec {
	return v1alpha1.MemberClusterSpec{TargetNamespaces: &v1alpha1.TargetNamespaces{Template: template, Names: names, Only: only}}
}

var physics = v1alpha1.TargetNamespace{Namespace: "physics", Target: "hpc-7"}

func TestTarget(t *testing.T) {
	cases := map[string]struct {
		spec v1alpha1.MemberClusterSpec
		want string
	}{
		"the same on both":           {v1alpha1.MemberClusterSpec{}, "physics"},
		"one for all":                {v1alpha1.MemberClusterSpec{Namespace: "site"}, "site"},
		"a template":                 {targets("hub1-{namespace}", false), "hub1-physics"},
		"a name before the template": {targets("hub1-{namespace}", false, physics), "hpc-7"},
		"a name of another":          {targets("", false, v1alpha1.TargetNamespace{Namespace: "climate", Target: "c"}), "physics"},
		"a name, and nothing else":   {targets("", true, physics), "hpc-7"},
		"none":                       {targets("", true, v1alpha1.TargetNamespace{Namespace: "climate", Target: "c"}), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tenant.Target(&c.spec, "physics"); got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A run stays where it is, whatever its MemberCluster says now; what begins when nothing of it is left goes where that says.
func TestNamespaceOf(t *testing.T) {
	live := v1alpha1.Run{ID: "00000000aa", Cluster: "alpine", State: v1alpha1.RunRunning}
	ended := v1alpha1.Run{ID: "00000000aa", Cluster: "alpine", State: v1alpha1.RunSucceeded}
	in := func(r v1alpha1.Run, namespace string) v1alpha1.Run {
		r.Namespace = namespace
		return r
	}
	moved := targets("hub1-{namespace}", false)
	cases := map[string]struct {
		spec   v1alpha1.MemberClusterSpec
		runs   []v1alpha1.Run
		listed bool
		want   string
	}{
		"no run":                           {moved, nil, false, "hub1-physics"},
		"no run yet":                       {moved, nil, true, "hub1-physics"},
		"live":                             {moved, []v1alpha1.Run{in(live, "old")}, true, "old"},
		"live, and in the ledger only":     {moved, []v1alpha1.Run{in(live, "old")}, false, "old"},
		"live since an earlier version":    {moved, []v1alpha1.Run{live}, true, "physics"},
		"live in the one for all":          {v1alpha1.MemberClusterSpec{Namespace: "site"}, []v1alpha1.Run{live}, true, "site"},
		"ended, and something is left":     {moved, []v1alpha1.Run{in(ended, "old")}, true, "old"},
		"ended, and nothing is left":       {moved, []v1alpha1.Run{in(ended, "old")}, false, "hub1-physics"},
		"the latest of several":            {moved, []v1alpha1.Run{in(ended, "older"), in(live, "old")}, true, "old"},
		"of another member":                {moved, []v1alpha1.Run{{Cluster: "basalt", State: v1alpha1.RunRunning, Namespace: "old"}}, true, "hub1-physics"},
		"there is none for the namespace":  {targets("", true, v1alpha1.TargetNamespace{Namespace: "climate", Target: "c"}), nil, false, ""},
		"live, and there is none any more": {targets("", true, v1alpha1.TargetNamespace{Namespace: "climate", Target: "c"}), []v1alpha1.Run{in(live, "old")}, true, "old"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "physics", Name: "lammps"}}
			f.Status.Runs = c.runs
			if c.listed {
				f.Status.Clusters = []v1alpha1.ClusterStatus{{Name: "alpine"}}
			}
			if got := tenant.NamespaceOf(f, "alpine", &c.spec); got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestConfined(t *testing.T) {
	cases := map[string]struct {
		spec v1alpha1.MemberClusterSpec
		want []string
	}{
		"to nothing":        {v1alpha1.MemberClusterSpec{}, nil},
		"names alone":       {targets("", false, physics), nil},
		"to one":            {v1alpha1.MemberClusterSpec{Namespace: "site"}, []string{"site"}},
		"to those of names": {targets("", true, physics, v1alpha1.TargetNamespace{Namespace: "climate", Target: "c"}), []string{"hpc-7", "c"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, tenant.Confined(&c.spec)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDenied(t *testing.T) {
	there := func(labels, annotations map[string]string) tenant.Namespace {
		return tenant.Namespace{Name: "physics", Labels: labels, Annotations: annotations}
	}
	made := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelHubNamespace: "physics"}
	ours, theirs := map[string]string{v1alpha1.AnnotationFleetID: "fleet"}, map[string]string{v1alpha1.AnnotationFleetID: "other"}
	missing := tenant.Namespace{Missing: true}
	cases := map[string]struct {
		spec  v1alpha1.MemberClusterSpec
		found tenant.Namespace
		want  string // a part of what is said; empty for nothing
	}{
		"it is missing":                              {v1alpha1.MemberClusterSpec{}, missing, ""},
		"made for it":                                {v1alpha1.MemberClusterSpec{}, there(made, ours), ""},
		"made for it by another fleet":               {v1alpha1.MemberClusterSpec{}, there(made, theirs), "made for another fleet"},
		"made before namespaces were labelled":       {v1alpha1.MemberClusterSpec{}, there(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}, nil), ""},
		"labelled for it":                            {v1alpha1.MemberClusterSpec{}, there(map[string]string{v1alpha1.LabelHubNamespace: "physics"}, nil), ""},
		"labelled for another":                       {v1alpha1.MemberClusterSpec{}, there(map[string]string{v1alpha1.LabelHubNamespace: "climate"}, nil), "is for another namespace of the hub"},
		"made for another":                           {v1alpha1.MemberClusterSpec{}, there(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelHubNamespace: "climate"}, ours), "is for another namespace of the hub"},
		"a stranger's":                               {v1alpha1.MemberClusterSpec{}, there(nil, nil), "kubectl label namespace physics minifleet.dev/hub-namespace=physics"},
		"a stranger's that has a label of everybody": {v1alpha1.MemberClusterSpec{}, there(map[string]string{"app.kubernetes.io/managed-by": "Helm"}, nil), "was not made by MiniFleet"},
		"a stranger's that is listed":                {targets("", false, v1alpha1.TargetNamespace{Namespace: "physics", Target: "physics"}), there(nil, nil), ""},
		"being deleted":                              {v1alpha1.MemberClusterSpec{}, tenant.Namespace{Terminating: true}, "is being deleted"},
		"reserved":                                   {targets("kube-{namespace}", false), missing, "namespace kube-physics of the member is reserved (kube-*)"},
		"reserved, and listed":                       {targets("", false, v1alpha1.TargetNamespace{Namespace: "physics", Target: "kube-system"}), there(nil, nil), "reserved"},
		"reserved, and the only one":                 {v1alpha1.MemberClusterSpec{Namespace: "kube-public"}, there(nil, nil), "reserved"},
		"by another prefix made before the template": {targets("x-{namespace}", false), there(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}, nil), "was not made by MiniFleet"},
		"too long a name":                            {targets(strings.Repeat("a", 60)+"{namespace}", false), missing, "is no name of a namespace"},
		"none for this namespace":                    {targets("", true, v1alpha1.TargetNamespace{Namespace: "climate", Target: "c"}), missing, "add it to spec.targetNamespaces.names of MemberCluster alpine"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			claim := tenant.Claim{
				Hub: "physics", Target: tenant.Target(&c.spec, "physics"), Member: "alpine", FleetID: "fleet", Spec: &c.spec, Reserved: tenant.DefaultReserved,
			}
			got := claim.Denied(c.found)
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q in it", got, c.want)
			}
			if strings.Contains(got, "climate") {
				t.Errorf("names another tenant: %q", got)
			}
		})
	}
}

// Whoever has a namespace of the hub that is made may use it, and nobody else.
func TestMarksPermitTheirOwn(t *testing.T) {
	spec := targets("hub1-{namespace}", false)
	claim := func(hub, fleet string) tenant.Claim {
		return tenant.Claim{Hub: hub, Target: "hub1-physics", Member: "alpine", FleetID: fleet, Spec: &spec}
	}
	labels, annotations := claim("physics", "fleet").Marks()
	if labels["pod-security.kubernetes.io/enforce"] != "baseline" {
		t.Errorf("labels %v", labels)
	}
	n := tenant.Namespace{Name: "hub1-physics", Labels: labels, Annotations: annotations}
	if why := claim("physics", "fleet").Denied(n); why != "" {
		t.Error(why)
	}
	for _, other := range []tenant.Claim{claim("climate", "fleet"), claim("physics", "other")} {
		if other.Denied(n) == "" {
			t.Errorf("%+v may use it", other)
		}
	}
	spec.TargetNamespaces.PodSecurity = "restricted"
	if labels, _ := claim("physics", "fleet").Marks(); labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("labels %v", labels)
	}
}

func TestReserved(t *testing.T) {
	if err := (tenant.Reserved{"kube-*", "x"}).Validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "[a"} {
		if (tenant.Reserved{bad}).Validate() == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for name, want := range map[string]bool{"kube-system": true, "kube": false, "minifleet-system": true, "minifleet-demo": false} {
		if _, got := tenant.DefaultReserved.Has(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
