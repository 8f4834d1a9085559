package verify_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/object"
	"github.com/minifleet/minifleet/gitsource/verify"
)

func mustKeys(tb testing.TB, values ...string) *verify.Keys {
	tb.Helper()
	data := map[string][]byte{}
	for i, value := range values {
		data[string(rune('a'+i))] = []byte(value)
	}
	keys, err := verify.ReadKeys(data)
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

func checkCommit(raw object.Raw, keys *verify.Keys, now time.Time) (verify.Result, error) {
	return verify.Check(verify.Input{Mode: v1alpha1.VerifyHead, RefName: "refs/heads/main", Commit: raw, Now: now}, keys)
}

// Commits and tags that Git has signed are believed, by whom they are signed; and what is changed of them is believed by
// neither.
func TestRealObjects(t *testing.T) {
	l := newLab(t)
	ada := l.gpgKey("Ada <ada@example.org>", "ed25519")
	rsa := l.gpgKey("Rsa <rsa@example.org>", "rsa2048")
	sub := l.gpgKey("Sub <sub@example.org>", "ed25519")
	l.run("", "gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "", "--quick-add-key", sub, "ed25519", "sign", "never")
	bob, ecdsa, long := l.sshKey("bob", "-t", "ed25519"), l.sshKey("ecdsa", "-t", "ecdsa"), l.sshKey("long", "-t", "rsa", "-b", "2048")
	sshKeys := l.read(bob+".pub") + l.read(ecdsa+".pub") + l.read(long+".pub")
	keys := mustKeys(t, l.public(ada)+l.public(rsa), l.public(sub), sshKeys)
	allowed := ""
	for line := range strings.Lines(sshKeys) {
		allowed += "* " + line
	}
	l.git("config", "gpg.ssh.allowedSignersFile", l.repo+"/../allowed")
	l.run(allowed, "tee", l.dir+"/allowed")

	cases := map[string]struct{ format, key, kind string }{
		"OpenPGP ed25519":     {"openpgp", ada, "openpgp " + ada},
		"OpenPGP RSA":         {"openpgp", rsa, "openpgp " + rsa},
		"OpenPGP by a subkey": {"openpgp", sub, "openpgp " + sub},
		"SSH ed25519":         {"ssh", bob, "ssh-ed25519 "},
		"SSH ECDSA":           {"ssh", ecdsa, "ecdsa-sha2-nistp256 "},
		"SSH RSA":             {"ssh", long, "ssh-rsa "},
	}
	number := 0
	for name, c := range cases {
		number++
		branch := "b" + string(rune('0'+number))
		t.Run(name, func(t *testing.T) {
			l.git("checkout", "--quiet", "--orphan", branch)
			config := []string{"-c", "gpg.format=" + c.format, "-c", "user.signingKey=" + c.key}
			sign := func(args ...string) { l.git(append(slices.Clone(config), args...)...) }
			sign("commit", "--quiet", "--allow-empty", "-S", "-m", "Run more\n\nWhy.")
			sign("tag", "-s", "-m", "a tag", "v"+branch)
			sign("-c", "i18n.commitEncoding=ISO-8859-1", "commit", "--quiet", "--allow-empty", "-S", "-m", "Größe")
			encoded := l.object("commit", "HEAD")
			l.git("checkout", "--quiet", "-b", "side"+branch, "HEAD~")
			sign("commit", "--quiet", "--allow-empty", "-S", "-m", "beside")
			sign("tag", "-s", "-m", "merge me", "m"+branch)
			l.git("checkout", "--quiet", branch)
			sign("merge", "--quiet", "--no-ff", "-S", "-m", "merge", "m"+branch)
			merge := l.object("commit", "HEAD")
			if !bytes.Contains(merge.Data, []byte("\nmergetag object")) {
				t.Error("a merge of a signed tag has no mergetag")
			}
			for _, commit := range []object.Raw{encoded, merge, l.object("commit", "HEAD~1"), l.object("commit", "HEAD^2")} {
				if !l.believed("verify-commit", commit.Hash) {
					t.Fatalf("Git does not believe %s", commit.Data)
				}
				got, err := checkCommit(commit, keys, time.Now())
				if err != nil || !strings.HasPrefix(got.Commit.String(), c.kind) {
					t.Errorf("got %v, %v for\n%s", got.Commit, err, commit.Data)
				}
				agree(t, l, "commit", commit, keys)
			}
			tag := l.object("tag", "v"+branch)
			in := verify.Input{Mode: v1alpha1.VerifyTagAndHead, RefName: "refs/tags/v" + branch, Tags: []object.Raw{tag}, Commit: l.object("commit", "v"+branch+"^{commit}"), Now: time.Now()}
			got, err := verify.Check(in, keys)
			if err != nil || len(got.Tags) != 1 || got.Commit == nil || !strings.HasPrefix(got.Tags[0].String(), c.kind) {
				t.Errorf("got %v, %v for\n%s", got, err, tag.Data)
			}
			agree(t, l, "tag", tag, keys)
		})
	}
}

// agree changes an object in many ways. Of what comes out, nothing may be believed here that Git does not.
func agree(t *testing.T, l *lab, kind string, raw object.Raw, keys *verify.Keys) {
	t.Helper()
	text, tagged := string(raw.Data), l.object("commit", raw.Hash+"^{commit}")
	lines := strings.SplitAfter(text, "\n")
	changed := map[string]string{
		"a line at the end": text + "more\n", "a NUL at the end": text + "\x00", "no line end": strings.TrimSuffix(text, "\n"),
		"CRLF": strings.ReplaceAll(text, "\n", "\r\n"), "another name": strings.Replace(text, "Ada", "Eve", 1),
		"a header first": "gpgsigx y\n" + text, "a header twice": lines[0] + text, "signed twice": text + text,
	}
	for i := range lines {
		changed["without a line "+lines[i]] = strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "")
		changed["a line twice "+lines[i]] = strings.Join(slices.Insert(slices.Clone(lines), i, lines[i]), "")
		changed["an unknown header before "+lines[i]] = strings.Join(slices.Insert(slices.Clone(lines), i, "gpgsig-x y\n z\n"), "")
	}
	for name, content := range changed {
		var err error
		if kind == "commit" {
			_, err = checkCommit(rawOf(plumbing.CommitObject, content), keys, time.Now())
		} else {
			_, err = verify.Check(verify.Input{Mode: v1alpha1.VerifyTag, RefName: "refs/tags/" + nameIn(content), Tags: []object.Raw{rawOf(plumbing.TagObject, content)}, Commit: tagged, Now: time.Now()}, keys)
		}
		if err == nil && !l.believed("verify-"+kind, l.store(kind, content)) {
			t.Errorf("%s: believed, and not by Git:\n%s", name, content)
		}
	}
}

func nameIn(tag string) string {
	_, rest, _ := strings.Cut(tag, "\ntag ")
	name, _, _ := strings.Cut(rest, "\n")
	return name
}

// Commits that are refused, and what is said of them.
func TestCommitsRefused(t *testing.T) {
	l := newLab(t)
	ada, eve := l.gpgKey("Ada <ada@example.org>", "ed25519"), l.gpgKey("Eve <eve@example.org>", "ed25519")
	sub := l.gpgKey("Sub <sub@example.org>", "ed25519")
	bob := l.sshKey("bob", "-t", "ed25519")
	mallory := l.sshKey("mallory", "-t", "ed25519")
	keys := mustKeys(t, l.public(ada), l.public(sub), l.read(bob+".pub"))
	good := l.gpgSign(wholeCommit, ada)
	signed := func(signature string) string { return commitHead + fold("gpgsig", signature) + commitEnd }
	bySSH := l.sshSign(bob, "git")
	other := "tree " + otherTree + "\nauthor " + someone + "committer " + someone
	mergetag := "object " + treeHash + "\ntype commit\ntag m\ntagger " + someone + "\nm\n"
	cases := map[string]struct{ commit, want string }{ // an empty want: it is believed
		"good":                             {signed(good), ""},
		"good, with an empty line behind":  {signed(good + "\n"), ""},
		"good, by SSH":                     {signed(bySSH), ""},
		"unsigned":                         {wholeCommit, "not signed"},
		"by another OpenPGP key":           {signed(l.gpgSign(wholeCommit, eve)), eve + ", which is none of those"},
		"by another SSH key":               {signed(l.sshSign(mallory, "git")), "none of those in the Secret"},
		"of another commit":                {other + fold("gpgsig", good) + commitEnd, "not of this content"},
		"of another commit, by SSH":        {other + fold("gpgsig", bySSH) + commitEnd, "not signed by SSH key"},
		"two trees, the signed one first":  {"tree " + treeHash + "\n" + other + fold("gpgsig", l.gpgSign("tree "+treeHash+"\n"+other+commitEnd, ada)) + commitEnd, "not where Git puts it"},
		"two trees, the signed one second": {"tree " + otherTree + "\n" + commitHead + fold("gpgsig", good) + commitEnd, "not where Git puts it"},
		"a tree behind the committer":      {commitHead + "tree " + otherTree + "\n" + fold("gpgsig", l.gpgSign(commitHead+"tree "+otherTree+"\n"+commitEnd, ada)) + commitEnd, "tree is there twice"},
		"two authors":                      {strings.Replace(wholeCommit, "author", "author "+someone+"author", 1), "committer is missing"},
		"no tree":                          {strings.TrimPrefix(signed(good), "tree "+treeHash+"\n"), "tree is missing"},
		"a tree of capital letters":        {strings.Replace(signed(good), treeHash, strings.ToUpper(treeHash), 1), "no SHA-1"},
		"a tree of two lines":              {strings.Replace(signed(good), treeHash, treeHash+"\n "+otherTree, 1), "more than one line"},
		"a continuation line first":        {" " + signed(good), "continuation line"},
		"two signatures":                   {commitHead + fold("gpgsig", l.gpgSign(wholeCommit, eve)) + fold("gpgsig", good) + commitEnd, "two signatures"},
		"a signature for SHA-256 besides":  {commitHead + fold("gpgsig", good) + fold("gpgsig-sha256", good) + commitEnd, ""},
		"only one for SHA-256":             {commitHead + fold("gpgsig-sha256", good) + commitEnd, "not signed"},
		"two of SHA-256":                   {commitHead + fold("gpgsig", good) + fold("gpgsig-sha256", good) + fold("gpgsig-sha256", good) + commitEnd, "twice"},
		"a header that Git does not sign":  {commitHead + "gpgsigned-by nobody\n" + fold("gpgsig", good) + commitEnd, "gpgsigned-by"},
		"the signature without a value":    {commitHead + "gpgsig\n" + fold("gpgsig", good) + commitEnd, "without a value"},
		"the signature in the message":     {wholeCommit + fold("gpgsig", good), "not signed"},
		"the armor in the message":         {wholeCommit + good, "not signed"},
		"the signature in a mergetag":      {commitHead + fold("mergetag", mergetag+l.gpgSign(mergetag, ada)) + commitEnd, "not signed"},
		"CRLF":                             {strings.ReplaceAll(signed(good), "\n", "\r\n"), "without a value"},
		"CR in the author":                 {strings.Replace(signed(good), "+0000\n", "+0000\r\n", 1), "not of this content"},
		"NUL in a header":                  {strings.Replace(signed(good), "Ada", "Ada\x00", 1), "NUL"},
		"NUL in the message":               {commitHead + fold("gpgsig", l.gpgSign(wholeCommit+"\x00", ada)) + commitEnd + "\x00", "NUL"},
		"something behind the armor":       {signed(good + "and more\n"), "one armored block"},
		"something before the armor":       {commitHead + fold("gpgsig", "x\n"+good) + commitEnd, "neither an OpenPGP nor"},
		"two blocks":                       {signed(good + good), "one armored block"},
		"another block first":              {signed(l.gpgSign(wholeCommit, eve) + good), "one armored block"},
		"two OpenPGP signatures":           {signed(l.gpgSign(wholeCommit, ada, "--local-user", eve)), "several OpenPGP signatures"},
		"OpenPGP of text":                  {signed(l.gpgSign(wholeCommit, ada, "--textmode")), "type 0x00"},
		"OpenPGP with SHA-1":               {signed(l.gpgSign(wholeCommit, ada, "--digest-algo", "SHA1")), "too weak"},
		"OpenPGP of the past that expired": {signed(l.gpgSign(wholeCommit, ada, "--default-sig-expire", "1d")), ""},
		"OpenPGP message":                  {signed(l.run(wholeCommit, "gpg", "--batch", "--quiet", "--armor", "--local-user", ada, "--sign")), "neither an OpenPGP nor"},
		"OpenPGP public key":               {signed(l.public(ada)), "neither an OpenPGP nor"},
		"OpenPGP in PGP's name alone":      {signed(object.MarkerOpenPGP + "\n"), "one armored block"},
		"OpenPGP, a key as the signature":  {signed(strings.ReplaceAll(l.public(ada), "PUBLIC KEY BLOCK", "SIGNATURE")), "several"},
		"X.509":                            {signed(object.MarkerX509 + "\n"), "X.509"},
		"SSH in another namespace":         {signed(l.sshSign(bob, "file")), "namespace \"file\""},
		"SSH, two blocks":                  {signed(bySSH + bySSH), "one armored block"},
		"SSH with headers":                 {signed(strings.Replace(bySSH, "\n", "\nA: b\n\n", 1)), "one armored block"},
		"SSH, a broken one":                {signed(strings.Replace(bySSH, "U1NIU0lH", "U1NIU0lI", 1)), "cannot be read"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := checkCommit(rawOf(plumbing.CommitObject, c.commit), keys, time.Now())
			refused(t, got, err, c.want)
		})
	}
	t.Run("larger than is verified", func(t *testing.T) {
		_, err := checkCommit(object.Raw{Hash: treeHash}, keys, time.Now())
		refused(t, verify.Result{}, err, "larger than")
	})
	t.Run("not what the hash stands for", func(t *testing.T) {
		_, err := checkCommit(object.Raw{Hash: treeHash, Data: []byte(signed(good))}, keys, time.Now())
		refused(t, verify.Result{}, err, "does not have its hash")
	})
}

func refused(t *testing.T, got verify.Result, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil || got.Commit == nil {
			t.Fatalf("got %v, %v; want it believed", got, err)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v, %v; want an error with %q", got, err, want)
	}
	if got.Commit != nil || got.Tags != nil {
		t.Errorf("refused, with the signers %v", got)
	}
}

// Keys and signatures have times, and are revoked.
func TestTimes(t *testing.T) {
	l := newLab(t)
	year := func(y string) []string { return []string{"--faked-system-time", y + "0601T000000"} }
	key := l.gpgKey("Ada <ada@example.org>", "ed25519", year("2020")...)
	short := l.gpgKey("Short <short@example.org>", "ed25519", year("2020")...)
	l.run("", "gpg", append(append([]string{"--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""}, year("2020")...), "--quick-set-expire", short, "2y")...)
	revoked := l.gpgKey("Revoked <revoked@example.org>", "ed25519", year("2020")...)
	before := l.public(revoked)
	revocation := l.read(l.gnupg + "/openpgp-revocs.d/" + revoked + ".rev")
	sub := l.gpgKey("Sub <sub@example.org>", "ed25519", year("2020")...)
	l.run("", "gpg", append(append([]string{"--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""}, year("2020")...), "--quick-add-key", sub, "ed25519", "sign", "2y")...)
	sign := func(key, y string, flags ...string) string {
		return commitHead + fold("gpgsig", l.gpgSign(wholeCommit, key, append(year(y), flags...)...)) + commitEnd
	}
	of2021, short2021 := sign(revoked, "2021"), sign(short, "2021")
	l.run(strings.ReplaceAll(revocation, ":-----BEGIN", "-----BEGIN"), "gpg", "--batch", "--quiet", "--import")

	cases := map[string]struct {
		keys   []string
		commit string
		now    int
		want   string
	}{
		"valid":                                  {[]string{l.public(key)}, sign(key, "2021"), 2024, ""},
		"made in the future":                     {[]string{l.public(key)}, sign(key, "2025"), 2024, "in the future"},
		"the signature has expired":              {[]string{l.public(key)}, sign(key, "2021", "--default-sig-expire", "1y"), 2024, "signature has expired"},
		"the signature has not expired yet":      {[]string{l.public(key)}, sign(key, "2021", "--default-sig-expire", "5y"), 2024, ""},
		"the key is valid":                       {[]string{l.public(short)}, short2021, 2021, ""},
		"the key has expired":                    {[]string{l.public(short)}, short2021, 2024, "the key has expired"},
		"the key was extended":                   {[]string{l.public(short), extended(l, short)}, short2021, 2024, ""},
		"the key was revoked":                    {[]string{l.public(revoked)}, of2021, 2026, "revoked"},
		"a copy of the key from before is there": {[]string{before}, of2021, 2026, ""},
		"both are there":                         {[]string{before, l.public(revoked)}, of2021, 2026, "revoked"},
		"the subkey is valid":                    {[]string{l.public(sub)}, sign(sub, "2021"), 2021, ""},
		"the subkey has expired":                 {[]string{l.public(sub)}, sign(sub, "2021"), 2024, "the key has expired"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := checkCommit(rawOf(plumbing.CommitObject, c.commit), mustKeys(t, c.keys...), at(c.now))
			refused(t, got, err, c.want)
		})
	}
}

// extended is a copy of a key that does not expire any more.
func extended(l *lab, key string) string {
	before := l.public(key)
	l.run("", "gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "", "--faked-system-time", "20210101T000000", "--quick-set-expire", key, "never")
	after := l.public(key)
	l.run("", "gpg", "--batch", "--yes", "--delete-secret-and-public-key", key)
	l.run(before, "gpg", "--batch", "--quiet", "--import")
	return after
}

// The name within a signed tag is that of the ref, and it is of what was fetched.
func TestTags(t *testing.T) {
	l := newLab(t)
	ada, eve := l.gpgKey("Ada <ada@example.org>", "ed25519"), l.gpgKey("Eve <eve@example.org>", "ed25519")
	keys := mustKeys(t, l.public(ada))
	commit := rawOf(plumbing.CommitObject, wholeCommit)
	other := rawOf(plumbing.CommitObject, wholeCommit+"other\n")
	signedCommit := rawOf(plumbing.CommitObject, commitHead+fold("gpgsig", l.gpgSign(wholeCommit, ada))+commitEnd)
	payload := func(of object.Raw, kind, name string) string {
		return "object " + of.Hash + "\ntype " + kind + "\ntag " + name + "\ntagger " + someone + "\nA tag\n"
	}
	tag := func(text, key string) object.Raw { return rawOf(plumbing.TagObject, text+l.gpgSign(text, key)) }
	v1 := tag(payload(commit, "commit", "v1"), ada)
	unsigned := rawOf(plumbing.TagObject, payload(commit, "commit", "v1"))
	plain := payload(commit, "commit", "v1")
	const ref = "refs/tags/v1"
	both, tagOnly := v1alpha1.VerifyTagAndHead, v1alpha1.VerifyTag
	cases := map[string]struct {
		mode   v1alpha1.VerifyMode
		ref    string
		tags   []object.Raw
		commit object.Raw
		want   string
	}{
		"signed":                               {tagOnly, ref, []object.Raw{v1}, commit, ""},
		"both signed":                          {both, ref, []object.Raw{tag(payload(signedCommit, "commit", "v1"), ada)}, signedCommit, ""},
		"the commit is not":                    {both, ref, []object.Raw{v1}, commit, "commit " + commit.Hash[:12] + ": it is not signed"},
		"the tag is not":                       {both, ref, []object.Raw{rawOf(plumbing.TagObject, payload(signedCommit, "commit", "v1"))}, signedCommit, "it is not signed"},
		"the tag alone has to be, and is not":  {tagOnly, ref, []object.Raw{unsigned}, commit, "it is not signed"},
		"by another key":                       {tagOnly, ref, []object.Raw{tag(plain, eve)}, commit, "none of those in the Secret"},
		"a branch":                             {tagOnly, "refs/heads/main", []object.Raw{v1}, commit, "refs/heads/main"},
		"a commit by its hash":                 {both, "", []object.Raw{v1}, commit, "named by its hash"},
		"a lightweight tag":                    {tagOnly, ref, nil, commit, "git tag -s"},
		"at another name":                      {tagOnly, "refs/tags/v2", []object.Raw{v1}, commit, `signed as tag "v1"`},
		"of another commit":                    {tagOnly, ref, []object.Raw{v1}, other, "and the repository has commit " + other.Hash},
		"of another type":                      {tagOnly, ref, []object.Raw{tag(payload(commit, "tree", "v1"), ada)}, commit, `"tree"`},
		"nested, both signed":                  {tagOnly, "refs/tags/v2", []object.Raw{tag(payload(v1, "tag", "v2"), ada), v1}, commit, ""},
		"nested, the inner one unsigned":       {tagOnly, "refs/tags/v2", []object.Raw{tag(payload(unsigned, "tag", "v2"), ada), unsigned}, commit, "it is not signed"},
		"nested, the outer one unsigned":       {tagOnly, "refs/tags/v2", []object.Raw{rawOf(plumbing.TagObject, payload(v1, "tag", "v2")), v1}, commit, "it is not signed"},
		"nested, the outer one of another":     {tagOnly, "refs/tags/v2", []object.Raw{tag(payload(unsigned, "tag", "v2"), ada), v1}, commit, "and the repository has tag"},
		"two headers object":                   {tagOnly, ref, []object.Raw{tag("object "+other.Hash+"\n"+plain, ada)}, commit, "not where Git puts it"},
		"two names":                            {tagOnly, ref, []object.Raw{tag(strings.Replace(plain, "tag v1\n", "tag v1\ntag v0\n", 1), ada)}, commit, "twice"},
		"an unknown header":                    {tagOnly, ref, []object.Raw{tag(strings.Replace(plain, "\n\n", "\nencoding x\n\n", 1), ada)}, commit, "encoding"},
		"something behind the signature":       {tagOnly, ref, []object.Raw{rawOf(plumbing.TagObject, plain+l.gpgSign(plain, ada)+"more\n")}, commit, "one armored block"},
		"two signatures":                       {tagOnly, ref, []object.Raw{tag(plain+l.gpgSign(plain, eve), ada)}, commit, "several signatures"},
		"a signature in a header alone":        {tagOnly, ref, []object.Raw{rawOf(plumbing.TagObject, strings.Replace(plain, "\n\n", "\n"+fold("gpgsig", l.gpgSign(plain, ada))+"\n", 1))}, commit, "gpgsig"},
		"one for SHA-256 besides":              {tagOnly, ref, []object.Raw{rawOf(plumbing.TagObject, strings.Replace(plain, "\n\n", "\n"+fold("gpgsig-sha256", "x")+"\n", 1)+l.gpgSign(plain, ada))}, commit, ""},
		"the commit is not what its hash says": {tagOnly, ref, []object.Raw{v1}, object.Raw{Hash: commit.Hash, Data: other.Data}, "does not have its hash"},
		"the content of the tag is another":    {tagOnly, ref, []object.Raw{{Hash: v1.Hash, Data: unsigned.Data}}, commit, "does not have its hash"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := verify.Check(verify.Input{Mode: c.mode, RefName: c.ref, Tags: c.tags, Commit: c.commit, Now: time.Now()}, keys)
			if c.want != "" {
				refused(t, got, err, c.want)
				return
			}
			var want []verify.Signer
			for range c.tags {
				want = append(want, verify.Signer{Type: "openpgp", Fingerprint: ada, User: "Ada <ada@example.org>"})
			}
			if diff := cmp.Diff(want, got.Tags); err != nil || diff != "" || (got.Commit != nil) != (c.mode == both) {
				t.Errorf("%v, commit %v: %s", err, got.Commit, diff)
			}
		})
	}
}

// Security keys sign with a flag that says whether they were touched; certificates are no keys.
func TestSSHForms(t *testing.T) {
	l := newLab(t)
	bob := l.sshKey("bob", "-t", "ed25519")
	private, err := ssh.ParsePrivateKey([]byte(l.read(bob)))
	if err != nil {
		t.Fatal(err)
	}
	cert := &ssh.Certificate{Key: private.PublicKey(), CertType: ssh.UserCert, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(rand.Reader, private); err != nil {
		t.Fatal(err)
	}
	certSigner, err := ssh.NewCertSigner(cert, private)
	if err != nil {
		t.Fatal(err)
	}
	byCert, err := sshsig.Sign(strings.NewReader(wholeCommit), certSigner, sshsig.HashSHA512, "git")
	if err != nil {
		t.Fatal(err)
	}
	public, touched := securityKey(t, 1)
	_, untouched := securityKey(t, 0)
	cases := map[string]struct{ keys, signature, want string }{
		"certificate":             {l.read(bob + ".pub"), string(sshsig.Armor(byCert)), "certificate"},
		"security key":            {public, touched, ""},
		"security key, untouched": {public, untouched, "not signed by SSH key"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := checkCommit(rawOf(plumbing.CommitObject, commitHead+fold("gpgsig", c.signature)+commitEnd), mustKeys(t, c.keys), time.Now())
			refused(t, got, err, c.want)
		})
	}
}

// securityKey makes what a security key would, always of the same key: its public key, and its signature of wholeCommit.
func securityKey(t *testing.T, flags byte) (public, signature string) {
	t.Helper()
	const kind, application = ssh.KeyAlgoSKED25519, "ssh:"
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	wire := ssh.Marshal(struct {
		Kind        string
		Key         []byte
		Application string
	}{kind, private.Public().(ed25519.PublicKey), application})
	key, err := ssh.ParsePublicKey(wire)
	if err != nil {
		t.Fatal(err)
	}
	digest := func(text []byte) []byte { h := sshsig.HashSHA256.Hash(); h.Write(text); return h.Sum(nil) }
	message := append([]byte("SSHSIG"), ssh.Marshal(struct{ Namespace, Reserved, Hash, Message string }{"git", "", "sha256", string(digest([]byte(wholeCommit)))})...)
	signed := append(digest([]byte(application)), flags, 0, 0, 0, 1)
	sig := &ssh.Signature{Format: kind, Blob: ed25519.Sign(private, append(signed, digest(message)...)), Rest: []byte{flags, 0, 0, 0, 1}}
	armored := sshsig.Armor(&sshsig.Signature{Version: 1, PublicKey: key, Namespace: "git", HashAlgorithm: sshsig.HashSHA256, Signature: sig})
	if block, _ := pem.Decode(armored); block == nil {
		t.Fatal("no armor")
	}
	return string(ssh.MarshalAuthorizedKey(key)), string(armored)
}
