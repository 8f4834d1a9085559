// Package words makes text of others fit to be shown to people.
package words

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lengths in bytes.
const (
	// Message is the most of a condition's message.
	Message = 4096
	// Note is the most of an event's note; the API server takes no more than 1024.
	Note = 1000
)

// Safe returns text that came from Git or from a member on one line, without characters that could steer
// a terminal, and cut to at most so many bytes.
func Safe(s string, most int) string {
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
	s = strings.Join(strings.Fields(s), " ")
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
