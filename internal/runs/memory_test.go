package runs_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

func onMember(member, digest string, r *v1alpha1.Run) v1alpha1.Run {
	r.Cluster, r.Digest = member, digest
	return *r
}

func ids(memory []v1alpha1.EndedRun) []string {
	out := []string{}
	for _, e := range memory {
		out = append(out, e.ID)
	}
	return out
}

func TestRemember(t *testing.T) {
	a := onMember("alpine", "1", line("a", v1alpha1.RunSucceeded))
	b := onMember("alpine", "2", line("b", v1alpha1.RunFailed))
	again := onMember("alpine", "1", line("c", v1alpha1.RunSucceeded))
	elsewhere := onMember("basalt", "1", line("d", v1alpha1.RunSucceeded))
	cases := map[string]struct {
		memory        []v1alpha1.EndedRun
		before, after runs.Ledger
		want          []string
	}{
		"held":                       {nil, runs.Ledger{a}, runs.Ledger{a}, []string{}},
		"dropped":                    {nil, runs.Ledger{a, b}, runs.Ledger{b}, []string{"a"}},
		"dropped, not a success":     {nil, runs.Ledger{b}, nil, []string{}},
		"known before":               {[]v1alpha1.EndedRun{runs.Ended(&a)}, nil, nil, []string{"a"}},
		"in the ledger again":        {[]v1alpha1.EndedRun{runs.Ended(&a)}, runs.Ledger{a}, runs.Ledger{a}, []string{}},
		"for the same":               {[]v1alpha1.EndedRun{runs.Ended(&a)}, runs.Ledger{again}, nil, []string{"c"}},
		"for the same on another":    {[]v1alpha1.EndedRun{runs.Ended(&a)}, runs.Ledger{elsewhere}, nil, []string{"a", "d"}},
		"a ledger that somebody cut": {nil, runs.Ledger{a, elsewhere}, runs.Ledger{}, []string{"a", "d"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, ids(runs.Remember(c.memory, c.before, c.after))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRememberIsBounded(t *testing.T) {
	var before runs.Ledger
	for i := range v1alpha1.MaxEndedRuns + 5 {
		before = append(before, onMember("alpine", fmt.Sprint(i), line(fmt.Sprint(i), v1alpha1.RunSucceeded)))
	}
	got := ids(runs.Remember(nil, before, nil))
	if len(got) != v1alpha1.MaxEndedRuns || got[0] != "5" {
		t.Errorf("%d, from %s", len(got), got[0])
	}
	if got := runs.Record(nil, nil, before, "alpine"); len(got) != v1alpha1.MaxEndedRuns {
		t.Errorf("%d on record", len(got))
	}
}

func TestRecord(t *testing.T) {
	old := v1alpha1.EndedRun{ID: "o", Digest: "0", State: v1alpha1.RunSucceeded}
	a := onMember("alpine", "1", line("a", v1alpha1.RunSucceeded))
	failed := onMember("alpine", "2", line("b", v1alpha1.RunFailed))
	live := onMember("alpine", "3", line("c", v1alpha1.RunRunning))
	replaced := onMember("alpine", "3", line("d", v1alpha1.RunReplaced))
	elsewhere := onMember("basalt", "1", line("e", v1alpha1.RunSucceeded))
	cases := map[string]struct {
		has, memory []v1alpha1.EndedRun
		ledger      runs.Ledger
		want        []string
	}{
		"nothing":                       {nil, nil, nil, []string{}},
		"what has ended there":          {nil, nil, runs.Ledger{a, failed, live, replaced, elsewhere}, []string{"a", "b"}},
		"what it has stays":             {[]v1alpha1.EndedRun{old}, nil, runs.Ledger{a}, []string{"o", "a"}},
		"what is remembered":            {nil, []v1alpha1.EndedRun{runs.Ended(&a), runs.Ended(&elsewhere)}, nil, []string{"a"}},
		"no run twice, the latest last": {[]v1alpha1.EndedRun{runs.Ended(&failed), old}, nil, runs.Ledger{failed}, []string{"o", "b"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, ids(runs.Record(c.has, c.memory, c.ledger, "alpine"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSuccessStaysOnRecord(t *testing.T) {
	a := onMember("alpine", "1", line("a", v1alpha1.RunSucceeded))
	has := []v1alpha1.EndedRun{runs.Ended(&a)}
	a.State = v1alpha1.RunFailed
	if got := runs.Record(has, nil, runs.Ledger{a}, "alpine"); !runs.OnRecord(has, &a) || len(got) != 1 || got[0].State != v1alpha1.RunSucceeded {
		t.Errorf("%v", got)
	}
}

func TestLineOfWhatIsRemembered(t *testing.T) {
	r := onMember("alpine", "1", line("a", v1alpha1.RunFailed))
	r.Stop, r.Attempt = v1alpha1.StopDeleted, 2
	e := runs.Ended(&r)
	if got := runs.Line(&e, "basalt"); got.Stop != r.Stop || got.Attempt != r.Attempt || got.Cluster != "basalt" {
		t.Errorf("%+v", got)
	}
}
