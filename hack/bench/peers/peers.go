package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/minifleet/minifleet/hack/lab"
)

// Options say what is measured.
type Options struct {
	// MiniClusters is how many are pushed at once, WarmUp how many before that, which do not count.
	MiniClusters, WarmUp int
	// Runs is how many turns each peer has.
	Runs int
	// Nodes is how many nodes each member has, played by KWOK. Without any, pods stay pending.
	Nodes int
	// Peers names who is measured, in this order; empty: all. See Names.
	Peers []string
	// Dir holds the peers' programs. Default: bin/peers of the repository.
	Dir string
	// MiniFleet is the program. Default: bin/minifleet of the repository.
	MiniFleet string
	// Keep is a directory to work in, which is kept. Default: a temporary one, which is not.
	Keep string
	// Limit is how long a push may take. Default: 10 minutes.
	Limit time.Duration
	// Progress is told how far it is.
	Progress func(string)
}

func (o *Options) setDefaults() error {
	root, err := lab.RepositoryRoot()
	if err != nil {
		return err
	}
	if o.Dir == "" {
		o.Dir = filepath.Join(root, "bin", "peers")
	}
	if o.MiniFleet == "" {
		o.MiniFleet = filepath.Join(root, "bin", "minifleet")
	}
	if o.Limit == 0 {
		o.Limit = 10 * time.Minute
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if len(o.Peers) == 0 {
		o.Peers = Names()
	}
	for _, path := range []*string{&o.Dir, &o.MiniFleet} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	return o.check()
}

func (o *Options) check() error {
	for _, name := range o.Peers {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("%q is none of %s", name, strings.Join(Names(), ", "))
		}
	}
	if o.MiniClusters <= 0 || o.WarmUp <= 0 || o.Runs <= 0 || o.Nodes < 0 {
		return errors.New("the numbers of MiniClusters, of those to warm up with, and of runs have to be positive")
	}
	return nil
}

// Names are the peers, in the order in which they take their turns.
func Names() []string {
	var names []string
	for _, p := range all {
		names = append(names, p.name)
	}
	return names
}

// Run measures each peer that is there, in turns, and returns a table with a row for each that was asked for. A peer that
// is not there or that fails has a row that says so; an error is for what concerns all of them.
func Run(ctx context.Context, options Options) (_ *Table, err error) {
	if err := options.setDefaults(); err != nil {
		return nil, err
	}
	table := newTable(options)
	chosen, err := choose(options, table)
	if err != nil || len(chosen) == 0 {
		return table, err
	}
	dir := options.Keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "minifleet-peers-"); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	s := &servers{options: options, dir: dir}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	for run := range options.Runs {
		for _, p := range chosen {
			m, err := s.measure(ctx, p, run)
			table.add(p, m, err)
			if ctx.Err() != nil {
				return table, ctx.Err()
			}
			options.Progress(fmt.Sprintf("%s: %s", p.title, outcome(m, err)))
		}
	}
	return table, nil
}

// choose returns the peers whose files are there, and gives all that were asked for a row.
func choose(options Options, table *Table) ([]*peer, error) {
	var chosen []*peer
	for _, name := range options.Peers {
		p := all[slices.IndexFunc(all, func(p *peer) bool { return p.name == name })]
		row := &Row{Name: p.name, Title: p.title, How: p.how, Settings: p.settings, NotComparable: p.notComparable}
		table.Rows = append(table.Rows, row)
		if p.driver == nil {
			row.NotMeasured, row.Published = p.notMeasured, p.published
			continue
		}
		missing, err := p.missing(options.Dir)
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			row.Missing, row.Commands = missing, p.commands(options.Dir)
			options.Progress(fmt.Sprintf("%s is not measured: %s is not there", p.title, strings.Join(missing, ", ")))
			continue
		}
		if row.Version, err = p.version(options); err != nil {
			return nil, err
		}
		chosen = append(chosen, p)
	}
	return chosen, nil
}

func outcome(m *Measurement, err error) string {
	if err != nil {
		return "not measured: " + err.Error()
	}
	return fmt.Sprintf("%.2f s to the last Job, %.2f s to the first, %.1f s of CPU time", m.Last, m.First, m.CPU.Quiet)
}

// machine says what it was measured on.
func machine() Machine {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		load = []byte("unknown")
	}
	return Machine{CPUs: runtime.NumCPU(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Load: strings.TrimSpace(string(load))}
}
