package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
)

func TestHeardOf(t *testing.T) {
	live := func() *RunWrapper { return MakeRun("r1", "alpine", v1alpha1.RunRunning) }
	for name, tc := range map[string]struct {
		ids    []string
		run    *RunWrapper
		member *MemberWrapper
		job    *JobWrapper
		want   bool
	}{
		"live, and its member can be asked": {[]string{"x", "r1"}, live(), MakeMember("alpine"), MakeJob("r1"), true},
		"declared is another":               {[]string{"x"}, live(), MakeMember("alpine"), MakeJob("r1"), false},
		"its member cannot be asked":        {[]string{"r1"}, live(), MakeMember("alpine").Unreachable(time.Hour), MakeJob("r1"), false},
		"its member is being connected":     {[]string{"r1"}, live(), MakeMember("alpine").Connecting(), MakeJob("r1"), false},
		"its member was never asked":        {[]string{"r1"}, live(), MakeMember("alpine").NeverAttempted(), MakeJob("r1"), false},
		"its member is no more":             {[]string{"r1"}, live(), MakeMember("basalt"), nil, false},
		"another cluster answers":           {[]string{"r1"}, live(), MakeMember("alpine").UID("other"), MakeJob("r1"), false},
		"its Job is not there":              {[]string{"r1"}, live(), MakeMember("alpine"), nil, false},
		"there is the Job of another run":   {[]string{"r1"}, live(), MakeMember("alpine"), MakeJob("r2"), false},
		"it was given up":                   {[]string{"r1"}, MakeRun("r1", "alpine", v1alpha1.RunReplaced).Stopped(v1alpha1.StopDeclaredGone), MakeMember("alpine"), MakeJob("r1"), false},
	} {
		s := MakeSnapshot(MakeObject("a").With(declared(tc.ids...)).Runs(tc.run).Obj(), tc.member)
		if tc.job != nil {
			fact(s, "alpine", func(f *plan.Facts) { f.Cached = tc.job.Observation() })
		}
		if heard := plan.HeardOf(s); (len(heard) == 1) != tc.want || tc.want && heard[0].ID != "r1" {
			t.Errorf("%s: %+v", name, heard)
		}
	}
	for _, tc := range []struct{ list, want string }{{"r1", ""}, {" x, r1 r2,,", "x,r2"}, {"r11", "r11"}} {
		if diff := cmp.Diff(tc.want, plan.WithoutRuns(tc.list, []v1alpha1.Run{live().Run})); diff != "" {
			t.Errorf("%q: %s", tc.list, diff)
		}
	}
}
