package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	packageName = "minifleet"
	channel     = "candidate"
	dockerfile  = "bundle.Dockerfile"
	generated   = "# Made by `make generate` from config. Do not edit.\n"
)

// Options of Generate. Empty ones are what config/olm/csv.yaml and config/manager say.
type Options struct {
	// Root is the repository.
	Root string
	// Image is the controller's.
	Image string
	// Version has no leading v.
	Version string
	// Replaces is the name of the CSV before this one.
	Replaces string
}

// Generate makes the bundle: its files, and bundle.Dockerfile, by their paths in the repository.
func Generate(o Options) (map[string][]byte, error) {
	installed, err := build(o.Root, "config/default")
	if err != nil {
		return nil, err
	}
	samples, err := examples(o.Root)
	if err != nil {
		return nil, err
	}
	in, err := readInputs(o.Root)
	if err != nil {
		return nil, err
	}
	parts, err := split(installed)
	if err != nil {
		return nil, err
	}
	csv, err := newCSV(in, parts, samples, o)
	if err != nil {
		return nil, err
	}
	objects := append([]*unstructured.Unstructured{csv}, slices.Concat(parts.definitions, parts.others)...)
	files, err := manifestFiles(objects)
	if err != nil {
		return nil, err
	}
	if files["bundle/tests/scorecard/config.yaml"], err = normalized(in.scorecard); err != nil {
		return nil, err
	}
	files["bundle/metadata/annotations.yaml"], err = toYAML(map[string]any{"annotations": annotations})
	if err != nil {
		return nil, err
	}
	files[dockerfile], err = newDockerfile()
	return files, err
}

// examples are the samples, and that of a MemberCluster, which is not among those that are applied together.
func examples(root string) ([]*unstructured.Unstructured, error) {
	out, err := build(root, "config/samples")
	if err != nil {
		return nil, err
	}
	const name = "config/samples/membercluster.yaml"
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	member := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(content, &member.Object); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return append(out, member), nil
}

// inputs are what is read beside config/default.
type inputs struct {
	base                                            *unstructured.Unstructured
	description, icon, scorecard, capabilitiesTable []byte
}

func readInputs(root string) (*inputs, error) {
	in := &inputs{base: &unstructured.Unstructured{}}
	var csv []byte
	for name, into := range map[string]*[]byte{
		"config/olm/csv.yaml": &csv, "config/olm/description.md": &in.description, "config/olm/scorecard.yaml": &in.scorecard,
		"dashboard/web/public/icon.svg": &in.icon, "docs/operations.md": &in.capabilitiesTable,
	} {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		*into = content
	}
	if err := yaml.UnmarshalStrict(csv, &in.base.Object); err != nil {
		return nil, fmt.Errorf("config/olm/csv.yaml: %w", err)
	}
	return in, nil
}

// build is what kustomize makes of a directory of the repository.
func build(root, dir string) ([]*unstructured.Unstructured, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, filepath.FromSlash(dir)))
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, r := range resources.Resources() {
		object, err := r.Map()
		if err != nil {
			return nil, err
		}
		// As from a file: numbers become those of JSON.
		text, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(text); err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	return out, nil
}

// manifestFiles are the manifests of the bundle, an object a file, named as operator-sdk does.
func manifestFiles(objects []*unstructured.Unstructured) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, object := range objects {
		name := "bundle/manifests/" + fileName(object)
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("two objects are called %s", name)
		}
		content, err := toYAML(object.Object)
		if err != nil {
			return nil, err
		}
		out[name] = content
	}
	return out, nil
}

func fileName(object *unstructured.Unstructured) string {
	switch gvk := object.GroupVersionKind(); gvk.Kind {
	case "ClusterServiceVersion":
		return packageName + ".clusterserviceversion.yaml"
	case "CustomResourceDefinition":
		plural, group, _ := strings.Cut(object.GetName(), ".")
		return group + "_" + plural + ".yaml"
	default:
		parts := []string{object.GetName(), gvk.Group, gvk.Version, strings.ToLower(gvk.Kind)}
		return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "_") + ".yaml"
	}
}

// annotations of the bundle, which are the labels of its image as well.
var annotations = map[string]string{
	"operators.operatorframework.io.bundle.mediatype.v1":       "registry+v1",
	"operators.operatorframework.io.bundle.manifests.v1":       "manifests/",
	"operators.operatorframework.io.bundle.metadata.v1":        "metadata/",
	"operators.operatorframework.io.bundle.package.v1":         packageName,
	"operators.operatorframework.io.bundle.channels.v1":        channel,
	"operators.operatorframework.io.bundle.channel.default.v1": channel,
	"operators.operatorframework.io.test.mediatype.v1":         "scorecard+v1",
	"operators.operatorframework.io.test.config.v1":            "tests/scorecard/",
}

var dockerfileText = template.Must(template.New(dockerfile).Parse(`# The image of the bundle: docker build -f bundle.Dockerfile -t REGISTRY/minifleet-bundle:TAG .
FROM scratch
{{range .}}
LABEL {{.}}
{{- end}}

COPY bundle/manifests /manifests/
COPY bundle/metadata /metadata/
COPY bundle/tests/scorecard /tests/scorecard/
`))

func newDockerfile() ([]byte, error) {
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		labels = append(labels, key+"="+annotations[key])
	}
	var out bytes.Buffer
	out.WriteString(generated)
	err := dockerfileText.Execute(&out, labels)
	return out.Bytes(), err
}

func toYAML(value any) ([]byte, error) {
	content, err := yaml.Marshal(value)
	return append([]byte(generated), content...), err
}

// normalized is YAML without anchors and comments.
func normalized(content []byte) ([]byte, error) {
	var value any
	if err := yaml.Unmarshal(content, &value); err != nil {
		return nil, err
	}
	return toYAML(value)
}

func encoded(content []byte) string { return base64.StdEncoding.EncodeToString(content) }
