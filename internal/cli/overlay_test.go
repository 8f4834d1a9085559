package cli_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The sample of one base with two sites is what a GitSource builds.
func TestSampleOfTwoSites(t *testing.T) {
	const sites = "../../config/samples/sites/"
	code, out, errs := run("", "validate", "-f", sites+"east", "-f", sites+"west", "-o", "json", "-n", "hpc", "--strict")
	if code != 0 {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	var report struct {
		Objects []struct{ Kind, Name, File string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range report.Objects {
		got = append(got, o.Kind+"/"+o.Name+" "+strings.TrimPrefix(o.File, sites))
	}
	slices.Sort(got)
	want := []string{
		"MiniCluster/lammps-east east/kustomization.yaml", "MiniCluster/lammps-west west/kustomization.yaml",
		"Placement/members-east east/kustomization.yaml", "Placement/members-west west/kustomization.yaml",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	for site, parts := range map[string][]string{
		"east": {"name: lammps-east", "parallelism: 4", "image: ghcr.io/converged-computing/metric-lammps:latest"},
		"west": {"name: lammps-west", "parallelism: 16", "image: ghcr.io/converged-computing/metric-lammps:gpu"},
	} {
		code, out, errs := run("", "render", "-f", sites+site)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("%s is rendered without %q", site, part)
			}
		}
	}
}

func TestValidateOverlays(t *testing.T) {
	hello := read(t, "testdata/hello.yaml")
	for name, tc := range map[string]struct {
		files map[string]string
		args  []string
		code  int
		want  []string
	}{
		"a problem names the file that the object comes from": {map[string]string{
			"site/kustomization.yaml": "resources: [../base]\n", "base/kustomization.yaml": "resources: [hello.yaml]\n", "base/hello.yaml": hello + "  sise: 2\n",
		}, []string{"site"}, 1, []string{"site/kustomization.yaml: MiniCluster/hello: spec.sise: there is no such field", "(it comes from ", "base/hello.yaml)"}},
		"a remote base": {map[string]string{"site/kustomization.yaml": "resources:\n- https://example.org/base\n"}, []string{"site"}, 1, []string{
			"site/kustomization.yaml:2: resources[0]: \"https://example.org/base\" is remote"}},
		"outside of the repository": {map[string]string{"site/kustomization.yaml": "resources:\n- ../../base\n"}, []string{"site"}, 1, []string{"lies outside of the repository"}},
		"what kustomize says":       {map[string]string{"site/kustomization.yaml": "resource: []\n"}, []string{"site"}, 1, []string{"site/kustomization.yaml: cannot be built: invalid Kustomization", `unknown field "resource"`}},
		"a folder below": {map[string]string{"x/site/kustomization.yaml": "resources: [a.yaml]\n", "x/site/a.yaml": hello, "x/b/Kustomization": ""}, []string{"x"}, 0, []string{
			`warning: folder "`, `x/site" holds a kustomization and is not built`, `x/b" holds a kustomization`, "1 valid object", "2 warnings"}},
		"a generator": {map[string]string{"site/kustomization.yaml": "resources: [a.yaml]\nconfigMapGenerator: [{name: c, literals: [a=b]}]\n", "site/a.yaml": hello}, []string{"site"}, 0, []string{
			"warning: generates ConfigMap c-", "1 other document ignored"}},
		"a link": {map[string]string{"site/kustomization.yaml": "resources: [../link.yaml]\n"}, []string{"site"}, 1, []string{`"link.yaml" is a symbolic link`}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := repositoryOf(t, tc.files)
			if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link.yaml")); err != nil {
				t.Fatal(err)
			}
			args := []string{"validate"}
			for _, folder := range tc.args {
				args = append(args, "-f", filepath.Join(dir, folder))
			}
			code, out, errs := run("", args...)
			if code != tc.code {
				t.Errorf("exit code %d: %s", code, errs)
			}
			for _, part := range tc.want {
				if !strings.Contains(strings.ReplaceAll(out, dir+"/", ""), part) {
					t.Errorf("there is no %q in:\n%s", part, out)
				}
			}
		})
	}
}

func TestRenderFolders(t *testing.T) {
	dir := repositoryOf(t, map[string]string{"plain/a.yaml": read(t, "testdata/hello.yaml")})
	if code, _, errs := run("", "render", "-f", filepath.Join(dir, "plain")); code != 2 || !strings.Contains(errs, "is a folder without a kustomization") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// repositoryOf makes a folder that counts as a Git repository.
func repositoryOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files = maps.Clone(files)
	files[".git/HEAD"] = ""
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
