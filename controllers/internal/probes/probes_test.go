package probes

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// A member is asked why pods are not ready at these seconds after they were first seen not to be, when the
// number of pods that are ready changes at those.
func TestProbesComeEverMoreRarely(t *testing.T) {
	cases := map[string]struct {
		changes []int
		probes  []int
	}{
		"nothing changes":             {nil, []int{5, 15, 35, 75, 135, 195}},
		"a change before the first":   {[]int{2}, []int{5, 15, 35, 75, 135, 195}},
		"a change right after one":    {[]int{16}, []int{5, 15, 20, 30, 50, 90, 150}},
		"a change long after one":     {[]int{60}, []int{5, 15, 35, 60, 70, 90, 130, 190}},
		"a change at each second":     {[]int{20, 21, 22, 23, 24, 25, 26, 27}, []int{5, 15, 20, 25, 30, 40, 60, 100, 160}},
		"a change in the same second": {[]int{15}, []int{5, 15, 25, 45, 85, 145}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
			all := Probes{Intervals: DefaultIntervals()}
			var got []int
			pods := v1alpha1.PodCounts{Desired: 100}
			for second := range 200 {
				now := start.Add(time.Duration(second) * time.Second)
				for _, change := range c.changes {
					if change == second {
						pods.Ready++
					}
				}
				p := all.Get(types.NamespacedName{Name: "n"}, "m", "run", now.Add(all.Intervals.First))
				if p.Due(pods, now) <= 0 {
					got = append(got, second)
					p.Done(pods, now)
				}
				if p.Due(pods, now) <= 0 {
					t.Fatalf("at %d s the next probe is due at once", second)
				}
			}
			if diff := cmp.Diff(c.probes, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProbesAreOfOneRun(t *testing.T) {
	var all Probes
	key := types.NamespacedName{Namespace: "hpc", Name: "n"}
	all.Get(key, "m", "run-1", time.Time{}).Found = &fleet.PodIssue{Reason: "r"}
	if all.Issue(key, "m", "run-1") == nil || all.Issue(key, "m", "run-2") != nil || all.Issue(key, "other", "run-1") != nil {
		t.Error("what was found is not that of the run on the member")
	}
	if p := all.Get(key, "m", "run-2", time.Time{}); p.Found != nil {
		t.Error("the next run has what was found of the one before")
	}
	all.Drop(key, "m")
	all.Drop(key, "m")
	all.Get(key, "m", "run-3", time.Time{})
	all.Forget(key)
	if len(all.of) != 0 {
		t.Errorf("left: %v", all.of)
	}
}

// A thousand runs that are not ready do not make a thousand questions at once, and one member's do not keep those of another.
func TestOneMemberIsNotAskedForAllAtOnce(t *testing.T) {
	var all Probes
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	allowed := func(member string, at time.Duration) (n int) {
		for range 1000 {
			if all.Allowed(member, start.Add(at)) {
				n++
			}
		}
		return n
	}
	got := []int{allowed("a", 0), allowed("a", 0), allowed("b", 0), allowed("a", time.Second), allowed("a", time.Hour)}
	if diff := cmp.Diff([]int{burst, 0, burst, perSecond, burst}, got); diff != "" {
		t.Error(diff)
	}
}
