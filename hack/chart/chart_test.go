package chart_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/hack/chart"
)

// config is that of this repository, with changes: a file that is empty is removed.
func config(t *testing.T, changes map[string]string) map[string][]byte {
	t.Helper()
	files, err := chart.ReadFolder(filepath.Join("..", "..", "config"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range changes {
		files[name] = []byte(text)
	}
	return files
}

func edit(t *testing.T, name, before, after string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "config", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), before) {
		t.Fatalf("%s has no %q", name, before)
	}
	return strings.Replace(string(data), before, after, 1)
}

// Of each of these the generator knows nothing.
func TestWhatIsNewInConfigIsInTheChart(t *testing.T) {
	before, err := chart.Make(config(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	resource := func(name string) string {
		return edit(t, "manager/kustomization.yaml", "resources:\n", "resources:\n  - "+name+"\n")
	}
	for name, c := range map[string]struct {
		changes map[string]string
		// added are files, and what each has.
		added map[string]string
	}{
		"a rule": {
			map[string]string{"rbac/role.yaml": edit(t, "rbac/role.yaml", "  - servicecidrs\n", "  - servicecidrs\n  - gadgets\n")},
			map[string]string{"templates/clusterrole-controller-manager.yaml": "      - gadgets\n"},
		},
		"an object of a new kind": {
			map[string]string{
				"manager/kustomization.yaml": resource("new.yaml"),
				"manager/new.yaml":           "apiVersion: example.org/v1\nkind: Gadget\nmetadata: {name: fine, namespace: system}\nspec: {text: 'as {{ it }} is in minifleet-system'}\n",
			},
			map[string]string{"templates/gadget-fine.yaml": "spec:\n  text: as {{ \"{{\" }} it }} is in {{ .Release.Namespace }}\n"},
		},
		"a definition": {
			map[string]string{
				"manager/kustomization.yaml": resource("new.yaml"),
				"manager/new.yaml":           "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gadgets.minifleet.dev}\nspec: {group: minifleet.dev}\n",
			},
			map[string]string{"templates/crds/gadgets.minifleet.dev.yaml": "{{- if .Values.crds.enabled }}\n", "README.md": "- `gadgets.minifleet.dev`\n"},
		},
		"a flag": {
			map[string]string{"manager/deployment.yaml": edit(t, "manager/deployment.yaml", "            - --metrics-secure\n", "            - --metrics-secure\n            - --new\n")},
			map[string]string{"templates/deployment-controller-manager.yaml": "            - --new\n"},
		},
		"a flag of the dashboard": {
			map[string]string{"dashboard/args.yaml": edit(t, "dashboard/args.yaml", "--dashboard-bind-address=:8443", "--dashboard-bind-address=:9443")},
			map[string]string{"templates/deployment-controller-manager.yaml": "            {{- if .Values.dashboard.enabled }}\n            - --dashboard-bind-address=:9443\n"},
		},
		"a limit": {
			map[string]string{"manager/deployment.yaml": edit(t, "manager/deployment.yaml", "memory: 1Gi", "memory: 2Gi")},
			map[string]string{"values.yaml": "    memory: 2Gi\n", "templates/_helpers.tpl": "800) 2048)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			after, err := chart.Make(config(t, c.changes))
			if err != nil {
				t.Fatal(err)
			}
			for file, want := range c.added {
				if !bytes.Contains(after[file], []byte(want)) || bytes.Contains(before[file], []byte(want)) {
					t.Errorf("%s does not have %q, or had it before:\n%s", file, want, after[file])
				}
			}
		})
	}
}

func TestWhatHasNoPlaceIsRefused(t *testing.T) {
	object := func(text string) map[string]string {
		return map[string]string{
			"manager/kustomization.yaml": edit(t, "manager/kustomization.yaml", "resources:\n", "resources:\n  - new.yaml\n"),
			"manager/new.yaml":           text,
		}
	}
	component := "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
	for name, c := range map[string]struct {
		changes map[string]string
		want    string
	}{
		"a component without a switch": {map[string]string{"gadgets/kustomization.yaml": component}, "config/gadgets is a Component that the chart has no switch for"},
		"another way of installing": {
			map[string]string{"with-gadgets/kustomization.yaml": edit(t, "default/kustomization.yaml", "resources:\n", "resources:\n  - ../samples\n")},
			"config/with-gadgets is not config/default with the components network-policy",
		},
		"another workload": {object("apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent, namespace: system}\n"), "DaemonSet minifleet-agent is new, and the values"},
		"a second container": {
			map[string]string{"manager/deployment.yaml": edit(t, "manager/deployment.yaml", "              drop: [ALL]\n", "              drop: [ALL]\n        - name: proxy\n          image: proxy:1\n")},
			"there is not exactly one container",
		},
		"what a value is for": {
			map[string]string{"manager/deployment.yaml": edit(t, "manager/deployment.yaml", "      containers:\n", "      nodeSelector: {a: b}\n      containers:\n")},
			"nodeSelector is set, which .Values.nodeSelector is for",
		},
		"what a value was for": {
			map[string]string{"manager/deployment.yaml": edit(t, "manager/deployment.yaml", "GOMEMLIMIT", "GOGC")},
			"GOMEMLIMIT",
		},
		"a component that changes what all have": {
			map[string]string{"dashboard/deployment.yaml": edit(t, "dashboard/deployment.yaml", "spec:\n  template:", "spec:\n  replicas: 3\n  template:")},
			"component dashboard changes .spec.replicas from 1 to 3",
		},
		"a label of Helm's": {object("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: system, labels: {app.kubernetes.io/version: x}}\n"), "it has label app.kubernetes.io/version"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := chart.Make(config(t, c.changes)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestGenerateRemovesWhatIsNoMore(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "templates", "crds", "stale.yaml")
	if err := os.MkdirAll(filepath.Dir(stale), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := chart.Generate(filepath.Join("..", "..", "config"), dir); err != nil {
		t.Fatal(err)
	}
	want, err := chart.Make(config(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	have, err := chart.ReadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(have))); diff != "" {
		t.Error(diff)
	}
}

func TestSemVer(t *testing.T) {
	for version, want := range map[string]string{
		"v0.1.0":                   "0.1.0",
		"1.2.3":                    "1.2.3",
		"v1.2.3-rc.1":              "1.2.3-rc.1",
		"v0.1.0-dirty":             "0.1.0-dirty",
		"v0.1.0-12-gabcdef0":       "0.1.1-dev.12.gabcdef0",
		"v0.1.0-12-gabcdef0-dirty": "0.1.1-dev.12.gabcdef0.dirty",
		"v1.2.3-rc.1-4-g0123456":   "1.2.3-rc.1.dev.4.g0123456",
		"0123456":                  "0.0.0-dev.0.g0123456",
		"f69e160d-dirty":           "0.0.0-dev.0.gf69e160d.dirty",
		"":                         "",
		"latest":                   "",
		"v1.2":                     "",
		"v01.2.3":                  "",
	} {
		have, err := chart.SemVer(version)
		if have != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v, want %q", version, have, err, want)
		}
	}
}

func TestPackageHasTheSameBytes(t *testing.T) {
	folder := filepath.Join("..", "..", "charts", chart.Name)
	var all [][]byte
	for range 2 {
		path, err := chart.Package(folder, "v1.2.3", "", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(path) != "minifleet-1.2.3.tgz" {
			t.Error(path)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	if !bytes.Equal(all[0], all[1]) {
		t.Error("they differ")
	}
	if _, err := chart.Package(folder, "latest", "", t.TempDir()); err == nil {
		t.Error("a version that is none is taken")
	}
}

func TestPackageNamesTheImage(t *testing.T) {
	folder := filepath.Join("..", "..", "charts", chart.Name)
	path, err := chart.Package(folder, "v1.2.3", "registry.example.org:5000/minifleet:v1.2.3@sha256:abc", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	values := packaged(t, path, "minifleet/values.yaml")
	for _, want := range []string{"repository: registry.example.org:5000/minifleet\n", "digest: \"sha256:abc\"\n"} {
		if !strings.Contains(values, want) {
			t.Errorf("values.yaml has no %q", want)
		}
	}
}

// packaged is a file of a package.
func packaged(t *testing.T, path, name string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if header.Name == name {
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			return string(content)
		}
	}
}
