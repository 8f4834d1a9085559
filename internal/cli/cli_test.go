package cli_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/internal/cli"
)

var update = flag.Bool("update", false, "write the golden files anew")

func run(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Run(args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// The digests of objects that hold the certificate, which is a new one each time.
var certificateDigest = regexp.MustCompile(`(?m)^( +minifleet\.dev/digest: ).*$`)

func TestRenderGolden(t *testing.T) {
	code, out, errs := run("", "render", "-f", "testdata/hello.yaml")
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	out = certificateDigest.ReplaceAllString(out, "${1}DIGEST")
	golden := filepath.Join("testdata", "hello.golden.yaml")
	if *update {
		if err := os.WriteFile(golden, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(read(t, golden), out); diff != "" {
		t.Error(diff)
	}
}

func TestRender(t *testing.T) {
	hello := read(t, "testdata/hello.yaml")
	second := strings.Replace(hello, "name: hello", "name: bye", 1)
	fleet := "apiVersion: minifleet.dev/v1alpha1\nkind: FleetMiniCluster\nmetadata: {name: fleet}\nspec: {placement: {}, miniCluster: {containers: [{image: a}]}}\n"
	placement := "apiVersion: minifleet.dev/v1alpha1\nkind: Placement\nmetadata: {name: gpu}\nspec: {}\n"
	cases := map[string]struct {
		stdin string
		args  []string
		code  int
		out   []string // in this order
		not   string
		err   string
	}{
		"standard input":     {hello, []string{"-f", "-"}, 0, []string{"kind: Secret", "kind: ConfigMap", "kind: Service", "kind: Job"}, "", ""},
		"a namespace":        {hello, []string{"-f", "-", "-n", "lab"}, 0, []string{"namespace: lab"}, "namespace: hpc", ""},
		"no namespace":       {fleet, []string{"-f", "-"}, 0, []string{"namespace: default"}, "", ""},
		"several documents":  {hello + "---\n" + second + "---\n" + fleet, []string{"-f", "-"}, 0, []string{"name: hello", "name: bye", "name: fleet"}, "", ""},
		"secrets":            {hello, []string{"-f", "-"}, 0, []string{"stringData:", "REDACTED"}, "\ndata:\n  curve.cert: ", ""},
		"secrets, shown":     {hello, []string{"-f", "-", "--show-secrets"}, 0, []string{"kind: Secret"}, "REDACTED", ""},
		"a wrong field":      {hello + "  sise: 2\n", []string{"-f", "-"}, 2, nil, "kind", "-:11: MiniCluster/hello: spec.sise"},
		"one of two wrong":   {hello + "---\n" + second + "  sise: 2\n", []string{"-f", "-"}, 2, nil, "kind", "-:22: MiniCluster/bye: spec.sise"},
		"not YAML":           {"a: [", []string{"-f", "-"}, 2, nil, "", "-:"},
		"nothing to render":  {placement, []string{"-f", "-"}, 2, nil, "", "holds no MiniCluster"},
		"empty":              {"", []string{"-f", "-"}, 2, nil, "", "holds no MiniCluster"},
		"no file named":      {"", nil, 2, nil, "", "name a file with -f"},
		"a file not there":   {"", []string{"-f", "testdata/none.yaml"}, 2, nil, "", "testdata/none.yaml"},
		"a directory":        {"", []string{"-f", "testdata"}, 2, nil, "", "testdata"},
		"an argument":        {"", []string{"x.yaml"}, 2, nil, "", "takes no argument"},
		"an unknown flag":    {"", []string{"--frob"}, 2, nil, "", "unknown flag: --frob"},
		"a flag with no use": {"", []string{"-f"}, 2, nil, "", "flag needs an argument"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run(c.stdin, append([]string{"render"}, c.args...)...)
			if code != c.code || (errs == "") != (c.err == "") || !strings.Contains(errs, c.err) {
				t.Fatalf("exit code %d: %s", code, errs)
			}
			rest := out
			for _, want := range c.out {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("no %q in its place in\n%s", want, out)
				}
				rest = after
			}
			if c.not != "" && strings.Contains(out, c.not) || c.code != 0 && out != "" {
				t.Errorf("printed %s", out)
			}
		})
	}
}

func TestCommands(t *testing.T) {
	cases := map[string]struct {
		args     []string
		code     int
		out, err string
	}{
		"version":            {[]string{"version"}, 0, "minifleet ", ""},
		"version as a table": {[]string{"version", "-o", "wide"}, 2, "", "-o: \"wide\" is none of json, yaml"},
		"version of what":    {[]string{"version", "x"}, 2, "", "takes no argument"},
		"nothing":            {[]string{}, 0, "minifleet [command]", ""},
		"help":               {[]string{"render", "--help"}, 0, "--show-secrets", ""},
		"an unknown flag":    {[]string{"--frob"}, 2, "", "unknown flag"},
		"too eager":          {[]string{"controller", "--follow-interval", "1ms"}, 2, "", "--follow-interval must be at least 1s"},
		"a wrong annotation": {[]string{"controller", "--allowed-pod-annotations", "*.example.org/a"}, 2, "", "--allowed-pod-annotations: \"*.example.org/a\" is neither"},
		"no workers":         {[]string{"controller", "--workers", "0"}, 2, "", "--workers must be at least 1"},
		"a wrong level":      {[]string{"controller", "--log-level", "loud"}, 2, "", "--log-level"},
		"a small factor":     {[]string{"controller", "--member-limit-factor", "0.5"}, 2, "", "--member-limit-factor must be from 1 to 100"},
		"a bound below none": {[]string{"controller", "--member-connects", "-1"}, 2, "", "--member-connects must be at least 0"},
		"a wrong number":     {[]string{"controller", "--workers", "many"}, 2, "", "invalid argument"},
		"no kubeconfig":      {[]string{"controller", "--kubeconfig", "testdata/none"}, 2, "", "no connection to a hub"},
		"controller of what": {[]string{"controller", "x"}, 2, "", "takes no argument"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run("", c.args...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.err) {
				t.Errorf("exit code %d: %s%s", code, out, errs)
			}
		})
	}
}
