package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// entry is a file of an archive.
type entry struct {
	Name string // in the archive, with slashes
	Path string // on disk
	Mode int64  // permissions
}

// writeTarGz writes an archive in which nothing depends on who made it, when or where: files in the order of their names,
// owned by root, at the start of Unix time, and no name or time in the gzip header.
func writeTarGz(path string, entries []entry) error {
	return create(path, func(out io.Writer) error {
		compressed := gzip.NewWriter(out)
		return errors.Join(writeTar(compressed, entries), compressed.Close())
	})
}

// writeTar is the same without compression.
func writeTar(out io.Writer, entries []entry) error {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b entry) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	archive := tar.NewWriter(out)
	for i, e := range sorted {
		if i > 0 && sorted[i-1].Name == e.Name {
			return fmt.Errorf("%s is there twice", e.Name)
		}
		if err := addFile(archive, e); err != nil {
			return err
		}
	}
	return archive.Close()
}

func addFile(archive *tar.Writer, e entry) error {
	file, err := os.Open(e.Path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", e.Path)
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: e.Name, Size: info.Size(), Mode: e.Mode, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}

// filesBelow are all files of a directory as entries that anybody may read.
func filesBelow(directory string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(directory, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(directory, path)
		entries = append(entries, entry{Name: filepath.ToSlash(name), Path: path, Mode: 0o644})
		return err
	})
	return entries, err
}

// create writes a file and closes it.
func create(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
