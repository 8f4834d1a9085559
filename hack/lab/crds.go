package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// ApplyCRDs applies every CustomResourceDefinition in the YAML files of a directory, such as
// config/crd/bases, and waits until all are served. Other kinds and other files are skipped.
func (c *Cluster) ApplyCRDs(ctx context.Context, dir string) error {
	definitions, err := readManifests(dir, "CustomResourceDefinition")
	if err != nil {
		return err
	}
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	crds := client.Resource(crdResource)
	for _, definition := range definitions {
		options := metav1.ApplyOptions{FieldManager: "lab", Force: true}
		if _, err := crds.Apply(ctx, definition.GetName(), definition, options); err != nil {
			return fmt.Errorf("applying %s: %w", definition.GetName(), err)
		}
	}
	for _, definition := range definitions {
		err := c.poll(ctx, definition.GetName()+" to be established", func(ctx context.Context) (bool, error) {
			current, err := crds.Get(ctx, definition.GetName(), metav1.GetOptions{})
			if err != nil {
				return false, nil //nolint:nilerr // the deadline reports what does not get better
			}
			return established(current), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func established(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(item any) bool {
		condition, _ := item.(map[string]any)
		return condition["type"] == "Established" && condition["status"] == "True"
	})
}

// readManifests reads the objects of some kinds from the YAML files of a directory.
func readManifests(dir string, kinds ...string) ([]*unstructured.Unstructured, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var definitions []*unstructured.Unstructured
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := documents.Decode(&object.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			if slices.Contains(kinds, object.GetKind()) {
				definitions = append(definitions, object)
			}
		}
	}
	if len(definitions) == 0 {
		return nil, fmt.Errorf("no %s in %s", kinds[0], dir)
	}
	return definitions, nil
}
