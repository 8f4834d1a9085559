// Bundle makes what the Operator Lifecycle Manager (OLM) installs from what kustomize would install: config/default is the
// one truth. It has two commands, generate and pack.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("say what to do: generate, or pack")
	}
	switch args[0] {
	case "generate":
		return generateCommand(args[1:])
	case "pack":
		return packCommand(args[1:])
	default:
		return fmt.Errorf("there is no command %q: generate, or pack", args[0])
	}
}

func generateCommand(args []string) error {
	var out string
	var o Options
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	flags.StringVar(&o.Root, "root", ".", "the repository")
	flags.StringVar(&out, "out", "", "directory for bundle and bundle.Dockerfile; empty: the repository")
	flags.StringVar(&o.Image, "image", "", "image of the controller, by its digest for a release; empty: that of config/manager")
	flags.StringVar(&o.Version, "version", "", "version without a leading v; empty: that of config/olm/csv.yaml")
	flags.StringVar(&o.Replaces, "replaces", "", "name of the CSV that this one replaces; empty: that of config/olm/csv.yaml")
	if err := flags.Parse(args); err != nil {
		return err
	}
	files, err := Generate(o)
	if err != nil {
		return err
	}
	if out == "" {
		out = o.Root
	}
	return writeTree(out, files)
}

// writeTree makes the directory bundle below dir hold these files and no others, and bundle.Dockerfile beside it.
func writeTree(dir string, files map[string][]byte) error {
	before, err := filepath.Glob(filepath.Join(dir, "bundle", "manifests", "*.yaml"))
	if err != nil {
		return err
	}
	for _, path := range before {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func packCommand(args []string) error {
	var root, out string
	flags := flag.NewFlagSet("pack", flag.ContinueOnError)
	flags.StringVar(&root, "root", ".", "directory that has bundle and bundle.Dockerfile")
	flags.StringVar(&out, "out", "", "the .tar.gz to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if out == "" {
		return errors.New("pack: -out is missing")
	}
	archive, err := Pack(os.DirFS(root))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	return os.WriteFile(out, archive, 0o644)
}
