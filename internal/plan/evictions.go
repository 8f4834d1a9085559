package plan

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// giveUpDeclared gives up live runs of which a person says that they are gone, on members that cannot be asked. It
// comes before the placement, which would keep them where they are. A member that returns with such a run still live is
// told to stop it (runs.Next).
func (d *Decision) giveUpDeclared(s *Snapshot) {
	ids := runIDs(s.Object.Annotations[v1alpha1.AnnotationRunGone])
	d.Ledger = slices.Clone(d.Ledger)
	for i := range d.Ledger {
		run := &d.Ledger[i]
		if run.State.Ended() {
			continue
		}
		m := s.Member(run.Cluster)
		var cluster *v1alpha1.MemberCluster
		if m != nil {
			cluster = m.Cluster
		}
		how := eviction.Declared(run, ids, cluster, s.Now)
		if how == "" || m != nil && (m.Connection.Connected || connecting(m)) {
			continue // nobody says so, or the member knows better
		}
		t := metav1.NewTime(s.Now).Rfc3339Copy()
		run.State, run.Stop, run.CompletionTime = v1alpha1.RunReplaced, v1alpha1.StopDeclaredGone, &t
		run.Message = "declared gone (" + how + ") while its member could not be asked"
		d.Events = append(d.Events, Event{warning, v1alpha1.ReasonRunReplaced, "Finish", run.Cluster, run.ID,
			fmt.Sprintf("%s: run %s %s", run.Cluster, run.ID, run.Message)})
	}
}

// HeardOf are the live runs that the annotation run-gone names although their members can be asked and have them. What it
// says of these does not hold, nor may it for the next time that the member is lost: nobody has made sure of anything then.
func HeardOf(s *Snapshot) []v1alpha1.Run {
	ids := runIDs(s.Object.Annotations[v1alpha1.AnnotationRunGone])
	var out []v1alpha1.Run
	for i := range s.Object.Status.Runs {
		run := &s.Object.Status.Runs[i]
		m, cached := s.Member(run.Cluster), s.Facts[run.Cluster].Cached
		if run.State.Ended() || !slices.Contains(ids, run.ID) || m == nil || !m.Connection.Connected || otherCluster(run, m.Connection.UID) != nil {
			continue
		}
		if cached != nil && cached.Job != nil && cached.Job.RunID == run.ID {
			out = append(out, *run)
		}
	}
	return out
}

// WithoutRuns is the value of an annotation that names runs without some of them.
func WithoutRuns(list string, without []v1alpha1.Run) string {
	ids := slices.DeleteFunc(runIDs(list), func(id string) bool {
		return slices.ContainsFunc(without, func(r v1alpha1.Run) bool { return r.ID == id })
	})
	return strings.Join(ids, ",")
}

// overdue finds the live runs that do not get going: those that have not started in time, and those that were lost
// with their nodes.
func (d *Decision) overdue(s *Snapshot, reads *Reads) map[string]eviction.Eviction {
	out := map[string]eviction.Eviction{}
	patience := eviction.PatienceOf(s.Placement)
	if patience == (runs.Patience{}) || d.Wanted.Suspend {
		return out
	}
	for _, name := range d.Ledger.Live() {
		m, run := s.Member(name), d.Ledger.Last(name)
		if _, evicted := d.Evictions[name]; evicted || !d.Wanted.IsCurrent(run) || m == nil || !m.Connection.Connected || otherCluster(run, m.Connection.UID) != nil {
			continue // what is not known is no reason, nor is what another cluster says
		}
		facts := s.Facts[name]
		if facts.Cached == nil {
			reads.add(name, ReadCached)
			continue
		}
		if facts.Cached.Conflict != nil {
			continue
		}
		v := eviction.Overdue(eviction.Pending{
			Run: run, Job: facts.Cached.Job, Proof: facts.Proof, Patience: patience, Quorum: quorum(s.Object),
			Connected: m.Connection.Since, Queued: d.queued(name), Refusal: refusal(s.Object, name),
		}, s.Now)
		if v.AskMember {
			reads.add(name, ReadProof)
		}
		if v.Evict != nil {
			out[name] = *v.Evict
		}
		d.After = After(d.After, v.After)
	}
	return out
}

// quorum is how many of its pods a MiniCluster needs to begin; 0: all of them.
func quorum(f *v1alpha1.FleetMiniCluster) int32 { return f.Spec.MiniCluster.MinSize }

// queued says whether the Job on a member is released by a queue there, or may be.
func (d *Decision) queued(member string) bool {
	v := d.Variants.For(member)
	return v.Err != nil || fleet.Queued(v.Spec.JobLabels)
}

// refusal is what a member said when it was last asked to create something for the run there; empty if nothing.
func refusal(f *v1alpha1.FleetMiniCluster, member string) string {
	for _, c := range f.Status.Clusters {
		if c.Name == member && c.Reason == v1alpha1.ReasonApplyFailed {
			return sanitize.Text(c.Message, sanitize.MaxNote)
		}
	}
	return ""
}
