package notify_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/notify"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) *metav1.Time {
	t := metav1.NewTime(t0.Add(time.Duration(seconds) * time.Second))
	return &t
}

func everything(v1alpha1.NotificationEvent) bool { return true }

func only(events ...v1alpha1.NotificationEvent) func(v1alpha1.NotificationEvent) bool {
	return func(e v1alpha1.NotificationEvent) bool { return slices.Contains(events, e) }
}

// run is a line of the ledger that began, and ended if it has, so many seconds after t0.
func run(id string, state v1alpha1.RunState, begun, ended int) v1alpha1.Run {
	r := v1alpha1.Run{ID: id, Cluster: "alpine", State: state, StartTime: at(begun)}
	if state != v1alpha1.RunStarting {
		r.JobUID = "job"
	}
	if state.Ended() {
		r.CompletionTime = at(ended)
	}
	return r
}

func object(name string, runs ...v1alpha1.Run) *v1alpha1.FleetMiniCluster {
	f := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "physics", Name: name, UID: types.UID("uid-" + name)}}
	f.Status.Runs = runs
	return f
}

func source(conditions ...metav1.Condition) *v1alpha1.GitSource {
	s := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: "physics", Name: "fleet", UID: "source"}}
	s.Status.Conditions = conditions
	return s
}

func condition(kind string, status metav1.ConditionStatus, reason string, since int) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: *at(since)}
}

// tell tells all that is new of an object as of a time, and returns what that was.
func tell(m *notify.Memory, now int, of any, wanted func(v1alpha1.NotificationEvent) bool) (out []string) {
	var found []notify.Transition
	switch o := of.(type) {
	case *v1alpha1.FleetMiniCluster:
		found = m.Runs(o, wanted)
	case *v1alpha1.GitSource:
		found = m.Source(o, wanted)
	}
	for i := range found {
		what := string(found[i].Event)
		if found[i].Over {
			what += " over"
		}
		m.Queued(&found[i])
		m.Done(&found[i], at(now).Time)
		out = append(out, what)
	}
	return out
}

// restart is what the next hub makes of what this one has saved.
func restart(m *notify.Memory, now int) *notify.Memory {
	return notify.Restore(m.Snapshot(at(now).Time), at(now).Time)
}

func TestMemory(t *testing.T) {
	const (
		starting, running = v1alpha1.RunStarting, v1alpha1.RunRunning
		succeeded, failed = v1alpha1.RunSucceeded, v1alpha1.RunFailed
		ready, prune      = v1alpha1.ConditionReady, v1alpha1.ConditionPruneBlocked
		yes, no           = metav1.ConditionTrue, metav1.ConditionFalse
		hour, day         = 3600, 86400
		fetchFailed, fine = "FetchFailed", v1alpha1.ReasonSucceeded
		begunAgain        = "restart"
	)
	type step struct {
		now  int
		do   string // begunAgain, or nothing
		see  any
		only []v1alpha1.NotificationEvent
		want []string
	}
	for name, steps := range map[string][]step{
		"a run, seen at every step": {
			{now: 1, see: object("a", run("r", starting, 1, 0))},
			{now: 2, see: object("a", run("r", running, 1, 0)), want: []string{"RunStarted"}},
			{now: 3, see: object("a", run("r", running, 1, 0))},
			{now: 9, see: object("a", run("r", succeeded, 1, 8)), want: []string{"RunSucceeded"}},
			{now: 10, see: object("a", run("r", succeeded, 1, 8))},
			{now: day, see: object("a", run("r", succeeded, 1, 8))},
		},
		"a run, seen when it has ended": {
			{now: 9, see: object("a", run("r", failed, 1, 8)), want: []string{"RunStarted", "RunFailed"}},
			{now: 9, see: object("a", run("r", failed, 1, 8))},
		},
		"a run that never had a Job": {
			{now: 1, see: object("a", run("r", starting, 1, 0))},
			{now: 9, see: object("a", v1alpha1.Run{ID: "r", State: v1alpha1.RunReplaced, StartTime: at(1), CompletionTime: at(8)}), want: []string{"RunReplaced"}},
		},
		"runs from before": {
			{now: 1, see: object("a", run("r", failed, -9, -8), run("s", succeeded, -7, 0), run("l", running, -5, 0))},
			{now: 2, see: object("a", run("r", failed, -9, -8), run("s", succeeded, -7, 0), run("l", v1alpha1.RunCancelled, -5, 2)), want: []string{"RunCancelled"}},
		},
		"an older state of an object, seen later": {
			{now: 9, see: object("a", run("r", failed, 1, 8)), want: []string{"RunStarted", "RunFailed"}},
			{now: 9, see: object("a", run("r", running, 1, 0))},
			{now: 9, see: object("a", run("r", failed, 1, 8))},
		},
		"a restart between": {
			{now: 9, see: object("a", run("r", failed, 1, 8), run("l", running, 8, 0)), want: []string{"RunStarted", "RunFailed", "RunStarted"}},
			{now: 10, do: begunAgain},
			{now: 11, see: object("a", run("r", failed, 1, 8), run("l", running, 8, 0))},
			{now: 12, do: begunAgain},
			{now: 13, see: object("a", run("r", failed, 1, 8), run("l", succeeded, 8, 12)), want: []string{"RunSucceeded"}},
		},
		"ended while no hub ran for a day": {
			{now: 2, see: object("a", run("r", running, 1, 0)), want: []string{"RunStarted"}},
			{now: 3, do: begunAgain},
			{now: day, see: object("a", run("r", succeeded, 1, hour)), want: []string{"RunSucceeded"}},
			{now: day, do: begunAgain},
			{now: day + 1, see: object("a", run("r", succeeded, 1, hour))},
		},
		"a long run, whose end is heard of when another hub runs": {
			{now: 2, see: object("a", run("r", running, 1, 0)), want: []string{"RunStarted"}},
			{now: day, see: object("b", run("s", failed, day-1, day)), want: []string{"RunStarted", "RunFailed"}},
			{now: day, do: begunAgain}, // since is after the run's end by now
			{now: 2 * day, see: object("a", run("r", succeeded, 1, hour)), want: []string{"RunSucceeded"}},
		},
		"the end of a run is heard of hours afterwards": {
			{now: 2, see: object("a", run("r", running, 1, 0)), want: []string{"RunStarted"}},
			{now: day, see: object("a", run("r", succeeded, 1, hour)), want: []string{"RunSucceeded"}},
			{now: day, do: begunAgain},
			{now: day + 1, see: object("a", run("r", succeeded, 1, hour))},
		},
		"a member whose clock is behind": {
			{now: 2, see: object("a", run("r", running, 1, 0)), want: []string{"RunStarted"}},
			{now: 3, see: object("a", run("r", failed, 1, -day)), want: []string{"RunFailed"}},
			{now: 4, do: begunAgain},
			{now: 5, see: object("a", run("r", failed, 1, -day))},
		},
		"events that nobody wants": {
			{now: 2, see: object("a", run("r", running, 1, 0)), only: []v1alpha1.NotificationEvent{v1alpha1.EventRunFailed}},
			{now: 3, see: object("a", run("r", succeeded, 1, 2), run("s", failed, 1, 2)), only: []v1alpha1.NotificationEvent{v1alpha1.EventRunFailed}, want: []string{"RunFailed"}},
		},
		"a source fails, recovers, and fails again": {
			{now: 1, see: source(condition(ready, yes, fine, 1))},
			{now: 2, see: source(condition(ready, no, fetchFailed, 2)), want: []string{"SourceFailed"}},
			{now: 3, see: source(condition(ready, no, "AuthFailed", 2))},
			{now: 4, do: begunAgain},
			{now: 5, see: source(condition(ready, no, "AuthFailed", 2))},
			{now: 6, see: source(condition(ready, yes, fine, 6)), want: []string{"SourceRecovered"}},
			{now: 7, do: begunAgain},
			{now: 8, see: source(condition(ready, yes, fine, 6))},
			{now: 9, see: source(condition(ready, no, fetchFailed, 9)), want: []string{"SourceFailed"}},
		},
		"a source that has failed before": {
			{now: 1, see: source(condition(ready, no, fetchFailed, -5))},
			{now: 2, see: source(condition(ready, yes, fine, 2)), want: []string{"SourceRecovered"}},
		},
		"a source that a person has suspended": {
			{now: 1, see: source(condition(ready, no, v1alpha1.ReasonSuspended, 1))},
			{now: 2, see: source(condition(ready, no, fetchFailed, 1)), want: []string{"SourceFailed"}},
			{now: 3, see: source(condition(ready, no, v1alpha1.ReasonSuspended, 1))},
			{now: 4, see: source(condition(ready, yes, fine, 4)), want: []string{"SourceRecovered"}},
		},
		"a person is asked": {
			{now: 1, see: source(condition(ready, no, prune, 1), condition(prune, yes, prune, 1)), want: []string{"ApprovalNeeded"}},
			{now: 2, do: begunAgain},
			{now: 3, see: source(condition(ready, no, prune, 1), condition(prune, yes, prune, 1))},
			{now: 4, see: source(condition(ready, yes, fine, 4)), want: []string{"ApprovalNeeded over"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := notify.NewMemory(t0)
			for i, s := range steps {
				if s.do == begunAgain {
					m = restart(m, s.now)
					continue
				}
				wanted := everything
				if s.only != nil {
					wanted = only(s.only...)
				}
				if diff := cmp.Diff(s.want, tell(m, s.now, s.see, wanted)); diff != "" {
					t.Errorf("step %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// What is about to be told when the process dies is told by the next one, under the same id.
func TestMemoryOfWhatIsPending(t *testing.T) {
	m := notify.NewMemory(t0)
	tell(m, 1, object("a", run("r", v1alpha1.RunRunning, 1, 0)), everything)
	delayed := object("a", run("r", v1alpha1.RunSucceeded, 1, 60))
	first := m.Runs(delayed, everything)
	m.Queued(&first[0])
	if again := m.Runs(delayed, everything); len(again) != 0 {
		t.Errorf("told twice: %v", again)
	}
	failing := source(condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "FetchFailed", 60))
	broken := m.Source(failing, everything)
	m.Queued(&broken[0])
	next := restart(m, 86400)
	second, brokenAgain := next.Runs(delayed, everything), next.Source(failing, everything)
	if len(second) != 1 || len(brokenAgain) != 1 {
		t.Fatalf("told later: %v, %v", second, brokenAgain)
	}
	from := types.NamespacedName{Namespace: "physics", Name: "chat"}
	if first[0].ID(from) != second[0].ID(from) || broken[0].ID(from) != brokenAgain[0].ID(from) {
		t.Error("under another id")
	}
	if other := (types.NamespacedName{Namespace: "physics", Name: "other"}); first[0].ID(from) == first[0].ID(other) || first[0].ID(from) == broken[0].ID(from) {
		t.Error("ids are shared")
	}
}

// A source that recovers while its failure is still being told is told to have.
func TestMemoryOfASourceThatFlaps(t *testing.T) {
	m := notify.NewMemory(t0)
	fails := m.Source(source(condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "FetchFailed", 1)), everything)
	m.Queued(&fails[0])
	ready := source(condition(v1alpha1.ConditionReady, metav1.ConditionTrue, "Succeeded", 2))
	recovers := m.Source(ready, everything)
	if len(recovers) != 1 || recovers[0].Event != v1alpha1.EventSourceRecovered {
		t.Fatalf("%v", recovers)
	}
	m.Queued(&recovers[0])
	m.Done(&fails[0], t0)
	if more := m.Source(ready, everything); len(more) != 0 {
		t.Errorf("%v", more)
	}
	m.Done(&recovers[0], t0)
	if more := m.Source(ready, everything); len(more) != 0 || len(m.Snapshot(t0).Active) != 0 {
		t.Errorf("%v, %v", more, m.Snapshot(t0).Active)
	}
}

// What is asked for has changed: what has happened before that is not told, and what was to be told still is.
// Where it fails, recovers and fails again before the first of these is told, each is told once, whenever it is seen meanwhile.
func TestMemoryOfASourceThatFlapsFaster(t *testing.T) {
	m := notify.NewMemory(t0)
	m.Began()
	var all []notify.Transition
	var last *v1alpha1.GitSource
	for i, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionFalse} {
		last = source(condition(v1alpha1.ConditionReady, status, "FetchFailed", i+1))
		for _, found := range m.Source(last, everything) {
			m.Queued(&found)
			all = append(all, found)
		}
	}
	if len(all) != 3 {
		t.Fatalf("%d transitions", len(all))
	}
	for i := range all {
		m.Done(&all[i], at(10+i).Time)
		if more := m.Source(last, everything); len(more) != 0 {
			t.Errorf("after message %d: %v is told twice", i, more[0].Event)
		}
	}
	if active := m.Snapshot(at(20).Time).Active; len(active) != 1 {
		t.Errorf("active: %v", active)
	}
}

func TestMemoryRebase(t *testing.T) {
	m := notify.NewMemory(t0)
	done := object("a", run("r", v1alpha1.RunSucceeded, 1, 2))
	tell(m, 3, done, only())
	tell(m, 3, object("b", run("s", v1alpha1.RunRunning, 1, 0)), only())
	m.Rebase(at(10).Time)
	if got := tell(m, 11, done, everything); got != nil {
		t.Errorf("told: %v", got)
	}
	if diff := cmp.Diff([]string{"RunSucceeded"}, tell(m, 11, object("b", run("s", v1alpha1.RunSucceeded, 1, 2)), everything)); diff != "" {
		t.Error(diff)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	m := notify.NewMemory(t0)
	for i := range 3000 {
		o := object(fmt.Sprint("live-", i), run(fmt.Sprintf("%010d", i), v1alpha1.RunRunning, 1, 0))
		tell(m, 2, o, everything)
		s := source(condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "FetchFailed", 2))
		s.UID = types.UID(fmt.Sprint("source-", i))
		tell(m, 2, s, everything)
	}
	got := m.Snapshot(at(3).Time)
	if len(got.Told) > v1alpha1.MaxToldTransitions || len(got.Awaited) != v1alpha1.MaxAwaitedTransitions || len(got.Active) != v1alpha1.MaxActiveConditions {
		t.Errorf("%d told, %d awaited, %d active", len(got.Told), len(got.Awaited), len(got.Active))
	}
	// In memory nothing is forgotten.
	if got := tell(m, 4, object("live-2999", run("0000002999", v1alpha1.RunFailed, 1, 3)), everything); len(got) != 1 {
		t.Errorf("the last one: %v", got)
	}
	for i := range 3000 {
		m.Forget(types.UID(fmt.Sprint("uid-live-", i)))
		m.Forget(types.UID(fmt.Sprint("source-", i)))
	}
	if got := m.Snapshot(at(86400).Time); len(got.Told)+len(got.Awaited)+len(got.Active) != 0 {
		t.Errorf("still there: %+v", got)
	}
}

// fleetOf is a ledger that is played at random.
type fleetOf struct {
	objects map[string][]v1alpha1.Run
	happens map[string]bool // transitions so far
	rng     *rand.Rand
	n       int
}

func (f *fleetOf) play(now int) {
	name := fmt.Sprint("o", f.rng.IntN(4))
	runs := f.objects[name]
	if last := len(runs) - 1; last >= 0 && !runs[last].State.Ended() {
		r := &runs[last]
		if r.State == v1alpha1.RunStarting {
			r.State, r.JobUID = v1alpha1.RunRunning, "job"
			f.happens[r.ID+" RunStarted"] = true
			return
		}
		r.State = v1alpha1.RunSucceeded
		// Members tell of it sooner or later, and their clocks differ.
		r.CompletionTime = at(now - f.rng.IntN(3000))
		f.happens[r.ID+" RunSucceeded"] = true
		return
	}
	f.n++
	f.objects[name] = append(runs, run(fmt.Sprint("run", f.n), v1alpha1.RunStarting, now, 0))
}

// However a ledger is played, hubs die and objects are seen, each transition is told once; more than once at most where a hub has died
// between telling and writing.
func TestMemoryAtRandom(t *testing.T) {
	for seed := range uint64(30) {
		f := &fleetOf{objects: map[string][]v1alpha1.Run{}, happens: map[string]bool{}, rng: rand.New(rand.NewPCG(seed, 1))}
		m, told, unwritten, repeatable := notify.NewMemory(t0), map[string]int{}, []string{}, map[string]bool{}
		stored := m.Snapshot(t0)
		see := func(now int) {
			for name, runs := range f.objects {
				for _, tr := range m.Runs(object(name, slices.Clone(runs)...), everything) {
					m.Queued(&tr)
					m.Done(&tr, at(now).Time)
					key := strings.Split(tr.Key, "/")[0] + " " + string(tr.Event)
					told[key]++
					unwritten = append(unwritten, key)
				}
			}
		}
		now := 0
		for range 300 {
			now += f.rng.IntN(400)
			f.play(now)
			switch f.rng.IntN(6) {
			case 0: // saved
				see(now)
				stored, unwritten = m.Snapshot(at(now).Time), nil
			case 1: // dies
				for _, key := range unwritten {
					repeatable[key] = true
				}
				unwritten = nil
				m = notify.Restore(stored, at(now).Time)
				see(now)
				m.Began()
			case 2, 3:
				see(now)
			}
		}
		see(now)
		for key := range f.happens {
			if told[key] == 0 || told[key] > 1 && !repeatable[key] {
				t.Fatalf("seed %d: %s was told %d times", seed, key, told[key])
			}
		}
	}
}
