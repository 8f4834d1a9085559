package ignore

import (
	"bytes"
	"strings"
)

// tokenKind is what a token matches.
type tokenKind byte

const (
	// one byte.
	literal tokenKind = iota
	// anyByte but a slash.
	anyByte
	// class is a byte of a set.
	class
	// name is any text without a slash, also none.
	name
	// anything is any text, also none.
	anything
	// folders is none, one or several folders, each with its slash.
	folders
)

// token is a part of a pattern.
type token struct {
	kind tokenKind
	char byte
	set  *[256 / 64]uint64
}

func (s *token) has(c byte) bool { return s.set[c/64]&(1<<(c%64)) != 0 }

// compile splits a pattern. One that can match nothing is not ok.
func compile(pattern string) (tokens []token, ok bool) {
	for i := 0; i < len(pattern); {
		switch c := pattern[i]; c {
		case '\\':
			if i++; i == len(pattern) {
				return nil, false
			}
			tokens = append(tokens, token{kind: literal, char: pattern[i]})
			i++
		case '?':
			tokens = append(tokens, token{kind: anyByte})
			i++
		case '*':
			t, n := stars(pattern, i)
			tokens = append(tokens, t...)
			i += n
		case '[':
			t, n, ok := bracket(pattern[i:])
			if !ok {
				return nil, false
			}
			tokens = append(tokens, t)
			i += n
		default:
			tokens = append(tokens, token{kind: literal, char: c})
			i++
		}
	}
	return tokens, true
}

// stars reads one or more of them. Two are more than one only where they are all that is between slashes.
func stars(pattern string, at int) (tokens []token, length int) {
	rest := strings.TrimLeft(pattern[at:], "*")
	length = len(pattern) - at - len(rest)
	alone := length > 1 && (at == 0 || pattern[at-1] == '/')
	switch {
	case alone && rest == "":
		return []token{{kind: anything}}, length
	case alone && rest[0] == '/':
		return []token{{kind: folders}}, length + 1
	case alone && strings.HasPrefix(rest, `\/`):
		return []token{{kind: anything}}, length
	}
	return []token{{kind: name}}, length
}

// bracket reads a set of characters.
func bracket(text string) (t token, length int, ok bool) {
	t = token{kind: class, set: new([256 / 64]uint64)}
	i := 1
	negated := i < len(text) && (text[i] == '!' || text[i] == '^')
	if negated {
		i++
	}
	before, first := -1, true // the character before, from which a range may go on
	for ; ; first = false {
		if i >= len(text) {
			return t, 0, false
		}
		if text[i] == ']' && !first {
			break
		}
		if before, i, ok = t.member(text, i, before); !ok {
			return t, 0, false
		}
	}
	if negated {
		for i := range t.set {
			t.set[i] = ^t.set[i]
		}
	}
	t.remove('/')
	return t, i + 1, true
}

// member adds what stands at i of a bracket: a character, a range, or a named class. It returns the character, and -1
// where no range may begin with it.
func (s *token) member(text string, i, before int) (last, next int, ok bool) {
	switch c := text[i]; {
	case c == '-' && before >= 0 && i+1 < len(text) && text[i+1] != ']':
		if i++; text[i] == '\\' {
			i++
		}
		if i >= len(text) {
			return 0, 0, false
		}
		s.addRange(byte(before), text[i]) //nolint:gosec // before is one of text's bytes
		return -1, i + 1, true
	case c == '[' && strings.HasPrefix(text[i+1:], ":"):
		return s.named(text, i)
	case c == '\\':
		if i++; i >= len(text) {
			return 0, 0, false
		}
	}
	s.addRange(text[i], text[i])
	return int(text[i]), i + 1, true
}

// named adds a class such as [:digit:].
func (s *token) named(text string, i int) (last, next int, ok bool) {
	end := strings.IndexByte(text[i+2:], ']')
	if end < 0 {
		return 0, 0, false
	}
	inside := text[i+2 : i+2+end]
	called, ok := strings.CutSuffix(inside, ":")
	if !ok { // a bracket among the characters
		s.addRange('[', '[')
		return '[', i + 1, true
	}
	is := classes[called]
	if is == nil {
		return 0, 0, false
	}
	for c := range 128 {
		if is(byte(c)) {
			s.addRange(byte(c), byte(c))
		}
	}
	return -1, i + 2 + end + 1, true
}

func (s *token) addRange(from, to byte) {
	for c := int(from); c <= int(to); c++ {
		s.set[c/64] |= 1 << (c % 64)
	}
}

func (s *token) remove(c byte) { s.set[c/64] &^= 1 << (c % 64) }

func between(from, to byte) func(byte) bool { return func(c byte) bool { return from <= c && c <= to } }

func either(is ...func(byte) bool) func(byte) bool {
	return func(c byte) bool {
		for _, f := range is {
			if f(c) {
				return true
			}
		}
		return false
	}
}

func oneOf(chars string) func(byte) bool {
	return func(c byte) bool { return bytes.IndexByte([]byte(chars), c) >= 0 }
}

var (
	digit = between('0', '9')
	upper = between('A', 'Z')
	lower = between('a', 'z')
	punct = either(between('!', '/'), between(':', '@'), between('[', '`'), between('{', '~'))
)

// classes are those of POSIX, in ASCII.
var classes = map[string]func(byte) bool{
	"alnum": either(digit, upper, lower), "alpha": either(upper, lower), "blank": oneOf(" \t"), "cntrl": either(between(0, 31), between(127, 127)),
	"digit": digit, "graph": between('!', '~'), "lower": lower, "print": between(' ', '~'), "punct": punct,
	"space": oneOf(" \t\n\v\f\r"), "upper": upper, "xdigit": either(digit, between('a', 'f'), between('A', 'F')),
}

// match says whether the tokens match all of a text. It goes through the text once, with every place of the pattern at
// which it may be, so that no pattern takes long.
func match(tokens []token, text string) bool {
	now, next := make([]bool, len(tokens)+1), make([]bool, len(tokens)+1)
	now[0] = true
	for i := range len(text) {
		if !step(tokens, text, i, now, next) {
			return false
		}
		now, next = next, now
		clear(next)
	}
	skip(tokens, now, true)
	return now[len(tokens)]
}

// step moves on by one character, and reports whether any place is left.
func step(tokens []token, text string, i int, now, next []bool) (alive bool) {
	skip(tokens, now, i == 0 || text[i-1] == '/')
	c := text[i]
	for at, t := range tokens {
		if !now[at] {
			continue
		}
		stays, moves := t.takes(c)
		next[at], next[at+1] = next[at] || stays, next[at+1] || moves
		alive = alive || stays || moves
	}
	return alive
}

// skip adds the places behind tokens that match no text. Folders end behind a slash.
func skip(tokens []token, now []bool, afterSlash bool) {
	for at, t := range tokens {
		if now[at] && (t.kind == name || t.kind == anything || t.kind == folders && afterSlash) {
			now[at+1] = true
		}
	}
}

// takes says whether a character may be one of a token, and whether it may be its last.
func (s *token) takes(c byte) (stays, moves bool) {
	switch s.kind {
	case literal:
		return false, c == s.char
	case anyByte:
		return false, c != '/'
	case class:
		return false, s.has(c)
	case name:
		return c != '/', false
	default:
		return true, false
	}
}
