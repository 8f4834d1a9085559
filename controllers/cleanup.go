package controllers

import (
	"context"
	"errors"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

// tidies says whether everything of a run is to go from its member: it has ended, and the MiniCluster asks
// to be cleaned up then.
func (p *pass) tidies(last *v1alpha1.Run) bool {
	return p.wanted.Cleanup && p.wanted.IsCurrent(last) && last.State.Ended()
}

// tidy removes what is left of a run that has ended, once its Job is gone (runs.Next sees to that).
func (p *pass) tidy(ctx context.Context, s *site) {
	if s.lost != nil || s.failed != nil || s.still || s.job != nil || !s.chosen || !p.tidies(p.ledger.Last(s.name)) {
		return
	}
	left, err := p.anythingLeft(ctx, s)
	if err == nil && left {
		var gone bool
		if gone, err = s.member.Cleanup(ctx, p.key(s).Namespace, p.fmc.Name, p.origin); !gone {
			s.again = goneInterval
		}
	}
	if err != nil {
		p.fail(s, err)
	}
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
	pod, err := s.member.ServicesPod(ctx, p.servicesKey(s), p.origin)
	return pod != nil, err
}
