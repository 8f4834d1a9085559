package fetch

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// maxAboutBytes bounds the subject and the author, which come from anybody who may push.
const maxAboutBytes = 1024

// lastTime is the last second of the year 9999: later ones have no form in JSON.
const lastTime = 253402300799

// commitObject is a commit of a pack.
type commitObject struct {
	hash, tree plumbing.Hash
	about      About
}

// findCommit follows a hash to the commit it stands for, through annotated tags.
func findCommit(p *pack, hash plumbing.Hash) (commitObject, error) {
	for range 10 { // tags of tags
		if data, ok, err := p.object(hash, plumbing.CommitObject); err != nil {
			return commitObject{}, err
		} else if ok {
			tree, ok := headerHash(data, "tree ")
			if !ok {
				return commitObject{}, errBadObject
			}
			return commitObject{hash: hash, tree: tree, about: about(data)}, nil
		}
		data, ok, err := p.object(hash, plumbing.TagObject)
		if err != nil || !ok {
			return commitObject{}, errors.Join(err, errNoCommit)
		}
		if hash, ok = headerHash(data, "object "); !ok {
			return commitObject{}, errBadObject
		}
	}
	return commitObject{}, errBadObject
}

var errNoCommit = errors.New("the server did not send the commit")

func headerHash(data []byte, key string) (plumbing.Hash, bool) {
	line, _, _ := bytes.Cut(data, []byte{'\n'})
	text, ok := strings.CutPrefix(string(line), key)
	if !ok || !plumbing.IsHash(text) {
		return plumbing.ZeroHash, false
	}
	return plumbing.NewHash(text), true
}

// about reads author and subject of a commit object. What cannot be read stays empty: it decides nothing.
func about(data []byte) About {
	header, message, _ := bytes.Cut(data, []byte("\n\n"))
	var out About
	for line := range bytes.Lines(header) {
		if text, ok := bytes.CutPrefix(line, []byte("author ")); ok {
			out.Author, out.Time = signature(text)
			break
		}
	}
	subject, _, _ := bytes.Cut(bytes.TrimLeft(message, "\n"), []byte{'\n'})
	out.Subject = bounded(subject)
	return out
}

// signature reads "NAME <ADDRESS> SECONDS ZONE".
func signature(text []byte) (name string, at time.Time) {
	open, shut := bytes.IndexByte(text, '<'), bytes.LastIndexByte(text, '>')
	if open < 0 || shut < open {
		return "", time.Time{}
	}
	name = bounded(bytes.TrimSpace(text[:open]))
	fields := strings.Fields(bounded(text[shut+1:]))
	if len(fields) == 0 {
		return name, time.Time{}
	}
	if seconds, err := strconv.ParseInt(fields[0], 10, 64); err == nil && seconds >= 0 && seconds <= lastTime {
		at = time.Unix(seconds, 0).UTC()
	}
	return name, at
}

func bounded(text []byte) string { return string(text[:min(len(text), maxAboutBytes)]) }
