// Package miniclustertest holds MiniCluster manifests for tests: our own, which together set every field of
// the spec, and, where they are beside this repository, the examples of the Flux Operator.
package miniclustertest

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
)

// Manifest is a file that declares one MiniCluster.
type Manifest struct {
	// Name is that of the manifest among its kind. The MiniCluster has a name of its own: no two of our
	// own have the same one, and all examples of the Flux Operator do.
	Name string
	// Path is where the file is: of our own from this package's directory, of others absolute.
	Path string
	// Text is the YAML.
	Text []byte
}

// MiniCluster decodes the manifest, without what is unknown to this version of the API and without defaults.
func (m Manifest) MiniCluster() (fluxv1alpha2.MiniCluster, error) {
	var decoded fluxv1alpha2.MiniCluster
	if err := yaml.Unmarshal(m.Text, &decoded); err != nil {
		return decoded, fmt.Errorf("%s: %w", m.Path, err)
	}
	return decoded, nil
}

//go:embed manifests/*.yaml
var files embed.FS

// Own are the manifests of this repository, by name.
func Own() []Manifest {
	entries, err := files.ReadDir("manifests")
	if err != nil {
		panic(err) // they are in the program
	}
	var own []Manifest
	for _, entry := range entries {
		path := "manifests/" + entry.Name()
		text, err := files.ReadFile(path)
		if err != nil {
			panic(err)
		}
		own = append(own, Manifest{Name: strings.TrimSuffix(entry.Name(), ".yaml"), Path: path, Text: text})
	}
	return own
}

// Shared are examples of the Flux Operator, by name, each with the Job that it makes of it in job.json beside
// the manifest. They are data of others and no part of this repository: the error says where they would be.
func Shared() ([]Manifest, error) {
	root, err := repositoryRoot()
	if err != nil {
		return nil, err
	}
	corpus := filepath.Join(filepath.Dir(root), "shared", "corpus")
	examples := os.DirFS(corpus)
	paths, err := fs.Glob(examples, "*/minicluster.yaml")
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("there are no examples of the Flux Operator at %s", corpus)
	}
	var shared []Manifest
	for _, path := range paths {
		text, err := fs.ReadFile(examples, path)
		if err != nil {
			return nil, err
		}
		shared = append(shared, Manifest{Name: filepath.Dir(path), Path: filepath.Join(corpus, path), Text: text})
	}
	return shared, nil
}

// repositoryRoot is the nearest directory with a go.mod, from the working directory upward, which for tests
// is that of their package.
func repositoryRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod in %s or above it", start)
		}
	}
}
