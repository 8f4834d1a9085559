// Package build builds overlays with kustomize. What comes in is a closure (package overlay); what comes out are the
// documents that kustomize makes of it, or what it has against it.
//
// kustomize fetches URLs, runs programs, panics, has no deadline and keeps globals. It therefore runs in a process of its
// own, which is this binary with another command: it is handed the files on its standard input, and confines itself before
// it reads them.
//
//	build.go          closures -> files for the parser, remembered by content
//	process.go        one closure -> one process, its limits, and what its end means
//	child.go          what that process does
//	confine_linux.go  what it may not do, enforced by the kernel
package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/overlay"
)

// Limits bound one build. A field of zero takes the default.
type Limits struct {
	// Memory is the most bytes of data that the process may map (RLIMIT_DATA, on Linux). Default 256 MiB.
	Memory int64
	// CPU is the most time of processors that it may take. Default 10s; whole seconds.
	CPU time.Duration
	// Wall is the most time that it may take. Default 30s.
	Wall time.Duration
	// Output is the most bytes that kustomize may make. Default 2 MiB, which is what the parser reads.
	Output int64
	// Documents is the most objects that kustomize may make. Default 5,000.
	Documents int
}

const (
	defaultMemory    = 256 << 20
	defaultCPU       = 10 * time.Second
	defaultWall      = 30 * time.Second
	defaultOutput    = 2 << 20
	defaultDocuments = 5_000
)

// WithDefaults returns the limits with defaults in the place of zeros.
func (l Limits) WithDefaults() Limits {
	if l.Memory <= 0 {
		l.Memory = defaultMemory
	}
	if l.CPU <= 0 {
		l.CPU = defaultCPU
	}
	if l.Wall <= 0 {
		l.Wall = defaultWall
	}
	if l.Output <= 0 {
		l.Output = defaultOutput
	}
	if l.Documents <= 0 {
		l.Documents = defaultDocuments
	}
	return l
}

// Builder builds overlays, one at a time, and remembers what it has built. It is safe for concurrent use.
type Builder struct {
	// Command starts the process that builds: a program and its arguments. It ends in Child.
	Command []string
	Limits  Limits

	once sync.Once
	slot chan struct{}
	mu   sync.Mutex
	// built are the last outputs, by the key of their closures; order has the oldest first.
	built map[[sha256.Size]byte]*output
	order [][sha256.Size]byte
	bytes int64
}

// output is what became of one build.
type output struct {
	// problem says why there is nothing.
	problem string
	// again says that it may go otherwise another time: the problem is the machine's.
	again   bool
	yaml    []byte
	origins []string
	// generated are the ConfigMaps and Secrets that generators made, as KIND NAME.
	generated []string
}

// maxRemembered is how many bytes of outputs are remembered, and outputBytes what one takes besides.
const (
	maxRemembered = 16 << 20
	outputBytes   = 500
)

// Files builds closures, and returns a file for each, for the parser: its Path is that of the kustomization. What cannot
// be built has Findings. again says that one may be built another time, though nothing has changed.
//
// The error is that of the budget, of the context, or of this machine.
func (b *Builder) Files(ctx context.Context, spend *budget.Budget, closures []*overlay.Closure) (files []gitsource.File, again bool, err error) {
	for _, c := range closures {
		if len(c.Problems) > 0 {
			files = append(files, c.Refused())
			continue
		}
		out, err := b.build(ctx, spend, c)
		if err != nil {
			return nil, false, err
		}
		if err := spend.Spend(budget.ManifestBytes, int64(len(out.yaml)), c.File); err != nil {
			return nil, false, err
		}
		if err := spend.Hold(int64(len(out.yaml)), c.File); err != nil {
			return nil, false, err
		}
		f := out.file(c.File)
		if out.problem == "" {
			key := c.Key()
			f.Blob = "built " + hex.EncodeToString(key[:]) // so that it is parsed again only after a change
		}
		files = append(files, f)
		again = again || out.again
	}
	return files, again, nil
}

func (o *output) file(path string) gitsource.File {
	f := gitsource.File{Path: path, Data: o.yaml, Origins: o.origins}
	if f.Data == nil && o.problem == "" {
		f.Data = []byte{} // it makes nothing, which is known
	}
	if o.problem != "" {
		f.Findings = append(f.Findings, gitsource.Finding{Message: "cannot be built: " + o.problem})
	}
	if len(o.generated) > 0 {
		f.Findings = append(f.Findings, gitsource.Finding{Warning: true, Message: fmt.Sprintf(
			"generates %s, which MiniFleet does not apply: a MiniCluster that names one finds it only where somebody creates it in the namespace of the GitSource on the hub, with the label minifleet.dev/propagate=true, or on the member",
			names(o.generated))})
	}
	return f
}

// names shows the first of many.
func names(all []string) string {
	const most = 8
	if len(all) > most {
		return strings.Join(all[:most], ", ") + " and " + strconv.Itoa(len(all)-most) + " more"
	}
	return strings.Join(all, ", ")
}

// build returns what a closure builds to, remembered or new.
func (b *Builder) build(ctx context.Context, spend *budget.Budget, c *overlay.Closure) (*output, error) {
	key := c.Key()
	if out := b.remembered(key); out != nil {
		return out, nil
	}
	if err := spend.Reserve(); err != nil {
		return nil, err
	}
	b.once.Do(func() { b.slot = make(chan struct{}, 1) })
	select {
	case b.slot <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-b.slot }()
	if out := b.remembered(key); out != nil {
		return out, nil // built while this one waited
	}
	out, err := run(ctx, b.Command, b.Limits.WithDefaults(), c)
	if err == nil && !out.again {
		b.remember(key, out)
	}
	return out, err
}

func (b *Builder) remembered(key [sha256.Size]byte) *output {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.built[key]
}

func (b *Builder) remember(key [sha256.Size]byte, out *output) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.built == nil {
		b.built = map[[sha256.Size]byte]*output{}
	}
	b.built[key] = out
	b.order = append(b.order, key)
	b.bytes += out.size()
	for b.bytes > maxRemembered && len(b.order) > 1 {
		b.bytes -= b.built[b.order[0]].size()
		delete(b.built, b.order[0])
		b.order = b.order[1:]
	}
}

func (o *output) size() int64 {
	n := outputBytes + len(o.yaml) + len(o.problem)
	for _, s := range append(append([]string{}, o.origins...), o.generated...) {
		n += len(s) + 16 // and the string's own
	}
	return int64(n)
}
