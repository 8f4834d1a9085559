package memberwatches

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/retry"
)

// fakeMember is a member that is nothing but caches.
type fakeMember struct {
	cluster.Cluster
	informers *informertest.FakeInformers
}

func (m *fakeMember) GetCache() cache.Cache { return m.informers }

func newFakeMember() *fakeMember {
	return &fakeMember{informers: &informertest.FakeInformers{Scheme: clientgoscheme.Scheme}}
}

// toOwner maps an object to the FleetMiniCluster that its annotation names.
func toOwner(multicluster.ClusterName, cluster.Cluster) handler.TypedEventHandler[client.Object, mcreconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []mcreconcile.Request {
		namespace, name, _ := strings.Cut(obj.GetAnnotations()[v1alpha1.AnnotationOwner], "/")
		return []mcreconcile.Request{{Request: reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}}
	})
}

func watchesOfJobsAndMaps(t *testing.T) (*Watches, workqueue.TypedRateLimitingInterface[mcreconcile.Request]) {
	t.Helper()
	w := New()
	w.Add(&batchv1.Job{}, toOwner)
	w.Add(&corev1.ConfigMap{}, toOwner)
	queue := workqueue.NewTypedRateLimitingQueue(retry.Limiter[mcreconcile.Request]())
	t.Cleanup(queue.ShutDown)
	if err := w.Source().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	return w, queue
}

func TestMemberWatchesBringWhatHappensOnMembers(t *testing.T) {
	w, queue := watchesOfJobsAndMaps(t)
	member := newFakeMember()
	if err := w.Engage(t.Context(), "alpine", member); err != nil {
		t.Fatal(err)
	}
	jobs, err := member.informers.FakeInformerFor(t.Context(), &batchv1.Job{})
	if err != nil {
		t.Fatal(err)
	}
	jobs.Add(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		v1alpha1.AnnotationFleetID: "hub", v1alpha1.AnnotationOwner: "space/lammps",
	}}})
	got, _ := queue.Get()
	if got.String() != "space/lammps" || got.ClusterName != "" {
		t.Errorf("the request is %s for %q, want space/lammps for the hub", got, got.ClusterName)
	}
}

func TestMemberWatchesLeaveNothingBehind(t *testing.T) {
	w, _ := watchesOfJobsAndMaps(t)
	before := runtime.NumGoroutine()
	for range 10 {
		ctx, lose := context.WithCancel(t.Context())
		if err := w.Engage(ctx, "alpine", newFakeMember()); err != nil {
			t.Fatal(err)
		}
		lose()
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
