package notification

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// sinks are those of all Notifications, by namespace and name.
type sinks struct {
	mu     sync.Mutex
	in     map[string]*namespace
	all    chan struct{}
	closed bool
}

type namespace struct {
	sinks map[string]*sink
	slots *slots
}

// get returns the sink of a Notification, and whether it was made, which it is where there is none of its UID.
func (s *sinks) get(n *v1alpha1.Notification, create func(*v1alpha1.Notification, *slots) *sink) (*sink, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.in == nil {
		s.in, s.all = map[string]*namespace{}, make(chan struct{}, maxSlots)
	}
	of := s.in[n.Namespace]
	if of == nil {
		of = &namespace{map[string]*sink{}, newSlots(s.all)}
		s.in[n.Namespace] = of
	}
	if have := of.sinks[n.Name]; have != nil {
		if have.uid == n.UID {
			return have, false
		}
		go have.stop()
	}
	made := create(n, of.slots)
	ctx, cancel := context.WithCancel(context.Background()) // the sink ends when it is removed, or all are closed
	made.cancel = cancel
	if s.closed {
		cancel()
	}
	of.sinks[n.Name] = made
	go made.run(ctx)
	return made, true
}

// has says whether there is a sink of a Notification.
func (s *sinks) has(n *v1alpha1.Notification) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.in[n.Namespace]
	return of != nil && of.sinks[n.Name] != nil && of.sinks[n.Name].uid == n.UID
}

// of are the sinks of a namespace.
func (s *sinks) of(name string) []*sink {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.in[name]; of != nil {
		return slices.Collect(maps.Values(of.sinks))
	}
	return nil
}

// remove ends the sink of a Notification, and returns it; nil where there was none.
func (s *sinks) remove(key types.NamespacedName) *sink {
	s.mu.Lock()
	of := s.in[key.Namespace]
	var removed *sink
	if of != nil {
		removed = of.sinks[key.Name]
		delete(of.sinks, key.Name)
		if len(of.sinks) == 0 {
			delete(s.in, key.Namespace)
		}
	}
	s.mu.Unlock()
	if removed != nil {
		go removed.stop() // what is under way is waited for
	}
	return removed
}

// close ends all sinks, and returns them. None is begun after that.
func (s *sinks) close() []*sink {
	s.mu.Lock()
	s.closed = true
	var all []*sink
	for _, of := range s.in {
		all = slices.AppendSeq(all, maps.Values(of.sinks))
	}
	s.mu.Unlock()
	for _, one := range all {
		one.cancel()
	}
	for _, one := range all {
		<-one.ended
	}
	return all
}

// observer tells sinks of objects. It queues nothing and waits for nothing: objects come in the order of the watch, and whether there is
// something to tell is decided at once.
func (r *Reconciler) observer() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) { r.observe(e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) { r.observe(e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) {
			for _, s := range r.sinks.of(e.Object.GetNamespace()) {
				s.forget(e.Object.GetUID())
			}
		},
	}
}

func (r *Reconciler) observe(object client.Object) {
	for _, s := range r.sinks.of(object.GetNamespace()) {
		switch o := object.(type) {
		case *v1alpha1.FleetMiniCluster:
			s.runs(o)
		case *v1alpha1.GitSource:
			s.source(o)
		}
	}
}
