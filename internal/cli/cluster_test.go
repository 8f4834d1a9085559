package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minifleet/minifleet/internal/cli/members"
)

// A kubeconfig for a server that nobody listens at.
const nobody = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
`

func TestClusterCommands(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(nobody), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	hub := []string{"--kubeconfig", kubeconfig}
	cases := map[string]struct {
		args     []string
		code     int
		out, err string
	}{
		"nothing":                  {nil, exitOK, "join", ""},
		"of what":                  {[]string{"x"}, exitInvalid, "", "x"},
		"help":                     {[]string{"join", "--help"}, exitOK, "--namespace-only", ""},
		"join nobody":              {append(hub, "join", "--member-context", "c"), exitInvalid, "", "name one member"},
		"join two":                 {append(hub, "join", "a", "b"), exitInvalid, "", "name one member"},
		"a name that cannot be":    {append(hub, "join", "Alpine!", "--member-context", "c"), exitInvalid, "", "cannot be the name of a member"},
		"join what":                {append(hub, "join", "a"), exitInvalid, "", "--member-context"},
		"no such context":          {append(hub, "join", "a", "--member-kubeconfig", kubeconfig, "--member-context", "x"), exitInvalid, "", "no connection to the member"},
		"no such kubeconfig":       {append(hub, "join", "a", "--member-kubeconfig", "testdata/none"), exitInvalid, "", "no connection to the member"},
		"a server without TLS":     {append(hub, "join", "a", "--member-kubeconfig", kubeconfig, "--server", "http://a"), exitInvalid, "", "must be an https:// URL"},
		"labels that are none":     {append(hub, "join", "a", "--labels", "x"), exitInvalid, "", "must be formatted as key=value"},
		"a hub that is away":       {append(hub, "list"), exitFailed, "", "listing the members of the hub"},
		"no hub":                   {[]string{"list", "--kubeconfig", "testdata/none"}, exitInvalid, "", "no connection to a hub"},
		"an unknown format":        {append(hub, "list", "-o", "xml"), exitInvalid, "", "json, yaml, name"},
		"an unknown policy":        {append(hub, "remove", "a", "--policy", "Delete"), exitInvalid, "", "Block, Drain, Orphan"},
		"remove from what":         {append(hub, "remove", "a", "--member-context", "x"), exitInvalid, "", "no connection to the member"},
		"drain nobody":             {append(hub, "drain"), exitInvalid, "", "name one member"},
		"a time that is not one":   {append(hub, "drain", "a", "--timeout", "soon"), exitInvalid, "", "invalid argument"},
		"cordon of a hub's absent": {append(hub, "cordon", "a"), exitFailed, "", "127.0.0.1:1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := Run(append([]string{"cluster"}, c.args...), strings.NewReader(""), &out, &errs)
			if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.err) {
				t.Errorf("exit code %d: %s%s", code, out.String(), errs.String())
			}
		})
	}
}

func TestClusterErrors(t *testing.T) {
	var coded exit
	timeout := clusterError(errors.Join(&members.TimeoutError{Message: "not within 1s"}, errors.New("and more")))
	if !errors.As(timeout, &coded) || coded.code != exitWaitTimeout {
		t.Errorf("a timeout: %v", timeout)
	}
	var wrong invalid
	if err := clusterError(&members.InputError{Message: "which?"}); !errors.As(err, &wrong) {
		t.Errorf("input: %v", err)
	}
	if err := clusterError(errors.New("other")); errors.As(err, &coded) || errors.As(err, &wrong) {
		t.Errorf("other: %v", err)
	}
}
