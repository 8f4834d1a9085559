package verify_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/minifleet/minifleet/gitsource/object"
)

// lab makes real keys, signatures and objects, with git, gpg and ssh-keygen.
type lab struct {
	tb               testing.TB
	dir, gnupg, repo string
}

func newLab(tb testing.TB) *lab {
	tb.Helper()
	for _, program := range []string{"git", "gpg", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			tb.Skipf("%s is needed for this test", program)
		}
	}
	gnupg, err := os.MkdirTemp("", "gpg") //nolint:usetesting // the path of the agent's socket must not be long
	if err != nil {
		tb.Fatal(err)
	}
	l := &lab{tb: tb, dir: tb.TempDir(), gnupg: gnupg}
	tb.Cleanup(func() {
		l.run("", "gpgconf", "--kill", "all")
		_ = os.RemoveAll(gnupg)
	})
	l.repo = filepath.Join(l.dir, "repo")
	l.run("", "git", "init", "--quiet", "--initial-branch=main", l.repo)
	return l
}

func (l *lab) try(input, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = l.repo
	if _, err := os.Stat(l.repo); err != nil {
		cmd.Dir = l.dir
	}
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = append(os.Environ(), "GNUPGHOME="+l.gnupg, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org")
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	if err != nil {
		l.tb.Logf("%s %s: %s", program, strings.Join(args, " "), stderr.String())
	}
	return out.String(), err
}

func (l *lab) run(input, program string, args ...string) string {
	l.tb.Helper()
	out, err := l.try(input, program, args...)
	if err != nil {
		l.tb.Fatalf("%s %s: %v", program, strings.Join(args, " "), err)
	}
	return out
}

func (l *lab) git(args ...string) string {
	l.tb.Helper()
	return strings.TrimSpace(l.run("", "git", args...))
}

// gpgKey makes a key without a passphrase and returns its fingerprint. Flags are for gpg.
func (l *lab) gpgKey(user, kind string, flags ...string) string {
	l.tb.Helper()
	l.run("", "gpg", append(append([]string{"--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""}, flags...),
		"--quick-gen-key", user, kind, "sign", "never")...)
	return l.fingerprint(user)
}

func (l *lab) fingerprint(user string) string {
	for line := range strings.Lines(l.run("", "gpg", "--batch", "--with-colons", "--list-keys", "="+user)) {
		if fields := strings.Split(line, ":"); fields[0] == "fpr" {
			return fields[9]
		}
	}
	l.tb.Fatalf("there is no key of %s", user)
	return ""
}

func (l *lab) public(key string) string {
	l.tb.Helper()
	return l.run("", "gpg", "--batch", "--armor", "--export", key)
}

// gpgSign makes a detached signature.
func (l *lab) gpgSign(payload, key string, flags ...string) string {
	l.tb.Helper()
	return l.run(payload, "gpg", append(append([]string{"--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "", "--armor"}, flags...),
		"--local-user", key, "--detach-sign")...)
}

// sshKey makes a key and returns the path of the private one.
func (l *lab) sshKey(comment string, args ...string) string {
	l.tb.Helper()
	path := filepath.Join(l.dir, comment)
	l.run("", "ssh-keygen", append([]string{"-q", "-N", "", "-C", comment, "-f", path}, args...)...)
	return path
}

func (l *lab) read(path string) string {
	l.tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		l.tb.Fatal(err)
	}
	return string(data)
}

// sshSign signs wholeCommit.
func (l *lab) sshSign(key, namespace string) string {
	l.tb.Helper()
	return l.run(wholeCommit, "ssh-keygen", "-Y", "sign", "-q", "-n", namespace, "-f", key)
}

// object reads one of the repository.
func (l *lab) object(kind, name string) object.Raw {
	l.tb.Helper()
	hash := l.git("rev-parse", name)
	return object.Raw{Hash: hash, Data: []byte(l.run("", "git", "cat-file", kind, hash))}
}

// store writes an object into the repository, whatever is in it, and returns its hash.
func (l *lab) store(kind, content string) string {
	l.tb.Helper()
	return strings.TrimSpace(l.run(content, "git", "hash-object", "--literally", "-t", kind, "-w", "--stdin"))
}

// believed is what Git says itself of a signature.
func (l *lab) believed(command, hash string) bool {
	_, err := l.try("", "git", command, hash)
	return err == nil
}

// rawOf is an object that no repository has.
func rawOf(kind plumbing.ObjectType, content string) object.Raw {
	return object.Raw{Hash: plumbing.ComputeHash(kind, []byte(content)).String(), Data: []byte(content)}
}

const (
	treeHash    = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	otherTree   = "5b825dc642cb6eb9a060e54bf8d69288fbee4904"
	someone     = "Ada <ada@example.org> 1767225600 +0000\n"
	commitHead  = "tree " + treeHash + "\nauthor " + someone + "committer " + someone
	commitEnd   = "\nRun more\n"
	wholeCommit = commitHead + commitEnd
)

// fold is a header of a commit that bears a signature.
func fold(header, signature string) string {
	return header + " " + strings.ReplaceAll(strings.TrimSuffix(signature, "\n"), "\n", "\n ") + "\n"
}

// at is a day of a year, a minute after what is made on that day.
func at(year int) time.Time { return time.Date(year, 6, 1, 0, 1, 0, 0, time.UTC) }
