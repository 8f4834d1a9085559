package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"time"
)

// Pack puts bundle and bundle.Dockerfile of a directory into a .tar.gz: the same bytes for the same files, whoever packs them
// and when.
func Pack(from fs.FS) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	for _, root := range []string{dockerfile, "bundle"} {
		// WalkDir goes in lexical order.
		err := fs.WalkDir(from, root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := fs.ReadFile(from, name)
			if err != nil {
				return err
			}
			header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatPAX}
			if err := archive.WriteHeader(header); err != nil {
				return err
			}
			_, err = archive.Write(content)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
