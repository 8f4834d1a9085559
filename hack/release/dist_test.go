package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const testDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// A release of the last commit, for this machine's platform, is made in two clones. All bytes are the same, and the program
// is one that krew installs as a plugin of kubectl.
func TestDist(t *testing.T) {
	kustomize, sbom := os.Getenv("MINIFLEET_TEST_KUSTOMIZE"), os.Getenv("MINIFLEET_TEST_SBOM")
	if kustomize == "" || sbom == "" {
		t.Skip("NOT TESTED, a release: its tools are built by `make test-dist`")
	}
	const version = "v1.2.3"
	var outs []string
	for _, name := range []string{"first", "second-and-longer"} {
		root := filepath.Join(t.TempDir(), name)
		command(t, nil, "git", "clone", "-q", "--shared", filepath.Join("..", ".."), root)
		layout := filepath.Join(root, "layout")
		writeFile(t, filepath.Join(layout, "index.json"), `{"manifests": [{"digest": "`+testDigest+`"}]}`)
		writeFile(t, filepath.Join(layout, "oci-layout"), `{"imageLayoutVersion": "1.0.0"}`)
		out := filepath.Join(t.TempDir(), "dist-"+name)
		writeFile(t, filepath.Join(out, "minifleet-1.2.3.tgz"), "a chart")
		// The page is not built here, and the layout is in no commit: neither may make the tree dirty.
		writeFile(t, filepath.Join(root, ".git", "info", "exclude"), "/layout/\n")
		err := dist(distOptions{
			Root: root, Out: out, Version: version, Image: "registry.example.org/minifleet", ImageLayout: layout,
			URL: "https://example.org/releases", Platforms: []string{runtime.GOOS + "/" + runtime.GOARCH}, Kustomize: kustomize, SBOM: sbom,
			Include: []string{filepath.Join(out, "minifleet-1.2.3.tgz")}, Progress: func(step string) { t.Log(step) },
		})
		if err != nil {
			t.Fatal(err)
		}
		outs = append(outs, out)
	}
	program := "minifleet_" + version + "_" + runtime.GOOS + "_" + runtime.GOARCH
	want := []string{
		"SHA256SUMS", "crds.yaml", "install.yaml", "minifleet-1.2.3.tgz", "minifleet.yaml",
		program + ".cdx.json", program + ".tar.gz", "minifleet_" + version + "_image.tar",
	}
	slices.Sort(want)
	first, second := sums(t, outs[0]), sums(t, outs[1])
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(first))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the two releases differ:\n%s", diff)
	}
	checkSums(t, outs[0], first)
	checkInstall(t, outs[0], "registry.example.org/minifleet:"+version+"@"+testDigest)
	checkSBOM(t, filepath.Join(outs[0], program+".cdx.json"), version)
	checkPlugin(t, outs[0], program+".tar.gz", version)
}

// sums are the checksums of all files in a directory, by name.
func sums(t *testing.T, directory string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		if out[e.Name()], err = checksum(filepath.Join(directory, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// checkSums compares what SHA256SUMS says with what is there.
func checkSums(t *testing.T, directory string, files map[string]string) {
	t.Helper()
	want := maps.Clone(files)
	delete(want, checksumsFile)
	got := map[string]string{}
	for line := range strings.Lines(read(t, filepath.Join(directory, checksumsFile))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		got[name] = sum
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", checksumsFile, diff)
	}
}

// checkInstall looks for the image, and for the CRDs of crds.yaml, in install.yaml.
func checkInstall(t *testing.T, directory, image string) {
	t.Helper()
	install := read(t, filepath.Join(directory, "install.yaml"))
	if strings.Count(install, "image: "+image+"\n") != 1 || strings.Contains(install, "minifleet:dev") {
		t.Errorf("install.yaml does not run %s", image)
	}
	for document := range strings.SplitSeq(read(t, filepath.Join(directory, "crds.yaml")), "\n---\n") {
		var crd struct{ Metadata struct{ Name string } }
		if err := yaml.Unmarshal([]byte(document), &crd); err != nil || crd.Metadata.Name == "" {
			t.Fatalf("crds.yaml: %v", err)
		}
		if !strings.Contains(install, "name: "+crd.Metadata.Name+"\n") {
			t.Errorf("install.yaml does not have %s", crd.Metadata.Name)
		}
	}
}

// checkSBOM looks for the program and a module that it cannot do without.
func checkSBOM(t *testing.T, path, version string) {
	t.Helper()
	var bom struct {
		BOMFormat, SerialNumber string
		Metadata                struct {
			Timestamp string
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	text := read(t, path)
	if err := json.Unmarshal([]byte(text), &bom); err != nil {
		t.Fatal(err)
	}
	if bom.BOMFormat != "CycloneDX" || bom.SerialNumber != "" || bom.Metadata.Timestamp != "" {
		t.Errorf("format %q, serial number %q, time %q", bom.BOMFormat, bom.SerialNumber, bom.Metadata.Timestamp)
	}
	if bom.Metadata.Component.Name != "github.com/minifleet/minifleet" || bom.Metadata.Component.Version != version {
		t.Errorf("it is of %+v", bom.Metadata.Component)
	}
	found := slices.ContainsFunc(bom.Components, func(c struct{ Name, Version string }) bool {
		return c.Name == "sigs.k8s.io/controller-runtime" && strings.HasPrefix(c.Version, "v")
	})
	if !found {
		t.Errorf("controller-runtime is not among its %d components", len(bom.Components))
	}
}

// checkPlugin has krew validate the manifest, install the plugin from the archive, and runs it.
func checkPlugin(t *testing.T, directory, archive, version string) {
	t.Helper()
	manifest := filepath.Join(directory, "minifleet.yaml")
	validate(t, manifest)
	home := t.TempDir()
	environment := []string{"KREW_ROOT=" + home, "KREW_NO_UPGRADE_CHECK=1"}
	goTool(t, environment, "krew", "install", "--manifest="+manifest, "--archive="+filepath.Join(directory, archive))
	plugin := filepath.Join(home, "bin", "kubectl-minifleet")
	var info struct {
		Version, Commit string
		Dirty           bool
	}
	out := command(t, nil, plugin, "version", "-o", "json")
	if err := json.Unmarshal([]byte(out), &info); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	head := strings.TrimSpace(command(t, nil, "git", "rev-parse", "HEAD"))
	if info.Version != version || info.Commit != head || info.Dirty {
		t.Errorf("the plugin is %+v, want %s of commit %s", info, version, head)
	}
	if help := command(t, nil, plugin, "get", "--help"); !strings.Contains(help, "kubectl minifleet get") {
		t.Errorf("the plugin does not know its name:\n%s", help)
	}
}

func validate(t *testing.T, manifest string) {
	t.Helper()
	goTool(t, nil, "validate-krew-manifest", "-skip-install", "-manifest", manifest)
}

// The manifest of all platforms is as krew wants it.
func TestKrewManifest(t *testing.T) {
	var archives []pluginArchive
	for _, platform := range [][2]string{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}} {
		archives = append(archives, pluginArchive{
			OS: platform[0], Arch: platform[1], SHA256: strings.TrimPrefix(testDigest, "sha256:"),
			URI: "https://example.org/minifleet_v1.2.3_" + platform[0] + "_" + platform[1] + ".tar.gz",
		})
	}
	manifest, err := krewYAML("v1.2.3", archives)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "minifleet.yaml")
	writeFile(t, path, string(manifest))
	validate(t, path)
}

// A release removes the files of the one that was made in the same folder before it, and no others.
func TestRemovePrevious(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"old.tar.gz", "chart.tgz", "mine.txt"} {
		writeFile(t, filepath.Join(folder, name), name)
	}
	if err := writeChecksums(folder, []string{"old.tar.gz", "chart.tgz"}); err != nil {
		t.Fatal(err)
	}
	if err := removePrevious(folder, []string{"chart.tgz"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"SHA256SUMS", "chart.tgz", "mine.txt"}, slices.Sorted(maps.Keys(sums(t, folder)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	writeFile(t, filepath.Join(folder, checksumsFile), "0  ../mine.txt\n")
	if err := removePrevious(folder, nil); err == nil {
		t.Error("a file outside the directory was accepted")
	}
}

func TestWithImage(t *testing.T) {
	cases := map[string]struct{ manifests, want string }{
		"once":     {"a:\n  image: minifleet:dev\nb:\n", "a:\n  image: x:v1\nb:\n"},
		"twice":    {"image: minifleet:dev\nimage: minifleet:dev\n", ""},
		"never":    {"image: other\n", ""},
		"a prefix": {"image: minifleet:devel\n", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := withImage([]byte(c.manifests), "x:v1")
			if string(got) != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func goTool(t *testing.T, environment []string, args ...string) {
	t.Helper()
	flags := strings.TrimSpace(os.Getenv("GOFLAGS") + " -trimpath")
	command(t, append(environment, "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="+flags), "go", append([]string{"tool"}, args...)...)
}

func command(t *testing.T, environment []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
