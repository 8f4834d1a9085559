package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The same files give the same archive, whatever their times, modes and order are.
func TestArchiveIsReproducible(t *testing.T) {
	archives := map[string][]byte{}
	for name, mode := range map[string]os.FileMode{"first": 0o600, "second": 0o755} {
		folder := t.TempDir()
		entries := []entry{{Name: "b/LICENSE", Path: filepath.Join(folder, "1"), Mode: 0o644}, {Name: "a", Path: filepath.Join(folder, "2"), Mode: 0o755}}
		for i, e := range entries {
			if err := os.WriteFile(e.Path, []byte(e.Name), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(e.Path, time.Time{}, time.Unix(int64(len(name)*1000+i), 0)); err != nil {
				t.Fatal(err)
			}
		}
		if name == "second" {
			entries[0], entries[1] = entries[1], entries[0]
		}
		path := filepath.Join(folder, name+".tar.gz")
		if err := writeTarGz(path, entries); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		archives[name] = content
	}
	if !bytes.Equal(archives["first"], archives["second"]) {
		t.Error("the archives differ")
	}
	want := []string{"a -rwxr-xr-x a", "b/LICENSE -rw-r--r-- b/LICENSE"}
	if diff := cmp.Diff(want, list(t, archives["first"])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestArchiveRefusesAFileTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeTar(io.Discard, []entry{{Name: "a", Path: path}, {Name: "a", Path: path}}); err == nil {
		t.Error("no error")
	}
}

// list is NAME MODE CONTENT of each file.
func list(t *testing.T, archive []byte) []string {
	t.Helper()
	uncompressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for reader := tar.NewReader(uncompressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, header.Name+" "+header.FileInfo().Mode().String()+" "+string(content))
	}
}
