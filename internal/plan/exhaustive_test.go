package plan_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
)

// situation is one point of the domain of Next for one member, alpine.
type situation struct {
	connection, line, job, problem   string
	chosen, evicted, held, suspended bool

	snapshot *plan.Snapshot
	decision *plan.Decision
	ledger   runs.Ledger
}

var connections = map[string]func() []*MemberWrapper{
	"connected":       func() []*MemberWrapper { return []*MemberWrapper{MakeMember("alpine")} },
	"unreachable":     func() []*MemberWrapper { return []*MemberWrapper{MakeMember("alpine").Unreachable(0)} },
	"connecting":      func() []*MemberWrapper { return []*MemberWrapper{MakeMember("alpine").Connecting()} },
	"another cluster": func() []*MemberWrapper { return []*MemberWrapper{MakeMember("alpine").UID("other")} },
	"drained":         func() []*MemberWrapper { return []*MemberWrapper{MakeMember("alpine").Drained()} },
	"not registered":  func() []*MemberWrapper { return nil },
}

var lines = map[string]*RunWrapper{
	"none":                 nil,
	"starting":             MakeRun("aa", "alpine", v1alpha1.RunStarting),
	"to be released":       MakeRun("aa", "alpine", v1alpha1.RunStarting).Created(),
	"running":              MakeRun("aa", "alpine", v1alpha1.RunRunning),
	"running, lost":        MakeRun("aa", "alpine", v1alpha1.RunRunning).Lost(0),
	"stopping, lost":       MakeRun("aa", "alpine", v1alpha1.RunStopping).Stopped(v1alpha1.StopLost),
	"running, outdated":    MakeRun("aa", "alpine", v1alpha1.RunRunning).Of("old"),
	"stopping, drained":    MakeRun("aa", "alpine", v1alpha1.RunStopping).Stopped(v1alpha1.StopDrained),
	"stopping, not begun":  MakeRun("aa", "alpine", v1alpha1.RunStopping).Stopped(v1alpha1.StopNotStarted),
	"succeeded":            MakeRun("aa", "alpine", v1alpha1.RunSucceeded),
	"succeeded, outdated":  MakeRun("aa", "alpine", v1alpha1.RunSucceeded).Of("old"),
	"failed":               MakeRun("aa", "alpine", v1alpha1.RunFailed),
	"replaced, was lost":   MakeRun("aa", "alpine", v1alpha1.RunReplaced).Stopped(v1alpha1.StopLost),
	"cancelled by someone": MakeRun("aa", "alpine", v1alpha1.RunCancelled),
}

var jobs = map[string]func() *plan.Observation{
	"not read":      func() *plan.Observation { return nil },
	"none":          none,
	"none, a pod":   func() *plan.Observation { return &plan.Observation{Pod: "run-0"} },
	"live":          func() *plan.Observation { return MakeJob("aa").Running().Observation() },
	"unreleased":    func() *plan.Observation { return MakeJob("aa").Unreleased().Observation() },
	"suspended":     func() *plan.Observation { return MakeJob("aa").Suspended().Observation() },
	"deleting":      func() *plan.Observation { return MakeJob("aa").Running().Deleted().Observation() },
	"succeeded":     func() *plan.Observation { return MakeJob("aa").Succeeded().Observation() },
	"failed":        func() *plan.Observation { return MakeJob("aa").Failed().Observation() },
	"another run's": func() *plan.Observation { return MakeJob("bb").Running().Observation() },
	"somebody's": func() *plan.Observation {
		return &plan.Observation{Conflict: &rollup.Problem{Reason: v1alpha1.ReasonConflict, Message: "in use"}}
	},
}

var problems = map[string]*rollup.Problem{
	"none":         nil,
	"invalid":      {Reason: v1alpha1.ReasonInvalidSpec, Message: "wrong"},
	"denied":       {Reason: v1alpha1.ReasonPolicyDenied, Message: "not allowed"},
	"no placement": {Reason: v1alpha1.ReasonPlacementNotFound, Message: "not found"},
}

// everySituation builds all of them on one decision, whose MiniCluster has been made for the members.
func everySituation(t *testing.T, yield func(*situation)) {
	base := MakeObject("run").Obj()
	from := MakeSnapshot(base, MakeMember("alpine"), MakeMember("basalt"))
	anyRoom(from)
	made := decided(t, from)
	for connection, members := range connections {
		for line, run := range lines {
			for job, observation := range jobs {
				for problem, p := range problems {
					for bits := range 16 {
						yield(newSituation(made, &situation{
							connection: connection, line: line, job: job, problem: problem,
							chosen: bits&1 > 0, evicted: bits&2 > 0, held: bits&4 > 0, suspended: bits&8 > 0,
						}, members(), run, observation(), p))
					}
				}
			}
		}
	}
}

func newSituation(made *plan.Decision, s *situation, members []*MemberWrapper, run *RunWrapper, o *plan.Observation, problem *rollup.Problem) *situation {
	f := MakeObject("run")
	if run != nil {
		copied := *run
		f.Runs(&copied).Shown(v1alpha1.ClusterStatus{Name: "alpine", Run: "aa"})
	}
	if s.held {
		f.Runs(MakeRun("cc", "basalt", v1alpha1.RunRunning))
	}
	s.ledger = runs.Ledger(f.Status.Runs)
	s.snapshot = MakeSnapshot(f.Obj(), append(members, MakeMember("basalt").Unreachable(0))...)
	anyRoom(s.snapshot)
	observed(s.snapshot, "alpine", o)
	if !s.live() {
		s.snapshot.Queue.Reserved["alpine"] = queue.Reservation{Gang: gang(2)}
	}
	d := *made
	d.Ledger, d.Problem, d.Wanted.Suspend, d.Wanted.OnChange = s.ledger, problem, s.suspended, v1alpha1.Replace
	d.Evictions = map[string]eviction.Eviction{}
	d.Placement = &v1alpha1.PlacementDecision{Digest: d.Wanted.Digest, Wanted: 1}
	if s.chosen {
		d.Placement.Clusters = []string{"alpine"}
	}
	if s.evicted && s.live() {
		d.Evictions["alpine"] = eviction.Eviction{Stop: v1alpha1.StopDrained, Message: "stopped: its member is drained"}
	}
	s.decision = &d
	return s
}

func (s *situation) String() string {
	return fmt.Sprintf("%s, line %s, Job %s, problem %s, chosen %t, evicted %t, held %t, suspended %t",
		s.connection, s.line, s.job, s.problem, s.chosen, s.evicted, s.held, s.suspended)
}

func (s *situation) last() *v1alpha1.Run { return s.ledger.Last("alpine") }
func (s *situation) live() bool          { return s.last() != nil && !s.last().State.Ended() }
func (s *situation) answers() bool {
	return s.connection == "connected" || s.connection == "drained" || s.connection == "another cluster" && !s.live()
}
func (s *situation) ownLiveJob() bool {
	return s.last() != nil && (s.job == "live" || s.job == "unreleased" || s.job == "suspended")
}

// outcomeOf is what Next makes of a situation for alpine.
type outcomeOf struct {
	*situation
	plan.Round
	reads  []plan.Fact
	target *plan.Target // nil where alpine does not matter
}

func (o *outcomeOf) step() runs.Action {
	if o.target == nil {
		return ""
	}
	return o.target.Step.Action
}

func (o *outcomeOf) due() bool {
	return slices.ContainsFunc(o.Due(), func(t *plan.Target) bool { return t.Name == "alpine" })
}

func (o *outcomeOf) does(actions ...runs.Action) bool {
	return (o.due() || slices.Contains(o.Changed, "alpine")) && slices.Contains(actions, o.step())
}

// undecided says that something is to be read first.
func (o *outcomeOf) undecided() bool { return len(o.reads) > 0 }

var invariants = map[string]func(*outcomeOf) bool{
	"a member that cannot be asked is not": func(o *outcomeOf) bool {
		return o.answers() || len(o.reads) == 0 && !o.due() && len(o.Changed) == 0
	},
	"why it cannot be asked is known, where a run is live": func(o *outcomeOf) bool {
		return o.answers() || !o.live() || o.target.Lost != nil || o.target.Connecting
	},
	"the absence of a live run is confirmed before anything is decided": func(o *outcomeOf) bool {
		return !o.answers() || !o.live() || o.job != "not read" || slices.Equal(o.reads, []plan.Fact{plan.ReadConfirmed})
	},
	"that of one that has ended is not asked of the member": func(o *outcomeOf) bool {
		return !o.answers() || o.live() || !slices.Contains(o.reads, plan.ReadConfirmed)
	},
	"how a failed run ended is asked before it is called failed": func(o *outcomeOf) bool {
		return !o.answers() || !o.live() || o.job != "failed" || slices.Equal(o.reads, []plan.Fact{plan.ReadExit})
	},
	"nothing is decided before all is read": func(o *outcomeOf) bool {
		return !o.undecided() || len(o.Changed) == 0 && slices.EqualFunc(o.Ledger, o.ledger, sameLine)
	},
	"whatever changes in the ledger is said to": func(o *outcomeOf) bool {
		for _, run := range o.Ledger {
			was := o.ledger.Find(run.ID)
			if (was == nil || !sameLine(*was, run)) && !slices.Contains(o.Changed, run.Cluster) {
				return false
			}
		}
		return len(o.Changed) > 0 || slices.EqualFunc(o.Ledger, o.ledger, sameLine)
	},
	"the lines of other members stay": func(o *outcomeOf) bool {
		return !o.held || sameLine(*o.ledger.Last("basalt"), *o.Ledger.Last("basalt"))
	},
	"no line of a live run is lost": func(o *outcomeOf) bool {
		return !o.live() || o.Ledger.Find("aa") != nil
	},
	"nothing begins while something is wrong with the object": func(o *outcomeOf) bool {
		return o.problem == "none" || !o.does(runs.Begin)
	},
	"no Job of what is not allowed is created, released or resumed": func(o *outcomeOf) bool {
		return o.problem != "denied" || !o.does(runs.Create) && (o.suspended || !o.does(runs.Adjust))
	},
	"nothing begins on a member that is not chosen": func(o *outcomeOf) bool {
		return o.chosen || !o.does(runs.Begin, runs.Create)
	},
	"nothing begins while another run is live elsewhere": func(o *outcomeOf) bool {
		return !o.held || !o.does(runs.Begin)
	},
	"nothing begins while it is suspended": func(o *outcomeOf) bool { return !o.suspended || !o.does(runs.Begin) },
	"nothing begins on a drained member":   func(o *outcomeOf) bool { return o.connection != "drained" || !o.does(runs.Begin) },
	"what has run does not begin again": func(o *outcomeOf) bool {
		return o.line != "succeeded" && o.line != "failed" && o.line != "cancelled by someone" || !o.does(runs.Begin, runs.Create)
	},
	"a run begins with the identity of its cluster": func(o *outcomeOf) bool {
		return !o.does(runs.Begin) || o.Ledger.Last("alpine").ClusterUID == o.snapshot.Members[0].Connection.UID
	},
	"an evicted run is stopped": func(o *outcomeOf) bool {
		return len(o.decision.Evictions) == 0 || !o.answers() || !o.ownLiveJob() || o.does(runs.Stop, runs.DeleteJob)
	},
	"only what the ledger says is over, or about to be stopped, is deleted": func(o *outcomeOf) bool {
		if !o.due() || o.step() != runs.DeleteJob && o.step() != runs.Cleanup || o.job == "another run's" || o.last() == nil {
			return true
		}
		return !o.live() || o.last().State == v1alpha1.RunStopping
	},
	"what is live is not touched for the sake of an object that is wrong": func(o *outcomeOf) bool {
		return o.problem == "none" || len(o.decision.Evictions) > 0 || o.line != "running, outdated" || o.job != "live" || !o.does(runs.Stop, runs.DeleteJob)
	},
	"no pod is forgotten": func(o *outcomeOf) bool { return !o.live() || o.job != "none, a pod" || !o.does(runs.Finish) },
	"somebody else's Job is left alone": func(o *outcomeOf) bool {
		return o.job != "somebody's" || !o.due()
	},
	"a target with a failure has nothing done": func(o *outcomeOf) bool { return o.target == nil || o.target.Failure() == nil || !o.due() },
	"what had to go elsewhere is placed anew first": func(o *outcomeOf) bool {
		for _, run := range o.Ledger {
			was := o.ledger.Find(run.ID)
			moved := was != nil && !was.State.Ended() && run.State == v1alpha1.RunReplaced && run.Stop != v1alpha1.StopChanged
			if moved && (!slices.Contains(o.Done, run.Cluster) || o.After == 0) {
				return false
			}
		}
		return true
	},
	"a member that is not registered has nothing, unless a run is live there": func(o *outcomeOf) bool {
		return o.connection != "not registered" || o.target == nil || o.target.Unregistered && o.target.Removed == (!o.chosen && !o.live())
	},
	"only a member that is not registered is said not to be": func(o *outcomeOf) bool {
		return o.target == nil || o.target.Unregistered == (o.connection == "not registered")
	},
	"no message says a thing twice": func(o *outcomeOf) bool {
		return o.undecided() || slices.IndexFunc(o.messages(), repeats) < 0
	},
	"a live run's member matters": func(o *outcomeOf) bool { return !o.live() && !o.chosen || o.target != nil },
}

// messages are all that people are told of a round.
func (o *outcomeOf) messages() []string {
	status := o.Status(o.snapshot, o.decision, nil)
	var out []string
	for _, e := range o.Events {
		out = append(out, e.Message)
	}
	for _, r := range status.Runs {
		out = append(out, r.Message)
	}
	for _, c := range status.Clusters {
		out = append(out, c.Message)
	}
	for _, c := range status.Conditions {
		out = append(out, c.Message)
	}
	return out
}

var clauses = regexp.MustCompile(`[;:,()] ?`)

// repeats says whether two clauses of a message are the same.
func repeats(message string) bool {
	seen := map[string]bool{}
	for _, clause := range clauses.Split(message, -1) {
		clause = strings.TrimSpace(clause)
		if seen[clause] && strings.Contains(clause, " ") {
			return true
		}
		seen[clause] = true
	}
	return false
}

func sameLine(a, b v1alpha1.Run) bool {
	return a.ID == b.ID && a.Cluster == b.Cluster && a.State == b.State && a.Stop == b.Stop && a.JobUID == b.JobUID && a.Message == b.Message
}

// Whatever is known of a member, the ledger says and is decided, all of these hold.
func TestEverySituation(t *testing.T) {
	count, done := 0, map[runs.Action]int{}
	everySituation(t, func(s *situation) {
		if t.Failed() {
			return
		}
		count++
		round, reads := plan.Next(s.snapshot, s.decision, s.ledger)
		o := &outcomeOf{situation: s, Round: round, reads: reads.Members["alpine"]}
		for i := range round.Targets {
			if round.Targets[i].Name == "alpine" {
				o.target = &round.Targets[i]
			}
		}
		if o.step() == runs.Nothing || o.does(o.step()) {
			done[o.step()]++
		}
		for name, holds := range invariants {
			if !holds(o) {
				t.Errorf("%s: %s -> %s, reads %v, changed %v, done %v", name, s, o.step(), o.reads, round.Changed, round.Done)
			}
		}
	})
	if count < 10_000 && !t.Failed() {
		t.Errorf("only %d situations", count)
	}
	for _, action := range []runs.Action{
		runs.Nothing, runs.Begin, runs.Create, runs.Adopt, runs.Finish, runs.Stop, runs.Keep, runs.DeleteJob, runs.Adjust, runs.Cleanup,
	} {
		if done[action] == 0 && !t.Failed() {
			t.Errorf("nothing leads to %s", action)
		}
	}
}
