package fetch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/hack/lab/sshd"
)

// sshKey is a key that was made for a test.
type sshKey struct {
	private []byte
	public  string
}

func newSSHKey(t testing.TB, kind string, args ...string) sshKey {
	t.Helper()
	path, public, err := sshd.NewKey(filepath.Join(t.TempDir(), "key"), kind, args...)
	if err != nil {
		t.Fatal(err)
	}
	private, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sshKey{private, public}
}

// newSSHD starts OpenSSH's sshd, which ends when nobody talks to it any more.
func newSSHD(t testing.TB, o sshd.Options) *sshd.Server {
	t.Helper()
	if err := sshd.Available(); err != nil {
		t.Skipf("NOT TESTED with OpenSSH: %v", err)
	}
	server, err := sshd.Start(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
		server.Wait()
		if t.Failed() {
			t.Log(server.Log())
		}
	})
	return server
}

func needSSH(t testing.TB) {
	t.Helper()
	if err := sshd.Available(); err != nil {
		t.Skipf("NOT TESTED with OpenSSH: %v", err)
	}
}

func TestSSHPrivateKeys(t *testing.T) {
	needSSH(t)
	repo := newRepository(t)
	commit := repo.commit(map[string]string{"a.yaml": "a"})
	other := newSSHKey(t, "ed25519")
	pem := func(kind string, args ...string) sshKey { return newSSHKey(t, kind, append(args, "-m", "PEM")...) }
	for name, tc := range map[string]struct {
		key        sshKey
		passphrase string
		reason     string
		says       string
	}{
		"ed25519":                  {key: newSSHKey(t, "ed25519")},
		"ecdsa, 256 bits":          {key: newSSHKey(t, "ecdsa", "-b", "256")},
		"ecdsa, 521 bits":          {key: newSSHKey(t, "ecdsa", "-b", "521")},
		"rsa":                      {key: newSSHKey(t, "rsa", "-b", "3072")},
		"rsa, PEM":                 {key: pem("rsa", "-b", "2048")},
		"ecdsa, PEM":               {key: pem("ecdsa")},
		"ecdsa, PKCS #8":           {key: newSSHKey(t, "ecdsa", "-m", "PKCS8")},
		"encrypted":                {key: newSSHKey(t, "ed25519", "-N", canary), passphrase: canary},
		"encrypted, PEM":           {key: pem("rsa", "-N", canary), passphrase: canary},
		"a passphrase for nothing": {key: newSSHKey(t, "ed25519"), passphrase: canary},
		"encrypted, no passphrase": {key: newSSHKey(t, "ed25519", "-N", canary), reason: fetch.ReasonSecretInvalid, says: "under the key password"},
		"wrong passphrase":         {key: newSSHKey(t, "ed25519", "-N", "other"), passphrase: canary, reason: fetch.ReasonSecretInvalid, says: "cannot be decrypted"},
		"wrong passphrase, PEM":    {key: pem("rsa", "-N", "other"), passphrase: canary, reason: fetch.ReasonSecretInvalid, says: "cannot be decrypted"},
		"PKCS #8, encrypted":       {key: newSSHKey(t, "rsa", "-m", "PKCS8", "-N", canary), passphrase: canary, reason: fetch.ReasonSecretInvalid, says: "ssh-keygen -p"},
		"rsa, too short":           {key: newSSHKey(t, "rsa", "-b", "1024"), reason: fetch.ReasonSecretInvalid, says: "1024 bits, which is too weak"},
		"too long to decrypt":      {key: newSSHKey(t, "ed25519", "-a", "257", "-N", canary), passphrase: canary, reason: fetch.ReasonSecretInvalid, says: "rounds"},
		"a public key":             {key: sshKey{[]byte(other.public), other.public}, reason: fetch.ReasonSecretInvalid, says: "public key"},
		"PuTTY":                    {key: sshKey{[]byte("PuTTY-User-Key-File-3: ssh-ed25519\n" + canary), other.public}, reason: fetch.ReasonSecretInvalid, says: "puttygen"},
		"text":                     {key: sshKey{[]byte(canary), other.public}, reason: fetch.ReasonSecretInvalid, says: "no format"},
		"cut":                      {key: sshKey{other.private[:len(other.private)/2], other.public}, reason: fetch.ReasonSecretInvalid, says: "no format"},
		"garbage in PEM":           {key: sshKey{[]byte("-----BEGIN OPENSSH PRIVATE KEY-----\n" + "Y2FuYXJ5\n-----END OPENSSH PRIVATE KEY-----"), other.public}, reason: fetch.ReasonSecretInvalid, says: "cannot be read"},
		"one the server knows not": {key: sshKey{newSSHKey(t, "ed25519").private, other.public}, reason: fetch.ReasonAuthFailed, says: "refused the private key in identity (ssh-ed25519 SHA256:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newSSHD(t, sshd.Options{AuthorizedKeys: []string{tc.key.public}})
			auth := &fetch.Auth{Identity: tc.key.private, Passphrase: tc.passphrase, KnownHosts: server.KnownHosts()}
			res, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: server.URL(repo.dir), Auth: auth})
			if tc.reason == "" {
				if err != nil || res.Commit != commit || len(res.Files) != 1 {
					t.Fatalf("%v, %v", res, err)
				}
				return
			}
			if message := wantReason(t, err, tc.reason); !strings.Contains(message, tc.says) {
				t.Errorf("message %q does not say %q", message, tc.says)
			}
			wantNoCanary(t, err)
			wantNoKey(t, err, tc.key.private)
		})
	}
}

// wantNoKey searches an error for a line of a private key.
func wantNoKey(t *testing.T, err error, key []byte) {
	t.Helper()
	const shortest = 8
	for line := range strings.Lines(string(key)) {
		if line = strings.TrimSpace(line); len(line) >= shortest && err != nil && strings.Contains(err.Error(), line) {
			t.Errorf("a line of the private key is in %v", err)
		}
	}
}
