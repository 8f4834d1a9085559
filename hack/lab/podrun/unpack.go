package podrun

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// blobLimit bounds what is read of one blob of a layout, in bytes.
const blobLimit = 1 << 30

type (
	descriptor struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
		Platform  struct {
			Architecture string `json:"architecture"`
			OS           string `json:"os"`
		} `json:"platform"`
	}
	manifest struct {
		Manifests []descriptor `json:"manifests"`
		Config    descriptor   `json:"config"`
		Layers    []descriptor `json:"layers"`
	}
	imageConfig struct {
		Config struct {
			User       string
			Env        []string
			Entrypoint []string
			Cmd        []string
			WorkingDir string
			Labels     map[string]string
		} `json:"config"`
	}
)

// Unpack writes the files of the image for a platform (OS/ARCHITECTURE) in an OCI layout into a directory that is made, and
// returns what the image says besides. Digests are verified. Layers that delete files of others, and files other than plain
// files and directories, are refused: images from scratch have none.
func Unpack(layout, platform, rootfs string) (Image, error) {
	m, err := imageManifest(layout, platform)
	if err != nil {
		return Image{}, err
	}
	for _, layer := range m.Layers {
		if err := unpackLayer(layout, layer, rootfs); err != nil {
			return Image{}, fmt.Errorf("layer %s: %w", layer.Digest, err)
		}
	}
	var config imageConfig
	if err := readBlob(layout, m.Config.Digest, &config); err != nil {
		return Image{}, err
	}
	c := config.Config
	return Image{Entrypoint: c.Entrypoint, Cmd: c.Cmd, Env: c.Env, User: c.User, WorkingDir: c.WorkingDir, Labels: c.Labels}, nil
}

// imageManifest follows the indexes of a layout to the manifest for the platform.
func imageManifest(layout, platform string) (manifest, error) {
	data, err := os.ReadFile(filepath.Join(layout, "index.json"))
	if err != nil {
		return manifest{}, err
	}
	var outer manifest
	if err := json.Unmarshal(data, &outer); err != nil {
		return manifest{}, err
	}
	if len(outer.Manifests) != 1 {
		return manifest{}, fmt.Errorf("%s holds %d images instead of one", layout, len(outer.Manifests))
	}
	var index, image manifest
	if err := readBlob(layout, outer.Manifests[0].Digest, &index); err != nil {
		return manifest{}, err
	}
	for _, m := range index.Manifests {
		if m.Platform.OS+"/"+m.Platform.Architecture == platform {
			return image, readBlob(layout, m.Digest, &image)
		}
	}
	return manifest{}, fmt.Errorf("%s holds no image for %s", layout, platform)
}

func readBlob(layout, digest string, into any) error {
	data, err := blob(layout, digest)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func blob(layout, digest string) ([]byte, error) {
	sum, found := strings.CutPrefix(digest, "sha256:")
	if !found || len(sum) != hex.EncodedLen(sha256.Size) || strings.ContainsAny(sum, "/.") {
		return nil, fmt.Errorf("digest %q is none of SHA-256", digest)
	}
	data, err := os.ReadFile(filepath.Join(layout, "blobs", "sha256", sum))
	if err != nil {
		return nil, err
	}
	if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != sum {
		return nil, fmt.Errorf("blob %s has other content", digest)
	}
	return data, nil
}

func unpackLayer(layout string, layer descriptor, rootfs string) error {
	data, err := blob(layout, layer.Digest)
	if err != nil {
		return err
	}
	content, err := gzip.NewReader(strings.NewReader(string(data)))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(rootfs, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	archive := tar.NewReader(content)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = unpackEntry(root, header, archive)
		}
		if err != nil {
			return err
		}
	}
}

// unpackEntry writes one entry, with its mode and owner where this process may give files away.
func unpackEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	if strings.HasPrefix(filepath.Base(header.Name), ".wh.") {
		return fmt.Errorf("%s deletes what another layer has", header.Name)
	}
	mode := header.FileInfo().Mode().Perm()
	switch header.Typeflag {
	case tar.TypeDir:
		if err := root.MkdirAll(filepath.Clean(header.Name), 0o755); err != nil {
			return err
		}
	case tar.TypeReg:
		if err := writeEntry(root, header.Name, io.LimitReader(content, blobLimit)); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s is neither a file nor a directory", header.Name)
	}
	if os.Geteuid() == 0 {
		if err := root.Chown(header.Name, header.Uid, header.Gid); err != nil {
			return err
		}
	}
	return root.Chmod(header.Name, mode)
}

func writeEntry(root *os.Root, name string, content io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := root.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
