package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValidateGolden(t *testing.T) {
	for format, golden := range map[string]string{"text": "validate.golden.txt", "json": "validate.golden.json"} {
		t.Run(format, func(t *testing.T) {
			code, out, errs := run("", "validate", "-f", "testdata/validate", "-o", format)
			if code != 1 || errs != "minifleet: 9 problems and 1 warning found\n" {
				t.Errorf("exit code %d: %s", code, errs)
			}
			if strings.Contains(out, "\x1b") || strings.Contains(out, "this is a secret") {
				t.Errorf("printed what must not be shown: %q", out)
			}
			golden := filepath.Join("testdata", golden)
			if *update {
				if err := os.WriteFile(golden, []byte(out), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(read(t, golden), out); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	hello := read(t, "testdata/hello.yaml")
	warned := hello + "    logs: /tmp/out\n"
	elsewhere := strings.Replace(hello, "namespace: hpc", "namespace: lab", 1)
	cases := map[string]struct {
		stdin    string
		args     []string
		code     int
		out, err string
	}{
		"valid":                   {hello, []string{"-f", "-"}, 0, "1 file, 1 valid object, 0 other documents ignored: 0 problems, 0 warnings, 0 notes\n", ""},
		"valid, as JSON":          {hello, []string{"-f", "-", "-o", "json"}, 0, `"valid": true`, ""},
		"a warning":               {warned, []string{"-f", "-"}, 0, "-:11: warning: MiniCluster/hello: spec.containers[0].logs: ", ""},
		"a warning, strictly":     {warned, []string{"-f", "-", "--strict"}, 1, "-:11: warning: ", "0 problems and 1 warning found"},
		"strictly, as JSON":       {warned, []string{"-f", "-", "--strict", "-o", "json"}, 1, `"valid": false`, "found"},
		"a problem":               {hello + "  sise: 2\n", []string{"-f", "-"}, 1, "-:11: MiniCluster/hello: spec.sise: there is no such field", "1 problem and 0 warnings found"},
		"two namespaces":          {hello + "---\n" + elsewhere, []string{"-f", "-"}, 0, "2 valid objects", ""},
		"one namespace":           {hello + "---\n" + elsewhere, []string{"-f", "-", "-n", "hpc"}, 1, "-:16: MiniCluster/hello: metadata.namespace: ", "2 problems"},
		"twice the same":          {hello + "---\n" + hello, []string{"-f", "-"}, 1, "-:12: MiniCluster/hello: metadata.name: ", "1 problem"},
		"the same file twice":     {"", []string{"-f", "testdata/hello.yaml", "-f", "testdata/../testdata/hello.yaml"}, 0, "1 file, 1 valid object", ""},
		"a file and a folder":     {"", []string{"-f", "testdata/hello.yaml", "-f", "testdata/validate/sub"}, 1, "3 files, 2 valid objects", "9 problems"},
		"nothing there":           {"kind: Other\n", []string{"-f", "-"}, 0, "warning: there is no MiniCluster", ""},
		"nothing there, strictly": {"", []string{"-f", "-", "--strict"}, 1, "is the path right?", "found"},
		"not YAML":                {"a: [", []string{"-f", "-"}, 1, "-:1: is not valid YAML", "1 problem"},
		"what is not allowed":     {hello + "  pod: {hostPID: true}\n", []string{"-f", "-"}, 1, "-:11: MiniCluster/hello: spec.pod.hostPID: ", "1 problem"},
		"what is allowed":         {hello + "  pod: {hostPID: true}\n", []string{"-f", "-", "--allow", "HostPath,HostNamespaces"}, 0, "1 valid object", ""},
		"an annotation":           {hello + "  pod: {annotations: {example.org/a: b}}\n", []string{"-f", "-"}, 1, "which takes the permission PodAnnotations", "1 problem"},
		"an allowed annotation":   {hello + "  pod: {annotations: {example.org/a: b}}\n", []string{"-f", "-", "--allowed-pod-annotations", "example.org/*"}, 0, "1 valid object", ""},
		"a wrong annotation":      {hello, []string{"-f", "-", "--allowed-pod-annotations", "*.org"}, 2, "", "--allowed-pod-annotations"},
		"a toleration":            {hello + "  pod: {tolerations: [{operator: Exists}]}\n", []string{"-f", "-"}, 1, "spec.pod.tolerations[0]: tolerates every taint", "1 problem"},
		"an unknown permission":   {hello, []string{"-f", "-", "--allow", "HostPID"}, 2, "", "HostNamespaces"},
		"no file named":           {"", nil, 2, "", "with -f"},
		"a file not there":        {"", []string{"-f", "testdata/none.yaml"}, 2, "", "testdata/none.yaml"},
		"an unknown format":       {"", []string{"-f", "-", "-o", "yaml"}, 2, "", "neither text nor json"},
		"an argument":             {"", []string{"a.yaml"}, 2, "", "takes no argument"},
		"an unknown flag":         {"", []string{"--frob"}, 2, "", "unknown flag"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run(c.stdin, append([]string{"validate"}, c.args...)...)
			if code != c.code || !strings.Contains(out, c.out) || (errs == "") != (c.err == "") || !strings.Contains(errs, c.err) {
				t.Errorf("exit code %d: %s%s", code, out, errs)
			}
			if code == 2 && out != "" {
				t.Errorf("printed %s", out)
			}
		})
	}
}

// What a folder holds is found as in a commit: links are not followed, and Git's own files are none.
func TestValidateFolder(t *testing.T) {
	folder := t.TempDir()
	hello := read(t, "testdata/hello.yaml")
	for path, body := range map[string]string{
		"a/hello.yaml": hello, ".git/config.yaml": "a: [", "notes.txt": "a: [", "b/bad\x1b[2J.JSON": "{",
	} {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link.yaml": "a/hello.yaml", "folder": "a", "text": "notes.txt", "dangling": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	code, out, _ := run("", "validate", "-f", folder, "-o", "json")
	var got struct {
		Objects  []struct{ Name string }
		Problems []struct{ File, Message string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	var files []string
	for _, p := range got.Problems {
		files = append(files, strings.TrimPrefix(p.File, folder+"/"))
	}
	if diff := cmp.Diff([]string{"b/bad\uFFFD[2J.JSON", "folder", "link.yaml"}, files); code != 1 || diff != "" {
		t.Errorf("exit code %d, files with problems (-want +got):\n%s", code, diff)
	}
	if len(got.Objects) != 1 || got.Objects[0].Name != "hello" {
		t.Errorf("objects %+v", got.Objects)
	}

	link := filepath.Join(t.TempDir(), "named")
	if err := os.Symlink(filepath.Join(folder, "a"), link); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := run("", "validate", "-f", link); code != 0 || !strings.Contains(out, "1 valid object") {
		t.Errorf("a link to a folder, named: exit code %d: %s%s", code, out, errs)
	}
}
