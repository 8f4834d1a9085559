package plan_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/runs"
)

// lostLedger has had runs, and its status knows none.
func lostLedger(s *plan.Snapshot) { s.HadRuns = ptr.To(true) }

func orphanOf(owner string) func(*plan.Snapshot) {
	return func(s *plan.Snapshot) {
		s.Members[0].Cluster.Status.Orphans = []v1alpha1.Orphan{{UID: "old", Owner: owner, Since: metav1.NewTime(start.Add(-time.Minute))}}
	}
}

func unownedBy(n int, owners ...string) func(*plan.Snapshot) {
	return func(s *plan.Snapshot) {
		for i := range n {
			s.Members[0].Cluster.Status.UnownedJobs = append(s.Members[0].Cluster.Status.UnownedJobs,
				v1alpha1.UnownedJob{Owner: owners[i%len(owners)], Since: metav1.NewTime(start.Add(-time.Hour))})
		}
	}
}

// Who may have a run that the ledger does not know of is waited for, and that is said with what can be done.
func TestUnknownRunsAreWaitedFor(t *testing.T) {
	away := func() *MemberWrapper { return MakeMember("alpine").Unreachable(time.Minute) }
	asked := func(s *plan.Snapshot) {
		fact(s, "basalt", func(f *plan.Facts) { f.Proof = MakeJob("xx").Proof(); f.Proof.Job = nil })
	}
	cases := map[string]struct {
		alpine *MemberWrapper
		change []func(*plan.Snapshot)
		object func(*v1alpha1.FleetMiniCluster)
		want   string // part of why it waits; empty: it does not
	}{
		"a new one, and a member is away":          {away(), nil, nil, ""},
		"its ledger is lost, and a member is away": {away(), []func(*plan.Snapshot){lostLedger, asked}, nil, "alpine, which may hold a run of this MiniCluster, could not be asked yet"},
		"the same, and all members run it": {away(), []func(*plan.Snapshot){lostLedger, asked}, func(f *v1alpha1.FleetMiniCluster) {
			f.Spec.Placement.NumberOfClusters = nil
		}, ""},
		"the same, and a person says that nothing is there": {away().Declared(0), []func(*plan.Snapshot){lostLedger, asked, func(s *plan.Snapshot) {
			s.Object.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
		}}, nil, ""},
		"its ledger is lost, and a member has never answered": {MakeMember("alpine").Unreachable(time.Minute).NeverHeard(), []func(*plan.Snapshot){lostLedger, asked}, nil,
			"no answer of alpine has ever come: kubectl describe mcl alpine says why; where nothing can run there: kubectl delete mcl alpine"},
		"one has never answered, and another is away": {away(), []func(*plan.Snapshot){func(s *plan.Snapshot) {
			s.Unasked, s.Members = []string{"alpine", "dacite"}, append(s.Members, MakeMember("dacite").Unreachable(time.Minute).NeverHeard().Member)
		}}, nil, "kubectl annotate --overwrite mcl alpine minifleet.dev/gone=$(date -u +%Y-%m-%dT%H:%M:%SZ); " +
			"no answer of dacite has ever come: kubectl describe mcl dacite says why; where nothing can run there: kubectl delete mcl dacite"},
		"not asked since the hub was rebuilt": {away(), []func(*plan.Snapshot){func(s *plan.Snapshot) { s.Unasked = []string{"alpine"} }}, nil, "alpine, which may hold a run"},
		"not registered since the hub was rebuilt": {MakeMember("alpine"), []func(*plan.Snapshot){func(s *plan.Snapshot) { s.Unasked = []string{"cobalt"} }},
			nil, "register cobalt again, or take it out of ConfigMap minifleet-fleet"},
		"its predecessor was deleted while a member was away": {away(), []func(*plan.Snapshot){orphanOf("hpc/run")}, nil, "that was deleted may still be live on alpine"},
		"the same, and the member is back":                    {MakeMember("alpine"), []func(*plan.Snapshot){orphanOf("hpc/run")}, nil, "that was deleted is being removed"},
		"the same, and a person says that it is gone":         {away().Declared(0), []func(*plan.Snapshot){orphanOf("hpc/run")}, nil, ""},
		"another one was deleted":                             {away(), []func(*plan.Snapshot){orphanOf("hpc/other")}, nil, ""},
		"a Job of its name was there when it was cut off":     {away(), []func(*plan.Snapshot){unownedBy(1, "hpc/run")}, nil, "alpine had a live run of this name"},
		"a Job of another name was":                           {away(), []func(*plan.Snapshot){unownedBy(1, "hpc/other")}, nil, ""},
		"more Jobs were there than were noted":                {away(), []func(*plan.Snapshot){unownedBy(v1alpha1.MaxUnownedJobs, "hpc/other")}, nil, "alpine had a live run of this name"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := MakeObject("run")
			if c.object != nil {
				f.With(c.object)
			}
			s := MakeSnapshot(f.Obj(), c.alpine, MakeMember("basalt"))
			anyRoom(s)
			observed(s, "alpine", none())
			observed(s, "basalt", none())
			for _, change := range c.change {
				change(s)
			}
			d := decided(t, s)
			for _, r := range d.Reserve {
				s.Queue.Reserved[r.View.Member] = r.Reservation
			}
			r := next(t, s, d)
			var begun []string
			for _, run := range r.Ledger {
				begun = append(begun, run.Cluster)
			}
			told := ""
			for i := range r.Targets {
				told += r.Targets[i].Step.Message
			}
			if (c.want == "") != (len(begun) > 0) || !strings.Contains(told, c.want) {
				t.Errorf("begun on %v, and told %q", begun, told)
			}
			advised := strings.Contains(told, "when you have made sure that nothing runs there any more: kubectl annotate") || strings.Contains(told, "where nothing can run there: kubectl delete mcl alpine")
			if c.want != "" && c.alpine.Connection.Connected == advised && !strings.Contains(told, "cobalt") {
				t.Errorf("what can be done about a member that is away is not said, or is said of one that is not: %q", told)
			}
		})
	}
}

// A lost ledger is not taken for a new one on the word of some members: whom it could not ask is remembered.
func TestMembersNotAskedAreRemembered(t *testing.T) {
	s := MakeSnapshot(MakeObject("run").Obj(), MakeMember("alpine").Unreachable(time.Minute), MakeMember("basalt"))
	lostLedger(s)
	if _, reads := plan.Decide(s, nil); len(reads.Members["basalt"]) != 1 || reads.Members["basalt"][0] != plan.ReadProof || len(reads.Members["alpine"]) > 0 {
		t.Fatalf("to be read: %+v", reads)
	}
	fact(s, "basalt", func(f *plan.Facts) { f.Proof = MakeJob("aa").Succeeded().Proof() })
	anyRoom(s)
	d := decided(t, s)
	if len(d.Unasked) != 1 || d.Unasked[0] != "alpine" || d.Ledger.Last("basalt") == nil {
		t.Errorf("not asked are %v, and the ledger is %v", d.Unasked, d.Ledger)
	}
}

// Whom a lost ledger has not asked is remembered as well where nothing can be placed yet.
func TestMembersNotAskedAreRememberedWithoutPlacement(t *testing.T) {
	s := MakeSnapshot(MakeObject("run").Obj(), MakeMember("alpine").Unreachable(time.Minute), MakeMember("basalt"))
	s.Placement, s.HadRuns = nil, nil
	held := MakeJob("aa").Succeeded().Observation()
	fact(s, "basalt", func(f *plan.Facts) { f.Cached = held })
	if _, reads := plan.Decide(s, nil); !reads.HadRuns {
		t.Fatalf("to be read: %+v", reads)
	}
	lostLedger(s)
	d, reads := plan.Decide(s, nil)
	if reads.Any() || d.Ledger.Last("basalt") == nil || !slices.Contains(d.Unasked, "alpine") {
		t.Errorf("to be read: %+v; not asked are %v, and the ledger is %v", reads, d.Unasked, d.Ledger)
	}
}

func TestRecordsPutTheLedgerRight(t *testing.T) {
	wanted := digestOf(MakeObject("run").Obj())
	recorded := func(id, digest string, state v1alpha1.RunState, ago time.Duration) v1alpha1.EndedRun {
		return v1alpha1.EndedRun{ID: id, Digest: digest, State: state, CompletionTime: at(-ago)}
	}
	cases := map[string]struct {
		ledger []*RunWrapper
		record []v1alpha1.EndedRun
		want   string // the state of the latest run, empty for none
		begins bool
	}{
		"nothing is known": {nil, nil, "", true},
		"it has succeeded": {nil, []v1alpha1.EndedRun{recorded("aa", wanted, v1alpha1.RunSucceeded, time.Hour)}, "Succeeded", false},
		"it has failed":    {nil, []v1alpha1.EndedRun{recorded("aa", wanted, v1alpha1.RunFailed, time.Hour)}, "Failed", false},
		"something else has failed since": {nil, []v1alpha1.EndedRun{
			recorded("aa", wanted, v1alpha1.RunSucceeded, 2*time.Hour), recorded("bb", "other", v1alpha1.RunFailed, time.Hour)}, "Succeeded", false},
		"it failed long ago, and something else has succeeded since": {nil, []v1alpha1.EndedRun{
			recorded("aa", wanted, v1alpha1.RunFailed, 2*time.Hour), recorded("bb", "other", v1alpha1.RunSucceeded, time.Hour)}, "Succeeded", true},
		"the ledger has it as failed": {[]*RunWrapper{MakeRun("aa", "alpine", v1alpha1.RunFailed).Of("other")},
			[]v1alpha1.EndedRun{recorded("aa", wanted, v1alpha1.RunSucceeded, time.Hour)}, "Succeeded", false},
		"somebody has written that it was replaced": {[]*RunWrapper{MakeRun("aa", "alpine", v1alpha1.RunReplaced).Of(wanted)},
			[]v1alpha1.EndedRun{recorded("aa", wanted, v1alpha1.RunFailed, time.Hour)}, "Failed", false},
		"it was replaced": {[]*RunWrapper{MakeRun("aa", "alpine", v1alpha1.RunReplaced).Of(wanted).Stopped(v1alpha1.StopDrained)},
			[]v1alpha1.EndedRun{recorded("aa", wanted, v1alpha1.RunFailed, time.Hour)}, "Replaced", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(MakeObject("run").Runs(c.ledger...).Obj(), MakeMember("alpine"))
			anyRoom(s)
			observed(s, "alpine", none())
			fact(s, "alpine", func(f *plan.Facts) { f.Record = &plan.Record{Ended: c.record} })
			d := decided(t, s)
			for _, r := range d.Reserve {
				s.Queue.Reserved[r.View.Member] = r.Reservation
			}
			r := next(t, s, d)
			state := ""
			if last := d.Ledger.Last("alpine"); last != nil {
				state = string(last.State)
			}
			if begins := r.Ledger.Live() != nil; state != c.want || begins != c.begins {
				t.Errorf("%s, begins: %t", state, begins)
			}
		})
	}
}

// A run that has failed as often as it may keeps its member although the ledger was lost: other members have on record what was
// wanted before.
func TestRecordsTellTheOrderOfRuns(t *testing.T) {
	f := MakeObject("run").With(func(f *v1alpha1.FleetMiniCluster) { f.Spec.Retries = 1 }).Obj()
	failed := v1alpha1.EndedRun{ID: "bb", Digest: digestOf(f), State: v1alpha1.RunFailed, Attempt: 1, CompletionTime: at(-time.Hour)}
	before := v1alpha1.EndedRun{ID: "aa", Digest: "before", State: v1alpha1.RunSucceeded, CompletionTime: at(-2 * time.Hour)}
	job := MakeJob("bb").Failed() // which does not tell how often it was tried
	job.Digest, job.Created = failed.Digest, *at(-90 * time.Minute)
	for name, held := range map[string]*plan.Observation{
		"its Job is gone":  none(),
		"its Job is there": job.Observation(),
	} {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(f, MakeMember("alpine"), MakeMember("basalt"), MakeMember("cobalt"))
			anyRoom(s)
			lostLedger(s)
			for member, has := range map[string]plan.Facts{
				"alpine": {Cached: none(), Record: &plan.Record{}},
				"basalt": {Cached: held, Record: &plan.Record{Ended: []v1alpha1.EndedRun{failed}}},
				"cobalt": {Cached: none(), Record: &plan.Record{Ended: []v1alpha1.EndedRun{before}}},
			} {
				fact(s, member, func(f *plan.Facts) {
					f.Observed, f.Cached, f.Record, f.Proof, f.Exit = has.Cached, has.Cached, has.Record, &eviction.Proof{Job: has.Cached.Job}, &plan.Exit{}
				})
			}
			d := decided(t, s)
			for _, r := range d.Reserve {
				s.Queue.Reserved[r.View.Member] = r.Reservation
			}
			r := next(t, s, d)
			last := r.Ledger.Last("basalt")
			if diff := cmp.Diff([]string{"basalt"}, d.Placement.Clusters); diff != "" || last.State != v1alpha1.RunFailed || last.Attempt != 1 || r.Ledger.Live() != nil {
				t.Errorf("%s the ledger is %+v", diff, r.Ledger)
			}
		})
	}
}

// Whoever may write to a member's namespace may have written anything.
func TestRecordsWithoutATime(t *testing.T) {
	for name, e := range map[string]v1alpha1.EndedRun{
		"none":                    {State: v1alpha1.RunFailed},
		"one that is yet to come": {State: v1alpha1.RunSucceeded, CompletionTime: at(time.Hour)},
		"of a run that is live":   {State: v1alpha1.RunRunning, Stop: v1alpha1.StopDeleted, StartTime: at(2 * time.Hour), CompletionTime: at(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			f := MakeObject("run").Obj()
			s := MakeSnapshot(f, MakeMember("alpine"))
			lostLedger(s)
			e.ID, e.Digest = "aa", digestOf(f)
			fact(s, "alpine", func(f *plan.Facts) {
				f.Cached, f.Proof, f.Record = none(), &eviction.Proof{}, &plan.Record{Ended: []v1alpha1.EndedRun{e}}
			})
			last := decided(t, s).Ledger.Last("alpine")
			if last == nil || !last.StartTime.Equal(at(0)) || plan.GraceLeft(last, s.Now) != plan.Grace {
				t.Errorf("%+v", last)
			}
		})
	}
	if left := plan.GraceLeft(&v1alpha1.Run{}, time.Now()); left != 0 {
		t.Errorf("a run that somebody has edited has %s left", left)
	}
}

// So they do where nothing may begin, for the ledger is that of an older backup.
func TestRecordsAreReadBeforeAdoption(t *testing.T) {
	f := MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunFailed)).Placed("alpine").Obj()
	s := MakeSnapshot(f, MakeMember("alpine"))
	job := MakeJob("bb").Running()
	job.Digest = digestOf(f)
	fact(s, "alpine", func(f *plan.Facts) { f.Cached, f.Record = job.Observation(), nil })
	if _, reads := plan.Decide(s, nil); !slices.Contains(reads.Members["alpine"], plan.ReadRecord) {
		t.Fatalf("to be read: %+v", reads)
	}
	fact(s, "alpine", func(f *plan.Facts) {
		f.Record = &plan.Record{Ended: []v1alpha1.EndedRun{{ID: "aa", Digest: job.Digest, State: v1alpha1.RunFailed}}}
	})
	if d, reads := plan.Decide(s, nil); reads.Any() || d.Ledger.Last("alpine").ID != "bb" || d.Ledger.Last("alpine").Attempt != 1 {
		t.Errorf("to be read: %+v; the ledger is %v", reads, d.Ledger)
	}
}

// A Job does not tell how often its run was tried before, and a ledger that was lost does not either.
func TestRecordsTellTheAttempt(t *testing.T) {
	f := MakeObject("run").With(func(f *v1alpha1.FleetMiniCluster) { f.Spec.Retries = 2 }).Obj()
	ended := func(id string, attempt int32, changes ...func(*v1alpha1.EndedRun)) v1alpha1.EndedRun {
		e := v1alpha1.EndedRun{ID: id, Digest: digestOf(f), State: v1alpha1.RunFailed, Attempt: attempt, CompletionTime: at(-2 * time.Hour)}
		for _, change := range changes {
			change(&e)
		}
		return e
	}
	cases := map[string]struct {
		record []v1alpha1.EndedRun
		want   int32
	}{
		"nothing is on record":                     {nil, 0},
		"another has failed before":                {[]v1alpha1.EndedRun{ended("aa", 0)}, 1},
		"two have":                                 {[]v1alpha1.EndedRun{ended("aa", 1)}, 2},
		"it is on record itself":                   {[]v1alpha1.EndedRun{ended("bb", 2)}, 2},
		"another has succeeded":                    {[]v1alpha1.EndedRun{ended("aa", 1, func(e *v1alpha1.EndedRun) { e.State = v1alpha1.RunSucceeded })}, 0},
		"a person has deleted the Job of another":  {[]v1alpha1.EndedRun{ended("aa", 1, func(e *v1alpha1.EndedRun) { e.Stop = v1alpha1.StopDeleted })}, 0},
		"another has failed for something else":    {[]v1alpha1.EndedRun{ended("aa", 1, func(e *v1alpha1.EndedRun) { e.Digest = "other" })}, 0},
		"another has failed for another token":     {[]v1alpha1.EndedRun{ended("aa", 1, func(e *v1alpha1.EndedRun) { e.RerunAt = "again" })}, 0},
		"a member claims more than can be counted": {[]v1alpha1.EndedRun{ended("aa", math.MaxInt32)}, math.MaxInt32},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(f, MakeMember("alpine"))
			anyRoom(s)
			lostLedger(s)
			job := MakeJob("bb").Running()
			job.Digest, job.Created = digestOf(f), *at(-time.Hour)
			fact(s, "alpine", func(f *plan.Facts) {
				f.Cached, f.Observed, f.Proof, f.Record = job.Observation(), job.Observation(), job.Proof(), &plan.Record{Ended: c.record}
			})
			if last := decided(t, s).Ledger.Last("alpine"); last.ID != "bb" || last.Attempt != c.want {
				t.Errorf("run %s is attempt %d", last.ID, last.Attempt)
			}
		})
	}
}

// What has succeeded before is wanted again while its member is busy with something else: it is not begun once that ends.
func TestWhatHasSucceededIsNotBegunOnceAnotherEnds(t *testing.T) {
	cases := map[string]struct {
		busy *RunWrapper
		held *plan.Observation
	}{
		"the other is stopped": {MakeRun("bb", "alpine", v1alpha1.RunStopping).Of("other"), none()},
		"the other has ended":  {MakeRun("bb", "alpine", v1alpha1.RunRunning).Of("other"), MakeJob("bb").Succeeded().Observation()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := MakeObject("run").With(func(f *v1alpha1.FleetMiniCluster) { f.Spec.OnChange = v1alpha1.Replace }).
				Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded), c.busy).Placed("alpine").Obj()
			s := MakeSnapshot(f, MakeMember("alpine"))
			anyRoom(s)
			observed(s, "alpine", c.held)
			d := decided(t, s)
			for _, r := range d.Reserve {
				s.Queue.Reserved[r.View.Member] = r.Reservation
			}
			r := next(t, s, d)
			if last := r.Ledger.Last("alpine"); last.ID != "bb" || !last.State.Ended() {
				t.Fatalf("the run that is live has not ended: %+v", last)
			}
			fact(s, "alpine", func(f *plan.Facts) { f.Observed, f.Done = none(), slices.Contains(r.Done, "alpine") })
			after, reads := plan.Next(s, d, r.Ledger)
			if reads.Any() || target(t, &after).Step.Action == runs.Begin {
				t.Errorf("it is begun, or something is read: %+v", reads)
			}
			f.Status.Runs = r.Ledger
			fact(s, "alpine", func(f *plan.Facts) { f.Done = false })
			if last := decided(t, s).Ledger.Last("alpine"); last.ID != "aa" {
				t.Errorf("what has succeeded is not the latest, but %+v", last)
			}
		})
	}
}

// Members may have more on record than a hub remembers: that is not written anew all the time, and takes the place of
// nothing that the hub knows by itself.
func TestMemoryIsStable(t *testing.T) {
	own := v1alpha1.EndedRun{ID: "aa", Cluster: "cobalt", Digest: "own", State: v1alpha1.RunSucceeded}
	f := MakeObject("run").With(func(f *v1alpha1.FleetMiniCluster) { f.Status.Succeeded = []v1alpha1.EndedRun{own} }).Obj()
	var first []v1alpha1.EndedRun
	for range 3 {
		s := MakeSnapshot(f, MakeMember("alpine"), MakeMember("basalt"))
		anyRoom(s)
		for _, member := range []string{"alpine", "basalt"} {
			observed(s, member, none())
			record := &plan.Record{}
			for i := range v1alpha1.MaxEndedRuns {
				id := fmt.Sprintf("%s-%d", member, i)
				record.Ended = append(record.Ended, v1alpha1.EndedRun{ID: id, Digest: id, State: v1alpha1.RunSucceeded, CompletionTime: at(-time.Hour)})
			}
			fact(s, member, func(f *plan.Facts) { f.Record = record })
		}
		r := plan.Round{Ledger: decided(t, s).Ledger}
		f = f.DeepCopy()
		f.Status = r.Status(s, decided(t, s), nil)
		if first == nil {
			first = f.Status.Succeeded
		}
		if diff := cmp.Diff(first, f.Status.Succeeded); diff != "" || len(first) != v1alpha1.MaxEndedRuns || first[len(first)-1].ID != own.ID {
			t.Errorf("%d are remembered: %s", len(first), diff)
		}
	}
}

// Members are asked as well where more of them are wanted than before, and nothing else has changed.
func TestMembersAreAskedWhereMoreAreWanted(t *testing.T) {
	f := MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded)).Placed("alpine").Obj()
	f.Spec.Placement.NumberOfClusters = ptr.To[int32](2)
	s := MakeSnapshot(f, MakeMember("alpine"), MakeMember("basalt"))
	fact(s, "basalt", func(f *plan.Facts) { f.Record = nil })
	if _, reads := plan.Decide(s, nil); len(reads.Members["basalt"]) != 1 || reads.Members["basalt"][0] != plan.ReadRecord {
		t.Errorf("to be read: %+v", reads)
	}
}

// A member may claim any run. What is remembered of another one stays, and a run that begins there has an id of its own.
func TestClaimsOfAnotherMembersRuns(t *testing.T) {
	known := v1alpha1.EndedRun{ID: "aa", Cluster: "alpine", Digest: "before", State: v1alpha1.RunSucceeded}
	f := MakeObject("run").With(onlyOn("alpine"), func(f *v1alpha1.FleetMiniCluster) { f.Status.Succeeded = []v1alpha1.EndedRun{known} }).Obj()
	next := runs.ID(string(f.UID), "alpine", runs.Wanted{Digest: digestOf(f)}, nil)
	for name, claim := range map[string]func(*plan.Facts){
		"a Job of a run that is remembered": func(f *plan.Facts) {
			f.Cached = MakeJob("aa").Running().Observation()
			f.Observed = f.Cached
		},
		"a record of one": func(f *plan.Facts) {
			f.Record = &plan.Record{Ended: []v1alpha1.EndedRun{{ID: "aa", Digest: "other", State: v1alpha1.RunFailed}}}
		},
		"a record of the next one": func(f *plan.Facts) {
			f.Record = &plan.Record{Ended: []v1alpha1.EndedRun{{ID: next, Digest: "other", State: v1alpha1.RunFailed}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(f, MakeMember("alpine"), MakeMember("basalt"))
			anyRoom(s)
			observed(s, "alpine", none())
			observed(s, "basalt", none())
			fact(s, "basalt", claim)
			d := decided(t, s)
			for _, r := range d.Reserve {
				s.Queue.Reserved[r.View.Member] = r.Reservation
			}
			r, _ := plan.Next(s, d, d.Ledger)
			ids := map[string]bool{}
			for _, run := range r.Ledger {
				if ids[run.ID] {
					t.Errorf("run %s is there twice", run.ID)
				}
				ids[run.ID] = true
			}
			if status := r.Status(s, d, nil); runs.FindEnded(status.Succeeded, "aa") == nil || r.Ledger.Last("alpine") == nil {
				t.Errorf("remembered are %v, and the ledger is %v", status.Succeeded, r.Ledger)
			}
		})
	}
}

// What has been begun, and has no Job yet, is given up when it comes to be known that it is live, or has succeeded, elsewhere.
func TestWhatIsAboutToStartIsGivenUpForWhatIsThere(t *testing.T) {
	f := MakeObject("run")
	wanted := digestOf(f.Obj())
	there := MakeJob("aa").Running()
	there.Digest, there.Said = wanted, wanted
	cases := map[string]struct {
		members int32
		basalt  *plan.Observation
		want    v1alpha1.RunState // of the run on basalt
	}{
		"no Job is there yet":       {1, none(), v1alpha1.RunReplaced},
		"a Job is there":            {1, MakeJob("bb").Unreleased().Observation(), v1alpha1.RunStarting},
		"two members are to run it": {2, none(), v1alpha1.RunStarting},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			line := MakeRun("bb", "basalt", v1alpha1.RunStarting).Of(wanted)
			line.JobUID = ""
			s := MakeSnapshot(MakeObject("run").With(func(f *v1alpha1.FleetMiniCluster) { f.Spec.Placement.NumberOfClusters = &c.members }).
				Runs(line).Placed("basalt").Obj(), MakeMember("alpine"), MakeMember("basalt"))
			anyRoom(s)
			fact(s, "alpine", func(f *plan.Facts) { f.Cached, f.Observed = there.Observation(), there.Observation() })
			observed(s, "basalt", c.basalt)
			if c.basalt.Job != nil {
				fact(s, "basalt", func(f *plan.Facts) { f.Cached = c.basalt })
			}
			d := decided(t, s)
			r := next(t, s, d)
			if got := r.Ledger.Last("basalt").State; got != c.want || r.Ledger.Last("alpine") == nil {
				t.Errorf("%s on basalt, and on alpine %v", got, r.Ledger.Last("alpine"))
			}
		})
	}
}
