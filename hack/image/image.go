package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// What the Dockerfile says too: TestDockerfile compares.
const (
	// user is UID:GID, numbers so that runAsNonRoot can be checked.
	user    = "65532:65532"
	program = "/minifleet"
	command = "controller"
)

const (
	source      = "https://github.com/minifleet/minifleet"
	licence     = "Apache-2.0"
	description = "Runs Flux Framework MiniClusters on many Kubernetes clusters, from Git"
)

// Annotations by which tools know what an image in a layout is to be called.
const (
	annotationRefName    = "org.opencontainers.image.ref.name"
	annotationContainerd = "io.containerd.image.name"
)

// contents is what images are made of. The same contents make the same bytes.
type contents struct {
	// Binaries is the program by platform.
	Binaries map[string]string
	// License is the path of the licence.
	License string
	// Version and Revision are those of the sources. Created is a time that follows from them, in UTC.
	Version, Revision string
	Created           time.Time
}

// index returns the image of each platform, under one digest.
func index(c contents) (v1.ImageIndex, error) {
	all := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, name := range sorted(c.Binaries) {
		platform, err := v1.ParsePlatform(name)
		if err != nil {
			return nil, err
		}
		image, err := imageFor(c, *platform)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = mutate.AppendManifests(all, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	annotated, ok := mutate.Annotations(all, c.labels()).(v1.ImageIndex)
	if !ok {
		return nil, errors.New("an index with annotations is none any more")
	}
	return annotated, nil
}

// imageFor returns the image for one platform: two files, and how the program is to be run.
func imageFor(c contents, platform v1.Platform) (v1.Image, error) {
	files, err := layer(c.Created, []entry{
		{path: c.License, name: "LICENSE", mode: 0o644},
		{path: c.Binaries[platform.String()], name: strings.TrimPrefix(program, "/"), mode: 0o755},
	})
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.ConfigFile(base, &v1.ConfigFile{
		Architecture: platform.Architecture, OS: platform.OS, Variant: platform.Variant, Created: v1.Time{Time: c.Created},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: user, Entrypoint: []string{program}, Cmd: []string{command}, WorkingDir: "/", Labels: c.labels(),
		},
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(base, mutate.Addendum{
		Layer: files, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: c.Created}, CreatedBy: "make image", Comment: "minifleet " + c.Version},
	})
	if err != nil {
		return nil, err
	}
	annotated, ok := mutate.Annotations(image, c.labels()).(v1.Image)
	if !ok {
		return nil, errors.New("an image with annotations is none any more")
	}
	return annotated, nil
}

// labels say what the image is, in the names of the OCI image specification.
func (c contents) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "minifleet",
		"org.opencontainers.image.description": description,
		"org.opencontainers.image.source":      source,
		"org.opencontainers.image.licenses":    licence,
		"org.opencontainers.image.version":     c.Version,
		"org.opencontainers.image.revision":    c.Revision,
		"org.opencontainers.image.created":     c.Created.UTC().Format(time.RFC3339),
	}
}

// entry is a file of the image.
type entry struct {
	path, name string
	mode       int64
}

// layer returns a layer with these files of root's, of one time, compressed.
func layer(created time.Time, entries []entry) (v1.Layer, error) {
	var data bytes.Buffer
	archive := tar.NewWriter(&data)
	for _, e := range entries {
		if err := add(archive, created, e); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

func add(archive *tar.Writer, created time.Time, e entry) error {
	content, err := os.ReadFile(e.path)
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(content)), ModTime: created, Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = archive.Write(content)
	return err
}

// writeLayout writes an OCI layout with the index as the one thing in it, in place of what is there.
func writeLayout(dir string, images v1.ImageIndex, reference, version string) error {
	if err := removeLayout(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	return path.AppendIndex(images, layout.WithAnnotations(map[string]string{annotationRefName: version, annotationContainerd: reference}))
}

// removeLayout removes an earlier layout, and nothing else that may be there.
func removeLayout(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "oci-layout")); err != nil {
		return fmt.Errorf("%s is not empty and no OCI layout: %w", dir, err)
	}
	return os.RemoveAll(dir)
}

// readLayout returns the index of the images in a layout that writeLayout has written.
func readLayout(dir string) (v1.ImageIndex, error) {
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s holds %d images instead of one", dir, len(manifest.Manifests))
	}
	return outer.ImageIndex(manifest.Manifests[0].Digest)
}

// imageOf returns the image of a platform.
func imageOf(images v1.ImageIndex, platform string) (v1.Image, error) {
	manifest, err := images.IndexManifest()
	if err != nil {
		return nil, err
	}
	var there []string
	for _, descriptor := range manifest.Manifests {
		if descriptor.Platform.String() == platform {
			return images.Image(descriptor.Digest)
		}
		there = append(there, descriptor.Platform.String())
	}
	return nil, fmt.Errorf("there is no image for %s, only for %s", platform, strings.Join(there, ", "))
}

func sorted(binaries map[string]string) []string {
	var names []string
	for name := range binaries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
