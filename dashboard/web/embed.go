// Package web serves the page, which `make web` builds into dist. Without it the server builds too, and says so.
package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed all:dist
var dist embed.FS

// immutable is for files whose names hold a hash of what is in them.
const immutable = "public, max-age=31536000, immutable"

const notBuilt = `The page is not built into this binary: it was built without Node.js, or with go build alone.
Build it with "make build" on a machine with Node.js 20 or later. The API is at /api/v1 all the same.
`

// types are the Content-Types of what a build consists of. Those of package mime depend on the machine.
var types = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".json": "application/json",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// Built says whether the page is in this binary.
func Built() bool {
	_, err := fs.Stat(dist, "dist/index.html")
	return err == nil
}

// Handler serves the page at all paths below which nothing else is served: its files by their names, and its index.html
// at every other path, since the page itself routes. It answers GET and HEAD, and sets no security headers.
func Handler() http.Handler {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // The name is a constant.
	}
	return handler(files)
}

// file is one file of the page with its encodings.
type file struct {
	contentType, cacheControl string
	// bodies by Content-Encoding; "" is the file itself.
	bodies map[string]body
}

type body struct {
	etag  string
	bytes []byte
}

// encodings in the order in which they are preferred.
var encodings = []string{"br", "gzip"}

var suffixes = map[string]string{"br": ".br", "gzip": ".gz"}

func handler(files fs.FS) http.Handler {
	served, err := read(files)
	if err != nil {
		panic(err) // The files are in memory.
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		serve(w, r, served)
	})
}

func serve(w http.ResponseWriter, r *http.Request, served map[string]file) {
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	found, ok := served[name]
	if !ok {
		// A script or a style of another version is absent; HTML in its place would be a syntax error in the browser.
		if strings.HasPrefix(name, "assets/") || strings.HasPrefix(name, "api/") {
			http.NotFound(w, r)
			return
		}
		if found, ok = served["index.html"]; !ok {
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, notBuilt, http.StatusNotFound)
			return
		}
	}
	found.serve(w, r)
}

func (f file) serve(w http.ResponseWriter, r *http.Request) {
	encoding := negotiate(r.Header.Get("Accept-Encoding"), f.bodies)
	chosen := f.bodies[encoding]
	header := w.Header()
	header.Set("Content-Type", f.contentType)
	header.Set("Cache-Control", f.cacheControl)
	header.Set("ETag", chosen.etag)
	header.Set("Vary", "Accept-Encoding")
	if matches(r.Header.Get("If-None-Match"), chosen.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if encoding != "" {
		header.Set("Content-Encoding", encoding)
	}
	header.Set("Content-Length", strconv.Itoa(len(chosen.bytes)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(chosen.bytes) // The client has ended the connection if this fails.
	}
}

// read reads all files, apart from those for tools.
func read(files fs.FS) (map[string]file, error) {
	served := map[string]file{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		contentType, known := types[path.Ext(name)]
		if entry.IsDir() || !known || strings.HasPrefix(name, ".") || name == "placeholder.txt" {
			return nil
		}
		bodies, err := readBodies(files, name)
		if err != nil {
			return err
		}
		cacheControl := "no-cache"
		if strings.HasPrefix(name, "assets/") {
			cacheControl = immutable
		}
		served[name] = file{contentType: contentType, cacheControl: cacheControl, bodies: bodies}
		return nil
	})
	return served, err
}

func readBodies(files fs.FS, name string) (map[string]body, error) {
	bodies := map[string]body{}
	for _, encoding := range append([]string{""}, encodings...) {
		bytes, err := fs.ReadFile(files, name+suffixes[encoding])
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(bytes)
		bodies[encoding] = body{etag: `"` + hex.EncodeToString(sum[:12]) + `"`, bytes: bytes}
	}
	return bodies, nil
}

// negotiate returns the Content-Encoding to answer with, "" for none.
func negotiate(accepted string, bodies map[string]body) string {
	for _, encoding := range encodings {
		if _, ok := bodies[encoding]; ok && accepts(accepted, encoding) {
			return encoding
		}
	}
	return ""
}

func accepts(accepted, encoding string) bool {
	for item := range strings.SplitSeq(accepted, ",") {
		name, parameters, _ := strings.Cut(item, ";")
		if strings.EqualFold(strings.TrimSpace(name), encoding) {
			quality, found := strings.CutPrefix(strings.TrimSpace(parameters), "q=")
			value, err := strconv.ParseFloat(quality, 64)
			return !found || (err == nil && value > 0)
		}
	}
	return false
}

// matches says whether the client has what etag names, by the weak comparison of RFC 9110.
func matches(ifNoneMatch, etag string) bool {
	for item := range strings.SplitSeq(ifNoneMatch, ",") {
		item = strings.TrimPrefix(strings.TrimSpace(item), "W/")
		if item == etag || item == "*" {
			return true
		}
	}
	return false
}
