package controllers

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// admit lets a live run take more room than it has, in its turn: one that is resumed once all of its pods have some,
// since they start together; one that is to be larger as far as there is some, since Flux lets brokers join later.
func (p *pass) admit(s *site, step runs.Step) runs.Step {
	s.size = p.wanted.SizeFor(p.ledger.Last(s.name), s.job)
	resumes := s.job.Suspended && s.job.SuspendedByUs
	if p.wanted.Suspend || s.job.Suspended && !resumes || !resumes && s.size <= s.job.Size {
		return step // it takes no more than it has
	}
	b, key := &p.r.book, client.ObjectKeyFromObject(p.fmc)
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, claimed := b.claimOf(s.name, key); claimed && s.job.Unreleased {
		return step // it has had its room since it was placed
	}
	gang := gangOfJob(s.rawJob, nil)
	if own, err := p.gang(s.name); err == nil && p.wanted.IsCurrent(p.ledger.Last(s.name)) {
		gang.Beside = own.Beside
	}
	gang.Size = 1
	if resumes {
		gang.Size = max(int(s.size-s.job.Pods.Succeeded), 0)
	}
	if p.unlisted(s.name) {
		return p.listFirst(s, gang)
	}
	var miss string
	if resumes {
		miss = p.resume(s, gang)
	} else {
		miss = p.grow(s, gang)
	}
	if miss != "" {
		s.lookAgain(waitInterval) // so that what it says is never old
		return runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonInsufficientCapacity, Message: sanitize.Text(miss, sanitize.MaxNote)}
	}
	gang.Size = int(s.size)
	b.claim(s.name, key, claim{run: p.ledger.Last(s.name).ID, gang: gang, done: int(s.job.Pods.Succeeded)})
	s.admitted = true
	return step
}

// resume says what keeps a suspended run from being resumed; nothing, if nothing does. The book is locked.
func (p *pass) resume(s *site, gang fit.Gang) string {
	room := p.roomFor(s.member, gang)
	if room.Miss == "" {
		return ""
	}
	s.needs = &gang
	return "it is resumed when all of its pods have room; " + room.Miss
}

// grow makes the site's size as large as there is room for, and says what keeps even one pod more away; nothing, if
// nothing does. The book is locked.
func (p *pass) grow(s *site, one fit.Gang) string {
	b, key := &p.r.book, client.ObjectKeyFromObject(p.fmc)
	nodes, state := b.nodes(s.member, key)
	if state != nodeusage.Known {
		return ""
	}
	has := int(s.job.Size)
	scheduled := s.member.Room().Scheduled(s.job.RunID)
	if old, ok := b.claimOf(s.name, key); ok && old.run == s.job.RunID {
		has = max(has, old.gang.Size) // the Job was resized just now, and the cache is behind
	}
	fit.Reserve(nodes, one.Pod, has-int(s.job.Pods.Succeeded)-scheduled.Pods)
	if one.Beside != nil {
		fit.Reserve(nodes, *one.Beside, 1-scheduled.Services)
		one.Beside = nil
	}
	more := int(s.size) - has
	if more <= 0 {
		return ""
	}
	res := fit.Check(nodes, fit.Gang{Pod: one.Pod, Size: more})
	miss := res.Miss
	delete(p.behind, s.name)
	if w := b.ahead(s.name, nodes, rankOf(p.fmc), one); w != nil {
		p.standBehind(s.name, w.key)
		res.Pods, miss = 0, w.turn()
	}
	if res.Pods > 0 {
		//nolint:gosec // no more than is asked for
		s.size = int32(has + res.Pods)
		return ""
	}
	s.needs = &one
	return fmt.Sprintf("it has %d pods, and gets %d more as they have room; %s", has, more, miss)
}

// standBehind notes who comes before the MiniCluster on a member. The book is locked.
func (p *pass) standBehind(member string, ahead types.NamespacedName) {
	if p.behind == nil {
		p.behind = map[string]types.NamespacedName{}
	}
	p.behind[member] = ahead
}

// listFirst waits until it is known what a member has free, in the line of those that wait there. The book is locked.
func (p *pass) listFirst(s *site, gang fit.Gang) runs.Step {
	s.needs = &gang
	p.r.book.ask(s.name, client.ObjectKeyFromObject(p.fmc))
	s.lookAgain(failedInterval) // if the news that they are listed does not come first
	return runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonConnecting, Message: unlisted}
}
