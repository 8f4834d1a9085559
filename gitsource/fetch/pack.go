package fetch

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"github.com/minifleet/minifleet/gitsource/budget"
)

const (
	// entryBytes is about what the index of a pack takes for each object.
	entryBytes = 256
	// maxObjectBytes is the largest object that is ever inflated into memory. It is more than the limit
	// of a file, because a small file may be stored as its difference from a larger one.
	maxObjectBytes = 16 << 20
	// keepBytes of inflated objects are kept, so that most repositories are inflated once.
	keepBytes = 8 << 20
	// firstBytes are made room for before an object is inflated: what its header says of its length is only said.
	firstBytes = 64 << 10
)

// pack is a packfile in memory, compressed as it came, and the index of it. Objects that are larger than
// maxObjectBytes, or stored as a difference from one that is, are not in the index.
type pack struct {
	data    chunks
	scanner *packfile.Scanner
	byHash  map[plumbing.Hash]*entry
	// byRef holds the deltas that name their base by hash, until that base is known.
	byRef map[plumbing.Hash][]*entry
	kept  int64
	// budget is spent for everything that is inflated or computed from a delta, however often; at is the path that it is
	// read for.
	budget *budget.Budget
	at     string
}

// entry is one object of a pack.
type entry struct {
	offset int64
	length int64 // of what is inflated: the object, or its delta
	size   int64 // of the object, once it is indexed
	kind   plumbing.ObjectType
	base   *entry // nil unless the entry is a delta
	deltas []*entry
	data   []byte // of the object, when it is kept
}

// openPack reads a pack and indexes it by computing the hash of every object, so that what is read from it
// is what the commit's hash stands for.
func openPack(r io.Reader, b *budget.Budget) (p *pack, err error) {
	// The packfile comes from the server; a panic in a parser of it must not end the hub.
	defer func() {
		if cause := recover(); cause != nil {
			p, err = nil, fail(ReasonFetchFailed, "the pack that the server sent cannot be read")
		}
	}()
	p = &pack{byHash: map[plumbing.Hash]*entry{}, byRef: map[plumbing.Hash][]*entry{}, budget: b}
	maxBytes := b.Limits().MaxPackBytes
	over, err := p.data.readAll(r, maxBytes, b)
	if err != nil {
		return nil, err
	}
	if over {
		return nil, fail(ReasonLimitExceeded, fmt.Sprintf(
			"the repository sends more than %d MiB; use a smaller repository for the manifests", maxBytes>>20))
	}
	p.scanner = packfile.NewScanner(io.NewSectionReader(&p.data, 0, p.data.size))
	bases, err := p.scan()
	if err != nil {
		return nil, err
	}
	return p, p.resolveDeltas(bases)
}

// scan walks the pack once and returns the objects that are not deltas.
func (p *pack) scan() ([]*entry, error) {
	_, count, err := p.scanner.Header()
	if err != nil {
		return nil, err
	}
	if err := p.budget.Spend(budget.PackObjects, int64(count), ""); err != nil {
		return nil, err
	}
	var (
		bases    []*entry
		byOffset = map[int64]*entry{}
		work     = inflated{p.budget}
	)
	for range count {
		if err := p.budget.Hold(entryBytes, ""); err != nil {
			return nil, err
		}
		header, err := p.scanner.NextObjectHeader()
		if err != nil {
			return nil, err
		}
		e := &entry{offset: header.Offset, length: header.Length, kind: header.Type}
		byOffset[e.offset] = e
		if err := p.scanObject(e, header, byOffset, work); err != nil {
			return nil, err
		}
		if !e.kind.IsDelta() {
			bases = append(bases, e)
		}
	}
	if _, err := p.scanner.Checksum(); err != nil {
		return nil, err
	}
	for hash, e := range p.byHash { // a delta may come before or after the base it names
		p.index(hash, e)
	}
	return bases, nil
}

// scanObject reads what follows a header. A delta is hung below its base, which it names by offset or by hash.
func (p *pack) scanObject(e *entry, header *packfile.ObjectHeader, byOffset map[int64]*entry, work inflated) error {
	switch e.kind {
	case plumbing.OFSDeltaObject:
		base := byOffset[header.OffsetReference]
		if base == nil {
			return packfile.ErrMalformedPackFile
		}
		e.base = base
		base.deltas = append(base.deltas, e)
	case plumbing.REFDeltaObject:
		p.byRef[header.Reference] = append(p.byRef[header.Reference], e)
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		return p.indexBase(e, work)
	default:
		return packfile.ErrMalformedPackFile
	}
	_, _, err := p.scanner.NextObject(work)
	return err
}

// index enters an object whose hash is known, and hangs the deltas that wait for it below it.
func (p *pack) index(hash plumbing.Hash, e *entry) {
	p.byHash[hash] = e
	for _, delta := range p.byRef[hash] {
		delta.base = e
		e.deltas = append(e.deltas, delta)
	}
	delete(p.byRef, hash)
}

// indexBase hashes one object while it is inflated, and keeps it while there is room.
func (p *pack) indexBase(e *entry, work inflated) error {
	hasher := plumbing.NewHasher(e.kind, e.length)
	sinks := io.MultiWriter(work, hasher)
	var keep *fixed
	if e.length <= maxObjectBytes && p.kept+e.length <= keepBytes {
		if err := p.budget.Hold(e.length, ""); err != nil {
			return err
		}
		keep = &fixed{make([]byte, 0, min(e.length, firstBytes))}
		sinks = io.MultiWriter(work, hasher, keep)
	}
	n, _, err := p.scanner.NextObject(sinks)
	if err != nil {
		return err
	}
	if n != e.length {
		return packfile.ErrMalformedPackFile
	}
	if e.length > maxObjectBytes {
		return nil
	}
	if keep != nil {
		e.data = keep.bytes()
		p.kept += e.length
	}
	e.size = e.length
	p.byHash[hasher.Sum()] = e
	return nil
}

// pending is an object whose deltas are not resolved yet.
type pending struct {
	entry *entry
	data  []byte
}

// resolveDeltas computes the hash of every delta, base by base, depth first.
func (p *pack) resolveDeltas(bases []*entry) error {
	for _, base := range bases {
		if len(base.deltas) == 0 || base.length > maxObjectBytes {
			continue
		}
		data, err := p.read(base)
		if err != nil {
			return err
		}
		if err := p.resolveBelow(pending{base, data}); err != nil {
			return err
		}
	}
	return nil
}

func (p *pack) resolveBelow(top pending) error {
	if err := p.budget.Hold(int64(len(top.data)), ""); err != nil {
		return err
	}
	for stack := []pending{top}; len(stack) > 0; {
		parent := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, e := range parent.entry.deltas {
			data, err := p.resolve(e, parent)
			if err != nil {
				return err
			}
			if data == nil || len(e.deltas) == 0 {
				continue
			}
			if err := p.budget.Hold(int64(len(data)), ""); err != nil {
				return err
			}
			stack = append(stack, pending{e, data})
		}
		p.budget.Free(int64(len(parent.data)))
	}
	return nil
}

// resolve indexes an object that is stored as a delta, and returns its content; nil for one that is too large.
func (p *pack) resolve(e *entry, parent pending) ([]byte, error) {
	data, err := p.patch(e, parent.data)
	if errors.Is(err, errTooLarge) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e.kind, e.size = parent.entry.kind, int64(len(data))
	p.index(plumbing.ComputeHash(e.kind, data), e)
	if p.kept+e.size <= keepBytes {
		if err := p.budget.Hold(e.size, ""); err != nil {
			return nil, err
		}
		e.data, p.kept = data, p.kept+e.size
	}
	return data, nil
}

var errTooLarge = errors.New("object is over the limit")

// patch applies the delta e to base.
func (p *pack) patch(e *entry, base []byte) ([]byte, error) {
	if e.length > maxObjectBytes {
		return nil, errTooLarge
	}
	delta, err := p.inflate(e)
	if err != nil {
		return nil, err
	}
	_, rest := leb128(delta)
	size, _ := leb128(rest)
	if size > maxObjectBytes {
		return nil, errTooLarge
	}
	if err := p.budget.Spend(budget.InflatedBytes, int64(size), p.at); err != nil {
		return nil, err
	}
	return packfile.PatchDelta(base, delta)
}

// leb128 reads one size of a delta's head. Bits beyond 63 are dropped; PatchDelta refuses such a size.
func leb128(b []byte) (size uint64, rest []byte) {
	for i, c := range b {
		if shift := 7 * i; shift < 63 {
			size |= uint64(c&0x7f) << shift
		} else if c&0x7f != 0 {
			size = 1 << 63
		}
		if c&0x80 == 0 {
			return size, b[i+1:]
		}
	}
	return size, nil
}

// read returns the content of an indexed entry. The caller must not change it.
func (p *pack) read(e *entry) ([]byte, error) {
	var chain []*entry
	for ; e.data == nil && e.base != nil; e = e.base {
		chain = append(chain, e)
	}
	data := e.data
	if data == nil {
		var err error
		if data, err = p.inflate(e); err != nil {
			return nil, err
		}
	}
	for i := len(chain) - 1; i >= 0; i-- {
		var err error
		if data, err = p.patch(chain[i], data); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// inflate reads what is stored at e: an object or a delta, of at most maxObjectBytes.
func (p *pack) inflate(e *entry) ([]byte, error) {
	if e.length > maxObjectBytes {
		return nil, errTooLarge
	}
	if _, err := p.scanner.SeekObjectHeader(e.offset); err != nil {
		return nil, err
	}
	out := fixed{make([]byte, 0, min(e.length, firstBytes))}
	if err := p.budget.Spend(budget.InflatedBytes, e.length, p.at); err != nil {
		return nil, err
	}
	if _, _, err := p.scanner.NextObject(&out); err != nil {
		return nil, err
	}
	if int64(len(out.b)) != e.length {
		return nil, packfile.ErrMalformedPackFile
	}
	return out.bytes(), nil
}

// size is that of the object with a hash, or ok false when the pack has none of the wanted kind.
func (p *pack) size(hash plumbing.Hash, kind plumbing.ObjectType) (bytes int64, ok bool) {
	e := p.byHash[hash]
	if e == nil || e.kind != kind {
		return 0, false
	}
	return e.size, true
}

// object returns the content of a hash of the wanted kind, or ok false when the pack has none.
func (p *pack) object(hash plumbing.Hash, kind plumbing.ObjectType) (data []byte, ok bool, err error) {
	e := p.byHash[hash]
	if e == nil || e.kind != kind {
		return nil, false, nil
	}
	data, err = p.read(e)
	return data, err == nil, err
}

// fixed collects bytes; unlike bytes.Buffer it gives its memory away without spare room.
type fixed struct{ b []byte }

func (f *fixed) Write(p []byte) (int, error) {
	f.b = append(f.b, p...)
	return len(p), nil
}

// bytes is never nil, so that an empty object that is kept can be told from one that is not.
func (f *fixed) bytes() []byte {
	if f.b == nil {
		return []byte{}
	}
	return f.b[:len(f.b):len(f.b)]
}

// inflated counts what is inflated.
type inflated struct{ budget *budget.Budget }

func (i inflated) Write(p []byte) (int, error) {
	if err := i.budget.Spend(budget.InflatedBytes, int64(len(p)), ""); err != nil {
		return 0, err
	}
	return len(p), nil
}
