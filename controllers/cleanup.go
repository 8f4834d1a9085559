package controllers

import (
	"context"
	"errors"
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/clusters/copies"
	"github.com/minifleet/minifleet/internal/runs"
)

// tidies says whether everything of a run that has ended is to go from its member: at once, where the spec
// asks for that or holds no history of such runs, or after its time to live.
func (p *pass) tidies(s *site, last *v1alpha1.Run) bool {
	if !p.wanted.IsCurrent(last) || !last.State.Ended() {
		return false
	}
	spec, limit := &p.fmc.Spec, p.fmc.Spec.FailedRunsHistoryLimit
	if last.State == v1alpha1.RunSucceeded {
		limit = spec.SuccessfulRunsHistoryLimit
	}
	if spec.MiniCluster.Cleanup || limit != nil && *limit == 0 {
		return true
	}
	if spec.TTLSecondsAfterFinished == nil || last.CompletionTime == nil {
		return false
	}
	left := last.CompletionTime.Add(time.Duration(*spec.TTLSecondsAfterFinished) * time.Second).Sub(p.r.Now())
	s.lookAgain(left)
	return left <= 0
}

// limits are how many ended runs the ledger holds.
func (p *pass) limits() runs.Limits {
	return runs.Limits{Succeeded: p.fmc.Spec.SuccessfulRunsHistoryLimit, Others: p.fmc.Spec.FailedRunsHistoryLimit}
}

// tidy removes what is left of a run that has ended, once its Job is gone (runs.Next sees to that).
func (p *pass) tidy(ctx context.Context, s *site) {
	if s.lost != nil || s.failed != nil || s.still || s.job != nil || !s.chosen || !p.tidies(s, p.ledger.Last(s.name)) {
		return
	}
	left, err := p.anythingLeft(ctx, s)
	if err == nil && left {
		err = p.askHub(ctx)
	}
	if err == nil && left {
		var gone bool
		if gone, err = p.r.cleanup(ctx, s.member, p.fmc, p.ledger.Ended); !gone {
			s.lookAgain(goneInterval)
		}
	}
	p.failOrCatchUp(s, err)
}

// anythingLeft asks the cache, so that a MiniCluster that was cleaned up costs no requests.
func (p *pass) anythingLeft(ctx context.Context, s *site) (bool, error) {
	bundle, err := p.render(s, p.r.anyCert())
	if err != nil {
		return false, err
	}
	for _, obj := range bundle.support {
		d, err := s.member.Compare(ctx, obj, p.origin)
		var conflict *clusters.Conflict
		if errors.As(err, &conflict) {
			continue // somebody else's by now
		}
		if err != nil {
			return false, err
		}
		if d != clusters.Absent {
			return true, nil
		}
	}
	if pod, err := s.member.ServicesPod(ctx, p.servicesKey(s), p.origin); err != nil || pod != nil {
		return pod != nil, err
	}
	if p.r.isHome(s.member, p.fmc.Namespace) {
		return false, nil
	}
	existing, err := copies.UsedBy(ctx, s.member, p.key(s).Namespace, p.origin.Owner, p.origin.HubUID)
	return len(existing) > 0, err
}
