package eviction_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/runs"
)

func TestPatienceOf(t *testing.T) {
	timeout := &metav1.Duration{Duration: 90 * time.Second}
	cases := map[string]struct {
		spec v1alpha1.PlacementSpec
		want runs.Patience
	}{
		"nothing is said":      {v1alpha1.PlacementSpec{}, runs.Patience{}},
		"pendingTimeout":       {v1alpha1.PlacementSpec{PendingTimeout: timeout}, runs.Patience{Pending: 90 * time.Second}},
		"failover":             {v1alpha1.PlacementSpec{Failover: &v1alpha1.Failover{AfterSeconds: 40, Fencing: v1alpha1.FenceProvenGone}}, runs.Patience{Lost: 40 * time.Second}},
		"failover, by default": {v1alpha1.PlacementSpec{Failover: &v1alpha1.Failover{AfterSeconds: 40}}, runs.Patience{Lost: 40 * time.Second}},
		"failover by people":   {v1alpha1.PlacementSpec{Failover: &v1alpha1.Failover{AfterSeconds: 40, Fencing: v1alpha1.FenceManual}}, runs.Patience{}},
		"both": {v1alpha1.PlacementSpec{PendingTimeout: timeout, Failover: &v1alpha1.Failover{AfterSeconds: 40}},
			runs.Patience{Pending: 90 * time.Second, Lost: 40 * time.Second}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { equal(t, c.want, eviction.PatienceOf(&c.spec)) })
	}
}

// both is the patience with which a run is evicted 10 s after it was begun, or 20 s after it was lost.
var both = runs.Patience{Pending: 10 * time.Second, Lost: 20 * time.Second}

func TestOverdue(t *testing.T) {
	says := func(j *runs.Job) *eviction.Proof { return &eviction.Proof{Job: j} }
	running, starting := run("a", v1alpha1.RunRunning), run("a", v1alpha1.RunStarting)
	lost := run("a", v1alpha1.RunRunning, begun(3), pending(5))
	held := func(j *runs.Job) { j.Suspended = true }
	notStarted := func(why string) eviction.Verdict {
		return eviction.Verdict{Evict: &eviction.Eviction{Stop: v1alpha1.StopNotStarted, Message: "withdrawn: " + why, Fact: why}}
	}
	const noPods, onePod = "0 of 2 pods ran after 10s (pendingTimeout)", "1 of 2 pods ran after 10s (pendingTimeout)"
	const refused, noPodAnyMore = "its Job could not be created in 10s (pendingTimeout)", "it had begun, and for 20s no pod of it ran (failover)"
	wait := func(seconds int) eviction.Verdict {
		return eviction.Verdict{After: time.Duration(seconds) * time.Second}
	}
	ask, none := eviction.Verdict{AskMember: true}, eviction.Verdict{}
	cases := map[string]struct {
		in   eviction.Pending
		now  int
		want eviction.Verdict
	}{
		"in time":                                  {eviction.Pending{Run: &running, Job: job("a", 0)}, 4, wait(6)},
		"in time, whatever the member would say":   {eviction.Pending{Run: &running, Job: job("a", 0), Proof: says(job("a", 0))}, 4, wait(6)},
		"the member is to confirm it":              {eviction.Pending{Run: &running, Job: job("a", 0)}, 10, ask},
		"the member confirms it":                   {eviction.Pending{Run: &running, Job: job("a", 0), Proof: says(job("a", 0))}, 10, notStarted(noPods)},
		"the member knows of more pods, not all":   {eviction.Pending{Run: &running, Job: job("a", 0), Proof: says(job("a", 1))}, 10, notStarted(onePod)},
		"the member says that it runs":             {eviction.Pending{Run: &running, Job: job("a", 0), Proof: says(job("a", 2))}, 10, none},
		"the member says that it has begun":        {eviction.Pending{Run: &running, Job: job("a", 0), Quorum: 1, Proof: says(job("a", 1))}, 10, none},
		"the member says that it has ended":        {eviction.Pending{Run: &running, Job: job("a", 0), Proof: says(job("a", 0, func(j *runs.Job) { j.Finished = true }))}, 10, none},
		"the member deletes it":                    {eviction.Pending{Run: &running, Job: job("a", 0), Proof: says(job("a", 0, func(j *runs.Job) { j.Deleting = true }))}, 10, none},
		"the member has another run's Job":         {eviction.Pending{Run: &running, Job: job("a", 0), Proof: says(job("b", 0))}, 10, none},
		"the member has no Job any more":           {eviction.Pending{Run: &running, Job: job("a", 0), Proof: says(nil)}, 10, none},
		"the member resumed it just now":           {eviction.Pending{Run: &running, Job: job("a", 0), Proof: says(job("a", 0, func(j *runs.Job) { j.StartTime = since(9) }))}, 10, none},
		"the member resumed it before":             {eviction.Pending{Run: &running, Job: job("a", 0), Proof: says(job("a", 0, func(j *runs.Job) { j.StartTime = since(2) }))}, 12, notStarted(noPods)},
		"the member gives no answer":               {eviction.Pending{Run: &running, Job: job("a", 0), Proof: &eviction.Proof{Failed: true}}, 99, none},
		"the member gives no answer, with a Job":   {eviction.Pending{Run: &running, Job: job("a", 0), Proof: &eviction.Proof{Job: job("a", 0), Failed: true}}, 99, none},
		"all run, as the cache shows":              {eviction.Pending{Run: &running, Job: job("a", 2)}, 99, none},
		"all run, and the member would deny it":    {eviction.Pending{Run: &running, Job: job("a", 2), Proof: says(job("a", 0))}, 99, none},
		"no Job, as the cache shows":               {eviction.Pending{Run: &running}, 99, none},
		"a queue on the member has not released":   {eviction.Pending{Run: &running, Job: job("a", 0, held), Queued: true, Proof: says(job("a", 0, held))}, 10, notStarted(noPods)},
		"its Job is refused, in time":              {eviction.Pending{Run: &starting}, 9, wait(1)},
		"its Job is refused":                       {eviction.Pending{Run: &starting}, 10, ask},
		"its Job is refused, the member confirms":  {eviction.Pending{Run: &starting, Proof: says(nil)}, 10, notStarted(refused)},
		"its Job is refused, with a reason":        {eviction.Pending{Run: &starting, Proof: says(nil), Refusal: "exceeded quota"}, 10, notStarted(refused + ": exceeded quota")},
		"a refusal of something, and a Job":        {eviction.Pending{Run: &running, Job: job("a", 0), Proof: says(job("a", 0)), Refusal: "exceeded quota"}, 10, notStarted(noPods)},
		"its Job is refused, but was made":         {eviction.Pending{Run: &starting, Proof: says(job("a", 0))}, 10, none},
		"its Job is refused, no answer":            {eviction.Pending{Run: &starting, Proof: &eviction.Proof{Failed: true}}, 10, none},
		"its Job is refused, a queue may free it":  {eviction.Pending{Run: &starting, Queued: true}, 10, none},
		"the same, and the member was asked":       {eviction.Pending{Run: &starting, Queued: true, Proof: says(nil)}, 99, none},
		"the same, in time":                        {eviction.Pending{Run: &starting, Queued: true}, 4, none},
		"lost, in time":                            {eviction.Pending{Run: &lost, Job: job("a", 0)}, 24, wait(1)},
		"lost":                                     {eviction.Pending{Run: &lost, Job: job("a", 0)}, 25, ask},
		"lost, and the member sees one pod":        {eviction.Pending{Run: &lost, Job: job("a", 0), Proof: says(job("a", 1))}, 25, none},
		"lost, and the member gives no answer":     {eviction.Pending{Run: &lost, Job: job("a", 0), Proof: &eviction.Proof{Failed: true}}, 25, none},
		"lost, and it does not return in time":     {eviction.Pending{Run: &lost, Job: job("a", 0), Connected: at(20)}, 30, wait(10)},
		"back just now, with little patience":      {eviction.Pending{Run: &running, Job: job("a", 0), Connected: at(100)}, 101, wait(9)},
		"back just now, whatever it would say":     {eviction.Pending{Run: &running, Job: job("a", 0), Connected: at(100), Proof: says(job("a", 0))}, 109, wait(1)},
		"back for as long as the patience":         {eviction.Pending{Run: &running, Job: job("a", 0), Connected: at(100)}, 110, ask},
		"back just now, and a Job is refused":      {eviction.Pending{Run: &starting, Connected: at(100)}, 105, wait(5)},
		"back before the patience was at its end":  {eviction.Pending{Run: &running, Job: job("a", 0), Connected: at(-5)}, 4, wait(6)},
		"back just now, with much patience":        {eviction.Pending{Run: &running, Job: job("a", 0), Connected: at(1000), Patience: runs.Patience{Pending: 10 * time.Minute}}, 1001, wait(59)},
		"back for a minute, with much patience":    {eviction.Pending{Run: &running, Job: job("a", 0), Connected: at(1000), Patience: runs.Patience{Pending: 10 * time.Minute}}, 1060, ask},
		"patience with what does not start at all": {eviction.Pending{Run: &running, Job: job("a", 0), Patience: runs.Patience{Lost: time.Second}}, 999, none},
		"patience with what was lost":              {eviction.Pending{Run: &lost, Job: job("a", 0), Patience: runs.Patience{Pending: time.Second}}, 999, none},
		"lost, and the member confirms it": {eviction.Pending{Run: &lost, Job: job("a", 0), Proof: says(job("a", 0))}, 25, eviction.Verdict{
			Evict: &eviction.Eviction{Stop: v1alpha1.StopLost, Message: "lost with its nodes: " + noPodAnyMore, Fact: noPodAnyMore},
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.in.Patience == (runs.Patience{}) {
				c.in.Patience = both
			}
			equal(t, c.want, eviction.Overdue(c.in, at(c.now)))
		})
	}
}

// world is all there is in a small world: a run of a few states and times, its Job in all states, as the cache and as
// the member shows it, and a few times.
type world struct {
	runs         []v1alpha1.Run
	jobs         []*runs.Job
	proofs       []*eviction.Proof
	patiences    []runs.Patience
	connected    []time.Time
	times        []time.Time
	trueOrNot    []bool
	combinations int
}

func newWorld() *world {
	w := &world{
		patiences: []runs.Patience{{}, {Pending: 10 * time.Second}, {Lost: 20 * time.Second}, {Pending: 10 * time.Second, Lost: 90 * time.Second}},
		connected: []time.Time{{}, at(8), at(60)},
		times:     []time.Time{at(1), at(9), at(10), at(18), at(25), at(69), at(70), at(200)},
		trueOrNot: []bool{false, true},
		proofs:    []*eviction.Proof{nil, {Failed: true}},
	}
	for _, state := range []v1alpha1.RunState{v1alpha1.RunStarting, v1alpha1.RunRunning, v1alpha1.RunStopping, v1alpha1.RunSucceeded} {
		w.runs = append(w.runs, run("a", state), run("a", state, begun(3)), run("a", state, pending(5)), run("a", state, begun(3), pending(5)), run("a", state, begun(2), paused(4)), run("a", state, begun(2), paused(4), pending(4)))
	}
	w.runs = append(w.runs, run("a", v1alpha1.RunRunning, func(r *v1alpha1.Run) { r.StartTime = nil }))
	w.jobs = []*runs.Job{
		nil, job("a", 0), job("a", 1), job("a", 2), job("b", 0),
		job("a", 0, func(j *runs.Job) { j.Suspended = true }),
		job("a", 0, func(j *runs.Job) { j.Suspended, j.SuspendedByUs = true, true }),
		job("a", 0, func(j *runs.Job) { j.Finished = true }),
		job("a", 0, func(j *runs.Job) { j.Deleting = true }),
		job("a", 0, func(j *runs.Job) { j.StartTime = since(15) }),
	}
	for _, j := range w.jobs {
		w.proofs = append(w.proofs, &eviction.Proof{Job: j})
	}
	return w
}

// each calls f with every combination.
func (w *world) each(f func(in eviction.Pending, now time.Time)) {
	for r := range w.runs {
		for _, j := range w.jobs {
			for _, proof := range w.proofs {
				for _, patience := range w.patiences {
					for _, connected := range w.connected {
						for _, queued := range w.trueOrNot {
							for _, now := range w.times {
								f(eviction.Pending{
									Run: &w.runs[r], Job: j, Proof: proof, Patience: patience, Connected: connected, Queued: queued, Refusal: "no",
								}, now)
								w.combinations++
							}
						}
					}
				}
			}
		}
	}
}

// In every small world: what may be evicted, when the member is asked, and how long is waited.
func TestOverdueInAllSmallWorlds(t *testing.T) {
	w := newWorld()
	evicted, asked, waited := 0, 0, 0
	w.each(func(in eviction.Pending, now time.Time) {
		got := eviction.Overdue(in, now)
		var wrong string
		switch {
		case got.Evict != nil:
			evicted++
			wrong = wrongEviction(in, got, now)
		case got.AskMember:
			asked++
			wrong = wrongQuestion(in, got, now)
		case got.After != 0:
			waited++
			wrong = wrongWait(in, got, now)
		}
		if wrong != "" {
			t.Fatalf("%s: %+v at %s, with %+v, %+v, %+v", wrong, got, now, in, in.Job, in.Proof)
		}
	})
	if evicted == 0 || asked == 0 || waited == 0 {
		t.Errorf("evicted %d, asked %d, waited %d", evicted, asked, waited)
	}
	t.Logf("%d worlds: evicted %d, asked %d, waited %d", w.combinations, evicted, asked, waited)
}

// wrongEviction says what is wrong with an eviction; nothing, if it is right.
func wrongEviction(in eviction.Pending, got eviction.Verdict, now time.Time) string {
	alone := in
	alone.Proof = nil
	patience := in.Patience.Pending
	if got.Evict.Stop == v1alpha1.StopLost {
		patience = in.Patience.Lost
	}
	switch {
	case got.AskMember || got.After != 0:
		return "more than one verdict"
	case in.Proof == nil || in.Proof.Failed:
		return "evicted without proof"
	case in.Run.State != v1alpha1.RunStarting && in.Run.State != v1alpha1.RunRunning:
		return "evicted though it is at its end"
	case (in.Proof.Job == nil) != (in.Run.State == v1alpha1.RunStarting):
		return "evicted though the member shows something else"
	case in.Proof.Job == nil && in.Queued:
		return "evicted though a queue may release its Job"
	case in.Proof.Job != nil && !idle(in.Run, in.Proof.Job):
		return "evicted though the member says that it runs"
	case !reflect.DeepEqual(eviction.Overdue(alone, now), eviction.Verdict{AskMember: true}):
		return "evicted though the cache shows nothing"
	case got.Evict.Stop != v1alpha1.StopLost && got.Evict.Stop != v1alpha1.StopNotStarted:
		return "evicted for another reason"
	case (got.Evict.Stop == v1alpha1.StopLost) != (in.Run.RunningTime != nil && in.Run.SuspendedTime == nil && in.Run.State == v1alpha1.RunRunning):
		return "evicted for the wrong reason"
	case patience == 0:
		return "evicted without end of patience"
	case now.Before(in.Run.StartTime.Add(patience)) || in.Proof.Job != nil && in.Proof.Job.StartTime != nil && got.Evict.Stop == v1alpha1.StopNotStarted && now.Before(in.Proof.Job.StartTime.Add(patience)):
		return "evicted too early"
	case !in.Connected.IsZero() && now.Before(in.Connected.Add(min(patience, time.Minute))):
		return "evicted too soon after its member has come back"
	case (in.Proof.Job == nil) != strings.HasSuffix(got.Evict.Message, ": no") || !strings.HasSuffix(got.Evict.Message, got.Evict.Fact):
		return "evicted without telling why"
	default:
		return ""
	}
}

// idle says that a member shows a live run that does not get going.
func idle(run *v1alpha1.Run, j *runs.Job) bool {
	if j.RunID != run.ID || j.Finished || j.Deleting || j.SuspendedByUs {
		return false
	}
	return j.Pods.Ready == 0 || (run.RunningTime == nil || run.SuspendedTime != nil) && j.Pods.Ready < j.Size
}

// wrongQuestion says what is wrong with asking the member; nothing, if it is right.
func wrongQuestion(in eviction.Pending, got eviction.Verdict, now time.Time) string {
	confirmed := in
	confirmed.Proof = &eviction.Proof{Job: in.Job}
	switch {
	case got.Evict != nil || got.After != 0:
		return "more than one verdict"
	case in.Proof != nil:
		return "asked again"
	case eviction.Overdue(confirmed, now).Evict == nil:
		return "asked in vain: nothing is evicted though the member confirms what the cache shows"
	default:
		return ""
	}
}

// wrongWait says what is wrong with waiting; nothing, if it is right.
func wrongWait(in eviction.Pending, got eviction.Verdict, now time.Time) string {
	in.Proof = nil
	end := now.Add(got.After)
	switch {
	case got.Evict != nil || got.AskMember:
		return "more than one verdict"
	case got.After < 0:
		return "waited for the past"
	case eviction.Overdue(in, now) != got:
		return "waited since the member was asked"
	case eviction.Overdue(in, end.Add(-1)) != eviction.Verdict{After: 1}:
		return "waited too short"
	case eviction.Overdue(in, end) != eviction.Verdict{AskMember: true}:
		return fmt.Sprint("waited too long, until ", end)
	default:
		return ""
	}
}
