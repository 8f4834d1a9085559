package membercluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/internal/inflight"
	"github.com/minifleet/minifleet/controllers/internal/shards"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// newHub is a hub with these objects.
func newHub(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.MemberCluster{}, &v1alpha1.FleetMiniCluster{}).Build()
}

// newReconciler has no connection to any member. cache is what it reads as the hub's cache.
func newReconciler(hub, cache client.Client) *Reconciler {
	now := func() time.Time { return noon }
	return &Reconciler{
		Elsewhere: &shards.Members{Cached: none{}, Live: hub},
		Client:    cache, Cache: cache, APIReader: hub, Namespace: "minifleet-system", FleetID: "hub", Identity: &fleetOf{},
		Provider: clusters.NewProvider(logr.Discard(), now, func(string, bool) {}),
		Recorder: events.NewFakeRecorder(100), Now: now, InFlight: &inflight.Tracker{},
	}
}

// none is a cache that has nothing.
type none struct{ client.Reader }

func (none) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("memberclusters").GroupResource(), key.Name)
}

func (none) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// fleetOf is the identity of a fleet with which nothing can go wrong.
type fleetOf struct{ declared, forgotten []string }

func (f *fleetOf) Declare(member string, nothingLive bool) {
	if nothingLive {
		f.declared = append(f.declared, member)
	}
}

func (f *fleetOf) Forget(_ context.Context, member string) error {
	f.forgotten = append(f.forgotten, member)
	return nil
}

func (f *fleetOf) Refresh(context.Context) (time.Duration, error) { return 0, nil }

func eventsOf(r *Reconciler) []string {
	var out []string
	for recorded := r.Recorder.(*events.FakeRecorder).Events; len(recorded) > 0; {
		out = append(out, <-recorded)
	}
	return out
}

// newMember is the MemberCluster alpine, changed.
func newMember(changes ...func(*v1alpha1.MemberCluster)) *v1alpha1.MemberCluster {
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "alpine", UID: "alpine", Generation: 1, Finalizers: []string{v1alpha1.Finalizer}}}
	m.Spec.Namespaces = v1alpha1.AllNamespaces()
	m.Spec.KubeconfigSecretRef.Name = "alpine"
	for _, change := range changes {
		change(m)
	}
	return m
}

func draining(value string) func(*v1alpha1.MemberCluster) {
	return func(m *v1alpha1.MemberCluster) {
		m.Annotations = map[string]string{v1alpha1.AnnotationDrain: value}
	}
}

func deleted(policy v1alpha1.DeletionPolicy) func(*v1alpha1.MemberCluster) {
	return func(m *v1alpha1.MemberCluster) {
		m.Spec.DeletionPolicy, m.DeletionTimestamp = policy, &metav1.Time{Time: noon}
	}
}

// withRun is a FleetMiniCluster of namespace hpc with one run.
func withRun(name, member string, state v1alpha1.RunState) *v1alpha1.FleetMiniCluster {
	return &v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: name, UID: types.UID(name)},
		Status:     v1alpha1.FleetMiniClusterStatus{Runs: []v1alpha1.Run{{ID: "r-" + name, Cluster: member, State: state}}},
	}
}

// unreadable is a hub that cannot be listed.
type unreadable struct{ client.Client }

var errDown = errors.New("down")

func (unreadable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errDown
}
