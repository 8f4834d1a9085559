package view

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// States of a run that the ledger does not know.
const (
	runUnknown   = "Unknown"
	runSuspended = "Suspended"
)

// RunOf is a line of the ledger.
func RunOf(f *v1alpha1.FleetMiniCluster, r *v1alpha1.Run, c *Context) Run {
	out := Run{
		ID: r.ID, Namespace: f.Namespace, Name: f.Name, Member: r.Cluster, State: string(r.State), Commit: c.commitOfRun(r),
		Digest: r.Digest, Attempt: r.Attempt, Start: timeOf(r.StartTime), Running: timeOf(r.RunningTime), Pending: timeOf(r.PendingSince),
		Lost: timeOf(r.LostTime), End: timeOf(r.CompletionTime), Stop: string(r.Stop), Message: c.text(r.Message, maxText),
		Exit: exitFor(r.Exit, c), StaleSince: staleMember(f, r.Cluster, c),
	}
	switch {
	case r.State.Ended():
		out.StaleSince = nil // how it has ended is on record
	case isStale(f, r.Cluster, c):
		out.State = runUnknown
	case r.SuspendedTime != nil && r.State != v1alpha1.RunStopping:
		out.State = runSuspended
	}
	return out
}

// staleMember is the age of what is known of a member that cannot be reached.
func staleMember(f *v1alpha1.FleetMiniCluster, member string, c *Context) *time.Time {
	if s, ok := c.Stale[member]; ok && s.Since != nil {
		return s.Since
	}
	if line := clusterOf(f, member); line != nil {
		return timeOf(line.LastHeardTime)
	}
	return nil
}

func timeOf(t *metav1.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t.Time
}

func exitFor(e *v1alpha1.RunExit, c *Context) *Exit {
	if e == nil {
		return nil
	}
	return &Exit{
		Pod: c.text(e.Pod, maxName), Container: c.text(e.Container, maxName), Code: e.ExitCode,
		Reason: c.text(e.Reason, maxName), Message: c.text(e.Message, maxText),
	}
}

// rememberedRun is a run of which only the result is known.
func rememberedRun(f *v1alpha1.FleetMiniCluster, r *v1alpha1.EndedRun, c *Context) Run {
	return Run{
		ID: r.ID, Namespace: f.Namespace, Name: f.Name, Member: r.Cluster, State: string(r.State), Commit: c.commit(r.Revision),
		Digest: r.Digest, Attempt: r.Attempt, End: timeOf(r.CompletionTime), Stop: string(r.Stop), Remembered: true,
	}
}

// RunsOf are all runs that are known, oldest first.
func RunsOf(f *v1alpha1.FleetMiniCluster, c *Context) []Run {
	out := make([]Run, 0, len(f.Status.Succeeded)+len(f.Status.Runs))
	for i := range f.Status.Succeeded {
		out = append(out, rememberedRun(f, &f.Status.Succeeded[i], c))
	}
	for i := range f.Status.Runs {
		out = append(out, RunOf(f, &f.Status.Runs[i], c))
	}
	return out
}

// latestPerMember keeps of runs, oldest first, so many of each member.
func latestPerMember(runs []Run, most int) []Run {
	count := map[string]int{}
	kept := make([]Run, 0, len(runs))
	for _, r := range slices.Backward(runs) {
		if count[r.Member]++; count[r.Member] <= most {
			kept = append(kept, r)
		}
	}
	slices.Reverse(kept)
	return kept
}
