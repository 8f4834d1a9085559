package runs_test

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

// world is the state of everything that outlives a hub: the ledger, which is stored as a whole or not at
// all, the member, and requests that are still on their way there. The hub itself remembers nothing, so
// that a crash between any two of its steps is no step of its own: whatever comes next, from the state
// that there is, is what a new hub does.
type world struct {
	wants    int // index into the story's list of what is wanted
	ledger   runs.Ledger
	job      *modelJob
	orphan   string // the run of pods that go on although their Job was deleted
	inFlight *request
	uids     int

	// What has happened so far.
	created  map[string]int // Jobs made on the member, by run
	executed map[string]int // executions started on the member, by run
	deleted  bool           // somebody has deleted a Job on the member
}

// modelJob is a Job as its member sees it.
type modelJob struct {
	runs.Job
	executing bool
}

// request is an action whose reply the hub does not wait for any more.
type request struct {
	action  runs.Action
	uid     string // of the Job that it is about
	create  runs.Job
	size    int32
	suspend bool
}

func newWorld() *world {
	return &world{created: map[string]int{}, executed: map[string]int{}}
}

func (w *world) clone() *world {
	c := *w
	c.ledger = slices.Clone(w.ledger)
	if w.job != nil {
		j := *w.job
		c.job = &j
	}
	c.created, c.executed = map[string]int{}, map[string]int{}
	for k, v := range w.created {
		c.created[k] = v
	}
	for k, v := range w.executed {
		c.executed[k] = v
	}
	return &c
}

// key tells worlds apart. Numbers of Jobs are not in it: only whether requests mean this one counts.
func (w *world) key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %t %v %v %s", w.wants, w.deleted, w.created, w.executed, w.orphan)
	for _, r := range w.ledger {
		fmt.Fprintf(&b, "|%s %s %s %d %s %t", r.ID, r.RerunAt, r.State, r.Attempt, r.Stop, w.job != nil && string(r.JobUID) == w.job.UID)
	}
	if w.job != nil {
		j := w.job
		fmt.Fprintf(&b, "|Job %s %d %t %t %t %t %t %t", j.RunID, j.Size, j.Suspended, j.Unreleased, j.executing, j.Deleting, j.Finished, j.Succeeded)
	}
	if r := w.inFlight; r != nil {
		fmt.Fprintf(&b, "|request %s %s %d %t %t", r.action, r.create.RunID, r.size, r.suspend, w.job != nil && w.job.UID == r.uid)
	}
	return b.String()
}

func (w *world) last() *v1alpha1.Run { return w.ledger.Last("alpine") }

func (w *world) step(wanted runs.Wanted) runs.Step {
	if w.job != nil {
		w.job.Pods = v1alpha1.PodCounts{}
		if w.job.executing {
			w.job.Pods.Ready = w.job.Size
		}
	}
	in := runs.Input{Wanted: wanted, Last: w.last(), Ended: w.ledger.Ended}
	if w.job == nil && w.last() != nil && w.last().ID == w.orphan {
		in.Pod = "pod"
	}
	if w.job != nil {
		j := w.job.Job
		in.Job = &j
	}
	return runs.Next(in)
}

// hub does the hub's next step: one write of the ledger, or one request to the member. It says whether
// there was anything to do.
func (w *world) hub(wanted runs.Wanted) bool {
	if w.record(wanted) {
		return true
	}
	r := w.request(wanted)
	return r != nil && w.land(r)
}

// record does what is about the ledger alone. A Job that is seen for the first time is noted in it before
// anything else is done.
func (w *world) record(wanted runs.Wanted) bool {
	step, last := w.step(wanted), w.last()
	set := func(state v1alpha1.RunState) {
		w.ledger = slices.Clone(w.ledger)
		w.last().State = state
	}
	switch step.Action {
	case runs.Begin:
		w.ledger = w.ledger.Add(v1alpha1.Run{
			ID: runs.ID("owner", "alpine", wanted, last), Cluster: "alpine",
			Digest: wanted.Digest, RerunAt: wanted.RerunAt, State: v1alpha1.RunStarting, Attempt: wanted.Attempt(last),
		}, runs.Limits{})
	case runs.Adopt:
		w.ledger = w.ledger.Add(v1alpha1.Run{
			ID: w.job.RunID, Cluster: "alpine", Digest: w.job.Digest, RerunAt: w.job.RerunAt, State: step.State,
		}, runs.Limits{})
	case runs.Finish, runs.Stop, runs.Keep:
		set(step.State)
		w.last().Stop = step.Stop
	default:
		if last == nil || last.State != v1alpha1.RunStarting || w.job == nil || w.job.RunID != last.ID {
			return false
		}
		switch {
		case !w.job.Unreleased:
			set(v1alpha1.RunRunning)
		case last.JobUID == "":
			set(v1alpha1.RunStarting)
		default:
			return false
		}
		w.last().JobUID = types.UID(w.job.UID)
	}
	return true
}

// request is what the hub asks of the member, or nil.
func (w *world) request(wanted runs.Wanted) *request {
	step := w.step(wanted)
	r := &request{action: step.Action, size: wanted.Size, suspend: wanted.Suspend}
	if w.job != nil {
		r.uid = w.job.UID
	}
	switch step.Action {
	case runs.Create:
		if w.orphan != "" && w.orphan != w.last().ID {
			return nil // no run starts beside pods of another
		}
		r.create = runs.Job{
			RunID: w.last().ID, Digest: w.last().Digest, RerunAt: w.last().RerunAt, Size: wanted.Size, Suspended: true, SuspendedByUs: true, Unreleased: true,
		}
		return r
	case runs.Adjust:
		r.size = wanted.SizeFor(w.last(), &w.job.Job)
		return r
	case runs.DeleteJob, runs.Cleanup:
		return r
	default:
		return nil
	}
}

// land is the arrival of a request at the member, which may be long after it was sent. A Job is created
// only where none has its name, and deleted or changed only if it is the one that was meant.
func (w *world) land(r *request) bool {
	switch {
	case r.action == runs.Create:
		if w.job != nil {
			return false
		}
		w.uids++
		w.job = &modelJob{Job: r.create}
		w.job.UID = fmt.Sprint("uid-", w.uids)
		w.created[r.create.RunID]++
		return true
	case w.job == nil || w.job.UID != r.uid:
		return false
	case r.action == runs.Adjust:
		w.job.Size, w.job.Suspended, w.job.SuspendedByUs, w.job.Unreleased = r.size, r.suspend, r.suspend, false
		w.job.executing = w.job.executing && !r.suspend
		return true
	default:
		was := w.job.Deleting
		w.job.Deleting = true
		return !was
	}
}

// member lists what the member may do next by itself.
func (w *world) member() []func(*world) {
	var out []func(*world)
	if w.orphan != "" {
		out = append(out, func(w *world) { w.orphan = "" })
	}
	j := w.job
	if j == nil {
		return out
	}
	if !j.Finished && !j.executing && !j.Suspended && !j.Deleting {
		out = append(out, func(w *world) {
			w.job.executing = true
			w.executed[w.job.RunID]++
		})
	}
	if j.executing {
		for _, succeeded := range []bool{true, false} {
			out = append(out, func(w *world) {
				w.job.executing, w.job.Finished, w.job.Succeeded = false, true, succeeded
			})
		}
	}
	if j.Deleting {
		out = append(out, func(w *world) { w.job = nil }) // the pods go first: foreground deletion
	}
	return out
}

// converge lets hub and member work, with nobody interfering, until neither has anything to do. It
// says whether they came to an end.
func (w *world) converge(wanted runs.Wanted) bool {
	for range 100 {
		if r := w.inFlight; r != nil {
			w.inFlight = nil
			w.land(r)
		}
		if w.hub(wanted) {
			continue
		}
		next := w.member()
		if len(next) == 0 {
			return true
		}
		next[0](w)
	}
	return false
}
