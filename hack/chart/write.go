package chart

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Generate writes the chart of the folder config to a folder, and removes what else is there. Files that are as they should be
// are not touched.
func Generate(config, to string) error {
	source, err := ReadFolder(config)
	if err != nil {
		return err
	}
	files, err := Make(source)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	have, err := ReadFolder(to)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, wanted := files[name]; !wanted {
			if err := os.Remove(filepath.Join(to, filepath.FromSlash(name))); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if old, has := have[name]; has && bytes.Equal(old, files[name]) {
			continue
		}
		path := filepath.Join(to, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}
