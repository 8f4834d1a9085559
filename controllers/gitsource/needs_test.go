package gitsource

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/grant"
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
	needs := needsOf(privileged(maxNeeds + 2))
	source := newSource()
	source.Spec.Allow = v1alpha1.Permissions()
	for allowedByNamespace, wantProblems := range map[string]int{"": 2, "HostPath": 2, "HostNamespaces": 0} {
		t.Run("namespace allows "+allowedByNamespace, func(t *testing.T) {
			namespace := grant.OfNamespace("hpc", map[string]string{v1alpha1.AnnotationAllow: allowedByNamespace})
			d := declarationOf(source, namespace, needs, nil)
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
			d := declarationOf(source, grant.OfNamespace("hpc", map[string]string{v1alpha1.AnnotationAllow: tc.namespace}), needsOf(privileged(1)), nil)
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
	needs := needsOf([]parse.Object{{Kind: parse.KindMiniCluster, Name: "m", Path: "a.yaml", MiniCluster: m}})
	d := declarationOf(newSource(), grant.OfNamespace("hpc", nil), needs, nil)
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
	d := declarationOf(source, grant.OfNamespace("hpc", nil), needsOf(objects), have)
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
	if _, err := r.declare(t.Context(), source, grant.Namespace{Name: "hpc"}, treeOf(privileged(2)...), nil); err != nil {
		t.Fatal(err)
	}
	first := stored()
	if len(first.Status.Needs) != 2 {
		t.Errorf("the status lists %v", first.Status.Needs)
	}
	if _, err := r.declare(t.Context(), source, grant.Namespace{Name: "hpc"}, treeOf(privileged(2)...), nil); err != nil {
		t.Fatal(err)
	}
	if again := stored(); again.ResourceVersion != first.ResourceVersion {
		t.Error("the same needs are written again")
	}
}
