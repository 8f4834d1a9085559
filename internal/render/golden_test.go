package render_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/internal/miniclustertest"
	"github.com/minifleet/minifleet/internal/render"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden compares what is rendered of ../miniclustertest/manifests/NAME.yaml with testdata/NAME/rendered.yaml,
// and with the scripts in testdata/NAME/files, which is where to read them. Manifests that would only repeat
// what others show have no such directory.
func TestGolden(t *testing.T) {
	manifests := map[string]miniclustertest.Manifest{}
	for _, m := range miniclustertest.Own() {
		manifests[m.Name] = m
	}
	directories := glob(t, "testdata/*")
	if len(directories) == 0 {
		t.Fatal("there are no golden files")
	}
	for _, directory := range directories {
		t.Run(filepath.Base(directory), func(t *testing.T) {
			m, known := manifests[filepath.Base(directory)]
			if !known {
				t.Fatal("there is no such manifest")
			}
			bundle := mustRender(t, load(t, m))
			want := readFiles(t, directory)
			got := goldenFiles(t, bundle)
			if *update {
				writeFiles(t, directory, got)
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("rendered differs; run with -update if that is right (-want +got):\n%s", diff)
			}
		})
	}
}

// goldenFiles are the objects, with the ConfigMap's files taken out of it into files of their own.
func goldenFiles(t *testing.T, bundle *render.Bundle) map[string]string {
	t.Helper()
	files := map[string]string{}
	for name, text := range bundle.ConfigMap.Data {
		files["files/"+name] = text
	}
	configMap := bundle.ConfigMap.DeepCopy()
	for name := range configMap.Data {
		configMap.Data[name] = "(see files/" + name + ")"
	}
	var out bytes.Buffer
	for _, object := range bundle.Objects() {
		if object.GetName() == configMap.Name {
			object = configMap
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	files["rendered.yaml"] = out.String()
	return files
}

// TestScriptSyntax checks the scripts with bash. TestShellcheck says more.
func TestScriptSyntax(t *testing.T) {
	var scripts []string
	for _, name := range []string{"flux-*", "load-*", "wait-*", "start-*"} {
		found, err := filepath.Glob("testdata/*/files/" + name + ".sh")
		if err != nil || len(found) == 0 {
			t.Fatalf("no scripts %s: %v", name, err)
		}
		scripts = append(scripts, found...)
	}
	for _, script := range scripts {
		if out, err := exec.Command("bash", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("bash -n %s: %v\n%s", script, err, out)
		}
	}
}

func readFiles(t *testing.T, directory string) map[string]string {
	t.Helper()
	files := map[string]string{}
	names, err := filepath.Glob(directory + "/files/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, directory+"/rendered.yaml") {
		text, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(name, directory+"/")] = string(text)
	}
	return files
}

func writeFiles(t *testing.T, directory string, files map[string]string) {
	t.Helper()
	if err := os.RemoveAll(directory + "/files"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(directory+"/files", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
