// Package ignore decides which files of a repository are not read, by rules in the syntax of .gitignore. It is pure, and
// compares as git does: byte by byte, the last rule that matches decides, and nothing below an ignored folder is taken back.
//
// Rules are text of whoever may push. A rule takes time in proportion to its length times that of the path, whatever it
// says, and all of it is counted.
package ignore

import (
	"bytes"
	"strings"
)

// File is the rules of one ignore file, which are about what is below its folder: "" for the root.
type File struct {
	Folder string
	Rules  []Rule
}

// Rule is one line of an ignore file.
type Rule struct {
	// literal is what the text begins with, and tokens are what the rest is. As for git, the rest is a pattern of its own.
	literal string
	tokens  []token
	// keep says that the rule takes back what others ignore, folders that it is about folders alone, base that it is
	// compared with the last part of a path, wherever that is.
	keep, folders, base bool
}

// Parse reads rules. Every text has a meaning; lines that match nothing are left out.
func Parse(text []byte) []Rule {
	var out []Rule
	for line := range bytes.SplitSeq(bytes.TrimPrefix(text, []byte("\ufeff")), []byte{'\n'}) {
		// For git, a line ends at a byte 0.
		line, _, _ = bytes.Cut(bytes.TrimSuffix(line, []byte{'\r'}), []byte{0})
		if rule, ok := parseLine(withoutSpaces(string(line))); ok {
			out = append(out, rule)
		}
	}
	return out
}

func parseLine(line string) (Rule, bool) {
	if strings.HasPrefix(line, "#") {
		return Rule{}, false
	}
	var r Rule
	line, r.keep = strings.CutPrefix(line, "!")
	line, r.folders = strings.CutSuffix(line, "/")
	if line == "" {
		return Rule{}, false
	}
	r.base = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	end := strings.IndexAny(line, `*?[\`)
	if end < 0 {
		end = len(line)
	}
	r.literal = line[:end]
	var ok bool
	r.tokens, ok = compile(line[end:])
	return r, ok
}

// withoutSpaces cuts spaces at the end, unless a backslash protects them.
func withoutSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			if i++; i == len(line) {
				return line
			}
		}
		end = i + 1
	}
	return line[:end]
}

// Decision is what rules say of a path.
type Decision int

// Decisions.
const (
	// Undecided: no rule matches.
	Undecided Decision = iota
	// Ignored: it is not read, and nothing below it.
	Ignored
	// Kept: it is read, whatever rules before these say.
	Kept
)

// Decide says what files of rules, the last of which comes first, say of a path without a slash at its end, whose folders
// are not ignored. spend is told before how many steps a comparison takes at most, and its error ends it.
func Decide(files []File, path string, isFolder bool, spend func(steps int64) error) (Decision, error) {
	for i := len(files) - 1; i >= 0; i-- {
		if d, err := files[i].decide(path, isFolder, spend); d != Undecided || err != nil {
			return d, err
		}
	}
	return Undecided, nil
}

func (f *File) decide(path string, isFolder bool, spend func(steps int64) error) (Decision, error) {
	if f.Folder != "" {
		inside, ok := strings.CutPrefix(path, f.Folder)
		if !ok || !strings.HasPrefix(inside, "/") {
			return Undecided, nil
		}
		path = inside[1:]
	}
	base := path[strings.LastIndexByte(path, '/')+1:]
	for i := len(f.Rules) - 1; i >= 0; i-- {
		r := &f.Rules[i]
		if r.folders && !isFolder {
			continue
		}
		text := path
		if r.base {
			text = base
		}
		if err := spend(r.steps(text)); err != nil {
			return Undecided, err
		}
		switch {
		case !r.matches(text):
		case r.keep:
			return Kept, nil
		default:
			return Ignored, nil
		}
	}
	return Undecided, nil
}

// steps is about the most that comparing with a text takes.
func (r *Rule) steps(text string) int64 {
	return 1 + int64(len(r.tokens))*int64(len(text)+1)/stepBytes
}

// stepBytes is how much of a comparison counts as one step.
const stepBytes = 16

func (r *Rule) matches(text string) bool {
	rest, ok := strings.CutPrefix(text, r.literal)
	if !ok || len(r.tokens) == 0 {
		return ok && rest == ""
	}
	return match(r.tokens, rest)
}

// Size is about how many bytes rules take in memory.
func Size(rules []Rule) int64 {
	size := int64(0)
	for i := range rules {
		size += ruleBytes + int64(len(rules[i].literal)) + tokenBytes*int64(len(rules[i].tokens))
	}
	return size
}

const ruleBytes, tokenBytes = 80, 48
