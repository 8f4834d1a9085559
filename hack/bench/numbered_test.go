package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/minifleet/minifleet/hack/bench/record"
)

// TestShortForm measures as little as possible in each row: it shows that the benchmark works, and nothing about speed.
func TestShortForm(t *testing.T) {
	if os.Getenv("MINIFLEET_BENCH_SHORT") == "" {
		t.Skip("NOT TESTED: the benchmark's rows, which need bin/minifleet and bin/testcluster: run make test-bench")
	}
	ctrl.SetLogger(logr.Discard())
	out := t.TempDir()
	o := options{output: "table", auditLevel: "Metadata"}
	which := selection{out: out, short: true}
	if rows := os.Getenv("MINIFLEET_BENCH_ROWS"); rows != "" {
		if err := which.numbers.Set(rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := runNumbered(t.Context(), o, which, t.Output()); err != nil {
		t.Error(err)
	}
	r := savedRecord(t, out)
	if want := len(chosen(which.numbers)); len(r.Rows) != want {
		t.Errorf("%d rows instead of %d", len(r.Rows), want)
	}
	for i := range r.Rows {
		checkRow(t, &r.Rows[i])
	}
}

// savedRecord reads what was saved, and compares the table with it.
func savedRecord(t *testing.T, dir string) *record.Record {
	t.Helper()
	raw, err := os.Open(filepath.Join(dir, rawFile))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	r, err := record.ReadRaw(raw)
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.Open(filepath.Join(dir, tableFile))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = table.Close() }()
	lines, err := record.ReadTable(table)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Rows {
		if got, want := len(lines[r.Rows[i].Number]), len(r.Rows[i].Figures); got != want {
			t.Errorf("the table has %d figures of row %d, the raw file %d", got, r.Rows[i].Number, want)
		}
	}
	if r.Machine.Cores == 0 || r.Machine.Kernel == "" || r.Machine.Commit == "" || r.Machine.LoadBefore == "" || r.Machine.Ended.Before(r.Machine.Began) {
		t.Errorf("the machine is not described: %+v", r.Machine)
	}
	return r
}

// perSize says of a goal that it is for one size only, which the short form does not have.
var perSize = regexp.MustCompile(`[0-9]{3}`)

func checkRow(t *testing.T, row *record.Row) {
	t.Helper()
	if row.Failed != "" {
		t.Errorf("row %d, %s: %s", row.Number, row.Name, row.Failed)
		return
	}
	for _, note := range row.Skipped {
		if !perSize.MatchString(note) {
			t.Logf("row %d, %s: NOT TESTED: %s", row.Number, row.Name, note)
		}
	}
	if len(row.Figures) == 0 && len(row.Skipped) == 0 {
		t.Errorf("row %d, %s: it has no figures, and does not say why", row.Number, row.Name)
	}
	for i := range row.Figures {
		if err := row.Figures[i].Check(); err != nil {
			t.Errorf("row %d, %s: %v", row.Number, row.Name, err)
		}
	}
}

func TestRowsHaveAllThatTheTableSays(t *testing.T) {
	seen := map[int]bool{}
	for _, row := range allNumbered {
		if row.name == "" || row.measure == "" || row.floor == "" || row.run == nil || row.takes == 0 || seen[row.number] {
			t.Errorf("row %d (%s) is incomplete, or there twice", row.number, row.name)
		}
		seen[row.number] = true
	}
}

func TestRowsAreChosenByNumber(t *testing.T) {
	var n numbers
	if err := n.Set("3, 1"); err != nil {
		t.Fatal(err)
	}
	rows := chosen(n)
	if len(rows) != 2 || rows[0].number != 1 || rows[1].number != 3 {
		t.Errorf("%v are not rows 1 and 3", rows)
	}
	for _, wrong := range []string{"", "0", "99", "one"} {
		if n.Set(wrong) == nil {
			t.Errorf("%q is taken for a row", wrong)
		}
	}
}

func TestAFailingRowKeepsItsFiguresAndOthersGoOn(t *testing.T) {
	s := &session{progress: newProgress(t.Output(), nil, true), fleets: map[string]startedFleet{}}
	broken := numberedRow{number: 1, name: "broken", run: func(_ context.Context, s *session, _ options) error {
		s.report.figures("something", "ms", []float64{3, 1, 2}, "half of it", []float64{1})
		return os.ErrDeadlineExceeded
	}, goals: []record.Goal{{Figure: "something", Against: byRatio, AtMost: 1}}}
	row := s.measure(t.Context(), &broken, nil)
	want := []record.Figure{{
		What: "something", Unit: "ms", Value: 2, Values: []float64{3, 1, 2}, Floor: "half of it", FloorAt: 1, Floors: []float64{1}, Ratio: 2,
		Goals: []record.Outcome{{Against: byRatio, AtMost: 1}},
	}}
	if diff := cmp.Diff(want, row.Figures); diff != "" || row.Failed == "" {
		t.Errorf("failed: %q; figures: %s", row.Failed, diff)
	}
}

func TestExponentsTellHowItGrows(t *testing.T) {
	for name, c := range map[string]struct {
		at     []int
		values []float64
		want   []float64
	}{
		"in proportion": {[]int{10, 100}, []float64{5, 50}, []float64{1}},
		"not at all":    {[]int{3, 30, 300}, []float64{7, 7, 7}, []float64{0, 0}},
		"by the square": {[]int{1, 10}, []float64{1, 100}, []float64{2}},
		"from nothing":  {[]int{1, 10}, []float64{0, 100}, []float64{0}},
	} {
		if diff := cmp.Diff(c.want, exponents(c.at, c.values)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestTheCPUTimeOfOneMiniClusterIsOfSomeProcesses(t *testing.T) {
	runs := []manyRun{{cpu: map[string]time.Duration{
		"minifleet": 100 * time.Millisecond, "hub-apiserver": 200 * time.Millisecond, "alpine-apiserver": 40 * time.Millisecond,
		"alpine-controller-manager": time.Hour, "etcd": 20 * time.Millisecond, benchProcess: 60 * time.Millisecond,
	}}}
	var got []float64
	for _, part := range parts {
		got = append(got, cpuEach(runs, 10, part.of)[0])
	}
	if diff := cmp.Diff([]float64{36, 10, 26, 4, 20}, got); diff != "" {
		t.Error(diff)
	}
}
