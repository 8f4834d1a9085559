package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

func TestProgramName(t *testing.T) {
	cases := map[string]string{
		"minifleet": "minifleet", "/usr/local/bin/kubectl-minifleet": "kubectl minifleet", "kubectl-minifleet.exe": "kubectl minifleet", "/x/other": "minifleet",
	}
	for path, want := range cases {
		if got := programName(path); got != want {
			t.Errorf("%s is %s", path, got)
		}
	}
}

func TestUsageOfThePlugin(t *testing.T) {
	_, out, _, _ := play(t, scene{program: "kubectl minifleet"}, "get", "--help")
	for _, want := range []string{"kubectl minifleet get [NAME...] [flags]", "  kubectl minifleet get lammps -o yaml", "Flags for the connection to the hub:", "--kubeconfig"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// kubectl runs the program by the name of the plugin.
func TestUsageByTheNameOfTheProgram(t *testing.T) {
	for path, want := range map[string]string{"/opt/bin/kubectl-minifleet": "  kubectl minifleet get [NAME...]", "bin/minifleet": "  minifleet get [NAME...]"} {
		var out, errs bytes.Buffer
		if code := Main([]string{path, "get", "--help"}, strings.NewReader(""), &out, &errs); code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("exit code %d, no %q in %s%s", code, want, out.String(), errs.String())
		}
	}
}

// Every command of the hub has the flags of kubectl, says what it does, and has an example.
func TestCommandsAreDocumented(t *testing.T) {
	env := newEnvironment("minifleet", nil, nil, nil)
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		if cmd.HasSubCommands() || cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "version" {
			return
		}
		if cmd.Short == "" || cmd.Example == "" && cmd.Name() != "controller" {
			t.Errorf("%s has no text or no example", cmd.CommandPath())
		}
		if cmd.Flags().Lookup("context") != nil && !strings.Contains(string(document), "$ "+cmd.CommandPath()) {
			t.Errorf("docs/cli.md has no example of %s", cmd.CommandPath())
		}
	}
	visit(newRoot(env))
}

func TestCompletion(t *testing.T) {
	cases := map[string]struct {
		args []string
		want []string
	}{
		"MiniClusters":  {[]string{"get", ""}, []string{"lammps", "relax"}},
		"a state":       {[]string{"get", "--state", ""}, []string{"Waiting", "Deleting"}},
		"live runs":     {[]string{"cancel", "lammps", ""}, []string{"3f2a000000\tRunning on alpine"}},
		"sources":       {[]string{"source", "get", ""}, []string{"fleet"}},
		"members":       {[]string{"logs", "lammps", "--member", ""}, []string{"alpine", "basalt"}},
		"pages":         {[]string{"open", "member/"}, []string{"member/alpine", "member/basalt"}},
		"a member":      {[]string{"cluster", "drain", ""}, []string{"alpine", "basalt"}},
		"namespaces":    {[]string{"get", "-n", ""}, []string{"hpc"}},
		"a format":      {[]string{"get", "-o", ""}, []string{"wide", "yaml"}},
		"no more names": {[]string{"tree", "lammps", ""}, []string{":4"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, errs, _ := play(t, scene{objects: fleet()}, append([]string{"__complete"}, c.args...)...)
			for _, want := range c.want {
				if code != 0 || !strings.Contains("\n"+out, "\n"+want+"\n") {
					t.Errorf("exit code %d, no %q in %s%s", code, want, out, errs)
				}
			}
		})
	}
	t.Run("forbidden", func(t *testing.T) {
		if code, out, _, _ := play(t, scene{funcs: forbidden()}, "__complete", "get", ""); code != 0 || out != ":4\n" {
			t.Errorf("exit code %d: %s", code, out)
		}
	})
}

func TestConnect(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	body := `{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}],
users: [{name: a, user: {token: t}}], contexts: [{name: a, context: {cluster: a, user: a, namespace: lab}}]}`
	if err := os.WriteFile(kubeconfig, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	reachable := func(env *environment) { env.connect = connect }
	cases := map[string]struct {
		args []string
		code int
		err  string
	}{
		"no answer":       {[]string{"--kubeconfig", kubeconfig}, 1, "the hub does not answer: dial tcp 127.0.0.1:1"},
		"no such context": {[]string{"--kubeconfig", kubeconfig, "--context", "b"}, 2, "no connection to a hub: give --kubeconfig or --context, or set KUBECONFIG"},
		"no such file":    {[]string{"--kubeconfig", "testdata/none"}, 2, "no connection to a hub"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, _, stderr, _ := play(t, scene{edit: reachable}, append([]string{"get"}, c.args...)...)
			if code != c.code || !strings.Contains(stderr, c.err) {
				t.Errorf("exit code %d: %s", code, stderr)
			}
		})
	}
	t.Run("the namespace of the context", func(t *testing.T) {
		flags := genericclioptions.NewConfigFlags(true)
		flags.KubeConfig = &kubeconfig
		hub, err := connect(flags)
		if err != nil || hub.namespace != "lab" || hub.config.BearerToken != "t" {
			t.Errorf("%+v: %v", hub, err)
		}
	})
}
