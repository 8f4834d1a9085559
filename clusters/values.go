package clusters

import (
	"bytes"
	"encoding/binary"
)

// What a decoder allocates depends on how many fields and elements there are: an empty element of a list takes two bytes in
// an answer, and a struct of many hundreds in memory. So they are counted before anything is decoded.

// maxNesting is how deep messages are searched; no object that is decoded here has as many levels.
const maxNesting = 32

// protobufMagic is in front of every object in protobuf.
var protobufMagic = []byte("k8s\x00")

// countProtobuf counts the fields of a message and of those in it, until there are more than most. Which fields are messages
// is not known without a schema, so whatever can be one is counted as one, except text.
func countProtobuf(b []byte, most int) int {
	n := 0
	countMessage(b, most, 0, &n)
	return n
}

func countMessage(b []byte, most, depth int, n *int) {
	if bytes.HasPrefix(b, protobufMagic) {
		countFields(b[len(protobufMagic):], most, depth, n)
	}
	countFields(b, most, depth, n)
}

func countFields(b []byte, most, depth int, n *int) {
	for len(b) > 0 && *n <= most {
		tag, size := binary.Uvarint(b)
		if size <= 0 {
			return
		}
		*n++
		rest, content, ok := skipField(b[size:], tag&7)
		if !ok {
			return
		}
		if len(content) > 0 && depth < maxNesting && !isText(content) {
			countMessage(content, most, depth+1, n)
		}
		b = rest
	}
}

// skipField returns what follows the value of a field, and its content if it has a length. Groups have no value: what is in
// them is counted as if it were beside them.
func skipField(b []byte, wire uint64) (rest, content []byte, ok bool) {
	const varint, fixed64, delimited, startGroup, endGroup, fixed32 = 0, 1, 2, 3, 4, 5
	skip := func(n int) ([]byte, []byte, bool) {
		if n <= 0 || n > len(b) {
			return nil, nil, false
		}
		return b[n:], nil, true
	}
	switch wire {
	case varint:
		_, n := binary.Uvarint(b)
		return skip(n)
	case fixed64:
		return skip(8)
	case fixed32:
		return skip(4)
	case startGroup, endGroup:
		return b, nil, true
	case delimited:
		length, n := binary.Uvarint(b)
		if n <= 0 || length > uint64(len(b)-n) { //nolint:gosec // n is no larger than the length of b
			return nil, nil, false
		}
		return b[n+int(length):], b[n : n+int(length)], true //nolint:gosec // no longer than b
	default:
		return nil, nil, false
	}
}

// isText says whether there are no control characters but those of lines. A message of small parts has some: a length below
// that of a blank is one.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			return false
		}
	}
	return true
}

// scanner follows JSON byte by byte. It does not check it: it is never less deep, and has counted no fewer values, than a
// decoder that accepts the text.
type scanner struct {
	depth, values     int
	inString, escaped bool
}

// step takes a byte and says whether a document has ended with it.
func (s *scanner) step(c byte) (end bool) {
	switch {
	case s.escaped:
		s.escaped = false
	case s.inString:
		s.escaped, s.inString = c == '\\', c != '"'
	case c == '"':
		s.inString = true
	case c == '{' || c == '[':
		s.depth++
		s.values++
	case c == ',':
		s.values++
	case c == '}' || c == ']':
		s.depth--
		return s.depth <= 0
	}
	return false
}

func countJSON(b []byte) int {
	var s scanner
	for _, c := range b {
		s.step(c)
	}
	return s.values
}
