package clusters

import (
	"context"
	"iter"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	watchapi "k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/tenant"
)

// roomInterval is the shortest time between two notifications of another Room: pods come and go many at a time.
const roomInterval = 300 * time.Millisecond

// Room returns what is free on the member now. What the pods of the runs given use counts as free.
func (m *Member) Room(without ...string) *nodeusage.Room {
	m.capacity.mu.Lock()
	defer m.capacity.mu.Unlock()
	return m.capacity.sums.Room(without...)
}

// RoomState is that of Room.
func (m *Member) RoomState() nodeusage.State { return m.capacity.state() }

// RoomError is what the member last answered instead of its nodes or pods, as a sentence; empty if it has not
// answered, or with these.
func (m *Member) RoomError() string {
	m.capacity.mu.Lock()
	defer m.capacity.mu.Unlock()
	if m.capacity.failed == nil {
		return ""
	}
	return m.capacity.failed.Error()
}

// capacity watches a member's nodes and its scheduled pods, and keeps their sums.
type capacity struct {
	member *Member

	mu     sync.Mutex
	sums   *nodeusage.Sums
	failed *Error // the last list or watch that was answered otherwise, until one succeeds
	dirty  bool   // the sums are not those that were last reported
	// full is closed when nodes and pods have been listed for the first time.
	full     chan struct{}
	complete bool // full is closed
	// changed holds a token when anything has changed since it was last empty.
	changed chan struct{}
}

func newCapacity(m *Member) *capacity {
	return &capacity{member: m, sums: nodeusage.New(observesNodes(&m.Spec)), full: make(chan struct{}), changed: make(chan struct{}, 1)}
}

// observesNodes says whether the member's nodes and pods are observed: not where that is not wanted, or where
// credentials for some namespaces see neither nodes nor other people's pods.
func observesNodes(spec *v1alpha1.MemberClusterSpec) bool {
	return tenant.Confined(spec) == nil && spec.Capacity != v1alpha1.CapacityNone
}

// run watches nodes and pods, where the credentials allow it, and reports changes until ctx ends: the sums
// to report, no sooner than an interval after the last ones, and that there is another Room to roomChanged.
func (c *capacity) run(ctx context.Context, interval time.Duration, report func(*v1alpha1.MemberCapacity), roomChanged func()) {
	if !observesNodes(&c.member.Spec) {
		return
	}
	core, err := c.member.coreClient()
	if err != nil {
		return
	}
	scheduled := fields.ParseSelectorOrDie("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")
	c.reflect(ctx, nodeusage.Nodes, c.member.meter.observed("Node", reduceNode), toolscache.NewListWatchFromClient(core, "nodes", "", fields.Everything()), &corev1.Node{}, nodeStore{c})
	c.reflect(ctx, nodeusage.Pods, c.member.meter.observed("Pod", reducePod), toolscache.NewListWatchFromClient(core, "pods", "", scheduled), &corev1.Pod{}, podStore{c})
	c.notify(ctx, interval, report, roomChanged)
}

// reflect writes what a member has of a kind to a store until ctx ends.
func (c *capacity) reflect(ctx context.Context, kind nodeusage.Kind, a *account, lw toolscache.ListerWatcher, obj runtime.Object, into toolscache.ReflectorStore) {
	r := toolscache.NewReflectorWithOptions(c.watched(kind, a.listWatch(lw)), obj, a.store(into), toolscache.ReflectorOptions{Name: c.member.Name + " " + a.kind})
	go r.RunWithContext(ctx)
}

// coreClient asks for objects of the core group in the encoding that takes the least to read.
func (m *Member) coreClient() (rest.Interface, error) {
	cfg := rest.CopyConfig(m.GetConfig())
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	cfg.APIPath, cfg.GroupVersion, cfg.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, clientgoscheme.Codecs.WithoutConversion()
	return rest.RESTClientForConfigAndClient(cfg, m.http)
}

// notify reports changes until ctx ends. That the room has become known is reported at once: everything that is
// to be placed waits for it.
func (c *capacity) notify(ctx context.Context, interval time.Duration, report func(*v1alpha1.MemberCapacity), roomChanged func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	full, known := c.full, false
	var soon <-chan time.Time // when to report another Room
	for {
		select {
		case <-ctx.Done():
			return
		case <-full:
			full = nil // once
		case <-c.changed:
			switch {
			case known && soon == nil:
				soon = time.After(roomInterval)
			case !known && c.state() != nodeusage.Pending:
				known = true
				roomChanged()
			}
			continue
		case <-soon:
			soon = nil
			roomChanged()
			continue
		case <-ticker.C:
		}
		if current, ok := c.take(); ok && full == nil {
			report(current)
		}
	}
}

// watched notes whether the credentials are refused what a list and a watch ask for.
func (c *capacity) watched(kind nodeusage.Kind, lw *toolscache.ListWatch) *toolscache.ListWatch {
	list, watch := lw.ListWithContextFunc, lw.WatchFuncWithContext
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			out, err := list(ctx, o)
			c.answered(kind, err)
			return out, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watchapi.Interface, error) {
			out, err := watch(ctx, o)
			c.answered(kind, err)
			return out, err
		},
	}
}

// answered notes how a list or watch was answered.
func (c *capacity) answered(kind nodeusage.Kind, err error) {
	c.update(func(s *nodeusage.Sums) bool {
		if err != nil && !apierrors.IsForbidden(err) {
			c.failed = connectionError(err)
			return false // it says nothing of what is allowed
		}
		c.failed = nil
		return s.SetDenied(kind, err != nil)
	})
}

// update changes the sums in one step to all others. The function says whether anything is different now.
func (c *capacity) update(change func(*nodeusage.Sums) (changed bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !change(c.sums) {
		return
	}
	c.dirty = true
	select {
	case c.changed <- struct{}{}:
	default:
	}
	if !c.complete && c.sums.Complete() {
		c.complete = true
		close(c.full)
	}
}

func (c *capacity) state() nodeusage.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sums.State()
}

// take returns the sums if they have changed since the last call.
func (c *capacity) take() (*v1alpha1.MemberCapacity, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dirty {
		return nil, false
	}
	c.dirty = false
	return c.sums.Capacity(), true
}

// nodeStore is what the reflector of nodes writes to.
type nodeStore struct{ *capacity }

func (s nodeStore) Add(obj any) error { return s.Update(obj) }
func (s nodeStore) Resync() error     { return nil }

func (s nodeStore) Update(obj any) error {
	if n, ok := obj.(*corev1.Node); ok {
		s.update(func(sums *nodeusage.Sums) bool { return sums.SetNode(n) })
	}
	return nil
}

func (s nodeStore) Delete(obj any) error {
	if n, ok := obj.(*corev1.Node); ok {
		s.update(func(sums *nodeusage.Sums) bool { return sums.RemoveNode(n.UID) })
	}
	return nil
}

// Replace is one step to all others: between the old list and the new one nothing is free that is not.
func (s nodeStore) Replace(list []any, _ string) error {
	s.update(func(sums *nodeusage.Sums) bool { return sums.ReplaceNodes(nodesIn(list)) })
	return nil
}

func nodesIn(list []any) iter.Seq[*corev1.Node] {
	return func(yield func(*corev1.Node) bool) {
		for _, obj := range list {
			if n, ok := obj.(*corev1.Node); ok && !yield(n) {
				return
			}
		}
	}
}

// podStore is what the reflector of pods writes to.
type podStore struct{ *capacity }

func (s podStore) Add(obj any) error { return s.Update(obj) }
func (s podStore) Resync() error     { return nil }

func (s podStore) Update(obj any) error {
	if p := podIn(obj); p != nil {
		s.update(func(sums *nodeusage.Sums) bool { return sums.SetPod(p) })
	}
	return nil
}

func (s podStore) Delete(obj any) error {
	if p := podIn(obj); p != nil {
		s.update(func(sums *nodeusage.Sums) bool { return sums.RemovePod(p.UID) })
	}
	return nil
}

func (s podStore) Replace(list []any, _ string) error {
	s.update(func(sums *nodeusage.Sums) bool { return sums.ReplacePods(podsIn(list)) })
	return nil
}

func podsIn(list []any) iter.Seq[*nodeusage.Pod] {
	return func(yield func(*nodeusage.Pod) bool) {
		for _, obj := range list {
			if p := podIn(obj); p != nil && !yield(p) {
				return
			}
		}
	}
}

// podIn is a pod, whole or what is kept of it, or nil for anything else.
func podIn(obj any) *nodeusage.Pod {
	switch p := obj.(type) {
	case keptPod:
		return p.Pod
	case *corev1.Pod:
		return nodeusage.PodFrom(p)
	default:
		return nil
	}
}
