package verify_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/minifleet/minifleet/gitsource/verify"
)

// Values of a Secret: which are believed, and what is said of others, without showing them.
func TestReadKeys(t *testing.T) {
	l := newLab(t)
	ada, bob := l.gpgKey("Ada <ada@example.org>", "ed25519"), l.gpgKey("Bob <bob@example.org>", "ed25519")
	key, short, dsa := l.sshKey("key", "-t", "ed25519"), l.sshKey("short", "-t", "rsa", "-b", "1024"), "ssh-dss AAAAB3NzaC1kc3MAAACBAA== x\n"
	protected := l.sshKey("protected", "-t", "ed25519")
	l.run("", "ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", protected)
	pem := l.sshKey("pem", "-t", "rsa", "-b", "2048", "-m", "PEM")
	public := l.read(key + ".pub")
	fields := strings.Fields(public)
	private := l.run("", "gpg", "--batch", "--pinentry-mode", "loopback", "--passphrase", "", "--armor", "--export-secret-keys", ada)
	mislabelled := strings.ReplaceAll(private, "PRIVATE KEY", "PUBLIC KEY")
	bySSH := commitHead + fold("gpgsig", l.sshSign(key, "git")) + commitEnd
	byBob := commitHead + fold("gpgsig", l.gpgSign(wholeCommit, bob)) + commitEnd

	cases := map[string]struct {
		value  string
		commit string // that is believed then
		want   string // of the error
	}{
		"OpenPGP":                       {l.public(bob), byBob, ""},
		"OpenPGP, two blocks":           {l.public(ada) + l.public(bob), byBob, ""},
		"OpenPGP, two keys in a block":  {l.run("", "gpg", "--batch", "--armor", "--export"), byBob, ""},
		"OpenPGP, CRLF":                 {strings.ReplaceAll(l.public(bob), "\n", "\r\n"), byBob, ""},
		"OpenPGP, text before":          {"Bob's key\n\n" + l.public(bob), byBob, ""},
		"SSH":                           {public, bySSH, ""},
		"SSH, CRLF":                     {strings.ReplaceAll(public, "\n", "\r\n"), bySSH, ""},
		"SSH, comments and empty lines": {"# our keys\n\n" + public, bySSH, ""},
		"SSH, without a comment":        {fields[0] + " " + fields[1], bySSH, ""},
		"SSH, a principal":              {"ada@example.org,bob@example.org " + public, bySSH, ""},
		"SSH, namespaces with git":      {`* namespaces="file,git" ` + public, bySSH, ""},
		"SSH, options of a login":       {"restrict,no-pty " + public, bySSH, ""},
		"SSH, namespaces without git":   {`* namespaces="file" ` + public, "", "line 1 has the option \"namespaces\""},
		"SSH, an authority":             {"* cert-authority " + public, "", "option \"cert-authority\""},
		"SSH, valid for a time":         {`* valid-before="20270101" ` + public, "", "option \"valid-before\""},
		"SSH, a command":                {`command="a b" ` + public, "", "option \"command\""},
		"SSH, a short key":              {public + l.read(short+".pub"), "", "line 2 holds an RSA key of 1024 bits"},
		"SSH, DSA":                      {dsa, "", "ssh-dss"},
		"SSH, a certificate":            {"ssh-ed25519-cert-v01@openssh.com AAAA x", "", "not supported"},
		"SSH, of another type":          {"ssh-rsa " + fields[1], "", "cannot be read"},
		"SSH, broken":                   {strings.Replace(public, "AAAA", "AAAB", 1), "", "cannot be read"},
		"SSH, cut":                      {fields[0] + " " + fields[1][:40], "", "cannot be read"},
		"a private SSH key":             {l.read(key), "", "holds a private key"},
		"a private SSH key, protected":  {l.read(protected), "", "holds a private key"},
		"a private SSH key in PEM":      {l.read(pem), "", "holds a private key"},
		"a private key behind another":  {public + l.read(key), "", "holds a private key"},
		"a private OpenPGP key":         {private, "", "holds a private key"},
		"a private OpenPGP key, hidden": {mislabelled, "", "holds a private key"},
		"a private key of PuTTY":        {"PuTTY-User-Key-File-3: ssh-ed25519\n", "", "holds a private key"},
		"OpenPGP, broken":               {strings.Replace(l.public(bob), "\nm", "\nn", 1), "", "cannot be read"},
		"OpenPGP, the second broken":    {l.public(ada) + strings.Replace(l.public(bob), "\nm", "\nn", 1), "", "cannot be read"},
		"OpenPGP, a signature":          {l.gpgSign("x", ada), "", "no OpenPGP public key"},
		"OpenPGP, not armored":          {l.run("", "gpg", "--batch", "--export", bob), "", "is no public key"},
		"something else":                {"hunter2", "", "line 1 is no public key"},
		"nothing":                       {"", "", "holds no public key"},
		"a comment":                     {"# soon\n", "", "holds no public key"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			keys, err := verify.ReadKeys(map[string][]byte{"author.pub": []byte(c.value)})
			if c.want != "" {
				var typed *verify.KeyError
				if !errors.As(err, &typed) || typed.Entry != "author.pub" || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("got %v; want an error with %q", err, c.want)
				}
				if strings.Contains(err.Error(), "hunter2") {
					t.Error("the value is shown")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := checkCommit(rawOf(plumbing.CommitObject, c.commit), keys, time.Now())
			refused(t, got, err, "")
		})
	}
	if _, err := verify.ReadKeys(nil); err == nil || !strings.Contains(err.Error(), "holds no key") {
		t.Errorf("an empty Secret: %v", err)
	}
	_, err := verify.ReadKeys(map[string][]byte{"a.asc": []byte(l.public(ada)), "b.sshpub": []byte(public), "README": []byte("x")})
	if err == nil || !strings.Contains(err.Error(), `key "README" line 1`) {
		t.Errorf("one of three that is no key: %v", err)
	}
}

// Who may write the Secret of a source may put anything there.
func FuzzReadKeys(f *testing.F) {
	for _, seed := range []string{
		"", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8Ht8Z3j6yDWPBHQtOp/R9rjWvfMYo3MSA/K6q8D86r ada",
		`* namespaces="git",a ssh-rsa AAAA`, "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEZ\n-----END PGP PUBLIC KEY BLOCK-----\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		keys, err := verify.ReadKeys(map[string][]byte{"key": value})
		if (keys == nil) == (err == nil) {
			t.Errorf("got %v and %v", keys, err)
		}
	})
}

// Whoever may push chooses a commit and its signature, and none of that is believed without a key.
func FuzzCheck(f *testing.F) {
	keys := mustKeys(f, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8Ht8Z3j6yDWPBHQtOp/R9rjWvfMYo3MSA/K6q8D86r ada")
	f.Add(wholeCommit)
	f.Add(commitHead + fold("gpgsig", "-----BEGIN PGP SIGNATURE-----\n\niHUEABYKAB0WIQ==\n=abcd\n-----END PGP SIGNATURE-----\n") + commitEnd)
	f.Add(commitHead + fold("gpgsig", "-----BEGIN SSH SIGNATURE-----\nU1NIU0lHAAAAAQ==\n-----END SSH SIGNATURE-----\n") + commitEnd)
	f.Fuzz(func(t *testing.T, content string) {
		if got, err := checkCommit(rawOf(plumbing.CommitObject, content), keys, at(2026)); err == nil {
			t.Errorf("believed, as of %v", got.Commit)
		}
	})
}
