package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/runs"
)

// gang is of pods with one CPU each.
func gang(size int) fit.Gang {
	return fit.Gang{Pod: fit.PodOf(&objectOf(&runs.Job{}).Spec.Template.Spec), Size: size}
}

// A run is placed where it has room, in its turn, and the room is reserved with the placement.
func TestRoomForNewRuns(t *testing.T) {
	type outcome struct {
		Placed, Waiting, Lacking []string
		Reserved                 map[string]int
		Behind                   string
	}
	ahead := func(p int32) func(*queue.Queue) {
		return func(q *queue.Queue) {
			first := MakeObject("first").With(priority(p)).Obj()
			q.Update(keyOf(first), nil, &queue.Entry{
				Rank:  queue.Rank{Priority: p, Created: first.CreationTimestamp.Add(-time.Hour), Key: keyOf(first)},
				Gangs: map[string]fit.Gang{"alpine": gang(3)},
			})
		}
	}
	cases := map[string]struct {
		object *ObjectWrapper
		used   int
		others func(*queue.Queue)
		want   outcome
	}{
		"there is room":        {object: MakeObject("run"), want: outcome{Placed: []string{"alpine"}, Reserved: map[string]int{"alpine": 2}}},
		"there is just enough": {object: MakeObject("run"), used: 1, want: outcome{Placed: []string{"alpine"}, Reserved: map[string]int{"alpine": 2}}},
		"others' pods have it": {object: MakeObject("run"), used: 2, want: outcome{Placed: []string{}, Waiting: []string{"alpine"}, Lacking: []string{"alpine"}}},
		"others have it reserved": {object: MakeObject("run"), others: func(q *queue.Queue) {
			q.Update(queue.Key{Namespace: "hpc", Name: "first"}, map[string]queue.Reservation{"alpine": {Gang: gang(2)}}, nil)
		}, want: outcome{Placed: []string{}, Waiting: []string{"alpine"}, Lacking: []string{"alpine"}}},
		"somebody comes first": {object: MakeObject("run"), used: 1, others: ahead(0), want: outcome{Placed: []string{}, Waiting: []string{"alpine"}, Lacking: []string{"alpine"}, Behind: "first"}},
		"it comes first":       {object: MakeObject("run").With(priority(1)), used: 1, others: ahead(0), want: outcome{Placed: []string{"alpine"}, Reserved: map[string]int{"alpine": 2}}},
		"minSize has room":     {object: MakeObject("run").With(sized(4), quorum(2)), used: 1, want: outcome{Placed: []string{"alpine"}, Reserved: map[string]int{"alpine": 4}}},
		"all of it has room":   {object: MakeObject("run").With(sized(3), quorum(2)), want: outcome{Placed: []string{"alpine"}, Reserved: map[string]int{"alpine": 3}}},
		"minSize has no room":  {object: MakeObject("run").With(sized(4), quorum(2)), used: 2, want: outcome{Placed: []string{}, Waiting: []string{"alpine"}, Lacking: []string{"alpine"}}},
		"minSize comes second": {object: MakeObject("run").With(sized(4), quorum(1)), used: 1, others: ahead(0), want: outcome{Placed: []string{}, Waiting: []string{"alpine"}, Lacking: []string{"alpine"}, Behind: "first"}},
		"others have it, beyond their minSize": {object: MakeObject("run"), others: func(q *queue.Queue) {
			q.Update(queue.Key{Namespace: "hpc", Name: "first"}, map[string]queue.Reservation{"alpine": {Gang: gang(7)}}, nil)
		}, want: outcome{Placed: []string{}, Waiting: []string{"alpine"}, Lacking: []string{"alpine"}}},
		"suspended it needs none": {object: MakeObject("run").With(suspended), used: 3, want: outcome{Placed: []string{"alpine"}}},
		"what it has it keeps":    {object: MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)), used: 3, want: outcome{Placed: []string{"alpine"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, q := MakeSnapshot(c.object.Obj(), MakeMember("alpine").Observed()), queue.New()
			if c.others != nil {
				c.others(q)
			}
			viewed(s, q, "alpine", 3, c.used)
			d := decided(t, s)
			got := outcome{Placed: d.Placement.Clusters, Lacking: d.Line.Lacking, Behind: d.Line.Behind["alpine"].Name}
			for _, w := range d.Placement.Waiting {
				got.Waiting = append(got.Waiting, w.Name)
			}
			for _, r := range d.Reserve {
				got.Reserved = map[string]int{r.View.Member: r.Reservation.Gang.Size}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A live run takes more room than it has only where there is some.
func TestRoomForLiveRuns(t *testing.T) {
	type outcome struct {
		Action   runs.Action
		Size     int32
		Reserved int // pods; 0: nothing is asked for
		Needs    int
		Reads    []plan.Fact
	}
	running := func(n int32, change ...func(*v1alpha1.FleetMiniCluster)) *ObjectWrapper {
		return MakeObject("run").With(elastic(6), sized(n)).With(change...).Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)).Placed("alpine")
	}
	cases := map[string]struct {
		object   *ObjectWrapper
		job      *JobWrapper
		reserved int
		admitted bool
		used     int // of 4, its own pods apart
		want     outcome
	}{
		"resumed with room":         {running(2), MakeJob("aa").Suspended(), 0, false, 0, outcome{Action: runs.Adjust, Size: 2, Reserved: 2}},
		"resumed, just enough":      {running(2), MakeJob("aa").Suspended(), 0, false, 2, outcome{Action: runs.Adjust, Size: 2, Reserved: 2}},
		"resumed without room":      {running(2), MakeJob("aa").Suspended(), 0, false, 3, outcome{Action: runs.Nothing, Size: 2, Needs: 2}},
		"resumed, minSize has room": {running(4, quorum(2)), MakeJob("aa").Size(4).Suspended(), 0, false, 2, outcome{Action: runs.Adjust, Size: 4, Reserved: 4}},
		"resumed, minSize has none": {running(4, quorum(2)), MakeJob("aa").Size(4).Suspended(), 0, false, 3, outcome{Action: runs.Nothing, Size: 4, Needs: 2}},
		"larger, minSize is enough": {running(4, quorum(2)), MakeJob("aa"), 2, false, 2, outcome{Action: runs.Nothing, Size: 4, Needs: 1}},
		"resumed, and admitted":     {running(2), MakeJob("aa").Suspended(), 2, true, 3, outcome{Action: runs.Adjust, Size: 2}},
		"released, room was kept":   {running(2), MakeJob("aa").Unreleased(), 2, false, 3, outcome{Action: runs.Adjust, Size: 2}},
		"released without room":     {running(2), MakeJob("aa").Unreleased(), 0, false, 3, outcome{Action: runs.Nothing, Size: 2, Needs: 2}},
		"larger with room":          {running(4), MakeJob("aa"), 2, false, 0, outcome{Action: runs.Adjust, Size: 4, Reserved: 4}},
		"larger as far as there is": {running(4), MakeJob("aa"), 2, false, 1, outcome{Action: runs.Adjust, Size: 3, Reserved: 3}},
		"larger without room":       {running(4), MakeJob("aa"), 2, false, 2, outcome{Action: runs.Nothing, Size: 4, Needs: 1}},
		"larger, and admitted":      {running(4), MakeJob("aa"), 3, true, 1, outcome{Action: runs.Adjust, Size: 3}},
		"smaller":                   {running(1), MakeJob("aa"), 2, false, 2, outcome{Action: runs.Adjust, Size: 1}},
		"suspended":                 {running(2).With(suspended), MakeJob("aa"), 2, false, 3, outcome{Action: runs.Adjust, Size: 2}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, q := MakeSnapshot(c.object.Obj(), MakeMember("alpine").Observed()), queue.New()
			if c.reserved > 0 {
				s.Queue.Reserved["alpine"] = queue.Reservation{Run: "aa", Gang: gang(c.reserved)}
			}
			viewed(s, q, "alpine", 4, c.used)
			observed(s, "alpine", c.job.Observation())
			fact(s, "alpine", func(f *plan.Facts) { f.Admitted = c.admitted })
			target := target(t, next(t, s, decided(t, s)))
			got := outcome{Action: target.Step.Action, Size: target.Size}
			if target.Reserve != nil {
				got.Reserved = target.Reserve.Reservation.Gang.Size
			}
			if target.Needs != nil {
				got.Needs = target.Needs.Size
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What a live run was given stays its own until the Job is seen to have it, and what it has no more goes.
func TestReservationsOfLiveRuns(t *testing.T) {
	running := MakeRun("aa", "alpine", v1alpha1.RunRunning)
	cases := map[string]struct {
		run      *RunWrapper
		alpine   *MemberWrapper
		job      *JobWrapper // nil: none was seen
		admitted bool
		change   func(*v1alpha1.FleetMiniCluster)
		had      int
		want     map[string]int
	}{
		"suspended":                       {run: running, job: MakeJob("aa").Size(4).Suspended(), had: 4, want: map[string]int{}},
		"resumed just now":                {run: running, job: MakeJob("aa").Size(4).Suspended(), admitted: true, had: 4, want: map[string]int{"alpine": 4}},
		"it has another size":             {run: running, job: MakeJob("aa"), had: 4, want: map[string]int{"alpine": 2}},
		"resized just now":                {run: running, job: MakeJob("aa"), admitted: true, had: 4, want: map[string]int{"alpine": 4}},
		"connecting, so nothing is seen":  {run: running, alpine: MakeMember("alpine").Connecting(), had: 4, want: map[string]int{"alpine": 4}},
		"lost, so nothing is seen":        {run: running, alpine: MakeMember("alpine").Unreachable(0), had: 4, want: map[string]int{"alpine": 4}},
		"it had none":                     {run: running, job: MakeJob("aa").Size(3), want: map[string]int{"alpine": 3}},
		"beyond minSize":                  {run: running, job: MakeJob("aa").Size(4), change: quorum(1), had: 4, want: map[string]int{"alpine": 4}},
		"beyond minSize, and it had none": {run: running, job: MakeJob("aa").Size(4), change: quorum(1), want: map[string]int{"alpine": 4}},
		"it had none, and is not seen":    {run: running, alpine: MakeMember("alpine").Unreachable(0), want: map[string]int{"alpine": 2}},
		"about to be released":            {run: running, job: MakeJob("aa").Unreleased(), had: 2, want: map[string]int{"alpine": 2}},
		"not to be released":              {run: running, job: MakeJob("aa").Unreleased(), change: suspended, had: 2, want: map[string]int{}},
		"its Job has ended":               {run: running, job: MakeJob("aa").Succeeded(), had: 2, want: map[string]int{}},
		"it has ended":                    {run: MakeRun("aa", "alpine", v1alpha1.RunSucceeded), job: MakeJob("aa").Succeeded(), had: 2, want: map[string]int{}},
		"being stopped":                   {run: MakeRun("aa", "alpine", v1alpha1.RunStopping), job: MakeJob("aa").Running().Deleted(), had: 2, want: map[string]int{"alpine": 2}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := MakeObject("run").Runs(&RunWrapper{c.run.Run}).Placed("alpine")
			if c.change != nil {
				f.With(c.change)
			}
			if c.alpine == nil {
				c.alpine = MakeMember("alpine")
			}
			s := MakeSnapshot(f.Obj(), c.alpine)
			anyRoom(s)
			if c.had > 0 {
				s.Queue.Reserved["alpine"] = queue.Reservation{Run: "aa", Gang: gang(c.had)}
			}
			d := decided(t, s)
			round := plan.Round{Targets: plan.Targets(s, d, d.Ledger), Ledger: d.Ledger}
			if c.job != nil {
				round.Targets[0].Observed = c.job.Observation()
			}
			round.Targets[0].Admitted = c.admitted
			reservations, _ := round.Reservations(s, d)
			got := map[string]int{}
			for member, r := range reservations {
				if got[member] = r.Gang.Size; r.Run != "aa" {
					t.Errorf("it is reserved for run %q", r.Run)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is reserved for a run that begins when another one has ended stays so until then.
func TestRoomOfRunsThatAreAboutToMove(t *testing.T) {
	s := MakeSnapshot(MakeObject("run").Runs(MakeRun("bb", "basalt", v1alpha1.RunRunning)).Placed("basalt").Obj(), MakeMember("alpine"), MakeMember("basalt").Drained())
	anyRoom(s)
	observed(s, "alpine", none())
	observed(s, "basalt", MakeJob("bb").Running().Observation())
	d := decided(t, s)
	if len(d.Reserve) != 1 {
		t.Fatalf("to be reserved: %+v", d.Reserve)
	}
	s.Queue.Reserved["alpine"] = d.Reserve[0].Reservation
	reservations, entry := next(t, s, d).Reservations(s, d)
	if reservations["alpine"].Gang.Size != 2 || reservations["alpine"].Run != "" || reservations["basalt"].Run != "bb" || entry != nil {
		t.Errorf("reserved: %+v, waits: %+v", reservations, entry)
	}
	d.Wanted.Suspend = true
	if reservations, _ := next(t, s, d).Reservations(s, d); len(reservations) != 1 {
		t.Errorf("reserved while it is suspended: %+v", reservations)
	}
}

// What follows a run on the same member could not have its room reserved before that had ended, and waits until it is
// known what is free.
func TestRoomThatIsNotKnownYet(t *testing.T) {
	failed := MakeRun("aa", "alpine", v1alpha1.RunFailed)
	failed.CompletionTime = at(-time.Hour)
	cases := map[string]struct {
		object *ObjectWrapper
		job    *plan.Observation
		needs  int
	}{
		"to begin":     {MakeObject("run").With(retried(1)).Runs(failed), none(), 2},
		"to resume":    {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)), MakeJob("aa").Suspended().Observation(), 2},
		"to be larger": {MakeObject("run").With(elastic(4), sized(4)).Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)), MakeJob("aa").Running().Observation(), 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(c.object.Placed("alpine").Obj(), MakeMember("alpine").NotListed(0))
			anyRoom(s)
			observed(s, "alpine", c.job)
			round := next(t, s, decided(t, s))
			alpine := target(t, round)
			if alpine.Step.Action != runs.Nothing || alpine.Step.Reason != v1alpha1.ReasonConnecting || alpine.Needs == nil || alpine.Needs.Size != c.needs {
				t.Errorf("%+v, needs %+v", alpine.Step, alpine.Needs)
			}
			if diff := cmp.Diff([]string{"alpine"}, round.Line.Notify); diff != "" || round.After != plan.DefaultIntervals().Failed {
				t.Errorf("after %s, notified: %s", round.After, diff)
			}
		})
	}
}
