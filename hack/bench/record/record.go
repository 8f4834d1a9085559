// Package record is what a benchmark has measured: figures beside their floors and goals, by row, and the machine that they
// are of. It writes and reads them, and measures nothing.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// Figure is a value beside its floor, with every sample that it was made of.
type Figure struct {
	What string `json:"what"`
	// Statistic says how a value was made of samples, e.g. p50. A figure with one is a time where it has no unit.
	Statistic string  `json:"statistic,omitempty"`
	Value     float64 `json:"value"`
	// Unit is milliseconds where there is none but a statistic.
	Unit    string    `json:"unit,omitempty"`
	Floor   string    `json:"floor,omitempty"`
	FloorAt float64   `json:"floorValue,omitempty"`
	Ratio   float64   `json:"ratio,omitempty"`
	Values  []float64 `json:"values"`
	Floors  []float64 `json:"floors,omitempty"`
	// Goals are those that are for this figure.
	Goals []Outcome `json:"goals,omitempty"`
}

// Name is what was measured, and how the value was made.
func (f *Figure) Name() string {
	if f.Statistic == "" {
		return f.What
	}
	return f.What + ", " + f.Statistic
}

// Against says what of a figure a goal is compared with.
type Against string

// A goal is a largest ratio to the floor, or a largest value in the unit of the figure.
const (
	Ratio Against = "ratio"
	Value Against = "value"
)

// Goal is what figures should not exceed.
type Goal struct {
	// Figure is part of the names of figures that it is for.
	Figure  string
	Against Against
	AtMost  float64
}

// Outcome is a goal, and whether a figure meets it.
type Outcome struct {
	Against Against `json:"against"`
	AtMost  float64 `json:"atMost"`
	Met     bool    `json:"met"`
}

// String is the goal as people read it.
func (o Outcome) String() string {
	text := "≤ " + short(o.AtMost)
	if o.AtMost == 0 {
		text = "0"
	}
	if o.Against == Ratio {
		text += "×"
	}
	return text
}

// Judge notes at each figure the goals that are for it. It returns the goals that are for none.
func Judge(figures []Figure, goals []Goal) []Goal {
	var unused []Goal
	for _, g := range goals {
		used := false
		for i := range figures {
			f := &figures[i]
			if !strings.Contains(f.Name(), g.Figure) || g.Against == Ratio && f.Floor == "" {
				continue
			}
			value := f.Value
			if g.Against == Ratio {
				value = f.Ratio
			}
			f.Goals = append(f.Goals, Outcome{Against: g.Against, AtMost: g.AtMost, Met: value <= g.AtMost})
			used = true
		}
		if !used {
			unused = append(unused, g)
		}
	}
	return unused
}

// Row is a row of the benchmark, measured or not.
type Row struct {
	Number  int    `json:"number"`
	Name    string `json:"name"`
	Measure string `json:"measure"`
	Floor   string `json:"floor"`
	// Started and Took, in seconds, are zero where it was not measured.
	Started time.Time `json:"started,omitzero"`
	Took    float64   `json:"seconds"`
	// LoadBefore and LoadAfter are the machine's load of one minute.
	LoadBefore float64 `json:"loadBefore"`
	LoadAfter  float64 `json:"loadAfter"`
	// Failed is why it failed; Skipped why it was not, or not wholly, measured.
	Failed  string   `json:"failed,omitempty"`
	Skipped []string `json:"skipped,omitempty"`
	Figures []Figure `json:"figures"`
	// Details are all else that was measured: requests by kind, times of steps, CPU time by process, memory.
	Details any `json:"details,omitempty"`
}

// Record is all that a benchmark has measured.
type Record struct {
	Machine Machine `json:"machine"`
	// Short says that so little was measured that the figures are worth nothing.
	Short bool  `json:"short,omitempty"`
	Rows  []Row `json:"rows"`
}

// Failed says whether a row has failed.
func (r *Record) Failed() bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Failed != "" })
}

// WriteRaw writes everything as JSON.
func (r *Record) WriteRaw(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// ReadRaw reads what WriteRaw writes.
func ReadRaw(in io.Reader) (*Record, error) {
	r := &Record{}
	return r, json.NewDecoder(in).Decode(r)
}

// Check says what is wrong with a figure, as it would be with one that was not measured.
func (f *Figure) Check() error {
	var errs []error
	if len(f.Values) == 0 {
		errs = append(errs, errors.New("it has no samples"))
	}
	for _, v := range append([]float64{f.Value, f.FloorAt, f.Ratio}, f.Values...) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			errs = append(errs, fmt.Errorf("%g is no figure", v))
		}
	}
	if f.Floor != "" && (len(f.Floors) == 0 || f.FloorAt <= 0 || f.Ratio <= 0) {
		errs = append(errs, fmt.Errorf("floor %g of %d samples, ratio %g", f.FloorAt, len(f.Floors), f.Ratio))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return nil
}
