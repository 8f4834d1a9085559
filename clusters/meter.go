package clusters

import (
	"context"
	"hash/maphash"
	"reflect"
	"sync"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	watchapi "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// meter knows how much the caches of a member hold, before they do.
type meter struct {
	line *line
	seed maphash.Seed
	// page is held while a page of a list is received and decoded, so that one at a time takes memory for that.
	page   chan struct{}
	events *rate.Limiter

	mu    sync.Mutex
	total int64 // of all kinds, in bytes
}

func newMeter(l *line) *meter {
	return &meter{
		line: l, seed: maphash.MakeSeed(), page: make(chan struct{}, 1),
		events: rate.NewLimiter(rate.Limit(l.limits.Events), l.limits.Events),
	}
}

// contents is what a cache has of each object: by the hash of its namespace and name, its size in bytes.
type contents struct {
	sizes map[uint64]int64
	sum   int64
}

func (c *contents) put(key uint64, size int64) {
	c.sum += size - c.sizes[key]
	c.sizes[key] = size
}

func (c *contents) remove(key uint64) {
	c.sum -= c.sizes[key]
	delete(c.sizes, key)
}

// account is the part of a meter for one kind.
type account struct {
	*meter
	kind string
	// reduce takes off an object what is not kept, and returns how many bytes are.
	reduce func(runtime.Object) int64
	held   contents // guarded by mu
}

// bound is lw with what it gives counted. Lists are read in pages, since a whole one may be too large for one answer, and
// are always of the present: those of an earlier time API servers do not divide.
func (m *meter) bound(kind string, lw toolscache.ListerWatcher, reduce func(runtime.Object) int64) *toolscache.ListWatch {
	in := toolscache.ToListerWatcherWithContext(lw)
	a := &account{meter: m, kind: kind, reduce: reduce, held: contents{sizes: map[uint64]int64{}}}
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return a.list(ctx, in, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watchapi.Interface, error) {
			w, err := in.WatchWithContext(ctx, o)
			if err != nil {
				return nil, err
			}
			if ptr.Deref(o.SendInitialEvents, false) {
				a.replace(contents{sizes: map[uint64]int64{}})
			}
			return watched(ctx, w, a.take), nil
		},
	}
}

func (a *account) beyond(limit string) error { return a.line.beyond(limit, "LIST and WATCH "+a.kind) }

// list reads all pages as one list.
func (a *account) list(ctx context.Context, in toolscache.ListerWatcherWithContext, o metav1.ListOptions) (runtime.Object, error) {
	o.ResourceVersion, o.ResourceVersionMatch, o.Continue, o.Limit = "", "", "", a.line.limits.Page
	fresh := contents{sizes: map[uint64]int64{}}
	var first runtime.Object
	var all []runtime.Object
	for range a.line.limits.Pages {
		page, items, err := a.listPage(ctx, in, o)
		if err != nil {
			return nil, err
		}
		for _, obj := range items {
			fresh.put(a.key(obj), a.reduce(obj))
		}
		if all = append(all, items...); first == nil {
			first = page
		}
		if err := a.check(&fresh, len(all)); err != nil {
			return nil, err
		}
		list, err := meta.ListAccessor(page)
		if err != nil {
			return nil, err
		}
		if o.Continue = list.GetContinue(); o.Continue == "" {
			a.replace(fresh)
			return first, whole(first, all)
		}
	}
	return nil, a.beyond(limitPages)
}

func (a *account) listPage(ctx context.Context, in toolscache.ListerWatcherWithContext, o metav1.ListOptions) (page runtime.Object, items []runtime.Object, err error) {
	select {
	case a.page <- struct{}{}:
		defer func() { <-a.page }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if page, err = in.ListWithContext(ctx, o); err != nil {
		return nil, nil, err
	}
	items, err = meta.ExtractListWithAlloc(page)
	return page, items, err
}

// whole makes the first page the list of all objects.
func whole(first runtime.Object, all []runtime.Object) error {
	list, err := meta.ListAccessor(first)
	if err != nil {
		return err
	}
	list.SetContinue("")
	list.SetRemainingItemCount(nil)
	return meta.SetList(first, all)
}

// check says whether a cache may hold so much in place of what it holds now.
func (a *account) check(c *contents, objects int) error {
	a.mu.Lock()
	total := a.total - a.held.sum + c.sum
	a.mu.Unlock()
	switch {
	case objects > a.line.limits.Objects:
		return a.beyond(limitObjects)
	case total > a.line.limits.Cached:
		return a.beyond(limitCached)
	default:
		return nil
	}
}

func (a *account) replace(c contents) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total += c.sum - a.held.sum
	a.held = c
}

// take counts an event of a watch, and says whether the cache is to have it.
func (a *account) take(ctx context.Context, e watchapi.Event) bool {
	if a.events.Wait(ctx) != nil {
		return false
	}
	switch e.Type {
	case watchapi.Added, watchapi.Modified, watchapi.Deleted:
	default:
		return true
	}
	size := a.reduce(e.Object)
	a.mu.Lock()
	before, key := a.held.sum, a.key(e.Object)
	if e.Type == watchapi.Deleted {
		a.held.remove(key)
	} else {
		a.held.put(key, size)
	}
	a.total += a.held.sum - before
	c := a.held
	a.mu.Unlock()
	return a.check(&c, len(c.sizes)) == nil
}

func (a *account) key(obj runtime.Object) uint64 {
	var h maphash.Hash
	h.SetSeed(a.seed)
	if o, err := meta.Accessor(obj); err == nil {
		_, _ = h.WriteString(o.GetNamespace())
		_ = h.WriteByte('/')
		_, _ = h.WriteString(o.GetName())
	}
	return h.Sum64()
}

// typeOf is the name of the type of an object, which is its kind.
func typeOf(obj runtime.Object) string { return reflect.TypeOf(obj).Elem().Name() }

// perObject is what an object takes beside its content, in bytes.
const perObject = 512

// reduceOwned is for what caches hold of an object that MiniFleet has made: all but who has managed its fields.
func reduceOwned(obj runtime.Object) int64 {
	if o, err := meta.Accessor(obj); err == nil {
		o.SetManagedFields(nil)
	}
	if sized, ok := obj.(interface{ Size() int }); ok {
		return perObject + int64(sized.Size())
	}
	return perObject
}

// reduceNode is for what is kept of a node: its labels, its taints and its sums.
func reduceNode(obj runtime.Object) int64 {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return perObject
	}
	n.ManagedFields, n.Annotations, n.Status.Images = nil, nil, nil
	size := perObject + len(n.Name) + len(n.UID)
	for k, v := range n.Labels {
		size += 2*16 + len(k) + len(v)
	}
	for _, t := range n.Spec.Taints {
		size += 4*16 + len(t.Key) + len(t.Value) + len(t.Effect)
	}
	return int64(size + resourcesOf(n.Status.Allocatable))
}

// reducePod is for what is kept of a pod that others may have made: where it is, and what it requests. Until a list is
// whole, all of its pods are in memory, so that what takes most of it is taken off.
func reducePod(obj runtime.Object) int64 {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return perObject
	}
	p.ManagedFields, p.Annotations, p.Spec.Volumes, p.Spec.Affinity, p.Spec.Tolerations = nil, nil, nil, nil, nil
	size := perObject/2 + len(p.Namespace) + len(p.Name) + len(p.UID) + len(p.Spec.NodeName)
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			c := &list[i]
			*c = corev1.Container{Name: c.Name, Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy}
			size += resourcesOf(c.Resources.Requests)
		}
	}
	return int64(size)
}

func resourcesOf(list corev1.ResourceList) int {
	size := 0
	for name := range list {
		size += 2*16 + len(name)
	}
	return size
}

// watched gives the events of w that are taken.
func watched(ctx context.Context, w watchapi.Interface, take func(context.Context, watchapi.Event) bool) watchapi.Interface {
	ctx, cancel := context.WithCancel(ctx)
	out := &watch{in: w, out: make(chan watchapi.Event), cancel: cancel}
	go out.run(ctx, take)
	return out
}

type watch struct {
	in     watchapi.Interface
	out    chan watchapi.Event
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (w *watch) Stop() {
	w.cancel()
	w.in.Stop()
}

// ResultChan implements watch.Interface.
func (w *watch) ResultChan() <-chan watchapi.Event { return w.out }

func (w *watch) run(ctx context.Context, take func(context.Context, watchapi.Event) bool) {
	defer close(w.out)
	defer w.Stop()
	for e := range w.in.ResultChan() {
		if !take(ctx, e) {
			return
		}
		select {
		case w.out <- e:
		case <-ctx.Done():
			return
		}
	}
}
