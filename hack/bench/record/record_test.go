package record_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/hack/bench/record"
)

func example() *record.Record {
	figures := []record.Figure{
		{What: "push | to Job", Statistic: "p50", Value: 30, Floor: "bare", FloorAt: 20, Ratio: 1.5, Values: []float64{30}, Floors: []float64{20}},
		{What: "requests", Unit: "requests", Value: 0, Values: []float64{0}},
	}
	record.Judge(figures, []record.Goal{{Figure: "push", Against: record.Ratio, AtMost: 1.2}, {Figure: "requests", Against: record.Value}})
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	return &record.Record{
		Machine: record.Machine{CPU: "a CPU", Cores: 2, Began: at, Ended: at.Add(time.Hour), Clean: true},
		Rows: []record.Row{
			{Number: 2, Name: "push", Started: at, Took: 61, Figures: figures},
			{Number: 3, Name: "sync", Started: at, Failed: "no\nanswer", Skipped: []string{"something"}},
		},
	}
}

func TestJudgeComparesEveryFigureOfThatName(t *testing.T) {
	figures := []record.Figure{
		{What: "time", Statistic: "p50", Floor: "bare", Ratio: 2},
		{What: "time", Statistic: "p99", Floor: "bare", Ratio: 3},
		{What: "writes", Value: 0},
	}
	unused := record.Judge(figures, []record.Goal{
		{Figure: "time", Against: record.Ratio, AtMost: 2}, {Figure: "writes", Against: record.Value}, {Figure: "nothing", Against: record.Value}, {Figure: "writes", Against: record.Ratio, AtMost: 9},
	})
	got := [][]record.Outcome{figures[0].Goals, figures[1].Goals, figures[2].Goals}
	want := [][]record.Outcome{
		{{Against: record.Ratio, AtMost: 2, Met: true}}, {{Against: record.Ratio, AtMost: 2}}, {{Against: record.Value, Met: true}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(unused) != 2 || unused[0].Figure != "nothing" || unused[1].Figure != "writes" {
		t.Errorf("goals without figures: %v", unused)
	}
}

func TestTheTableHasEveryFigureAndWhatFailed(t *testing.T) {
	var out bytes.Buffer
	if err := example().WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"| # | measure | MiniFleet | floor | ratio | goal | met |",
		`| 2 | push \| to Job, p50 | 30 ms | 20 ms: bare | 1.50 | ≤ 1.20× | **no** |`,
		"| 2 | requests | 0 requests |  |  | 0 requests | yes |",
		"**sync**: FAILED, see below", "    no\n    answer\n", "NOT MEASURED in row 3, sync: something",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	got, err := record.ReadTable(&out)
	if err != nil || len(got[2]) != 2 || len(got[3]) != 0 {
		t.Errorf("read again: %v, %v", got, err)
	}
}

func TestTheRawFileIsReadAsItWas(t *testing.T) {
	var out bytes.Buffer
	if err := example().WriteRaw(&out); err != nil {
		t.Fatal(err)
	}
	got, err := record.ReadRaw(&out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(example(), got); diff != "" {
		t.Error(diff)
	}
	if !got.Failed() {
		t.Error("no row has failed")
	}
}

func TestAFigureWithoutSamplesOrFloorIsNone(t *testing.T) {
	zero := 0.0
	for name, c := range map[string]struct {
		figure record.Figure
		good   bool
	}{
		"a count":            {record.Figure{Values: []float64{0}}, true},
		"beside its floor":   {record.Figure{Values: []float64{1}, Floor: "f", Floors: []float64{1}, FloorAt: 1, Ratio: 1}, true},
		"no samples":         {record.Figure{}, false},
		"no floor's samples": {record.Figure{Values: []float64{1}, Floor: "f", FloorAt: 1, Ratio: 1}, false},
		"a floor of 0":       {record.Figure{Values: []float64{1}, Floor: "f", Floors: []float64{0}}, false},
		"no number":          {record.Figure{Values: []float64{1}, Value: zero / zero}, false},
	} {
		if err := c.figure.Check(); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
