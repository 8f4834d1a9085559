package plan

import (
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/queue"
)

// Reservations are what the FleetMiniCluster is to have reserved, by member, now that the ledger is written, and its
// place in the line, nil if it waits for nothing.
func (r *Round) Reservations(s *Snapshot, d *Decision) (map[string]queue.Reservation, *queue.Entry) {
	out := map[string]queue.Reservation{}
	for i := range r.Targets {
		t := &r.Targets[i]
		last := r.Ledger.Last(t.Name)
		own, reserved := s.Queue.Reserved[t.Name]
		switch {
		case last == nil || last.State.Ended() || t.over(last) || r.idles(d, t, last):
		case t.Admitted && reserved:
			out[t.Name] = own // the Job as it was seen does not show yet what it was given
		default:
			if live, ok := liveReservation(d, t, last, own, reserved); ok {
				out[t.Name] = live
			}
		}
	}
	for member, own := range s.Queue.Reserved {
		if _, ok := out[member]; !ok && r.starting(d, member) {
			out[member] = own
		}
	}
	return out, r.entry(s, d)
}

// starting says that a run is to begin on a member as soon as another one has ended elsewhere.
func (r *Round) starting(d *Decision, member string) bool {
	now := *d
	now.Ledger = r.Ledger
	return now.starting(member)
}

func (r *Round) hold(d *Decision) string {
	now := *d
	now.Ledger = r.Ledger
	return now.hold()
}

// own says whether the Job that was seen is that of a run.
func (t *Target) own(last *v1alpha1.Run) bool {
	return t.Observed != nil && t.Observed.Job != nil && t.Observed.Job.RunID == last.ID
}

// over says whether a run's Job was seen to have ended.
func (t *Target) over(last *v1alpha1.Run) bool { return t.own(last) && t.Observed.Job.Finished }

// idles says whether a live run needs no room: it is suspended, and neither about to be released nor resumed.
func (r *Round) idles(d *Decision, t *Target, last *v1alpha1.Run) bool {
	if !t.own(last) || t.Admitted {
		return false
	}
	job := t.Observed.Job
	return job.SuspendedByUs && (d.Wanted.Suspend || !job.Unreleased)
}

// liveReservation is what a live run has reserved: all that its Job may take, also what is beyond minSize. Pods of it that
// wait for a node take the room that appears before any run does that the hub would let begin there. The Job knows best what its pods need: the spec may have changed
// since it was made.
func liveReservation(d *Decision, t *Target, last *v1alpha1.Run, old queue.Reservation, had bool) (queue.Reservation, bool) {
	next := old
	next.Run = last.ID
	if t.own(last) {
		job := t.Observed.Job
		next.Succeeded = int(job.Pods.Succeeded)
		if !had || old.Gang.Size != int(job.Size) || old.Run != "" && old.Run != last.ID {
			next.Gang = gangOfJob(t.Observed.Object, nil)
			next.Gang.Beside = old.Gang.Beside
		}
		return next, true
	}
	if !had {
		gang, err := d.Variants.Gang(t.Name)
		if err != nil {
			return queue.Reservation{}, false
		}
		next.Gang = gang
	}
	return next, true
}

// entry is what waits for room, nil if nothing would begin even if there were some.
func (r *Round) entry(s *Snapshot, d *Decision) *queue.Entry {
	e := &queue.Entry{Rank: s.rank(), Gangs: map[string]fit.Gang{}, Behind: r.Line.Behind, Reconciled: s.Now}
	if d.Problem == nil && !d.Wanted.Suspend && d.Placement != nil && r.hold(d) == "" {
		for _, name := range r.Line.Lacking {
			last := r.Ledger.Last(name)
			if gang, err := d.Variants.Quorum(name); err == nil && (last == nil || last.State.Ended()) {
				e.Gangs[name] = gang
			}
		}
	}
	for i := range r.Targets {
		t := &r.Targets[i]
		switch {
		case t.Needs != nil:
			e.Gangs[t.Name] = *t.Needs
		case s.Queue.Pending != nil && t.Connecting: // what it waited for it still does, as far as anybody knows
			if gang, here := s.Queue.Pending.On(t.Name); here {
				e.Gangs[t.Name] = gang
			}
		}
	}
	if len(e.Gangs) == 0 {
		return nil
	}
	return e
}

// WaitInterval is after how long a FleetMiniCluster that waits for room is reconciled although nothing happens; 0 for
// one that does not wait.
func (d *Decision) WaitInterval(s *Snapshot) time.Duration {
	if d.Placement == nil || len(d.Placement.Waiting) == 0 {
		return 0
	}
	return s.intervals().Wait
}
