package fetch_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
)

// budgetOf is a budget for one fetch.
func budgetOf(t *testing.T, limits budget.Limits) *budget.Budget {
	t.Helper()
	b := budget.New(t.Context(), limits, nil)
	t.Cleanup(b.Close)
	return b
}

type objectID [sha1.Size]byte

const (
	commitType, treeType, blobType = 1, 2, 3
	offsetDelta, refDelta          = 6, 7
)

var typeNames = map[int]string{commitType: "commit", treeType: "tree", blobType: "blob"}

// packFile is a pack made by hand, so that it may hold what git would not make.
type packFile struct {
	body  bytes.Buffer
	count uint32
	known map[objectID]bool
	head  objectID
}

func newPackFile() *packFile { return &packFile{known: map[objectID]bool{}} }

func idOf(kind int, data []byte) objectID {
	h := sha1.New()
	_, _ = fmt.Fprintf(h, "%s %d\x00", typeNames[kind], len(data))
	h.Write(data)
	return objectID(h.Sum(nil))
}

// add writes an object once, and returns its hash.
func (p *packFile) add(kind int, data []byte) objectID {
	id := idOf(kind, data)
	if !p.known[id] {
		p.known[id] = true
		p.raw(kind, nil, data)
	}
	return id
}

// raw writes one entry.
func (p *packFile) raw(kind int, reference, data []byte) {
	p.count++
	size := len(data)
	first := byte(kind<<4) | byte(size&0xf)
	for size >>= 4; size > 0; size >>= 7 {
		p.body.WriteByte(first | 0x80)
		first = byte(size & 0x7f)
	}
	p.body.WriteByte(first)
	p.body.Write(reference)
	z := zlib.NewWriter(&p.body)
	_, _ = z.Write(data)
	_ = z.Close()
}

type line struct {
	mode, name string
	id         objectID
}

func (p *packFile) tree(lines ...line) objectID {
	var b bytes.Buffer
	for _, l := range lines {
		fmt.Fprintf(&b, "%s %s\x00%s", l.mode, l.name, l.id[:])
	}
	return p.add(treeType, b.Bytes())
}

func (p *packFile) blob(text string) objectID { return p.add(blobType, []byte(text)) }

// commit makes the tree the head.
func (p *packFile) commit(tree objectID) *packFile {
	p.head = p.add(commitType, fmt.Appendf(nil, "tree %x\nauthor A <a@example.org> 1 +0000\ncommitter A <a@example.org> 1 +0000\n\nattack\n", tree))
	return p
}

func (p *packFile) bytes() []byte {
	out := append([]byte("PACK\x00\x00\x00\x02"), binary.BigEndian.AppendUint32(nil, p.count)...)
	out = append(out, p.body.Bytes()...)
	sum := sha1.Sum(out)
	return append(out, sum[:]...)
}

// serve answers as the server of a repository with this one pack.
func (p *packFile) serve(t *testing.T) string {
	t.Helper()
	body := p.bytes()
	return serveGit(t, func(w io.Writer) { _, _ = fmt.Fprint(w, pktLine(fmt.Sprintf("%x HEAD\x00agent=test\n", p.head))) },
		func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, pktLine("NAK\n"))
			_, _ = w.Write(body)
		})
}

// serveGit answers with references and with whatever is sent as a pack.
func serveGit(t *testing.T, refs func(io.Writer), pack http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			pack(w, r)
			return
		}
		_, _ = io.WriteString(w, pktLine("# service=git-upload-pack\n")+"0000")
		refs(w)
		_, _ = io.WriteString(w, "0000")
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// lines are so many entries of a folder, with a suffix.
func lines(n int, suffix, mode string, id objectID) []line {
	out := make([]line, n)
	for i := range out {
		out[i] = line{mode, fmt.Sprintf("%06d%s", i, suffix), id}
	}
	return out
}

const (
	file, dir, symlink = "100644", "40000", "120000"
)

// Each of these would take hours, or more memory than a machine has, if it were followed to its end.
func TestAttacksEndAtTheirLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		pack   func(*packFile) objectID
		limits budget.Limits
		says   string
	}{
		"symlinks to one blob, in a large folder": {
			pack: func(p *packFile) objectID {
				return p.tree(lines(100_000, "", symlink, p.blob("deep/er/000001"))...)
			},
			limits: budget.Limits{MaxTreeEntries: 150_000}, says: "150,000 files and folders",
		},
		"symlinks that hide a folder": {
			pack: func(p *packFile) objectID {
				return p.tree(append(lines(30_000, "", symlink, p.blob("folder")), line{dir, "folder", p.tree()})...)
			},
			says: "20,000 manifests",
		},
		"one blob under many paths": {
			pack: func(p *packFile) objectID {
				return p.tree(lines(1000, ".yaml", file, p.blob(strings.Repeat("a", 1000)))...)
			},
			limits: budget.Limits{MaxTotalBytes: 100_000}, says: `100,000 bytes together, counted for every path at which they lie (at "000100.yaml")`,
		},
		"small files": {
			pack:   func(p *packFile) objectID { return p.tree(lines(1000, ".txt", file, p.blob("a"))...) },
			limits: budget.Limits{MaxTreeEntries: 999}, says: "999 files and folders",
		},
		"manifests": {
			pack: func(p *packFile) objectID { return p.tree(lines(20_001, ".yaml", file, p.blob("a"))...) },
			says: `20,000 manifests (at "020000.yaml")`,
		},
		"a folder that holds itself 2^40 times": {
			pack: func(p *packFile) objectID {
				id := p.tree(line{file, "a.txt", p.blob("a")})
				for range 40 {
					id = p.tree(line{dir, "a", id}, line{dir, "b", id})
				}
				return id
			},
			says: "1,000,000 files and folders",
		},
		"deep folders": {
			pack: func(p *packFile) objectID {
				id := p.tree(line{file, "a.yaml", p.blob("a")})
				for range 100 {
					id = p.tree(line{dir, "d", id})
				}
				return id
			},
			says: "more than 64 deep",
		},
		"long names": {
			pack: func(p *packFile) objectID {
				id := p.tree(line{file, "a.yaml", p.blob("a")})
				for range 60 {
					id = p.tree(line{dir, strings.Repeat("n", 100), id})
				}
				return id
			},
			says: "longer than 4096 bytes",
		},
		"an object that inflates": {
			pack: func(p *packFile) objectID {
				for i := range 20 {
					p.raw(blobType, nil, bytes.Repeat([]byte{byte(i)}, 10<<20))
				}
				return p.tree()
			},
			limits: budget.Limits{MaxInflatedBytes: 100 << 20}, says: "104,857,600 bytes when it is decompressed",
		},
		"a chain of deltas, each of which copies much": {
			pack: func(p *packFile) objectID {
				base := bytes.Repeat([]byte("x"), 8<<20)
				id := p.add(blobType, base)
				for i := range 100 {
					next := append(bytes.Clone(base[:len(base)-4]), fmt.Sprintf("%04d", i)...)
					p.raw(refDelta, id[:], deltaOf(len(base), len(base)-4, fmt.Sprintf("%04d", i)))
					id, base = idOf(blobType, next), next
				}
				return p.tree(line{file, "a.yaml", id})
			},
			limits: budget.Limits{MaxInflatedBytes: 200 << 20}, says: "209,715,200 bytes when it is decompressed",
		},
		"a small file whose base is large, under many paths and names": {
			pack: func(p *packFile) objectID {
				base := bytes.Repeat([]byte("x"), 8<<20)
				id := p.add(blobType, base)
				var all []line
				for i := range 100 {
					text := fmt.Sprintf("%04d", i)
					p.raw(refDelta, id[:], deltaOf(len(base), 0, text))
					all = append(all, line{file, text + ".yaml", idOf(blobType, []byte(text))})
				}
				p.raw(blobType, nil, bytes.Repeat([]byte("y"), 8<<20)) // takes the room for what is kept
				return p.tree(all...)
			},
			limits: budget.Limits{MaxInflatedBytes: 12 << 20}, says: "bytes when it is decompressed",
		},
		"many bases that wait for their deltas": {
			pack: func(p *packFile) objectID {
				base := bytes.Repeat([]byte("x"), 4<<20)
				id := p.add(blobType, base)
				for i := range 20 {
					text := fmt.Sprintf("%04d", i)
					next := append(bytes.Clone(base[:len(base)-4]), text...)
					p.raw(refDelta, id[:], deltaOf(len(base), len(base)-4, text))
					nextID := idOf(blobType, next)
					p.raw(refDelta, nextID[:], deltaOf(len(next), 0, text))
				}
				return p.tree()
			},
			limits: budget.Limits{MaxMemoryBytes: 40 << 20}, says: "bytes of memory",
		},
		"more objects than a pack may have": {
			pack: func(p *packFile) objectID {
				p.count = 3_000_000_000
				return p.tree()
			},
			says: "200,000 objects",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPackFile()
			url := p.commit(tc.pack(p)).serve(t)
			_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: url, Budget: budgetOf(t, tc.limits)})
			wantReason(t, err, fetch.ReasonLimitExceeded)
			if err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q does not say %q", err, tc.says)
			}
		})
	}
}

// deltaOf copies so many bytes from the start of a base of a size, and appends text of less than 128 bytes.
func deltaOf(base, copied int, text string) []byte {
	size := func(n int) (out []byte) {
		for ; n >= 0x80; n >>= 7 {
			out = append(out, byte(n)|0x80)
		}
		return append(out, byte(n))
	}
	out := append(size(base), size(copied+len(text))...)
	for at := 0; at < copied; {
		n := min(copied-at, 0xffffff)
		out = append(out, 0xff, byte(at), byte(at>>8), byte(at>>16), byte(at>>24), byte(n), byte(n>>8), byte(n>>16))
		at += n
	}
	return append(append(out, byte(len(text))), text...)
}

// What is within the limits is read, also in the forms that attacks have.
func TestWhatIsWithinTheLimitsIsRead(t *testing.T) {
	p := newPackFile()
	base := bytes.Repeat([]byte("x"), 8<<20)
	id := p.add(blobType, base)
	p.raw(refDelta, id[:], deltaOf(len(base), 0, "from a delta"))
	shared := p.blob("shared")
	tree := p.tree(line{dir, "a", p.tree(line{file, "s.yaml", shared})}, line{dir, "b", p.tree(line{file, "s.yaml", shared})},
		line{file, "d.yaml", idOf(blobType, []byte("from a delta"))}, line{symlink, "link", p.blob("a")}, line{symlink, "long", p.blob(strings.Repeat("a/", 5000))})
	res, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: p.commit(tree).serve(t)})
	if err != nil {
		t.Fatal(err)
	}
	got := contents(res)
	if got["a/s.yaml"] != "shared" || got["b/s.yaml"] != "shared" || got["d.yaml"] != "from a delta" || len(got) != 4 {
		t.Errorf("files: %v", got)
	}
}

func TestManyReferences(t *testing.T) {
	p := newPackFile()
	p.commit(p.tree(line{file, "a.yaml", p.blob("a")}))
	body := p.bytes()
	var sent atomic.Int64
	refs := func(n int) func(io.Writer) {
		return func(w io.Writer) {
			_, _ = fmt.Fprint(w, pktLine(fmt.Sprintf("%x HEAD\x00symref=HEAD:refs/heads/main agent=test\n", p.head)))
			for i := range n {
				if _, err := fmt.Fprint(w, pktLine(fmt.Sprintf("%x refs/heads/%030d\n", p.head, i))); err != nil {
					return
				}
				sent.Add(1)
			}
			_, _ = fmt.Fprint(w, pktLine(fmt.Sprintf("%x refs/heads/main\n", p.head)), pktLine(fmt.Sprintf("%x refs/tags/v1.2.0\n", p.head)))
		}
	}
	pack := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, pktLine("NAK\n"))
		_, _ = w.Write(body)
	}
	few := serveGit(t, refs(20_000), pack)
	for name, ref := range map[string]fetch.Ref{
		"default": {}, "branch": {Branch: "main"}, "tag": {Tag: "v1.2.0"}, "semver": {SemVer: ">=1"}, "another branch": {Branch: fmt.Sprintf("%030d", 7)},
	} {
		t.Run(name, func(t *testing.T) {
			before := liveBytes()
			res, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: few, Ref: ref, Budget: budgetOf(t, budget.Limits{MaxMemoryBytes: 1 << 20})})
			if err != nil || len(res.Files) != 1 {
				t.Fatalf("%v, %v", res, err)
			}
			if grown := liveBytes() - before; grown > 2<<20 {
				t.Errorf("%d bytes are kept", grown)
			}
		})
	}
	t.Run("too many", func(t *testing.T) {
		_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: serveGit(t, refs(20_000), pack), Budget: budgetOf(t, budget.Limits{MaxRefs: 15_000})})
		wantReason(t, err, fetch.ReasonLimitExceeded)
		if !strings.Contains(fmt.Sprint(err), "15,000 branches, tags and other references") {
			t.Error(err)
		}
	})
	t.Run("too many to search for a commit", func(t *testing.T) {
		_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: few, Ref: fetch.Ref{Commit: strings.Repeat("1", 40)}, Budget: budgetOf(t, budget.Limits{MaxMemoryBytes: 1 << 20})})
		wantReason(t, err, fetch.ReasonLimitExceeded)
	})
}

func liveBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A server that never ends what it says holds up no longer than the time that there is, wherever it does so.
func TestSlowServers(t *testing.T) {
	p := newPackFile()
	p.commit(p.tree(line{file, "a.yaml", p.blob(strings.Repeat("a", 1000))}))
	head := pktLine(fmt.Sprintf("%x HEAD\x00agent=test\n", p.head))
	drip := func(w http.ResponseWriter, r *http.Request, first string) {
		_, _ = io.WriteString(w, first)
		w.(http.Flusher).Flush()
		<-r.Context().Done() // slower than any drip
	}
	for name, answer := range map[string]http.HandlerFunc{
		"references": func(w http.ResponseWriter, r *http.Request) {
			drip(w, r, pktLine("# service=git-upload-pack\n")+"0000"+head)
		},
		"pack": func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				drip(w, r, pktLine("NAK\n")+string(p.bytes()[:40]))
				return
			}
			_, _ = io.WriteString(w, pktLine("# service=git-upload-pack\n")+"0000"+head+"0000")
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(answer)
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := (&fetch.Fetcher{}).Fetch(ctx, fetch.Request{URL: server.URL, Budget: budget.New(ctx, budget.Limits{}, nil)})
			wantReason(t, err, fetch.ReasonUnreachable)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v is not about the time", err)
			}
			server.CloseClientConnections()
		})
	}
}

// What a server says before its pack is bounded by itself: it is not streamed.
func TestEndlessPrelude(t *testing.T) {
	p := newPackFile()
	p.commit(p.tree())
	url := serveGit(t, func(w io.Writer) {
		_, _ = fmt.Fprint(w, pktLine(fmt.Sprintf("%x HEAD\x00agent=test shallow\n", p.head)))
	},
		func(w http.ResponseWriter, _ *http.Request) {
			for range 100_000 {
				if _, err := io.WriteString(w, pktLine("shallow "+hex.EncodeToString(p.head[:])+"\n")); err != nil {
					return
				}
			}
		})
	_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: url})
	wantReason(t, err, fetch.ReasonLimitExceeded)
}

// One that needs more memory than a small repository waits for it, and says so if it waits in vain.
func TestMemoryIsReserved(t *testing.T) {
	p := newPackFile()
	var random bytes.Buffer
	for sum := sha1.New(); random.Len() < 9<<20; { // nothing that compresses
		sum.Write([]byte("x"))
		random.Write(sum.Sum(nil))
	}
	url := p.commit(p.tree(line{file, "data.bin", p.add(blobType, random.Bytes())})).serve(t)
	released := 0
	b := budget.New(t.Context(), budget.Limits{}, func(context.Context) (func(), error) { return func() { released++ }, nil })
	if _, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: url, Budget: b}); err != nil {
		t.Fatal(err)
	}
	if b.Close(); released != 1 {
		t.Errorf("released %d times", released)
	}
	b = budget.New(t.Context(), budget.Limits{}, func(context.Context) (func(), error) {
		return nil, &fetch.Error{Reason: fetch.ReasonWaitingForMemory, Message: "waits"}
	})
	_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: url, Budget: b})
	wantReason(t, err, fetch.ReasonWaitingForMemory)
}

// Text of a server is shown on one line, without what could steer a terminal, and cut.
func TestTextOfAServerIsSafeToShow(t *testing.T) {
	const steer = "\x1b[2J\u202e"
	p := newPackFile()
	p.commit(p.tree())
	pack := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, pktLine("NAK\n"))
		_, _ = w.Write(p.bytes())
	}
	branch := "refs/heads/" + steer + strings.Repeat("b", 500)
	refs := func(capabilities string) func(io.Writer) {
		return func(w io.Writer) {
			_, _ = fmt.Fprint(w, pktLine(fmt.Sprintf("%x HEAD\x00%s agent=test\n", p.head, capabilities)), pktLine(fmt.Sprintf("%x %s\n", p.head, branch)))
		}
	}
	var texts []string
	res, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: serveGit(t, refs("symref=HEAD:"+branch), pack)})
	if err != nil {
		t.Fatal(err)
	}
	texts = append(texts, res.Revision)
	for _, answer := range []string{pktLine("ERR " + steer), pktLine("NAK\n") + pktLine("\x03"+steer+strings.Repeat("e", 5000)), steer} {
		_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: serveGit(t, refs("side-band-64k"), func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })})
		if err == nil {
			t.Fatalf("%q is a pack", answer)
		}
		texts = append(texts, err.Error())
	}
	_, err = (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: serveGit(t, func(w io.Writer) { _, _ = fmt.Fprint(w, pktLine("ERR "+steer)) }, pack)})
	texts = append(texts, fmt.Sprint(err))
	for _, text := range texts {
		if strings.ContainsAny(text, "\x1b\u202e\n") || len(text) > 600 {
			t.Errorf("%q", text)
		}
	}
}
