// Command bench measures MiniFleet from outside, each figure beside a floor from the same run: what the
// same servers take when nothing but the necessary requests is sent. See docs/performance.md.
//
//	bin/bench [-n MINICLUSTERS] [-runs RUNS] [-singles PUSHES] [-rows ROWS] [-o table|json]
//	bin/bench numbered [-row NUMBERS] [-out DIR] [-short] [-runs RUNS] [-singles PUSHES] ...
//
// It starts a hub and three members with hack/lab, bin/minifleet, and a Git server, and stops them at the
// end. It needs bin/minifleet and bin/testcluster; `make bench` builds all three.
//
// What is where:
//
//	main.go        flags
//	rows.go        the rows of `make bench`: what each measures, its floor, its goals, how large it is
//	numbered.go    runs them: progress, what fails, what is saved
//	record/        figures, goals, the table and the raw file
//	machine.go     what it runs on
//	fleet.go       a hub, members, a Git server and the controller as a process
//	trail.go       times and requests, from the audit logs; proc.go: CPU time, memory, metrics
//	floor.go       bare loops: what the necessary requests take; samerequests.go: what all that the controller sends take
//	bench.go       many at once, one by one, a sync that changes nothing, restarts
//	profiles.go    CPU profiles of the controller and of API servers, heap profiles of the controller
//	commit.go      one file of many; repository.go: repositories and webhooks
//	resting.go     a fleet at rest, and with a hung member; memory.go: what idle members hold
//	confined.go    members that are namespaces; growth.go, thousands.go, hung.go: many of them
//	ledgers.go     many MiniClusters with long ledgers
//	gobench.go     benchmarks of packages; peersrow.go: hack/bench/peers
//	dashboard.go   with listing.go, page.go, tabs.go and sample.go: the dashboard
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/minifleet/minifleet/hack/lab"
)

type options struct {
	size
	output     string
	binary     string
	rows       string
	jobsRun    bool
	keep       string
	auditLevel string
	// profiles is the directory for profiles; empty: none are made.
	profiles string
}

// size is how much is measured.
type size struct {
	// n is how many MiniClusters there are, runs how often each measurement is repeated, singles how many MiniClusters are
	// pushed one by one.
	n, runs, singles int
	// doubles are idle members more, strangers objects of others on a member.
	doubles, strangers int
	idleFor, tabsFor   time.Duration
	sizes              sizes
	// counts are numbers of MiniClusters, members numbers of members, of rows that have several of them.
	counts, members []int
}

// sizes are numbers of MiniClusters, ascending: a flag.
type sizes []int

func (s *sizes) String() string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint([]int(*s))), ","), "[]")
}

func (s *sizes) Set(text string) error {
	*s = nil
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n <= few || len(*s) > 0 && n <= (*s)[len(*s)-1] {
			return fmt.Errorf("%q: ascending numbers above %d are needed", text, few)
		}
		*s = append(*s, n)
	}
	return nil
}

// rows are what is measured where nothing is said, and all that can be.
const (
	defaultRows = "single,idle,webhook,restart"
	allRows     = defaultRows + ",commit," + restingRows + "," + dashboardRows
)

// has says whether one of some rows is to be measured.
func (o *options) has(rows string) bool {
	wanted := strings.Split(o.rows, ",")
	return slices.ContainsFunc(strings.Split(rows, ","), func(row string) bool { return slices.Contains(wanted, row) })
}

func (o *options) valid() bool {
	known := strings.Split(allRows+",none", ",")
	for _, row := range strings.Split(o.rows, ",") {
		if !slices.Contains(known, row) {
			return false
		}
	}
	return o.n >= 0 && o.runs > 0 && o.singles > 0 && o.doubles > 0 && o.strangers > 0 && (o.output == "table" || o.output == "json")
}

func main() {
	args := os.Args[1:]
	numbered := len(args) > 0 && args[0] == "numbered"
	if numbered {
		args = args[1:]
	}
	o := options{size: size{sizes: sizes{2000, 10000}}}
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	o.register(flags)
	var which selection
	if numbered {
		which.register(flags)
	}
	_ = flags.Parse(args) // it exits
	if flags.NArg() > 0 || !o.valid() {
		flags.Usage()
		os.Exit(2)
	}
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if numbered {
		flags.Visit(func(f *flag.Flag) { which.given = append(which.given, f.Name+"="+f.Value.String()) })
		err = runNumbered(ctx, o, which, os.Stderr)
	} else {
		err = run(ctx, o, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (o *options) register(flags *flag.FlagSet) {
	flags.IntVar(&o.n, "n", 200, "how many MiniClusters at once; 0: only the rows of a resting fleet, and of the dashboard")
	flags.IntVar(&o.runs, "runs", 5, "how often each measurement is repeated")
	flags.IntVar(&o.singles, "singles", 30, "how many single MiniClusters are pushed")
	flags.StringVar(&o.output, "o", "table", "output: table or json")
	flags.StringVar(&o.binary, "binary", "", "the program to measure; default: bin/minifleet")
	flags.StringVar(&o.rows, "rows", defaultRows, "what to measure beside many MiniClusters at once, of "+allRows+"; none: nothing")
	flags.BoolVar(&o.jobsRun, "job-controllers", false, "let the members' Job controllers run while many MiniClusters are timed")
	flags.StringVar(&o.keep, "keep", "", "a directory to work in, which is kept, e.g. to read the audit logs")
	flags.StringVar(&o.profiles, "profiles", "", "a directory for CPU profiles of the controller and the API servers in each run of many MiniClusters at once, and a heap profile of the controller of a large hub; they cost time, too")
	flags.StringVar(&o.auditLevel, "audit-level", "Metadata", "level of the audit logs: Metadata, or with bodies, which costs time, Request or RequestResponse")
	flags.DurationVar(&o.idleFor, "idle-for", 15*time.Minute, "how long the requests of a resting fleet are counted; watches are renewed every 5 to 10 minutes")
	flags.IntVar(&o.doubles, "doubles", 20, "how many more members the memory for each is measured with")
	flags.IntVar(&o.strangers, "strangers", 10000, "how many objects of each kind of others a member gets while memory is measured")
	flags.Var(&o.sizes, "sizes", "how many MiniClusters the dashboard shows, one number after the other")
	flags.DurationVar(&o.tabsFor, "tabs-for", time.Minute, "how long the requests of idle tabs are counted")
}

// run measures everything and writes the report to out, and how far it is to progress.
func run(ctx context.Context, o options, out, progress io.Writer) (err error) {
	started := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(progress, "%6.1fs  %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
	}
	root, err := lab.RepositoryRoot()
	if err != nil {
		return err
	}
	if err := o.findBinary(root); err != nil && (o.n > 0 || o.has(restingRows)) {
		return err
	}
	dir, done, err := o.workIn()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	r := newReport(o)
	if o.n > 0 {
		b := &bench{fleet: &fleet{options: o, dir: dir, say: say}, report: r}
		if err := b.with(ctx, root, b.all); err != nil {
			return err
		}
	}
	if o.has(restingRows) {
		b := &resting{bench: &bench{fleet: &fleet{options: o, dir: filepath.Join(dir, "resting"), say: say, nodes: true}, report: r}}
		if err := b.with(ctx, root, b.all); err != nil {
			return err
		}
	}
	if o.has(dashboardRows) {
		d := &dashboards{fleet: &fleet{options: o, dir: filepath.Join(dir, "dashboard"), say: say}, report: r}
		if err := d.with(ctx, root); err != nil {
			return errors.Join(err, r.write(out, o.output)) // what has been measured until then
		}
	}
	return r.write(out, o.output)
}

// findBinary makes sure that the program to measure is there.
func (o *options) findBinary(root string) error {
	if o.binary == "" {
		o.binary = filepath.Join(root, "bin", "minifleet")
	}
	if _, err := os.Stat(o.binary); err != nil {
		return fmt.Errorf("build it first, with `make build bin/testcluster`: %w", err)
	}
	return nil
}

// workIn returns the directory to work in, and what removes it unless it is to be kept.
func (o *options) workIn() (dir string, done func() error, err error) {
	if o.keep != "" {
		return o.keep, func() error { return nil }, nil
	}
	dir, err = os.MkdirTemp("", "minifleet-bench-")
	return dir, func() error { return os.RemoveAll(dir) }, err
}
