// Package chart makes the Helm chart from config.
package chart

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/minifleet/minifleet/hack/chart/templates"
	"github.com/minifleet/minifleet/hack/chart/values"
	"github.com/minifleet/minifleet/hack/chart/variants"
)

// Name is that of the chart.
const Name = "minifleet"

// Version is that of the chart as it is committed. A package has that of its release.
const Version = "0.0.0"

// ReadFolder reads all files below a folder, by their slash-separated paths below it.
func ReadFolder(dir string) (map[string][]byte, error) {
	out := map[string][]byte{}
	folder := os.DirFS(dir)
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		out[name], err = fs.ReadFile(folder, name)
		return err
	})
	return out, err
}

// Make returns the files of the chart, by path below its folder, from those of config.
func Make(config map[string][]byte) (map[string][]byte, error) {
	c, err := variants.Read(config, templates.Components())
	if err != nil {
		return nil, err
	}
	t, err := templates.Make(c)
	if err != nil {
		return nil, err
	}
	files := t.Files
	s := t.Settings
	share := strconv.FormatFloat(float64(s.GoMemory)*100/float64(s.Memory), 'f', -1, 64)
	files["templates/_helpers.tpl"] = []byte(strings.NewReplacer(
		"@GO_MEMORY@", strconv.FormatInt(s.GoMemory, 10), "@MEMORY@", strconv.FormatInt(s.Memory, 10),
	).Replace(string(files["templates/_helpers.tpl"])))
	list := values.List(values.Config{
		Repository: s.Repository, Replicas: s.Replicas, Resources: s.Resources, Parts: t.Parts, Default: t.Default,
		PodLabels: s.PodLabels, PodAnnotations: s.PodAnnotations, Share: share,
	})
	if files["values.yaml"], err = values.YAML(list); err != nil {
		return nil, err
	}
	if files["values.schema.json"], err = values.JSONSchema(list); err != nil {
		return nil, err
	}
	table, err := values.Table(list)
	if err != nil {
		return nil, err
	}
	files["README.md"] = []byte(readme(table, t.CRDs))
	files["Chart.yaml"] = []byte(Metadata(Version, s.Tag))
	files[".helmignore"] = []byte("# Nothing but the chart is in this folder.\n.git/\n*.tgz\n")
	return files, nil
}

// Metadata is Chart.yaml.
func Metadata(version, appVersion string) string {
	return fmt.Sprintf(`apiVersion: v2
name: %s
description: Runs MiniClusters of the Flux Framework on many Kubernetes clusters from Git. This is the hub's side.
type: application
version: %s
appVersion: %q
`, Name, version, appVersion)
}

func readme(table string, crds []string) string {
	return `# The Helm chart of MiniFleet

Installs the hub's side: kinds, roles, and the controller. How to install, upgrade and uninstall it, and what stays then, is in
[docs/helm.md](../../docs/helm.md).

This folder is generated from ` + "`config`, by `make generate`" + `: edit that. ` + "`make chart`" + ` packages it with the version of the release.

Its names are fixed, since the controller's messages, its rights and the members' policies name them: a cluster has one release of
it, in a namespace of your choice.

## Values

A value that is not listed here is refused.

` + table + `
## Kinds

` + "`crds.enabled`" + ` installs these, which stay when the release is uninstalled:

- ` + "`" + strings.Join(crds, "`\n- `") + "`" + `
`
}
