package fetch

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func testKey(t testing.TB, seed byte) ssh.PublicKey {
	t.Helper()
	key, err := ssh.NewPublicKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)).Public())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func keyText(key ssh.PublicKey) string {
	return key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal())
}

func TestNamesOfKnownHosts(t *testing.T) {
	for names, tc := range map[string]struct{ is, not []string }{
		"git.example.org":            {[]string{"git.example.org"}, []string{"[git.example.org]:2222", "agit.example.org", "git.example.org.evil.example", "gitxexample.org"}},
		"GIT.example.org":            {[]string{"git.example.org"}, nil},
		"[git.example.org]:2222":     {[]string{"[git.example.org]:2222"}, []string{"git.example.org", "[git.example.org]:222"}},
		"git.example.org:2222":       {[]string{"[git.example.org]:2222"}, []string{"git.example.org"}},
		"[git.example.org]:22":       {[]string{"git.example.org"}, nil},
		"a,git.example.org,10.0.0.1": {[]string{"git.example.org", "a", "10.0.0.1"}, []string{"a,git.example.org", ""}},
		"*.example.org":              {[]string{"git.example.org", "a.b.example.org"}, []string{"example.org", "[git.example.org]:2222"}},
		"[*.example.org]:2222":       {[]string{"[git.example.org]:2222"}, []string{"git.example.org"}},
		"g?t.example.org":            {[]string{"git.example.org"}, []string{"gt.example.org", "giit.example.org"}},
		"*":                          {[]string{"git.example.org", "[git.example.org]:2222"}, nil},
		"*,!git.example.org":         {[]string{"other.example.org"}, []string{"git.example.org"}},
		"!git.example.org,*":         {[]string{"other.example.org"}, []string{"git.example.org"}},
		"!git.example.org":           {nil, []string{"git.example.org", "other.example.org"}},
		"2001:db8::1":                {[]string{"2001:db8::1"}, []string{"[2001:db8::1]:2222"}},
		"[2001:db8::1]:2222":         {[]string{"[2001:db8::1]:2222"}, []string{"2001:db8::1"}},
		"[2001:db8::1]":              {[]string{"2001:db8::1"}, nil},
		",":                          {nil, []string{"git.example.org", ""}},
		"!":                          {nil, []string{"git.example.org", ""}},
		knownhosts.HashHostname("git.example.org"):        {[]string{"git.example.org"}, []string{"other.example.org"}},
		knownhosts.HashHostname("[git.example.org]:2222"): {[]string{"[git.example.org]:2222"}, []string{"git.example.org"}},
		"|1|x|y":   {nil, []string{"git.example.org"}},
		"|1|":      {nil, []string{"git.example.org"}},
		"|2|AAA=|": {nil, []string{"git.example.org"}},
	} {
		for _, name := range tc.is {
			if !namesMatch(names, name) {
				t.Errorf("%q does not match %q", names, name)
			}
		}
		for _, name := range tc.not {
			if namesMatch(names, name) {
				t.Errorf("%q matches %q", names, name)
			}
		}
	}
}

// A pattern takes no longer for being made to.
func TestHostilePatterns(t *testing.T) {
	if glob(strings.Repeat("*a", 2000)+"b", strings.Repeat("a", 4000)) {
		t.Error("it matches")
	}
}

func TestHostKeyAlgorithms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rsa")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", path).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: ssh-keygen: %v: %s", err, out)
	}
	rsa, err := os.ReadFile(path + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	ed25519 := keyText(testKey(t, 1))
	rest := func(known ...string) []string {
		for _, a := range plainAlgorithms {
			if !strings.Contains(" "+strings.Join(known, " ")+" ", " "+a+" ") {
				known = append(known, a)
			}
		}
		return known
	}
	for name, tc := range map[string]struct {
		lines []string
		want  []string
	}{
		"none":                 {[]string{"other " + ed25519}, plainAlgorithms},
		"one":                  {[]string{"other " + ed25519, "git " + string(rsa)}, rest(ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)},
		"in order":             {[]string{"git " + string(rsa), "git " + ed25519}, rest(ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoED25519)},
		"a hash":               {[]string{knownhosts.HashHostname("git") + " " + string(rsa)}, rest(ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)},
		"an authority, then a": {[]string{"@cert-authority git " + string(rsa), "git " + ed25519}, rest(append(append([]string{}, certAlgorithms...), ssh.KeyAlgoED25519)...)},
	} {
		t.Run(name, func(t *testing.T) {
			known, err := parseKnownHosts([]byte(strings.Join(tc.lines, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, hostKeyAlgorithms(known.of("git"))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestKnownHostsThatCannotBeRead(t *testing.T) {
	good := "git " + keyText(testKey(t, 1))
	for name, tc := range map[string]struct {
		file, says string
		unread     []int
	}{
		"empty":                  {"", "no line that names a host", nil},
		"comments":               {"# git\n\n", "no line that names a host", nil},
		"a key alone":            {keyText(testKey(t, 1)), "no line that names a host", nil},
		"a broken line":          {"git ssh-rsa AAAA\n" + good, "", []int{1}},
		"a type of another key":  {"git ssh-rsa " + strings.Fields(good)[2] + "\n" + good, "", []int{1}},
		"an unknown marker":      {"@other " + good + "\n" + good, "", []int{1}},
		"a marker of a marker":   {"@cert-authority @revoked " + good + "\n" + good, "", []int{1}},
		"a broken revocation":    {good + "\n@revoked git ssh-rsa AAAA\n", "line 2 of known_hosts revokes", nil},
		"line ends of Windows":   {"# x\r\n" + good + "\r\n", "", nil},
		"a comment behind a key": {good + " ada@example.org\n", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			known, err := parseKnownHosts([]byte(tc.file))
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%v does not say %q", err, tc.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.unread, known.unread); diff != "" || len(known.of("git")) != 1 {
				t.Errorf("%d entries, lines that cannot be read (-want +got):\n%s", len(known.of("git")), diff)
			}
		})
	}
}

// FuzzKnownHosts checks that a key is accepted only where a line names it, and never one that is revoked.
func FuzzKnownHosts(f *testing.F) {
	key, other := testKey(f, 1), testKey(f, 2)
	for _, seed := range []string{
		"git " + keyText(key), "git,* " + keyText(other), "@revoked * " + keyText(key) + "\ngit " + keyText(key),
		"@cert-authority *.example.org " + keyText(key), knownhosts.HashHostname("git") + " " + keyText(key), "|1|a|b " + keyText(key), "!git,[*]:22 " + keyText(key),
	} {
		f.Add([]byte(seed), "git", "22")
	}
	f.Fuzz(func(t *testing.T, data []byte, host, port string) {
		known, err := parseKnownHosts(data)
		if err != nil {
			return
		}
		hostKeyAlgorithms(known.of(hostName(host, port)))
		if known.check(host, port, key, nil) != nil {
			return
		}
		line := base64.StdEncoding.EncodeToString(key.Marshal())
		if !bytes.Contains(data, []byte(line)) {
			t.Errorf("a key is accepted that is not there: %q", data)
		}
		if _, revoked := known.revokes(key); revoked {
			t.Errorf("a key is accepted that is revoked: %q", data)
		}
	})
}
