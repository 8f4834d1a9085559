package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
)

// uploads counts the requests for packs, and those of them that say what is kept.
type uploads struct{ all, adding atomic.Int64 }

// count is for the before of a server.
func (u *uploads) count(_ http.ResponseWriter, req *http.Request) bool {
	if req.Method == http.MethodPost {
		body, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
		u.all.Add(1)
		if bytes.Contains(body, []byte("have ")) {
			u.adding.Add(1)
		}
	}
	return false
}

func (u *uploads) take() (all, adding int64) { return u.all.Swap(0), u.adding.Swap(0) }

// manyFilesIn are so many files in folders of fifty.
func manyFilesIn(n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprintf("f%03d/%05d.yaml", i/50, i)] = fmt.Sprintf("name: file-%d\n%x\n", i, idOf(blobType, []byte{byte(i), byte(i >> 8)}))
	}
	return out
}

// One changed file among many costs what it takes, and not what all of them do.
func TestOnlyWhatIsNewIsReceived(t *testing.T) {
	repo := newRepository(t)
	repo.commit(manyFilesIn(2000))
	var u uploads
	url := serve(t, repo, u.count).URL
	f := &fetch.Fetcher{}
	got := map[string]string{}
	read := func() (received, inflated int64) {
		b := budgetOf(t, budget.Limits{})
		res, err := f.Fetch(t.Context(), fetch.Request{URL: url, Budget: b, Have: func(path, blob string) bool { return got[path] == blob }})
		if err != nil {
			t.Fatal(err)
		}
		changed := 0
		for _, file := range res.Files {
			if file.Data != nil {
				changed++
			}
			got[file.Path] = file.Blob
		}
		if len(res.Files) != 2000 || len(got) > 2000 {
			t.Fatalf("%d files, want all", len(res.Files))
		}
		return b.Spent(budget.ReceivedBytes), b.Spent(budget.InflatedBytes)
	}
	all, inflated := read()
	for i := range 5 {
		repo.commit(map[string]string{"f007/00351.yaml": fmt.Sprint("changed ", i)})
		some, little := read()
		if some > all/50 || little > inflated/2 { // the lists of folders are inflated
			t.Errorf("%d of %d bytes were received, %d of %d inflated", some, all, little, inflated)
		}
	}
	if n, adding := u.take(); n != 6 || adding != 5 {
		t.Errorf("%d requests, %d of which add", n, adding)
	}
}

// history makes commits of all kinds.
type history struct {
	*repository
	r *rand.Rand
	n int
}

func (h *history) path() string {
	return []string{"a.yaml", "b.yaml", "d/a.yaml", "d/b.yaml", "d/e/c.yaml", "x.yaml", "x.yaml/y.yaml", "d2/a.json", ".sourceignore"}[h.r.IntN(9)]
}

func (h *history) edit() {
	for range 1 + h.r.IntN(3) {
		h.n++
		at := filepath.Join(h.dir, h.path())
		for above := filepath.Dir(at); above != h.dir; above = filepath.Dir(above) {
			if info, err := os.Lstat(above); err == nil && !info.IsDir() {
				_ = os.Remove(above)
			}
		}
		if err := os.RemoveAll(at); err != nil {
			h.tb.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			h.tb.Fatal(err)
		}
		text := strings.Repeat(fmt.Sprintf("line of %d\n", h.n%7), 20+h.n%13)
		if filepath.Base(at) == ".sourceignore" {
			text = []string{"", "*.json\n", "d/e\n", "b.yaml\n"}[h.r.IntN(4)]
		}
		var err error
		switch h.r.IntN(8) {
		case 0: // stays removed
		case 1:
			err = os.Symlink("d", at)
			if filepath.Base(at) == ".sourceignore" {
				_ = os.Remove(at)
			}
		case 2:
			err = os.WriteFile(at, []byte(text), 0o755)
		case 3:
			err = os.WriteFile(at, bytes.Repeat([]byte("large"), 1000), 0o600) // over the limit
		default:
			err = os.WriteFile(at, []byte(text), 0o600)
		}
		if err != nil {
			h.tb.Fatal(err)
		}
	}
	h.commit(nil)
}

func (h *history) step() {
	switch h.r.IntN(14) {
	case 0: // a force-push to what was before
		if h.git("rev-list", "--count", "HEAD") != "1" {
			h.git("reset", "--quiet", "--hard", "HEAD~1")
		}
	case 1:
		h.git("commit", "--quiet", "--amend", "--allow-empty", "--message="+fmt.Sprint("amended ", h.n))
	case 2: // nothing of the history stays
		h.git("checkout", "--quiet", "--orphan", "new")
		h.commit(nil)
		h.git("branch", "--force", "main")
		h.git("checkout", "--quiet", "main")
		h.git("branch", "--quiet", "-D", "new")
	case 3: // a merge of two that both have changed
		h.git("checkout", "--quiet", "-B", "side")
		h.edit()
		h.git("checkout", "--quiet", "main")
		h.edit()
		h.git("merge", "--quiet", "--strategy=ours", "--message=merge", "side")
	case 4:
		h.git("gc", "--quiet", "--prune=now")
	case 5:
		h.git("reflog", "expire", "--expire=now", "--all")
		h.git("repack", "-a", "-d", "--quiet", "--depth=50")
		h.git("prune", "--expire=now")
	case 6:
		h.git("tag", "--force", "--annotate", "--message=tag", "v1")
	case 7:
		h.git("branch", "--force", "other", "main")
		h.edit()
	default:
		h.edit()
	}
}

// Whatever has happened to a repository, what is read is what somebody reads who has never seen it.
func TestKeptIsReadAsAnew(t *testing.T) {
	if testing.Short() {
		t.Skip("runs git many times")
	}
	for name, config := range map[string][]string{"plain": nil, "filtering": {"uploadpack.allowFilter", "true"}} {
		t.Run(name, func(t *testing.T) {
			h := &history{repository: newRepository(t), r: rand.New(rand.NewPCG(36, 1))}
			if config != nil {
				h.git(append([]string{"config"}, config...)...)
			}
			h.edit()
			h.git("branch", "other")
			h.git("tag", "--annotate", "--message=tag", "v1")
			var u uploads
			url := serve(t, h.repository, u.count).URL
			kept := &fetch.Fetcher{}
			added := int64(0)
			for i := range 35 {
				h.step()
				for _, req := range []fetch.Request{
					{}, {Path: "d"}, {Ref: fetch.Ref{Branch: "other"}}, {Ref: fetch.Ref{Tag: "v1"}, Paths: []string{"a.yaml", "d"}},
				} {
					if h.r.IntN(3) == 0 {
						continue
					}
					read := func(f *fetch.Fetcher) (*fetch.Result, error) {
						req.URL, req.Budget = url, budgetOf(t, budget.Limits{MaxFileBytes: 2000})
						return f.Fetch(t.Context(), req)
					}
					u.take()
					got, err := read(kept)
					_, adding := u.take()
					added += adding
					want, wantErr := read(&fetch.Fetcher{})
					if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(err) != fmt.Sprint(wantErr) {
						t.Fatalf("step %d, %+v: error %v, want %v (-anew +kept):\n%s", i, req, err, wantErr, diff)
					}
				}
			}
			if added < 10 {
				t.Errorf("%d readings added something: this tests nothing", added)
			}
		})
	}
}

// A server that answers otherwise than git has everything received anew, and nothing read that is not the commit's.
func TestServersThatDoNotAdd(t *testing.T) {
	first := newPackFile()
	first.commit(first.tree(line{file, "a.yaml", first.blob("a")}, line{file, "b.yaml", first.blob("b")}))
	second := newPackFile()
	tree := second.tree(line{file, "a.yaml", second.blob("a")}, line{file, "b.yaml", second.blob("changed")})
	second.commit(tree)
	known := idOf(blobType, []byte("a"))
	partial := func(raw func(p *packFile)) []byte {
		p := newPackFile()
		raw(p)
		return p.bytes()
	}
	whole := second.bytes()
	some := func(p *packFile) { // the commit and its tree
		p.raw(commitType, nil, fmt.Appendf(nil, "tree %x\nauthor A <a@example.org> 1 +0000\ncommitter A <a@example.org> 1 +0000\n\nattack\n", tree))
		id := known
		p.tree(line{file, "a.yaml", id}, line{file, "b.yaml", idOf(blobType, []byte("changed"))})
	}
	for name, tc := range map[string]struct {
		answer []byte
		anew   int64 // requests without what is kept
	}{
		"a server that sends what is new": {answer: partial(func(p *packFile) {
			some(p)
			p.blob("changed")
		})},
		"a difference from what is kept": {answer: partial(func(p *packFile) {
			some(p)
			p.raw(refDelta, known[:], deltaOf(1, 0, "changed"))
		})},
		"a server that sends everything": {answer: whole},
		"a file is missing":              {answer: partial(some), anew: 1},
		"a difference from what nobody has": {answer: partial(func(p *packFile) {
			some(p)
			p.raw(refDelta, bytes.Repeat([]byte{9}, 20), deltaOf(1, 0, "changed"))
		}), anew: 1},
		"a difference that gives something else": {answer: partial(func(p *packFile) {
			some(p)
			p.raw(refDelta, known[:], deltaOf(1, 0, "forged"))
		}), anew: 1},
		"a difference that is none": {answer: partial(func(p *packFile) {
			some(p)
			p.raw(refDelta, known[:], []byte{0xff, 0xff, 0xff, 0xff, 0xff})
		}), anew: 1},
		"another file in its place": {answer: partial(func(p *packFile) {
			some(p)
			p.blob("forged")
		}), anew: 1},
		"another commit": {answer: partial(func(p *packFile) { p.commit(p.tree()) }), anew: 1},
		"the tree as a file": {answer: partial(func(p *packFile) {
			p.raw(commitType, nil, fmt.Appendf(nil, "tree %x\n\nx", known))
		}), anew: 1},
		"nothing":                   {answer: partial(func(*packFile) {}), anew: 1},
		"a pack cut short":          {answer: whole[:len(whole)-30], anew: 1},
		"a wrong checksum":          {answer: append(bytes.Clone(whole[:len(whole)-1]), whole[len(whole)-1]^1), anew: 1},
		"no pack":                   {answer: []byte("ERR no"), anew: 1},
		"no answer":                 {answer: nil, anew: 1},
		"a pack of garbage":         {answer: append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x05"), bytes.Repeat([]byte{0xff}, 100)...), anew: 1},
		"more than a pack may have": {answer: append([]byte("PACK\x00\x00\x00\x02\x00"), bytes.Repeat([]byte{0xff}, 100)...), anew: 1},
	} {
		t.Run(name, func(t *testing.T) {
			head, asked, anew := first, atomic.Int64{}, atomic.Int64{}
			url := serveGit(t, func(w io.Writer) {
				_, _ = fmt.Fprint(w, pktLine(fmt.Sprintf("%x HEAD\x00shallow agent=test\n", head.head)))
			}, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				_, _ = io.WriteString(w, pktLine(fmt.Sprintf("shallow %x", head.head))+"0000"+pktLine("NAK\n"))
				if asked.Add(1); bytes.Contains(body, []byte("have ")) {
					_, _ = w.Write(tc.answer)
					return
				}
				anew.Add(1)
				_, _ = w.Write(head.bytes())
			})
			f := &fetch.Fetcher{}
			if _, err := f.Fetch(t.Context(), fetch.Request{URL: url}); err != nil {
				t.Fatal(err)
			}
			head = second
			asked.Store(0)
			anew.Store(0)
			res, err := f.Fetch(t.Context(), fetch.Request{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"a.yaml": "a", "b.yaml": "changed"}, contents(res)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if asked.Load() != 1+tc.anew || anew.Load() != tc.anew {
				t.Errorf("%d requests, %d of them for everything, want %d", asked.Load(), anew.Load(), tc.anew)
			}
		})
	}
}

// However often something is added, what is kept stays in proportion to the repository.
func TestWhatIsKeptIsBounded(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	var u uploads
	url := serve(t, repo, u.count).URL
	f := &fetch.Fetcher{}
	for i := range 8 {
		var noise strings.Builder // nothing that compresses
		for j := range 3000 {
			fmt.Fprintf(&noise, "%x", idOf(blobType, fmt.Appendf(nil, "%d %d", i, j)))
		}
		repo.commit(map[string]string{"a.yaml": noise.String()})
		if _, err := f.Fetch(t.Context(), fetch.Request{URL: url}); err != nil {
			t.Fatal(err)
		}
	}
	if all, adding := u.take(); all-adding < 2 || adding < 3 {
		t.Errorf("%d requests, %d of which add", all, adding)
	}
	// With less room than a repository takes nothing is kept, and everything is read.
	for _, room := range []int64{-1, 100_000} {
		small := &fetch.Fetcher{StoreBytes: room}
		for range 2 {
			repo.commit(nil)
			if _, err := small.Fetch(t.Context(), fetch.Request{URL: url}); err != nil {
				t.Fatal(err)
			}
		}
		if all, adding := u.take(); all != 2 || adding != 0 {
			t.Errorf("%d bytes: %d requests, %d of which add", room, all, adding)
		}
	}
}

// Where there is no room for all repositories, those that were not used for longest are forgotten.
func TestWhatIsNotUsedIsForgotten(t *testing.T) {
	var u uploads
	repos, urls := make([]*repository, 4), make([]string, 4)
	for i := range repos {
		repos[i] = newRepository(t)
		repos[i].commit(map[string]string{"a.yaml": fmt.Sprint(i)})
		urls[i] = serve(t, repos[i], u.count).URL
	}
	f := &fetch.Fetcher{StoreBytes: 4000} // about three of them
	read := func(i int) (adding int64) {
		repos[i].commit(map[string]string{"a.yaml": fmt.Sprint("changed ", u.all.Load(), i)})
		u.take()
		if _, err := f.Fetch(t.Context(), fetch.Request{URL: urls[i]}); err != nil {
			t.Fatal(err)
		}
		_, adding = u.take()
		return adding
	}
	for i := range repos {
		read(i)
	}
	if read(3) != 1 {
		t.Error("the one that was read last is not kept")
	}
	if read(0) != 0 {
		t.Error("the one that was read first is kept")
	}
}

// What adds up to more than one reading may have is received at once, where it is less.
func TestLimitsHoldForWhatIsKept(t *testing.T) {
	repo := newRepository(t)
	repo.commit(manyFilesIn(100))
	var u uploads
	url := serve(t, repo, u.count).URL
	f := &fetch.Fetcher{}
	for i := range 3 {
		repo.commit(map[string]string{"f000/00001.yaml": fmt.Sprint(i)})
		res, err := f.Fetch(t.Context(), fetch.Request{URL: url, Budget: budgetOf(t, budget.Limits{MaxPackObjects: 104})})
		if err != nil || len(res.Files) != 100 {
			t.Fatalf("%v", err)
		}
	}
	if all, adding := u.take(); all != 5 || adding != 2 {
		t.Errorf("%d requests, %d of which add", all, adding)
	}
}

// Readings of one repository share its download; with other credentials, nothing is shared, and each asks for itself.
func TestDownloadsAreShared(t *testing.T) {
	repo := newRepository(t)
	repo.commit(manyFilesIn(200))
	var u uploads
	refused := atomic.Bool{}
	s := serve(t, repo, func(w http.ResponseWriter, req *http.Request) bool {
		if name, _, _ := req.BasicAuth(); refused.Load() && name != "bob" {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		return u.count(w, req)
	})
	f := &fetch.Fetcher{}
	as := func(name string) *fetch.Auth {
		return &fetch.Auth{Username: name, Password: "secret"}
	}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			res, err := f.Fetch(t.Context(), fetch.Request{URL: s.URL, Auth: as("ada"), Path: fmt.Sprintf("f%03d", i%4)})
			if err != nil || len(res.Files) != 50 {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	if all, _ := u.take(); all != 1 {
		t.Errorf("%d downloads for one repository, want 1", all)
	}
	if _, err := f.Fetch(t.Context(), fetch.Request{URL: s.URL, Auth: as("bob")}); err != nil {
		t.Fatal(err)
	}
	if all, adding := u.take(); all != 1 || adding != 0 {
		t.Errorf("other credentials: %d downloads, %d of which add", all, adding)
	}
	if _, err := f.Fetch(t.Context(), fetch.Request{URL: s.URL, Auth: as("ada")}); err != nil {
		t.Fatal(err)
	}
	if all, _ := u.take(); all != 0 {
		t.Errorf("%d downloads of what is there", all)
	}
	// Who may not list the references any more gets nothing of what is kept.
	refused.Store(true)
	_, err := f.Fetch(t.Context(), fetch.Request{URL: s.URL, Auth: as("ada")})
	wantReason(t, err, fetch.ReasonAuthFailed)
}

// One whose time ends fails nobody but itself.
func TestSharedDownloadsThatEnd(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	begun, stuck := make(chan struct{}), atomic.Bool{}
	stuck.Store(true)
	url := serve(t, repo, func(_ http.ResponseWriter, req *http.Request) bool {
		if req.Method != http.MethodPost || !stuck.CompareAndSwap(true, false) {
			return false
		}
		_, _ = io.Copy(io.Discard, req.Body) // so that the end of the connection is seen
		close(begun)
		<-req.Context().Done()
		return true
	}).URL
	f := &fetch.Fetcher{}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := f.Fetch(ctx, fetch.Request{URL: url}); !errors.Is(err, context.Canceled) {
			t.Errorf("the one that was canceled: %v", err)
		}
	})
	<-begun
	wg.Go(func() { // waits for the first until that ends
		if res, err := f.Fetch(t.Context(), fetch.Request{URL: url}); err != nil || len(res.Files) != 1 {
			t.Errorf("the one that has waited: %v", err)
		}
	})
	// This one does not wait for all of its time.
	impatient, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if res, err := f.Fetch(impatient, fetch.Request{URL: url}); err != nil || len(res.Files) != 1 {
		t.Errorf("the one that could not wait: %v", err)
	}
	cancel()
	wg.Wait()
}
