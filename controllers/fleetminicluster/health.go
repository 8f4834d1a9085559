package fleetminicluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/sanitize"
)

const (
	// firstProbe is how long not all pods of a run have been ready before the member is asked why: what starts
	// fast costs nothing.
	firstProbe = 5 * time.Second
	// minProbeInterval is between two probes, whatever happens; probeInterval and maxProbeInterval are where nothing
	// does.
	minProbeInterval = 5 * time.Second
	probeInterval    = 10 * time.Second
	maxProbeInterval = time.Minute
	// maxIssueMessage is the length of a member's message about pods that are not ready, in bytes.
	maxIssueMessage = 800
)

// probes remember what members said about runs whose pods are not all ready, and when to ask them again.
type probes struct {
	mu sync.Mutex
	of map[types.NamespacedName]map[string]*probe // by FleetMiniCluster and member
}

// probe is that of one run on one member. Only the reconciliations of its FleetMiniCluster use it, one after the other.
type probe struct {
	run   string
	found *fleet.PodIssue
	// pods are those of the last probe, at is when that was; zero before the first.
	pods v1alpha1.PodCounts
	at   time.Time
	// next is when the next is due, if nothing happens, and interval the time that comes before it.
	next     time.Time
	interval time.Duration
}

// get returns the probe of a run, and makes one, due at first, where there is none.
func (p *probes) get(key types.NamespacedName, member, run string, first time.Time) *probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[types.NamespacedName]map[string]*probe{}
	}
	if p.of[key] == nil {
		p.of[key] = map[string]*probe{}
	}
	if have := p.of[key][member]; have != nil && have.run == run {
		return have
	}
	made := &probe{run: run, next: first}
	p.of[key][member] = made
	return made
}

// issue is what the last probe of a run has found, nil if nothing.
func (p *probes) issue(key types.NamespacedName, member, run string) *fleet.PodIssue {
	p.mu.Lock()
	defer p.mu.Unlock()
	if have := p.of[key][member]; have != nil && have.run == run {
		return have.found
	}
	return nil
}

// drop forgets the probe of a member.
func (p *probes) drop(key types.NamespacedName, member string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if delete(p.of[key], member); len(p.of[key]) == 0 {
		delete(p.of, key)
	}
}

// forget forgets a FleetMiniCluster.
func (p *probes) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, key)
}

// due is how long it is until the next probe: sooner if the pods are not those of the last one any more.
func (p *probe) due(pods v1alpha1.PodCounts, now time.Time) time.Duration {
	next := p.next
	if sooner := p.at.Add(minProbeInterval); !p.at.IsZero() && pods != p.pods && sooner.Before(next) {
		next = sooner
	}
	return next.Sub(now)
}

// done notes a probe. While nothing changes they come ever more rarely.
func (p *probe) done(pods v1alpha1.PodCounts, now time.Time) {
	if p.interval = min(2*p.interval, maxProbeInterval); p.interval == 0 || pods != p.pods {
		p.interval = probeInterval
	}
	p.pods, p.at, p.next = pods, now, now.Add(p.interval)
}

// probe finds out why not all pods of a live run are ready. A member that gives no answer has said nothing
// new, and that is all: whether it is lost is found out elsewhere.
func (c *reconciliation) probe(ctx context.Context, t *plan.Target) time.Duration {
	if !c.round.Unready(t) {
		c.probes.drop(c.key(), t.Name)
		return 0
	}
	now, run := c.Now(), c.round.Ledger.Last(t.Name).ID
	first := now
	if !toldOf(c.snapshot.Object, t.Name, run) {
		first = now.Add(firstProbe)
	}
	p, pods := c.probes.get(c.key(), t.Name, run, first), t.Observed.Job.Pods
	if p.due(pods, now) <= 0 {
		issue, err := c.members[t.Name].PodIssue(ctx, t.Observed.Object, now)
		if found := sanitized(issue); err == nil && !found.Repeats(p.found) {
			p.found = found
		}
		p.done(pods, now)
	}
	return p.due(pods, now)
}

// sanitized is an issue with text that is safe to be shown.
func sanitized(i *fleet.PodIssue) *fleet.PodIssue {
	if i == nil {
		return nil
	}
	return &fleet.PodIssue{
		Reason: i.Reason, Message: sanitize.Text(i.Message, maxIssueMessage), Pod: sanitize.Text(i.Pod, 253), Pods: i.Pods, AtLeast: i.AtLeast,
	}
}

// toldOf says whether the status tells something of a run already: after a restart of the hub it is to be
// found out again at once.
func toldOf(fmc *v1alpha1.FleetMiniCluster, member, run string) bool {
	for _, c := range fmc.Status.Clusters {
		if c.Name == member && c.Run == run {
			return c.Message != ""
		}
	}
	return false
}
