package clusters

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	lw := m.owned("ConfigMap", server.listWatch())
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
		_, err := m.owned("ConfigMap", c.server.listWatch()).ListWithContext(t.Context(), metav1.ListOptions{})
		if q := m.line.quarantine.Load(); !isQuarantined(err) || q.Limit != c.limit || q.Asked != "LIST and WATCH ConfigMap" {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(c.server.asked); n > smallLimits().Pages {
			t.Errorf("%s: %d pages were read", name, n)
		}
	}
}

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
			m, server := newTestMeter(), &pages{}
			w, err := m.owned("ConfigMap", server.listWatch()).WatchWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: ptr.To(true)})
			if err != nil {
				t.Fatal(err)
			}
			c.events(func(kind watchapi.EventType, obj *corev1.ConfigMap) { server.watch.Action(kind, obj) })
			server.watch.Action(watchapi.Bookmark, sizedMap(0, 0))
			taken := 0
			for e := range w.ResultChan() {
				if e.Type == watchapi.Bookmark {
					w.Stop()
					break
				}
				taken++
			}
			limit := ""
			if q := m.line.quarantine.Load(); q != nil {
				limit = q.Limit
			}
			if taken != c.taken || limit != c.limit {
				t.Errorf("%d events taken, beyond %q", taken, limit)
			}
		})
	}
}

// A member that floods its watches is taken events of at its pace, and has no more of the hub.
func TestEventsHaveToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := smallLimits()
		limits.Events, limits.Burst = 10, 20
		for name, c := range map[string]struct {
			of   func(*meter, toolscache.ListerWatcher) *toolscache.ListWatch
			most time.Duration
		}{
			"owned": {func(m *meter, lw toolscache.ListerWatcher) *toolscache.ListWatch { return m.owned("ConfigMap", lw) }, 8 * time.Second},
			"observed": {func(m *meter, lw toolscache.ListerWatcher) *toolscache.ListWatch {
				return m.observed("Node", lw, reduceNode)
			}, 0},
		} {
			server := &pages{}
			w := must(c.of(newMeter(newLine(time.Now, limits)), server.listWatch()).WatchWithContext(t.Context(), metav1.ListOptions{}))
			for range 100 {
				server.watch.Modify(sizedMap(1, 1))
			}
			began := time.Now()
			for range 100 {
				<-w.ResultChan()
			}
			if took := time.Since(began).Round(time.Second); took != c.most {
				t.Errorf("%s: %v", name, took)
			}
			w.Stop()
		}
	})
}

// What a member has nodes and pods for does not keep its Jobs from being listed.
func TestListsOfOwnedKindsWaitForNoOthers(t *testing.T) {
	m := newTestMeter()
	m.observedPage <- struct{}{} // a list of nodes that hangs
	if _, err := m.owned("ConfigMap", (&pages{count: 1, objects: 1}).listWatch()).ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.observed("Pod", (&pages{count: 1, objects: 1}).listWatch(), reducePod).ListWithContext(ctx, metav1.ListOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a second list of what is observed: %v", err)
	}
}

// A watch that nobody reads any more ends, whatever the member sends.
func TestWatchEndsWithItsReader(t *testing.T) {
	server := &pages{}
	w, err := newTestMeter().owned("ConfigMap", server.listWatch()).WatchWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server.watch.Add(sizedMap(1, 1))
	server.watch.Add(sizedMap(2, 1))
	w.Stop()
	for range w.ResultChan() { // until it is closed
	}
	if !server.watch.IsStopped() {
		t.Error("the member is still watched")
	}
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
