package eviction_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/placement"
	"github.com/minifleet/minifleet/internal/runs"
)

func TestDrained(t *testing.T) {
	why := func(sentence string) map[string]eviction.Eviction {
		return map[string]eviction.Eviction{"alpine": {Stop: v1alpha1.StopDrained, Message: "stopped: its member " + sentence}}
	}
	none := map[string]eviction.Eviction{}
	drain := annotated(v1alpha1.AnnotationDrain, "true")
	cases := map[string]struct {
		ledger runs.Ledger
		member *v1alpha1.MemberCluster
		want   map[string]eviction.Eviction
	}{
		"a live run":                           {runs.Ledger{run("a", v1alpha1.RunRunning)}, member("alpine", drain), why("is drained (annotation minifleet.dev/drain)")},
		"a run that is about to start":         {runs.Ledger{run("a", v1alpha1.RunStarting)}, member("alpine", drain), why("is drained (annotation minifleet.dev/drain)")},
		"a run that is being stopped":          {runs.Ledger{run("a", v1alpha1.RunStopping)}, member("alpine", drain), why("is drained (annotation minifleet.dev/drain)")},
		"a run for what was wanted before":     {runs.Ledger{run("a", v1alpha1.RunRunning, outdated)}, member("alpine", drain), why("is drained (annotation minifleet.dev/drain)")},
		"a member that is deleted, to drain":   {runs.Ledger{run("a", v1alpha1.RunRunning)}, member("alpine", deleted(v1alpha1.DeletionDrain)), why("is being deleted (deletionPolicy: Drain)")},
		"a member that is deleted, to block":   {runs.Ledger{run("a", v1alpha1.RunRunning)}, member("alpine", deleted(v1alpha1.DeletionBlock)), none},
		"a member that is deleted, to orphan":  {runs.Ledger{run("a", v1alpha1.RunRunning)}, member("alpine", deleted(v1alpha1.DeletionOrphan)), none},
		"a member with the policy, not at all": {runs.Ledger{run("a", v1alpha1.RunRunning)}, member("alpine", func(m *v1alpha1.MemberCluster) { m.Spec.DeletionPolicy = v1alpha1.DeletionDrain }), none},
		"a member that is suspended":           {runs.Ledger{run("a", v1alpha1.RunRunning)}, member("alpine", func(m *v1alpha1.MemberCluster) { m.Spec.Suspend = true }), none},
		"an annotation that says no":           {runs.Ledger{run("a", v1alpha1.RunRunning)}, member("alpine", annotated(v1alpha1.AnnotationDrain, "false")), none},
		"an annotation that is empty":          {runs.Ledger{run("a", v1alpha1.RunRunning)}, member("alpine", annotated(v1alpha1.AnnotationDrain, "")), none},
		"an annotation that is wrong":          {runs.Ledger{run("a", v1alpha1.RunRunning)}, member("alpine", annotated(v1alpha1.AnnotationDrain, "yes, please")), none},
		"another member":                       {runs.Ledger{run("a", v1alpha1.RunRunning)}, member("basalt", drain), none},
		"no run":                               {nil, member("alpine", drain), none},
		"a run that has ended":                 {runs.Ledger{run("a", v1alpha1.RunSucceeded)}, member("alpine", drain), none},
		"a run that was replaced":              {runs.Ledger{run("a", v1alpha1.RunReplaced)}, member("alpine", drain), none},
		"a live run after one that has ended":  {runs.Ledger{run("a", v1alpha1.RunFailed), run("b", v1alpha1.RunRunning)}, member("alpine", drain), why("is drained (annotation minifleet.dev/drain)")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			equal(t, c.want, eviction.Drained(c.ledger, []*v1alpha1.MemberCluster{c.member, member("cinder", drain)}))
		})
	}
	both := eviction.Drained(runs.Ledger{run("a", v1alpha1.RunRunning), run("b", v1alpha1.RunRunning, on("basalt"))},
		[]*v1alpha1.MemberCluster{member("alpine", drain), member("basalt", drain)})
	equal(t, 2, len(both))
}

func TestKeepers(t *testing.T) {
	ledger := runs.Ledger{run("a", v1alpha1.RunRunning), run("b", v1alpha1.RunRunning, on("basalt")), run("c", v1alpha1.RunSucceeded, on("cinder"))}
	evict := func(names ...string) map[string]eviction.Eviction {
		out := map[string]eviction.Eviction{}
		for _, n := range names {
			out[n] = eviction.Eviction{}
		}
		return out
	}
	cases := map[string]struct {
		evicted map[string]eviction.Eviction
		want    []string
	}{
		"nothing is evicted":        {nil, []string{"alpine", "basalt", "cinder"}},
		"one of them, for whatever": {evict("basalt"), []string{"alpine", "cinder"}},
		"all of them":               {evict("alpine", "basalt", "cinder"), []string{}},
		"another":                   {evict("dolomite"), []string{"alpine", "basalt", "cinder"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			equal(t, c.want, eviction.Keepers(ledger, wanted(), []string{"alpine", "basalt", "cinder"}, c.evicted))
		})
	}
	equal(t, nil, eviction.Keepers(ledger, wanted(func(w *runs.Wanted) { w.Digest = "2" }), []string{"alpine"}, nil))
}

func TestAvoid(t *testing.T) {
	token := func(s string) func(*runs.Wanted) { return func(w *runs.Wanted) { w.RerunAt = s } }
	cases := map[string]struct {
		run    v1alpha1.Run
		wanted runs.Wanted
		want   string
	}{
		"it did not start there":           {run("a", v1alpha1.RunReplaced, stopped(v1alpha1.StopNotStarted)), wanted(), "run a had to leave it (NotStarted)"},
		"it was lost there":                {run("a", v1alpha1.RunReplaced, stopped(v1alpha1.StopLost)), wanted(), "run a had to leave it (Lost)"},
		"it is being stopped for that":     {run("a", v1alpha1.RunStopping, stopped(v1alpha1.StopNotStarted)), wanted(), "run a had to leave it (NotStarted)"},
		"it goes on":                       {run("a", v1alpha1.RunRunning, stopped(v1alpha1.StopNotStarted)), wanted(), ""},
		"it failed, and was to be stopped": {run("a", v1alpha1.RunFailed, stopped(v1alpha1.StopNotStarted)), wanted(), ""},
		"it was drained":                   {run("a", v1alpha1.RunReplaced, stopped(v1alpha1.StopDrained)), wanted(), ""},
		"it was changed":                   {run("a", v1alpha1.RunReplaced, stopped(v1alpha1.StopChanged)), wanted(), ""},
		"it was declared":                  {run("a", v1alpha1.RunReplaced, stopped(v1alpha1.StopDeclaredGone)), wanted(), ""},
		"elsewhere":                        {run("a", v1alpha1.RunReplaced, stopped(v1alpha1.StopNotStarted), on("basalt")), wanted(), ""},
		"for something else":               {run("a", v1alpha1.RunReplaced, stopped(v1alpha1.StopNotStarted), outdated), wanted(), ""},
		"for another rerun":                {run("a", v1alpha1.RunReplaced, stopped(v1alpha1.StopNotStarted)), wanted(token("again")), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			equal(t, c.want, eviction.Avoid(runs.Ledger{run("0", v1alpha1.RunSucceeded, outdated), c.run, run("z", v1alpha1.RunRunning)}, c.wanted, "alpine"))
		})
	}
	equal(t, "", eviction.Avoid(nil, wanted(), "alpine"))
}

func TestAttempt(t *testing.T) {
	retries := wanted(func(w *runs.Wanted) { w.Retries = 3 })
	evicted := func(stop v1alpha1.StopReason, n int32, change ...func(*v1alpha1.Run)) v1alpha1.Run {
		return run("e", v1alpha1.RunReplaced, append(change, stopped(stop), attempt(n), on("basalt"))...)
	}
	failed := run("f", v1alpha1.RunFailed, attempt(1))
	cases := map[string]struct {
		ledger runs.Ledger
		wanted runs.Wanted
		want   int32
	}{
		"no run":                                  {nil, retries, 0},
		"a failed one":                            {runs.Ledger{failed}, retries, 2},
		"a failed one, and no retries":            {runs.Ledger{failed}, wanted(), 0},
		"one drained elsewhere":                   {runs.Ledger{evicted(v1alpha1.StopDrained, 2)}, retries, 2},
		"one that did not start elsewhere":        {runs.Ledger{evicted(v1alpha1.StopNotStarted, 1)}, retries, 1},
		"one lost elsewhere":                      {runs.Ledger{evicted(v1alpha1.StopLost, 3)}, retries, 3},
		"one declared elsewhere":                  {runs.Ledger{evicted(v1alpha1.StopDeclaredGone, 1)}, retries, 1},
		"one changed elsewhere":                   {runs.Ledger{evicted(v1alpha1.StopChanged, 1)}, retries, 0},
		"a failed one, and one drained with more": {runs.Ledger{evicted(v1alpha1.StopDrained, 3), failed}, retries, 3},
		"a failed one, and one drained with less": {runs.Ledger{evicted(v1alpha1.StopDrained, 1), failed}, retries, 2},
		"one drained, for something else":         {runs.Ledger{evicted(v1alpha1.StopDrained, 2, outdated)}, retries, 0},
		"one drained, before something else":      {runs.Ledger{evicted(v1alpha1.StopDrained, 2), run("x", v1alpha1.RunSucceeded, outdated, on("basalt"))}, retries, 0},
		"several drained, one after the other":    {runs.Ledger{evicted(v1alpha1.StopDrained, 2), evicted(v1alpha1.StopDrained, 1)}, retries, 2},
		"one that runs elsewhere":                 {runs.Ledger{run("r", v1alpha1.RunRunning, attempt(2), on("basalt"))}, retries, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			equal(t, c.want, eviction.Attempt(c.ledger, c.wanted, c.ledger.Last("alpine")))
		})
	}
}

func TestMove(t *testing.T) {
	one, two := ptr.To[int32](1), ptr.To[int32](2)
	overdue := func(names ...string) map[string]eviction.Eviction {
		out := map[string]eviction.Eviction{}
		for _, n := range names {
			out[n] = eviction.Eviction{Stop: v1alpha1.StopNotStarted, Message: "withdrawn", Fact: "it does not run"}
		}
		return out
	}
	const stays = "it does not run; no other member can take it now"
	cases := map[string]struct {
		overdue    map[string]eviction.Eviction
		number     *int32
		keep       []string
		candidates []placement.Candidate
		change     func(*placement.Input)
		moved      []string
		stay       map[string]string
		clusters   []string
	}{
		"nothing is overdue":     {overdue(), one, []string{"a"}, []placement.Candidate{{Name: "a"}, {Name: "b"}}, nil, nil, nil, []string{"a"}},
		"another can take it":    {overdue("a"), one, []string{"a"}, []placement.Candidate{{Name: "a"}, {Name: "b"}}, nil, []string{"a"}, nil, []string{"b"}},
		"there is no other":      {overdue("a"), one, []string{"a"}, []placement.Candidate{{Name: "a"}}, nil, nil, map[string]string{"a": stays}, []string{"a"}},
		"another is unfit":       {overdue("a"), one, []string{"a"}, []placement.Candidate{{Name: "a"}, {Name: "b", Unfit: "is suspended"}}, nil, nil, map[string]string{"a": stays}, []string{"a"}},
		"another is not known":   {overdue("a"), one, []string{"a"}, []placement.Candidate{{Name: "a"}, {Name: "b", Unfit: "is not connected yet", Unknown: true}}, nil, nil, map[string]string{"a": stays}, []string{"a"}},
		"another was before":     {overdue("a"), one, []string{"a"}, []placement.Candidate{{Name: "a"}, {Name: "b", Avoid: "run x had to leave it (Lost)"}}, nil, nil, map[string]string{"a": stays}, []string{"a"}},
		"a third was before":     {overdue("a"), one, []string{"a"}, []placement.Candidate{{Name: "a"}, {Name: "b", Avoid: "run x had to leave it (Lost)"}, {Name: "c"}}, nil, []string{"a"}, nil, []string{"c"}},
		"it waits on all":        {overdue("a"), nil, []string{"a"}, []placement.Candidate{{Name: "a"}, {Name: "b"}}, nil, nil, map[string]string{"a": stays}, []string{"a", "b"}},
		"it is not kept":         {overdue("a"), one, nil, []placement.Candidate{{Name: "b"}}, nil, nil, nil, []string{"b"}},
		"two, and room for both": {overdue("a", "b"), two, []string{"a", "b"}, []placement.Candidate{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}, nil, []string{"a", "b"}, nil, []string{"c", "d"}},
		"two, and room for one":  {overdue("a", "b"), two, []string{"a", "b"}, []placement.Candidate{{Name: "a"}, {Name: "b"}, {Name: "c"}}, nil, []string{"a"}, map[string]string{"b": stays}, []string{"b", "c"}},
		"one of two":             {overdue("b"), two, []string{"a", "b"}, []placement.Candidate{{Name: "a"}, {Name: "b"}, {Name: "c"}}, nil, []string{"b"}, nil, []string{"a", "c"}},
		"another has no room": {overdue("a"), one, []string{"a"}, []placement.Candidate{{Name: "a"}, {Name: "b"}}, func(in *placement.Input) {
			in.Room = func(string) placement.Room { return placement.Room{Miss: "0 of 1 pods fit"} }
		}, nil, map[string]string{"a": stays}, []string{"a"}},
		"its own member, though it is not known": {overdue("a"), one, []string{"a"}, []placement.Candidate{{Name: "a", Unfit: "is not connected yet", Unknown: true}}, nil, nil, map[string]string{"a": stays}, []string{"a"}},
		"one of two, and one is missing anyway": {overdue("a"), two, []string{"a"}, []placement.Candidate{{Name: "a"}, {Name: "b"}}, nil,
			nil, map[string]string{"a": stays}, []string{"a", "b"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := placement.Input{
				Key: "uid", Spec: v1alpha1.PlacementSpec{NumberOfClusters: c.number}, Candidates: c.candidates, Keep: c.keep, Prefer: slices.Clone(c.keep),
			}
			if c.change != nil {
				c.change(&in)
			}
			d, err := placement.Decide(in)
			equal(t, nil, err)
			keep, candidates := slices.Clone(c.keep), slices.Clone(c.candidates)
			moved, stay, after, got := eviction.Move(c.overdue, in, d)

			var names []string
			for name, e := range moved {
				names = append(names, name)
				equal(t, c.overdue[name], e)
			}
			slices.Sort(names)
			slices.Sort(got.Clusters)
			equal(t, c.moved, names)
			equal(t, c.clusters, got.Clusters)
			if c.stay == nil {
				c.stay = map[string]string{}
			}
			equal(t, c.stay, stay)
			equal(t, slices.DeleteFunc(slices.Clone(keep), func(k string) bool { return slices.Contains(c.moved, k) }), after.Keep)
			equal(t, keep, in.Keep)
			equal(t, candidates, in.Candidates)
		})
	}
}

// A placement that cannot be understood moves nothing.
func TestMoveWithASpecThatIsWrong(t *testing.T) {
	in := placement.Input{Keep: []string{"a"}, Candidates: []placement.Candidate{{Name: "a"}, {Name: "b"}}}
	in.Spec.NumberOfClusters = ptr.To[int32](1)
	in.Spec.ClusterSelector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "site", Operator: "Near"}}}
	moved, stay, _, _ := eviction.Move(map[string]eviction.Eviction{"a": {Fact: "it does not run"}}, in, placement.Decision{Clusters: []string{"a"}})
	equal(t, 0, len(moved))
	equal(t, map[string]string{"a": "it does not run; no other member can take it now"}, stay)
}
