package object_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource/object"
)

const (
	hash   = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	who    = "Ada <ada@example.org> 1767225600 +0000\n"
	header = "tree " + hash + "\nparent " + hash + "\nauthor " + who + "committer " + who
	sig    = "gpgsig -----BEGIN\n \n c2ln\n -----END\n"
	tag    = "object " + hash + "\ntype commit\ntag v1\ntagger " + who + "\nA tag\n"
)

func TestCommitSigned(t *testing.T) {
	for name, c := range map[string]struct{ raw, payload, signature string }{
		"unsigned":                   {header + "\nm\n", header + "\nm\n", ""},
		"signed":                     {header + sig + "\nm\n", header + "\nm\n", "-----BEGIN\n\nc2ln\n-----END\n"},
		"other headers around":       {header + "encoding x\n" + sig + "HG:a b\n c\n\nm", header + "encoding x\nHG:a b\n c\n\nm", "-----BEGIN\n\nc2ln\n-----END\n"},
		"for SHA-256 as well":        {header + sig + "gpgsig-sha256 a\n b\n\nm", header + "\nm", "-----BEGIN\n\nc2ln\n-----END\n"},
		"a signature in the message": {header + "\n" + sig, header + "\n" + sig, ""},
		"no message":                 {header + sig + "\n", header + "\n", "-----BEGIN\n\nc2ln\n-----END\n"},
		"no empty line":              {header + sig, header, "-----BEGIN\n\nc2ln\n-----END\n"},
		"the signature at the end":   {header + "gpgsig x", header, "x"},
	} {
		t.Run(name, func(t *testing.T) {
			commit, err := object.ParseCommit([]byte(c.raw))
			if err != nil {
				t.Fatal(err)
			}
			got, err := commit.Signed()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.payload, c.signature}, []string{string(got.Payload), string(got.Signature)}); diff != "" {
				t.Error(diff)
			}
			if (got.Signature == nil) != (c.signature == "") {
				t.Error("nil is for no signature")
			}
		})
	}
}

func TestTagSigned(t *testing.T) {
	const armor = object.MarkerOpenPGP + "\n\nc2ln\n-----END PGP SIGNATURE-----\n"
	for name, c := range map[string]struct{ raw, payload, signature string }{
		"unsigned":                  {tag, tag, ""},
		"signed":                    {tag + armor, tag, armor},
		"a marker within a line":    {tag + "see " + object.MarkerSSH + "\n" + armor, tag + "see " + object.MarkerSSH + "\n", armor},
		"for SHA-256 as well":       {strings.Replace(tag, "\n\n", "\ngpgsig-sha256 a\n b\n\n", 1) + armor, tag, armor},
		"no tagger, as in 2005":     {"object " + hash + "\ntype commit\ntag v1\n\nm\n" + armor, "object " + hash + "\ntype commit\ntag v1\n\nm\n", armor},
		"something after the armor": {tag + armor + "more\n", tag, armor + "more\n"},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := object.ParseTag([]byte(c.raw))
			if err != nil {
				t.Fatal(err)
			}
			got, err := parsed.Signed()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.payload, c.signature}, []string{string(got.Payload), string(got.Signature)}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever is pushed: what is cut is what Git cuts, by its rules as this test has them, or the object is refused.
func FuzzSigned(f *testing.F) {
	for _, seed := range []string{
		header + "\nm\n", header + sig + "\nm\n", header + sig + "gpgsig-sha256 a\n b\n\nm", header + sig + sig + "\n", header + "gpgsigx\n y\n" + sig,
		"", "\n", " ", "tree", header + "mergetag object x\n gpgsig y\n" + sig + "\nm\x00",
		tag, tag + object.MarkerSSH + "\nx\n" + object.MarkerOpenPGP + "\n", object.MarkerX509,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		if commit, err := object.ParseCommit(raw); err == nil {
			if !bytes.HasPrefix(raw, []byte("tree "+commit.Tree+"\n")) {
				t.Errorf("the tree %q is not that of the first line", commit.Tree)
			}
			if got, err := commit.Signed(); err == nil {
				compare(t, got, gitCommit(raw))
			}
		}
		if tag, err := object.ParseTag(raw); err == nil {
			if !bytes.HasPrefix(raw, []byte("object "+tag.Object+"\ntype "+tag.Type+"\ntag "+tag.Name)) {
				t.Errorf("%+v are not the first lines", tag)
			}
			if got, err := tag.Signed(); err == nil {
				compare(t, got, gitTag(raw))
			}
		}
		if !bytes.Equal(before, raw) {
			t.Error("the object was changed")
		}
	})
}

func compare(t *testing.T, got, want object.Signed) {
	t.Helper()
	if !bytes.Equal(got.Payload, want.Payload) || !bytes.Equal(got.Signature, want.Signature) {
		t.Errorf("got\n%q\n%q\nand Git cuts\n%q\n%q", got.Payload, got.Signature, want.Payload, want.Signature)
	}
}

// gitCommit cuts line by line: gpgsig and its continuation lines are the signature, other headers that begin with gpgsig
// are left out, and all behind the first empty line is signed.
func gitCommit(raw []byte) (out object.Signed) {
	const signed, signature, dropped = 0, 1, 2
	state := signed
	lines := bytes.SplitAfter(raw, []byte("\n"))
	for i, line := range lines {
		switch {
		case bytes.HasPrefix(line, []byte("gpgsig ")):
			state = signature
			line = line[len("gpgsig"):]
		case bytes.HasPrefix(line, []byte("gpgsig")):
			state = dropped
		case !bytes.HasPrefix(line, []byte(" ")):
			state = signed
		}
		if string(line) == "\n" {
			out.Payload = append(out.Payload, bytes.Join(lines[i:], nil)...)
			return out
		}
		switch state {
		case signature:
			out.Signature = append(out.Signature, line[1:]...)
		case signed:
			out.Payload = append(out.Payload, line...)
		}
	}
	return out
}

// gitTag has the last line that begins a signature begin it, and drops a header gpgsig-sha256 before that.
func gitTag(raw []byte) (out object.Signed) {
	at, offset := len(raw), 0
	for line := range bytes.Lines(raw) {
		for _, marker := range []string{object.MarkerOpenPGP, object.MarkerOpenPGPMessage, object.MarkerX509, object.MarkerSSH} {
			if bytes.HasPrefix(line, []byte(marker)) {
				at = offset
			}
		}
		offset += len(line)
	}
	inHeader, dropped := true, false
	for line := range bytes.Lines(raw[:at]) {
		inHeader = inHeader && string(line) != "\n"
		dropped = inHeader && (bytes.HasPrefix(line, []byte("gpgsig-sha256 ")) || dropped && line[0] == ' ')
		if !dropped {
			out.Payload = append(out.Payload, line...)
		}
	}
	if at < len(raw) {
		out.Signature = raw[at:]
	}
	return out
}
