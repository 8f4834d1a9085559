package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// builtImage is the image that config/manager names.
const builtImage = "image: minifleet:dev"

// imageReference is NAME:VERSION, with the digest of the index of an OCI layout where one was built: tags can be moved.
func imageReference(name, version, layout string) (string, error) {
	reference := name + ":" + version
	if layout == "" {
		return reference, nil
	}
	digest, err := layoutDigest(layout)
	if err != nil {
		return "", err
	}
	return reference + "@" + digest, nil
}

// layoutDigest is that of the one image, of all platforms, in an OCI layout.
func layoutDigest(layout string) (string, error) {
	path := filepath.Join(layout, "index.json")
	body, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var index struct {
		Manifests []struct {
			Digest string `json:"digest"`
		} `json:"manifests"`
	}
	if err := json.Unmarshal(body, &index); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if len(index.Manifests) != 1 || index.Manifests[0].Digest == "" {
		return "", fmt.Errorf("%s names %d images, and not one", path, len(index.Manifests))
	}
	return index.Manifests[0].Digest, nil
}

// withImage replaces the image of the one container that runs it.
func withImage(manifests []byte, reference string) ([]byte, error) {
	if n := bytes.Count(manifests, []byte(builtImage+"\n")); n != 1 {
		return nil, fmt.Errorf("config/default has %q %d times, and not once", builtImage, n)
	}
	return bytes.Replace(manifests, []byte(builtImage+"\n"), []byte("image: "+reference+"\n"), 1), nil
}
