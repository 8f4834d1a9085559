// Package screen prints for people: states, tables and trees. Colour is only ever added to a symbol and a word, and
// both are plain ASCII where the locale is not UTF-8.
//
// What it prints has to be sanitized by the caller where it is the text of others.
package screen

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Screen is where a command prints.
type Screen struct {
	Out io.Writer
	// UTF8 says that symbols beyond ASCII can be shown.
	UTF8 bool
	// Color says that escape sequences for colours may be used.
	Color bool
	// Width is that of the terminal in characters; 0 where Out is none.
	Width int
}

// New returns the screen of a stream. Colours are for terminals, unless NO_COLOR is set or the terminal knows none.
func New(out io.Writer, getenv func(string) string) Screen {
	s := Screen{Out: out, UTF8: utf8Locale(getenv)}
	if IsTerminal(out) {
		s.Width = width(out)
		s.Color = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && getenv("TERM") != ""
	}
	return s
}

// IsTerminal says whether a stream is one.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

const defaultWidth = 80

func width(stream any) int {
	file, ok := stream.(*os.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	if err != nil || columns <= 0 {
		return defaultWidth
	}
	return columns
}

// utf8Locale follows POSIX: the first of these that is set decides.
func utf8Locale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := getenv(name); value != "" {
			value = strings.ToLower(value)
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
}

// Cell is a text with a colour.
type Cell struct {
	Text  string
	color color
}

// Text makes a cell without colour.
func Text(text string) Cell { return Cell{Text: text} }

// Paint is a cell as it is printed.
func (s Screen) Paint(c Cell) string {
	if !s.Color || c.color == "" {
		return c.Text
	}
	return "\x1b[" + string(c.color) + "m" + c.Text + "\x1b[0m"
}

func length(text string) int { return utf8.RuneCountInString(text) }

// cut shortens a text to a number of characters.
func (s Screen) cut(text string, most int) string {
	if most <= 0 || length(text) <= most {
		return text
	}
	dots := "..."
	if s.UTF8 {
		dots = "…"
	}
	keep := max(most-length(dots), 0)
	return strings.TrimRight(string([]rune(text)[:keep]), " ") + dots
}
