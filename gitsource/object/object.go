// Package object reads commits and annotated tags of Git from the bytes that their hashes are computed over. Raw bytes
// come in; what the object names, what of it is signed, and its signature go out. Nothing is ever encoded again: what a
// signature is checked over is a part of those very bytes, cut as Git cuts it.
//
// An object that two readers could understand in two ways is refused: one with a header twice, or not in Git's order. It is
// pure.
package object

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Raw is an object as the repository stores it.
type Raw struct {
	// Hash is the SHA-1 that it was found by, 40 hexadecimal digits.
	Hash string
	// Data is the content, without Git's "TYPE SIZE" in front; nil where it is larger than MaxBytes.
	Data []byte
}

// MaxBytes is the largest object that is verified. Those that people make are far smaller.
const MaxBytes = 1 << 20

// Commit is what the header of a commit says.
type Commit struct {
	// Tree is the hash of the commit's tree, Author the value of its header author.
	Tree   string
	Author []byte
	// Message follows the header.
	Message []byte
	headers []header
}

// Tag is what the header of an annotated tag says.
type Tag struct {
	// Object is the hash of what is tagged, Type its type: commit, tag, tree or blob.
	Object, Type string
	// Name is that of the tag, without refs/tags/.
	Name    string
	headers []header
	raw     []byte
}

// Signed is an object in two parts. Signature is nil for an object without any.
type Signed struct {
	Payload, Signature []byte
}

// Names of headers.
const (
	headTree      = "tree"
	headParent    = "parent"
	headAuthor    = "author"
	headCommitter = "committer"
	headObject    = "object"
	headType      = "type"
	headTag       = "tag"
	headTagger    = "tagger"
	headSig       = "gpgsig"
	headSig256    = "gpgsig-sha256" // of the same object in a repository of SHA-256, which Git signs besides
)

// header is one header with its continuation lines.
type header struct {
	key   string
	value []byte // of its first line, without the line end
	whole []byte // all of its lines
}

// ParseCommit reads a commit. Its headers have to be tree, parents, author and committer, in this order, and none of them
// again.
func ParseCommit(raw []byte) (Commit, error) {
	headers, message, err := split(raw)
	if err != nil {
		return Commit{}, err
	}
	c := Commit{Message: message, headers: headers}
	rest := headers
	tree, err := take(&rest, headTree)
	if err != nil {
		return Commit{}, err
	}
	if c.Tree, err = hash(tree); err != nil {
		return Commit{}, err
	}
	for len(rest) > 0 && rest[0].key == headParent {
		if _, err := hash(rest[0]); err != nil {
			return Commit{}, err
		}
		rest = rest[1:]
	}
	author, err := take(&rest, headAuthor)
	if err != nil {
		return Commit{}, err
	}
	if _, err := take(&rest, headCommitter); err != nil {
		return Commit{}, err
	}
	c.Author = author.value
	return c, absent(rest, headTree, headParent, headAuthor, headCommitter)
}

// ParseTag reads an annotated tag. Its headers have to be object, type, tag and tagger, in this order, and none of them
// again; those of the first years have no tagger.
func ParseTag(raw []byte) (Tag, error) {
	headers, _, err := split(raw)
	if err != nil {
		return Tag{}, err
	}
	t := Tag{headers: headers, raw: raw}
	rest := headers
	object, err := take(&rest, headObject)
	if err != nil {
		return Tag{}, err
	}
	if t.Object, err = hash(object); err != nil {
		return Tag{}, err
	}
	kind, err := take(&rest, headType)
	if err != nil {
		return Tag{}, err
	}
	name, err := take(&rest, headTag)
	if err != nil {
		return Tag{}, err
	}
	t.Type, t.Name = string(kind.value), string(name.value)
	if len(rest) > 0 && rest[0].key == headTagger {
		rest = rest[1:]
	}
	return t, absent(rest, headObject, headType, headTag, headTagger)
}

// Signed cuts the signature out of a commit. More than one is refused, and headers that Git would not sign and that are no
// signature of its own.
func (c Commit) Signed() (Signed, error) {
	var s Signed
	for _, h := range c.headers {
		switch {
		case h.key == headSig && s.Signature != nil:
			return Signed{}, errors.New("it bears two signatures: the header gpgsig is there twice")
		case h.key == headSig:
			s.Signature = unfolded(h)
		}
	}
	var err error
	s.Payload, err = unsigned(c.headers, headSig, headSig256)
	if err != nil {
		return Signed{}, err
	}
	s.Payload = append(s.Payload, c.end()...)
	return s, nil
}

// end is what follows the headers: the empty line and the message.
func (c Commit) end() []byte {
	if c.Message == nil {
		return nil
	}
	return append([]byte{'\n'}, c.Message...)
}

// Markers are the lines that a signature begins with, as Git knows them.
const (
	MarkerOpenPGP        = "-----BEGIN PGP SIGNATURE-----"
	MarkerOpenPGPMessage = "-----BEGIN PGP MESSAGE-----"
	MarkerX509           = "-----BEGIN SIGNED MESSAGE-----"
	MarkerSSH            = "-----BEGIN SSH SIGNATURE-----"
)

// Signed cuts the signature off a tag, which is the end of its message. More than one is refused.
func (t Tag) Signed() (Signed, error) {
	known := []string{headObject, headType, headTag, headTagger, headSig256}
	for _, h := range t.headers {
		if !slices.Contains(known, h.key) {
			return Signed{}, fmt.Errorf("it has a header %.40q, which tags do not have", h.key)
		}
	}
	header, err := unsigned(t.headers, headSig256)
	if err != nil {
		return Signed{}, err
	}
	length := 0
	for _, h := range t.headers {
		length += len(h.whole)
	}
	body := t.raw[length:]
	at := markers(body)
	switch len(at) {
	case 0:
		return Signed{Payload: append(header, body...)}, nil
	case 1:
		return Signed{Payload: append(header, body[:at[0]]...), Signature: body[at[0]:]}, nil
	}
	return Signed{}, errors.New("it bears several signatures: more than one line of its message begins one")
}

// markers are the offsets of the lines that begin a signature.
func markers(text []byte) []int {
	var at []int
	offset := 0
	for line := range bytes.Lines(text) {
		for _, marker := range []string{MarkerOpenPGP, MarkerOpenPGPMessage, MarkerX509, MarkerSSH} {
			if bytes.HasPrefix(line, []byte(marker)) {
				at = append(at, offset)
			}
		}
		offset += len(line)
	}
	return at
}

// unsigned are headers without those that bear signatures. Git does not sign whatever begins with gpgsig, so
// that no other such header may be there, and none twice.
func unsigned(headers []header, signatures ...string) ([]byte, error) {
	var out []byte
	seen := map[string]bool{}
	for _, h := range headers {
		switch {
		case !strings.HasPrefix(h.key, headSig):
			out = append(out, h.whole...)
		case !slices.Contains(signatures, h.key):
			return nil, fmt.Errorf("it has a header %.40q, which is not signed", h.key)
		case seen[h.key]:
			return nil, fmt.Errorf("it has the header %s twice", h.key)
		}
		seen[h.key] = true
	}
	return out, nil
}

// unfolded is the value of a header of several lines, which begin with a space.
func unfolded(h header) []byte {
	out := []byte{}
	for line := range bytes.Lines(h.whole[len(h.key):]) {
		out = append(out, line[1:]...)
	}
	return out
}

// split cuts raw bytes into headers, and what follows the empty line; nil where there is no empty line.
func split(raw []byte) (headers []header, message []byte, err error) {
	for rest := raw; len(rest) > 0; {
		line, after := cutLine(rest)
		switch {
		case line[0] == '\n':
			return headers, after[:len(after):len(after)], nil
		case bytes.IndexByte(line, 0) >= 0:
			return nil, nil, errors.New("its header holds a NUL byte")
		case line[0] == ' ' && len(headers) == 0:
			return nil, nil, errors.New("its header begins with a continuation line")
		case line[0] == ' ':
			last := &headers[len(headers)-1]
			last.whole = last.whole[:len(last.whole)+len(line)] // the lines of raw follow each other
		default:
			key, value, ok := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
			if !ok {
				return nil, nil, fmt.Errorf("its header has a line without a value: %.40q", key)
			}
			headers = append(headers, header{string(key), value, line})
		}
		rest = after
	}
	return headers, nil, nil
}

// cutLine returns the first line with its end, and what follows.
func cutLine(text []byte) (line, rest []byte) {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return text[:i+1], text[i+1:]
	}
	return text, nil
}

// take returns the first header, which has to be of a name and of one line.
func take(headers *[]header, key string) (header, error) {
	if len(*headers) == 0 || (*headers)[0].key != key {
		return header{}, fmt.Errorf("its header %s is missing, or not where Git puts it", key)
	}
	h := (*headers)[0]
	*headers = (*headers)[1:]
	return h, single(h)
}

// single refuses a header with continuation lines.
func single(h header) error {
	if end := bytes.IndexByte(h.whole, '\n'); end >= 0 && end+1 < len(h.whole) {
		return fmt.Errorf("its header %s has more than one line", h.key)
	}
	return nil
}

func absent(headers []header, keys ...string) error {
	for _, h := range headers {
		if slices.Contains(keys, h.key) {
			return fmt.Errorf("its header %s is there twice, or not where Git puts it", h.key)
		}
	}
	return nil
}

// hash is the value of a header that names an object by SHA-1.
func hash(h header) (string, error) {
	if err := single(h); err != nil {
		return "", err
	}
	digit := func(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }
	if len(h.value) != 40 || slices.ContainsFunc(h.value, func(c byte) bool { return !digit(c) }) {
		return "", fmt.Errorf("its header %s is no SHA-1", h.key)
	}
	return string(h.value), nil
}
