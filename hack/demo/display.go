package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// display shows a table that changes.
type display interface {
	draw(table)
	// end leaves the last table standing.
	end()
}

// console is a writer for several goroutines.
type console struct {
	mu  sync.Mutex
	out io.Writer
}

// Write implements io.Writer.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(p)
}

// newDisplay returns a display that redraws in place on a terminal, and writes a line per change elsewhere.
func newDisplay(out *console, started time.Time) display {
	if file, ok := out.out.(*os.File); ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" {
		return &screen{out: out, width: func() int {
			width, _, err := term.GetSize(int(file.Fd()))
			if err != nil || width <= 0 {
				return 80
			}
			return width
		}}
	}
	return &journal{out: out, since: func() time.Duration { return time.Since(started) }}
}

// screen redraws the table over itself.
type screen struct {
	out   io.Writer
	width func() int // columns of the terminal
	drawn []string
}

const (
	cursorUp       = "\x1b[%dA"
	clearLine      = "\x1b[K"
	clearBelow     = "\x1b[J"
	ellipsis       = "..."
	smallestScreen = len(ellipsis) + 1
)

func (s *screen) draw(t table) {
	width := max(s.width(), smallestScreen)
	lines := t.lines()
	for i, line := range lines {
		// A line that wraps would take two of the terminal's, and the next redraw would miss one.
		if len(line) >= width {
			lines[i] = line[:width-1-len(ellipsis)] + ellipsis
		}
	}
	if strings.Join(lines, "\n") == strings.Join(s.drawn, "\n") {
		return
	}
	text := ""
	if len(s.drawn) > 0 {
		text = fmt.Sprintf(cursorUp, len(s.drawn))
	}
	for _, line := range lines {
		text += line + clearLine + "\n"
	}
	s.drawn = lines
	_, _ = io.WriteString(s.out, text+clearBelow)
}

func (s *screen) end() {}

// journal writes what has changed, each line with the seconds since the start.
type journal struct {
	out   io.Writer
	since func() time.Duration
	last  table
}

func (j *journal) draw(t table) {
	for _, line := range t.changes(j.last) {
		fmt.Fprintf(j.out, "%6.1fs  %s\n", j.since().Seconds(), line)
	}
	j.last = t
}

func (j *journal) end() {
	fmt.Fprintln(j.out)
	for _, line := range j.last.lines() {
		fmt.Fprintln(j.out, line)
	}
}
