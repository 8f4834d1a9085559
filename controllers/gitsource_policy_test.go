package controllers

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// A status holds a bounded number of MiniClusters; whoever is one too many is told, unless its namespace
// allows it what it needs.
func TestNeedsAreBounded(t *testing.T) {
	for allowedByNamespace, wantProblems := range map[string]int{"": 2, "HostPath": 2, "HostNamespaces": 0} {
		t.Run("namespace allows "+allowedByNamespace, func(t *testing.T) {
			source := &v1alpha1.GitSource{
				ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "fleet"},
				Spec:       v1alpha1.GitSourceSpec{Allow: v1alpha1.Permissions()},
			}
			s := needySync(t, source, allowedByNamespace, mostNeeds+2)
			if err := s.vouch(t.Context(), existing{}); err != nil {
				t.Fatal(err)
			}
			if len(s.problems) != wantProblems {
				t.Errorf("%d problems, want %d: %v", len(s.problems), wantProblems, s.problems)
			}
			for _, p := range s.problems {
				if p.Field != "spec.pod.hostPID" || !strings.Contains(p.Message, "minifleet.dev/allow=") {
					t.Errorf("the problem names no field or no mend: %+v", p)
				}
			}
			var stored v1alpha1.GitSource
			if err := s.r.Client.Get(t.Context(), client.ObjectKeyFromObject(source), &stored); err != nil {
				t.Fatal(err)
			}
			if len(stored.Status.Needs) != mostNeeds {
				t.Errorf("the status lists %d MiniClusters, want %d", len(stored.Status.Needs), mostNeeds)
			}
		})
	}
}

// What a source declared before is spoken for as long as it is on the hub as it was.
func TestOldNeedsStayWhileTheyAreOnTheHub(t *testing.T) {
	old := func(name string) v1alpha1.DeclaredNeed {
		return v1alpha1.DeclaredNeed{Name: name, Digest: "old", Permissions: []v1alpha1.Permission{"HostPath"}}
	}
	source := &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "fleet"},
		Status: v1alpha1.GitSourceStatus{Needs: []v1alpha1.DeclaredNeed{
			old("n0"), old("n1"), old("unreadable"), old("pruned"), old("gone"), old("handed-over"),
		}},
	}
	have := existing{}
	for name, owner := range map[string]string{"n0": "fleet", "n1": "fleet", "unreadable": "fleet", "pruned": "fleet", "handed-over": "other"} {
		have[objectKey(parse.KindFleetMiniCluster, name)] = &v1alpha1.FleetMiniCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelSource: owner}}}
	}
	s := needySync(t, source, "", 2)
	if err := s.vouch(t.Context(), have); err != nil {
		t.Fatal(err)
	}
	compare := func(when string, got []v1alpha1.DeclaredNeed, want ...string) {
		t.Helper()
		var names []string
		for _, n := range got {
			name := n.Name
			if n.Digest == "old" {
				name = "old " + name
			}
			names = append(names, name)
		}
		if strings.Join(names, ", ") != strings.Join(want, ", ") {
			t.Errorf("%s: %v, want %v", when, names, want)
		}
	}
	compare("before anything is applied", source.Status.Needs, "n0", "n1", "old n0", "old n1", "old unreadable", "old pruned")
	s.unapplied, s.pruned = []string{"FleetMiniCluster/n1"}, []string{"FleetMiniCluster/pruned"}
	compare("after", s.declaredNeeds(), "n0", "n1", "old n1", "old unreadable")
}

// needySync is a look at a source that declares so many MiniClusters that want hostPID.
func needySync(t *testing.T, source *v1alpha1.GitSource, allowedByNamespace string, count int) *gitSync {
	t.Helper()
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "hpc", Annotations: map[string]string{v1alpha1.AnnotationAllow: allowedByNamespace}}}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(namespace, source).WithStatusSubresource(source).Build()
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(source), source); err != nil {
		t.Fatal(err)
	}
	s := &gitSync{r: &GitSourceReconciler{Client: hub}, source: source, key: client.ObjectKeyFromObject(source), tree: &tree{}}
	for i := range count {
		m := &fluxv1alpha2.MiniCluster{Spec: fluxv1alpha2.MiniClusterSpec{Pod: fluxv1alpha2.PodSpec{HostPID: true}}}
		s.tree.parsed.Objects = append(s.tree.parsed.Objects, parse.Object{Kind: parse.KindMiniCluster, Name: fmt.Sprintf("n%d", i), Path: "a.yaml", MiniCluster: m})
	}
	return s
}
