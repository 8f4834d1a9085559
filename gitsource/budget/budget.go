// Package budget bounds what one reading of a repository may take, from the first byte that its server sends to the last
// object that its files declare. What comes in are limits and a context; a Budget is spent as work is done, by fetching,
// walking and parsing alike, and whoever spends more than there is gets an error that names the limit and the place.
package budget

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Kind is something that is spent, and does not come back.
type Kind int

// What is spent. Each is counted over the whole repository.
const (
	// Refs are branches, tags and other references that the server lists.
	Refs Kind = iota
	// ReceivedBytes are those of the server's answers, as they are after decompression by HTTP.
	ReceivedBytes
	// PackObjects are the objects of the pack.
	PackObjects
	// InflatedBytes are bytes that were decompressed, or computed from deltas: each time, not each once.
	InflatedBytes
	// TreeEntries are the lines of folders that were read: each time, not each once.
	TreeEntries
	// Files are manifests, and whatever is told of in place of one.
	Files
	// ManifestBytes are those of manifests, for each path at which they lie.
	ManifestBytes
	// Values are those of YAML documents, aliases expanded.
	Values
	// TextBytes are those of scalars and of names of fields, aliases expanded.
	TextBytes
	// Comparisons are steps of reading ignore rules, and of comparing paths with them.
	Comparisons

	kinds
)

// Limits are the most that one repository may take. A field of zero takes the default.
type Limits struct {
	// MaxFileBytes is the largest manifest that is read; a larger one becomes a problem of that file. Default 1 MiB.
	MaxFileBytes int64
	// MaxTotalBytes is the most that all manifests together may have, each counted for every path. Default 32 MiB.
	MaxTotalBytes int64
	// MaxFiles is the most manifests that one source may have. Default 20,000.
	MaxFiles int
	// MaxPackBytes is the most that the server may send as the pack. Default 64 MiB.
	MaxPackBytes int64
	// MaxRefs is the most references that the server may list. Default 500,000.
	MaxRefs int64
	// MaxPackObjects is the most objects of a pack. Default 200,000.
	MaxPackObjects int64
	// MaxInflatedBytes is the most that may be decompressed and computed from deltas. Default 1 GiB.
	MaxInflatedBytes int64
	// MaxTreeEntries is the most lines of folders that are read. Default 1,000,000.
	MaxTreeEntries int64
	// MaxValues is the most YAML values of all documents, aliases expanded. Default 2,000,000.
	MaxValues int64
	// MaxTextBytes is the most text of all documents, names of fields included, aliases expanded. Default 64 MiB.
	MaxTextBytes int64
	// MaxComparisons is the most steps of comparing paths with ignore rules. Default 20,000,000.
	MaxComparisons int64
	// MaxObjects is the most objects that one source may declare. Default 5,000.
	MaxObjects int
	// MaxMemoryBytes is the most that may be held at the same time, of what is counted. Default 160 MiB.
	MaxMemoryBytes int64
}

// Default values of Limits.
const (
	DefaultMaxObjects     = 5_000
	DefaultMaxMemoryBytes = 160 << 20
	// SmallBytes is what is held without a reservation.
	SmallBytes = 8 << 20

	defaultMaxFileBytes     = 1 << 20
	defaultMaxTotalBytes    = 32 << 20
	defaultMaxFiles         = 20_000
	defaultMaxPackBytes     = 64 << 20
	defaultMaxRefs          = 500_000
	defaultMaxPackObjects   = 200_000
	defaultMaxInflatedBytes = 1 << 30
	defaultMaxTreeEntries   = 1_000_000
	defaultMaxValues        = 2_000_000
	defaultMaxTextBytes     = 64 << 20
	defaultMaxComparisons   = 20_000_000
	// adverts is what a server may list its references with; it comes on top of the pack.
	adverts = 64 << 20
)

// WithDefaults returns the limits with defaults in the place of zeros.
func (l Limits) WithDefaults() Limits {
	for _, f := range []struct {
		field *int64
		value int64
	}{
		{&l.MaxFileBytes, defaultMaxFileBytes}, {&l.MaxTotalBytes, defaultMaxTotalBytes}, {&l.MaxPackBytes, defaultMaxPackBytes},
		{&l.MaxRefs, defaultMaxRefs}, {&l.MaxPackObjects, defaultMaxPackObjects}, {&l.MaxInflatedBytes, defaultMaxInflatedBytes},
		{&l.MaxTreeEntries, defaultMaxTreeEntries}, {&l.MaxValues, defaultMaxValues}, {&l.MaxTextBytes, defaultMaxTextBytes},
		{&l.MaxComparisons, defaultMaxComparisons}, {&l.MaxMemoryBytes, DefaultMaxMemoryBytes},
	} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	if l.MaxFiles <= 0 {
		l.MaxFiles = defaultMaxFiles
	}
	if l.MaxObjects <= 0 {
		l.MaxObjects = DefaultMaxObjects
	}
	return l
}

// of returns the limit of each kind.
func (l Limits) of() [kinds]int64 {
	return [kinds]int64{
		Refs: l.MaxRefs, ReceivedBytes: l.MaxPackBytes + l.MaxPackBytes/8 + adverts, PackObjects: l.MaxPackObjects,
		InflatedBytes: l.MaxInflatedBytes, TreeEntries: l.MaxTreeEntries, Files: int64(l.MaxFiles),
		ManifestBytes: l.MaxTotalBytes, Values: l.MaxValues, TextBytes: l.MaxTextBytes,
		Comparisons: l.MaxComparisons,
	}
}

const smallerFolder = "name a smaller folder in spec.path, or use several repositories"

// texts say, for each kind, of what there is too much, with the limit as %s, and what to do about it.
var texts = [kinds]struct{ what, remedy string }{
	Refs:          {"the server lists more than %s branches, tags and other references", "delete old ones, or use a smaller repository for the manifests"},
	ReceivedBytes: {"the server sends more than %s bytes", "use a smaller repository for the manifests"},
	PackObjects:   {"the commit has more than %s objects (files and folders)", "use a smaller repository for the manifests"},
	InflatedBytes: {"the commit takes more than %s bytes when it is decompressed", "use a smaller repository for the manifests"},
	TreeEntries:   {"the path holds more than %s files and folders, counted for every path at which they lie", smallerFolder},
	Files:         {"the path holds more than %s manifests", smallerFolder},
	ManifestBytes: {"the manifests are larger than %s bytes together, counted for every path at which they lie", smallerFolder},
	Values:        {"the manifests have more than %s YAML values together, with aliases expanded", "write fewer aliases, or " + smallerFolder},
	Comparisons:   {"comparing paths with ignore rules takes more than %s steps", "use fewer rules, or " + smallerFolder},
	TextBytes:     {"the manifests have more than %s bytes of text together, with aliases expanded", "write fewer aliases, or " + smallerFolder},
}

// Exceeded is the error of whoever spends more than there is.
type Exceeded struct{ message string }

func (e *Exceeded) Error() string { return e.message }

// Reserve waits until there is memory for one that needs much, and returns what gives it back. Its error ends the
// reading.
type Reserve func(context.Context) (release func(), err error)

// Budget is what is left for one reading of one repository. It is for one goroutine at a time. A nil Budget has no limits.
type Budget struct {
	ctx    context.Context // a budget is as short-lived as the reading that it is for, and time is a part of it
	limits Limits
	most   [kinds]int64
	spent  [kinds]int64

	held    int64
	reserve Reserve
	release func()
}

// New returns a budget that ends with the context. reserve is asked once more than SmallBytes are held; nil always grants.
func New(ctx context.Context, limits Limits, reserve Reserve) *Budget {
	limits = limits.WithDefaults()
	return &Budget{ctx: ctx, limits: limits, most: limits.of(), reserve: reserve}
}

// Limits returns the limits, without zeros.
func (b *Budget) Limits() Limits {
	if b == nil {
		return Limits{}.WithDefaults()
	}
	return b.limits
}

// Spend takes n of a kind for what is at path, which may be empty. The error is an *Exceeded, or the context's.
func (b *Budget) Spend(kind Kind, n int64, path string) error {
	if b == nil {
		return nil
	}
	b.spent[kind] += n
	if b.spent[kind] > b.most[kind] {
		text := texts[kind]
		return &Exceeded{fmt.Sprintf(text.what, grouped(b.most[kind])) + at(path) + "; " + text.remedy}
	}
	return b.ctx.Err()
}

// Spent returns how much of a kind was spent.
func (b *Budget) Spent(kind Kind) int64 {
	if b == nil {
		return 0
	}
	return b.spent[kind]
}

// Left returns how much of a kind there is.
func (b *Budget) Left(kind Kind) int64 {
	if b == nil {
		return 1<<63 - 1
	}
	return max(0, b.most[kind]-b.spent[kind])
}

// Hold counts n bytes of memory that are used until Free, for what is at path.
func (b *Budget) Hold(n int64, path string) error {
	if b == nil {
		return nil
	}
	if b.held += n; b.held > b.limits.MaxMemoryBytes {
		return &Exceeded{"reading the repository takes more than " + grouped(b.limits.MaxMemoryBytes) + " bytes of memory" + at(path) +
			"; use a smaller repository for the manifests, or " + smallerFolder}
	}
	if b.held > SmallBytes {
		return b.Reserve()
	}
	return b.ctx.Err()
}

// Reserve waits for the reservation of one that needs much memory, unless there is one already. It is given back by Close.
func (b *Budget) Reserve() error {
	if b == nil {
		return nil
	}
	if b.release == nil && b.reserve != nil {
		release, err := b.reserve(b.ctx)
		if err != nil {
			return err
		}
		b.release = release
	}
	return b.ctx.Err()
}

// Free gives back n bytes of memory.
func (b *Budget) Free(n int64) {
	if b != nil {
		b.held -= n
	}
}

// Mark returns what undoes everything that is spent and held from now on, for an attempt after which another one begins.
func (b *Budget) Mark() (undo func()) {
	if b == nil {
		return func() {}
	}
	spent, held := b.spent, b.held
	return func() { b.spent, b.held = spent, held }
}

// Objects says whether so many objects, the last of which is at path, are within the limit. Without a budget any number is.
func (b *Budget) Objects(n int, path string) error {
	if b == nil || n <= b.limits.MaxObjects {
		return nil
	}
	return &Exceeded{"the manifests declare more than " + grouped(int64(b.limits.MaxObjects)) + " objects" + at(path) +
		"; use several GitSources with fewer each, or have an administrator of the hub raise --git-max-objects"}
}

// Close gives back what was reserved. A closed budget is not used any more.
func (b *Budget) Close() {
	if b != nil && b.release != nil {
		b.release()
		b.release = func() {}
	}
}

// maxPath is how much of a path a message shows, in bytes.
const maxPath = 200

// at names a path, which comes from the repository, on one line and without what could steer a terminal.
func at(path string) string {
	if path == "" {
		return ""
	}
	if len(path) > maxPath {
		path = path[:maxPath] + "…"
	}
	path = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, strings.ToValidUTF8(path, "\uFFFD"))
	return " (at " + strconv.Quote(path) + ")"
}

// grouped writes a number with commas.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
