package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

const (
	// maxPackObjects bounds the index of a pack, at about 200 bytes an object.
	maxPackObjects = 300_000
	// maxObjectBytes is the largest object that is ever inflated into memory. It is more than the limit
	// of a file, because a small file may be stored as its difference from a larger one.
	maxObjectBytes = 16 << 20
	// maxInflatedBytes bounds the work that a small pack can cause.
	maxInflatedBytes = 4 << 30
	// keepBytes of inflated objects are kept, so that most repositories are inflated once.
	keepBytes = 48 << 20
	// maxPendingBytes bounds the inflated bases that wait for their deltas.
	maxPendingBytes = 64 << 20
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
}

// entry is one object of a pack.
type entry struct {
	offset int64
	length int64 // of what is inflated: the object, or its delta
	kind   plumbing.ObjectType
	base   *entry // nil unless the entry is a delta
	deltas []*entry
	data   []byte // of the object, when it is kept
}

// openPack reads a pack and indexes it by computing the hash of every object, so that what is read from it
// is what the commit's hash stands for.
func openPack(ctx context.Context, r io.Reader, maxBytes int64) (p *pack, err error) {
	// The packfile comes from the server; a panic in a parser of it must not end the hub.
	defer func() {
		if cause := recover(); cause != nil {
			p, err = nil, fail(ReasonFetchFailed, "the pack that the server sent cannot be read")
		}
	}()
	p = &pack{byHash: map[plumbing.Hash]*entry{}, byRef: map[plumbing.Hash][]*entry{}}
	over, err := p.data.readAll(r, maxBytes)
	if err != nil {
		return nil, err
	}
	if over {
		return nil, fail(ReasonLimitExceeded, fmt.Sprintf(
			"the repository sends more than %d MiB; use a smaller repository for the manifests", maxBytes>>20))
	}
	p.scanner = packfile.NewScanner(io.NewSectionReader(&p.data, 0, p.data.size))
	bases, err := p.scan(ctx)
	if err != nil {
		return nil, err
	}
	return p, p.resolveDeltas(ctx, bases)
}

// scan walks the pack once and returns the objects that are not deltas.
func (p *pack) scan(ctx context.Context) ([]*entry, error) {
	_, count, err := p.scanner.Header()
	if err != nil {
		return nil, err
	}
	if count > maxPackObjects {
		return nil, fail(ReasonLimitExceeded, fmt.Sprintf(
			"the repository has more than %d objects; use a smaller repository for the manifests", maxPackObjects))
	}
	var (
		bases    []*entry
		byOffset = map[int64]*entry{}
		work     = &budget{ctx: ctx, remaining: maxInflatedBytes}
	)
	for range count {
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
func (p *pack) scanObject(e *entry, header *packfile.ObjectHeader, byOffset map[int64]*entry, work *budget) error {
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
func (p *pack) indexBase(e *entry, work *budget) error {
	hasher := plumbing.NewHasher(e.kind, e.length)
	sinks := io.MultiWriter(work, hasher)
	var keep *fixed
	if e.length <= maxObjectBytes && p.kept+e.length <= keepBytes {
		keep = &fixed{}
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
	p.byHash[hasher.Sum()] = e
	return nil
}

// pending is an object whose deltas are not resolved yet.
type pending struct {
	entry *entry
	data  []byte
}

// resolveDeltas computes the hash of every delta, base by base, depth first.
func (p *pack) resolveDeltas(ctx context.Context, bases []*entry) error {
	work := &budget{ctx: ctx, remaining: maxInflatedBytes}
	for _, base := range bases {
		if len(base.deltas) == 0 || base.length > maxObjectBytes {
			continue
		}
		data, err := p.read(base)
		if err != nil {
			return err
		}
		if err := p.resolveBelow(pending{base, data}, work); err != nil {
			return err
		}
	}
	return nil
}

func (p *pack) resolveBelow(top pending, work *budget) error {
	stack, held := []pending{top}, int64(len(top.data))
	for len(stack) > 0 {
		parent := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		held -= int64(len(parent.data))
		for _, e := range parent.entry.deltas {
			data, err := p.patch(e, parent.data)
			if errors.Is(err, errTooLarge) {
				continue
			}
			if err != nil {
				return err
			}
			if _, err := work.Write(data); err != nil {
				return err
			}
			e.kind = parent.entry.kind
			p.index(plumbing.ComputeHash(e.kind, data), e)
			if p.kept+int64(len(data)) <= keepBytes {
				e.data, p.kept = data, p.kept+int64(len(data))
			}
			if len(e.deltas) == 0 {
				continue
			}
			stack, held = append(stack, pending{e, data}), held+int64(len(data))
			if held > maxPendingBytes {
				return fail(ReasonLimitExceeded,
					"the repository's objects need too much memory; use a smaller repository for the manifests")
			}
		}
	}
	return nil
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
	if size, _ := leb128(rest); size > maxObjectBytes {
		return nil, errTooLarge
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
	var out fixed
	if _, _, err := p.scanner.NextObject(&out); err != nil {
		return nil, err
	}
	if int64(len(out.b)) != e.length {
		return nil, packfile.ErrMalformedPackFile
	}
	return out.bytes(), nil
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

// budget counts inflated bytes and stops at its limit or when the context ends.
type budget struct {
	ctx       context.Context
	remaining int64
}

func (b *budget) Write(p []byte) (int, error) {
	if failure := contextError(b.ctx); failure != nil {
		return 0, failure
	}
	if b.remaining -= int64(len(p)); b.remaining < 0 {
		return 0, fail(ReasonLimitExceeded,
			"the repository is too large when it is decompressed; use a smaller repository for the manifests")
	}
	return len(p), nil
}
