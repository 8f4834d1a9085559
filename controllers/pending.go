package controllers

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

const (
	// firstLook is how long not all pods of a run have been ready before the member is asked why: what starts
	// fast costs nothing.
	firstLook = 5 * time.Second
	// leastLook is between two questions, whatever happens; nextLook and mostLook are where nothing does.
	leastLook = 5 * time.Second
	nextLook  = 10 * time.Second
	mostLook  = time.Minute
	// maxObstacle is the length of a member's words about it, in bytes.
	maxObstacle = 800
)

// looks remember what members said about runs whose pods are not all ready, and when to ask them again.
type looks struct {
	mu sync.Mutex
	of map[types.NamespacedName]map[string]*look // by FleetMiniCluster and member
}

// look is that of one run on one member. Only the passes of its FleetMiniCluster touch it, one after the other.
type look struct {
	run   string
	found *fleet.PodIssue
	// pods are those of the last look, at is when that was; zero before the first.
	pods v1alpha1.PodCounts
	at   time.Time
	// next is when the next is due, if nothing happens, and wait the time that comes before it.
	next time.Time
	wait time.Duration
}

// get returns the look of a run, and makes one, due at first, where there is none.
func (l *looks) get(key types.NamespacedName, member, run string, first time.Time) *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[types.NamespacedName]map[string]*look{}
	}
	if l.of[key] == nil {
		l.of[key] = map[string]*look{}
	}
	if k := l.of[key][member]; k != nil && k.run == run {
		return k
	}
	k := &look{run: run, next: first}
	l.of[key][member] = k
	return k
}

// found is what was found at the last look at a run.
func (l *looks) found(key types.NamespacedName, member, run string) *fleet.PodIssue {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.of[key][member]; k != nil && k.run == run {
		return k.found
	}
	return nil
}

// drop forgets the look at a member.
func (l *looks) drop(key types.NamespacedName, member string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.of[key], member); len(l.of[key]) == 0 {
		delete(l.of, key)
	}
}

// forget forgets a FleetMiniCluster.
func (l *looks) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, key)
}

// due is how long it is until the next look: sooner if the pods are not those of the last one any more.
func (k *look) due(pods v1alpha1.PodCounts, now time.Time) time.Duration {
	next := k.next
	if soon := k.at.Add(leastLook); !k.at.IsZero() && pods != k.pods && soon.Before(next) {
		next = soon
	}
	return next.Sub(now)
}

// looked notes a look. While nothing changes they come ever more rarely.
func (k *look) looked(pods v1alpha1.PodCounts, now time.Time) {
	if k.wait = min(2*k.wait, mostLook); k.wait == 0 || pods != k.pods {
		k.wait = nextLook
	}
	k.pods, k.at, k.next = pods, now, now.Add(k.wait)
}

// unready says whether the pods of a live run are not all ready, though nobody keeps them from it.
func unready(last *v1alpha1.Run, job *runs.Job) bool {
	return last != nil && last.State == v1alpha1.RunRunning && job != nil && job.RunID == last.ID &&
		!job.Finished && !job.Deleting && !job.Suspended && job.Pods.Ready+job.Pods.Succeeded < job.Pods.Desired
}

// askWhy finds out why not all pods of a live run are ready. A member that gives no answer has said nothing
// new, and that is all: whether it is lost is found out elsewhere.
func (p *pass) askWhy(ctx context.Context, s *site) {
	key, last := client.ObjectKeyFromObject(p.fmc), p.ledger.Last(s.name)
	if s.lost != nil || !unready(last, s.job) {
		p.r.looks.drop(key, s.name)
		return
	}
	now := p.r.Now()
	first := now
	if !p.toldOf(s.name, last.ID) {
		first = now.Add(firstLook)
	}
	k := p.r.looks.get(key, s.name, last.ID, first)
	if k.due(s.job.Pods, now) <= 0 {
		o, err := s.member.PodIssue(ctx, s.rawJob, now)
		if found := disarmed(o); err == nil && !found.Repeats(k.found) {
			k.found = found
		}
		k.looked(s.job.Pods, now)
	}
	s.lookAgain(k.due(s.job.Pods, now))
}

// obstacle is what the member has said when it was last asked.
func (p *pass) obstacle(s *site) *fleet.PodIssue {
	last := p.ledger.Last(s.name)
	if s.lost != nil || !unready(last, s.job) {
		return nil
	}
	return p.r.looks.found(client.ObjectKeyFromObject(p.fmc), s.name, last.ID)
}

// disarmed is an obstacle in words that are safe to be shown.
func disarmed(o *fleet.PodIssue) *fleet.PodIssue {
	if o == nil {
		return nil
	}
	return &fleet.PodIssue{
		Reason: o.Reason, Message: sanitize.Text(o.Message, maxObstacle), Pod: sanitize.Text(o.Pod, 253), Pods: o.Pods, AtLeast: o.AtLeast,
	}
}

// toldOf says whether the status tells something of a run already: after a start of the hub it is to be
// found out again at once.
func (p *pass) toldOf(member, run string) bool {
	for _, c := range p.fmc.Status.Clusters {
		if c.Name == member && c.Run == run {
			return c.Message != ""
		}
	}
	return false
}
