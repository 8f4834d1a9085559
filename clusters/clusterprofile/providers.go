// Package clusterprofile finds out how to reach a member from a ClusterProfile of SIG Multicluster (KEP-4322, KEP-5339). The
// administrator's file of providers and a ClusterProfile come in, a clusters.Access comes out (pure).
//
//	providers.go  the file: which programs may be run, and what a ClusterProfile may add to their arguments and variables
//	resolve.go    a ClusterProfile -> the first provider of the file that it names, with what it says of the cluster
//
// The file has the format of sigs.k8s.io/cluster-inventory-api. Its Go package is not used, because it lets one cluster's
// arguments and variables reach the next one, and because a ClusterProfile can make it panic; hack/clusterprofile shows both.
package clusterprofile

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/clusters/credentialplugin"
)

// Policies for what a ClusterProfile says. An empty one is Ignore.
const (
	policyIgnore            = "Ignore"
	policyAppend            = "Append"
	policyAppendIfNotExists = "AppendIfNotExists"
	policyReplace           = "Replace"
)

// Providers are the credential plugins that the administrator of the hub allows, in the order in which they are preferred.
type Providers struct{ providers []provider }

type providersFile struct {
	Providers []provider `json:"providers"`
}

// provider is one entry of the file.
type provider struct {
	Name       string      `json:"name"`
	ExecConfig *execConfig `json:"execConfig"`
	// ArgsPolicy is Ignore or Append, EnvPolicy Ignore, AppendIfNotExists or Replace.
	ArgsPolicy string `json:"profileSourcedCLIArgsPolicy,omitempty"`
	EnvPolicy  string `json:"profileSourcedEnvVarsPolicy,omitempty"`
}

type execConfig struct {
	APIVersion         string   `json:"apiVersion"`
	Command            string   `json:"command"`
	Args               []string `json:"args"`
	Env                []envVar `json:"env"`
	InstallHint        string   `json:"installHint,omitempty"`
	ProvideClusterInfo bool     `json:"provideClusterInfo"`
	InteractiveMode    string   `json:"interactiveMode,omitempty"`
}

type envVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Parse reads the file of providers, JSON or YAML. The error names each entry and field that is wrong.
func Parse(data []byte) (*Providers, error) {
	var f providersFile
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		return nil, fmt.Errorf("is no list of providers: %w", err)
	}
	if len(f.Providers) == 0 {
		return nil, errors.New("has no providers: name at least one, with its name and its execConfig")
	}
	var errs []error
	for i := range f.Providers {
		p := &f.Providers[i]
		if err := p.check(); err != nil {
			errs = append(errs, fmt.Errorf("providers[%d] %q: %w", i, p.Name, err))
		}
		if slices.ContainsFunc(f.Providers[:i], func(before provider) bool { return before.Name == p.Name }) {
			errs = append(errs, fmt.Errorf("providers[%d]: the name %q is there twice: ClusterProfiles name providers by it", i, p.Name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Providers{f.Providers}, nil
}

// Names are those of the providers.
func (p *Providers) Names() []string {
	var out []string
	for i := range p.providers {
		out = append(out, p.providers[i].Name)
	}
	return out
}

func (p *provider) check() error {
	if p.Name == "" {
		return errors.New("name is empty")
	}
	if p.ExecConfig == nil {
		return errors.New("execConfig is missing: it says which program to run")
	}
	return errors.Join(
		p.ExecConfig.check(),
		oneOf("profileSourcedCLIArgsPolicy", p.ArgsPolicy, "", policyIgnore, policyAppend),
		oneOf("profileSourcedEnvVarsPolicy", p.EnvPolicy, "", policyIgnore, policyAppendIfNotExists, policyReplace),
	)
}

func (c *execConfig) check() error {
	errs := []error{
		oneOf("execConfig.apiVersion", c.APIVersion, credentialplugin.Versions...),
		oneOf("execConfig.interactiveMode", c.InteractiveMode, "", "Never", "IfAvailable"),
	}
	if c.Command == "" || !filepath.IsAbs(c.Command) && filepath.Base(c.Command) != c.Command {
		errs = append(errs, errors.New("execConfig.command is to be an absolute path, or the name of a program in PATH"))
	}
	for i, e := range c.Env {
		if !isVariable(e.Name) || strings.ContainsRune(e.Value, 0) {
			errs = append(errs, fmt.Errorf("execConfig.env[%d]: %q is no name of a variable, or its value has a zero byte", i, e.Name))
		}
	}
	return errors.Join(errs...)
}

func oneOf(field, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s: %q is none of %s", field, value, strings.Join(slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" }), ", "))
}

// isVariable says whether a text can be the name of an environment variable.
func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
