package clusters

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// versioned is a ConfigMap in some version.
func versioned(name, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: name, ResourceVersion: version}}
}

func nameAndVersion(obj any) string {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		return nameAndVersion(unknown.Obj) + " at last"
	}
	cm := obj.(*corev1.ConfigMap)
	return cm.Name + cm.ResourceVersion
}

// told is a handler that notes what it is told.
type told struct{ events []string }

func (h *told) OnAdd(obj any, first bool) {
	at := map[bool]string{true: " at first"}[first]
	h.events = append(h.events, "added "+nameAndVersion(obj)+at)
}
func (h *told) OnUpdate(before, after any) {
	h.events = append(h.events, nameAndVersion(before)+" to "+nameAndVersion(after))
}
func (h *told) OnDelete(obj any) { h.events = append(h.events, "deleted "+nameAndVersion(obj)) }

// since returns what was told since the last call, sorted.
func (h *told) since() []string {
	out := slices.Sorted(slices.Values(h.events))
	h.events = nil
	return out
}

func testInformer(session context.Context) (*informer, contentsOf) {
	i := newInformer(session, "alpine", newTestMeter().owned("ConfigMap"), (&pages{}).listWatch(), &corev1.ConfigMap{}, time.Hour, toolscache.Indexers{})
	return i, contentsOf{i}
}

func add(t *testing.T, i *informer, h toolscache.ResourceEventHandler, resync time.Duration) toolscache.ResourceEventHandlerRegistration {
	t.Helper()
	r, err := i.AddEventHandlerWithResyncPeriod(h, resync)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestHandlersOfMembersAreTold(t *testing.T) {
	session, end := context.WithCancel(t.Context())
	i, reflector := testInformer(session)
	early, resynced := &told{}, &told{}
	registered := add(t, i, early, 0)
	if registered.HasSynced() || i.HasSynced() {
		t.Error("it is in sync before it has a list")
	}
	for _, step := range []struct {
		what       string
		do         func() error
		want, have []string
	}{
		{"a first list", func() error { return reflector.Replace([]any{versioned("a", "1"), versioned("b", "1")}, "1") },
			[]string{"added a1 at first", "added b1 at first"}, []string{"a1", "b1"}},
		{"another handler", func() error { add(t, i, resynced, time.Hour); return nil }, nil, []string{"a1", "b1"}},
		{"a new object", func() error { return reflector.Add(versioned("c", "2")) }, []string{"added c2"}, []string{"a1", "b1", "c2"}},
		{"a change", func() error { return reflector.Update(versioned("a", "3")) }, []string{"a1 to a3"}, []string{"a3", "b1", "c2"}},
		{"an object that was thought to be new", func() error { return reflector.Add(versioned("a", "4")) }, []string{"a3 to a4"}, []string{"a4", "b1", "c2"}},
		{"a change of what was not known", func() error { return reflector.Update(versioned("d", "5")) }, []string{"added d5"}, []string{"a4", "b1", "c2", "d5"}},
		{"a deletion", func() error { return reflector.Delete(versioned("b", "6")) }, []string{"deleted b6"}, []string{"a4", "c2", "d5"}},
		{"another of the same", func() error { return reflector.Delete(versioned("b", "6")) }, nil, []string{"a4", "c2", "d5"}},
		{"another list", func() error { return reflector.Replace([]any{versioned("a", "7"), versioned("e", "7")}, "7") },
			[]string{"a4 to a7", "added e7", "deleted c2 at last", "deleted d5 at last"}, []string{"a7", "e7"}},
		{"a resync", reflector.Resync, nil, []string{"a7", "e7"}},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, early.since()); diff != "" {
			t.Errorf("%s: %s", step.what, diff)
		}
		var have []string
		for _, obj := range i.GetStore().List() {
			have = append(have, nameAndVersion(obj))
		}
		slices.Sort(have)
		if diff := cmp.Diff(step.have, have); diff != "" {
			t.Errorf("after %s: %s", step.what, diff)
		}
	}
	if !registered.HasSynced() || !toolscache.IsDone(registered.HasSyncedChecker()) {
		t.Error("it is not in sync")
	}
	if diff := cmp.Diff([]string{
		"a1 to a3", "a3 to a4", "a4 to a7", "a7 to a7", "added a1 at first", "added b1 at first", "added c2", "added d5", "added e7",
		"deleted b6", "deleted c2 at last", "deleted d5 at last", "e7 to e7",
	}, resynced.since()); diff != "" {
		t.Errorf("a handler that came second, and wants resyncs: %s", diff)
	}
	if err := i.RemoveEventHandler(registered); err != nil {
		t.Fatal(err)
	}
	if err := reflector.Add(versioned("f", "8")); err != nil || len(early.since()) != 0 {
		t.Errorf("a handler that was removed is told, %v", err)
	}
	end()
	if _, err := i.AddEventHandler(&told{}); err == nil || !i.IsStopped() {
		t.Error("a handler is added though the member is not connected")
	}
}

// replay is a handler that has what it was told, and notes what contradicts that.
type replay struct {
	has   map[string]string
	wrong []string
}

func (h *replay) OnAdd(obj any, _ bool) {
	cm := obj.(*corev1.ConfigMap)
	if _, ok := h.has[cm.Name]; ok {
		h.wrong = append(h.wrong, "added again: "+cm.Name)
	}
	h.has[cm.Name] = cm.ResourceVersion
}

func (h *replay) OnUpdate(before, after any) {
	b, a := before.(*corev1.ConfigMap), after.(*corev1.ConfigMap)
	if h.has[b.Name] != b.ResourceVersion {
		h.wrong = append(h.wrong, "not known before: "+b.Name+b.ResourceVersion)
	}
	h.has[a.Name] = a.ResourceVersion
}

func (h *replay) OnDelete(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	name := obj.(*corev1.ConfigMap).Name
	if _, ok := h.has[name]; !ok {
		h.wrong = append(h.wrong, "deleted, and not known: "+name)
	}
	delete(h.has, name)
}

// Whatever a reflector writes, in whatever order, and whenever a handler is added: it knows what the cache has.
func TestHandlersKnowWhatTheCacheHas(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		i, reflector := testInformer(t.Context())
		var handlers []*replay
		for step := range 300 {
			obj := versioned(fmt.Sprint("c", random.IntN(10)), fmt.Sprint(step))
			var err error
			switch random.IntN(9) {
			case 0, 1, 2:
				err = reflector.Add(obj)
			case 3, 4:
				err = reflector.Update(obj)
			case 5, 6:
				err = reflector.Delete(obj)
			case 7:
				var list []any
				for n := range random.IntN(10) {
					list = append(list, versioned(fmt.Sprint("c", n), fmt.Sprint(step)))
				}
				err = reflector.Replace(list, fmt.Sprint(step))
			case 8:
				handlers = append(handlers, &replay{has: map[string]string{}})
				add(t, i, handlers[len(handlers)-1], 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]string{}
		for _, obj := range i.GetIndexer().List() {
			want[obj.(*corev1.ConfigMap).Name] = obj.(*corev1.ConfigMap).ResourceVersion
		}
		for n, h := range handlers {
			if diff := cmp.Diff(want, h.has); diff != "" || h.wrong != nil {
				t.Fatalf("seed %d, handler %d: %q %s", seed, n, h.wrong, diff)
			}
		}
	}
}
