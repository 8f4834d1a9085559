package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minifleet/minifleet/hack/bench/record"
	"github.com/minifleet/minifleet/hack/lab"
)

// selection says which rows are measured, how, and where to.
type selection struct {
	numbers numbers
	out     string
	short   bool
	// given are flags that were set, NAME=VALUE.
	given []string
}

func (s *selection) register(flags *flag.FlagSet) {
	flags.Var(&s.numbers, "row", "numbers of rows, separated by commas; default: all, which are "+rowsText())
	flags.StringVar(&s.out, "out", "bench", "the directory that gets "+strings.Join([]string{tableFile, rawFile, machineFile}, ", "))
	flags.BoolVar(&s.short, "short", false, "measure as little as shows that everything works; the figures are worth nothing")
}

// numbers are those of rows: a flag.
type numbers []int

func (n *numbers) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(*n)), " ", ","), "[]")
}

func (n *numbers) Set(text string) error {
	*n = nil
	for field := range strings.SplitSeq(text, ",") {
		number, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || !slices.ContainsFunc(allNumbered, func(r numberedRow) bool { return r.number == number }) {
			return fmt.Errorf("%q: there are the rows %s", field, rowsText())
		}
		*n = append(*n, number)
	}
	return nil
}

// rowsText lists the rows.
func rowsText() string {
	var out []string
	for _, row := range allNumbered {
		out = append(out, fmt.Sprintf("%d (%s)", row.number, row.name))
	}
	return strings.Join(out, ", ")
}

// What is saved.
const (
	tableFile   = "table.md"
	rawFile     = "raw.json"
	machineFile = "machine.json"
)

// session is what the rows of one call share.
type session struct {
	options  options
	root     string
	dir      string
	short    bool
	progress *progress
	// report is of the row that is measured, skipped what of it cannot be.
	report  *report
	skipped []string
	fleets  map[string]startedFleet
	serial  int
}

// startedFleet is a fleet that a row has started, which those after it may use in the short form.
type startedFleet interface {
	use(r *report, o options)
	stop() error
}

// skip notes why something is not measured.
func (s *session) skip(format string, args ...any) {
	s.skipped = append(s.skipped, fmt.Sprintf(format, args...))
	s.progress.say("NOT MEASURED: "+format, args...)
}

// folder is a new directory to work in.
func (s *session) folder(name string) string {
	s.serial++
	return filepath.Join(s.dir, fmt.Sprintf("%s-%d", name, s.serial))
}

// stopFleets stops all servers that are running.
func (s *session) stopFleets() error {
	var errs []error
	for _, f := range s.fleets {
		errs = append(errs, f.stop())
	}
	s.fleets = map[string]startedFleet{}
	return errors.Join(errs...)
}

// runNumbered measures rows of the table, and saves what there is after each of them.
func runNumbered(ctx context.Context, o options, which selection, errOut io.Writer) (err error) {
	root, err := lab.RepositoryRoot()
	if err != nil {
		return err
	}
	if err := o.findBinary(root); err != nil {
		return err
	}
	dir, done, err := o.workIn()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	rows := chosen(which.numbers)
	s := &session{options: o, root: root, dir: dir, short: which.short, progress: newProgress(errOut, rows, which.short), fleets: map[string]startedFleet{}}
	defer func() { err = errors.Join(err, s.stopFleets()) }()
	r := &record.Record{Machine: machineOf(ctx, root), Short: which.short}
	r.Machine.Options = strings.Join(which.given, " ")
	for i := range rows {
		r.Rows = append(r.Rows, s.measure(ctx, &rows[i], which.given))
		r.Machine.Ended, r.Machine.LoadAfter = time.Now(), loads()
		if err := save(r, which.out); err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	s.progress.say("%s, %s and %s are in %s", tableFile, rawFile, machineFile, which.out)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted after %d of %d rows", len(r.Rows)-1, len(rows))
	case r.Failed():
		return errors.New("rows have failed: " + strings.Join(failed(r), ", "))
	}
	return nil
}

func chosen(wanted numbers) []numberedRow {
	return slices.DeleteFunc(slices.Clone(allNumbered), func(r numberedRow) bool { return len(wanted) > 0 && !slices.Contains(wanted, r.number) })
}

func failed(r *record.Record) []string {
	var names []string
	for i := range r.Rows {
		if r.Rows[i].Failed != "" {
			names = append(names, fmt.Sprintf("%d (%s)", r.Rows[i].Number, r.Rows[i].Name))
		}
	}
	return names
}

// measure measures one row. What it has measured before it failed counts.
func (s *session) measure(ctx context.Context, row *numberedRow, given []string) record.Row {
	out := record.Row{
		Number: row.number, Name: row.name, Measure: row.measure, Floor: row.floor, Started: time.Now(), LoadBefore: loadNow(),
	}
	o := s.options
	o.size = row.full
	if s.short {
		o.size = row.short
	}
	o.override(s.options.size, given)
	s.report, s.skipped = newReport(o), nil
	s.progress.begin(row)
	err := row.run(ctx, s, o)
	if err != nil || !s.short {
		err = errors.Join(err, s.stopFleets())
	}
	s.report.finish()
	out.Figures, out.Skipped, out.Details = slices.Concat(s.report.Rows, s.report.Counts), s.skipped, s.report.details()
	out.Took, out.LoadAfter = time.Since(out.Started).Seconds(), loadNow()
	unused := record.Judge(out.Figures, row.goals)
	if err == nil && len(s.skipped) == 0 {
		for _, g := range unused {
			out.Skipped = append(out.Skipped, fmt.Sprintf("nothing is called %q, which has a goal", g.Figure))
		}
	}
	if err != nil {
		out.Failed = err.Error()
	}
	s.progress.end(row, err)
	return out
}

// override has what flags say instead, where they were given.
func (s *size) override(by size, given []string) {
	for _, flag := range given {
		switch name, _, _ := strings.Cut(flag, "="); name {
		case "n":
			s.n, s.counts = by.n, []int{by.n}
		case "runs":
			s.runs = by.runs
		case "singles":
			s.singles = by.singles
		case "doubles":
			s.doubles = by.doubles
		case "strangers":
			s.strangers = by.strangers
		case "idle-for":
			s.idleFor = by.idleFor
		case "tabs-for":
			s.tabsFor = by.tabsFor
		case "sizes":
			s.sizes = by.sizes
		}
	}
}

// save saves a record into a directory, whole files only.
func save(r *record.Record, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer) error{
		tableFile: r.WriteTable, rawFile: r.WriteRaw, machineFile: r.Machine.WriteJSON,
	} {
		path := filepath.Join(dir, name)
		file, err := os.Create(path + ".new")
		if err != nil {
			return err
		}
		if err := errors.Join(write(file), file.Close(), os.Rename(path+".new", path)); err != nil {
			return err
		}
	}
	return nil
}

// progress tells how far it is.
type progress struct {
	out         io.Writer
	began       time.Time
	row         *numberedRow
	done, total int
	short       bool
	// expected is how long the rows that have ended were expected to take, and left how long those that have not.
	expected, left, took time.Duration
	rowBegan             time.Time
}

func newProgress(out io.Writer, rows []numberedRow, short bool) *progress {
	p := &progress{out: out, began: time.Now(), total: len(rows), short: short}
	for i := range rows {
		p.left += p.takes(&rows[i])
	}
	return p
}

// takes is how long a row is expected to take on two cores of its own.
func (p *progress) takes(row *numberedRow) time.Duration {
	if p.short {
		return 10 * time.Second
	}
	return row.takes
}

func (p *progress) begin(row *numberedRow) {
	p.row, p.rowBegan = row, time.Now()
	p.say("begins: %s", row.measure)
}

func (p *progress) end(row *numberedRow, err error) {
	result := "done"
	if err != nil {
		result = "FAILED: " + err.Error()
	}
	p.done++
	p.took += time.Since(p.rowBegan)
	p.expected += p.takes(row)
	p.left -= p.takes(row)
	p.say("%s after %s", result, time.Since(p.rowBegan).Round(time.Second))
}

// say tells of a step.
func (p *progress) say(format string, args ...any) {
	where := ""
	if p.row != nil {
		where = fmt.Sprintf(" row %d %s:", p.row.number, p.row.name)
	}
	fmt.Fprintf(p.out, "[%s, %d of %d rows, %s]%s %s\n", time.Since(p.began).Round(time.Second), p.done, p.total, p.estimate(), where, fmt.Sprintf(format, args...))
}

// estimate is what is left, by how much longer than expected the rows before took.
func (p *progress) estimate() string {
	slower := 1.0
	if p.expected > 0 {
		slower = float64(p.took) / float64(p.expected)
	}
	left := time.Duration(float64(p.left) * slower)
	if p.row != nil && p.done < p.total {
		left = max(0, left-time.Since(p.rowBegan))
	}
	return "about " + left.Round(time.Minute).String() + " to go"
}
