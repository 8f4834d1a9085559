// Command bench measures MiniFleet from outside, each figure beside a floor from the same run: what the
// same servers take when nothing but the necessary requests is sent. See docs/performance.md.
//
//	bin/bench [-n MINICLUSTERS] [-runs RUNS] [-singles PUSHES] [-rows ROWS] [-o table|json]
//
// It starts a hub and three members with hack/lab, bin/minifleet, and a Git server, and stops them at the
// end. It needs bin/minifleet and bin/testcluster; `make bench-fleet` builds all three.
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
	n, runs, singles int
	output           string
	binary           string
	rows             string
	jobsRun          bool
	keep             string
	auditLevel       string
	idleFor          time.Duration
	doubles          int
	strangers        int
	sizes            sizes
	tabsFor          time.Duration
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
	defaultRows = "single,idle,restart"
	allRows     = defaultRows + "," + restingRows + "," + dashboardRows
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
	o := options{sizes: sizes{2000, 10000}}
	flag.IntVar(&o.n, "n", 200, "how many MiniClusters at once; 0: only the rows of a resting fleet, and of the dashboard")
	flag.IntVar(&o.runs, "runs", 5, "how often each measurement is repeated")
	flag.IntVar(&o.singles, "singles", 30, "how many single MiniClusters are pushed")
	flag.StringVar(&o.output, "o", "table", "output: table or json")
	flag.StringVar(&o.binary, "binary", "", "the program to measure; default: bin/minifleet")
	flag.StringVar(&o.rows, "rows", defaultRows, "what to measure beside many MiniClusters at once, of "+allRows+"; none: nothing")
	flag.BoolVar(&o.jobsRun, "job-controllers", false, "let the members' Job controllers run while many MiniClusters are timed")
	flag.StringVar(&o.keep, "keep", "", "a directory to work in, which is kept, e.g. to read the audit logs")
	flag.StringVar(&o.auditLevel, "audit-level", "Metadata", "level of the audit logs: Metadata, or with bodies, which costs time, Request or RequestResponse")
	flag.DurationVar(&o.idleFor, "idle-for", 15*time.Minute, "how long the requests of a resting fleet are counted; watches are renewed every 5 to 10 minutes")
	flag.IntVar(&o.doubles, "doubles", 20, "how many more members the memory for each is measured with")
	flag.IntVar(&o.strangers, "strangers", 10000, "how many objects of each kind of others a member gets while memory is measured")
	flag.Var(&o.sizes, "sizes", "how many MiniClusters the dashboard shows, one number after the other")
	flag.DurationVar(&o.tabsFor, "tabs-for", time.Minute, "how long the requests of idle tabs are counted")
	flag.Parse()
	if flag.NArg() > 0 || !o.valid() {
		flag.Usage()
		os.Exit(2)
	}
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
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
	if o.binary == "" {
		o.binary = filepath.Join(root, "bin", "minifleet")
	}
	if _, err := os.Stat(o.binary); err != nil && (o.n > 0 || o.has(restingRows)) {
		return fmt.Errorf("build it first, with `make build bin/testcluster`: %w", err)
	}
	dir := o.keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "minifleet-bench-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
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
