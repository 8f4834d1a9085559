package runs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	if got := runs.Record(nil, nil, before, before.Last("alpine")); len(got) != v1alpha1.MaxEndedRuns {
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
	deleted := *runs.ForRecord(runs.Ledger{live}, "alpine", job("c", deleting), "", &metav1.Time{})
	cases := map[string]struct {
		has, memory []v1alpha1.EndedRun
		ledger      runs.Ledger
		last        v1alpha1.Run
		want        []string
	}{
		"what has ended there":          {nil, nil, runs.Ledger{a, failed, replaced, elsewhere}, replaced, []string{"a", "b"}},
		"what it has stays":             {[]v1alpha1.EndedRun{old}, nil, runs.Ledger{a}, a, []string{"o", "a"}},
		"what is remembered":            {nil, []v1alpha1.EndedRun{runs.Ended(&a), runs.Ended(&elsewhere)}, runs.Ledger{failed}, failed, []string{"a", "b"}},
		"no run twice, the latest last": {[]v1alpha1.EndedRun{runs.Ended(&failed), old}, nil, runs.Ledger{failed}, failed, []string{"o", "b"}},
		"a Job that is being deleted":   {[]v1alpha1.EndedRun{runs.Ended(&failed)}, nil, runs.Ledger{failed, live}, deleted, []string{"b", "c"}},
		"a run that is being cancelled": {nil, nil, runs.Ledger{failed, live}, ended(v1alpha1.RunCancelled), []string{"b", "c"}},
		"its run has ended":             {[]v1alpha1.EndedRun{runs.Ended(&deleted)}, nil, runs.Ledger{ended(v1alpha1.RunFailed)}, ended(v1alpha1.RunFailed), []string{"c"}},
		"its run was replaced": {[]v1alpha1.EndedRun{runs.Ended(&failed), runs.Ended(&deleted)}, nil, runs.Ledger{ended(v1alpha1.RunReplaced)},
			ended(v1alpha1.RunReplaced), []string{"b"}},
		"its run has failed before that which was replaced": {[]v1alpha1.EndedRun{runs.Ended(&deleted)}, nil, runs.Ledger{ended(v1alpha1.RunFailed), replaced}, replaced, []string{"c"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := runs.Record(c.has, c.memory, c.ledger, &c.last)
			if diff := cmp.Diff(c.want, ids(got)); diff != "" || !runs.OnRecord(got, c.ledger, &c.last) {
				t.Error(diff)
			}
		})
	}
}

// ended is the line of run c on alpine.
func ended(state v1alpha1.RunState) v1alpha1.Run {
	return onMember("alpine", "3", line("c", state))
}

// What a hub has to know of a run should it lose its ledger.
func TestForRecord(t *testing.T) {
	now := &metav1.Time{Time: time.Unix(60, 0)}
	before := onMember("alpine", "2", line("b", v1alpha1.RunSucceeded))
	cases := map[string]struct {
		state  v1alpha1.RunState
		job    *runs.Job
		pod    string
		change func(*v1alpha1.Run)
		want   string // id and state, empty for nothing
	}{
		"it is live":                           {v1alpha1.RunRunning, job("c"), "", nil, ""},
		"it has no Job, nor a pod":             {v1alpha1.RunRunning, nil, "", nil, ""},
		"its Job is being deleted":             {v1alpha1.RunRunning, job("c", deleting), "", nil, "c Running"},
		"it is not known to run yet":           {v1alpha1.RunStarting, job("c", deleting), "", nil, "c Running"},
		"its Job was deleted":                  {v1alpha1.RunRunning, nil, "c-0", nil, "c Running"},
		"MiniFleet has deleted its Job":        {v1alpha1.RunStopping, nil, "c-0", nil, ""},
		"it is cancelled":                      {v1alpha1.RunStopping, job("c"), "", func(r *v1alpha1.Run) { r.Stop = v1alpha1.StopCancelled }, "c Cancelled"},
		"it is drained":                        {v1alpha1.RunStopping, job("c"), "", func(r *v1alpha1.Run) { r.Stop = v1alpha1.StopDrained }, ""},
		"it had no Job":                        {v1alpha1.RunStarting, nil, "c-0", func(r *v1alpha1.Run) { r.JobUID = "" }, ""},
		"its member was away":                  {v1alpha1.RunRunning, nil, "c-0", func(r *v1alpha1.Run) { r.LostTime = now }, ""},
		"its Job has made no pod":              {v1alpha1.RunStarting, job("c", heldBack, deleting), "", nil, ""},
		"its Job has ended":                    {v1alpha1.RunRunning, job("c", succeeded, deleting), "", nil, ""},
		"MiniFleet deletes its Job":            {v1alpha1.RunStopping, job("c", deleting), "", nil, ""},
		"another Job is being deleted":         {v1alpha1.RunRunning, job("b", deleting), "", nil, ""},
		"it has ended":                         {v1alpha1.RunFailed, nil, "", nil, "c Failed"},
		"it has ended, and its Job is deleted": {v1alpha1.RunSucceeded, job("c", succeeded, deleting), "", nil, "c Succeeded"},
		"it was replaced, which is told":       {v1alpha1.RunReplaced, nil, "", nil, "c Replaced"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			last := ended(c.state)
			last.JobUID = "uid-c"
			if c.change != nil {
				c.change(&last)
			}
			for earlier, ledger := range map[string]runs.Ledger{"": {last}, "b Succeeded": {before, last}} {
				want := c.want
				if want == "" || earlier != "" && c.state == v1alpha1.RunReplaced {
					want = earlier // which may not have been written yet
				}
				got, run := "", runs.ForRecord(ledger, "alpine", c.job, c.pod, now)
				if run != nil {
					got = run.ID + " " + string(run.State)
				}
				if got != want || run == ledger.Last("alpine") && !c.state.Ended() {
					t.Errorf("got %q, want %q", got, want)
				}
				if run != nil && !run.State.Ended() && (run.Stop != v1alpha1.StopDeleted || run.CompletionTime != now || runs.OnRecord(nil, ledger, run)) {
					t.Errorf("got %+v", run)
				}
			}
		})
	}
	if got := runs.ForRecord(runs.Ledger{before}, "basalt", nil, "", now); got != nil {
		t.Errorf("nothing has run there, and got %+v", got)
	}
}

// A run whose Job was being deleted is looked for before it is called over, and stands where it began.
func TestLineOfWhatWasBeingDeleted(t *testing.T) {
	at := func(n int64) *metav1.Time { return &metav1.Time{Time: time.Unix(n, 0)} }
	live := ended(v1alpha1.RunRunning)
	live.StartTime = at(20)
	e := runs.Ended(runs.ForRecord(runs.Ledger{live}, "alpine", job("c", deleting), "", at(60)))
	got := runs.Line(&e, "alpine")
	if got.State != v1alpha1.RunRunning || got.Stop != "" || got.CompletionTime != nil || !got.StartTime.Equal(at(20)) {
		t.Errorf("%+v", got)
	}
	later := onMember("basalt", "4", line("d", v1alpha1.RunRunning))
	later.StartTime = at(40)
	if l := (runs.Ledger{later}).Insert(got, runs.Limits{}); l[0].ID != "c" {
		t.Errorf("%v", l)
	}
	e.StartTime = nil
	if got := runs.Line(&e, "alpine"); !got.StartTime.Equal(e.CompletionTime) {
		t.Errorf("without a start, %+v", got)
	}
}

func TestSuccessStaysOnRecord(t *testing.T) {
	a := onMember("alpine", "1", line("a", v1alpha1.RunSucceeded))
	has := []v1alpha1.EndedRun{runs.Ended(&a)}
	a.State = v1alpha1.RunFailed
	if got := runs.Record(has, nil, runs.Ledger{a}, &a); !runs.OnRecord(has, nil, &a) || len(got) != 1 || got[0].State != v1alpha1.RunSucceeded {
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
