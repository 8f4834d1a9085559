package main

import (
	"fmt"
	"io/fs"
	"slices"

	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// manifestNames returns the names of the MiniClusters that are pushed, in order. Each has a file of its own.
func manifestNames() ([]string, error) {
	paths, err := fs.Glob(manifests, "fleet/*.yaml")
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(paths))
	for _, path := range paths {
		data, err := manifests.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(data, &object); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		names = append(names, object.Name)
	}
	slices.Sort(names)
	return names, nil
}
