// Package tracingtest is an OpenTelemetry collector for tests: it takes OTLP over HTTP, and keeps what comes.
package tracingtest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector is one that runs. URL is its address.
type Collector struct {
	*httptest.Server

	mu      sync.Mutex
	spans   []*tracev1.Span
	raw     bytes.Buffer
	headers []http.Header
}

// Start starts one, to be closed by the caller.
func Start() *Collector {
	c := &Collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(c.take))
	return c
}

func (c *Collector) take(w http.ResponseWriter, r *http.Request) {
	if err := c.add(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (c *Collector) add(r *http.Request) error {
	if r.URL.Path != "/v1/traces" {
		return fmt.Errorf("path %s", r.URL.Path)
	}
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(r.Body); err != nil {
			return err
		}
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var request collectorv1.ExportTraceServiceRequest
	if err := proto.Unmarshal(text, &request); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(text)
	c.headers = append(c.headers, r.Header.Clone())
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
	return nil
}

// Spans are all that have come.
func (c *Collector) Spans() []*tracev1.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*tracev1.Span(nil), c.spans...)
}

// Bytes are those of all requests, without headers, one after the other.
func (c *Collector) Bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.raw.Bytes())
}

// Headers are those of each request.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]http.Header(nil), c.headers...)
}

// Attribute is the text of an attribute of a span, or empty.
func Attribute(s *tracev1.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}
