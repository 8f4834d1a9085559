package fetch

import (
	"bytes"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/minifleet/minifleet/gitsource/budget"
)

// packOf has texts as blobs.
func packOf(tb testing.TB, refDeltas bool, texts ...string) []byte {
	tb.Helper()
	objects := memory.NewStorage()
	var hashes []plumbing.Hash
	for _, text := range texts {
		o := objects.NewEncodedObject()
		o.SetType(plumbing.BlobObject)
		w, err := o.Writer()
		if err != nil {
			tb.Fatal(err)
		}
		_, _ = w.Write([]byte(text)) // into memory
		hash, err := objects.SetEncodedObject(o)
		if err != nil {
			tb.Fatal(err)
		}
		hashes = append(hashes, hash)
	}
	var out bytes.Buffer
	if _, err := packfile.NewEncoder(&out, objects, refDeltas).Encode(hashes, 10); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// FuzzPackOnto searches for packs that, on top of what was received before, have an object read that is not what its hash
// stands for, and for panics.
func FuzzPackOnto(f *testing.F) {
	long := string(bytes.Repeat([]byte("a line of it\n"), 50))
	first := packOf(f, false, "a", "b", long)
	for _, refDeltas := range []bool{false, true} {
		f.Add(packOf(f, refDeltas, long+"c", long, "d"))
	}
	f.Add(first)
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, second []byte) {
		b := budget.New(t.Context(), budget.Limits{MaxInflatedBytes: 10 << 20, MaxMemoryBytes: 50 << 20}, nil)
		below, err := openPack(bytes.NewReader(first), b)
		if err != nil {
			t.Fatal(err)
		}
		p, err := openOnto(bytes.NewReader(second), below.segment, b)
		if err != nil {
			return
		}
		for hash, e := range p.byHash {
			view := newPack(p.segment, b) // with nothing kept
			if data, err := view.read(e); err == nil && plumbing.ComputeHash(e.kind, data) != hash {
				t.Errorf("object %s has another hash", hash)
			}
		}
	})
}
