// Package sanitize makes text from Git and from members safe to show. Any text comes in; out goes bounded text on one
// line, without characters that steer a terminal. It is pure.
package sanitize

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits in bytes.
const (
	// MaxMessage is that of a condition's message.
	MaxMessage = 4096
	// MaxNote is that of an event's note; the API server accepts no more than 1024.
	MaxNote = 1000
)

// Text returns text that came from Git or from a member on one line, without characters that could steer
// a terminal, and cut to at most so many bytes.
func Text(s string, most int) string {
	if !plain(s) {
		s = oneLine(s)
	}
	const dots = "…"
	if len(s) <= most {
		return s
	}
	cut := max(most-len(dots), 0)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + dots
}

func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return '\uFFFD'
		default:
			return r
		}
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// plain says that oneLine changes nothing, which is so for most text: words of ASCII with one space between them.
func plain(s string) bool {
	before := byte(' ')
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c > '~' || c == ' ' && before == ' ' {
			return false
		}
		before = c
	}
	return before != ' '
}

// Limits of what is told of a commit, in characters.
const (
	MaxSubject = 120
	MaxAuthor  = 80
)

// Characters is Text, cut to so many characters and not bytes.
func Characters(s string, most int) string {
	s = Text(s, utf8.UTFMax*most)
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// Line returns a line of a log or a manifest without characters that could steer a terminal. It keeps its spaces and
// tabs, and loses the sequences by which programs set colours.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return r
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return '\uFFFD'
		default:
			return r
		}
	}, colors.ReplaceAllString(strings.TrimRight(s, "\r\n"), ""))
}

// colors are the sequences of ECMA-48 that select how characters look.
var colors = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// List joins items with "; ", each as Text shows it. It is at most so many bytes: of the items that do not
// fit it says how many there are. The first is always there, cut if need be.
func List(items []string, most int) string {
	const between = "; "
	shown := make([]string, len(items))
	length, fit := -len(between), 0
	for i, item := range items {
		shown[i] = Text(item, most)
		if length += len(between) + len(shown[i]); length+len(more(len(items)-i-1)) <= most {
			fit = i + 1
		}
	}
	switch {
	case fit == len(items):
		return strings.Join(shown, between)
	case fit > 0:
		return strings.Join(shown[:fit], between) + more(len(items)-fit)
	}
	rest := more(len(items) - 1)
	return Text(shown[0], most-len(rest)) + rest
}

// Names joins names with ", ". Of more than most, it says how many there are: "a, b and 3 more".
func Names(names []string, most int) string {
	if extra := len(names) - most; extra > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), extra)
	}
	return strings.Join(names, ", ")
}

func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; and %d more", n)
}
