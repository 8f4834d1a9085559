// Package words makes text of others fit to be shown to people.
package words

import (
	"fmt"
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

// List joins items with "; ", each as Safe shows it. It is at most so many bytes: of the items that do not
// fit it says how many there are. The first is always there, cut if need be.
func List(items []string, most int) string {
	const between = "; "
	shown := make([]string, len(items))
	length, fit := -len(between), 0
	for i, item := range items {
		shown[i] = Safe(item, most)
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
	return Safe(shown[0], most-len(rest)) + rest
}

func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; and %d more", n)
}
