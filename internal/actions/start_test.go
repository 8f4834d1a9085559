package actions_test

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/actions"
)

func request(edits ...func(*v1alpha1.FleetMiniCluster)) *v1alpha1.FleetMiniCluster {
	f := miniCluster(edits...)
	f.Status = v1alpha1.FleetMiniClusterStatus{}
	return f
}

func unnamed(f *v1alpha1.FleetMiniCluster) { f.Name, f.GenerateName = "", "lammps-" }

func larger(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Size = 8 }

func renamed(f *v1alpha1.FleetMiniCluster) { f.Name = "other" }

func TestStart(t *testing.T) {
	type call struct {
		object  *v1alpha1.FleetMiniCluster
		key     string
		changed bool
		kind    actions.ErrorKind
		err     string
	}
	cases := map[string]struct {
		calls []call
		count int
	}{
		"once":                           {[]call{{object: request(), key: "k", changed: true}}, 1},
		"twice with the same key":        {[]call{{object: request(), key: "k", changed: true}, {object: request(), key: "k"}}, 1},
		"twice, without labels":          {[]call{{object: request(), key: "k", changed: true}, {object: request(func(f *v1alpha1.FleetMiniCluster) { f.Labels, f.Annotations = nil, nil }), key: "k"}}, 1},
		"twice with a generated name":    {[]call{{object: request(unnamed), key: "k", changed: true}, {object: request(unnamed), key: "k"}}, 1},
		"two keys, generated names":      {[]call{{object: request(unnamed), key: "k", changed: true}, {object: request(unnamed), key: "l", changed: true}}, 2},
		"the same key, other content":    {[]call{{object: request(), key: "k", changed: true}, {object: request(larger), key: "k", kind: actions.Conflict, err: "idempotency key: has started something else before"}}, 1},
		"the same key, another name":     {[]call{{object: request(), key: "k", changed: true}, {object: request(renamed), key: "k", kind: actions.Conflict, err: "FleetMiniCluster hpc/lammps: idempotency key"}}, 1},
		"no key":                         {[]call{{object: request(), changed: true}, {object: request(), kind: actions.Conflict, err: "metadata.name: exists already"}}, 1},
		"another key":                    {[]call{{object: request(), key: "k", changed: true}, {object: request(), key: "l", kind: actions.Conflict, err: "exists already"}}, 1},
		"no name":                        {[]call{{object: request(func(f *v1alpha1.FleetMiniCluster) { f.Name = "" }), key: "k", kind: actions.Invalid, err: "metadata.name: is missing"}}, 0},
		"a label of a source":            {[]call{{object: request(fromGit), kind: actions.Invalid, err: "metadata.labels[minifleet.dev/source]: is for MiniFleet to set: remove it"}}, 0},
		"an annotation of a source":      {[]call{{object: request(annotated(v1alpha1.AnnotationSourceRevision, "x")), kind: actions.Invalid, err: "metadata.annotations[minifleet.dev/source-revision]"}}, 0},
		"a wrong size":                   {[]call{{object: request(func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Size = 9 }), kind: actions.Invalid, err: "spec.miniCluster.size: Invalid value: 9: must not be above maxSize, 8"}}, 0},
		"a status, finalizers and a UID": {[]call{{object: miniCluster(func(f *v1alpha1.FleetMiniCluster) { f.Finalizers, f.UID = []string{"a/b"}, "7" }), changed: true}}, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			hub := hub(t)
			for _, call := range c.calls {
				out, err := actions.Start(t.Context(), hub, call.object, call.key, actions.Options{})
				expect(t, err, call.kind, call.err)
				if err == nil && (out.Changed != call.changed || out.Object.Name == "" || len(out.Object.Status.Runs) > 0 || len(out.Object.Finalizers) > 0) {
					t.Errorf("outcome %+v", out)
				}
			}
			var list v1alpha1.FleetMiniClusterList
			if err := hub.List(t.Context(), &list); err != nil || len(list.Items) != c.count {
				t.Errorf("%d objects: %v", len(list.Items), err)
			}
		})
	}
}

func TestStartDry(t *testing.T) {
	hub := hub(t)
	out, err := actions.Start(t.Context(), hub, request(), "k", actions.Options{DryRun: true})
	if err != nil || !out.Changed {
		t.Fatalf("%+v: %v", out, err)
	}
	if err := hub.Get(t.Context(), lammps, &v1alpha1.FleetMiniCluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

// Who may not list is not kept from starting, and two requests at once are one.
func TestStartWithoutList(t *testing.T) {
	hub := interceptor.NewClient(hub(t), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "fleetminiclusters"}, "", nil)
		},
	})
	for _, changed := range []bool{true, false} {
		out, err := actions.Start(t.Context(), hub, request(unnamed), "k", actions.Options{})
		if err != nil || out.Changed != changed {
			t.Fatalf("%+v: %v", out, err)
		}
	}
	if _, err := actions.Start(t.Context(), hub, &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, "k", actions.Options{}); !actions.IsKind(err, actions.Invalid) {
		t.Errorf("an empty MiniCluster: %v", err)
	}
}
