package dashboard

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

const (
	// minCompressed is the size in bytes from which bodies are compressed.
	minCompressed = 1024
	// compressionLevel takes half the time of the default for a twentieth more.
	compressionLevel = 4
)

var gzipWriters = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(io.Discard, compressionLevel) // fails for unknown levels only
	return w
}}

// compressed compresses JSON for those who accept it. Streams go through as they are.
func compressed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		if !acceptsGzip(req.Header.Get("Accept-Encoding")) {
			next.ServeHTTP(w, req)
			return
		}
		c := &compressor{ResponseWriter: w}
		defer c.close()
		next.ServeHTTP(c, req)
	})
}

// acceptsGzip reads the header Accept-Encoding.
func acceptsGzip(header string) bool {
	for coding := range strings.SplitSeq(header, ",") {
		name, weight, weighted := strings.Cut(strings.TrimSpace(coding), ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
		return !weighted || err == nil && q > 0
	}
	return false
}

// compressor holds a body of JSON back until it is known to be worth compressing. Everything else it hands on at once.
type compressor struct {
	http.ResponseWriter
	status int
	held   []byte
	gzip   *gzip.Writer
	plain  bool // it is handed on as it is
}

// Unwrap is for http.ResponseController: flushing and deadlines are those of the connection.
func (c *compressor) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *compressor) WriteHeader(status int) {
	if c.status != 0 {
		return
	}
	c.status = status
	h := c.Header()
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	isJSON := kind == "application/json" || strings.HasSuffix(kind, "+json") && !strings.Contains(kind, "ndjson")
	if !isJSON || h.Get("Content-Encoding") != "" || status == http.StatusNoContent || status == http.StatusNotModified {
		c.sendPlain()
	}
}

func (c *compressor) sendPlain() {
	c.plain = true
	c.ResponseWriter.WriteHeader(c.status)
}

func (c *compressor) Write(p []byte) (int, error) {
	if c.status == 0 {
		c.WriteHeader(http.StatusOK)
	}
	switch {
	case c.plain:
		return c.ResponseWriter.Write(p)
	case c.gzip != nil:
		return c.gzip.Write(p)
	}
	c.held = append(c.held, p...)
	if len(c.held) < minCompressed {
		return len(p), nil
	}
	c.Header().Set("Content-Encoding", "gzip")
	c.Header().Del("Content-Length")
	c.ResponseWriter.WriteHeader(c.status)
	c.gzip, _ = gzipWriters.Get().(*gzip.Writer)
	c.gzip.Reset(c.ResponseWriter)
	_, err := c.gzip.Write(c.held)
	c.held = nil
	return len(p), err
}

// close sends what is held back. An error there means that nobody reads any more.
func (c *compressor) close() {
	switch {
	case c.gzip != nil:
		_ = c.gzip.Close()
		c.gzip.Reset(io.Discard)
		gzipWriters.Put(c.gzip)
	case !c.plain && c.status != 0:
		c.sendPlain()
		_, _ = c.ResponseWriter.Write(c.held)
	}
}
