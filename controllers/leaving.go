package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/placement"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// leave is why a live run has to leave its member.
type leave struct {
	stop v1alpha1.StopReason
	why  string
	fact string // what is wrong, should it stay
}

// drain finds the live runs whose members are drained. They leave whether or not there is another member.
func (p *pass) drain(members []v1alpha1.MemberCluster) {
	p.leaves = map[string]leave{}
	for i := range members {
		why, _ := members[i].Draining() // an annotation that is wrong is told on the MemberCluster
		last := p.ledger.Last(members[i].Name)
		if why != "" && last != nil && !last.State.Ended() {
			p.leaves[members[i].Name] = leave{stop: v1alpha1.StopDrained, why: "stopped: its member " + why}
		}
	}
}

// keepers are the members that keep what is wanted, less those whose runs have to leave.
func (p *pass) keepers(chosen []string) []string {
	return slices.DeleteFunc(p.ledger.Keepers(p.wanted, chosen), func(name string) bool {
		_, leaves := p.leaves[name]
		return leaves
	})
}

// findOverdue finds the runs that do not get going: those that have not started in time, and those that were
// lost with their nodes. It asks members, so it is called while the book is not locked.
func (p *pass) findOverdue(ctx context.Context, spec *v1alpha1.PlacementSpec) map[string]leave {
	out := map[string]leave{}
	patience := patienceOf(spec)
	if patience == (runs.Patience{}) || p.wanted.Suspend {
		return out
	}
	for _, name := range p.ledger.Live() {
		if _, leaves := p.leaves[name]; leaves || !p.wanted.IsCurrent(p.ledger.Last(name)) {
			continue
		}
		if why, overdue := p.overdue(ctx, name, patience); overdue {
			out[name] = why
		}
	}
	return out
}

// moveOverdue lets runs that do not get going leave, where another member can take them now. The book is locked.
func (p *pass) moveOverdue(overdue map[string]leave, in *placement.Input, d *placement.Decision) {
	p.stays = map[string]string{}
	for _, name := range slices.Clone(in.Keep) {
		why, is := overdue[name]
		if !is {
			continue
		}
		trial := *in
		trial.Keep = slices.DeleteFunc(slices.Clone(in.Keep), func(k string) bool { return k == name })
		trial.Candidates = p.withoutLeft(in.Candidates, name)
		t, err := placement.Decide(trial)
		if err != nil || len(t.Clusters) < len(d.Clusters) || in.Spec.NumberOfClusters == nil {
			p.stays[name] = why.fact + "; no other member can take it now"
			p.lookAgain(moveInterval)
			continue
		}
		p.leaves[name] = why
		*in, *d = trial, t
	}
}

// moveInterval is how often it is looked whether another member can take a run that does not get going.
const moveInterval = 15 * time.Second

// withoutLeft are the candidates for a run that leaves a member: neither that, nor one that it has left before.
func (p *pass) withoutLeft(candidates []placement.Candidate, name string) []placement.Candidate {
	out := slices.Clone(candidates)
	for i := range out {
		if out[i].Name == name {
			out[i].Unfit, out[i].Passing = "its run does not get going there", false
		} else if out[i].Avoid != "" && out[i].Unfit == "" {
			out[i].Unfit, out[i].Passing = out[i].Avoid, false
		}
	}
	return out
}

// avoid says why a member comes after all others: a run for what is wanted had to leave it.
func (p *pass) avoid(member string) string {
	for i := range p.ledger {
		run := &p.ledger[i]
		if run.Cluster == member && (run.State == v1alpha1.RunReplaced || run.State == v1alpha1.RunStopping) && p.wanted.IsFor(run) &&
			(run.Stop == v1alpha1.StopNotStarted || run.Stop == v1alpha1.StopLost) {
			return "run " + run.ID + " had to leave it (" + string(run.Stop) + ")"
		}
	}
	return ""
}

// overdue says that the live run on a member does not get going, and asks the member itself whether that is so.
func (p *pass) overdue(ctx context.Context, name string, patience runs.Patience) (leave, bool) {
	run := p.ledger.Last(name)
	member, err := p.r.Provider.Member(name)
	if err != nil {
		return leave{}, false // what is not known is no reason
	}
	key := p.keyOn(member)
	job, err := member.Job(ctx, key, p.origin, false)
	if err != nil {
		return leave{}, false
	}
	stuck := patience.StuckOn(run, observe(job), p.quorum())
	if stuck == nil || job == nil && p.queued(name) {
		return leave{}, false
	}
	if left := p.notBefore(name, stuck).Sub(p.r.Now()); left > 0 {
		p.lookAgain(left)
		return leave{}, false
	}
	// The cache may be behind: a run that has just begun is not to be stopped.
	if job, err = member.LiveJob(ctx, key, p.origin); err != nil {
		return leave{}, false
	}
	stuck = patience.StuckOn(run, observe(job), p.quorum())
	if stuck == nil || stuck.Until.After(p.r.Now()) {
		return leave{}, false
	}
	if job == nil {
		if refusal := p.refusal(name); refusal != "" {
			stuck.Why, stuck.Fact = stuck.Why+": "+refusal, stuck.Fact+": "+refusal
		}
	}
	return leave{stuck.Stop, stuck.Why, stuck.Fact}, true
}

// refusal is what a member said when it was last asked to create something for the run there; empty if nothing.
func (p *pass) refusal(member string) string {
	for _, c := range p.fmc.Status.Clusters {
		if c.Name == member && c.Reason == v1alpha1.ReasonApplyFailed {
			return sanitize.Text(c.Message, sanitize.MaxNote)
		}
	}
	return ""
}

// notBefore is when patience with a run that does not get going ends. A member that has just come back may not know yet
// what its nodes do: a control plane that was down has heard nothing of their pods.
func (p *pass) notBefore(name string, stuck *runs.Stuck) time.Time {
	state, _ := p.r.Provider.State(name)
	if settled := state.Since.Add(min(stuck.Patience, returnGrace)); settled.After(stuck.Until) {
		return settled
	}
	return stuck.Until
}

// returnGrace is how long a member that has come back is given to learn how its nodes and pods are. Kubelets renew
// their leases every ten seconds, and report what has changed as often.
const returnGrace = time.Minute

// queued says whether the Job on a member is released by a queue there, or may be. One that arrives late is, too, so
// that its run cannot be given up before it was seen.
func (p *pass) queued(member string) bool {
	v, err := p.variant(member)
	return err != nil || clusters.Queued(v.Spec.JobLabels)
}

// quorum is how many of its pods a MiniCluster needs to begin; 0: all of them.
func (p *pass) quorum() int32 { return p.fmc.Spec.MiniCluster.MinSize }

// patienceOf is what a placement says of runs that do not get going.
func patienceOf(spec *v1alpha1.PlacementSpec) runs.Patience {
	var out runs.Patience
	if spec.PendingTimeout != nil {
		out.Pending = spec.PendingTimeout.Duration
	}
	if f := spec.Failover; f != nil && f.Fencing != v1alpha1.FenceManual {
		out.Lost = time.Duration(f.AfterSeconds) * time.Second
	}
	return out
}

// track notes in the ledger how a live run gets on.
func (p *pass) track(s *site) {
	last := p.ledger.Last(s.name)
	if last == nil {
		return
	}
	run := runs.Track(*last, s.job, p.quorum(), p.now())
	if !run.LostTime.Equal(last.LostTime) || !run.RunningTime.Equal(last.RunningTime) || !run.PendingSince.Equal(last.PendingSince) {
		p.replaceLast(run)
	}
}

// lose notes in the ledger that a live run has not been heard of for longer than its placement allows. Should
// its member return without the run, it is known to be gone, and may run elsewhere.
func (p *pass) lose(s *site) {
	last := p.ledger.Last(s.name)
	if s.lost == nil || s.unregistered || p.failover == nil || last == nil || last.State.Ended() || s.heard.IsZero() {
		return
	}
	after := time.Duration(p.failover.AfterSeconds) * time.Second
	if left := s.heard.Add(after).Sub(p.r.Now()); left > 0 {
		p.lookAgain(left)
		return
	}
	mend := fmt.Sprintf("when you have made sure that it is gone: kubectl annotate --overwrite -n %s fmc %s %s=%s",
		p.fmc.Namespace, p.fmc.Name, v1alpha1.AnnotationRunGone, last.ID)
	if p.failover.Fencing == v1alpha1.FenceManual {
		s.lost.Message = fmt.Sprintf("run %s is lost for longer than %s, and may go on there (failover, fencing: Manual); %s; %s", last.ID, after, mend, s.lost.Message)
		return
	}
	s.lost.Message = fmt.Sprintf("run %s is lost for longer than %s, and starts elsewhere once it is proven gone: the member has to answer that it has no pod of it; or, %s; %s",
		last.ID, after, mend, s.lost.Message)
	if last.LostTime == nil {
		run := *last
		heard := metav1.NewTime(s.heard).Rfc3339Copy()
		run.LostTime = &heard
		p.replaceLast(run)
		p.note("Warning", v1alpha1.ReasonRunLost, "Observe", s.name, run.ID, s.name+": "+s.lost.Message)
	}
}

// vacating says that no new run may begin only because another one is on its way out: room is kept for it.
func (p *pass) vacating() bool {
	for _, name := range p.ledger.Live() {
		if p.decision != nil && slices.Contains(p.decision.Clusters, name) {
			continue
		}
		if _, leaves := p.leaves[name]; !leaves && p.ledger.Last(name).State != v1alpha1.RunStopping {
			return false
		}
	}
	return true
}

// awaited says that a run is to begin on a member as soon as another one is gone elsewhere.
func (p *pass) awaited(member string) bool {
	return p.problem == nil && !p.wanted.Suspend && p.decision != nil && slices.Contains(p.decision.Clusters, member) && p.hold() != "" && p.vacating()
}

// attempt is that of a run that is about to begin: a run that had to leave another member takes its own with it.
func (p *pass) attempt(last *v1alpha1.Run) int32 {
	n := p.wanted.Attempt(last)
	for i := len(p.ledger) - 1; i >= 0 && p.wanted.IsFor(&p.ledger[i]); i-- {
		if run := &p.ledger[i]; run.State == v1alpha1.RunReplaced && run.Stop != v1alpha1.StopChanged {
			n = max(n, run.Attempt)
		}
	}
	return n
}
