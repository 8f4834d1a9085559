package fleetminicluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Only of what came while somebody was looking, and has had no run since, is it known that it never had one.
func TestNewcomers(t *testing.T) {
	created := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Name: "run", UID: "aa"}}
	begun := created.DeepCopy()
	begun.Status.Runs = []v1alpha1.Run{{ID: "1"}}
	cases := map[string]struct {
		events func(toolscache.ResourceEventHandler)
		want   bool
	}{
		"there before": {func(h toolscache.ResourceEventHandler) { h.OnAdd(created, true) }, false},
		"created":      {func(h toolscache.ResourceEventHandler) { h.OnAdd(created, false) }, true},
		"edited":       {func(h toolscache.ResourceEventHandler) { h.OnAdd(created, false); h.OnUpdate(created, created) }, true},
		"begun by another hub, whose ledger is lost": {func(h toolscache.ResourceEventHandler) {
			h.OnAdd(created, false)
			h.OnUpdate(created, begun)
			h.OnUpdate(begun, created)
		}, false},
		"deleted unseen": {func(h toolscache.ResourceEventHandler) {
			h.OnAdd(created, false)
			h.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: created})
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var n newcomers
			c.events(n.handler())
			if n.has(created.UID) != c.want {
				t.Errorf("newcomer: %t", !c.want)
			}
		})
	}
}
