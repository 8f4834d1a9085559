package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/plan"
)

// A run that does not get going is evicted on its member's own word alone, and only where another member can take it.
func TestOverdue(t *testing.T) {
	long, short := pendingTimeout(30*time.Second), pendingTimeout(2*time.Minute)
	waits := func() *plan.Observation { return MakeJob("aa").Observation() }
	runsNow := func() *plan.Observation { return MakeJob("aa").Running().Observation() }
	proof := func(j *JobWrapper) *eviction.Proof { return j.Proof() }
	type outcome struct {
		Reads   []plan.Fact
		Evicted v1alpha1.StopReason
		Stays   bool
		Placed  []string
		After   time.Duration
	}
	running := func() *RunWrapper { return MakeRun("aa", "alpine", v1alpha1.RunRunning) }
	stays := outcome{Placed: []string{"alpine"}}
	cases := map[string]struct {
		object  *ObjectWrapper
		alpine  *MemberWrapper
		basalt  *MemberWrapper
		cached  *plan.Observation
		proof   *eviction.Proof
		want    outcome
		another func(*plan.Snapshot)
	}{
		"nobody minds":               {object: MakeObject("run").Runs(running()), want: stays},
		"the cache is asked":         {object: MakeObject("run").With(long).Runs(running()), want: outcome{Reads: []plan.Fact{plan.ReadCached}}},
		"the member is asked":        {object: MakeObject("run").With(long).Runs(running()), cached: waits(), want: outcome{Reads: []plan.Fact{plan.ReadProof}}},
		"the member says so":         {object: MakeObject("run").With(long).Runs(running()), cached: waits(), proof: proof(MakeJob("aa")), want: outcome{Evicted: v1alpha1.StopNotStarted, Placed: []string{"basalt"}}},
		"the member does not":        {object: MakeObject("run").With(long).Runs(running()), cached: waits(), proof: proof(MakeJob("aa").Running()), want: stays},
		"the member gives no answer": {object: MakeObject("run").With(long).Runs(running()), cached: waits(), proof: &eviction.Proof{Failed: true}, want: stays},
		"it is not time yet":         {object: MakeObject("run").With(short).Runs(running()), cached: waits(), want: outcome{Placed: []string{"alpine"}, After: time.Minute}},
		"it runs":                    {object: MakeObject("run").With(long).Runs(running()), cached: runsNow(), want: stays},
		"it is suspended":            {object: MakeObject("run").With(long, suspended).Runs(running()), cached: waits(), proof: proof(MakeJob("aa")), want: stays},
		"it is outdated":             {object: MakeObject("run").With(long).Runs(running().Of("old")), cached: waits(), want: stays},
		"its member is lost":         {object: MakeObject("run").With(long).Runs(running()), alpine: MakeMember("alpine").Unreachable(time.Hour), want: stays},
		"its member came back just now": {object: MakeObject("run").With(long).Runs(running()), alpine: MakeMember("alpine").ConnectedFor(10 * time.Second), cached: waits(),
			want: outcome{Placed: []string{"alpine"}, After: 20 * time.Second}},
		"nobody else can take it": {object: MakeObject("run").With(long).Runs(running()), basalt: MakeMember("basalt").Suspended(), cached: waits(), proof: proof(MakeJob("aa")),
			want: outcome{Stays: true, Placed: []string{"alpine"}, After: 15 * time.Second}},
		"it was evicted from the other": {object: MakeObject("run").With(long).Runs(MakeRun("bb", "basalt", v1alpha1.RunReplaced).Stopped(v1alpha1.StopNotStarted), running()), cached: waits(), proof: proof(MakeJob("aa")),
			want: outcome{Stays: true, Placed: []string{"alpine"}, After: 15 * time.Second}},
		"it was never created": {object: MakeObject("run").With(long).Runs(MakeRun("aa", "alpine", v1alpha1.RunStarting)), cached: none(), proof: &eviction.Proof{},
			want: outcome{Evicted: v1alpha1.StopNotStarted, Placed: []string{"basalt"}}},
		"it was created by now": {object: MakeObject("run").With(long).Runs(MakeRun("aa", "alpine", v1alpha1.RunStarting)), cached: none(), proof: proof(MakeJob("aa")), want: stays},
		"it has lost its nodes": {object: MakeObject("run").With(failover(v1alpha1.FenceProvenGone)).Runs(running().RunningSince(-time.Hour).PendingFrom(-2 * time.Minute)), cached: waits(), proof: proof(MakeJob("aa")),
			want: outcome{Evicted: v1alpha1.StopLost, Placed: []string{"basalt"}}},
		"it has, and people decide": {object: MakeObject("run").With(failover(v1alpha1.FenceManual)).Runs(running().RunningSince(-time.Hour).PendingFrom(-2 * time.Minute)), cached: waits(), proof: proof(MakeJob("aa")), want: stays},
		"a queue there releases it": {object: MakeObject("run").With(long, func(f *v1alpha1.FleetMiniCluster) {
			f.Spec.MiniCluster.JobLabels = map[string]string{"kueue.x-k8s.io/queue-name": "q"}
		}).Runs(MakeRun("aa", "alpine", v1alpha1.RunStarting)), cached: none(), proof: &eviction.Proof{}, want: stays},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.alpine == nil {
				c.alpine = MakeMember("alpine")
			}
			if c.basalt == nil {
				c.basalt = MakeMember("basalt")
			}
			s := MakeSnapshot(c.object.Placed("alpine").Obj(), c.alpine, c.basalt)
			anyRoom(s)
			fact(s, "alpine", func(f *plan.Facts) { f.Cached, f.Proof = c.cached, c.proof })
			d, reads := plan.Decide(s, nil)
			got := outcome{Reads: reads.Members["alpine"]}
			if !reads.Any() {
				got = outcome{Evicted: d.Evictions["alpine"].Stop, Stays: d.Stay["alpine"] != "", Placed: d.Placement.Clusters, After: d.After}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A person's word counts while the member cannot be asked, and only then.
func TestDeclared(t *testing.T) {
	running := func() *RunWrapper { return MakeRun("aa", "alpine", v1alpha1.RunRunning) }
	cases := map[string]struct {
		object  *ObjectWrapper
		members []*MemberWrapper
		want    v1alpha1.RunState
	}{
		"nobody says so":                 {MakeObject("run").Runs(running()), []*MemberWrapper{MakeMember("alpine").Unreachable(time.Hour)}, v1alpha1.RunRunning},
		"the member is lost":             {MakeObject("run").With(declared("aa")).Runs(running()), []*MemberWrapper{MakeMember("alpine").Unreachable(time.Hour)}, v1alpha1.RunReplaced},
		"one of several":                 {MakeObject("run").With(declared("bb", "aa")).Runs(running()), []*MemberWrapper{MakeMember("alpine").Unreachable(time.Hour)}, v1alpha1.RunReplaced},
		"another run":                    {MakeObject("run").With(declared("bb")).Runs(running()), []*MemberWrapper{MakeMember("alpine").Unreachable(time.Hour)}, v1alpha1.RunRunning},
		"the member is not registered":   {MakeObject("run").With(declared("aa")).Runs(running()), nil, v1alpha1.RunReplaced},
		"the member can be asked":        {MakeObject("run").With(declared("aa")).Runs(running()), []*MemberWrapper{MakeMember("alpine")}, v1alpha1.RunRunning},
		"the member is being connected":  {MakeObject("run").With(declared("aa")).Runs(running()), []*MemberWrapper{MakeMember("alpine").Connecting()}, v1alpha1.RunRunning},
		"the hub was started just now":   {MakeObject("run").With(declared("aa")).Runs(running()), []*MemberWrapper{MakeMember("alpine").NeverAttempted()}, v1alpha1.RunRunning},
		"it has succeeded":               {MakeObject("run").With(declared("aa")).Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded)), nil, v1alpha1.RunSucceeded},
		"the whole member is":            {MakeObject("run").Runs(running()), []*MemberWrapper{MakeMember("alpine").Unreachable(time.Hour).Declared(-time.Second)}, v1alpha1.RunReplaced},
		"the member was, and came back":  {MakeObject("run").Runs(running()), []*MemberWrapper{MakeMember("alpine").Declared(-time.Second)}, v1alpha1.RunRunning},
		"the member was, for a time ago": {MakeObject("run").Runs(running()), []*MemberWrapper{MakeMember("alpine").Unreachable(time.Minute).Declared(-time.Hour)}, v1alpha1.RunRunning},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := c.object.Placed("alpine").Obj().DeepCopy()
			s := MakeSnapshot(c.object.Obj(), append(c.members, MakeMember("basalt"))...)
			anyRoom(s)
			d := decided(t, s)
			if got := d.Ledger.Last("alpine").State; got != c.want {
				t.Errorf("it is %s, want %s", got, c.want)
			}
			told := slices.ContainsFunc(d.Events, func(e plan.Event) bool { return e.Reason == v1alpha1.ReasonRunReplaced && e.Run == "aa" })
			given := c.want == v1alpha1.RunReplaced
			if told != given || given && !slices.Equal(d.Placement.Clusters, []string{"basalt"}) {
				t.Errorf("told: %t, placed on %v", told, d.Placement.Clusters)
			}
			if diff := cmp.Diff(before, s.Object); diff != "" {
				t.Errorf("the object has changed: %s", diff)
			}
		})
	}
}
