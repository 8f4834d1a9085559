package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/budget"
)

// Fetcher fetches. The zero value is ready, and safe for concurrent use. It keeps idle connections over HTTP, with the
// client certificate that they were made with and no other credentials, and what it has received of repositories, for
// whoever has the same credentials and may list the references with them.
type Fetcher struct {
	// Timeout bounds a whole fetch; zero is DefaultTimeout.
	Timeout time.Duration
	// Network says which servers may be asked; its zero value lets all of them be.
	Network Network
	// Proxy returns the proxy for a request over HTTP whose Auth names none, nil for none. A nil Proxy is
	// http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)

	// StoreBytes is how much is kept of repositories, so that of a new commit only what is new is received. Zero is
	// DefaultStoreBytes; with less, nothing is kept.
	StoreBytes int64

	pools pools
	once  sync.Once
	store store
}

// CloseIdleConnections ends the connections that no fetch uses at the moment.
func (f *Fetcher) CloseIdleConnections() { f.pools.closeIdle() }

// Fetch reads the manifests that req names. Every error is an *Error.
//
// A path that cannot be read is no error but Result.PathMissing. A Ref that names a commit, which can
// never mean anything else, is answered without any request when it is Known already.
func (f *Fetcher) Fetch(ctx context.Context, req Request) (*Result, error) {
	timeout := f.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if req.Budget == nil {
		req.Budget = budget.New(ctx, budget.Limits{}, nil)
	}
	res, err := f.fetch(ctx, req)
	if err == nil {
		return res, nil
	}
	if typed := (*Error)(nil); errors.As(err, &typed) && typed.Reason == ReasonWaitingForMemory {
		return nil, typed
	}
	if failure := contextError(ctx); failure != nil {
		return nil, failure
	}
	return nil, asError(err, "the repository cannot be read", req.Auth)
}

func (f *Fetcher) fetch(ctx context.Context, req Request) (*Result, error) {
	u, err := checkURL(req.URL, req.Auth)
	if err != nil {
		return nil, err
	}
	if err := checkRef(req.Ref); err != nil {
		return nil, err
	}
	if err := checkAuth(req.Auth, u); err != nil {
		return nil, err
	}
	paths, err := cleanPaths(req)
	if err != nil {
		return nil, err
	}
	if c := strings.ToLower(req.Ref.Commit); c != "" && c == req.Known {
		return unchanged(target{commit: plumbing.NewHash(c)}), nil
	}
	if failure := f.Network.checkURL(u); failure != nil {
		return nil, failure
	}
	if failure := f.Network.checkProxy(req.Auth); failure != nil {
		return nil, failure
	}
	r := &remote{auth: req.Auth, budget: req.Budget, guard: &guard{auth: req.Auth, budget: req.Budget, ref: req.Ref}}
	if r.session, err = f.open(ctx, req, u, r.guard); err != nil {
		return nil, err
	}
	defer r.session.Close() //nolint:errcheck // everything that counts was read
	f.once.Do(func() { f.store.most = f.StoreBytes })
	return r.fetch(ctx, &f.store, req, paths)
}

// open begins a conversation with the server of u. Over HTTP nothing is sent yet.
func (f *Fetcher) open(ctx context.Context, req Request, u *url.URL, g *guard) (transport.UploadPackSession, error) {
	if u.Scheme == schemeSSH {
		return openSSH(ctx, req, u, g, &f.Network)
	}
	pool, err := f.pools.get(req.Auth, &f.Network)
	if err != nil {
		return nil, err
	}
	// The redirect policy of go-git stays "initial"; checkedTransport has refused other hosts before that.
	client := githttp.NewClientWithOptions(&http.Client{
		Transport: &checkedTransport{guard: g, pool: pool, proxy: f.Proxy, network: &f.Network, origin: u},
	}, &githttp.ClientOptions{})
	// A nil githttp.AuthMethod must stay a nil interface on its way.
	var method transport.AuthMethod
	if m := gitAuth(req.Auth); m != nil {
		method = m
	}
	return client.NewUploadPackSession(endpoint(u), method)
}

func unchanged(t target) *Result {
	return &Result{Revision: t.revision(), Commit: t.commit.String(), RefName: t.refName, Unchanged: true}
}

// remote is one conversation with one server.
type remote struct {
	session transport.UploadPackSession
	guard   *guard
	auth    *Auth
	budget  *budget.Budget
}

func (r *remote) fetch(ctx context.Context, kept *store, req Request, paths []string) (*Result, error) {
	adv, err := r.advertised(ctx)
	if err != nil {
		return nil, err
	}
	want, err := resolve(req.Ref, adv)
	if err != nil {
		return nil, err
	}
	if want.known(req) {
		return unchanged(want), nil
	}
	if req.WithTags {
		want.commit = want.object // read follows it to the commit
	}
	if want.advertised {
		return r.readKept(ctx, kept, req, reading{want: want, adv: adv, paths: paths})
	}
	// Whether the server still gives away what it does not list is for it to say, each time.
	p, err := r.pack(ctx, want, adv)
	if err != nil {
		return nil, err
	}
	return r.read(p, want, paths, req)
}

// read collects the manifests of the wanted commit from the pack.
func (r *remote) read(p *pack, want target, paths []string, req Request) (res *Result, err error) {
	defer recovered(&err)
	commit, err := findCommit(p, want.commit)
	if errors.Is(err, errNoCommit) {
		return nil, commitMissing(want)
	}
	if err != nil {
		return nil, err
	}
	want.commit = commit.hash
	w := newWalker(p, commit.tree, r.budget)
	w.have = req.Have
	if err := w.ignoreLast(req.Ignore); err != nil {
		return nil, err
	}
	problem, err := w.collectAll(paths)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(w.files, func(a, b gitsource.File) int { return strings.Compare(a.Path, b.Path) })
	return &Result{
		Revision: want.revision(), Commit: commit.hash.String(), RefName: want.refName, About: commit.about, Signed: commit.signed,
		PathMissing: problem != "", PathProblem: problem, Files: w.files, Overlays: w.closures,
	}, nil
}

func commitMissing(want target) error {
	return fail(ReasonRefNotFound, "no branch or tag of the repository leads to commit "+want.commit.String())
}

// advertised asks for the references.
func (r *remote) advertised(ctx context.Context) (adv *packp.AdvRefs, err error) {
	defer recovered(&err)
	adv, err = r.session.AdvertisedReferencesContext(ctx)
	if first := r.guard.take(); first != nil {
		return nil, first
	}
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return nil, fail(ReasonRefNotFound, "the repository has no commit yet; push one")
	}
	if err != nil {
		return nil, fail(ReasonFetchFailed,
			"the server's answer is not Git; check that the URL is that of a repository, not of a web page, and that the server knows smart HTTP")
	}
	return adv, nil
}

// pack fetches the wanted commit at depth one. A commit that the server does not list may not be asked
// for at every server; then everything is fetched, within the limits, and searched.
func (r *remote) pack(ctx context.Context, want target, adv *packp.AdvRefs) (*pack, error) {
	p, err := r.upload(ctx, r.uploadRequest(adv, []plumbing.Hash{want.commit}, true), nil)
	if err == nil || want.advertised || !refusedByServer(err) {
		return p, err
	}
	if failure := contextError(ctx); failure != nil {
		return nil, failure
	}
	var tips []plumbing.Hash
	for name, hash := range adv.References {
		if strings.HasPrefix(name, branchPrefix) || strings.HasPrefix(name, tagPrefix) {
			tips = append(tips, hash)
		}
	}
	if len(tips) == 0 {
		return nil, commitMissing(want)
	}
	plumbing.HashesSort(tips)
	return r.upload(ctx, r.uploadRequest(adv, slices.Compact(tips), false), nil)
}

// errRefused marks an answer that is no readable pack, which is how servers refuse what is asked for.
var errRefused = errors.New("the server did not send the commit")

func refusedByServer(err error) bool { return errors.Is(err, errRefused) }

// upload sends a request and reads the pack, which may have differences from what was received before.
func (r *remote) upload(ctx context.Context, req *packp.UploadPackRequest, below *segment) (p *pack, err error) {
	defer recovered(&err)
	res, err := r.session.UploadPack(ctx, req)
	if first := r.guard.take(); first != nil {
		return nil, first
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", errRefused, scrub(err.Error(), r.auth))
	}
	defer res.Close() //nolint:errcheck // everything of it that counts was read and checksummed
	r.guard.packBegins()
	p, err = openOnto(demux(req, res), below, r.budget)
	if first := r.guard.take(); first != nil {
		return nil, first
	}
	if err != nil && !ownError(err) {
		return nil, fmt.Errorf("%w: %s", errRefused, scrub(err.Error(), r.auth))
	}
	return p, err
}

// ownError says whether an error is ours, and not that of a parser: of a limit, or of the time.
func ownError(err error) bool {
	var typed *Error
	var exceeded *budget.Exceeded
	return errors.As(err, &typed) || errors.As(err, &exceeded) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func (r *remote) uploadRequest(adv *packp.AdvRefs, wants []plumbing.Hash, shallow bool) *packp.UploadPackRequest {
	req := packp.NewUploadPackRequestFromCapabilities(adv.Capabilities)
	req.Wants = wants
	set := func(c capability.Capability) bool {
		return adv.Capabilities.Supports(c) && req.Capabilities.Set(c) == nil
	}
	set(capability.NoProgress)
	if shallow && set(capability.Shallow) {
		req.Depth = packp.DepthCommits(1)
	}
	if set(capability.Filter) {
		// The filter omits blobs of at least this size.
		req.Filter = packp.FilterBlobLimit(uint64(r.budget.Limits().MaxFileBytes)+1, packp.BlobLimitPrefixNone) //nolint:gosec // limits are positive
	}
	return req
}

func demux(req *packp.UploadPackRequest, res io.Reader) io.Reader {
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, res)
	case req.Capabilities.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, res)
	}
	return res
}

// recovered turns a panic of a parser into an error: what it parses comes from the server, and must not
// end the hub.
func recovered(err *error) {
	if cause := recover(); cause != nil {
		*err = fail(ReasonFetchFailed, "what the server sent cannot be read")
	}
}
