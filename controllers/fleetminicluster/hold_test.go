package fleetminicluster

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

func requestFor(name string) mcreconcile.Request {
	return mcreconcile.Request{Request: reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "hpc", Name: name}}}
}

func on(name string, state v1alpha1.RunState, members ...string) *v1alpha1.FleetMiniCluster {
	f := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: name}}
	for _, member := range members {
		f.Status.Runs = append(f.Status.Runs, v1alpha1.Run{ID: member, Cluster: member, State: state})
	}
	return f
}

// Only what has something on a member of which it is not known yet whether it can be reached waits for that.
func TestHoldBack(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	told := on("told", v1alpha1.RunSucceeded)
	told.Status.Clusters = []v1alpha1.ClusterStatus{{Name: "connecting"}}
	registered := func(name string) *v1alpha1.MemberCluster {
		return &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	provider := clusters.NewProvider(logr.Discard(), func() time.Time { return now }, func(string, bool) {})
	for _, name := range []string{"connecting", "quarantined"} {
		target := clusters.Target{}
		if name == "quarantined" {
			target.Quarantine = &v1alpha1.Quarantine{}
		}
		provider.Ensure(name, target)
	}
	r := &Reconciler{Options: Options{
		Provider: provider, Now: func() time.Time { return now },
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(registered("next"), registered("connecting"), registered("quarantined"),
			told, on("live", v1alpha1.RunRunning, "connecting"), on("next", v1alpha1.RunStarting, "quarantined", "next"),
			on("ended", v1alpha1.RunSucceeded, "connecting"), on("away", v1alpha1.RunRunning, "quarantined", "unregistered"),
			on("new", v1alpha1.RunRunning)).Build(),
	}}
	for name, want := range map[string]time.Duration{
		"live": time.Second, "told": time.Second, "next": time.Second, "ended": 0, "away": 0, "new": 0, "none": 0,
	} {
		if got := r.holdBack(requestFor(name), now.Add(time.Second)); got != want {
			t.Errorf("%s: held back for %s, want %s", name, got, want)
		}
		if got := r.holdBack(requestFor(name), now); got != 0 {
			t.Errorf("%s: held back for %s when the hub has run for long", name, got)
		}
	}
}

// What is held back is one request with what is not any more, and what is to wait anyway is left alone.
func TestStartQueue(t *testing.T) {
	held := map[string]bool{"a": true, "b": true}
	asked := map[string]int{}
	q := &startQueue{PriorityQueue: priorityqueue.New[mcreconcile.Request]("test"), hold: func(r mcreconcile.Request) time.Duration {
		if asked[r.Name]++; held[r.Name] {
			return time.Hour
		}
		return 0
	}}
	defer q.ShutDown()
	q.AddWithOpts(priorityqueue.AddOpts{}, requestFor("a"), requestFor("b"))
	q.Add(requestFor("a"))
	q.AddWithOpts(priorityqueue.AddOpts{After: time.Hour}, requestFor("c"))
	q.Add(requestFor("d"))
	if got, _ := q.Get(); got.Name != "d" {
		t.Fatalf("%s is not held back", got.Name)
	}
	q.Done(requestFor("d"))
	held["a"] = false
	q.Add(requestFor("a"))
	if got, _ := q.Get(); got.Name != "a" {
		t.Fatalf("%s comes", got.Name)
	}
	q.Done(requestFor("a"))
	if q.Len() != 0 {
		t.Errorf("%d requests are left to be made now", q.Len())
	}
	if diff := cmp.Diff(map[string]int{"a": 3, "b": 1, "d": 1}, asked); diff != "" {
		t.Error(diff)
	}
}
