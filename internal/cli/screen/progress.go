package screen

import "io"

// Progress is a line on a terminal that says what is being waited for, and is replaced. Elsewhere it says nothing.
type Progress struct {
	screen Screen
	on     bool
	last   string
}

// NewProgress returns the progress line of a stream.
func NewProgress(stream io.Writer, getenv func(string) string) *Progress {
	return &Progress{screen: New(stream, getenv), on: IsTerminal(stream) && getenv("TERM") != "dumb"}
}

// Show replaces the line.
func (p *Progress) Show(text string) {
	if !p.on || text == p.last {
		return
	}
	p.last = text
	_, _ = io.WriteString(p.screen.Out, "\r\x1b[K"+p.screen.cut(text, p.screen.Width-1))
}

// Clear removes the line.
func (p *Progress) Clear() {
	if p.on && p.last != "" {
		_, _ = io.WriteString(p.screen.Out, "\r\x1b[K")
		p.last = ""
	}
}
