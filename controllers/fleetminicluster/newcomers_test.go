package fleetminicluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/curvesecret"
)

// Only of what came while somebody was looking, and has had no run since, is it known that it never had one.
func TestNewcomers(t *testing.T) {
	created := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Name: "run", UID: "aa", CreationTimestamp: metav1.Now()}}
	moved := created.DeepCopy()
	moved.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	reconciled := created.DeepCopy()
	reconciled.Status.ObservedGeneration = 1
	begun := created.DeepCopy()
	begun.Status.Runs = []v1alpha1.Run{{ID: "1"}}
	update := func(n *newcomers, before, after *v1alpha1.FleetMiniCluster) {
		n.predicate().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	cases := map[string]struct {
		events func(*newcomers)
		want   bool
	}{
		"there before": {func(n *newcomers) { n.added(created, true) }, false},
		"created":      {func(n *newcomers) { n.added(created, false) }, true},
		"there before one handler, and created for another":     {func(n *newcomers) { n.added(created, true); n.added(created, false) }, false},
		"created before this process leads":                     {func(n *newcomers) { n.leading = make(chan struct{}); n.added(created, false) }, false},
		"created for one handler, and there before for another": {func(n *newcomers) { n.added(created, false); n.added(created, true) }, false},
		"come from another shard, long after it was made":       {func(n *newcomers) { n.added(moved, false) }, false},
		"come from another shard at once":                       {func(n *newcomers) { n.added(reconciled, false) }, false},
		"edited":                                                {func(n *newcomers) { n.added(created, false); update(n, created, created) }, true},
		"begun by another hub, whose ledger is lost": {func(n *newcomers) {
			n.added(created, false)
			update(n, created, begun)
			update(n, begun, created)
		}, false},
		"begun before another handler is told that it was created": {func(n *newcomers) {
			n.added(created, false)
			update(n, created, begun)
			n.added(created, false)
		}, false},
		"deleted": {func(n *newcomers) {
			n.added(created, false)
			n.predicate().Delete(event.DeleteEvent{Object: created})
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := newcomers{now: time.Now}
			c.events(&n)
			if n.has(created.UID) != c.want {
				t.Errorf("newcomer: %t", !c.want)
			}
		})
	}
}

// What Velero has put back without a status may have had runs, whether or not somebody was looking when it did.
func TestHadRuns(t *testing.T) {
	putBack := map[string]string{"velero.io/restore-name": "nightly-1"}
	for name, c := range map[string]struct {
		labels    map[string]string
		newcomer  bool
		successor bool
		want      *bool
	}{
		"there before":                   {nil, false, false, nil},
		"created":                        {nil, true, false, ptr.To(false)},
		"created after one was deleted":  {nil, true, true, nil},
		"put back":                       {putBack, false, false, ptr.To(true)},
		"put back while it looked":       {putBack, true, false, ptr.To(true)},
		"with another label, and before": {map[string]string{"velero.io/backup-name": "b"}, false, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			hub := fake.NewClientBuilder().WithIndex(&corev1.Secret{}, "type", func(client.Object) []string { return nil }).Build()
			r := Reconciler{keys: &curvesecret.Store{Client: hub, Reader: hub}}
			if _, err := r.keys.Collect(t.Context(), func() bool { return true }); err != nil {
				t.Fatal(err)
			}
			fmc := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{UID: "aa", Labels: c.labels}}
			if c.successor {
				r.keys.Deleted(client.ObjectKeyFromObject(fmc), "bb")
			}
			if c.newcomer {
				r.newcomers.set(fmc.UID, true)
			}
			if diff := cmp.Diff(c.want, r.hadRuns(fmc)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
