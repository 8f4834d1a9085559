package gitsource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/changes"
)

// newHub is a hub with these objects.
func newHub(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.GitSource{}).Build()
}

// newSource is the GitSource hpc/fleet.
func newSource() *v1alpha1.GitSource {
	return &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "fleet", Generation: 1}}
}

// fullCommit is the hash of the commit of treeOf.
const fullCommit = "0123456789abcdef0123456789abcdef01234567"

// treeOf is a tree that declares objects.
func treeOf(objects ...parse.Object) *tree {
	t := &tree{commit: fullCommit, revision: "main@0123456", parsed: parse.Result{Objects: objects}}
	t.inSync = t.inSync.forPlacement(nil)
	return t
}

// onHub is a FleetMiniCluster on the hub that a source owns, as a file declares it.
func onHub(name, owner, path string) *v1alpha1.FleetMiniCluster {
	return &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "hpc", Name: name, UID: "uid", ResourceVersion: "7",
		Labels:      map[string]string{v1alpha1.LabelSource: owner},
		Annotations: map[string]string{v1alpha1.AnnotationSourcePath: path + "#0", v1alpha1.AnnotationSourceDigest: "d1"},
	}}
}

// hubOf are FleetMiniClusters of the hub by their keys.
func hubOf(objects ...*v1alpha1.FleetMiniCluster) changes.Hub {
	out := changes.Hub{}
	for _, o := range objects {
		out[changes.Key(parse.KindFleetMiniCluster, o.Name)] = o
	}
	return out
}

// applyTree plans and applies a tree.
func applyTree(t *testing.T, to client.Client, source *v1alpha1.GitSource, tr *tree, have changes.Hub) (applied, error) {
	t.Helper()
	plan := changes.Compare(input(source, tr, have))
	tr.inSync.versions = plan.InSync
	return apply(t.Context(), to, to, source, &plan)
}

// refusingHub creates what it is given, but for some names.
type refusingHub struct {
	client.Client

	refused map[string]error

	mu      sync.Mutex
	created map[string]bool
}

func (h *refusingHub) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := obj.(*v1alpha1.FleetMiniCluster); ok && !h.created["p"] {
		return errors.New("its Placement is not there yet")
	}
	h.created[obj.GetName()] = true
	return h.refused[obj.GetName()]
}

// Though several objects are written at a time, Placements come first, and what is reported is in the order of files.
func TestApplyKeepsTheOrderOfFiles(t *testing.T) {
	hub := &refusingHub{created: map[string]bool{}, refused: map[string]error{}}
	var objects []parse.Object
	var changed, problems, refused []string
	const n = 10 * concurrentWrites
	for i := range n {
		name := fmt.Sprintf("m%03d", i)
		o := parse.Object{Kind: parse.KindFleetMiniCluster, Name: name, Path: name + ".yaml", FleetMiniCluster: &v1alpha1.FleetMiniCluster{}}
		if i == n/2 {
			name = "p"
			o = parse.Object{Kind: parse.KindPlacement, Name: name, Path: "p.yaml", Placement: &v1alpha1.Placement{}}
			changed = append([]string{"Placement/p"}, changed...)
		} else if i%3 == 0 {
			hub.refused[name] = apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("FleetMiniCluster").GroupKind(), name, nil)
			problems, refused = append(problems, o.Path), append(refused, "FleetMiniCluster/"+name)
		} else {
			changed = append(changed, "FleetMiniCluster/"+name)
		}
		objects = append(objects, o)
	}
	got, err := applyTree(t, hub, newSource(), treeOf(objects...), changes.Hub{})
	if err != nil {
		t.Fatal(err)
	}
	var reported []string
	for _, p := range got.problems {
		reported = append(reported, p.Path)
	}
	if diff := cmp.Diff([][]string{changed, problems, refused}, [][]string{got.changed, reported, got.refused}); diff != "" {
		t.Error(diff)
	}
	if len(hub.created) != n {
		t.Errorf("%d objects were written, want %d", len(hub.created), n)
	}
}

func TestApplyLeavesObjectsOfOthersAlone(t *testing.T) {
	o := parse.Object{Kind: parse.KindFleetMiniCluster, Name: "m", Path: "m.yaml", FleetMiniCluster: &v1alpha1.FleetMiniCluster{}}
	for name, tc := range map[string]struct {
		owner, message string
	}{
		"a person's":       {"", "FleetMiniCluster hpc/m exists already and was not created by a GitSource"},
		"another source's": {"other", "FleetMiniCluster hpc/m exists already and belongs to GitSource other"},
	} {
		t.Run(name, func(t *testing.T) {
			have := onHub("m", tc.owner, "m.yaml")
			got, err := applyTree(t, newHub(t, have), newSource(), treeOf(o), hubOf(have))
			if err != nil {
				t.Fatal(err)
			}
			if len(got.changed) != 0 || len(got.problems) != 1 || !strings.HasPrefix(got.problems[0].Message, tc.message) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// An object that was found in sync is not compared again until it, or the default placement, has changed.
func TestInSync(t *testing.T) {
	placement := &v1alpha1.LocalReference{Name: "gpu"}
	s := inSync{}.forPlacement(nil)
	s.versions["FleetMiniCluster/m"] = "7"
	for name, tc := range map[string]struct {
		got  inSync
		want string
	}{
		"the same placement":    {s.forPlacement(nil), "7"},
		"another placement":     {s.forPlacement(placement), ""},
		"another one, and back": {s.forPlacement(placement).forPlacement(nil), ""},
	} {
		if got := tc.got.versions["FleetMiniCluster/m"]; got != tc.want {
			t.Errorf("%s: in sync at %q, want %q", name, got, tc.want)
		}
	}
}

func TestApplyWritesWhatHasChangedOnly(t *testing.T) {
	object := func(image string) parse.Object {
		fmc := &v1alpha1.FleetMiniCluster{}
		fmc.Spec.MiniCluster.Pod.NodeSelector = map[string]string{"image": image}
		return parse.Object{Kind: parse.KindFleetMiniCluster, Name: "m", Path: "m.yaml", FleetMiniCluster: fmc}
	}
	source := newSource()
	hub := newHub(t)
	r := &Reconciler{Client: hub}
	apply := func(tr *tree) applied {
		t.Helper()
		have, err := readHub(t.Context(), r.Client, "hpc")
		if err != nil {
			t.Fatal(err)
		}
		out, err := applyTree(t, r.Client, source, tr, have)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first, second := treeOf(object("one")), treeOf(object("two"))
	for i, step := range []struct {
		tree *tree
		want []string
	}{
		{first, []string{"FleetMiniCluster/m"}}, {first, nil}, {first, nil}, {second, []string{"FleetMiniCluster/m"}}, {second, nil},
	} {
		if diff := cmp.Diff(step.want, apply(step.tree).changed); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
	var stored v1alpha1.FleetMiniCluster
	if err := hub.Get(t.Context(), client.ObjectKey{Namespace: "hpc", Name: "m"}, &stored); err != nil {
		t.Fatal(err)
	}
	if got := second.inSync.versions["FleetMiniCluster/m"]; got != stored.ResourceVersion {
		t.Errorf("in sync at version %q, want %q", got, stored.ResourceVersion)
	}
}

// What is created anew once the deletion of what had its name has ended is not applied yet.
func TestApplyNamesWhatIsStillBeingDeleted(t *testing.T) {
	o := parse.Object{Kind: parse.KindFleetMiniCluster, Name: "m", Path: "m.yaml", FleetMiniCluster: &v1alpha1.FleetMiniCluster{}}
	have := onHub("m", "fleet", "m.yaml")
	have.DeletionTimestamp, have.Finalizers = &metav1.Time{Time: noon}, []string{v1alpha1.Finalizer}
	got, err := applyTree(t, newHub(t, have), newSource(), treeOf(o), hubOf(have))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(applied{deleting: []string{"FleetMiniCluster/m"}}, got, cmp.AllowUnexported(applied{})); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}
