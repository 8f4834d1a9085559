package plan

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// record writes into the ledger what the steps say that are about it alone.
func (r *Round) record(s *Snapshot, d *Decision) {
	for i := range r.Targets {
		t := &r.Targets[i]
		last := r.Ledger.Last(t.Name)
		if t.Reachable() && t.seenCreated(last) && r.created(t, last) {
			continue
		}
		if !t.acts() {
			continue
		}
		switch t.Step.Action {
		case runs.Begin:
			r.begin(s, d, t, last)
		case runs.Adopt:
			r.adopt(s, t)
		case runs.Finish:
			r.finish(s, d, t, last)
		case runs.Stop:
			stopping := *last
			stopping.State, stopping.Stop, stopping.Message = t.Step.State, t.Step.Stop, t.Step.Message
			r.replace(stopping)
		case runs.Keep:
			r.keep(t, last)
		default:
		}
	}
}

// replace replaces the latest line of a member in a copy of the ledger.
func (r *Round) replace(run v1alpha1.Run) {
	r.Ledger = replaceLast(r.Ledger, run)
	r.Changed = append(r.Changed, run.Cluster)
}

func replaceLast(ledger runs.Ledger, run v1alpha1.Run) runs.Ledger {
	ledger = slices.Clone(ledger)
	*ledger.Last(run.Cluster) = run
	return ledger
}

func timeOf(s *Snapshot) *metav1.Time {
	t := metav1.NewTime(s.Now).Rfc3339Copy()
	return &t
}

// limits are how many ended runs the ledger holds.
func limits(f *v1alpha1.FleetMiniCluster) runs.Limits {
	return runs.Limits{Succeeded: f.Spec.SuccessfulRunsHistoryLimit, Others: f.Spec.FailedRunsHistoryLimit}
}

func (r *Round) begin(s *Snapshot, d *Decision, t *Target, last *v1alpha1.Run) {
	id := runs.ID(string(s.Object.UID), t.Name, d.Wanted, last)
	for r.Ledger.Find(id) != nil || t.Record != nil && runs.FindEnded(t.Record.Ended, id) != nil { // a member that foresaw it has claimed it
		id = runs.ID(string(s.Object.UID), t.Name, d.Wanted, &v1alpha1.Run{ID: id})
	}
	r.Ledger = r.Ledger.Add(v1alpha1.Run{
		ID: id, Cluster: t.Name,
		Digest: d.Wanted.Digest, RerunAt: d.Wanted.RerunAt, Revision: s.Object.Annotations[v1alpha1.AnnotationSourceRevision],
		State: v1alpha1.RunStarting, StartTime: timeOf(s), ClusterUID: t.uid, Namespace: t.Namespace, Attempt: eviction.Attempt(r.Ledger, d.Wanted, last),
		Commit: CommitOf(s.Object),
	}, limits(s.Object))
	r.Changed = append(r.Changed, t.Name)
}

func (r *Round) adopt(s *Snapshot, t *Target) {
	run := adopted(t.Observed.Job, t.Name, t.uid, t.Namespace, t.Record)
	ledger := slices.DeleteFunc(slices.Clone(r.Ledger), func(old v1alpha1.Run) bool { return old.ID == run.ID })
	r.Ledger = ledger.Add(run, limits(s.Object))
	r.Changed = append(r.Changed, t.Name)
	r.tell(normal, t.Step.Reason, "Adopt", t.Name, run.ID, t.Name+": "+t.Step.Message)
}

func (r *Round) finish(s *Snapshot, d *Decision, t *Target, last *v1alpha1.Run) {
	done, job := *last, t.Observed.Job
	done.State, done.Stop, done.Message = t.Step.State, t.Step.Stop, t.Step.Message
	if job != nil && job.RunID == done.ID {
		done.JobUID = types.UID(job.UID) // it may have ended before it was ever seen to run
	}
	var behind bool
	done.CompletionTime, behind = t.endOf(s, r.Ledger, last)
	told, exit := done.Message, t.exit()
	if done.State == v1alpha1.RunFailed && exit != nil {
		done.Exit = exit
		told, done.Message = describeFailure(done.Message, exit)
	}
	r.replace(done)
	kind := normal
	if t.Step.State == v1alpha1.RunFailed {
		kind = warning
	}
	placedAnew := done.State == v1alpha1.RunReplaced && done.Stop != v1alpha1.StopChanged
	if placedAnew || behind || slices.Contains(d.succeeded, t.Name) { // the next decision takes up what has ended here before
		r.Done = append(r.Done, t.Name)
		r.After = After(r.After, Soon)
	}
	r.tell(kind, t.Step.Reason, "Finish", t.Name, done.ID, fmt.Sprintf("%s: run %s %s", t.Name, done.ID, howEnded(done.State, told)))
}

// endOf is when a run has ended: as its Job says or, where that is gone, as is on record. It says whether the ledger does not know
// what has run there since.
func (t *Target) endOf(s *Snapshot, ledger runs.Ledger, last *v1alpha1.Run) (end *metav1.Time, behind bool) {
	job := t.Observed.Job
	own := job != nil && job.RunID == last.ID
	switch {
	case own && job.CompletionTime != nil:
		return job.CompletionTime, false
	case !own && t.Record != nil && last.State != v1alpha1.RunStopping: // that is on record before it ends
		return t.Record.endOf(s, ledger, last)
	default:
		return timeOf(s), false
	}
}

// howEnded is a state with the message for it, which may begin with the same.
func howEnded(state v1alpha1.RunState, message string) string {
	if strings.HasPrefix(message, lower(state)) {
		return message
	}
	return lower(state) + ": " + message
}

// describeFailure says which pod a Job has failed with, and, in whole, what that has said. What the member says of the
// Job is omitted where it says the same, or no more than that a pod has failed.
func describeFailure(job string, e *v1alpha1.RunExit) (where, whole string) {
	where = describeExit(e)
	switch reason, _, _ := strings.Cut(job, ": "); reason {
	case batchv1.JobReasonPodFailurePolicy:
	case batchv1.JobReasonBackoffLimitExceeded:
		where = reason + ": " + where
	default:
		where = job + "; " + where
	}
	whole = where
	if e.Message != "" {
		whole += ": " + e.Message
	}
	return where, sanitize.Text(whole, sanitize.MaxNote)
}

// exit is how the run on a member has failed, nil where that is not known.
func (t *Target) exit() *v1alpha1.RunExit {
	switch {
	case t.Exit != nil:
		return t.Exit.RunExit
	case t.Observed.Job == nil && t.Observed.Lead != nil:
		return t.Observed.Lead.Exit
	default:
		return nil
	}
}

func describeExit(e *v1alpha1.RunExit) string {
	out := "pod " + e.Pod
	if e.Container != "" {
		out += ", container " + e.Container
	}
	if e.ExitCode != nil {
		out += fmt.Sprintf(", exit code %d", *e.ExitCode)
	}
	if e.Reason != "" && e.Reason != "Error" {
		out += ", " + e.Reason
	}
	return out
}

// keep takes back that a run is to be stopped, or has ended.
func (r *Round) keep(t *Target, last *v1alpha1.Run) {
	kept := *last
	kept.State, kept.Stop, kept.Message, kept.PendingSince, kept.CompletionTime, kept.Exit = t.Step.State, "", "", nil, nil, nil
	r.replace(kept)
	r.After = After(r.After, Soon) // it was to be placed anew
	was := fmt.Sprintf(" was to be stopped (%s)", last.Stop)
	if last.State.Ended() {
		was = ""
	}
	r.tell(normal, t.Step.Reason, "Observe", t.Name, kept.ID, fmt.Sprintf("%s: run %s%s: %s", t.Name, kept.ID, was, t.Step.Message))
}

// seenCreated says whether a run's Job is there, of which the ledger says that it is about to be created or released.
func (t *Target) seenCreated(last *v1alpha1.Run) bool {
	switch t.Step.Action {
	case runs.Begin, runs.Adopt, runs.Finish, runs.Stop, runs.Keep:
		return false
	}
	return last != nil && last.State == v1alpha1.RunStarting && t.Observed != nil && t.Observed.Job != nil && t.Observed.Job.RunID == last.ID
}

// created notes that a run's Job is there, and says whether the ledger did not have that yet. A run has started when its
// Job is released, which the member may refuse. Before that is asked for, the ledger has the Job's UID: should the Job
// vanish, it may have run.
func (r *Round) created(t *Target, last *v1alpha1.Run) bool {
	run, job := *last, t.Observed.Object
	switch {
	case !t.Observed.Job.Unreleased:
		run.State, run.JobUID = v1alpha1.RunRunning, job.UID
		if last.JobUID != "" { // it could not be released at once, which was told
			r.tell(normal, v1alpha1.ReasonRunStarted, "Start", t.Name, run.ID, fmt.Sprintf("%s: run %s started as Job %s/%s", t.Name, run.ID, job.Namespace, job.Name))
		}
	case last.JobUID == "":
		run.JobUID = job.UID
	default:
		return false
	}
	r.replace(run)
	return true
}

// hasJob says whether the Job of a run was created, as far as the ledger knows.
func hasJob(run *v1alpha1.Run) bool { return run.State != v1alpha1.RunStarting || run.JobUID != "" }

func (r *Round) tell(kind, reason, action, member, run, message string) {
	r.Events = append(r.Events, Event{kind, reason, action, member, run, message})
}

func lower(s v1alpha1.RunState) string { return strings.ToLower(string(s)) }
