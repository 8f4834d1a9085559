package clusters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	watchapi "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/internal/nodeusage"
)

// sizedMap has as many bytes as its name and its content.
func sizedMap(i, size int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: fmt.Sprint("c", i), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
		Data:       map[string]string{"a": strings.Repeat("a", size)},
	}
}

// pages is a server with so many pages of so many objects of some size; 0 pages are without end.
type pages struct {
	count, objects, size int
	asked                []metav1.ListOptions
	watch                *watchapi.FakeWatcher
}

func (p *pages) listWatch() *toolscache.ListWatch {
	p.watch = watchapi.NewFakeWithOptions(watchapi.FakeOptions{ChannelSize: 1000})
	return &toolscache.ListWatch{
		ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			p.asked = append(p.asked, o)
			list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7", RemainingItemCount: ptr.To[int64](1)}}
			for i := range p.objects {
				list.Items = append(list.Items, *sizedMap(len(p.asked)*p.objects+i, p.size))
			}
			if len(p.asked) != p.count {
				list.Continue = fmt.Sprint("page", len(p.asked))
			}
			return list, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watchapi.Interface, error) { return p.watch, nil },
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newTestMeter() *meter { return newMeter(newLine(time.Now, smallLimits())) }

func TestListsAreReadInPages(t *testing.T) {
	m, server := newTestMeter(), &pages{count: 3, objects: 10, size: 10}
	lw := m.owned("ConfigMap").listWatch(server.listWatch())
	got, err := lw.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0", Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	list, items := must(meta.ListAccessor(got)), must(meta.ExtractListWithAlloc(got))
	if len(items) != 30 || list.GetContinue() != "" || list.GetRemainingItemCount() != nil || list.GetResourceVersion() != "7" || items[0].(*corev1.ConfigMap).ManagedFields != nil {
		t.Errorf("%d objects, %+v", len(items), list)
	}
	if copied := got.DeepCopyObject().(*objects); len(copied.Items) != 30 || copied.Items[0] == items[0] {
		t.Error("a copy shares its objects")
	}
	for i, o := range server.asked {
		if o.ResourceVersion != "" || o.Limit != 10 || (o.Continue == "") != (i == 0) {
			t.Errorf("page %d: %+v", i, o)
		}
	}
	if m.total < 30*200 || m.total > 30*1000 {
		t.Errorf("counts as %d bytes", m.total)
	}
}

func TestListsBeyondALimitQuarantine(t *testing.T) {
	for name, c := range map[string]struct {
		server pages
		before int64 // in other caches
		limit  string
	}{
		"many objects":                {pages{objects: 30, size: 1}, 0, limitObjects},
		"many objects in one page":    {pages{count: 1, objects: 101, size: 1}, 0, limitObjects},
		"large objects":               {pages{objects: 3, size: 30_000}, 0, limitCached},
		"many kinds":                  {pages{count: 1, objects: 3, size: 1000}, 126 << 10, limitCached},
		"pages without end":           {pages{objects: 1, size: 1}, 0, limitPages},
		"pages of nothing, endlessly": {pages{}, 0, limitPages},
	} {
		m := newTestMeter()
		m.total = c.before
		_, err := m.owned("ConfigMap").listWatch(c.server.listWatch()).ListWithContext(t.Context(), metav1.ListOptions{})
		if q := m.line.quarantine.Load(); !isQuarantined(err) || q.Limit != c.limit || q.Asked != "LIST and WATCH ConfigMap" {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(c.server.asked); n > smallLimits().Pages {
			t.Errorf("%s: %d pages were read", name, n)
		}
	}
}

// writes counts what is written to it.
type writes struct{ n int }

func (w *writes) Add(any) error               { w.n++; return nil }
func (w *writes) Update(any) error            { w.n++; return nil }
func (w *writes) Delete(any) error            { w.n++; return nil }
func (w *writes) Replace([]any, string) error { return nil }
func (w *writes) Resync() error               { return nil }

func TestWatchesBeyondALimitQuarantine(t *testing.T) {
	for name, c := range map[string]struct {
		events func(send func(watchapi.EventType, *corev1.ConfigMap))
		limit  string // empty: within all
		taken  int
	}{
		"the same one again and again": {func(send func(watchapi.EventType, *corev1.ConfigMap)) {
			for range 200 {
				send(watchapi.Modified, sizedMap(1, 1000))
			}
		}, "", 200},
		"made and deleted": {func(send func(watchapi.EventType, *corev1.ConfigMap)) {
			for i := range 200 {
				send(watchapi.Added, sizedMap(i, 1000))
				send(watchapi.Deleted, sizedMap(i, 1000))
			}
		}, "", 400},
		"many objects": {func(send func(watchapi.EventType, *corev1.ConfigMap)) {
			for i := range 200 {
				send(watchapi.Added, sizedMap(i, 1))
			}
		}, limitObjects, 100},
		"one that grows": {func(send func(watchapi.EventType, *corev1.ConfigMap)) {
			for i := range 5 {
				send(watchapi.Modified, sizedMap(1, (i+1)*30_000))
			}
		}, limitCached, 4},
	} {
		t.Run(name, func(t *testing.T) {
			m, taken := newTestMeter(), &writes{}
			store := m.owned("ConfigMap").store(taken)
			c.events(func(kind watchapi.EventType, obj *corev1.ConfigMap) {
				write := map[watchapi.EventType]func(any) error{watchapi.Added: store.Add, watchapi.Modified: store.Update, watchapi.Deleted: store.Delete}[kind]
				if err := write(obj); err != nil {
					t.Error(err) // would be printed with the object
				}
				if obj.ManagedFields != nil && kind != watchapi.Deleted && m.line.quarantine.Load() == nil {
					t.Error("it is kept who has managed the object")
				}
			})
			limit := ""
			if q := m.line.quarantine.Load(); q != nil {
				limit = q.Limit
			}
			if taken.n < c.taken || taken.n > c.taken && c.limit == "" || limit != c.limit {
				t.Errorf("%d events taken, beyond %q", taken.n, limit)
			}
		})
	}
}

// Objects that come as events of a list are counted before the list is put together, and what was deleted meanwhile is
// no longer once it is.
func TestListsThatComeAsEvents(t *testing.T) {
	m := newTestMeter()
	a := m.owned("ConfigMap")
	store := a.store(&writes{})
	var list []any
	for i := range 10 {
		list = append(list, must(store.Transformer()(sizedMap(i, 1000))))
	}
	all := m.total
	if all < 10_000 || list[0].(*corev1.ConfigMap).ManagedFields != nil {
		t.Errorf("%d bytes, %+v", all, list[0])
	}
	if err := store.Replace(list[:5], "7"); err != nil || m.total != all/2 {
		t.Errorf("%d bytes of %d, %v", m.total, all, err)
	}
	for i := range 200 {
		if _, err := store.Transformer()(sizedMap(i, 1)); err != nil {
			t.Fatal(err) // would be printed with the object
		}
	}
	if q := m.line.quarantine.Load(); q == nil || q.Limit != limitObjects {
		t.Errorf("%+v", q)
	}
}

// A member that floods its watches is taken events of at its pace, whatever these are, and has no more of the hub.
func TestEventsHaveToWait(t *testing.T) {
	limits := smallLimits()
	limits.Events, limits.Burst = 10, 20
	for name, c := range map[string]struct {
		of   func(*meter) *account
		most time.Duration
	}{
		"owned":    {func(m *meter) *account { return m.owned("ConfigMap") }, 8 * time.Second},
		"observed": {func(m *meter) *account { return m.observed("Node", reduceNode) }, 0},
	} {
		for _, event := range []string{`{"type":"MODIFIED"}`, `{"type":"BOOKMARK"}`, `{"type":"NONSENSE"}`} {
			t.Run(name+" "+event, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLine(time.Now, limits)
					body := io.NopCloser(strings.NewReader(strings.Repeat(event, 100)))
					w := newFrames(context.WithValue(t.Context(), accountKey{}, c.of(newMeter(l))), body, l, "WATCH", false)
					began := time.Now()
					n, err := io.Copy(io.Discard, w)
					if took := time.Since(began).Round(time.Second); took != c.most || n != int64(100*len(event)) || err != nil {
						t.Errorf("%d bytes in %v, %v", n, took, err)
					}
					_ = w.Close()
				})
			})
		}
	}
}

// What a member has nodes and pods for does not keep its Jobs from being listed.
func TestListsOfOwnedKindsWaitForNoOthers(t *testing.T) {
	m := newTestMeter()
	m.observedPage <- struct{}{} // a list of nodes that hangs
	if _, err := m.owned("ConfigMap").listWatch((&pages{count: 1, objects: 1}).listWatch()).ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.observed("Pod", reducePod).listWatch((&pages{count: 1, objects: 1}).listWatch()).ListWithContext(ctx, metav1.ListOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a second list of what is observed: %v", err)
	}
}

// A watch that nobody reads any more ends, whatever the member sends.
func TestWatchEndsWithItsReader(t *testing.T) {
	forHTTP(t, func(t *testing.T, http2 bool) {
		ended := make(chan struct{})
		h := newHostile(t, http2, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			forever(w, `{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}}`)
			close(ended)
		})
		limits := smallLimits()
		limits.Events, limits.Burst = 1, 2
		m := h.member(t, limits)
		core, err := m.coreClient()
		if err != nil {
			t.Fatal(err)
		}
		lw := m.meter.owned("ConfigMap").listWatch(toolscache.NewListWatchFromClient(core, "configmaps", "", fields.Everything()))
		w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		<-w.ResultChan() // the next but one has to wait
		w.Stop()
		for range w.ResultChan() { // until it is closed
		}
		<-ended
	})
}

// What is taken off a pod or a node is not kept of it anyway.
func TestReducedObjectsSayTheSame(t *testing.T) {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3"), "nvidia.com/gpu": resource.MustParse("1")}
	pod := func() *corev1.Pod {
		p := brokerPod(1)
		p.Namespace, p.Annotations = "hpc", map[string]string{"a": strings.Repeat("a", 10_000)}
		p.Spec.Volumes, p.Spec.Tolerations = make([]corev1.Volume, 10), make([]corev1.Toleration, 10)
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = []corev1.Container{{Name: "sidecar", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: requests}}}
		p.Spec.Containers = []corev1.Container{{Name: "app", Command: []string{"run"}, Env: make([]corev1.EnvVar, 10), Resources: corev1.ResourceRequirements{Requests: requests}}}
		p.Spec.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Resources: &corev1.ResourceRequirements{Requests: requests}}}
		return &p
	}
	node := func() *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1", Labels: map[string]string{"disk": "ssd"}, Annotations: map[string]string{"a": "b"}}}
		n.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), "nvidia.com/gpu": resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("110")}
		n.Status.Images = make([]corev1.ContainerImage, 50)
		return n
	}
	sums := func(p *corev1.Pod, n *corev1.Node) string {
		s := nodeusage.New(true)
		s.SetNode(n)
		s.SetPod(nodeusage.PodFrom(p))
		return fmt.Sprintf("%+v", *s.Capacity())
	}
	podKept, podSize := reducePod(pod())
	nodeKept, nodeSize := reduceNode(node())
	n := nodeKept.(*corev1.Node)
	s := nodeusage.New(true)
	nodeStore{&capacity{sums: s, full: make(chan struct{}), changed: make(chan struct{}, 1)}}.Replace([]any{n}, "") //nolint:errcheck // it does not fail
	s.SetPod(podIn(podKept))
	if got, want := fmt.Sprintf("%+v", *s.Capacity()), sums(pod(), node()); got != want || n.Status.Images != nil || n.Annotations != nil {
		t.Errorf("got %s, want %s", got, want)
	}
	if podSize > 1000 || nodeSize > 3000 {
		t.Errorf("count as %d and %d bytes", podSize, nodeSize)
	}
}

// What many empty parts take in memory is far more than what is received.
func TestSizeOf(t *testing.T) {
	for name, c := range map[string]struct {
		obj         runtime.Object
		least, most int64
	}{
		"an empty object":  {&corev1.ConfigMap{}, 200, 1000},
		"text":             {sizedMap(1, 10_000), 10_000, 12_000},
		"binary data":      {&corev1.Secret{Data: map[string][]byte{"a": make([]byte, 10_000)}}, 10_000, 12_000},
		"many labels":      {&corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: labelled(100)}}, 100 * 32, 100 * 100},
		"empty containers": {hollow(1000), 1000 * 400, 1000 * 1500},
		"with times, and pointers": {&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Now()), DeletionGracePeriodSeconds: ptr.To[int64](1)},
			Spec:       corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{}, Overhead: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		}, 1000, 4000},
	} {
		if size := sizeOf(c.obj); size < c.least || size > c.most {
			t.Errorf("%s: %d bytes", name, size)
		}
	}
}

func labelled(n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprint("label", i)] = "value"
	}
	return out
}
