package main

import (
	"strings"

	"sigs.k8s.io/yaml"
)

// The manifest of the plugin for krew: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
type krewManifest struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   krewMetadata `json:"metadata"`
	Spec       krewSpec     `json:"spec"`
}

type krewMetadata struct {
	Name string `json:"name"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector krewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	Bin      string       `json:"bin"`
	Files    []krewFile   `json:"files"`
}

type krewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type krewFile struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// pluginArchive is an archive of the program for one platform.
type pluginArchive struct {
	OS, Arch, URI, SHA256 string
}

// krewYAML is the manifest with which krew installs the program as `kubectl minifleet`.
func krewYAML(version string, archives []pluginArchive) ([]byte, error) {
	m := krewManifest{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: krewMetadata{Name: "minifleet"},
		Spec: krewSpec{
			Version: version, Homepage: "https://github.com/minifleet/minifleet",
			ShortDescription: "Run Flux MiniClusters on many clusters from Git",
			Description: strings.TrimSpace(`
MiniFleet runs MiniClusters of the Flux Framework on many clusters from Git. This plugin
shows what runs where and why something waits, starts, cancels and suspends runs, follows
logs, tells what a commit would change, and joins member clusters to a hub.
`) + "\n",
		},
	}
	for _, a := range archives {
		m.Spec.Platforms = append(m.Spec.Platforms, krewPlatform{
			Selector: krewSelector{MatchLabels: map[string]string{"os": a.OS, "arch": a.Arch}},
			URI:      a.URI, SHA256: a.SHA256, Bin: "minifleet",
			Files: []krewFile{{From: "minifleet", To: "."}, {From: "LICENSE", To: "."}},
		})
	}
	return yaml.Marshal(m)
}
