package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/override"
	"github.com/minifleet/minifleet/internal/placement"
	"github.com/minifleet/minifleet/internal/render"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

const (
	// waitInterval is how often those that wait for room look by themselves, so that what they say of it is
	// never old.
	waitInterval = time.Minute
	// freshInterval is the shortest time between two looks at the first in line merely for its words.
	freshInterval = 5 * time.Second
)

func rankOf(fmc *v1alpha1.FleetMiniCluster) rank {
	return rank{priority: fmc.Spec.Priority, created: fmc.CreationTimestamp.Time, key: client.ObjectKeyFromObject(fmc)}
}

// gangOf is the pods that a MiniCluster will have. The spec may be known to be valid.
func gangOf(fmc *v1alpha1.FleetMiniCluster, spec *fluxv1alpha2.MiniClusterSpec, valid bool) (fit.Gang, error) {
	job, services, err := render.Pods(render.Input{Name: fmc.Name, Namespace: fmc.Namespace, Spec: *spec, Valid: valid})
	if err != nil {
		return fit.Gang{}, err
	}
	return gangOfJob(job, services), nil
}

func gangOfJob(job *batchv1.Job, services *corev1.Pod) fit.Gang {
	g := fit.Gang{Pod: fit.PodOf(&job.Spec.Template.Spec), Size: int(value(job.Spec.Completions))}
	if services != nil {
		p := fit.PodOf(&services.Spec)
		g.Beside = &p
	}
	return g
}

// room tells how the MiniCluster fits on a member now. Its own pods there are counted as gone: a new run
// begins when the one before has ended. The book is locked.
func (p *pass) room(name string) placement.Room {
	anything := placement.Room{Share: 1}
	m, err := p.r.Provider.Member(name)
	if err != nil {
		return anything // it is unfit, or about to be
	}
	gang, err := p.gang(name)
	if err != nil {
		return anything // which is told when it is to be rendered
	}
	return p.roomFor(m, gang)
}

// roomFor tells how a gang fits on a member now. The book is locked.
func (p *pass) roomFor(m *clusters.Member, gang fit.Gang) placement.Room {
	name := m.Name
	nodes, state := p.r.book.nodes(m, client.ObjectKeyFromObject(p.fmc), p.ownRuns(name)...)
	if state != nodeusage.Known {
		return placement.Room{Share: 1}
	}
	res := fit.Check(nodes, gang)
	out := placement.Room{Share: 1, Free: freeOf(res.Free)}
	delete(p.behind, name)
	if !res.Fits {
		out.Share = float64(res.Pods) / float64(max(gang.Size, 1))
		out.Miss = res.Miss
		if !fit.Holds(nodes, gang) {
			out.Miss += "; they would not fit either if every run there had ended"
		}
	} else if w := p.r.book.ahead(name, nodes, rankOf(p.fmc), gang); w != nil {
		out.Miss = w.turn()
		p.standBehind(name, w.key)
	}
	out.Miss = sanitize.Text(out.Miss, sanitize.MaxNote) // names of nodes and taints are the member's own
	return out
}

func freeOf(amounts fleet.Amounts) *placement.Free {
	f := &placement.Free{CPU: amounts[corev1.ResourceCPU], Memory: amounts[corev1.ResourceMemory]}
	for name, n := range amounts {
		if strings.HasSuffix(string(name), "/gpu") {
			f.GPU += n
		}
	}
	return f
}

// ownRuns are the ids of the MiniCluster's runs on a member.
func (p *pass) ownRuns(member string) []string {
	var out []string
	for i := range p.ledger {
		if p.ledger[i].Cluster == member {
			out = append(out, p.ledger[i].ID)
		}
	}
	return out
}

const unlisted = "its nodes and pods have not been listed yet"

// unlisted says that a member's nodes and pods are still being listed.
func (p *pass) unlisted(name string) bool {
	m, err := p.r.Provider.Member(name)
	return err == nil && m.RoomState() == nodeusage.Pending
}

// ask wants to be told when the room of members becomes known, if more are wanted than were chosen without
// knowing it. The book is locked.
func (p *pass) ask() {
	if len(p.decision.Clusters) >= int(p.decision.Wanted) {
		return
	}
	for _, name := range p.unsure {
		p.r.book.ask(name, client.ObjectKeyFromObject(p.fmc))
	}
}

// take claims the room for what is about to begin. The book is locked.
func (p *pass) take(keep []string) {
	if p.problem != nil || p.wanted.Suspend || p.hold() != "" && !p.vacating() {
		return
	}
	for _, name := range p.decision.Clusters {
		last := p.ledger.Last(name)
		unsure := slices.Contains(p.unsure, name) && p.hold() == ""
		if slices.Contains(keep, name) || unsure || last != nil && !last.State.Ended() {
			continue
		}
		if gang, err := p.gang(name); err == nil {
			p.r.book.claim(name, client.ObjectKeyFromObject(p.fmc), claim{gang: gang})
		}
	}
}

// gate lets a run begin if overrides make a MiniCluster for its member, and its room is claimed, or can be. The
// room of one that follows another on the same member could not be claimed before that had ended. A live run that
// is to take more room goes through here as well.
func (p *pass) gate(s *site, step runs.Step) runs.Step {
	s.needs, s.admitted = nil, false
	if step.Action == runs.Adjust {
		return p.admit(s, step)
	}
	if step.Action != runs.Begin && step.Action != runs.Create {
		return step
	}
	if _, err := p.variant(s.name); err != nil {
		s.failed = &rollup.Problem{Reason: v1alpha1.ReasonInvalidOverride, Message: sanitize.Text(err.Error(), sanitize.MaxMessage)}
		return runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonInvalidOverride, Message: err.Error()}
	}
	if step.Action == runs.Create {
		return step
	}
	if why := p.closed[s.name]; why != "" {
		return runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonMemberClosed, Message: "no new run begins on a member that " + why}
	}
	b, key := &p.r.book, client.ObjectKeyFromObject(p.fmc)
	b.mu.Lock()
	defer b.mu.Unlock()
	gang, err := p.gang(s.name)
	if p.unlisted(s.name) {
		return p.listFirst(s, gang)
	}
	if c, ok := b.claimOf(s.name, key); ok && c.run == "" {
		return step
	}
	if miss := p.room(s.name).Miss; miss != "" {
		s.lookAgain(soon) // to be placed anew
		return runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonInsufficientCapacity, Message: miss}
	}
	if err == nil {
		b.claim(s.name, key, claim{gang: gang})
	}
	return step
}

// soon is when to look again at what is known to have changed in this pass.
const soon = 100 * time.Millisecond

// settle brings the book in line with the ledger that was just written, and wakes those whom it concerns.
func (p *pass) settle() {
	b, key := &p.r.book, client.ObjectKeyFromObject(p.fmc)
	b.mu.Lock()
	live := map[string]bool{}
	var concerned []string
	for _, s := range p.sites {
		last := p.ledger.Last(s.name)
		if last == nil || last.State.Ended() || s.job != nil && s.job.RunID == last.ID && (s.job.Finished || p.idles(s)) {
			continue
		}
		live[s.name] = true
		if s.admitted {
			continue // the Job as it was seen does not show yet what it was given
		}
		if c, changed := p.liveClaim(s, last); changed {
			b.claim(s.name, key, c)
			concerned = append(concerned, s.name) // it may need less than before
		}
	}
	concerned = append(concerned, b.release(key, func(member string) bool { return live[member] || p.awaited(member) })...)
	concerned = append(concerned, b.wait(key, p.waiter())...)
	b.mu.Unlock()
	p.r.wake(concerned)
	if p.decision != nil && len(p.decision.Waiting) > 0 {
		p.lookAgain(waitInterval)
	}
}

// idles says whether a live run needs no room: it is suspended, and neither about to be released nor resumed.
func (p *pass) idles(s *site) bool {
	return s.job.SuspendedByUs && !s.admitted && (p.wanted.Suspend || !s.job.Unreleased)
}

// liveClaim is what a live run has claimed, and whether that is news. The Job knows best what its pods need:
// the spec may have changed since it was made. The book is locked.
func (p *pass) liveClaim(s *site, last *v1alpha1.Run) (claim, bool) {
	old, had := p.r.book.claimOf(s.name, client.ObjectKeyFromObject(p.fmc))
	next := old
	next.run = last.ID
	if s.rawJob != nil && s.job != nil && s.job.RunID == last.ID {
		next.done = int(s.job.Pods.Succeeded)
		if !had || old.gang.Size != int(s.job.Size) || old.run != "" && old.run != last.ID {
			gang := gangOfJob(s.rawJob, nil)
			gang.Beside = old.gang.Beside
			next.gang = gang
		}
	} else if !had {
		gang, err := p.gang(s.name)
		if err != nil {
			return claim{}, false
		}
		next.gang = gang
	}
	return next, !had || next.run != old.run || next.done != old.done || next.gang.Size != old.gang.Size
}

// waiter is what waits for room, or nil if nothing would begin even if there were some. The book is locked.
func (p *pass) waiter() *waiter {
	w := &waiter{rank: rankOf(p.fmc), members: map[string]fit.Gang{}, behind: p.behind, looked: p.r.Now()}
	if p.problem == nil && !p.wanted.Suspend && p.decision != nil && p.hold() == "" {
		for _, name := range p.lacking {
			last := p.ledger.Last(name)
			if gang, err := p.gang(name); err == nil && (last == nil || last.State.Ended()) {
				w.members[name] = gang
			}
		}
	}
	old, waited := p.r.book.waiters[client.ObjectKeyFromObject(p.fmc)]
	for _, s := range p.sites {
		switch {
		case s.needs != nil:
			w.members[s.name] = *s.needs
		case waited && s.connecting: // what it waited for it still does, as far as anybody knows
			if gang, here := old.on(s.name); here {
				w.members[s.name] = gang
			}
		}
	}
	if len(w.members) == 0 {
		return nil
	}
	return w
}

// leaveBook forgets a MiniCluster that is gone, or, with waiting, merely that it waits.
func (r *FleetMiniClusterReconciler) leaveBook(key types.NamespacedName, waiting bool) {
	r.book.mu.Lock()
	concerned := r.book.wait(key, nil)
	if !waiting {
		concerned = append(concerned, r.book.release(key, func(string) bool { return false })...)
	}
	r.book.mu.Unlock()
	r.wake(concerned)
}

// wake has those looked at that may have room on a member now. The book is not locked.
func (r *FleetMiniClusterReconciler) wake(members []string) {
	if r.Wake == nil {
		return
	}
	slices.Sort(members)
	for _, member := range slices.Compact(members) {
		r.Wake(member)
	}
}

// waitingOn are those to look at when there is other room on a member: whom that concerns and, when the room
// has become known, those that had to go without knowing.
func (r *FleetMiniClusterReconciler) waitingOn(_ context.Context, member string) []mcreconcile.Request {
	m, err := r.Provider.Member(member)
	if err != nil {
		return nil
	}
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	keys := r.book.stirred(m, r.Now())
	if m.RoomState() != nodeusage.Pending {
		keys = append(keys, r.book.learn(m)...)
	}
	return requests(keys)
}

// prime fills the book from the ledgers, once. The book is locked.
func (r *FleetMiniClusterReconciler) prime(ctx context.Context) error {
	if r.book.primed {
		return nil
	}
	var list v1alpha1.FleetMiniClusterList
	if err := r.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("listing FleetMiniClusters: %w", err)
	}
	var members v1alpha1.MemberClusterList
	if err := r.Client.List(ctx, &members); err != nil {
		return fmt.Errorf("listing MemberClusters: %w", err)
	}
	labels := map[string]map[string]string{}
	for i := range members.Items {
		labels[members.Items[i].Name] = members.Items[i].Labels
	}
	for i := range list.Items {
		r.primeWith(ctx, &list.Items[i], labels)
	}
	r.book.primed, r.book.since = true, r.Now()
	return nil
}

// waitReasons are those of the condition Ready of whom that waits for room.
var waitReasons = []string{v1alpha1.ReasonInsufficientCapacity, v1alpha1.ReasonConnecting}

// primeWith claims what the live runs of a MiniCluster take, and lets it wait if it did. The passes that
// follow, in which the Jobs are seen, correct what edits have changed since.
func (r *FleetMiniClusterReconciler) primeWith(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, labels map[string]map[string]string) {
	key, ledger := client.ObjectKeyFromObject(fmc), runs.Ledger(fmc.Status.Runs)
	ready := meta.FindStatusCondition(fmc.Status.Conditions, v1alpha1.ConditionReady)
	waits := ready != nil && slices.Contains(waitReasons, ready.Reason) && fmc.DeletionTimestamp.IsZero()
	live := ledger.Live()
	if fmc.Spec.Suspend || len(live) == 0 && !waits {
		return
	}
	gang, err := gangOf(fmc, &fmc.Spec.MiniCluster, false)
	if err != nil {
		return // such a spec starts nothing; what is live tells when it is looked at
	}
	var overrides []v1alpha1.ClusterOverride
	if spec, err := r.placementOf(ctx, fmc); err == nil {
		overrides = spec.Overrides
	}
	if waits {
		r.book.wait(key, &waiter{rank: rankOf(fmc), anywhere: &gang})
	}
	told := map[string]v1alpha1.ClusterStatus{}
	for _, c := range fmc.Status.Clusters {
		told[c.Run] = c
	}
	for _, member := range live {
		id := ledger.Last(member).ID
		if told[id].Health == v1alpha1.Suspended && told[id].Reason == v1alpha1.ReasonInsufficientCapacity {
			continue // it waits to be resumed
		}
		if _, ok := r.book.claimOf(member, key); !ok {
			g := overriddenGang(fmc, overrides, labels[member], gang)
			r.book.claim(member, key, claim{run: id, gang: g, done: int(told[id].Pods.Succeeded)})
		}
	}
}

// overriddenGang is what overrides make of a gang, if they do.
func overriddenGang(fmc *v1alpha1.FleetMiniCluster, overrides []v1alpha1.ClusterOverride, labels map[string]string, gang fit.Gang) fit.Gang {
	v, err := override.Apply(fmc.Name, &fmc.Spec.MiniCluster, overrides, labels)
	if err != nil || v.Digest == "" {
		return gang
	}
	if g, err := gangOf(fmc, &v.Spec, false); err == nil {
		return g
	}
	return gang
}

// liveRuns is how many runs of this fleet are live on a member. The book is locked.
func (b *book) liveRuns(member string) int { return len(b.claims[member]) }
