package fetch

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/minifleet/minifleet/gitsource/object"
)

// maxAboutBytes bounds the subject and the author, which come from anybody who may push.
const maxAboutBytes = 1024

// lastTime is the last second of the year 9999: later ones have no form in JSON.
const lastTime = 253402300799

// commitObject is a commit of a pack.
type commitObject struct {
	hash, tree plumbing.Hash
	about      About
	signed     Signed
}

// maxTags is how many tags of tags are followed.
const maxTags = 10

// findCommit follows a hash to the commit it stands for, through annotated tags. What it reads of them is what a signature
// is of: the same parser reads them for verification.
func findCommit(p *pack, hash plumbing.Hash) (commitObject, error) {
	var tags []object.Raw
	for range maxTags {
		if data, ok, err := p.object(hash, plumbing.CommitObject); err != nil {
			return commitObject{}, err
		} else if ok {
			return readCommit(hash, data, tags)
		}
		data, ok, err := p.object(hash, plumbing.TagObject)
		if err != nil || !ok {
			return commitObject{}, errors.Join(err, errNoCommit)
		}
		tag, err := object.ParseTag(data)
		if err != nil {
			return commitObject{}, ambiguous("tag object", hash, err)
		}
		tags = append(tags, rawObject(hash, data))
		hash = plumbing.NewHash(tag.Object)
	}
	return commitObject{}, errBadObject
}

func readCommit(hash plumbing.Hash, data []byte, tags []object.Raw) (commitObject, error) {
	commit, err := object.ParseCommit(data)
	if err != nil {
		return commitObject{}, ambiguous("commit", hash, err)
	}
	return commitObject{
		hash: hash, tree: plumbing.NewHash(commit.Tree), about: about(commit),
		signed: Signed{Commit: rawObject(hash, data), Tags: tags},
	}, nil
}

var errNoCommit = errors.New("the server did not send the commit")

// ambiguous refuses what Git itself might read in another way.
func ambiguous(what string, hash plumbing.Hash, err error) error {
	return fail(ReasonFetchFailed, what+" "+hash.String()+" is not as Git writes it: "+err.Error()+"; make it anew")
}

// rawObject copies an object, so that it does not keep the pack in memory.
func rawObject(hash plumbing.Hash, data []byte) object.Raw {
	raw := object.Raw{Hash: hash.String()}
	if len(data) <= object.MaxBytes {
		raw.Data = append([]byte{}, data...)
	}
	return raw
}

// about reads author and subject of a commit. What cannot be read stays empty: it decides nothing.
func about(commit object.Commit) About {
	var out About
	out.Author, out.Time = signature(commit.Author)
	subject, _, _ := bytes.Cut(bytes.TrimLeft(commit.Message, "\n"), []byte{'\n'})
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
