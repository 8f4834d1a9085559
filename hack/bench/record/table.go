package record

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// header is the head of the table of figures.
var header = []string{"#", "measure", "MiniFleet", "floor", "ratio", "goal", "met"}

// WriteTable writes the figures as tables of Markdown, ready to be pasted.
func (r *Record) WriteTable(out io.Writer) error {
	w := bufio.NewWriter(out)
	if r.Short {
		fmt.Fprint(w, "**The short form, which shows that the benchmark works: these figures are worth nothing.**\n\n")
	}
	r.Machine.write(w)
	fmt.Fprintln(w)
	line(w, header...)
	line(w, "---", "---", "---", "---", "---", "---", "---")
	for i := range r.Rows {
		row := &r.Rows[i]
		line(w, strconv.Itoa(row.Number), "**"+row.Name+"**"+row.note(), "", "", "", "", "")
		for j := range row.Figures {
			line(w, append([]string{strconv.Itoa(row.Number)}, row.Figures[j].cells()...)...)
		}
	}
	r.writeNotes(w)
	return w.Flush()
}

// note is how a row went, after its name.
func (r *Row) note() string {
	switch {
	case r.Failed != "":
		return ": FAILED, see below"
	case r.Started.IsZero():
		return ": not measured"
	default:
		took := time.Duration(r.Took * float64(time.Second)).Round(time.Second)
		return fmt.Sprintf(" (%s, load %s to %s)", took, short(r.LoadBefore), short(r.LoadAfter))
	}
}

func (f *Figure) cells() []string {
	unit := f.Unit
	if unit == "" && f.isTime() {
		unit = "ms"
	}
	floor, ratio := "", ""
	if f.Floor != "" {
		floor, ratio = fmt.Sprintf("%s: %s", amount(f.FloorAt, unit), f.Floor), short(f.Ratio)
	}
	var goals, met []string
	for _, g := range f.Goals {
		text := g.String()
		if g.Against == Value {
			text = strings.TrimSpace(text + " " + unit)
		}
		goals = append(goals, text)
		met = append(met, map[bool]string{true: "yes", false: "**no**"}[g.Met])
	}
	return []string{f.Name(), amount(f.Value, unit), floor, ratio, strings.Join(goals, "; "), strings.Join(met, "; ")}
}

// isTime says whether a figure without a unit is a time.
func (f *Figure) isTime() bool {
	return strings.HasPrefix(f.Statistic, "p") || strings.HasPrefix(f.Statistic, "slowest")
}

func (r *Record) writeNotes(w io.Writer) {
	for i := range r.Rows {
		row := &r.Rows[i]
		for _, note := range row.Skipped {
			fmt.Fprintf(w, "\nNOT MEASURED in row %d, %s: %s\n", row.Number, row.Name, note)
		}
		if row.Failed != "" {
			fmt.Fprintf(w, "\nFAILED: row %d, %s:\n\n", row.Number, row.Name)
			for text := range strings.Lines(row.Failed) {
				fmt.Fprintf(w, "    %s\n", strings.TrimRight(text, "\n"))
			}
		}
	}
}

func line(w io.Writer, cells ...string) {
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(strings.ReplaceAll(cell, "|", `\|`), "\n", " ")
	}
	fmt.Fprintln(w, "| "+strings.Join(cells, " | ")+" |")
}

// amount is a value with its unit, in as many digits as tell something.
func amount(v float64, unit string) string { return strings.TrimSpace(short(v) + " " + unit) }

func short(v float64) string {
	switch size := math.Abs(v); {
	case v == math.Trunc(v) && size < 1e6:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case size >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
}

// ReadTable reads the figures' lines of a table that WriteTable writes: their cells, by row.
func ReadTable(in io.Reader) (map[int][][]string, error) {
	figures := map[int][][]string{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		text, isRow := strings.CutPrefix(lines.Text(), "| ")
		if !isRow {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(text, " |"), " | ")
		number, err := strconv.Atoi(cells[0])
		if err != nil {
			continue // a head, or the machine
		}
		if len(cells) != len(header) {
			return nil, fmt.Errorf("%d cells instead of %d: %s", len(cells), len(header), lines.Text())
		}
		if !strings.HasPrefix(cells[1], "**") {
			figures[number] = append(figures[number], cells[1:])
		}
	}
	return figures, lines.Err()
}
