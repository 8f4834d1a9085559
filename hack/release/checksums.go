package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checksumsFile lists the other files of a release, as sha256sum does.
const checksumsFile = "SHA256SUMS"

func checksum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// writeChecksums lists files of a directory, by name.
func writeChecksums(directory string, names []string) error {
	sorted := slices.Sorted(slices.Values(names))
	return create(filepath.Join(directory, checksumsFile), func(out io.Writer) error {
		for _, name := range sorted {
			sum, err := checksum(filepath.Join(directory, name))
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(out, "%s  %s\n", sum, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// removePrevious removes from a directory what an earlier release there has listed, so that no file of another version
// stays beside those of this one. What is in keep stays.
func removePrevious(directory string, keep []string) error {
	listed, err := os.ReadFile(filepath.Join(directory, checksumsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(listed)) {
		_, name, found := strings.Cut(strings.TrimSpace(line), "  ")
		if !found || name != filepath.Base(name) {
			return fmt.Errorf("%s: %q is not the line of a file in this directory", filepath.Join(directory, checksumsFile), line)
		}
		if slices.Contains(keep, name) {
			continue
		}
		if err := os.Remove(filepath.Join(directory, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
