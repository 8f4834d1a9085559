package live

import (
	"bufio"
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxLine is how many bytes of a line of a log are told.
const maxLine = 16 << 10

// steering are sequences that colour text and move cursors: nothing is lost without them.
var steering = regexp.MustCompile("\x1b(?:\\[[0-9;:?<=>]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[ -/]*[0-Z\\\\^-~])")

// clean makes a line of a log safe for terminals and pages.
func clean(line []byte) string {
	if !slices.ContainsFunc(line, func(b byte) bool { return b < ' ' && b != '\t' || b > '~' }) {
		return string(line) // as most lines are
	}
	text := steering.ReplaceAllString(strings.ToValidUTF8(string(line), "\uFFFD"), "")
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, text)
}

// stamped is a line of a log with the time that the member puts before it; zero where it is without.
type stamped struct {
	at   time.Time
	text string
}

// nextLine reads a line and cuts it to its length. What comes with an error is no line.
func nextLine(in *bufio.Reader) (stamped, error) {
	const most = maxLine + 64 // with the time
	var line []byte
	cut := false
	for {
		part, err := in.ReadSlice('\n')
		if room := most - len(line); len(part) > room {
			part, cut = part[:room], true
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && len(line) == 0 {
			return stamped{}, err
		}
		return parseLine(bytes.TrimRight(line, "\r\n"), cut), nil
	}
}

func parseLine(line []byte, cut bool) stamped {
	var out stamped
	if before, after, ok := bytes.Cut(line, []byte(" ")); ok {
		if at, err := time.Parse(time.RFC3339Nano, string(before)); err == nil {
			out.at, line = at.UTC(), after
		}
	} else if at, err := time.Parse(time.RFC3339Nano, string(line)); err == nil {
		out.at, line = at.UTC(), nil // an empty line
	}
	if len(line) > maxLine {
		line, cut = line[:maxLine], true
	}
	out.text = clean(line)
	if cut {
		out.text += "…"
	}
	return out
}
