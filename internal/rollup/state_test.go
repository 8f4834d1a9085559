package rollup_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
)

func at() *metav1.Time            { t := metav1.NewTime(now); return &t }
func begun(m *rollup.Member)      { m.Run.RunningTime = at() }
func pending(m *rollup.Member)    { m.Run.RunningTime, m.Run.PendingSince = at(), at() }
func resumed(m *rollup.Member)    { m.Run.RunningTime, m.Run.SuspendedTime = at(), at() }
func deleting(m *rollup.Member)   { m.Job.Deleting = true }
func connecting(m *rollup.Member) { m.Job, m.Connecting = nil, true }
func noJob(m *rollup.Member)      { m.Job = nil }
func stalled(in *rollup.Input) {
	in.Problem, in.Stalled = &rollup.Problem{Reason: "R", Message: "m"}, true
}
func unasked(in *rollup.Input)      { in.Unasked = []string{"x"} }
func wantsOneMore(in *rollup.Input) { in.Decision.Wanted++ }
func awaitsAnswer(m *rollup.Member) { m.Step.Reason = v1alpha1.ReasonMemberNotAsked }
func awaitsRoom(m *rollup.Member) {
	m.Step = runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonInsufficientCapacity, Message: "2 of 4 pods fit"}
}

func was(state v1alpha1.State, unknown ...string) func(*rollup.Input) {
	return func(in *rollup.Input) {
		in.Previous.State = state
		for _, name := range unknown {
			in.Previous.Clusters = append(in.Previous.Clusters, v1alpha1.ClusterStatus{Name: name, Sync: v1alpha1.SyncUnknown})
		}
	}
}

const stopping, cancelled, replaced = v1alpha1.RunStopping, v1alpha1.RunCancelled, v1alpha1.RunReplaced

func TestStateOfEachStatus(t *testing.T) {
	want := map[string]v1alpha1.State{
		"running":                              v1alpha1.StateStarting, // its pods have not all run
		"starting":                             v1alpha1.StateStarting,
		"nothing yet":                          v1alpha1.StateWaiting,
		"its Job was deleted, and pods remain": v1alpha1.StateStarting,
		"one done, one running":                v1alpha1.StateStarting,
		"all done":                             v1alpha1.StateSucceeded,
		"one failed, one running":              v1alpha1.StateStarting,
		"one failed, one done":                 v1alpha1.StateFailed,
		"one failed and will be tried again, one done": v1alpha1.StateWaiting,
		"one failed for the last time":                 v1alpha1.StateFailed,
		"one cancelled, one done":                      v1alpha1.StateCancelled,
		"an outdated one failed":                       v1alpha1.StateWaiting,
		"an outdated one succeeded":                    v1alpha1.StateWaiting,
		"lost while running":                           v1alpha1.StateUnknown,
		"lost after it succeeded":                      v1alpha1.StateSucceeded,
		"lost after it failed":                         v1alpha1.StateFailed,
		"lost before it ran":                           v1alpha1.StateWaiting,
		"one lost, the other running":                  v1alpha1.StateUnknown,
		"a name in use":                                v1alpha1.StateStarting,
		"a name in use after it succeeded":             v1alpha1.StateSucceeded,
		"suspended before it ran":                      v1alpha1.StateSuspended,
		"suspended while running":                      v1alpha1.StateSuspended,
		"to be resumed, without room":                  v1alpha1.StateWaiting,
		"not enough":                                   v1alpha1.StateStarting,
		"not enough, and what there is has succeeded":  v1alpha1.StateWaiting,
		"no member":                                    v1alpha1.StateWaiting,
		"invalid":                                      v1alpha1.StateInvalid,
		"removed from the placement, still live":       v1alpha1.StateStarting,
	}
	got := map[string]v1alpha1.State{}
	for name, c := range cases {
		got[name] = rollup.Status(c.in).State
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestState(t *testing.T) {
	type change = func(*rollup.Input)
	cases := map[string]struct {
		members []rollup.Member
		changes []change
		want    v1alpha1.State
	}{
		"all pods run":                            {[]rollup.Member{member("a", running, begun)}, nil, v1alpha1.StateRunning},
		"its nodes are lost":                      {[]rollup.Member{member("a", running, pending)}, nil, v1alpha1.StateStarting},
		"resumed, its pods do not run again yet":  {[]rollup.Member{member("a", running, resumed)}, nil, v1alpha1.StateStarting},
		"resumed, without room":                   {[]rollup.Member{member("a", running, resumed, paused, awaitsRoom)}, nil, v1alpha1.StateWaiting},
		"to be larger, without room":              {[]rollup.Member{member("a", running, begun, awaitsRoom)}, nil, v1alpha1.StateRunning},
		"suspended by a queue on the member":      {[]rollup.Member{member("a", running, pending, paused)}, nil, v1alpha1.StateStarting},
		"cancelled, and ending":                   {[]rollup.Member{member("a", stopping, begun)}, nil, v1alpha1.StateStopping},
		"its Job is being deleted":                {[]rollup.Member{member("a", running, begun, deleting)}, nil, v1alpha1.StateStopping},
		"its Job was deleted, its pods go on":     {[]rollup.Member{member("a", running, begun, noJob, torn)}, nil, v1alpha1.StateRunning},
		"one starts while another is stopped":     {[]rollup.Member{member("a", stopping), member("b", starting)}, nil, v1alpha1.StateStarting},
		"one runs while another starts":           {[]rollup.Member{member("a", starting), member("b", running, begun)}, nil, v1alpha1.StateRunning},
		"one runs after another has failed":       {[]rollup.Member{member("a", failed), member("b", running, begun)}, nil, v1alpha1.StateRunning},
		"what is outdated runs on":                {[]rollup.Member{member("a", running, begun, outdated)}, nil, v1alpha1.StateRunning},
		"what was removed runs on":                {[]rollup.Member{member("a", succeeded), member("z", running, begun, removed)}, nil, v1alpha1.StateRunning},
		"one was evicted":                         {[]rollup.Member{member("a", replaced)}, nil, v1alpha1.StateWaiting},
		"one was evicted, none follows there":     {[]rollup.Member{member("a", succeeded), member("z", replaced, removed)}, nil, v1alpha1.StateSucceeded},
		"one failed, one was cancelled":           {[]rollup.Member{member("a", cancelled), member("b", failed)}, nil, v1alpha1.StateFailed},
		"one lost before its Job was made":        {[]rollup.Member{member("a", starting, lost)}, nil, v1alpha1.StateUnknown},
		"one lost that was removed":               {[]rollup.Member{member("a", succeeded), member("z", running, lost, removed)}, nil, v1alpha1.StateUnknown},
		"one lost while it was stopped":           {[]rollup.Member{member("a", stopping, lost)}, nil, v1alpha1.StateUnknown},
		"an idle member is lost, another runs":    {[]rollup.Member{member("a", "", lost), member("b", running, begun)}, nil, v1alpha1.StateRunning},
		"members were not asked":                  {[]rollup.Member{member("a", "")}, []change{unasked}, v1alpha1.StateUnknown},
		"members were not asked, and it is held":  {[]rollup.Member{member("a", "")}, []change{unasked, suspended}, v1alpha1.StateUnknown},
		"members were not asked, invalid":         {nil, []change{unasked, stalled}, v1alpha1.StateUnknown},
		"members were not asked, one runs":        {[]rollup.Member{member("a", running, begun)}, []change{unasked}, v1alpha1.StateRunning},
		"members were not asked, it has ended":    {[]rollup.Member{member("a", succeeded)}, []change{unasked}, v1alpha1.StateSucceeded},
		"what a predecessor has left is unknown":  {[]rollup.Member{member("a", "", awaitsAnswer)}, nil, v1alpha1.StateUnknown},
		"invalid after it has succeeded":          {[]rollup.Member{member("a", succeeded)}, []change{stalled}, v1alpha1.StateInvalid},
		"invalid while it runs":                   {[]rollup.Member{member("a", running, begun)}, []change{stalled}, v1alpha1.StateRunning},
		"invalid while it runs, out of reach":     {[]rollup.Member{member("a", running, begun, lost)}, []change{stalled}, v1alpha1.StateUnknown},
		"invalid before its Job was made":         {[]rollup.Member{member("a", starting, noJob)}, []change{stalled}, v1alpha1.StateInvalid},
		"invalid, its Job may have been made":     {[]rollup.Member{member("a", starting, connecting)}, []change{stalled}, v1alpha1.StateStarting},
		"invalid and suspended":                   {[]rollup.Member{member("a", "")}, []change{stalled, suspended}, v1alpha1.StateInvalid},
		"suspended after all has ended":           {[]rollup.Member{member("a", succeeded)}, []change{suspended}, v1alpha1.StateSucceeded},
		"suspended after one has ended":           {[]rollup.Member{member("a", succeeded), member("b", "")}, []change{suspended}, v1alpha1.StateSuspended},
		"suspended, the member has not done it":   {[]rollup.Member{member("a", running, begun)}, []change{suspended}, v1alpha1.StateRunning},
		"suspended on one of two members":         {[]rollup.Member{member("a", running, paused), member("b", running, begun)}, []change{suspended}, v1alpha1.StateRunning},
		"suspended before its Job was made":       {[]rollup.Member{member("a", starting, noJob)}, []change{suspended}, v1alpha1.StateSuspended},
		"suspended, to be tried again":            {[]rollup.Member{member("a", failed, retryWaiting)}, []change{suspended, func(in *rollup.Input) { in.Wanted.Retries = 1 }}, v1alpha1.StateSuspended},
		"suspended while it is stopped":           {[]rollup.Member{member("a", stopping, paused)}, []change{suspended}, v1alpha1.StateStopping},
		"suspended, out of reach":                 {[]rollup.Member{member("a", running, lost)}, []change{suspended}, v1alpha1.StateUnknown},
		"one more is wanted":                      {[]rollup.Member{member("a", failed)}, []change{wantsOneMore}, v1alpha1.StateWaiting},
		"restarted while it ran":                  {[]rollup.Member{member("a", running, begun, connecting)}, []change{was(v1alpha1.StateRunning)}, v1alpha1.StateRunning},
		"restarted while it was out of reach":     {[]rollup.Member{member("a", running, begun, connecting)}, []change{was(v1alpha1.StateUnknown, "a")}, v1alpha1.StateUnknown},
		"restarted while its Job was deleted":     {[]rollup.Member{member("a", running, begun, connecting)}, []change{was(v1alpha1.StateStopping)}, v1alpha1.StateStopping},
		"restarted while it was suspended":        {[]rollup.Member{member("a", running, resumed, connecting)}, []change{suspended, was(v1alpha1.StateSuspended)}, v1alpha1.StateSuspended},
		"resumed while the hub was down":          {[]rollup.Member{member("a", running, resumed, connecting)}, []change{was(v1alpha1.StateSuspended)}, v1alpha1.StateStarting},
		"restarted, one of two answers":           {[]rollup.Member{member("a", running, begun), member("b", running, begun, connecting)}, []change{was(v1alpha1.StateUnknown, "b")}, v1alpha1.StateUnknown},
		"restarted, the one out of reach answers": {[]rollup.Member{member("a", running, begun), member("b", running, begun, connecting)}, []change{was(v1alpha1.StateUnknown, "a")}, v1alpha1.StateRunning},
		"restarted, one of two is lost":           {[]rollup.Member{member("a", running, begun, lost), member("b", running, begun, connecting)}, []change{was(v1alpha1.StateRunning)}, v1alpha1.StateUnknown},
		"restarted after it had succeeded":        {[]rollup.Member{member("a", succeeded, connecting)}, []change{was(v1alpha1.StateSucceeded)}, v1alpha1.StateSucceeded},
		"the ledger of what had ended was edited": {[]rollup.Member{member("a", running, begun, connecting)}, []change{was(v1alpha1.StateSucceeded)}, v1alpha1.StateRunning},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := input(c.members...)
			for _, change := range c.changes {
				change(&in)
			}
			if got := rollup.State(in); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// everyMember yields a member in each situation that a state depends on.
func everyMember(name string) []rollup.Member {
	out := []rollup.Member{member(name, ""), member(name, "", lost), member(name, "", awaitsAnswer), member(name, "", removed)}
	for _, state := range []v1alpha1.RunState{succeeded, failed, cancelled, replaced} {
		out = append(out, member(name, state), member(name, state, lost), member(name, state, connecting), member(name, state, outdated), member(name, state, removed))
	}
	for _, state := range []v1alpha1.RunState{starting, running, stopping} {
		for _, times := range []func(*rollup.Member){noJob, func(*rollup.Member) {}, begun, pending, resumed} {
			for _, how := range []func(*rollup.Member){func(*rollup.Member) {}, lost, connecting, removed, outdated} {
				out = append(out, member(name, state, times, how))
			}
		}
		out = append(out, member(name, state, begun, paused), member(name, state, begun, deleting), member(name, state, paused, awaitsRoom))
	}
	return out
}

func everyInput(yield func(rollup.Input)) {
	changes := map[string]func(*rollup.Input){
		"": func(*rollup.Input) {}, "suspended": suspended, "stalled": stalled, "unasked": unasked, "more": wantsOneMore,
		"held and invalid": func(in *rollup.Input) { suspended(in); stalled(in) },
		"retries":          func(in *rollup.Input) { in.Wanted.Retries = 1 },
	}
	for _, a := range everyMember("a") {
		for _, b := range everyMember("b") {
			for _, change := range changes {
				before := []v1alpha1.State{""}
				if a.Connecting || b.Connecting {
					before = append(before, v1alpha1.StateRunning, v1alpha1.StateUnknown, v1alpha1.StateSuspended, v1alpha1.StateFailed)
				}
				for _, previous := range before {
					in := input(a, b)
					change(&in)
					was(previous)(&in)
					yield(in)
				}
			}
		}
	}
}

// What a state claims is true of the runs, whatever they are and whatever was told before.
func TestStateNeverLies(t *testing.T) {
	everyInput(func(in rollup.Input) {
		s := rollup.Status(in)
		if why := lie(in, &s); why != "" {
			t.Fatalf("%s: %s; %s", s.State, why, describe(in))
		}
		slices.Reverse(in.Members)
		if again := rollup.State(in); again != s.State {
			t.Fatalf("%s, and %s in another order of members: %s", s.State, again, describe(in))
		}
		in.Previous, in.Now = s, now.Add(time.Hour)
		if again := rollup.State(in); again != s.State {
			t.Fatalf("%s, and %s the second time: %s", s.State, again, describe(in))
		}
	})
}

func describe(in rollup.Input) string {
	out := fmt.Sprintf("suspend %t stalled %t unasked %v wanted %d was %q", in.Wanted.Suspend, in.Stalled, in.Unasked, in.Decision.Wanted, in.Previous.State)
	for _, m := range in.Members {
		out += fmt.Sprintf("\n%s chosen %t lost %t connecting %t run %+v job %+v", m.Name, m.Chosen, m.Lost != nil, m.Connecting, m.Run, m.Job)
	}
	return out
}

// lie says what about a state is not true; empty if all is.
func lie(in rollup.Input, s *v1alpha1.FleetMiniClusterStatus) string {
	is := func(condition string) bool { return meta.IsStatusConditionTrue(s.Conditions, condition) }
	live, unheard, known := false, false, false
	some := map[string]bool{}
	for _, m := range in.Members {
		if m.Run == nil || m.Run.State.Ended() {
			continue
		}
		live = true
		unheard = unheard || m.Lost != nil
		known = known || !m.Connecting && (!in.Stalled || m.Job != nil || m.Run.State != starting)
		some[string(m.Run.State)] = true
		some["runs"] = some["runs"] || m.Run.State == running && m.Run.RunningTime != nil &&
			m.Run.PendingSince == nil && m.Run.SuspendedTime == nil && (m.Job == nil || !m.Job.Suspended && !m.Job.Deleting)
		some["deleting"] = some["deleting"] || m.Job != nil && m.Job.Deleting
		some["not suspended"] = some["not suspended"] || m.Job != nil && !m.Job.Suspended
		some["waits"] = some["waits"] || m.Step.Reason == v1alpha1.ReasonInsufficientCapacity
	}
	unasked := len(in.Unasked) > 0 || slices.ContainsFunc(in.Members, func(m rollup.Member) bool { return m.Step.Reason == v1alpha1.ReasonMemberNotAsked })
	kept := live && !known && !unheard && s.State == in.Previous.State
	truth := map[v1alpha1.State]bool{
		v1alpha1.StateUnknown:   unheard || kept || unasked && !live || unasked && in.Stalled,
		v1alpha1.StateRunning:   some["runs"] || kept,
		v1alpha1.StateStarting:  !some["runs"],
		v1alpha1.StateStopping:  some[string(stopping)] || some["deleting"],
		v1alpha1.StateSuspended: in.Wanted.Suspend && !some["not suspended"] && !some[string(stopping)] || kept,
		v1alpha1.StateWaiting:   !live || some["waits"] && !some["runs"],
		v1alpha1.StateInvalid:   in.Stalled && !some[string(running)] && !some[string(stopping)],
		v1alpha1.StateSucceeded: !live && is(v1alpha1.ConditionComplete),
		v1alpha1.StateFailed:    !live && is(v1alpha1.ConditionFailed),
		v1alpha1.StateCancelled: !live && is(v1alpha1.ConditionFailed),
	}
	over := s.State == v1alpha1.StateSucceeded || s.State == v1alpha1.StateFailed || s.State == v1alpha1.StateCancelled
	switch {
	case !truth[s.State]:
		return "that is not so"
	case unheard && s.State != v1alpha1.StateUnknown:
		return "nobody knows"
	case !live && !in.Stalled && over != (is(v1alpha1.ConditionComplete) || is(v1alpha1.ConditionFailed)):
		return "the conditions say otherwise"
	default:
		return ""
	}
}
