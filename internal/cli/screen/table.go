package screen

import (
	"io"
	"strings"
)

// Table is aligned in columns.
type Table struct {
	head []string
	rows [][]Cell
	// Whole prints the last column as it is; otherwise it ends at the edge of the terminal, or after so many characters
	// where there is none.
	Whole bool
}

// lastColumn is how many characters of the last column are shown where there is no terminal.
const lastColumn = 100

// NewTable returns a table with these columns.
func NewTable(head ...string) *Table { return &Table{head: head} }

// Add adds a row, with a cell for each column.
func (t *Table) Add(cells ...Cell) { t.rows = append(t.rows, cells) }

const columnGap = 3

// Print prints the table.
func (t *Table) Print(s Screen) error {
	widths := make([]int, len(t.head))
	head := make([]Cell, len(t.head))
	for i, title := range t.head {
		head[i], widths[i] = Text(title), length(title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], length(row[i].Text))
		}
	}
	var b strings.Builder
	for _, row := range append([][]Cell{head}, t.rows...) {
		t.line(&b, s, row, widths)
	}
	_, err := io.WriteString(s.Out, b.String())
	return err
}

func (t *Table) line(b *strings.Builder, s Screen, row []Cell, widths []int) {
	used, last := 0, len(row)-1
	var line strings.Builder
	for i, cell := range row {
		if i == last {
			cell.Text = t.lastCell(s, cell.Text, used)
			line.WriteString(s.Paint(cell))
			break
		}
		pad := widths[i] - length(cell.Text) + columnGap
		line.WriteString(s.Paint(cell))
		line.WriteString(strings.Repeat(" ", pad))
		used += widths[i] + columnGap
	}
	b.WriteString(strings.TrimRight(line.String(), " "))
	b.WriteByte('\n')
}

func (t *Table) lastCell(s Screen, text string, used int) string {
	switch {
	case t.Whole:
		return text
	case s.Width == 0:
		return s.cut(text, lastColumn)
	}
	const least = 10 // below that, a terminal wraps the line
	return s.cut(text, max(s.Width-used, least))
}
