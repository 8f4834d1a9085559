// Package probes remembers what members said about runs whose pods are not all ready, and says when to ask them again. In
// come numbers of pods and answers; out come times and the last answer.
package probes

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// Intervals between probes.
type Intervals struct {
	// First is how long not all pods of a run have been ready before the member is asked why: what starts fast costs
	// nothing.
	First time.Duration
	// Min is between two probes, whatever happens; Default and Max are where nothing does.
	Min, Default, Max time.Duration
}

// DefaultIntervals are those of the product.
func DefaultIntervals() Intervals {
	return Intervals{First: 5 * time.Second, Min: 5 * time.Second, Default: 10 * time.Second, Max: time.Minute}
}

// Probes remember what members said about runs whose pods are not all ready, and when to ask them again.
type Probes struct {
	Intervals Intervals

	mu     sync.Mutex
	of     map[types.NamespacedName]map[string]*Probe // by FleetMiniCluster and member
	limits map[string]*rate.Limiter                   // by member
}

// Of one member no more is asked than this, however many runs have pods that are not ready: after a large push, whose images are
// pulled for longer than Intervals.First, the questions would compete with the Jobs that are still to be created.
const (
	perSecond = 5
	burst     = 20
)

// Allowed says whether a member may be asked one question more now, and counts it.
func (p *Probes) Allowed(member string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limits == nil {
		p.limits = map[string]*rate.Limiter{}
	}
	if p.limits[member] == nil {
		p.limits[member] = rate.NewLimiter(perSecond, burst)
	}
	return p.limits[member].AllowN(now, 1)
}

// Probe is that of one run on one member. Only the reconciliations of its FleetMiniCluster use it, one after the other.
type Probe struct {
	run string
	// Found is what the last one has found, nil if nothing.
	Found *fleet.PodIssue
	// pods are those of the last probe, at is when that was; zero before the first.
	pods v1alpha1.PodCounts
	at   time.Time
	// next is when the next is due, if nothing happens, and interval the time that comes before it.
	next     time.Time
	interval time.Duration

	intervals *Intervals
}

// Get returns the probe of a run, and makes one, due at first, where there is none.
func (p *Probes) Get(key types.NamespacedName, member, run string, first time.Time) *Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[types.NamespacedName]map[string]*Probe{}
	}
	if p.of[key] == nil {
		p.of[key] = map[string]*Probe{}
	}
	if have := p.of[key][member]; have != nil && have.run == run {
		return have
	}
	made := &Probe{run: run, next: first, intervals: &p.Intervals}
	p.of[key][member] = made
	return made
}

// Issue is what the last probe of a run has found, nil if nothing.
func (p *Probes) Issue(key types.NamespacedName, member, run string) *fleet.PodIssue {
	p.mu.Lock()
	defer p.mu.Unlock()
	if have := p.of[key][member]; have != nil && have.run == run {
		return have.Found
	}
	return nil
}

// Drop forgets the probe of a member.
func (p *Probes) Drop(key types.NamespacedName, member string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if delete(p.of[key], member); len(p.of[key]) == 0 {
		delete(p.of, key)
	}
}

// Forget forgets a FleetMiniCluster.
func (p *Probes) Forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, key)
}

// IsFirst says that there has been none yet.
func (p *Probe) IsFirst() bool { return p.at.IsZero() }

// Due is how long it is until the next probe: sooner if the pods are not those of the last one any more.
func (p *Probe) Due(pods v1alpha1.PodCounts, now time.Time) time.Duration {
	next := p.next
	if sooner := p.at.Add(p.intervals.Min); !p.at.IsZero() && pods != p.pods && sooner.Before(next) {
		next = sooner
	}
	return next.Sub(now)
}

// Done notes a probe, or that it was not allowed, so that the next is tried when it would come after one. While nothing changes they come ever more rarely.
func (p *Probe) Done(pods v1alpha1.PodCounts, now time.Time) {
	if p.interval = min(2*p.interval, p.intervals.Max); p.interval == 0 || pods != p.pods {
		p.interval = p.intervals.Default
	}
	p.pods, p.at, p.next = pods, now, now.Add(p.interval)
}
