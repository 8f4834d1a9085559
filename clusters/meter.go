package clusters

import (
	"context"
	"hash/maphash"
	"reflect"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	watchapi "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/internal/nodeusage"
)

// meter knows how much the caches of a member hold, before they do.
type meter struct {
	line *line
	seed maphash.Seed
	// ownedPage and observedPage are held while a page of a list is received and decoded, so that few at a time take memory
	// for that. Kinds that MiniFleet owns do not wait for the others.
	ownedPage, observedPage chan struct{}

	mu    sync.Mutex
	total int64 // of all kinds, in bytes
}

func newMeter(l *line) *meter {
	return &meter{line: l, seed: maphash.MakeSeed(), ownedPage: make(chan struct{}, 1), observedPage: make(chan struct{}, 1)}
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
	kind   string
	reduce reduce
	events *rate.Limiter
	page   chan struct{}
	held   contents // guarded by mu
}

// reduce returns what is kept of an object, and how many bytes of memory that takes.
type reduce func(runtime.Object) (kept runtime.Object, size int64)

// owned is for a kind that MiniFleet owns, observed for one that it does not.
func (m *meter) owned(kind string) *account { return m.account(kind, reduceOwned, 1, m.ownedPage) }

func (m *meter) observed(kind string, reduce reduce) *account {
	return m.account(kind, reduce, observedEvents, m.observedPage)
}

func (m *meter) account(kind string, reduce reduce, events int, page chan struct{}) *account {
	limits := &m.line.limits
	return &account{
		meter: m, kind: kind, reduce: reduce, page: page, held: contents{sizes: map[uint64]int64{}},
		events: rate.NewLimiter(rate.Limit(limits.Events*events), limits.Burst*events),
	}
}

// listWatch is lw for a reflector that writes to a store of the account. Lists are read in pages, since a whole one may be
// too large for one answer, and are always of the present: those of an earlier time API servers do not divide. Of a watch
// the line takes each event at the account's pace.
func (a *account) listWatch(lw toolscache.ListerWatcher) *toolscache.ListWatch {
	in := toolscache.ToListerWatcherWithContext(lw)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return a.list(ctx, in, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watchapi.Interface, error) {
			o.TimeoutSeconds = ptr.To(int64(around(watchTimeout, watchSpread).Seconds()))
			w, err := in.WatchWithContext(context.WithValue(ctx, accountKey{}, a), o)
			if err == nil && ptr.Deref(o.SendInitialEvents, false) {
				a.replace(contents{sizes: map[uint64]int64{}})
			}
			return w, err
		},
	}
}

// accountKey is for the account that the events of a request's answer are on, in its context.
type accountKey struct{}

// pace waits until another event may be taken of the answer to a request with this context.
func pace(ctx context.Context) error {
	if a, ok := ctx.Value(accountKey{}).(*account); ok {
		return a.events.Wait(ctx)
	}
	return nil
}

func (a *account) asked() string { return "LIST and WATCH " + a.kind }

func (a *account) beyond(limit string) error { return a.line.beyond(limit, a.asked()) }

func (a *account) checkNames(obj runtime.Object) error {
	o, err := meta.Accessor(obj)
	if err != nil {
		return nil //nolint:nilerr // whoever reads it refuses it
	}
	return a.line.checkNames(o, a.asked())
}

// list reads all pages as one list, of what is kept.
func (a *account) list(ctx context.Context, in toolscache.ListerWatcherWithContext, o metav1.ListOptions) (runtime.Object, error) {
	o.ResourceVersion, o.ResourceVersionMatch, o.Continue, o.Limit = "", "", "", a.line.limits.Page
	fresh, all := contents{sizes: map[uint64]int64{}}, &objects{}
	for range a.line.limits.Pages {
		next, err := a.listPage(ctx, in, o, all, &fresh)
		if err != nil {
			return nil, err
		}
		if err := a.check(&fresh, len(all.Items)); err != nil {
			return nil, err
		}
		if o.Continue = next; next == "" {
			a.replace(fresh)
			return all, nil
		}
	}
	return nil, a.beyond(limitPages)
}

// listPage adds what is kept of a page to all objects, and their sizes to the contents. It returns what the next page is
// asked for with, empty after the last one.
func (a *account) listPage(ctx context.Context, in toolscache.ListerWatcherWithContext, o metav1.ListOptions, all *objects, sizes *contents) (next string, err error) {
	select {
	case a.page <- struct{}{}:
		defer func() { <-a.page }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	page, err := in.ListWithContext(ctx, o)
	if err != nil {
		return "", err
	}
	list, err := meta.ListAccessor(page)
	if err != nil {
		return "", err
	}
	if o.Continue == "" {
		all.ResourceVersion = list.GetResourceVersion()
	}
	return list.GetContinue(), meta.EachListItemWithAlloc(page, func(obj runtime.Object) error {
		if err := a.checkNames(obj); err != nil {
			return err
		}
		kept, size := a.reduce(obj)
		sizes.put(a.key(obj), size)
		all.Items = append(all.Items, kept)
		return nil
	})
}

// objects is a list of what is kept of objects of any kind.
type objects struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

// DeepCopyObject implements runtime.Object.
func (o *objects) DeepCopyObject() runtime.Object {
	out := &objects{TypeMeta: o.TypeMeta, ListMeta: *o.DeepCopy()}
	for _, item := range o.Items {
		out.Items = append(out.Items, item.DeepCopyObject())
	}
	return out
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

// keep returns what is kept of an object that has come, and its size. It is not ok for what no API server sends.
func (a *account) keep(obj any) (kept any, size int64, ok bool) {
	o, isObject := obj.(runtime.Object)
	if !isObject || a.checkNames(o) != nil {
		return obj, 0, false
	}
	kept, size = a.reduce(o)
	return kept, size, true
}

// take counts an object that has come, and returns what is kept of it, and whether the cache is to have it.
func (a *account) take(obj any) (kept any, ok bool) {
	kept, size, ok := a.keep(obj)
	return kept, ok && a.count(func(c *contents) { c.put(a.key(obj), size) })
}

// count changes what the account says that its cache holds, and says whether it may hold that.
func (a *account) count(change func(*contents)) bool {
	a.mu.Lock()
	before := a.held.sum
	change(&a.held)
	a.total += a.held.sum - before
	c := a.held
	objects := len(c.sizes)
	a.mu.Unlock()
	return a.check(&c, objects) == nil
}

// prune forgets what a list does not have that was put together from events: of what was deleted meanwhile nobody was told.
func (a *account) prune(list []any) {
	a.count(func(c *contents) {
		if len(list) == len(c.sizes) {
			return
		}
		kept := contents{sizes: map[uint64]int64{}}
		for _, obj := range list {
			kept.put(a.key(obj), c.sizes[a.key(obj)])
		}
		*c = kept
	})
}

// store counts what a reflector writes, and hands on what is kept of it. It returns no errors of its own: reflectors would
// print them with the object.
func (a *account) store(into toolscache.ReflectorStore) toolscache.TransformingStore {
	return counted{a, into}
}

type counted struct {
	*account
	into toolscache.ReflectorStore
}

// Transformer implements toolscache.TransformingStore: it is given each object of a list that comes as events, which are
// put together before they are written.
func (c counted) Transformer() toolscache.TransformFunc {
	return func(obj any) (any, error) {
		kept, _ := c.take(obj) // one beyond a limit has ended the connection
		return kept, nil
	}
}

// Add implements toolscache.ReflectorStore.
func (c counted) Add(obj any) error { return c.put(obj, c.into.Add) }

// Update implements toolscache.ReflectorStore.
func (c counted) Update(obj any) error { return c.put(obj, c.into.Update) }

func (c counted) put(obj any, write func(any) error) error {
	if kept, ok := c.take(obj); ok {
		return write(kept)
	}
	return nil
}

// Delete implements toolscache.ReflectorStore.
func (c counted) Delete(obj any) error {
	kept, _, ok := c.keep(obj)
	if !ok {
		return nil
	}
	c.count(func(held *contents) { held.remove(c.key(obj)) })
	return c.into.Delete(kept)
}

// Replace implements toolscache.ReflectorStore.
func (c counted) Replace(list []any, version string) error {
	c.prune(list)
	return c.into.Replace(list, version)
}

// Resync implements toolscache.ReflectorStore.
func (c counted) Resync() error { return c.into.Resync() }

func (a *account) key(obj any) uint64 {
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

// reduceOwned is for what caches hold of an object that MiniFleet has made: all but who has managed its fields.
func reduceOwned(obj runtime.Object) (runtime.Object, int64) {
	if o, err := meta.Accessor(obj); err == nil {
		o.SetManagedFields(nil)
	}
	return obj, sizeOf(obj)
}

// reduceNode is for what is kept of a node.
func reduceNode(obj runtime.Object) (runtime.Object, int64) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return obj, sizeOf(obj)
	}
	kept := nodeusage.Reduce(n)
	return kept, sizeOf(kept)
}

// reducePod is for what is kept of a pod that others may have made.
func reducePod(obj runtime.Object) (runtime.Object, int64) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, sizeOf(obj)
	}
	kept := nodeusage.PodFrom(p)
	return keptPod{kept}, kept.Size()
}

// keptPod is in a list of pods what is kept of one.
type keptPod struct{ *nodeusage.Pod }

// GetObjectKind implements runtime.Object.
func (keptPod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. What is kept of a pod does not change.
func (p keptPod) DeepCopyObject() runtime.Object { return p }

// sizeOf is about what an object takes in memory, in bytes: more, by a factor, than what was received, where that is of
// many small parts.
func sizeOf(obj runtime.Object) int64 {
	v := reflect.ValueOf(obj).Elem()
	return itself(v.Type()) + beside(v)
}

func itself(t reflect.Type) int64 { return int64(t.Size()) } //nolint:gosec // a struct is no larger than that

// beside is what a value takes beside itself: what it points to.
func beside(v reflect.Value) int64 {
	const ofMap, ofEntry = 48, 16
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Type() == reflect.TypeFor[*time.Location]() {
			return 0
		}
		return itself(v.Elem().Type()) + beside(v.Elem())
	case reflect.Slice:
		return int64(v.Cap())*itself(v.Type().Elem()) + besideAll(v)
	case reflect.Array:
		return besideAll(v)
	case reflect.Map:
		size := int64(ofMap)
		each := itself(v.Type().Key()) + itself(v.Type().Elem()) + ofEntry
		for entries := v.MapRange(); entries.Next(); {
			size += each + beside(entries.Key()) + beside(entries.Value())
		}
		return size
	case reflect.Struct:
		var size int64
		for i := range v.NumField() {
			size += beside(v.Field(i))
		}
		return size
	default:
		return 0
	}
}

func besideAll(v reflect.Value) int64 {
	if k := v.Type().Elem().Kind(); k >= reflect.Bool && k <= reflect.Complex128 {
		return 0
	}
	var size int64
	for i := range v.Len() {
		size += beside(v.Index(i))
	}
	return size
}
