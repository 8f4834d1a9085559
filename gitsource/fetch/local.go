package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/minifleet/minifleet/gitsource/budget"
)

// Local reads the manifests of a commit that is on this machine, by the same code and within the same limits as Fetch reads
// those of a server: what it finds is what a GitSource would. Of the request, URL, Ref, Auth and Known mean nothing; the
// name is that of the ref, for people. Every error is an *Error.
func Local(ctx context.Context, objects storer.EncodedObjectStorer, commit plumbing.Hash, name string, req Request) (*Result, error) {
	if req.Budget == nil {
		req.Budget = budget.New(ctx, budget.Limits{}, nil)
	}
	res, err := local(ctx, objects, target{commit: commit, short: name}, req)
	if err == nil {
		return res, nil
	}
	if failure := contextError(ctx); failure != nil {
		return nil, failure
	}
	return nil, asError(err, "the commit cannot be read", nil)
}

func local(ctx context.Context, objects storer.EncodedObjectStorer, want target, req Request) (*Result, error) {
	paths, err := cleanPaths(req)
	if err != nil {
		return nil, err
	}
	sent, err := reachable(ctx, objects, want.commit, req.Budget)
	if err != nil {
		return nil, err
	}
	in, out := io.Pipe()
	go func() {
		_, err := packfile.NewEncoder(out, objects, false).Encode(sent, 0)
		_ = out.CloseWithError(err) // is always nil
	}()
	p, err := openPack(in, req.Budget)
	_ = in.CloseWithError(errors.New("the pack is not wanted any more")) // is always nil; ends the encoder
	if err != nil {
		return nil, err
	}
	r := &remote{budget: req.Budget}
	return r.read(p, want, paths, req)
}

// reachable are the objects that a server would send for a commit at depth one: the commit, its trees, and the files within
// the limit of one.
func reachable(ctx context.Context, objects storer.EncodedObjectStorer, commit plumbing.Hash, b *budget.Budget) ([]plumbing.Hash, error) {
	data, err := contentOf(objects, plumbing.CommitObject, commit)
	if err != nil {
		return nil, err
	}
	read, err := readCommit(commit, data, nil)
	if err != nil {
		return nil, err
	}
	s := sender{objects: objects, seen: map[plumbing.Hash]bool{}, most: b.Limits().MaxFileBytes, budget: b}
	s.add(commit)
	if err := s.tree(ctx, read.tree, 0); err != nil {
		return nil, err
	}
	return s.hashes, nil
}

// sender collects what is sent of one commit.
type sender struct {
	objects storer.EncodedObjectStorer
	seen    map[plumbing.Hash]bool
	hashes  []plumbing.Hash
	most    int64 // bytes of a file
	budget  *budget.Budget
}

func (s *sender) add(hash plumbing.Hash) (isNew bool) {
	if s.seen[hash] {
		return false
	}
	s.seen[hash] = true
	s.hashes = append(s.hashes, hash)
	return true
}

func (s *sender) tree(ctx context.Context, hash plumbing.Hash, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.add(hash) || depth > maxTreeDepth {
		return nil // too deep ones are a problem to whoever reads them
	}
	data, err := contentOf(s.objects, plumbing.TreeObject, hash)
	if err != nil {
		return err
	}
	for len(data) > 0 {
		e, _, rest, err := nextEntry(data)
		if err != nil {
			return err
		}
		data = rest
		switch {
		case e.mode == filemode.Dir:
			err = s.tree(ctx, e.hash, depth+1)
		case e.mode != filemode.Submodule && !s.seen[e.hash]:
			err = s.blob(e.hash)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *sender) blob(hash plumbing.Hash) error {
	size, err := s.objects.EncodedObjectSize(hash)
	switch {
	case err != nil:
		return missing(hash, err)
	case size <= s.most:
		s.add(hash)
	}
	return nil
}

func contentOf(objects storer.EncodedObjectStorer, kind plumbing.ObjectType, hash plumbing.Hash) (data []byte, err error) {
	defer recovered(&err)
	o, err := objects.EncodedObject(kind, hash)
	if err != nil {
		return nil, missing(hash, err)
	}
	r, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // it was read
	return io.ReadAll(r)
}

// missing says of an object that it cannot be had.
func missing(hash plumbing.Hash, err error) error {
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return fail(ReasonFetchFailed, fmt.Sprintf("the repository on this machine has no object %s: fetch it, without --filter", hash))
	}
	return err
}
