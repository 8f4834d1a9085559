package plan_test

import (
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

func spread(f *v1alpha1.FleetMiniCluster) bool { return f.Spec.Placement.NumberOfClusters == nil }

// checkRequest checks that the ledger, as it is stored, calls for what is sent to a member.
func (r *reconciliation) checkRequest(q *request) {
	stored := runs.Ledger(r.object().Status.Runs)
	m := r.w.member(q.member)
	job := m.jobs[q.object]
	if m.registered == nil {
		r.violate("%s is sent to %s, which is not registered", q.action, q.member)
	}
	if last := stored.Last(q.member); last != nil && !last.State.Ended() && last.ClusterUID != m.uid {
		r.violate("%s is sent to another cluster than that which run %s is on", q.action, last.ID)
	}
	switch q.action {
	case runs.Create:
		if last := stored.Last(q.member); last == nil || last.ID != q.create.RunID || last.State != v1alpha1.RunStarting {
			r.violate("the Job of run %s is created, which the stored ledger does not call Starting", q.create.RunID)
		}
		if f := r.object(); last(stored).RerunAt != f.Annotations[v1alpha1.AnnotationRerunAt] && f.Annotations[v1alpha1.AnnotationRerunAt] != "" {
			r.violate("run %s is created, which is not for the token", q.create.RunID)
		}
	case runs.Adjust:
		if job == nil || job.UID != q.uid {
			return
		}
		line := stored.Find(job.RunID)
		if line == nil || line.State.Ended() || line.State == v1alpha1.RunStopping {
			r.violate("the Job of run %s is adjusted, which is not to go on", job.RunID)
		}
		if r.object().Spec.Suspend && !q.suspend {
			r.violate("the Job of run %s is resumed while it is to be suspended", job.RunID)
		}
	case runs.DeleteJob:
		if job != nil && job.UID == q.uid {
			r.checkDeletion(stored, job)
		}
	case runs.Cleanup:
		if job != nil && slices.Contains(q.over, job.RunID) {
			r.checkDeletion(stored, job)
		}
	}
}

func last(l runs.Ledger) *v1alpha1.Run { return &l[len(l)-1] }

// checkDeletion checks that a Job is deleted only where its run is over, or about to be stopped.
func (r *reconciliation) checkDeletion(stored runs.Ledger, job *modelJob) {
	line := stored.Find(job.RunID)
	known := line != nil && (line.State.Ended() || line.State == v1alpha1.RunStopping)
	if (job.live() || job.Finished && line != nil) && !known {
		r.violate("the Job of run %s is deleted, and the stored ledger does not say why", job.RunID)
	}
}

// checkWrite checks what is about to be stored against what is so.
func (r *reconciliation) checkWrite(before, after *v1alpha1.FleetMiniClusterStatus) {
	was, is := runs.Ledger(before.Runs), runs.Ledger(after.Runs)
	for i := range was {
		if !was[i].State.Ended() && is.Find(was[i].ID) == nil {
			r.violate("the line of run %s is lost", was[i].ID)
		}
	}
	for i := range is {
		run := &is[i]
		switch old := was.Find(run.ID); {
		case old == nil:
			r.checkBegun(is[:i], run)
		case old.State.Ended() && old.State != run.State && run.RestoredTime == nil && !r.runs(run):
			r.violate("run %s has ended, and is %s now", run.ID, run.State)
		case old.State != run.State:
			r.checkEviction(old, run)
			r.checkEnd(run)
		}
	}
	live := is.Live()
	if !spread(r.object()) && len(live) > 1 {
		r.violate("runs are live on %v", live)
	}
	for i := range is { // one line each
		if !is[i].State.Ended() && is.Last(is[i].Cluster) != &is[i] {
			r.violate("two runs are live on %s", is[i].Cluster)
		}
	}
	for _, c := range after.Clusters {
		r.checkLine(is, &c)
	}
}

// runs says whether the very Job of a run is live.
func (r *reconciliation) runs(run *v1alpha1.Run) bool {
	j := r.w.member(run.Cluster).jobs[r.object().Name]
	return j != nil && j.UID == string(run.JobUID) && !j.Deleting
}

// checkBegun checks that nothing that has succeeded or was cancelled is begun again, but that a person asks for it, or
// something else ran meanwhile.
func (r *reconciliation) checkBegun(before runs.Ledger, run *v1alpha1.Run) {
	for i := len(before) - 1; i >= 0; i-- {
		old := &before[i]
		if old.Digest != run.Digest || run.RerunAt != "" && old.RerunAt != run.RerunAt {
			return
		}
		elsewhere := spread(r.object()) && old.Cluster != run.Cluster
		if !elsewhere && (old.State == v1alpha1.RunSucceeded || old.State == v1alpha1.RunCancelled) {
			r.violate("run %s is %s, and run %s is begun for the same", old.ID, old.State, run.ID)
		}
	}
	m := r.w.member(run.Cluster)
	if run.State == v1alpha1.RunStarting && (m.registered == nil || m.registered.Closed() != "" || m.link != connected) {
		r.violate("run %s is begun on %s, where none may", run.ID, run.Cluster)
	}
	if run.State == v1alpha1.RunStarting && run.ClusterUID != m.uid {
		r.violate("run %s is begun without the identity of its cluster", run.ID)
	}
}

// checkEviction checks that what did not get going was evicted on its member's own word.
func (r *reconciliation) checkEviction(old, run *v1alpha1.Run) {
	if old.State == v1alpha1.RunStopping || run.Stop != v1alpha1.StopNotStarted && run.Stop != v1alpha1.StopLost {
		return
	}
	job := r.w.member(run.Cluster).jobs[r.object().Name]
	if run.State == v1alpha1.RunReplaced && run.Stop == v1alpha1.StopLost {
		return // it is absent, see checkEnd
	}
	if !r.proofs[run.Cluster] {
		r.violate("run %s is evicted (%s) without proof", run.ID, run.Stop)
	}
	if job != nil && job.RunID == run.ID && job.executing {
		r.violate("run %s is evicted (%s), and its pods run", run.ID, run.Stop)
	}
}

// checkEnd checks that what is called over is: its pods have ended, and no Job can make any more.
func (r *reconciliation) checkEnd(run *v1alpha1.Run) {
	m := r.w.member(run.Cluster)
	switch {
	case !run.State.Ended():
		return
	case run.Stop == v1alpha1.StopDeclaredGone:
		if m.registered != nil && m.link == connected {
			r.violate("run %s is given up, and %s can be asked", run.ID, run.Cluster)
		}
		return
	case m.registered == nil || m.link != connected:
		r.violate("run %s is called %s, and nothing is known of %s", run.ID, run.State, run.Cluster)
	case run.ClusterUID != m.uid:
		r.violate("run %s is called %s, and was started in another cluster", run.ID, run.State)
	}
	job := m.jobs[r.object().Name]
	if job.live() && job.RunID == run.ID || m.stray[r.object().Name] == run.ID {
		r.violate("run %s is called %s while a pod of it may run", run.ID, run.State)
	}
}

// checkLine checks that a member of which nothing is known is shown so.
func (r *reconciliation) checkLine(ledger runs.Ledger, c *v1alpha1.ClusterStatus) {
	m, last := r.w.member(c.Name), ledger.Last(c.Name)
	live := last != nil && !last.State.Ended()
	unknown := m.registered == nil && live || m.registered != nil && m.link == unreachable || live && m.uid != last.ClusterUID && m.link == connected
	if unknown && (c.Sync != v1alpha1.SyncUnknown || c.Health == v1alpha1.Missing) {
		r.violate("%s cannot be asked, and is shown as %s and %s", c.Name, c.Sync, c.Health)
	}
}

// checkReservations checks that what is live has its room.
func (r *reconciliation) checkReservations() {
	reservations, entry := r.round.Reservations(r.snapshot, r.decision)
	f := r.object()
	ledger := runs.Ledger(f.Status.Runs)
	for _, name := range ledger.Live() {
		run, job := ledger.Last(name), r.w.member(name).jobs[f.Name]
		own := job != nil && job.RunID == run.ID
		if _, ok := reservations[name]; !ok && !f.Spec.Suspend && (!own || job.live()) {
			r.violate("run %s is live on %s and has no room reserved", run.ID, name)
		}
	}
	for name, reserved := range reservations {
		if run := ledger.Last(name); reserved.Run != "" && (run == nil || run.State.Ended() || run.ID != reserved.Run) {
			r.violate("room is reserved on %s for run %q, which is not live", name, reserved.Run)
		}
	}
	if entry != nil && len(entry.Gangs) == 0 {
		r.violate("it waits for nothing")
	}
}

// checkRoom checks that no more is reserved on a member than it has, and no more is made there. What has ended just now
// may have its room still.
func (r *reconciliation) checkRoom() {
	for _, m := range r.w.members {
		total, made := 0, 0
		for _, f := range r.w.objects {
			reserved, job := r.queue.Reservations(keyOf(f))[m.name], m.jobs[f.Name]
			if job == nil || !job.Finished {
				total += reserved.Gang.Size - reserved.Succeeded
			}
			if job.live() {
				made += int(job.Size)
			}
		}
		if m.cpus > 0 && made > m.cpus {
			r.violate("%d pods are made on %s, which has room for %d", made, m.name, m.cpus)
		}
		if m.cpus > 0 && total > m.cpus && !r.restored { // a hub that was started reserves too much rather than too little
			r.violate("%d pods are reserved on %s, which has room for %d", total, m.name, m.cpus)
		}
	}
}

// violation is what is wrong with a world; empty if nothing is: at most one run of an object is live in the whole fleet
// or, where it is on all members, on each.
func (w *world) violation() string {
	for _, f := range w.objects {
		live := 0
		for _, m := range w.members {
			here := 0
			if m.jobs[f.Name].live() {
				here++
			}
			if id := m.stray[f.Name]; id != "" && (here == 0 || m.jobs[f.Name].RunID != id) {
				here++
			}
			if here > 1 {
				return "two runs of " + f.Name + " are live on " + m.name
			}
			live += here
		}
		if live > 1 && !spread(f) {
			return "two runs of " + f.Name + " are live"
		}
	}
	return ""
}
