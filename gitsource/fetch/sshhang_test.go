package fetch_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os/exec"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/minifleet/minifleet/gitsource/fetch"
)

func newPrivateKey(t testing.TB) []byte {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

const someCommit = "1111111111111111111111111111111111111111"

// advertised is a list of one reference.
var advertised = pktLine(someCommit+" HEAD\x00side-band-64k shallow symref=HEAD:refs/heads/main\n") + pktLine(someCommit+" refs/heads/main\n") + "0000"

// hanging are servers that stop to answer at each stage, and call reached there. Those that talk to nobody wait for release.
func hanging(reached func(), release <-chan struct{}) map[string]*oddServer {
	silent := func(said string) func(net.Conn) bool {
		return func(conn net.Conn) bool {
			_, _ = io.WriteString(conn, said)
			reached()
			drain(conn)
			return false
		}
	}
	say := func(text string) func(string, ssh.Channel) {
		return func(_ string, channel ssh.Channel) {
			_, _ = io.WriteString(channel, text)
			reached()
			<-release
		}
	}
	return map[string]*oddServer{
		"at the banner":  {connected: silent("")},
		"in the banner":  {connected: silent("SSH-2.0-")},
		"at the keys":    {connected: silent("SSH-2.0-odd\r\n")},
		"at the login":   {asked: func() { reached(); <-release }},
		"at the session": {opened: func(c *ssh.ServerConn) bool { reached(); _ = c.Wait(); return false }},
		"at the command": {wanted: func() bool {
			reached()
			<-release
			return false
		}},
		"at the references":            {run: say("")},
		"in the references":            {run: say(advertised[:90])},
		"in the middle of a reference": {run: say(advertised[:50])},
		"at the pack":                  {run: say(advertised)},
		"in the middle of the pack": {run: func(_ string, channel ssh.Channel) {
			_, _ = io.WriteString(channel, advertised)
			_, _ = io.CopyN(io.Discard, channel, 1) // of the wants
			_, _ = io.WriteString(channel, packBegins)
			reached()
			<-release
		}},
	}
}

// packBegins is the answer to wants, as far as the head of a pack.
var packBegins = pktLine("shallow "+someCommit) + "0000" + pktLine("NAK\n") + pktLine("\x01PACK\x00\x00\x00\x02\x00\x00\x00\x03")

// A server that hangs holds nobody up for longer than the fetch may take, and nothing of the fetch stays.
func TestSSHServersThatHang(t *testing.T) {
	for stage := range hanging(nil, nil) {
		start := func(t *testing.T) (req fetch.Request, reached chan struct{}) {
			t.Helper()
			reached, release := make(chan struct{}), make(chan struct{})
			server := hanging(sync.OnceFunc(func() { close(reached) }), release)[stage].start(t)
			t.Cleanup(func() { close(release) }) // before the server is waited for
			return server.request(t), reached
		}
		t.Run("canceled "+stage, func(t *testing.T) {
			req, reached := start(t)
			if err := fetchUntil(t, reached, req); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want that it is canceled", err)
			}
			wantNoClient(t)
		})
		t.Run("timed out "+stage, func(t *testing.T) {
			req, _ := start(t)
			_, err := (&fetch.Fetcher{Timeout: 200 * time.Millisecond}).Fetch(t.Context(), req)
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "spec.timeout") {
				t.Errorf("%v, want that it took too long", err)
			}
			wantNoClient(t)
		})
	}
}

// wantNoClient waits until no goroutine is left that fetches over SSH. Those of a server are told apart by what they run.
func wantNoClient(t *testing.T) {
	t.Helper()
	var left string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		var out strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&out, 2); err != nil {
			t.Fatal(err)
		}
		left = ""
		for stack := range strings.SplitSeq(out.String(), "\n\n") {
			if strings.Contains(stack, "ssh.NewClient") || strings.Contains(stack, "ssh.newClientTransport") || strings.Contains(stack, "fetch.openSSH") ||
				strings.Contains(stack, "fetch.(*sshSession)") || strings.Contains(stack, "fetch.(*uploadRun)") {
				left = stack
			}
		}
		if left == "" {
			return
		}
	}
	t.Errorf("a goroutine is left:\n%s", left)
}

func TestSSHServersThatFlood(t *testing.T) {
	flood := func(text string) func(io.Writer) {
		page := []byte(strings.Repeat(text, 1+(32<<10)/len(text)))
		return func(to io.Writer) {
			for {
				if _, err := to.Write(page); err != nil {
					return
				}
			}
		}
	}
	for name, tc := range map[string]struct {
		server  *oddServer
		reasons []string
	}{
		"before the banner": {&oddServer{connected: func(conn net.Conn) bool { flood("hello\r\n")(conn); return false }}, []string{fetch.ReasonLimitExceeded, fetch.ReasonUnreachable, fetch.ReasonFetchFailed}},
		"as a banner":       {&oddServer{connected: func(conn net.Conn) bool { flood("a")(conn); return false }}, []string{fetch.ReasonLimitExceeded, fetch.ReasonUnreachable, fetch.ReasonFetchFailed}},
		"stderr":            {&oddServer{run: func(_ string, channel ssh.Channel) { flood(canary)(channel.Stderr()) }}, []string{fetch.ReasonLimitExceeded}},
		"references": {&oddServer{run: func(_ string, channel ssh.Channel) {
			_, _ = io.WriteString(channel, strings.TrimSuffix(advertised, "0000"))
			flood(pktLine(someCommit + " refs/heads/other\n"))(channel)
		}}, []string{fetch.ReasonLimitExceeded}},
		"garbage": {&oddServer{run: func(_ string, channel ssh.Channel) { flood(canary)(channel) }}, []string{fetch.ReasonFetchFailed}},
		"the pack": {&oddServer{run: func(_ string, channel ssh.Channel) {
			_, _ = io.WriteString(channel, advertised)
			_, _ = io.CopyN(io.Discard, channel, 1)
			_, _ = io.WriteString(channel, packBegins)
			flood(pktLine("\x01" + strings.Repeat("x", 60000)))(channel)
		}}, []string{fetch.ReasonLimitExceeded}},
		"requests": {&oddServer{opened: func(c *ssh.ServerConn) bool {
			for {
				if _, _, err := c.SendRequest("odd@example.org", false, make([]byte, 30000)); err != nil {
					return false
				}
			}
		}}, []string{fetch.ReasonLimitExceeded}},
	} {
		t.Run(name, func(t *testing.T) {
			req := tc.server.start(t).request(t)
			_, err := (&fetch.Fetcher{}).Fetch(t.Context(), req)
			var typed *fetch.Error
			if !errors.As(err, &typed) || !strings.Contains(strings.Join(tc.reasons, " "), typed.Reason) {
				t.Errorf("%v, want reason %v", err, tc.reasons)
			}
			wantNoCanary(t, err)
			wantNoClient(t)
		})
	}
}

func TestSSHServersThatRefuse(t *testing.T) {
	says := func(stdout, stderr string) func(string, ssh.Channel) {
		return func(_ string, channel ssh.Channel) {
			_, _ = io.WriteString(channel, stdout)
			_, _ = io.WriteString(channel.Stderr(), stderr)
		}
	}
	for name, tc := range map[string]struct {
		server       *oddServer
		reason, says string
	}{
		"no session":         {&oddServer{opened: func(*ssh.ServerConn) bool { return false }}, fetch.ReasonFetchFailed, "opens no session"},
		"no command":         {&oddServer{wanted: func() bool { return false }}, fetch.ReasonAuthFailed, "lets this key not run git-upload-pack"},
		"nothing":            {&oddServer{run: says("", "")}, fetch.ReasonFetchFailed, "without an answer"},
		"GitHub":             {&oddServer{run: says("", "ERROR: Repository not found.\nfatal: Could not read from remote repository.\n")}, fetch.ReasonNotFound, "ERROR: Repository not found."},
		"GitLab":             {&oddServer{run: says("", "remote: \nremote: ERROR: The project you were looking for could not be found or you don't have permission to view it.\n")}, fetch.ReasonAuthFailed, "could not be found"},
		"Gitea":              {&oddServer{run: says("", "Gitea: Unauthorized\n")}, fetch.ReasonAuthFailed, "Unauthorized"},
		"OpenSSH's git":      {&oddServer{run: says("", "fatal: '/x' does not appear to be a git repository\n")}, fetch.ReasonNotFound, "does not appear"},
		"in a line of Git":   {&oddServer{run: says(pktLine("ERR access denied or repository not exported: /x\n"), "")}, fetch.ReasonAuthFailed, "access denied"},
		"a shell":            {&oddServer{run: says("Welcome\n", "")}, fetch.ReasonFetchFailed, "not Git"},
		"a terminal's codes": {&oddServer{run: says("", "\x1b[31mno\x1b]0;x\x07\u202e\n")}, fetch.ReasonFetchFailed, "it says: "},
		"SHA-256":            {&oddServer{run: says(pktLine(someCommit+strings.Repeat("1", 24)+" HEAD\x00object-format=sha256\n")+"0000", "")}, fetch.ReasonFetchFailed, "sha256"},
		"no commit":          {&oddServer{run: says(pktLine(strings.Repeat("0", 40)+" capabilities^{}\x00shallow\n")+"0000", "")}, fetch.ReasonRefNotFound, "no commit yet"},
		"another one's URL": {&oddServer{connected: func(conn net.Conn) bool {
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
			return false
		}}, fetch.ReasonUnreachable, "host and port"},
	} {
		t.Run(name, func(t *testing.T) {
			req := tc.server.start(t).request(t)
			_, err := (&fetch.Fetcher{}).Fetch(t.Context(), req)
			if message := wantReason(t, err, tc.reason); !strings.Contains(message, tc.says) || strings.ContainsAny(message, "\x1b\x07\n\u202e") {
				t.Errorf("message %q does not say %q", message, tc.says)
			}
			wantNoKey(t, err, req.Auth.Identity)
			wantNoClient(t)
		})
	}
}

// uploadPack runs the real git-upload-pack, and between reads what between does.
func uploadPack(repo *repository, between func()) func(string, ssh.Channel) {
	return func(_ string, channel ssh.Channel) {
		defer channel.Close() //nolint:errcheck // the other side may have closed it
		cmd := exec.Command("git", "upload-pack", repo.dir)
		cmd.Env, cmd.Stdout, cmd.Stderr = gitEnv(), channel, channel.Stderr()
		stdin, err := cmd.StdinPipe()
		if err != nil || cmd.Start() != nil {
			return
		}
		var first [1]byte
		if _, err := io.ReadFull(channel, first[:]); err == nil { // of the wants
			between()
			_, _ = stdin.Write(first[:])
			_, _ = io.Copy(stdin, channel)
		}
		_ = stdin.Close()
		_ = cmd.Wait()
	}
}

// What is read is the commit that was listed, or nothing, when somebody pushes by force in between.
func TestSSHForcePushWhileFetching(t *testing.T) {
	for name, pruned := range map[string]bool{"the old commit stays": false, "the old commit is pruned": true} {
		t.Run(name, func(t *testing.T) {
			repo := newRepository(t)
			repo.commit(map[string]string{"a.yaml": "base"})
			old := repo.commit(map[string]string{"a.yaml": "old"})
			var next string
			push := sync.OnceFunc(func() {
				repo.git("reset", "--quiet", "--hard", "HEAD^")
				next = repo.commit(map[string]string{"a.yaml": "new"})
				if pruned {
					repo.git("reflog", "expire", "--expire=now", "--all")
					repo.git("gc", "--quiet", "--prune=now")
				}
			})
			server := (&oddServer{run: uploadPack(repo, push)}).start(t)
			req := server.request(t)
			res, err := (&fetch.Fetcher{}).Fetch(t.Context(), req)
			switch {
			case err == nil && (res.Commit != old || string(res.Files[0].Data) != "old"):
				t.Errorf("read %s with %q, want %s", res.Commit, res.Files[0].Data, old)
			case err == nil && pruned:
				t.Error("a commit was read that was pruned")
			case err != nil && !pruned:
				t.Error(err)
			}
			res, err = (&fetch.Fetcher{}).Fetch(t.Context(), req)
			if err != nil || res.Commit != next || string(res.Files[0].Data) != "new" {
				t.Errorf("then read %v, %v, want %s", res, err, next)
			}
		})
	}
}

// A commit that cannot be asked for by its hash is searched for among what is fetched of all branches, with a second run.
func TestSSHCommitThatIsNotListed(t *testing.T) {
	repo := newRepository(t)
	first := repo.commit(map[string]string{"a.yaml": "first"})
	repo.commit(map[string]string{"a.yaml": "second"})
	runs := 0
	server := (&oddServer{run: func(command string, channel ssh.Channel) { runs++; uploadPack(repo, func() {})(command, channel) }}).start(t)
	req := server.request(t)
	req.Ref = fetch.Ref{Commit: first}
	res, err := (&fetch.Fetcher{}).Fetch(t.Context(), req)
	if err != nil || res.Commit != first || string(res.Files[0].Data) != "first" {
		t.Errorf("read %v, %v", res, err)
	}
	server.running.Wait()
	if runs != 2 {
		t.Errorf("git-upload-pack ran %d times, want 2", runs)
	}
	wantNoClient(t)
}

// A commit that is known is asked for by one list of references.
func TestSSHKnownCommit(t *testing.T) {
	repo := newRepository(t)
	commit := repo.commit(map[string]string{"a.yaml": "a"})
	server := (&oddServer{run: uploadPack(repo, func() {})}).start(t)
	req := server.request(t)
	req.Known = commit
	res, err := (&fetch.Fetcher{}).Fetch(t.Context(), req)
	if err != nil || !res.Unchanged || res.RefName != "refs/heads/main" {
		t.Errorf("%v, %v", res, err)
	}
}
