package fetch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/hack/lab/sshd"
)

// addedLine is what a message says to add to known_hosts.
func addedLine(message string) string {
	_, out, _ := strings.Cut(message, "add this line to known_hosts: ")
	return out
}

func TestSSHHostKeys(t *testing.T) {
	needSSH(t)
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	key, foreign, authority := newSSHKey(t, "ed25519"), newSSHKey(t, "ed25519").public, newSSHKey(t, "ed25519")
	server := newSSHD(t, sshd.Options{HostKeys: []string{"ed25519", "ecdsa", "rsa"}, AuthorizedKeys: []string{key.public}})
	certified := newSSHD(t, sshd.Options{AuthorizedKeys: []string{key.public}, HostCertificate: authority.private})
	plainHost := "127.0.0.1"
	keys, name := server.HostKeys(), server.Name()
	_, port, _ := strings.Cut(name, "]:")
	for title, tc := range map[string]struct {
		server *sshd.Server
		known  []string
		says   string // empty where it is accepted
		heals  bool   // with the line that the message names
	}{
		"all":                              {server, []string{string(server.KnownHosts())}, "", false},
		"only the RSA key":                 {server, []string{name + " " + keys[2]}, "", false},
		"only the ECDSA key":               {server, []string{name + " " + keys[1]}, "", false},
		"RSA before the key of another":    {server, []string{name + " " + keys[2], name + " " + foreign}, "", false},
		"hashed":                           {server, []string{knownhosts.HashHostname(name) + " " + keys[1]}, "", false},
		"hashed, among others":             {server, []string{knownhosts.HashHostname("other") + " " + foreign, knownhosts.HashHostname(name) + " " + keys[2]}, "", false},
		"a wildcard":                       {server, []string{"[127.0.0.*]:" + port + " " + keys[0]}, "", false},
		"among names":                      {server, []string{"git.example.org,192.0.2.1," + name + " " + keys[0]}, "", false},
		"behind a line that is broken":     {server, []string{name + " ssh-ed25519 AAAA", name + " " + keys[0]}, "", false},
		"nothing of this host":             {server, []string{"git.example.org " + keys[0]}, "has no host key of " + name, true},
		"hashed, of another host":          {server, []string{knownhosts.HashHostname("git.example.org") + " " + keys[0]}, "has no host key of " + name, true},
		"of the usual port":                {server, []string{plainHost + " " + keys[0]}, "has no host key of " + name, true},
		"negated":                          {server, []string{"*,!" + name + " " + keys[0]}, "has no host key of " + name, true},
		"a line that cannot be read":       {server, []string{name + " ssh-ed25519 AAAA", "other " + keys[0]}, "(line 1 cannot be read)", true},
		"foreign":                          {server, []string{"# comment", name + " " + foreign}, "(line 2) in the Secret that spec.secretRef names: the server has changed it", true},
		"foreign, and another type":        {certified, []string{name + " " + foreign, certified.Name() + " " + keys[2]}, "the server has changed it", true},
		"revoked":                          {server, []string{name + " " + keys[0], "@revoked * " + keys[0]}, "revoked by line 2", false},
		"revoked, of other names":          {server, []string{name + " " + keys[0], "@revoked other " + keys[0]}, "revoked by line 2", false},
		"another one is revoked":           {server, []string{name + " " + keys[0], "@revoked * " + foreign}, "", false},
		"an authority":                     {certified, []string{"@cert-authority 127.0.0.*,[127.0.0.*]:* " + authority.public}, "", false},
		"an authority of other hosts":      {certified, []string{"@cert-authority *.example.org " + authority.public}, "has no host key of", true},
		"an authority, not as such":        {certified, []string{certified.Name() + " " + authority.public}, "the server has changed it", true},
		"a foreign authority":              {certified, []string{"@cert-authority " + certified.Name() + " " + foreign}, "signed by an authority", true},
		"an authority that is revoked":     {certified, []string{"@cert-authority * " + authority.public, "@revoked * " + authority.public}, "revoked by line 2", false},
		"a certified key that is revoked":  {certified, []string{"@cert-authority * " + authority.public, "@revoked * " + certified.HostKeys()[0]}, "revoked by line 2", false},
		"the key of a certificate":         {certified, []string{string(certified.KnownHosts())}, "", false},
		"an authority, and no certificate": {server, []string{"@cert-authority * " + authority.public}, "has no host key of", true},
		"an authority, and a key":          {server, []string{"@cert-authority * " + authority.public, name + " " + keys[1]}, "", false},
	} {
		t.Run(title, func(t *testing.T) {
			read := func(known []string) error {
				auth := &fetch.Auth{Identity: key.private, KnownHosts: []byte(strings.Join(known, "\n"))}
				_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: tc.server.URL(repo.dir), Auth: auth})
				return err
			}
			err := read(tc.known)
			if tc.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			message := wantReason(t, err, fetch.ReasonUnreachable)
			if !strings.Contains(message, tc.says) {
				t.Errorf("%q does not say %q", message, tc.says)
			}
			if added := addedLine(message); (added != "") != tc.heals {
				t.Errorf("%q names the line %q", message, added)
			} else if tc.heals {
				if err := read(append([]string{added}, tc.known...)); err != nil {
					t.Errorf("with the line that was named: %v", err)
				}
			}
		})
	}
}

// What the server runs, and what it answers.
func TestSSHRepositories(t *testing.T) {
	needSSH(t)
	key := newSSHKey(t, "ed25519")
	plain := newSSHD(t, sshd.Options{AuthorizedKeys: []string{key.public}})
	forced := newSSHD(t, sshd.Options{AuthorizedKeys: []string{`restrict,command="echo 'access denied by policy' >&2; exit 1" ` + key.public}})
	repo := newRepository(t)
	commit := repo.commit(map[string]string{"a.yaml": "a"})
	dir := t.TempDir()
	empty := &repository{tb: t, dir: filepath.Join(dir, "empty")}
	if err := os.Mkdir(empty.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	empty.git("init", "--quiet", "--initial-branch=main")
	for _, name := range []string{"it's", "a b", "$(touch x)", "semi;colon", "bang!", "q?m", "~x"} {
		if err := os.Symlink(repo.dir, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		server       *sshd.Server
		path         string
		ref          fetch.Ref
		reason, says string
	}{
		"a repository":             {plain, repo.dir, fetch.Ref{}, "", ""},
		"a branch":                 {plain, repo.dir, fetch.Ref{Branch: "main"}, "", ""},
		"a commit":                 {plain, repo.dir, fetch.Ref{Commit: commit}, "", ""},
		"a quote":                  {plain, dir + "/it's", fetch.Ref{}, "", ""},
		"a space":                  {plain, dir + "/a%20b", fetch.Ref{}, "", ""},
		"a command":                {plain, dir + "/$(touch%20x)", fetch.Ref{}, "", ""},
		"a semicolon":              {plain, dir + "/semi;colon", fetch.Ref{}, "", ""},
		"an exclamation mark":      {plain, dir + "/bang!", fetch.Ref{}, "", ""},
		"a question mark":          {plain, dir + "/q%3Fm", fetch.Ref{}, "", ""},
		"a tilde":                  {plain, dir + "/~x", fetch.Ref{}, "", ""},
		"no repository":            {plain, dir + "/none", fetch.Ref{}, fetch.ReasonNotFound, "does not appear to be a git repository"},
		"an empty one":             {plain, empty.dir, fetch.Ref{}, fetch.ReasonRefNotFound, "no commit yet"},
		"no such branch":           {plain, repo.dir, fetch.Ref{Branch: "none"}, fetch.ReasonRefNotFound, "none"},
		"no such commit":           {plain, repo.dir, fetch.Ref{Commit: someCommit}, fetch.ReasonRefNotFound, someCommit},
		"a key for something else": {forced, repo.dir, fetch.Ref{}, fetch.ReasonAuthFailed, "access denied by policy"},
	} {
		t.Run(name, func(t *testing.T) {
			auth := &fetch.Auth{Identity: key.private, KnownHosts: tc.server.KnownHosts()}
			res, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: tc.server.URL(tc.path), Ref: tc.ref, Auth: auth})
			if tc.reason == "" {
				if err != nil || res.Commit != commit {
					t.Errorf("%v, %v", res, err)
				}
				return
			}
			if message := wantReason(t, err, tc.reason); !strings.Contains(message, tc.says) {
				t.Errorf("%q does not say %q", message, tc.says)
			}
		})
	}
	plain.Wait() // nothing runs at the server for a fetch that has ended
	wantNoClient(t)
	t.Run("another user", func(t *testing.T) {
		auth := &fetch.Auth{Identity: key.private, KnownHosts: plain.KnownHosts()}
		_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: "ssh://" + plain.Address() + repo.dir, Auth: auth})
		if message := wantReason(t, err, fetch.ReasonAuthFailed); !strings.Contains(message, "for user git") {
			t.Error(message)
		}
	})
}

// The checks of URLs and addresses are for SSH as well.
func TestSSHNetwork(t *testing.T) {
	server := (&oddServer{}).start(t)
	req := server.request(t)
	address := server.listener.Addr().String()
	for name, tc := range map[string]struct {
		refused, allowed []string
		prefix, url      string
		says             string // empty where it is connected
	}{
		"refused":                       {refused: fetch.DefaultRefused(), says: "127.0.0.0/8"},
		"refused, scp-like":             {refused: fetch.DefaultRefused(), url: "git@localhost:x", says: "--git-allowed-cidrs"},
		"metadata":                      {refused: fetch.DefaultRefused(), url: "git@169.254.169.254:x", says: "169.254.0.0/16"},
		"allowed again":                 {refused: fetch.DefaultRefused(), allowed: []string{"127.0.0.1"}},
		"the prefix":                    {prefix: "ssh://" + address},
		"the prefix, and the path":      {prefix: "ssh://" + address + "/x"},
		"the prefix, and the user":      {prefix: "ssh://git@" + address},
		"another user":                  {prefix: "ssh://ada@" + address, says: "--git-allowed-url-prefixes"},
		"another path":                  {prefix: "ssh://" + address + "/y", says: "--git-allowed-url-prefixes"},
		"another port":                  {prefix: "ssh://127.0.0.1", says: "--git-allowed-url-prefixes"},
		"HTTPS only":                    {prefix: "https://" + address, says: "--git-allowed-url-prefixes"},
		"scp-like, another host":        {prefix: "ssh://git.example.org", url: "git@git.example.com:x", says: "--git-allowed-url-prefixes"},
		"scp-like, up and down":         {prefix: "ssh://git.example.org/team", url: "git@git.example.org:team/../x", says: "--git-allowed-url-prefixes"},
		"scp-like, the same repository": {prefix: "ssh://localhost/team", url: "git@localhost:team/x", refused: fetch.DefaultRefused(), says: "--git-allowed-cidrs"},
	} {
		t.Run(name, func(t *testing.T) {
			network := fetch.Network{Refused: prefixes(t, tc.refused...), Allowed: prefixes(t, tc.allowed...)}
			if tc.prefix != "" {
				var err error
				if network.URLPrefixes, err = fetch.ParseURLPrefixes([]string{tc.prefix}); err != nil {
					t.Fatal(err)
				}
			}
			req := req
			if tc.url != "" {
				req.URL = tc.url
			}
			_, err := (&fetch.Fetcher{Network: network}).Fetch(t.Context(), req)
			if tc.says == "" {
				wantReason(t, err, fetch.ReasonFetchFailed) // the server runs nothing
				return
			}
			if message := wantReason(t, err, fetch.ReasonURLRefused); !strings.Contains(message, tc.says) {
				t.Errorf("%q does not say %q", message, tc.says)
			}
		})
	}
}

// One Fetcher reads one commit after another, over a connection for each.
func TestSSHNextCommits(t *testing.T) {
	needSSH(t)
	key := newSSHKey(t, "ed25519")
	server := newSSHD(t, sshd.Options{AuthorizedKeys: []string{key.public}})
	repo := newRepository(t)
	fetcher := &fetch.Fetcher{}
	req := fetch.Request{URL: server.URL(repo.dir), Auth: &fetch.Auth{Identity: key.private, KnownHosts: server.KnownHosts()}}
	for _, content := range []string{"first", "second", "third"} {
		commit := repo.commit(map[string]string{"a.yaml": content, "b/" + content + ".yaml": "b", "same.yaml": strings.Repeat("same ", 1000)})
		res, err := fetcher.Fetch(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if res.Commit != commit || res.Files[0].Path != "a.yaml" || string(res.Files[0].Data) != content {
			t.Errorf("read %s with %v, want %s", res.Commit, res.Files, commit)
		}
		req.Known = commit
	}
	repo.git("reset", "--quiet", "--hard", "HEAD^")
	commit := repo.commit(map[string]string{"a.yaml": "forced"})
	if res, err := fetcher.Fetch(t.Context(), req); err != nil || res.Commit != commit || string(res.Files[0].Data) != "forced" {
		t.Errorf("after a forced push, read %v, %v", res, err)
	}
	server.Wait()
	wantNoClient(t)
}
