package credentialplugin

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"

	"github.com/minifleet/minifleet/internal/scripttest"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const v1 = "client.authentication.k8s.io/v1"

// secret is in what the plugins print; no error may have it.
const secret = "hunter2hunter2"

func runner(environment ...string) *Runner {
	return &Runner{Environment: append([]string{"PATH=/usr/bin:/bin"}, environment...), Now: func() time.Time { return noon }}
}

// script is a plugin that is a shell script.
func script(t *testing.T, body string) Command {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin")
	scripttest.Write(t, path, "#!/bin/sh\n"+body+"\n")
	return Command{Provider: "test", APIVersion: v1, Path: path}
}

func prints(answer string) string { return "cat <<'EOF'\n" + answer + "\nEOF" }

func TestRun(t *testing.T) {
	c := script(t, prints(`{"apiVersion": "`+v1+`", "kind": "ExecCredential", "status": {"token": "`+secret+`", "expirationTimestamp": "2026-01-02T13:00:00Z"}}`))
	got, err := runner().Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	want := Credential{Token: secret, Certificate: []byte{}, Key: []byte{}, Expires: noon.Add(time.Hour)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Nothing of the controller's environment reaches a plugin but what the Runner is given.
func TestEnvironment(t *testing.T) {
	t.Setenv("MINIFLEET_TEST_SECRET", secret)
	to := filepath.Join(t.TempDir(), "environment")
	c := script(t, "env > "+to)
	c.Env = []string{"REGION=north"}
	c.Cluster = &clientauthenticationv1.Cluster{Server: "https://10.0.0.1:6443"}
	if _, err := runner("HOME=/nowhere").Run(t.Context(), c); err == nil {
		t.Fatal("nothing is no credential")
	}
	out, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if !slices.Contains([]string{"PWD", "OLDPWD", "_", "SHLVL"}, name) { // the shell's own
			names = append(names, name)
		}
		if name == execInfo && !strings.Contains(value, `"server":"https://10.0.0.1:6443"`) {
			t.Errorf("the cluster is not told: %s", value)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"HOME", execInfo, "PATH", "REGION"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPluginsThatFail(t *testing.T) {
	answer := func(status string) string {
		return prints(`{"apiVersion": "` + v1 + `", "kind": "ExecCredential", "status": ` + status + `}`)
	}
	cases := map[string]struct{ body, says string }{
		"fails":               {"echo " + secret + " >&2; echo " + secret + "; exit 3", "exit status 3"},
		"prints nothing":      {"true", "no JSON of kind ExecCredential"},
		"prints text":         {"echo " + secret, "no JSON"},
		"another version":     {prints(`{"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": {"token": "` + secret + `"}}`), "another apiVersion"},
		"no status":           {prints(`{"apiVersion": "` + v1 + `", "kind": "ExecCredential"}`), "neither a token"},
		"a key alone":         {answer(`{"clientKeyData": "` + secret + `"}`), "without its key"},
		"no PEM":              {answer(`{"clientKeyData": "` + secret + `", "clientCertificateData": "x"}`), "do not belong together"},
		"a line in the token": {answer(`{"token": "` + secret + `\r\nX-Remote-User: root"}`), "characters that no token has"},
		"expired":             {answer(`{"token": "` + secret + `", "expirationTimestamp": "2026-01-02T11:00:00Z"}`), "expired already"},
		"without an end":      {"while :; do echo " + secret + "; done", "prints more than 256 KiB"},
		"leaves a process":    {"sleep 60 & " + answer(`{"token": "`+secret+`"}`), "holds its output open"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := runner().Run(t.Context(), script(t, c.body))
			switch {
			case err == nil:
				t.Error("that is taken for a credential")
			case !strings.Contains(err.Error(), c.says):
				t.Errorf("%q does not say %q", err, c.says)
			case strings.Contains(err.Error(), secret):
				t.Errorf("%q has what was printed", err)
			}
		})
	}
	t.Run("is not there", func(t *testing.T) {
		if _, err := runner().Run(t.Context(), Command{Provider: "test", APIVersion: v1, Path: "minifleet-no-such-plugin"}); err == nil || !strings.Contains(err.Error(), "not in PATH") {
			t.Error(err)
		}
	})
}

// A plugin that hangs is killed with what it has started, and so is one that nobody waits for any more.
func TestPluginsThatHang(t *testing.T) {
	for name, c := range map[string]struct {
		timeout, patience time.Duration
		says              string
	}{
		"too long":       {200 * time.Millisecond, time.Hour, "has not ended within 200ms, and was killed"},
		"not waited for": {time.Hour, 200 * time.Millisecond, context.DeadlineExceeded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := filepath.Join(t.TempDir(), "pid")
			r := runner()
			r.Timeout = c.timeout
			ctx, cancel := context.WithTimeout(t.Context(), c.patience)
			defer cancel()
			_, err := r.Run(ctx, script(t, "sleep 600 & echo $! > "+pid+"; wait"))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatal(err)
			}
			child, err := os.ReadFile(pid)
			if err != nil {
				t.Skip("NOT TESTED: the plugin was killed before it had started anything, on a machine that is this slow")
			}
			for !isOver(strings.TrimSpace(string(child))) {
				if t.Context().Err() != nil {
					t.Fatal("what the plugin has started still runs")
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}

// isOver says whether a process has ended, though nobody may have waited for it.
func isOver(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// A provider whose plugins all hang keeps no process from another one.
func TestProvidersDoNotWaitForEachOther(t *testing.T) {
	r := runner()
	hanging := script(t, "sleep 600")
	hanging.Provider = "hanging"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	for range slots + 4 {
		go func() {
			_, _ = r.Run(ctx, hanging)
			done <- struct{}{}
		}()
	}
	c := script(t, prints(`{"apiVersion": "`+v1+`", "kind": "ExecCredential", "status": {"token": "`+secret+`"}}`))
	if _, err := r.Run(t.Context(), c); err != nil {
		t.Error(err)
	}
	cancel()
	for range slots + 4 {
		<-done
	}
}
