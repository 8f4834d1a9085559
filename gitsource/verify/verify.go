// Package verify checks who has signed a commit and the tags that lead to it. Raw objects, public keys and the time come in;
// who has signed, or why that is not believed, goes out. It is pure.
//
//	keys.go     the values of a Secret -> keys
//	verify.go   mode + objects -> which of them have to be signed, and that they belong together
//	openpgp.go  OpenPGP: armor, packet, key
//	ssh.go      SSH: armor, namespace, key
//	armor.go    text -> the one block that it has to be
package verify

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/object"
)

// Input is what is to be verified.
type Input struct {
	Mode v1alpha1.VerifyMode
	// RefName is the full name of the ref that leads to the commit, such as refs/tags/v1; empty for one that was named by
	// its hash.
	RefName string
	// Tags are the annotated tags on the way to Commit, that of the ref first.
	Tags   []object.Raw
	Commit object.Raw
	// Now is the time at which keys and signatures have to be valid.
	Now time.Time
}

// Signer is whose signature an object bears.
type Signer struct {
	// Type is "openpgp", or the type of an SSH key, such as ssh-ed25519.
	Type string
	// Fingerprint is that of the OpenPGP primary key, 40 or 64 hexadecimal digits, or of the SSH key, SHA256:BASE64.
	Fingerprint string
	// User is the user ID of the key, or the comment of an SSH key: text that has to be sanitized before it is shown.
	User string
}

func (s Signer) String() string { return s.Type + " " + s.Fingerprint }

// Result says who has signed; nil for what did not have to be.
type Result struct {
	Mode   v1alpha1.VerifyMode
	Commit *Signer
	// Tags are the signers of Input.Tags, in the same order.
	Tags []Signer
}

// WantsTag says whether the annotated tag has to be signed that leads to the commit.
func WantsTag(mode v1alpha1.VerifyMode) bool {
	return mode == v1alpha1.VerifyTag || mode == v1alpha1.VerifyTagAndHead
}

func wantsCommit(mode v1alpha1.VerifyMode) bool { return mode != v1alpha1.VerifyTag }

// Check verifies what the mode wants. Its error is for people: it names the object, and what is wrong with it.
func Check(in Input, keys *Keys) (Result, error) {
	out := Result{Mode: in.Mode}
	if out.Mode == "" {
		out.Mode = v1alpha1.VerifyHead
	}
	if WantsTag(out.Mode) {
		tags, err := checkTags(in, keys)
		if err != nil {
			return Result{}, err
		}
		out.Tags = tags
	}
	if !wantsCommit(out.Mode) {
		return out, nil
	}
	signer, err := checkCommit(in, keys)
	if err != nil {
		return Result{}, fmt.Errorf("commit %.12s: %w", in.Commit.Hash, err)
	}
	out.Commit = &signer
	return out, nil
}

func checkCommit(in Input, keys *Keys) (Signer, error) {
	if err := sameHash(in.Commit, plumbing.CommitObject); err != nil {
		return Signer{}, err
	}
	commit, err := object.ParseCommit(in.Commit.Data)
	if err != nil {
		return Signer{}, err
	}
	signed, err := commit.Signed()
	if err != nil {
		return Signer{}, err
	}
	return keys.check(signed, in.Now)
}

const tagPrefix = "refs/tags/"

// checkTags verifies each tag from the ref to the commit. The name within the first has to be the ref's: without that,
// whoever may push could have an older signed tag be taken for a newer one.
func checkTags(in Input, keys *Keys) ([]Signer, error) {
	name, ok := strings.CutPrefix(in.RefName, tagPrefix)
	if !ok {
		return nil, fmt.Errorf("mode %s verifies a signed tag, and %s is none", in.Mode, shown(in.RefName))
	}
	if len(in.Tags) == 0 {
		return nil, fmt.Errorf("tag %.100q is a lightweight tag, which cannot be signed: make an annotated one with git tag -s", name)
	}
	var out []Signer
	for i, raw := range in.Tags {
		next, kind := in.Commit, plumbing.CommitObject
		if i+1 < len(in.Tags) {
			next, kind = in.Tags[i+1], plumbing.TagObject
		}
		signer, err := checkTag(raw, next, kind, in.Now, keys, name, i == 0)
		if err != nil {
			return nil, fmt.Errorf("tag object %.12s of %.100q: %w", raw.Hash, name, err)
		}
		out = append(out, signer)
	}
	// The commit's content is what the last tag names by hash.
	return out, sameHash(in.Commit, plumbing.CommitObject)
}

func checkTag(raw, next object.Raw, kind plumbing.ObjectType, now time.Time, keys *Keys, name string, first bool) (Signer, error) {
	if err := sameHash(raw, plumbing.TagObject); err != nil {
		return Signer{}, err
	}
	tag, err := object.ParseTag(raw.Data)
	if err != nil {
		return Signer{}, err
	}
	signed, err := tag.Signed()
	if err != nil {
		return Signer{}, err
	}
	signer, err := keys.check(signed, now)
	if err != nil {
		return Signer{}, err
	}
	switch {
	case first && tag.Name != name:
		return Signer{}, fmt.Errorf("it was signed as tag %.100q, and is now at another name: make the tag anew under that name", tag.Name)
	case tag.Object != next.Hash || tag.Type != kind.String():
		return Signer{}, fmt.Errorf("it is of %.20q %.40q, and the repository has %s %s there", tag.Type, tag.Object, kind, next.Hash)
	}
	return signer, nil
}

// sameHash refuses an object that is not what its hash stands for.
func sameHash(raw object.Raw, kind plumbing.ObjectType) error {
	if raw.Data == nil {
		return fmt.Errorf("it is larger than %d bytes, which is more than is verified", object.MaxBytes)
	}
	if plumbing.ComputeHash(kind, raw.Data).String() != raw.Hash {
		return errors.New("its content does not have its hash")
	}
	return nil
}

func shown(ref string) string {
	if ref == "" {
		return "a commit that is named by its hash"
	}
	return fmt.Sprintf("%.100q", ref)
}

// check verifies one object that was cut in two.
func (k *Keys) check(signed object.Signed, now time.Time) (Signer, error) {
	if bytes.IndexByte(signed.Payload, 0) >= 0 {
		return Signer{}, errors.New("it holds a NUL byte, behind which Git shows nothing")
	}
	text := string(signed.Signature)
	switch {
	case signed.Signature == nil:
		return Signer{}, errors.New("it is not signed")
	case strings.HasPrefix(text, object.MarkerOpenPGP):
		return k.checkOpenPGP(signed.Payload, text, now)
	case strings.HasPrefix(text, object.MarkerSSH):
		return k.checkSSH(signed.Payload, text)
	case strings.HasPrefix(text, object.MarkerX509):
		return Signer{}, errors.New("it bears an X.509 signature, which is not supported: sign with OpenPGP or SSH")
	}
	return Signer{}, errors.New("it bears neither an OpenPGP nor an SSH signature")
}

// hashes are those that a signature may be made with.
var hashes = map[crypto.Hash]bool{
	crypto.SHA256: true, crypto.SHA384: true, crypto.SHA512: true, crypto.SHA3_256: true, crypto.SHA3_512: true,
}
