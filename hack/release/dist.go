package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const versionVariable = "github.com/minifleet/minifleet/internal/version.version"

// distOptions say what a release is made of.
type distOptions struct {
	Root, Out, Version string
	// Image is the name of the image without a tag, ImageLayout the directory of its OCI layout, empty where there is none.
	Image, ImageLayout string
	// URL is where releases are, as URL/VERSION/FILE.
	URL string
	// Platforms are OS/ARCHITECTURE.
	Platforms []string
	// Kustomize and SBOM (cyclonedx-gomod) are paths of programs.
	Kustomize, SBOM string
	// Include are files in Out that others have made.
	Include []string
	// Progress is told each step.
	Progress func(string)
}

// dist writes a release into a directory: the same bytes from the same commit, wherever and whenever.
func dist(o distOptions) error {
	version, err := semanticVersion(o.Version)
	if err != nil {
		return err
	}
	if dirty(version) {
		o.Progress("NOTE: files were changed without a commit, so this is not a release: " + version)
	}
	included, err := namesIn(o.Out, o.Include)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(o.Out, 0o755), removePrevious(o.Out, included)); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "minifleet-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	d := &distribution{distOptions: o, version: version, work: work, files: included}
	for _, step := range []func() error{d.programs, d.plugin, d.manifests, d.image, d.checksums} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// namesIn are the names of files, all of which must be in a directory.
func namesIn(directory string, paths []string) ([]string, error) {
	var names []string
	for _, path := range paths {
		if filepath.Clean(filepath.Dir(path)) != filepath.Clean(directory) {
			return nil, fmt.Errorf("%s is not in %s", path, directory)
		}
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
		names = append(names, filepath.Base(path))
	}
	return names, nil
}

// distribution is a release in the making.
type distribution struct {
	distOptions
	version  string
	work     string // a temporary directory
	archives []pluginArchive
	files    []string // names in Out
}

func (d *distribution) path(name string) string {
	d.files = append(d.files, name)
	return filepath.Join(d.Out, name)
}

// programs builds the program for each platform, and writes its archive and its bill of materials.
func (d *distribution) programs() error {
	for _, platform := range d.Platforms {
		system, arch, found := strings.Cut(platform, "/")
		if !found {
			return fmt.Errorf("%q is not OS/ARCHITECTURE", platform)
		}
		d.Progress("building the program for " + platform + "; the first time takes minutes")
		binary := filepath.Join(d.work, system+"_"+arch, "minifleet")
		if err := d.build(system, arch, binary); err != nil {
			return err
		}
		name := fmt.Sprintf("minifleet_%s_%s_%s", d.version, system, arch)
		archive := name + ".tar.gz"
		err := writeTarGz(d.path(archive), []entry{
			{Name: "minifleet", Path: binary, Mode: 0o755}, {Name: "LICENSE", Path: filepath.Join(d.Root, "LICENSE"), Mode: 0o644},
		})
		if err != nil {
			return err
		}
		sum, err := checksum(filepath.Join(d.Out, archive))
		if err != nil {
			return err
		}
		d.archives = append(d.archives, pluginArchive{OS: system, Arch: arch, URI: d.URL + "/" + d.version + "/" + archive, SHA256: sum})
		d.Progress("listing the modules of " + platform)
		if err := d.billOfMaterials(binary, d.path(name+".cdx.json")); err != nil {
			return err
		}
	}
	return nil
}

// build notes the commit in the program. No path of this machine is in it, and what is written to disk is not cgo's.
func (d *distribution) build(system, arch, binary string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-ldflags", "-s -w -X "+versionVariable+"="+d.Version, "-o", binary, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+system, "GOARCH="+arch)
	_, err := output(cmd, d.Root)
	return err
}

// billOfMaterials lists the modules that a program says it was built from, without a time or a random number.
func (d *distribution) billOfMaterials(binary, path string) error {
	cmd := exec.Command(d.SBOM, "bin", "-json", "-noserial", "-notimestamp", "-std", "-version", d.version, "-output", path, binary)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	_, err := output(cmd, d.Root)
	return err
}

// plugin writes the manifest for krew, whose name is the plugin's.
func (d *distribution) plugin() error {
	manifest, err := krewYAML(d.version, d.archives)
	if err != nil {
		return err
	}
	return d.write("minifleet.yaml", manifest)
}

// manifests writes what is applied to a hub: everything, and the CRDs alone, which an upgrade begins with.
func (d *distribution) manifests() error {
	d.Progress("writing install.yaml and crds.yaml")
	all, err := output(exec.Command(d.Kustomize, "build", filepath.Join("config", "default")), d.Root)
	if err != nil {
		return err
	}
	crds, err := output(exec.Command(d.Kustomize, "build", filepath.Join("config", "crd")), d.Root)
	if err != nil {
		return err
	}
	reference, err := imageReference(d.Image, d.version, d.ImageLayout)
	if err != nil {
		return err
	}
	if all, err = withImage(all, reference); err != nil {
		return err
	}
	return errors.Join(d.write("install.yaml", all), d.write("crds.yaml", crds))
}

// image packs the OCI layout into one file.
func (d *distribution) image() error {
	if d.ImageLayout == "" {
		d.Progress("NOTE: no image was built: install.yaml names it by its tag alone")
		return nil
	}
	entries, err := filesBelow(d.ImageLayout)
	if err != nil {
		return err
	}
	return create(d.path("minifleet_"+d.version+"_image.tar"), func(out io.Writer) error { return writeTar(out, entries) })
}

func (d *distribution) checksums() error {
	slices.Sort(d.files)
	if err := writeChecksums(d.Out, d.files); err != nil {
		return err
	}
	d.Progress(fmt.Sprintf("%d files and %s are in %s", len(d.files), checksumsFile, d.Out))
	return nil
}

func (d *distribution) write(name string, content []byte) error {
	return create(d.path(name), func(out io.Writer) error {
		_, err := out.Write(content)
		return err
	})
}

// output runs a command in a directory and returns what it printed.
func output(cmd *exec.Cmd, directory string) ([]byte, error) {
	var out, errs bytes.Buffer
	cmd.Dir = directory
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, errs.String())
	}
	return out.Bytes(), nil
}
