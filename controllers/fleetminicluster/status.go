package fleetminicluster

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// writeStatus writes the status if it has changed, and then sends the events. The write fails if anybody else has
// written since the object was read, so that no line of the ledger is ever lost.
func (c *reconciliation) writeStatus(ctx context.Context) error {
	object := c.snapshot.Object
	status := c.round.Status(c.snapshot, c.decision, c.podIssues())
	if equality.Semantic.DeepEqual(status, object.Status) {
		return nil
	}
	before := object.Status
	object.Status = status
	if err := c.Client.Status().Update(ctx, object); err != nil {
		return err
	}
	c.expectations.expect(ctx, c.Client, object)
	for _, e := range append(c.events, plan.StatusEvents(&before, &object.Status)...) {
		c.send(e)
	}
	c.events = nil
	return nil
}

// podIssues are why pods of live runs are not ready, as members have said when they were last asked.
func (c *reconciliation) podIssues() map[string]*fleet.PodIssue {
	out := map[string]*fleet.PodIssue{}
	for i := range c.round.Targets {
		if t := &c.round.Targets[i]; c.round.Unready(t) {
			out[t.Name] = c.probes.issue(c.key(), t.Name, c.round.Ledger.Last(t.Name).ID)
		}
	}
	return out
}

// send sends an event about the object.
func (c *reconciliation) send(e plan.Event) {
	c.Recorder.Eventf(c.snapshot.Object, related(e), e.Type, e.Reason, e.Action, "%s", sanitize.Text(e.Message, sanitize.MaxNote))
}

// related is what an event is about besides the hub object. Events that do not differ in it, nor in their
// reason, are counted as one whose text is that of the first.
func related(e plan.Event) runtime.Object {
	if e.Member == "" {
		return nil
	}
	ref := &corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "MemberCluster", Name: e.Member}
	if e.Run != "" {
		ref.FieldPath = "runs{" + e.Run + "}"
	}
	return ref
}

// expectations are FleetMiniClusters as they were last written, until the cache has them. A reconciliation that
// follows at once, since a Job has just been created, say, would else begin with what was before the write, do it
// again, and lose the race against itself.
type expectations struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]*v1alpha1.FleetMiniCluster
}

// expect remembers an object as a write has returned it.
func (e *expectations) expect(ctx context.Context, cache client.Reader, fmc *v1alpha1.FleetMiniCluster) {
	key := client.ObjectKeyFromObject(fmc)
	fmc = fmc.DeepCopy()
	fmc.ManagedFields = nil // as in the cache
	e.mu.Lock()
	if e.objects == nil {
		e.objects = map[types.NamespacedName]*v1alpha1.FleetMiniCluster{}
	}
	e.objects[key] = fmc
	e.mu.Unlock()
	var cached v1alpha1.FleetMiniCluster
	if err := cache.Get(ctx, key, &cached); err == nil {
		e.observed(&cached) // its event may have come before
	}
}

// newest is what the cache has or, while that is older, what was written.
func (e *expectations) newest(cached *v1alpha1.FleetMiniCluster) *v1alpha1.FleetMiniCluster {
	e.mu.Lock()
	defer e.mu.Unlock()
	if fmc := e.objects[client.ObjectKeyFromObject(cached)]; fmc != nil && older(cached, fmc) {
		return fmc.DeepCopy()
	}
	return cached
}

// observed forgets what the cache has.
func (e *expectations) observed(cached client.Object) {
	key := client.ObjectKeyFromObject(cached)
	e.mu.Lock()
	defer e.mu.Unlock()
	if fmc := e.objects[key]; fmc != nil && !older(cached, fmc) {
		delete(e.objects, key)
	}
}

func (e *expectations) deleted(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.objects, key)
}

// older says whether a came before b. Versions that cannot be compared are taken for new.
func older(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}

// predicate lets every event through, having taken note of what the cache has by then.
func (e *expectations) predicate() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(ev event.UpdateEvent) bool {
			e.observed(ev.ObjectNew)
			return true
		},
		DeleteFunc: func(ev event.DeleteEvent) bool {
			e.deleted(client.ObjectKeyFromObject(ev.Object))
			return true
		},
	}
}
