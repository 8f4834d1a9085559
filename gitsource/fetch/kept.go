package fetch

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/minifleet/minifleet/gitsource/budget"
)

// reading is what is to be read of a repository.
type reading struct {
	want  target
	adv   *packp.AdvRefs
	paths []string
}

// readKept reads a commit that the server lists, with what is kept of the repository. Whatever is not as it should be with
// that, everything is received anew: there is no error but those of receiving it at once.
func (r *remote) readKept(ctx context.Context, kept *store, req Request, what reading) (*Result, error) {
	repo, release := kept.use(keyOf(req))
	defer release()
	undo := r.budget.Mark()
	p, err := r.added(ctx, kept, repo, what)
	if err == nil {
		res, err := r.read(p, what.want, what.paths, req)
		known := kept.held(repo)
		if p.below == nil || err == nil && known.lacks(p.lost) {
			return r.noteLost(kept, repo, p, res, err)
		}
	} else if !errors.Is(err, errNotAdded) || ctx.Err() != nil {
		return nil, err
	}
	undo()
	if p, err = r.anew(ctx, kept, repo, what); err != nil {
		return nil, err
	}
	res, err := r.read(p, what.want, what.paths, req)
	return r.noteLost(kept, repo, p, res, err)
}

// errNotAdded is what went wrong when something was to be added to what is kept. Everything may be received nevertheless.
var errNotAdded = errors.New("what is kept of the repository is of no use")

// noteLost remembers which objects the server does not send even when it sends everything.
func (r *remote) noteLost(kept *store, repo *repository, p *pack, res *Result, err error) (*Result, error) {
	if p.below == nil && len(p.lost) > 0 {
		kept.addLacking(repo, p.segment, p.lost)
	}
	return res, err
}

// added is what is kept of a repository with the wanted commit, which is received if it is not there yet.
func (r *remote) added(ctx context.Context, kept *store, repo *repository, what reading) (*pack, error) {
	if p := r.present(kept.held(repo), what.want.commit); p != nil {
		return p, nil
	}
	end := repo.take(ctx)
	defer end()
	if err := contextError(ctx); err != nil {
		return nil, err
	}
	known := kept.held(repo) // whoever had the turn may have received it
	if p := r.present(known, what.want.commit); p != nil {
		return p, nil
	}
	if !known.mayGrow(r.budget.Limits().MaxInflatedBytes) || !what.adv.Capabilities.Supports(capability.Shallow) {
		return r.download(ctx, kept, repo, what)
	}
	p, err := r.upload(ctx, r.addRequest(what, known), known.top)
	if failure := contextError(ctx); failure != nil {
		return nil, failure
	}
	if err != nil || !keep(kept, repo, p, what.want.commit) {
		return nil, errNotAdded
	}
	return p, nil
}

// present is a commit that is kept, nil without it.
func (r *remote) present(known held, commit plumbing.Hash) *pack {
	if known.commits[commit].IsZero() || r.budget.Spend(budget.PackObjects, known.top.objects, "") != nil {
		return nil
	}
	return newPack(known.top, r.budget)
}

// anew receives everything.
func (r *remote) anew(ctx context.Context, kept *store, repo *repository, what reading) (*pack, error) {
	end := repo.take(ctx)
	defer end()
	return r.download(ctx, kept, repo, what)
}

func (r *remote) download(ctx context.Context, kept *store, repo *repository, what reading) (*pack, error) {
	p, err := r.pack(ctx, what.want, what.adv)
	if err == nil {
		keep(kept, repo, p, what.want.commit) // what is wrong with it is for whoever reads it to say
	}
	return p, err
}

// keep has the store keep a pack that has what was asked for.
func keep(kept *store, repo *repository, p *pack, asked plumbing.Hash) (ok bool) {
	var err error
	defer func() { ok = ok && err == nil }()
	defer recovered(&err)
	commit, err := findCommit(p, asked)
	if err != nil {
		return false
	}
	kept.put(repo, p.segment, asked, commit.hash)
	return true
}

// addRequest asks for a commit at depth one, by who has others at that depth. The server may send differences from what it
// has sent before; without these, it sends everything.
func (r *remote) addRequest(what reading, known held) *packp.UploadPackRequest {
	req := r.uploadRequest(what.adv, []plumbing.Hash{what.want.commit}, true)
	req.Haves = slices.Collect(maps.Values(known.commits))
	req.Shallows = slices.Clone(req.Haves)
	_ = req.Capabilities.Set(capability.ThinPack) // which is not a conflict with any other
	return req
}
