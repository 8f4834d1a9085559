package store_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/dashboard/store"
	"github.com/minifleet/minifleet/internal/view"
)

func miniCluster(namespace, name, version string) *v1alpha1.FleetMiniCluster {
	return &v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: version, Labels: map[string]string{v1alpha1.LabelSource: "fleet"}},
		Status: v1alpha1.FleetMiniClusterStatus{
			State: v1alpha1.StateRunning, Revision: "main@1a2b3c4",
			Placement: &v1alpha1.PlacementDecision{Clusters: []string{"alpine"}},
			Runs:      []v1alpha1.Run{{ID: "a", Cluster: "alpine", State: v1alpha1.RunRunning}},
		},
	}
}

func member(name, version string, ready bool) *v1alpha1.MemberCluster {
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	if !ready {
		m.Status.Conditions[0].Status = metav1.ConditionUnknown
		m.Status.LastHeardTime = &metav1.Time{Time: time.Unix(1000, 0)}
	}
	return m
}

func source(namespace, version string, commits ...v1alpha1.Commit) *v1alpha1.GitSource {
	return &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleet", ResourceVersion: version}, Status: v1alpha1.GitSourceStatus{Commits: commits},
	}
}

func only(namespaces ...string) view.Sees {
	return func(n string) bool { return slices.Contains(namespaces, n) }
}

func reader(members bool, namespaces ...string) store.Reader {
	return store.Reader{MiniClusters: only(namespaces...), Sources: only(namespaces...), Members: members}
}

// summarize is a change in short.
func summarize(c view.Change) string {
	var out []string
	for _, r := range c.MiniClusters {
		out = append(out, r.Name+" "+r.State)
	}
	for _, r := range c.Removed {
		out = append(out, "-"+r.Name)
	}
	for _, m := range c.Members {
		out = append(out, "member "+m)
	}
	for _, s := range c.Sources {
		out = append(out, "source "+s.Namespace)
	}
	if c.Reset {
		out = append(out, "reset")
	}
	if c.Queue {
		out = append(out, "queue")
	}
	return strings.Join(out, ", ")
}

func TestChanges(t *testing.T) {
	waits := miniCluster("physics", "w", "1")
	waits.Status = v1alpha1.FleetMiniClusterStatus{State: v1alpha1.StateWaiting, Placement: &v1alpha1.PlacementDecision{Waiting: []v1alpha1.RejectedCluster{{Name: "alpine"}}}}
	cases := map[string]struct {
		do     func(*store.Store)
		reader store.Reader
		want   string
	}{
		"nothing": {func(*store.Store) {}, reader(true, "physics"), ""},
		"created": {func(s *store.Store) { s.SetMiniCluster(miniCluster("physics", "b", "1")) }, reader(true, "physics"), "b Running"},
		"changed many times": {func(s *store.Store) {
			for i := range 5 {
				s.SetMiniCluster(miniCluster("physics", "a", fmt.Sprint(i+2)))
			}
		}, reader(true, "physics"), "a Running"},
		"listed again": {func(s *store.Store) { s.SetMiniCluster(miniCluster("physics", "a", "1")) }, reader(true, "physics"), ""},
		"created and deleted": {func(s *store.Store) {
			s.SetMiniCluster(miniCluster("physics", "b", "1"))
			s.DeleteMiniCluster(store.Key{Namespace: "physics", Name: "b"})
			s.DeleteMiniCluster(store.Key{Namespace: "physics", Name: "never"})
		}, reader(true, "physics"), "-b"},
		"hidden": {func(s *store.Store) {
			s.SetMiniCluster(miniCluster("chemistry", "b", "1"))
			s.DeleteMiniCluster(store.Key{Namespace: "chemistry", Name: "a"})
			s.SetSource(source("chemistry", "2"))
			s.SetMember(member("birch", "1", true))
		}, reader(false, "physics"), ""},
		"a member is lost":         {func(s *store.Store) { s.SetMember(member("alpine", "2", false)) }, reader(true, "physics"), "a Unknown, member alpine"},
		"a member is lost, unseen": {func(s *store.Store) { s.SetMember(member("alpine", "2", false)) }, reader(false, "physics"), "a Unknown"},
		"a member is back": {func(s *store.Store) {
			s.SetMember(member("alpine", "2", false))
			s.SetMember(member("alpine", "3", true))
		}, reader(true, "physics"), "a Running, member alpine"},
		"a lost member is deleted": {func(s *store.Store) {
			s.SetMember(member("alpine", "2", false))
			s.DeleteMember("alpine")
			s.DeleteMember("never")
		}, reader(false, "physics"), "a Running"},
		"another member": {func(s *store.Store) { s.SetMember(member("birch", "1", false)) }, reader(true, "physics"), "member birch"},
		"commits": {func(s *store.Store) {
			s.SetSource(source("physics", "2", v1alpha1.Commit{Hash: "1a2b3c4d", Revision: "main@1a2b3c4"}))
		}, reader(true, "physics"), "a Running, source physics"},
		"a source without news": {func(s *store.Store) { s.SetSource(source("physics", "2")) }, reader(true, "physics"), "source physics"},
		"a source is deleted":   {func(s *store.Store) { s.DeleteSource(store.Key{Namespace: "physics", Name: "fleet"}) }, reader(true, "physics"), "source physics"},
		"waits":                 {func(s *store.Store) { s.SetMiniCluster(waits) }, reader(true, "physics"), "w Waiting, queue"},
		"waits, hidden":         {func(s *store.Store) { s.SetMiniCluster(waits) }, reader(true, "chemistry"), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := store.New("e", 64)
			s.SetMember(member("alpine", "1", true))
			for _, namespace := range []string{"physics", "chemistry"} {
				s.SetSource(source(namespace, "1"))
				s.SetMiniCluster(miniCluster(namespace, "a", "1"))
			}
			cursor := s.Cursor()
			c.do(s)
			if got := summarize(s.Changes(cursor, c.reader)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestCursors(t *testing.T) {
	s := store.New("e", 4)
	all := reader(true, "physics")
	for i := range 6 {
		s.SetMiniCluster(miniCluster("physics", "a", fmt.Sprint(i+1)))
	}
	for cursor, reset := range map[string]bool{
		"e-6": false, "e-2": false, "e-1": true, "e-7": true, "f-6": true, "": true, "e": true, "e-x": true, "e--1": true,
	} {
		got := s.Changes(cursor, all)
		if got.Reset != reset || got.Cursor != "e-6" || got.Reset && len(got.MiniClusters) > 0 {
			t.Errorf("%q: got %+v", cursor, got)
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestChanged(t *testing.T) {
	s := store.New("e", 4)
	before := s.Cursor()
	changed := s.Changed(before)
	if isClosed(changed) {
		t.Error("nothing has changed")
	}
	s.SetMiniCluster(miniCluster("physics", "a", "1"))
	if !isClosed(changed) || !isClosed(s.Changed(before)) || isClosed(s.Changed(s.Cursor())) {
		t.Error("a change is not told once")
	}
}

// Nothing is missed between a list and the changes after its cursor, whatever happens meanwhile.
func TestNothingIsMissed(t *testing.T) {
	s := store.New("e", 1<<14)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 500 {
				name := fmt.Sprint("m", w, "-", i%20)
				if i%7 == 6 {
					s.DeleteMiniCluster(store.Key{Namespace: "physics", Name: name})
				} else {
					s.SetMiniCluster(miniCluster("physics", name, fmt.Sprint(w, i)))
				}
				if i%50 == 0 {
					s.SetMember(member("alpine", fmt.Sprint(w, i), i%100 == 0))
				}
			}
		})
	}
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			cursor := s.Cursor()
			have := map[string]view.Row{}
			for _, e := range s.MiniClusters(nil) {
				have[e.Row.Name] = e.Row
			}
			apply := func() {
				c := s.Changes(cursor, reader(true, "physics"))
				cursor = c.Cursor
				for _, r := range c.MiniClusters {
					have[r.Name] = r
				}
				for _, r := range c.Removed {
					delete(have, r.Name)
				}
			}
			for range 50 {
				apply()
			}
			writers.Wait()
			apply()
			want := map[string]view.Row{}
			for _, e := range s.MiniClusters(nil) {
				want[e.Row.Name] = e.Row
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	readers.Wait()
}

func TestReads(t *testing.T) {
	s := store.New("e", 64)
	s.SetMember(member("birch", "1", true))
	s.SetMember(member("alpine", "1", true))
	s.SetSource(source("physics", "1", v1alpha1.Commit{Hash: "1a2b3c4d", Revision: "main@1a2b3c4", Subject: "Use more ranks"}))
	s.SetSource(source("chemistry", "1"))
	s.SetMiniCluster(miniCluster("physics", "a", "1"))
	s.SetMiniCluster(miniCluster("chemistry", "a", "1"))
	if e := s.MiniCluster(store.Key{Namespace: "physics", Name: "a"}); e == nil || e.Row.Commit.Subject != "Use more ranks" {
		t.Errorf("got %+v", e)
	}
	if e := s.MiniCluster(store.Key{Namespace: "chemistry", Name: "a"}); e.Row.Commit.Subject != "" {
		t.Errorf("it has the commit of another source: %+v", e.Row.Commit)
	}
	if got := len(s.MiniClusters(only("physics"))); got != 1 {
		t.Errorf("got %d", got)
	}
	if got := s.Members(); len(got) != 2 || got[0].Name != "alpine" || s.Member("alpine") != got[0] || s.Member("x") != nil {
		t.Errorf("got %+v", got)
	}
	if got := s.Sources(nil); len(got) != 2 || got[0].Namespace != "chemistry" || len(s.Sources(only("physics"))) != 1 {
		t.Errorf("got %+v", got)
	}
	if got := s.Namespaces(); !cmp.Equal(got, []string{"chemistry", "physics"}) {
		t.Errorf("got %s", got)
	}
}

func TestWatch(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	informers := &informertest.FakeInformers{Scheme: scheme}
	s := store.New("e", 64)
	filled, err := s.Watch(t.Context(), informers)
	if err != nil {
		t.Fatal(err)
	}
	fake := func(kind any) *controllertest.FakeInformer {
		i, err := informers.FakeInformerFor(t.Context(), kind.(interface {
			metav1.Object
			runtime.Object
		}))
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	f := miniCluster("physics", "a", "1")
	fake(&v1alpha1.FleetMiniCluster{}).Add(f)
	fake(&v1alpha1.MemberCluster{}).Add(member("alpine", "1", true))
	fake(&v1alpha1.GitSource{}).Add(source("physics", "1"))
	if s.MiniCluster(store.Key{Namespace: "physics", Name: "a"}) == nil || s.Member("alpine") == nil || len(s.Sources(nil)) != 1 {
		t.Error("what was added is not there")
	}
	fake(&v1alpha1.FleetMiniCluster{}).Delete(f)
	if s.MiniCluster(store.Key{Namespace: "physics", Name: "a"}) != nil {
		t.Error("what was deleted is there")
	}
	_ = filled()
}
