package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

const (
	// maxRounds bounds the rounds of one pass; a run that ends and the next that begins take four.
	maxRounds = 8
	// settle is how long after the start of a run the cache is given to show what was just created,
	// before its absence counts as somebody's deletion.
	settle = 5 * time.Second
	// awayInterval is how often a deletion looks for a member that is away; its return is news, too.
	awayInterval = 30 * time.Second
	// failedInterval is after how long something that has failed is tried again, if nothing sooner does it. A
	// name in use by somebody else is looked at as often: such objects are not watched.
	failedInterval = 10 * time.Second
	// goneInterval is how often it is looked whether something that is being deleted is gone.
	goneInterval = 2 * time.Second
)

// act takes steps until there is nothing more to do now. A line of the ledger is written before anything
// that it calls for is done, and before anything is undone that it remembers.
func (p *pass) act(ctx context.Context) error {
	if p.problem != nil && p.decision == nil {
		return nil
	}
	var errs []error
	unwritten, checked := false, false
	for range maxRounds {
		p.each(func(s *site) { p.look(ctx, s) })
		if p.record() {
			unwritten = true
			continue
		}
		due := p.due()
		if len(due) == 0 {
			break
		}
		if unwritten {
			if err := p.write(ctx); err != nil {
				return err
			}
			unwritten, checked = false, true
		}
		if !checked {
			if err := p.fresh(ctx); err != nil {
				return err
			}
			checked = true
		}
		errs = append(errs, p.perform(ctx, due)...)
	}
	p.each(func(s *site) {
		p.repair(ctx, s)
		p.tendServices(ctx, s)
		p.tidy(ctx, s)
		p.askWhy(ctx, s)
	})
	p.each(func(s *site) { p.followReferences(ctx, s) })
	for _, s := range p.sites {
		if s.lost != nil {
			p.lose(s)
		} else {
			p.track(s)
		}
		p.lookAgain(s.again)
	}
	return errors.Join(errs...)
}

// each calls f for every site that can be reached, all at once, so that a slow member delays no other.
func (p *pass) each(f func(*site)) {
	var wg sync.WaitGroup
	for _, s := range p.sites {
		if s.member != nil && s.lost == nil {
			wg.Go(func() { f(s) })
		}
	}
	wg.Wait()
}

// look observes a member and asks the rules what comes next.
func (p *pass) look(ctx context.Context, s *site) {
	if s.still {
		return
	}
	last := p.ledger.Last(s.name)
	confirm := last != nil && !last.State.Ended() && !s.begun
	job, taken, err := p.observeJob(ctx, s, confirm)
	s.pod = ""
	if err == nil && job == nil && confirm {
		s.pod, err = s.member.PodOfRun(ctx, p.key(s), last.ID)
	}
	if err != nil {
		p.fail(s, err)
		return
	}
	s.rawJob, s.job = job, observe(job)
	p.learnExit(ctx, s, last)
	wanted := p.wanted
	wanted.Chosen, wanted.Cleanup = s.chosen, p.tidies(s, last)
	wanted.Leave, wanted.LeaveWhy, wanted.NoFailover = p.leaves[s.name].stop, p.leaves[s.name].why, p.noFailover
	if p.problem != nil {
		// Nothing is started, and nothing that is live is touched, on the strength of a spec that is wrong.
		wanted.Hold, wanted.OnChange = p.problem.Message, v1alpha1.AfterCompletion
	}
	s.step = p.permitted(runs.Next(runs.Input{Wanted: wanted, Last: last, Ended: p.ledger.Ended, Job: s.job, Pod: sanitize.Text(s.pod, 253), Quorum: p.quorum(), Now: p.r.Now()}))
	s.lookAgain(s.step.After)
	if taken != nil && s.step.Action != runs.Finish {
		p.fail(s, taken) // what it needs a Job of its own for has to wait
		return
	}
	if s.step.Action == runs.Begin {
		p.awaitReferences(ctx, s)
	}
	if !s.still {
		s.step = p.gate(s, s.step)
	}
	s.step = p.tellStay(s.name, s.step)
}

// observeJob finds the Job of a MiniCluster on a member. Where somebody else's Job has the name of a live run's, the
// member confirms that there is no other of that name, and taken says whose it is: the run can end, if it is to.
func (p *pass) observeJob(ctx context.Context, s *site, confirm bool) (job *batchv1.Job, taken *clusters.Conflict, err error) {
	job, err = s.member.Job(ctx, p.key(s), p.origin, confirm)
	if errors.As(err, &taken) {
		// It may be in the way of a FleetMiniCluster that has taken the name of one that is gone.
		if late := p.r.dropLate(ctx, s.member, client.ObjectKeyFromObject(p.fmc)); late != nil {
			return nil, nil, late
		}
	}
	if !confirm || !errors.As(err, &taken) {
		return job, nil, err
	}
	if job, err = s.member.LiveJob(ctx, p.key(s), p.origin); errors.As(err, &taken) {
		return nil, taken, nil
	}
	return job, nil, err
}

// tellStay adds to a step that does nothing why a run stays that does not get going.
func (p *pass) tellStay(member string, step runs.Step) runs.Step {
	why := p.stays[member]
	switch {
	case why == "" || step.Action != runs.Nothing:
	case step.Message == "":
		step.Reason, step.Message = v1alpha1.ReasonRunPending, why
	case step.Reason == v1alpha1.ReasonSuspended:
		step.Message += "; " + why
	}
	return step
}

func (p *pass) key(s *site) types.NamespacedName { return p.keyOn(s.member) }

// keyOn is where the Job is on a member.
func (p *pass) keyOn(m *clusters.Member) types.NamespacedName {
	return types.NamespacedName{Namespace: m.TargetNamespace(p.fmc.Namespace), Name: p.fmc.Name}
}

// record takes the steps that are about the ledger alone, and says whether there were any.
func (p *pass) record() bool {
	changed := false
	for _, s := range p.sites {
		if s.lost != nil || s.still {
			continue
		}
		last := p.ledger.Last(s.name)
		switch s.step.Action {
		case runs.Begin:
			p.begin(s, last)
			changed = true
		case runs.Adopt:
			changed = p.adopt(s) || changed
		case runs.Finish:
			p.finish(s, last)
			changed = true
		case runs.Stop:
			stopping := *last
			stopping.State, stopping.Stop, stopping.Message = s.step.State, s.step.Stop, s.step.Message
			p.replaceLast(stopping)
			changed = true
		case runs.Keep:
			p.keep(s, last)
			changed = true
		default:
			// A Job that is there was created: the line says so from now on.
			if last != nil && last.State == v1alpha1.RunStarting && s.job != nil && s.job.RunID == last.ID {
				p.started(s, s.rawJob)
			}
		}
	}
	return changed
}

func (p *pass) now() *metav1.Time {
	t := metav1.NewTime(p.r.Now()).Rfc3339Copy()
	return &t
}

func (p *pass) begin(s *site, last *v1alpha1.Run) {
	s.begun = true
	p.ledger = p.ledger.Add(v1alpha1.Run{
		ID: runs.ID(string(p.fmc.UID), s.name, p.wanted, last), Cluster: s.name,
		Digest: p.wanted.Digest, RerunAt: p.wanted.RerunAt, Revision: p.fmc.Annotations[v1alpha1.AnnotationSourceRevision],
		State: v1alpha1.RunStarting, StartTime: p.now(), ClusterUID: s.member.UID, Attempt: p.attempt(last),
	}, p.limits())
}

func (p *pass) adopt(s *site) bool {
	t := s.rawJob.CreationTimestamp
	for _, other := range p.sites {
		// A run is on one member. The line moves only if that member is gone: the same cluster, it may be,
		// was registered under another name.
		if line := p.ledger.Find(s.job.RunID); line != nil && line.Cluster == other.name && !other.unregistered {
			p.fail(s, fmt.Errorf("its Job claims to be run %s, which is on member %s: delete the Job", s.job.RunID, other.name))
			return false
		}
	}
	p.ledger = slices.DeleteFunc(slices.Clone(p.ledger), func(r v1alpha1.Run) bool { return r.ID == s.job.RunID })
	p.ledger = p.ledger.Add(v1alpha1.Run{
		ID: s.job.RunID, Cluster: s.name, Digest: s.job.Digest, RerunAt: s.job.RerunAt,
		State: v1alpha1.RunRunning, JobUID: types.UID(s.job.UID), StartTime: &t, ClusterUID: s.member.UID,
	}, p.limits())
	p.note("Normal", s.step.Reason, "Adopt", s.name, s.job.RunID, s.name+": "+s.step.Message)
	return true
}

func (p *pass) finish(s *site, last *v1alpha1.Run) {
	done := *last
	done.State, done.Stop, done.Message = s.step.State, s.step.Stop, s.step.Message
	done.CompletionTime = p.now()
	if s.job != nil && s.job.RunID == done.ID {
		done.JobUID = types.UID(s.job.UID) // it may have ended before it was ever seen to run
	}
	if s.job != nil && s.job.CompletionTime != nil {
		done.CompletionTime = s.job.CompletionTime
	}
	if done.State == v1alpha1.RunFailed && s.exit != nil {
		done.Exit = s.exit
		done.Message = sanitize.Text(done.Message+"; "+exitSentence(s.exit), sanitize.MaxNote)
	}
	p.replaceLast(done)
	kind := "Normal"
	if s.step.State == v1alpha1.RunFailed {
		kind = "Warning"
	}
	if done.State == v1alpha1.RunReplaced && done.Stop != v1alpha1.StopChanged {
		s.still = true // it has to be placed anew
		p.lookAgain(soon)
	}
	p.note(kind, s.step.Reason, "Finish", s.name, done.ID, fmt.Sprintf("%s: run %s %s: %s", s.name, done.ID, lower(done.State), done.Message))
}

// keep takes back that a run is to be stopped.
func (p *pass) keep(s *site, last *v1alpha1.Run) {
	goes := *last
	goes.State, goes.Stop, goes.Message, goes.PendingSince = s.step.State, "", "", nil
	p.replaceLast(goes)
	p.note("Normal", s.step.Reason, "Observe", s.name, goes.ID, fmt.Sprintf("%s: run %s was to be stopped (%s): %s", s.name, goes.ID, last.Stop, s.step.Message))
	p.lookAgain(soon) // it was to be placed anew
}

func (p *pass) started(s *site, job *batchv1.Job) {
	run := *p.ledger.Last(s.name)
	run.State, run.JobUID = v1alpha1.RunRunning, job.UID
	p.replaceLast(run)
	p.note("Normal", v1alpha1.ReasonRunStarted, "Start", s.name, run.ID, fmt.Sprintf("%s: run %s started as Job %s/%s", s.name, run.ID, job.Namespace, job.Name))
}

// replaceLast replaces the latest line of a member in a copy of the ledger.
func (p *pass) replaceLast(run v1alpha1.Run) {
	p.ledger = slices.Clone(p.ledger)
	*p.ledger.Last(run.Cluster) = run
}

// due are the sites where something is to be done on the member.
func (p *pass) due() []*site {
	var out []*site
	for _, s := range p.sites {
		if s.lost != nil || s.still {
			continue
		}
		switch s.step.Action {
		case runs.Create, runs.DeleteJob, runs.Adjust, runs.Cleanup:
			out = append(out, s)
		default:
		}
		if s.step.Reason == v1alpha1.ReasonDeleting {
			p.lookAgain(goneInterval)
		}
	}
	return out
}

// outcome is what became of a step on a member.
type outcome struct {
	notes   []note
	started *batchv1.Job
	err     error
}

// perform does what is due on each member, all at once.
func (p *pass) perform(ctx context.Context, due []*site) []error {
	outcomes := make([]outcome, len(due))
	var wg sync.WaitGroup
	for i, s := range due {
		s.still = true // what follows from it is seen in the next pass
		wg.Go(func() { outcomes[i] = p.performOn(ctx, s) })
	}
	wg.Wait()
	var errs []error
	for i, s := range due {
		o := outcomes[i]
		p.events = append(p.events, o.notes...)
		if o.started != nil {
			s.rawJob, s.job = o.started, observe(o.started)
			s.step = runs.Step{Action: runs.Nothing}
			p.started(s, o.started)
		}
		if errors.Is(o.err, errBehind) {
			errs = append(errs, o.err)
			continue
		}
		if left := (leftoverError{}); errors.As(o.err, &left) {
			s.step = runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonDeleting, Message: left.Error()}
			p.lookAgain(goneInterval)
			continue
		}
		if o.err != nil {
			p.fail(s, o.err)
			if !isConflict(o.err) {
				errs = append(errs, fmt.Errorf("member %s: %w", s.name, o.err))
			}
		}
		if s.step.Action == runs.DeleteJob || s.step.Action == runs.Cleanup {
			p.lookAgain(goneInterval)
		}
	}
	return errs
}

// performOn does one step on one member. It writes to nothing that sites share.
func (p *pass) performOn(ctx context.Context, s *site) (o outcome) {
	tell := func(action, message string) {
		if o.err == nil {
			o.notes = []note{{"Normal", s.step.Reason, action, s.name, "", s.name + ": " + message}}
		}
	}
	switch s.step.Action {
	case runs.Create:
		o.started, o.err = p.create(ctx, s)
	case runs.DeleteJob:
		o.err = s.member.DeleteRun(ctx, s.rawJob)
		tell("Delete", s.step.Message)
	case runs.Adjust:
		o.err = p.adjust(ctx, s)
		tell("Adjust", p.adjustment(s))
	case runs.Cleanup:
		s.gone, o.err = p.r.cleanup(ctx, s.member, p.fmc, p.ledger.Ended)
	default:
	}
	return o
}

// adjust sets size and suspension of a Job, or releases one that an earlier pass could not release any more. That has
// made no pod, so that any pod of its run is of a Job that is gone.
func (p *pass) adjust(ctx context.Context, s *site) error {
	if s.job.Unreleased {
		pod, err := s.member.PodOfRun(ctx, p.key(s), s.job.RunID)
		if err != nil {
			return err
		}
		if pod != "" {
			return leftoverError{pod}
		}
	}
	_, err := s.member.AdjustRun(ctx, s.rawJob, s.size, p.wanted.Suspend)
	return err
}

func (p *pass) adjustment(s *site) string {
	switch s.step.Reason {
	case v1alpha1.ReasonSuspended:
		return "suspended; its pods end"
	case v1alpha1.ReasonResumed:
		return "resumed"
	case v1alpha1.ReasonRunStarted:
		return "released: its pods are made now"
	default:
		return fmt.Sprintf("resized from %d to %d pods", s.job.Size, s.size)
	}
}

// create puts a run on a member: Secret, ConfigMap, Services, what it references, the pod of services, and the
// Job last.
func (p *pass) create(ctx context.Context, s *site) (*batchv1.Job, error) {
	cert, err := p.curveCert(ctx)
	if err != nil {
		return nil, err
	}
	bundle, err := p.render(s, cert)
	if err != nil {
		return nil, err
	}
	if err := p.applySupport(ctx, s, bundle.support); err != nil {
		return nil, err
	}
	if err := p.bringReferences(ctx, s); err != nil {
		return nil, err
	}
	if err := p.clearForStart(ctx, s, bundle); err != nil {
		return nil, err
	}
	return p.start(ctx, s, bundle.job)
}

// applySupport applies what a Job needs, all at once, where it differs. The first that fails speaks for all, since most
// fail for the same reason.
func (p *pass) applySupport(ctx context.Context, s *site, objects []client.Object) error {
	errs := make([]error, len(objects))
	var wg sync.WaitGroup
	for i, obj := range objects {
		wg.Go(func() {
			d, err := s.member.Compare(ctx, obj, p.origin)
			if err == nil && d != clusters.Same {
				_, err = s.member.Apply(ctx, obj, p.origin)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// start creates a run's Job and releases it. Writing what it needs may have taken long, and so may the creation:
// nothing runs on the word of a hub that has been succeeded.
func (p *pass) start(ctx context.Context, s *site, want *batchv1.Job) (*batchv1.Job, error) {
	if !clusters.Unreleased(want) {
		if err := p.fresh(ctx); err != nil {
			return nil, err
		}
		return s.member.StartRun(ctx, want, p.origin)
	}
	job, err := s.member.StartRun(ctx, want, p.origin)
	if err != nil || p.wanted.Suspend || !clusters.Unreleased(job) {
		return job, err
	}
	if err := p.fresh(ctx); err != nil {
		return nil, err
	}
	return s.member.AdjustRun(ctx, job, value(job.Spec.Completions), false)
}

// leftoverError says that a pod of an earlier run is still on the member.
type leftoverError struct{ pod string }

func (e leftoverError) Error() string {
	return "pod " + sanitize.Text(e.pod, 253) + " of an earlier run is still on the member; waiting until it is gone"
}

// clearForStart makes sure that no pod of an earlier run is left, and starts the services.
func (p *pass) clearForStart(ctx context.Context, s *site, bundle *rendered) error {
	run := p.ledger.Last(s.name)
	if p.ledger.First(s.name) != run {
		pod, err := s.member.PodOfOtherRun(ctx, p.key(s), run.ID)
		if err != nil {
			return err
		}
		if pod != "" {
			return leftoverError{pod}
		}
	}
	if bundle.services == nil || p.wanted.Suspend {
		return nil
	}
	inTheWay, err := s.member.StartServices(ctx, bundle.services, p.origin)
	if err == nil && inTheWay != "" {
		err = leftoverError{inTheWay}
	}
	return err
}

// repair puts back what somebody has edited or deleted of the objects that a run needs. Objects of another
// rendering are left as they are: they belong to a run that is still live, or that has ended. So are all
// objects of a run that began with other overrides.
func (p *pass) repair(ctx context.Context, s *site) {
	last := p.ledger.Last(s.name)
	if s.failed != nil || s.still || s.departing || !s.chosen || !p.repairable(s, last) {
		return
	}
	if since := p.r.Now().Sub(last.StartTime.Time); since < settle {
		s.lookAgain(settle - since)
		return
	}
	bundle, err := p.render(s, p.r.anyCert())
	if err != nil {
		p.fail(s, err)
		return
	}
	for i, obj := range bundle.support {
		d, err := s.member.Compare(ctx, obj, p.origin)
		if err != nil {
			p.fail(s, err)
			return
		}
		if d != clusters.Absent && d != clusters.Drifted {
			continue
		}
		if err := p.putBack(ctx, s, i, d); err != nil {
			p.failOrCatchUp(s, err)
			return
		}
	}
}

// repairable says whether what was rendered for a run can be rendered again.
func (p *pass) repairable(s *site, last *v1alpha1.Run) bool {
	return p.wanted.IsCurrent(last) && last.State != v1alpha1.RunStarting && last.State != v1alpha1.RunStopping &&
		!p.tidies(s, last) && !p.overridden(s)
}

// putBack applies one object of a run again.
func (p *pass) putBack(ctx context.Context, s *site, index int, d clusters.Difference) error {
	if err := p.askHub(ctx); err != nil {
		return err
	}
	cert, err := p.curveCert(ctx)
	if err != nil {
		return err
	}
	bundle, err := p.render(s, cert)
	if err != nil {
		return err
	}
	obj := bundle.support[index]
	changed, err := s.member.Apply(ctx, obj, p.origin)
	if err != nil || !changed {
		return err
	}
	what := "had been edited"
	if d == clusters.Absent {
		what = "had been deleted"
	}
	n := note{"Normal", v1alpha1.ReasonDriftRepaired, "Repair", s.name, "", fmt.Sprintf("%s: %s %s %s; put back",
		s.name, obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName(), what)}
	p.r.Recorder.Eventf(p.fmc, n.about(), n.kind, n.reason, n.action, "%s", n.message)
	return nil
}

// fail notes what a member refused. A member that did not answer is lost for this pass.
func (p *pass) fail(s *site, err error) {
	s.still = true
	s.lookAgain(failedInterval)
	message := sanitize.Text(clusters.Explain(err), sanitize.MaxMessage)
	var conflict *clusters.Conflict
	var reference *referenceError
	switch {
	case errors.As(err, &reference):
		s.failed = &rollup.Problem{Reason: reference.reason, Message: message}
	case errors.As(err, &conflict):
		s.failed = &rollup.Problem{Reason: v1alpha1.ReasonConflict, Message: message}
	case clusters.Unanswered(err):
		s.lost = &rollup.Problem{Reason: v1alpha1.ReasonMemberUnreachable, Message: message}
	default:
		s.failed = &rollup.Problem{Reason: v1alpha1.ReasonApplyFailed, Message: message}
	}
}

// isConflict says whether only somebody else can mend what is wrong.
func isConflict(err error) bool {
	var conflict *clusters.Conflict
	var reference *referenceError
	return errors.As(err, &conflict) || errors.As(err, &reference)
}
