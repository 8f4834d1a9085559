// Command release makes what a release consists of, and compares its CRDs with those of the release before.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("say what to do: dist, crds, image or version")
	}
	switch args[0] {
	case "dist":
		return runDist(args[1:], out)
	case "crds":
		return runCRDs(args[1:], out)
	case "image":
		return runImage(args[1:], out)
	case "version":
		return runVersion(args[1:], out)
	default:
		return fmt.Errorf("%q is none of dist, crds, image and version", args[0])
	}
}

func runDist(args []string, out io.Writer) error {
	o := distOptions{Progress: progress(out)}
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	flags.StringVar(&o.Root, "root", ".", "the repository")
	flags.StringVar(&o.Out, "out", "dist", "directory to write into")
	flags.StringVar(&o.Version, "version", "", "of `git describe`")
	flags.StringVar(&o.Image, "image", "", "NAME of the image without a tag, which install.yaml is to run")
	flags.StringVar(&o.ImageLayout, "image-layout", "", "directory of the image's OCI layout; empty: none was built")
	flags.StringVar(&o.URL, "url", "", "where the files of releases are, as URL/VERSION/FILE")
	flags.StringVar(&o.Kustomize, "kustomize", "kustomize", "program")
	flags.StringVar(&o.SBOM, "sbom", "cyclonedx-gomod", "program")
	platforms := flags.String("platforms", "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64", "OS/ARCHITECTURE, several after spaces")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.Platforms = strings.Fields(*platforms)
	o.Include = flags.Args()
	return dist(o)
}

func runCRDs(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("crds", flag.ContinueOnError)
	root := flags.String("root", ".", "the repository")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return compareWithPrevious(*root, out)
}

// runImage prints how a release names its image.
func runImage(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	name := flags.String("image", "", "NAME of the image without a tag")
	described := flags.String("version", "", "of `git describe`")
	layout := flags.String("image-layout", "", "directory of the image's OCI layout; empty: none was built")
	if err := flags.Parse(args); err != nil {
		return err
	}
	version, err := semanticVersion(*described)
	if err != nil {
		return err
	}
	reference, err := imageReference(*name, version, *layout)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, reference)
	return err
}

// runVersion prints a version as a semantic one without a leading v, as bundles want it.
func runVersion(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("version", flag.ContinueOnError)
	described := flags.String("version", "", "of `git describe`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	version, err := semanticVersion(*described)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, strings.TrimPrefix(version, "v"))
	return err
}

// progress says when each step began, in seconds since the first.
func progress(out io.Writer) func(string) {
	started := time.Now()
	return func(step string) {
		fmt.Fprintf(out, "%4d s  %s\n", int(time.Since(started).Seconds()), step)
	}
}
