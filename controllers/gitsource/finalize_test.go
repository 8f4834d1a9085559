package gitsource

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// A source that is deleted takes with it what it has created, if it is to, and waits for the end of that.
func TestFinalize(t *testing.T) {
	deletes := func(s *v1alpha1.GitSource) { s.Spec.DeletionPolicy = v1alpha1.SourceDelete }
	for name, tc := range map[string]struct {
		change      func(*v1alpha1.GitSource)
		terminating bool // the namespace
		steps       []string
		left        []string // on the hub, at the end
		event       string
	}{
		"it deletes": {
			change: deletes,
			steps:  []string{"waits for 3 objects that it has created (spec.deletionPolicy: Delete): FleetMiniCluster/a, FleetMiniCluster/b, Placement/p", "waits for 1 objects"},
			left:   []string{"FleetMiniCluster/kept", "FleetMiniCluster/theirs"},
			event:  "Normal CleanedUp everything that this source has created is deleted, but for what is kept: FleetMiniCluster/kept",
		},
		"it orphans":                     {change: func(*v1alpha1.GitSource) {}, left: allOnHub, event: "spec.deletionPolicy is Orphan"},
		"it is suspended":                {change: func(s *v1alpha1.GitSource) { deletes(s); s.Spec.Suspend = true }, left: allOnHub, event: "spec.suspend is true"},
		"it is dry":                      {change: func(s *v1alpha1.GitSource) { deletes(s); s.Spec.Mode = v1alpha1.SourceDryRun }, left: allOnHub, event: "spec.mode is DryRun"},
		"its namespace is being deleted": {change: deletes, terminating: true, left: allOnHub, event: "its namespace is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			source := newSource()
			source.UID, source.Finalizers = "u1", []string{v1alpha1.Finalizer}
			tc.change(source)
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hpc", UID: "ns"}}
			if tc.terminating {
				namespace.DeletionTimestamp, namespace.Finalizers = &metav1.Time{Time: noon}, []string{"kubernetes"}
			}
			hub := newHub(t, append(objectsOfSource(), source, namespace)...)
			recorder := events.NewFakeRecorder(10)
			r := &Reconciler{Client: hub, Live: hub, Recorder: recorder, Now: func() time.Time { return noon }}
			if err := hub.Delete(t.Context(), source); err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				err := hub.Get(t.Context(), client.ObjectKeyFromObject(source), source)
				if apierrors.IsNotFound(err) {
					if i != len(tc.steps)+1 {
						t.Errorf("it went after %d steps, want %d", i, len(tc.steps)+1)
					}
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if _, err := r.finalize(t.Context(), source); err != nil {
					t.Fatal(err)
				}
				if i < len(tc.steps) {
					if got := conditions.GetMessage(source, v1alpha1.ConditionReady); !strings.Contains(got, tc.steps[i]) {
						t.Errorf("step %d: %s", i, got)
					}
				}
				endDeletion(t, hub, "b")
			}
			have, err := readHub(t.Context(), r.Client, "hpc")
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for key := range have {
				left = append(left, key)
			}
			if diff := cmp.Diff(tc.left, left, cmpopts.SortSlices(strings.Compare)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			last := ""
			for len(recorder.Events) > 0 {
				last = <-recorder.Events
			}
			if !strings.Contains(last, tc.event) {
				t.Errorf("event %q, want %q", last, tc.event)
			}
		})
	}
}

var allOnHub = []string{"FleetMiniCluster/a", "FleetMiniCluster/b", "FleetMiniCluster/kept", "FleetMiniCluster/theirs", "Placement/p"}

// objectsOfSource are a and b, of which b has a finalizer, a Placement, one that is to be kept, and one of another source.
func objectsOfSource() []client.Object {
	var out []client.Object
	for _, name := range []string{"a", "b", "kept", "theirs"} {
		f := onHub(name, "fleet", name+".yaml")
		f.ResourceVersion, f.Annotations[v1alpha1.AnnotationSourceUID] = "", "u1"
		switch name {
		case "b":
			f.Finalizers = []string{v1alpha1.Finalizer}
		case "kept":
			f.Annotations[v1alpha1.AnnotationPrune] = v1alpha1.PruneDisabled
		case "theirs":
			f.Labels[v1alpha1.LabelSource] = "other"
		}
		out = append(out, f)
	}
	p := &v1alpha1.Placement{ObjectMeta: onHub("p", "fleet", "p.yaml").ObjectMeta}
	p.ResourceVersion = ""
	return append(out, p)
}

// endDeletion takes the finalizer from an object that is being deleted, if it is.
func endDeletion(t *testing.T, hub client.Client, name string) {
	t.Helper()
	var f v1alpha1.FleetMiniCluster
	if err := hub.Get(t.Context(), client.ObjectKey{Namespace: "hpc", Name: name}, &f); err != nil || f.DeletionTimestamp.IsZero() || f.Annotations["waited"] == "" {
		if err == nil && !f.DeletionTimestamp.IsZero() {
			f.Annotations["waited"] = "true"
			if err := hub.Update(t.Context(), &f); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	controllerutil.RemoveFinalizer(&f, v1alpha1.Finalizer)
	if err := hub.Update(t.Context(), &f); err != nil {
		t.Fatal(err)
	}
}

func TestSetFinalizer(t *testing.T) {
	for name, tc := range map[string]struct {
		policy    v1alpha1.SourceDeletionPolicy
		mode      v1alpha1.SourceMode
		has, want bool
	}{
		"by default":                 {},
		"Orphan":                     {policy: v1alpha1.SourceOrphan},
		"Delete":                     {policy: v1alpha1.SourceDelete, want: true},
		"Delete, as before":          {policy: v1alpha1.SourceDelete, has: true, want: true},
		"Orphan again":               {policy: v1alpha1.SourceOrphan, has: true},
		"Delete, in a dry run":       {policy: v1alpha1.SourceDelete, mode: v1alpha1.SourceDryRun},
		"Delete, now in a dry run":   {policy: v1alpha1.SourceDelete, mode: v1alpha1.SourceDryRun, has: true, want: true},
		"Orphan, now in a dry run":   {policy: v1alpha1.SourceOrphan, mode: v1alpha1.SourceDryRun, has: true},
		"Delete, applied explicitly": {policy: v1alpha1.SourceDelete, mode: v1alpha1.SourceApply, want: true},
	} {
		source := newSource()
		source.Spec.DeletionPolicy, source.Spec.Mode = tc.policy, tc.mode
		if tc.has {
			source.Finalizers = []string{v1alpha1.Finalizer}
		}
		r := &Reconciler{Client: newHub(t, source)}
		if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(source), source); err != nil {
			t.Fatal(err)
		}
		if err := r.setFinalizer(t.Context(), source); err != nil {
			t.Fatal(err)
		}
		var stored v1alpha1.GitSource
		if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(source), &stored); err != nil {
			t.Fatal(err)
		}
		if got := controllerutil.ContainsFinalizer(&stored, v1alpha1.Finalizer); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
