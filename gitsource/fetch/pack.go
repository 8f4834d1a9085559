package fetch

import (
	"errors"
	"fmt"
	"io"
	"maps"

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

// segment is a packfile in memory, compressed as it came, and the index of it. Objects that are larger than maxObjectBytes,
// or stored as a difference from one that is, are not in the index. It does not change once it was opened, so that several
// readings may share it.
type segment struct {
	data   chunks
	byHash map[plumbing.Hash]*entry
	// below is what was received before, from whose objects this one may store differences; nil for one that is whole.
	below *segment
	// objects, bytes and inflated are what this one and those below have, and what opening them took. depth is their number.
	objects, bytes, inflated int64
	depth                    int
}

// entry is one object of a segment.
type entry struct {
	in     *segment
	offset int64
	length int64 // of what is inflated: the object, or its delta
	size   int64 // of the object, once it is indexed
	kind   plumbing.ObjectType
	base   *entry // nil unless the entry is a delta
}

// find returns the entry of a hash, nil without any.
func (s *segment) find(hash plumbing.Hash) *entry {
	e := s.byHash[hash]
	if e == nil && s.below != nil {
		e = s.below.find(hash)
	}
	return e
}

// flatten has the index of a segment hold what all of those below hold but the lowest, which is by far the largest. An object
// is then found in two steps, however often something was received.
func (s *segment) flatten() {
	if s.below == nil || s.below.below == nil {
		return
	}
	all := maps.Clone(s.below.byHash)
	maps.Copy(all, s.byHash)
	s.byHash, s.below = all, s.below.below
}

// whole is the lowest segment.
func (s *segment) whole() *segment {
	for s.below != nil {
		s = s.below
	}
	return s
}

// memory is about what all of it takes.
func (s *segment) memory() int64 { return s.bytes + entryBytes*s.objects }

// pack is a segment, and those below it, as one reading has them.
type pack struct {
	*segment
	scanners map[*segment]*packfile.Scanner
	// inflated objects are kept, so that most are inflated once.
	kept      map[*entry][]byte
	keptBytes int64
	// lost are objects that were asked for and are not there, so many that it can be told that they are too many.
	lost map[plumbing.Hash]bool
	// budget is spent for everything that is inflated or computed from a delta, however often; at is the path that it is
	// read for.
	budget *budget.Budget
	at     string
}

func newPack(s *segment, b *budget.Budget) *pack {
	return &pack{segment: s, scanners: map[*segment]*packfile.Scanner{}, kept: map[*entry][]byte{}, lost: map[plumbing.Hash]bool{}, budget: b}
}

// scanner reads the entries of a segment.
func (p *pack) scanner(s *segment) *packfile.Scanner {
	if p.scanners[s] == nil {
		p.scanners[s] = packfile.NewScanner(io.NewSectionReader(&s.data, 0, s.data.size))
	}
	return p.scanners[s]
}

// opener indexes a segment.
type opener struct {
	*pack
	// deltas are stored as differences from an object.
	deltas map[*entry][]*entry
	// byRef holds the deltas that name their base by hash, until that base is known.
	byRef map[plumbing.Hash][]*entry
}

// errIncomplete says that a pack has differences from objects that are not there.
var errIncomplete = errors.New("the pack has differences from objects that are not known")

// openPack reads a pack and indexes it by computing the hash of every object, so that what is read from it
// is what the commit's hash stands for.
func openPack(r io.Reader, b *budget.Budget) (*pack, error) { return openOnto(r, nil, b) }

// openOnto opens a pack that may have differences from what was received before. All of it together is within the limits.
func openOnto(r io.Reader, below *segment, b *budget.Budget) (p *pack, err error) {
	// The packfile comes from the server; a panic in a parser of it must not end the hub.
	defer func() {
		if cause := recover(); cause != nil {
			p, err = nil, fail(ReasonFetchFailed, "the pack that the server sent cannot be read")
		}
	}()
	s := &segment{byHash: map[plumbing.Hash]*entry{}, below: below, depth: 1}
	if below != nil {
		s.objects, s.bytes, s.inflated, s.depth = below.objects, below.bytes, below.inflated, below.depth+1
	}
	maxBytes := b.Limits().MaxPackBytes - s.bytes
	over, err := s.data.readAll(r, maxBytes, b)
	if err != nil {
		return nil, err
	}
	if over {
		return nil, fail(ReasonLimitExceeded, fmt.Sprintf(
			"the repository sends more than %d MiB; use a smaller repository for the manifests", b.Limits().MaxPackBytes>>20))
	}
	before := b.Spent(budget.InflatedBytes)
	o := &opener{pack: newPack(s, b), deltas: map[*entry][]*entry{}, byRef: map[plumbing.Hash][]*entry{}}
	if err := o.open(); err != nil {
		return nil, err
	}
	s.bytes += s.data.size
	s.inflated += b.Spent(budget.InflatedBytes) - before
	s.flatten()
	return o.pack, nil
}

func (p *opener) open() error {
	if err := p.budget.Spend(budget.PackObjects, p.objects, ""); err != nil {
		return err
	}
	bases, err := p.scan()
	if err != nil {
		return err
	}
	if err := p.resolveDeltas(bases); err != nil {
		return err
	}
	return p.resolveOnto()
}

// resolveOnto computes the hashes of deltas whose bases were received before.
func (p *opener) resolveOnto() error {
	for p.below != nil && len(p.byRef) > 0 {
		found := false
		for hash, deltas := range maps.Clone(p.byRef) {
			base := p.below.find(hash)
			if base == nil || p.byRef[hash] == nil {
				continue
			}
			found = true
			delete(p.byRef, hash)
			for _, delta := range deltas {
				delta.base = base
			}
			p.deltas[base] = deltas
			if err := p.resolveDeltas([]*entry{base}); err != nil {
				return err
			}
		}
		if !found {
			return errIncomplete
		}
	}
	return nil
}

// scan walks the pack once and returns the objects that are not deltas.
func (p *opener) scan() ([]*entry, error) {
	scanner := p.scanner(p.segment)
	_, count, err := scanner.Header()
	if err != nil {
		return nil, err
	}
	if err := p.budget.Spend(budget.PackObjects, int64(count), ""); err != nil {
		return nil, err
	}
	p.objects += int64(count)
	var (
		bases    []*entry
		byOffset = map[int64]*entry{}
		work     = inflated{p.budget}
	)
	for range count {
		if err := p.budget.Hold(entryBytes, ""); err != nil {
			return nil, err
		}
		header, err := scanner.NextObjectHeader()
		if err != nil {
			return nil, err
		}
		e := &entry{in: p.segment, offset: header.Offset, length: header.Length, kind: header.Type}
		byOffset[e.offset] = e
		if err := p.scanObject(e, header, byOffset, work); err != nil {
			return nil, err
		}
		if !e.kind.IsDelta() {
			bases = append(bases, e)
		}
	}
	if _, err := scanner.Checksum(); err != nil {
		return nil, err
	}
	for hash, e := range p.byHash { // a delta may come before or after the base it names
		p.index(hash, e)
	}
	return bases, nil
}

// scanObject reads what follows a header. A delta is hung below its base, which it names by offset or by hash.
func (p *opener) scanObject(e *entry, header *packfile.ObjectHeader, byOffset map[int64]*entry, work inflated) error {
	switch e.kind {
	case plumbing.OFSDeltaObject:
		base := byOffset[header.OffsetReference]
		if base == nil {
			return packfile.ErrMalformedPackFile
		}
		e.base = base
		p.deltas[base] = append(p.deltas[base], e)
	case plumbing.REFDeltaObject:
		p.byRef[header.Reference] = append(p.byRef[header.Reference], e)
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		return p.indexBase(e, work)
	default:
		return packfile.ErrMalformedPackFile
	}
	_, _, err := p.scanner(p.segment).NextObject(work)
	return err
}

// index enters an object whose hash is known, and hangs the deltas that wait for it below it.
func (p *opener) index(hash plumbing.Hash, e *entry) {
	p.byHash[hash] = e
	for _, delta := range p.byRef[hash] {
		delta.base = e
		p.deltas[e] = append(p.deltas[e], delta)
	}
	delete(p.byRef, hash)
}

// indexBase hashes one object while it is inflated, and keeps it while there is room.
func (p *opener) indexBase(e *entry, work inflated) error {
	hasher := plumbing.NewHasher(e.kind, e.length)
	sinks := io.MultiWriter(work, hasher)
	var keep *fixed
	if e.length <= maxObjectBytes && p.keptBytes+e.length <= keepBytes {
		if err := p.budget.Hold(e.length, ""); err != nil {
			return err
		}
		keep = &fixed{make([]byte, 0, min(e.length, firstBytes))}
		sinks = io.MultiWriter(work, hasher, keep)
	}
	n, _, err := p.scanner(p.segment).NextObject(sinks)
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
		p.kept[e] = keep.bytes()
		p.keptBytes += e.length
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
func (p *opener) resolveDeltas(bases []*entry) error {
	for _, base := range bases {
		if len(p.deltas[base]) == 0 || base.length > maxObjectBytes {
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

func (p *opener) resolveBelow(top pending) error {
	if err := p.budget.Hold(int64(len(top.data)), ""); err != nil {
		return err
	}
	for stack := []pending{top}; len(stack) > 0; {
		parent := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, e := range p.deltas[parent.entry] {
			data, err := p.resolve(e, parent)
			if err != nil {
				return err
			}
			if data == nil || len(p.deltas[e]) == 0 {
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
func (p *opener) resolve(e *entry, parent pending) ([]byte, error) {
	data, err := p.patch(e, parent.data)
	if errors.Is(err, errTooLarge) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e.kind, e.size = parent.entry.kind, int64(len(data))
	p.index(plumbing.ComputeHash(e.kind, data), e)
	if p.keptBytes+e.size <= keepBytes {
		if err := p.budget.Hold(e.size, ""); err != nil {
			return nil, err
		}
		p.kept[e], p.keptBytes = data, p.keptBytes+e.size
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
	for ; p.kept[e] == nil && e.base != nil; e = e.base {
		chain = append(chain, e)
	}
	data := p.kept[e]
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
	scanner := p.scanner(e.in)
	if _, err := scanner.SeekObjectHeader(e.offset); err != nil {
		return nil, err
	}
	out := fixed{make([]byte, 0, min(e.length, firstBytes))}
	if err := p.budget.Spend(budget.InflatedBytes, e.length, p.at); err != nil {
		return nil, err
	}
	if _, _, err := scanner.NextObject(&out); err != nil {
		return nil, err
	}
	if int64(len(out.b)) != e.length {
		return nil, packfile.ErrMalformedPackFile
	}
	return out.bytes(), nil
}

// entry finds an object, and remembers that it is not there.
func (p *pack) entry(hash plumbing.Hash) *entry {
	e := p.find(hash)
	if e == nil && hash != emptyTree && len(p.lost) <= maxLacking {
		p.lost[hash] = true
	}
	return e
}

// emptyTree need not be sent.
var emptyTree = plumbing.ComputeHash(plumbing.TreeObject, nil)

// size is that of the blob with a hash, or ok false when the pack has none.
func (p *pack) size(hash plumbing.Hash) (bytes int64, ok bool) {
	e := p.entry(hash)
	if e == nil || e.kind != plumbing.BlobObject {
		return 0, false
	}
	return e.size, true
}

// object returns the content of a hash of the wanted kind, or ok false when the pack has none.
func (p *pack) object(hash plumbing.Hash, kind plumbing.ObjectType) (data []byte, ok bool, err error) {
	e := p.entry(hash)
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
