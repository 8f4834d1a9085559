// Package variants builds what config installs, with and without each of its optional parts. In comes the folder config as
// a file system, out come Kubernetes objects as kustomize prints them.
package variants

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// kustomizationFile is the one name that config uses of those that kustomize knows.
const kustomizationFile = "kustomization.yaml"

// scratch is a folder of the copy of config in which a combination of components is built.
const scratch = "/config/combination"

// Object is a Kubernetes object.
type Object = map[string]any

// Config is the folder config of a version of MiniFleet.
type Config struct {
	fs       filesys.FileSystem
	standard types.Kustomization
	// Components are the optional parts of it that exist, in the order in which they are applied.
	Components []string
	// Namespace is where config/default installs.
	Namespace string
}

// Read reads config from files, by their paths below it. Components are those that the caller knows, in the order in which
// they are applied; some need not exist. What exists and is not among them is an error.
func Read(files map[string][]byte, components []string) (*Config, error) {
	c := &Config{fs: filesys.MakeFsInMemory()}
	for name, data := range files {
		if err := c.fs.WriteFile(path.Join("/config", name), data); err != nil {
			return nil, err
		}
	}
	var err error
	if c.standard, err = c.kustomization("default"); err != nil {
		return nil, err
	}
	c.Namespace = c.standard.Namespace
	for _, component := range components {
		if c.fs.Exists(path.Join("/config", component, kustomizationFile)) {
			c.Components = append(c.Components, component)
		}
	}
	return c, c.check(files)
}

func (c *Config) kustomization(folder string) (types.Kustomization, error) {
	var k types.Kustomization
	data, err := c.fs.ReadFile(path.Join("/config", folder, kustomizationFile))
	if err != nil {
		return k, fmt.Errorf("config/%s: %w", folder, err)
	}
	if err := yaml.UnmarshalStrict(data, &k); err != nil {
		return k, fmt.Errorf("config/%s/%s: %w", folder, kustomizationFile, err)
	}
	return k, nil
}

// check refuses folders that the chart would do without: Components that nobody switches on, and ways of installing that are
// not config/default and such Components.
func (c *Config) check(files map[string][]byte) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		folder, file := path.Split(name)
		if folder = path.Clean(folder); file != kustomizationFile {
			continue
		}
		k, err := c.kustomization(folder)
		switch {
		case err != nil:
			errs = append(errs, err)
		case k.Kind == types.ComponentKind && !slices.Contains(c.Components, folder):
			errs = append(errs, fmt.Errorf("config/%s is a Component that the chart has no switch for: add it to Switches in hack/chart/templates/switches.go", folder))
		case strings.HasPrefix(folder, "with-"):
			errs = append(errs, c.checkOverlay(folder, k))
		}
	}
	for _, name := range c.standard.Components {
		if folder := path.Base(name); !slices.Contains(c.Components, folder) {
			errs = append(errs, fmt.Errorf("config/default has the component %s, which the chart has no switch for: add it to Switches in hack/chart/templates/switches.go", folder))
		}
	}
	return errors.Join(errs...)
}

// checkOverlay refuses a way of installing that has what no combination of the components gives.
func (c *Config) checkOverlay(folder string, k types.Kustomization) error {
	want, err := c.build(c.standard, names(k.Components))
	if err != nil {
		return err
	}
	have, err := c.run(path.Join("/config", folder))
	if err != nil {
		return err
	}
	if !slices.EqualFunc(want, have, equal) {
		return fmt.Errorf("config/%s is not config/default with the components %s: the chart cannot give it", folder, strings.Join(names(k.Components), ", "))
	}
	return nil
}

func equal(a, b Object) bool {
	x, _ := yaml.Marshal(a)
	y, _ := yaml.Marshal(b)
	return string(x) == string(y)
}

func names(components []string) []string {
	out := make([]string, len(components))
	for i, c := range components {
		out[i] = path.Base(c)
	}
	return out
}

// Default are the components that config/default has.
func (c *Config) Default() []string { return names(c.standard.Components) }

// Build returns the objects of config/default with these components and no others.
func (c *Config) Build(components ...string) ([]Object, error) {
	return c.build(c.standard, components)
}

func (c *Config) build(k types.Kustomization, components []string) ([]Object, error) {
	var alone []Object
	k.Components = nil
	k.Resources = slices.Clone(k.Resources)
	for _, component := range c.Components {
		if !slices.Contains(components, component) {
			continue
		}
		own, err := c.kustomization(component)
		switch {
		case err != nil:
			return nil, err
		case own.Kind == types.ComponentKind:
			k.Components = append(k.Components, "../"+component)
		case own.Namespace == "" && own.NamePrefix == "":
			k.Resources = append(k.Resources, "../"+component)
		default: // complete by itself
			objects, err := c.run(path.Join("/config", component))
			if err != nil {
				return nil, err
			}
			alone = append(alone, objects...)
		}
	}
	data, err := yaml.Marshal(k)
	if err != nil {
		return nil, err
	}
	if err := c.fs.WriteFile(path.Join(scratch, kustomizationFile), data); err != nil {
		return nil, err
	}
	objects, err := c.run(scratch)
	return append(objects, alone...), err
}

func (c *Config) run(folder string) ([]Object, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(c.fs, folder)
	if err != nil {
		return nil, fmt.Errorf("building %s: %w", strings.TrimPrefix(folder, "/"), err)
	}
	var out []Object
	for _, r := range resources.Resources() {
		object, err := r.Map()
		if err != nil {
			return nil, err
		}
		out = append(out, object)
	}
	return out, nil
}
