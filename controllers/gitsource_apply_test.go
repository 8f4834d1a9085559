package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// pickyHub creates what it is given, but for some names.
type pickyHub struct {
	client.Client

	refused map[string]error

	mu      sync.Mutex
	created map[string]bool
}

func (h *pickyHub) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := obj.(*v1alpha1.FleetMiniCluster); ok && !h.created["p"] {
		return errors.New("its Placement is not there yet")
	}
	h.created[obj.GetName()] = true
	return h.refused[obj.GetName()]
}

// Though several objects are written at a time, Placements come first, and what is told is in the order of files.
func TestApplyKeepsTheOrderOfFiles(t *testing.T) {
	hub := &pickyHub{created: map[string]bool{}, refused: map[string]error{}}
	s := &gitSync{
		r: &GitSourceReconciler{Client: hub}, tree: &tree{settled: map[string]string{}},
		source: &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: "source"}},
	}
	var applied, problems, unapplied []string
	const n = 10 * atOnce
	for i := range n {
		name := fmt.Sprintf("m%03d", i)
		o := parse.Object{Kind: parse.KindFleetMiniCluster, Name: name, Path: name + ".yaml", FleetMiniCluster: &v1alpha1.FleetMiniCluster{}}
		if i == n/2 {
			name = "p"
			o = parse.Object{Kind: parse.KindPlacement, Name: name, Path: "p.yaml", Placement: &v1alpha1.Placement{}}
			applied = append([]string{"Placement/p"}, applied...)
		} else if i%3 == 0 {
			hub.refused[name] = apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("FleetMiniCluster").GroupKind(), name, nil)
			problems, unapplied = append(problems, o.Path), append(unapplied, "FleetMiniCluster/"+name)
		} else {
			applied = append(applied, "FleetMiniCluster/"+name)
		}
		s.tree.parsed.Objects = append(s.tree.parsed.Objects, o)
	}
	if err := s.apply(t.Context(), existing{}); err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, p := range s.problems {
		told = append(told, p.Path)
	}
	if diff := cmp.Diff([][]string{applied, problems, unapplied}, [][]string{s.applied, told, s.unapplied}); diff != "" {
		t.Error(diff)
	}
	if len(hub.created) != n {
		t.Errorf("%d objects were written, want %d", len(hub.created), n)
	}
}
