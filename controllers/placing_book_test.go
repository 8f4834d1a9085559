package controllers

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
)

func keyOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "hpc", Name: name}
}

func asking(pods int, cpu string, nodeSelector map[string]string) fit.Gang {
	return fit.Gang{Size: pods, Pod: fit.PodOf(&corev1.PodSpec{
		NodeSelector: nodeSelector,
		Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		}}},
	})}
}

func TestWhoIsAhead(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC) }
	total := fleet.Amounts{"cpu": 8000, "pods": 10}
	nodes := []fleet.Node{
		{Name: "any", Total: total, Free: fleet.Amounts{}},
		{Name: "ssd", Total: total, Free: fleet.Amounts{}, Labels: map[string]string{"disk": "ssd"}},
	}
	ssd := map[string]string{"disk": "ssd"}
	self := rank{priority: 1, created: at(5), key: keyOf("self")}
	waiting := func(priority int32, hour int, name string, g fit.Gang) waiter {
		return waiter{rank: rank{priority, at(hour), keyOf(name)}, members: map[string]fit.Gang{"alpine": g}}
	}
	small := asking(1, "1", nil)
	cases := map[string]struct {
		waiters []waiter
		gang    fit.Gang
		want    string
	}{
		"nobody":                     {nil, small, ""},
		"a higher priority, younger": {[]waiter{waiting(2, 9, "other", small)}, small, "other"},
		"a lower priority, older":    {[]waiter{waiting(0, 1, "other", small)}, small, ""},
		"the same priority, older":   {[]waiter{waiting(1, 4, "other", small)}, small, "other"},
		"the same priority, younger": {[]waiter{waiting(1, 6, "other", small)}, small, ""},
		"the same age, by name":      {[]waiter{waiting(1, 5, "a", small), waiting(1, 5, "z", small)}, small, "a"},
		"the first of several":       {[]waiter{waiting(1, 4, "second", small), waiting(7, 9, "first", small), waiting(1, 3, "third", small)}, small, "first"},
		"itself":                     {[]waiter{waiting(1, 5, "self", small)}, small, ""},
		"one that never fits":        {[]waiter{waiting(9, 1, "other", asking(1, "9", nil))}, small, ""},
		"one that fits when empty":   {[]waiter{waiting(9, 1, "other", asking(2, "8", nil))}, small, "other"},
		"on other nodes":             {[]waiter{waiting(9, 1, "other", asking(1, "8", ssd))}, asking(1, "1", map[string]string{"disk": "hdd"}), ""},
		"on some of the nodes":       {[]waiter{waiting(9, 1, "other", asking(1, "8", ssd))}, small, "other"},
		"elsewhere":                  {[]waiter{{rank: rank{9, at(1), keyOf("other")}, members: map[string]fit.Gang{"basalt": small}}}, small, ""},
		"anywhere":                   {[]waiter{{rank: rank{9, at(1), keyOf("other")}, anywhere: &small}}, small, "other"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var b book
			for _, w := range c.waiters {
				b.wait(w.key, &w)
			}
			got := ""
			if w := b.ahead("alpine", nodes, self, c.gang); w != nil {
				got = w.key.Name
			}
			if got != c.want {
				t.Errorf("%q is ahead, want %q", got, c.want)
			}
		})
	}
}

func TestBookTellsWhomItConcerns(t *testing.T) {
	var b book
	g := asking(1, "1", nil)
	b.claim("alpine", keyOf("a"), claim{run: "1", gang: g})
	b.claim("basalt", keyOf("a"), claim{run: "2", gang: g})
	b.claim("alpine", keyOf("b"), claim{run: "3", gang: g})
	if b.liveRuns("alpine") != 2 || b.liveRuns("cinder") != 0 {
		t.Error("live runs are not counted")
	}
	if got := b.release(keyOf("a"), func(member string) bool { return member == "alpine" }); !slices.Equal(got, []string{"basalt"}) {
		t.Errorf("released on %v", got)
	}
	if _, ok := b.claimOf("alpine", keyOf("b")); !ok {
		t.Error("another's claim is gone")
	}
	w := &waiter{rank: rank{key: keyOf("c")}, members: map[string]fit.Gang{"alpine": g}}
	if got := b.wait(w.key, w); got != nil {
		t.Errorf("who begins to wait wakes %v", got)
	}
	if got := b.wait(w.key, w); got != nil {
		t.Errorf("who goes on waiting wakes %v", got)
	}
	higher := *w
	higher.priority = 4
	if got := b.wait(w.key, &higher); !slices.Equal(got, []string{"alpine"}) {
		t.Errorf("another priority wakes %v", got)
	}
	if got := b.wait(w.key, nil); !slices.Equal(got, []string{"alpine"}) {
		t.Errorf("who ceases to wait wakes %v", got)
	}
	if got := b.wait(w.key, nil); got != nil {
		t.Errorf("who does not wait wakes %v", got)
	}
}

func TestBookLearnsOfRoomOnce(t *testing.T) {
	var b book
	alpine, again := &clusters.Member{Name: "alpine"}, &clusters.Member{Name: "alpine"}
	learn := func(m *clusters.Member, want ...types.NamespacedName) {
		t.Helper()
		if got := b.learn(m); !slices.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
	}
	b.ask("alpine", keyOf("b"))
	b.ask("alpine", keyOf("a"))
	b.ask("alpine", keyOf("b"))
	b.ask("basalt", keyOf("c"))
	learn(alpine, keyOf("a"), keyOf("b"))
	b.ask("alpine", keyOf("d"))
	learn(alpine)            // which is no news
	learn(again, keyOf("d")) // it was connected anew
	learn(&clusters.Member{Name: "basalt"}, keyOf("c"))
}
