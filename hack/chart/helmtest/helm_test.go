package helmtest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/minifleet/minifleet/hack/chart"
	"github.com/minifleet/minifleet/hack/lab"
)

// helm is one of the programs.
type helm struct {
	name, path string
	// env is its own, so that nothing of the machine's Helm counts.
	env []string
}

// helmEnv names the programs to test with, which hack/tools pins, with commas between them; empty is all.
const helmEnv = "MINIFLEET_TEST_HELM"

// helms are the programs to test with, the newest of them last.
func helms(t *testing.T) []helm {
	t.Helper()
	names := "helm3,helm4"
	if some := os.Getenv(helmEnv); some != "" {
		names = some
	}
	var out []helm
	for name := range strings.SplitSeq(names, ",") {
		paths, err := filepath.Glob(filepath.Join(root(t), "bin", name+"-v*"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("bin/%s-v… is not there: run `make helm`, which takes minutes the first time", name)
		}
		dir := t.TempDir()
		out = append(out, helm{name: name, path: paths[len(paths)-1], env: []string{
			"HOME=" + dir, "HELM_CACHE_HOME=" + dir + "/cache", "HELM_CONFIG_HOME=" + dir + "/config", "HELM_DATA_HOME=" + dir + "/data",
			"KUBECONFIG=" + dir + "/none", "PATH=" + os.Getenv("PATH"),
		}})
	}
	return out
}

// newest is the one that the rest is tested with.
func newest(t *testing.T) helm {
	t.Helper()
	all := helms(t)
	return all[len(all)-1]
}

// on returns the program with a kubeconfig.
func (h helm) on(kubeconfig string) helm {
	h.env = append(h.env[:len(h.env):len(h.env)], "KUBECONFIG="+kubeconfig)
	return h
}

// try runs it, and returns what it printed, of both streams.
func (h helm) try(args ...string) (string, error) {
	cmd := exec.Command(h.path, args...)
	cmd.Env = h.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run runs it, and returns what it printed. It has to succeed.
func (h helm) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.try(args...)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", h.name, args, err, out)
	}
	return out
}

// fails runs it, and returns what it printed. It has to fail.
func (h helm) fails(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.try(args...)
	if err == nil {
		t.Fatalf("%s %q succeeds:\n%s", h.name, args, out)
	}
	return out
}

// template renders the chart as it is committed, without the definitions, which take long to read, unless arguments say else.
func (h helm) template(t *testing.T, args ...string) map[key]object {
	t.Helper()
	out, err := h.try(append([]string{"template", "minifleet", folder(t), "--namespace", "minifleet-system", "--set", "crds.enabled=false"}, args...)...)
	if err != nil {
		t.Fatalf("%s template %q: %v\n%s", h.name, args, err, out)
	}
	return parse(t, out)
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := lab.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func folder(t *testing.T) string {
	t.Helper()
	return filepath.Join(root(t), "charts", chart.Name)
}

type object = map[string]any

// key is what an object is known by.
type key struct{ Kind, Name string }

func parse(t *testing.T, text string) map[key]object {
	t.Helper()
	out := map[key]object{}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		var o object
		err := documents.Decode(&o)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if o == nil {
			continue
		}
		out[keyOf(t, out, o)] = o
	}
}

func keyOf(t *testing.T, known map[key]object, o object) key {
	t.Helper()
	k := key{text(at(o, "kind")), text(at(o, "metadata", "name"))}
	if _, twice := known[k]; twice || k.Kind == "" || k.Name == "" {
		t.Fatalf("%v has no name, or is there twice", k)
	}
	return k
}

// at follows keys through mappings; nil if one is missing.
func at(value any, keys ...string) any {
	for _, k := range keys {
		m, ok := value.(object)
		if !ok {
			return nil
		}
		value = m[k]
	}
	return value
}

func text(value any) string {
	s, _ := value.(string)
	return s
}
