package expectations

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// cacheOf is a cache that holds one object.
type cacheOf struct {
	client.Reader

	cached *v1alpha1.FleetMiniCluster
}

func (c cacheOf) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.cached.DeepCopyInto(into.(*v1alpha1.FleetMiniCluster))
	return nil
}

func TestExpectations(t *testing.T) {
	at := func(version, revision string) *v1alpha1.FleetMiniCluster {
		return &v1alpha1.FleetMiniCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "a", ResourceVersion: version},
			Status:     v1alpha1.FleetMiniClusterStatus{Revision: revision},
		}
	}
	update := func(e *Expectations, to *v1alpha1.FleetMiniCluster) {
		e.Predicate().Update(event.UpdateEvent{ObjectNew: to})
	}
	cases := map[string]struct {
		after   func(e *Expectations) // what happens after version 10 was written
		cache   string                // the version in the cache, both when it was written and when a reconciliation begins
		want    string                // what the reconciliation begins with: "cache" or "written"
		dropped bool
	}{
		"the cache is behind":              {nil, "9", "written", false},
		"behind, by fewer digits":          {nil, "8", "written", false},
		"the cache has it":                 {nil, "10", "cache", true},
		"the cache has a later one":        {nil, "100", "cache", true},
		"an older event comes":             {func(e *Expectations) { update(e, at("9", "")) }, "9", "written", false},
		"its own event comes":              {func(e *Expectations) { update(e, at("10", "")) }, "9", "cache", true},
		"a later event comes":              {func(e *Expectations) { update(e, at("11", "")) }, "9", "cache", true},
		"it is deleted":                    {func(e *Expectations) { e.Predicate().Delete(event.DeleteEvent{Object: at("12", "")}) }, "9", "cache", true},
		"versions that are not comparable": {nil, "x9", "cache", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var e Expectations
			cached := at(c.cache, "cache")
			e.Expect(t.Context(), cacheOf{cached: cached}, at("10", "written"))
			if c.after != nil {
				c.after(&e)
			}
			got := e.Newest(cached)
			if got.Status.Revision != c.want {
				t.Errorf("the reconciliation begins with that of the %s, want %s", got.Status.Revision, c.want)
			}
			if dropped := len(e.objects) == 0; dropped != c.dropped {
				t.Errorf("dropped: %t, want %t", dropped, c.dropped)
			}
			got.Status.Revision = "changed by the reconciliation"
			if again := e.Newest(at("1", "")); again == got {
				t.Error("two reconciliations share an object")
			}
		})
	}
}

func TestStatusEdited(t *testing.T) {
	at := func(version, revision string) *v1alpha1.FleetMiniCluster {
		return &v1alpha1.FleetMiniCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "a", ResourceVersion: version},
			Status:     v1alpha1.FleetMiniClusterStatus{Revision: revision},
		}
	}
	event := func(e *Expectations, version, revision string) bool {
		return e.StatusEdited().Update(event.UpdateEvent{ObjectOld: at("1", ""), ObjectNew: at(version, revision)})
	}
	key := client.ObjectKeyFromObject(at("", ""))
	written := func(e *Expectations, versions ...string) {
		for _, v := range versions {
			e.Writing(key)
			e.Wrote(key, v)
		}
	}
	cases := map[string]struct {
		tell func(e *Expectations) bool
		want bool
	}{
		"nobody has written here":           {func(e *Expectations) bool { return event(e, "2", "x") }, true},
		"its own write":                     {func(e *Expectations) bool { written(e, "2"); return event(e, "2", "x") }, false},
		"an earlier one of its own":         {func(e *Expectations) bool { written(e, "2", "3", "4"); return event(e, "2", "x") }, false},
		"somebody else's":                   {func(e *Expectations) bool { written(e, "2"); return event(e, "3", "x") }, true},
		"the status is the same":            {func(e *Expectations) bool { written(e, "2"); return event(e, "3", "") }, false},
		"its own, before the write returns": {func(e *Expectations) bool { e.Writing(key); return event(e, "2", "x") || e.Wrote(key, "2") }, false},
		"somebody else's, before the write returns": {func(e *Expectations) bool {
			e.Writing(key)
			return !event(e, "3", "x") && e.Wrote(key, "2")
		}, true},
		"the write is refused": {func(e *Expectations) bool {
			e.Writing(key)
			return !event(e, "3", "x") && e.Wrote(key, "")
		}, true},
		"it was deleted": {func(e *Expectations) bool {
			written(e, "2")
			e.deleted(key)
			return event(e, "2", "x")
		}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.tell(&Expectations{}); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
