package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/render"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
)

const (
	maxRounds = 8
	maxReads  = 20
)

// effect is something that a reconciliation does outside of itself: it sends a request, or, where that is nil, writes
// the status.
type effect struct{ request *request }

// verdict is what becomes of an effect.
type verdict int

const (
	proceed verdict = iota
	stop            // the hub crashes before it
	delay           // the request is on its way when the hub gives it up
)

var (
	errStopped = errors.New("stopped")
	errBusy    = errors.New("the plan asks for more all the time")
)

// reconciliation does what controllers/fleetminicluster does around the plan, on a world.
type reconciliation struct {
	w     *world
	index int
	// before is asked before each effect.
	before func(*reconciliation, effect) verdict
	// inspect is called with all that is about to be decided, nil if nobody wants to know.
	inspect func(*plan.Snapshot, *plan.Decision, runs.Ledger)

	queue    *queue.Queue
	snapshot *plan.Snapshot
	decision *plan.Decision
	round    plan.Round
	events   []plan.Event
	again    time.Duration
	failed   bool
	// restored says that the queue was made of what is stored.
	restored bool

	writes     int
	proofs     map[string]bool // members that were asked for proof
	violations []string
}

// reconcile reconciles an object. The world is that afterwards.
func (w *world) reconcile(index int, before func(*reconciliation, effect) verdict) *reconciliation {
	r := &reconciliation{w: w, index: index, before: before, proofs: map[string]bool{}}
	r.run()
	return r
}

func (r *reconciliation) run() {
	r.restore()
	r.takeSnapshot()
	err := r.decide()
	if err == nil {
		err = r.execute()
	}
	if err == nil {
		err = r.writeStatus()
	}
	if err == nil {
		r.checkReservations()
		reservations, entry := r.round.Reservations(r.snapshot, r.decision)
		r.queue.Update(r.key(), reservations, entry)
		r.requeueAfter(r.decision.WaitInterval(r.snapshot))
		r.checkRoom()
	}
	if r.failed {
		r.requeueAfter(plan.Soon)
	}
	if errors.Is(err, errBusy) {
		r.violate("%v", err)
	}
	r.w.hub = r.memory()
}

func (r *reconciliation) object() *v1alpha1.FleetMiniCluster { return r.w.objects[r.index] }
func (r *reconciliation) key() queue.Key                     { return keyOf(r.object()) }
func (r *reconciliation) requeueAfter(d time.Duration)       { r.again = plan.After(r.again, d) }
func (r *reconciliation) violate(format string, args ...any) {
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
}

// restore fills the queue with what the hub remembers, or, after a crash, with what is stored.
func (r *reconciliation) restore() {
	r.queue = queue.New()
	since := r.w.now
	load := func() ([]queue.Restored, error) {
		var out []queue.Restored
		for _, f := range r.w.objects {
			out = append(out, plan.Restore(f, f.Spec.Placement, nil))
		}
		return out, nil
	}
	r.restored = len(r.object().Status.Runs) > 0
	if h := r.w.hub; h != nil {
		since, r.restored = h.since, h.restored
		load = func() ([]queue.Restored, error) {
			var out []queue.Restored
			for _, f := range r.w.objects {
				key := keyOf(f)
				out = append(out, queue.Restored{Key: key, Reservations: h.reserved[key], Entry: h.pending[key]})
			}
			return out, nil
		}
	}
	if err := r.queue.Restore(since, load); err != nil {
		r.violate("%v", err)
	}
}

// memory is what the hub remembers now.
func (r *reconciliation) memory() *memory {
	h := &memory{since: r.queue.Since(), restored: r.restored, reserved: map[queue.Key]map[string]queue.Reservation{}, pending: map[queue.Key]*queue.Entry{}}
	for _, f := range r.w.objects {
		h.reserved[keyOf(f)], h.pending[keyOf(f)] = r.queue.Reservations(keyOf(f)), r.queue.Pending(keyOf(f))
	}
	return h
}

func (r *reconciliation) takeSnapshot() {
	f := r.object().DeepCopy()
	s := &plan.Snapshot{
		Object: f, Placement: f.Spec.Placement, Now: r.w.now, Facts: map[string]plan.Facts{},
		Queue: plan.QueueState{Since: r.queue.Since(), Reserved: r.queue.Reservations(r.key()), Pending: r.queue.Pending(r.key()), Runs: r.queue.Runs()},
	}
	for _, m := range r.w.members {
		if m.registered == nil {
			continue
		}
		s.Members = append(s.Members, plan.Member{Cluster: m.registered, Connection: m.connection()})
		if m.link != connected && slices.Contains(r.w.unasked, m.name) {
			s.Unasked = append(s.Unasked, m.name)
		}
		if m.link == connected && m.cached[f.Name] != nil {
			s.Facts[m.name] = plan.Facts{Cached: m.cached[f.Name].observation(f.Name)}
		}
	}
	r.snapshot = s
}

func (r *reconciliation) decide() error {
	var d *plan.Decision
	for range maxReads {
		if r.inspect != nil {
			r.inspect(r.snapshot, nil, nil)
		}
		var reads plan.Reads
		d, reads = plan.Decide(r.snapshot, d)
		if reads.Any() {
			r.read(reads, d.Ledger)
			continue
		}
		if !r.reserve(d.Reserve) {
			continue
		}
		r.decision, r.events = d, d.Events
		r.requeueAfter(d.After)
		return nil
	}
	return errBusy
}

func (r *reconciliation) reserve(requests []queue.Request) bool {
	ok := r.queue.Reserve(r.key(), requests)
	for _, q := range requests {
		r.learn(q.View.Member, func(f *plan.Facts) {
			if !ok {
				f.Room, f.RoomBeside = nil, nil
			}
		})
		if ok {
			r.snapshot.Queue.Reserved[q.View.Member] = q.Reservation
		}
	}
	return ok
}

func (r *reconciliation) learn(member string, change func(*plan.Facts)) {
	fact(r.snapshot, member, change)
}

func (r *reconciliation) read(reads plan.Reads, ledger runs.Ledger) {
	if reads.Grants {
		r.snapshot.Confirmed = r.snapshot.Grants != nil
		r.snapshot.Grants = &grant.Set{}
	}
	if reads.HadRuns {
		had := r.w.hadRuns[r.object().Name]
		r.snapshot.HadRuns = &had
	}
	for name, facts := range reads.Members {
		for _, fact := range facts {
			r.learn(name, func(f *plan.Facts) { r.readFact(name, fact, ledger, f) })
		}
	}
}

func (r *reconciliation) readFact(name string, fact plan.Fact, ledger runs.Ledger, f *plan.Facts) {
	m, object := r.w.member(name), r.object().Name
	room := fact == plan.ReadRoom || fact == plan.ReadRoomBeside
	if m.link != connected && !room {
		r.violate("%s of %s is read, which is not connected", fact, name)
		return
	}
	switch fact {
	case plan.ReadCached:
		f.Cached = m.cached[object].observation(object)
	case plan.ReadProof:
		f.Proof = &eviction.Proof{Job: m.jobs[object].seen()}
		r.proofs[name] = true
	case plan.ReadRecord:
		f.Record = &plan.Record{Ended: m.record[object]}
	case plan.ReadObserved:
		f.Observed = m.cached[object].observation(object)
	case plan.ReadConfirmed:
		job := m.cached[object]
		if job == nil {
			job = m.jobs[object]
		}
		f.Observed = job.observation(object)
		if job == nil && m.stray[object] == ledger.Last(name).ID {
			f.Observed.Pod = "pod"
		}
	case plan.ReadExit:
		f.Exit = &plan.Exit{}
	case plan.ReadNamespace:
		f.NamespaceUse = &plan.NamespaceUse{}
	case plan.ReadReferences:
		f.References = &plan.References{}
	case plan.ReadRoom:
		var own []string
		for i := range ledger {
			if ledger[i].Cluster == name {
				own = append(own, ledger[i].ID)
			}
		}
		f.Room = r.queue.View(name, m.room(own...), r.key())
	case plan.ReadRoomBeside:
		f.RoomBeside = r.queue.View(name, m.room(), r.key())
	}
}

func (r *reconciliation) execute() error {
	r.round = plan.Round{Targets: plan.Targets(r.snapshot, r.decision, r.decision.Ledger), Ledger: r.decision.Ledger}
	if r.decision.Problem != nil && r.decision.Placement == nil {
		return nil
	}
	same := func(a, b v1alpha1.Run) bool { return a.ID == b.ID && a.State == b.State }
	unwritten := !slices.EqualFunc(r.decision.Ledger, r.snapshot.Object.Status.Runs, same)
	for range maxRounds {
		if err := r.next(); err != nil {
			return err
		}
		if len(r.round.Changed) > 0 {
			unwritten = true
			continue
		}
		due := r.round.Due()
		if len(due) == 0 {
			break
		}
		if unwritten {
			if err := r.writeStatus(); err != nil {
				return err
			}
			unwritten = false
		}
		for _, t := range due {
			if err := r.perform(t); err != nil {
				return err
			}
		}
	}
	if err := r.upkeep(); err != nil {
		return err
	}
	r.round.Finish(r.snapshot, r.decision)
	r.events = append(r.events, r.round.Events...)
	r.round.Events = nil
	r.requeueAfter(r.round.After)
	return nil
}

func (r *reconciliation) next() error {
	for range maxReads {
		if r.inspect != nil {
			r.inspect(r.snapshot, r.decision, r.round.Ledger)
		}
		round, reads := plan.Next(r.snapshot, r.decision, r.round.Ledger)
		if reads.Any() {
			r.read(reads, r.round.Ledger)
			continue
		}
		if len(round.Reserve) > 0 {
			if r.reserve(round.Reserve) {
				for i := range round.Targets {
					if t := &round.Targets[i]; t.Reserve != nil && t.Reserve.Reservation.Run != "" {
						r.learn(t.Name, func(f *plan.Facts) { f.Admitted = true })
					}
				}
			}
			continue
		}
		r.adopt(round)
		return nil
	}
	return errBusy
}

func (r *reconciliation) adopt(round plan.Round) {
	before := r.round.Ledger
	for i := range round.Ledger {
		was := before.Find(round.Ledger[i].ID)
		changed := was == nil || was.State != round.Ledger[i].State
		if changed && !slices.Contains(round.Changed, round.Ledger[i].Cluster) {
			r.violate("the line of run %s is another, and that of %s is not said to be", round.Ledger[i].ID, round.Ledger[i].Cluster)
		}
	}
	r.round = round
	r.events = append(r.events, round.Events...)
	r.round.Events = nil
	r.requeueAfter(round.After)
	for _, name := range round.Done {
		r.learn(name, func(f *plan.Facts) { f.Done = true })
	}
	for _, name := range round.Changed {
		last := round.Ledger.Last(name)
		begun := last.State == v1alpha1.RunStarting && before.Find(last.ID) == nil
		r.learn(name, func(f *plan.Facts) {
			f.Begun = f.Begun || begun
			if !f.Done {
				f.Observed, f.Exit = nil, nil
			}
		})
	}
}

func (r *reconciliation) writeStatus() error {
	f := r.snapshot.Object
	status := r.round.Status(r.snapshot, r.decision, nil)
	if equality.Semantic.DeepEqual(status, f.Status) {
		return nil
	}
	r.checkWrite(&f.Status, &status)
	if r.before(r, effect{}) == stop {
		return errStopped
	}
	r.writes++
	f.Status = status
	r.w.objects[r.index] = f.DeepCopy()
	r.events = nil
	return nil
}

// send sends a request to a member.
func (r *reconciliation) send(q *request) (removed bool, err error) {
	m := r.w.member(q.member)
	if m.link != connected {
		r.violate("%s is sent to %s, which is not connected", q.action, q.member)
	}
	q.cluster, q.object = m.uid, r.object().Name
	if q.action == runs.Create {
		r.w.hadRuns[q.object] = true
	}
	r.checkRequest(q)
	switch r.before(r, effect{q}) {
	case stop:
		return false, errStopped
	case delay:
		r.w.inFlight = q
		return false, errUnanswered
	default:
		return r.w.land(q)
	}
}

// perform does what is due on a member.
func (r *reconciliation) perform(t *plan.Target) error {
	step := t.Step
	started, removed, err := r.performOn(t)
	if errors.Is(err, errStopped) {
		return err
	}
	r.learn(t.Name, func(f *plan.Facts) {
		f.Done, f.Step, f.Removed = true, &step, removed
		switch {
		case errors.Is(err, errPodLeft):
			f.Step = &runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonDeleting, Message: err.Error()}
		case errors.Is(err, errUnanswered):
			f.Unreachable = &rollup.Problem{Reason: v1alpha1.ReasonMemberUnreachable, Message: err.Error()}
		case err != nil:
			f.Failed = &rollup.Problem{Reason: v1alpha1.ReasonApplyFailed, Message: err.Error()}
		case started != nil:
			f.Observed = started.observation(r.object().Name)
			f.Step = &runs.Step{Action: runs.Nothing}
		}
	})
	if err != nil && !errors.Is(err, errPodLeft) {
		r.failed = true
		r.requeueAfter(plan.DefaultIntervals().Failed)
	}
	if errors.Is(err, errPodLeft) || step.Action == runs.DeleteJob || step.Action == runs.Cleanup {
		r.requeueAfter(plan.DefaultIntervals().Deleting)
	}
	return nil
}

var errPodLeft = errors.New("a pod of an earlier run is still on the member")

func (r *reconciliation) performOn(t *plan.Target) (started *modelJob, removed bool, err error) {
	m, object := r.w.member(t.Name), r.object().Name
	if t.Step.Action == runs.DeleteJob || t.Step.Action == runs.Cleanup {
		r.putOnRecord(t)
	}
	suspend := r.decision.Wanted.Suspend
	switch t.Step.Action {
	case runs.Create:
		run := r.round.Ledger.Last(t.Name)
		if m.stray[object] != "" && m.stray[object] != run.ID {
			return nil, false, errPodLeft
		}
		job, err := r.rendered(t, run)
		if err != nil {
			return nil, false, err
		}
		if _, err := r.send(&request{action: runs.Create, member: t.Name, create: job}); err != nil {
			return nil, false, err
		}
		if started = m.jobs[object]; suspend || !started.Unreleased {
			return started, false, nil
		}
		_, err = r.send(&request{action: runs.Adjust, member: t.Name, uid: started.UID, size: started.Size})
		return m.jobs[object], false, err
	case runs.DeleteJob:
		_, err = r.send(&request{action: runs.DeleteJob, member: t.Name, uid: t.Observed.Job.UID})
	case runs.Adjust:
		if t.Observed.Job.Unreleased && m.stray[object] == t.Observed.Job.RunID {
			return nil, false, errPodLeft
		}
		_, err = r.send(&request{action: runs.Adjust, member: t.Name, uid: t.Observed.Job.UID, size: t.Size, suspend: suspend})
	case runs.Cleanup:
		removed, err = r.send(&request{action: runs.Cleanup, member: t.Name, over: r.over()})
	}
	return nil, removed, err
}

func (r *reconciliation) over() []string {
	var ids []string
	for _, run := range r.round.Ledger {
		if run.State.Ended() {
			ids = append(ids, run.ID)
		}
	}
	return ids
}

// templates are Jobs as they are rendered, by digest and size, since that takes most of the time of a test.
var templates sync.Map

func (r *reconciliation) rendered(t *plan.Target, run *v1alpha1.Run) (*modelJob, error) {
	spec, err := r.decision.Spec(t.Name, runs.Create, r.snapshot.Object)
	if err != nil {
		return nil, err
	}
	key := fmt.Sprint(run.Digest, spec.Size)
	template, known := templates.Load(key)
	if !known {
		job, _, err := render.Pods(render.Input{Name: r.object().Name, Namespace: "hpc", Spec: *spec})
		if err != nil {
			return nil, err
		}
		template, _ = templates.LoadOrStore(key, job)
	}
	return &modelJob{template: template.(*batchv1.Job), owner: r.object().UID, Job: runs.Job{
		RunID: run.ID, Digest: run.Digest, Said: run.Digest, RerunAt: run.RerunAt, Size: spec.Size, Suspended: true, SuspendedByUs: true, Unreleased: true,
	}}, nil
}

// putOnRecord has a member remember how the latest run there has ended, or that somebody is deleting its Job.
func (r *reconciliation) putOnRecord(t *plan.Target) {
	m, object := r.w.member(t.Name), r.object().Name
	if run := r.round.ForRecord(r.snapshot, t); run != nil && !runs.OnRecord(m.record[object], r.round.Ledger, run) {
		m.record[object] = runs.Record(m.record[object], r.snapshot.Object.Status.Succeeded, r.round.Ledger, run)
	}
}

// upkeep removes what is beside a run that has ended and is not to be kept.
func (r *reconciliation) upkeep() error {
	for i := range r.round.Targets {
		t := &r.round.Targets[i]
		if t.Reachable() {
			r.putOnRecord(t)
		}
		if !t.Reachable() || !r.round.CleansUp(r.snapshot, r.decision, t) || !r.w.member(t.Name).prepared[r.object().Name] {
			continue
		}
		removed, err := r.send(&request{action: runs.Cleanup, member: t.Name, over: r.over()})
		if errors.Is(err, errStopped) {
			return err
		}
		if err != nil {
			r.learn(t.Name, func(f *plan.Facts) { f.Done = true })
			r.requeueAfter(plan.DefaultIntervals().Failed)
		}
		if !removed {
			r.requeueAfter(plan.DefaultIntervals().Deleting)
		}
	}
	return nil
}
