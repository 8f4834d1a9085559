package hubcache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pageKept is for how long a page is waited for, and kept for whoever asks for it.
const pageKept = time.Minute

// readAhead asks for the next page of a list while the caller decodes the one before: of a list of JSON each takes as long as the
// other. It holds one page of each list, which is what the caller asks for next: a token to continue stands for a state of the API
// server, and not for the time at which it is used. It is safe for concurrent use.
type readAhead struct {
	next http.RoundTripper

	mu sync.Mutex
	// pages are those that were asked for ahead, by their addresses and what they are to be.
	pages map[string]*page
}

// page is the answer to a request that nobody has sent yet.
type page struct {
	cancel context.CancelFunc
	done   chan struct{}
	answer *http.Response // with its body read; nil where there is none
	body   []byte
}

// ReadAhead is a client that reads lists of custom resources one page ahead, and is like another one otherwise; nil for nil.
func ReadAhead(c *http.Client) *http.Client {
	if c == nil {
		return nil
	}
	out := *c
	if out.Transport == nil {
		out.Transport = http.DefaultTransport
	}
	out.Transport = &readAhead{next: out.Transport, pages: map[string]*page{}}
	return &out
}

// RoundTrip implements http.RoundTripper.
func (r *readAhead) RoundTrip(req *http.Request) (*http.Response, error) {
	query := req.URL.Query()
	if req.Method != http.MethodGet || query.Get("limit") == "" || query.Get("watch") != "" {
		return r.next.RoundTrip(req)
	}
	answer, body, err := r.list(req)
	if err != nil {
		return nil, err
	}
	if token := continueOf(answer, body); token != "" {
		query.Set("continue", token)
		query.Del("resourceVersion") // the token says which
		query.Del("resourceVersionMatch")
		r.ask(req, query)
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (r *readAhead) WrappedRoundTripper() http.RoundTripper { return r.next }

// list is the answer to a request and its body: as it was asked for ahead, or else now.
func (r *readAhead) list(req *http.Request) (*http.Response, []byte, error) {
	if p := r.take(nameOf(req)); p != nil {
		defer p.cancel()
		select {
		case <-p.done:
			if p.answer != nil {
				p.answer.Request = req
				return p.answer, p.body, nil
			}
		case <-req.Context().Done():
			return nil, nil, context.Cause(req.Context())
		}
	}
	return read(r.next, req)
}

// read sends a request, and reads the body of the answer.
func read(through http.RoundTripper, req *http.Request) (*http.Response, []byte, error) {
	answer, err := through.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return nil, nil, err
	}
	return answer, body, nil
}

// ask asks for a page ahead. What nobody has fetched in time is forgotten.
func (r *readAhead) ask(req *http.Request, query url.Values) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), pageKept)
	ahead := req.Clone(ctx)
	ahead.URL.RawQuery = query.Encode()
	name, p := nameOf(ahead), &page{cancel: cancel, done: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pages[name] != nil {
		cancel()
		return
	}
	r.pages[name] = p
	context.AfterFunc(ctx, func() { r.forget(name, p) })
	go func() {
		defer close(p.done)
		if answer, body, err := read(r.next, ahead); err == nil { //nolint:bodyclose // read has closed it
			p.answer, p.body = answer, body
		}
	}()
}

// nameOf is what one request for a page has in common with another one.
func nameOf(req *http.Request) string { return req.URL.String() + " " + req.Header.Get("Accept") }

func (r *readAhead) take(name string) *page {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pages[name]
	delete(r.pages, name)
	return p
}

func (r *readAhead) forget(name string, p *page) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pages[name] == p {
		delete(r.pages, name)
	}
}

// tail is where the metadata of a list of custom resources are looked for, in bytes from its end: a token has the name of an object.
const tail = 4096

// continueOf is the token of the next page of a list of JSON, empty if there is none. An API server writes the fields of a list of
// custom resources in the order of the alphabet (UnstructuredList), so that its metadata are last. Where they are elsewhere, nothing
// is read ahead.
func continueOf(answer *http.Response, body []byte) string {
	kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || answer.StatusCode != http.StatusOK {
		return ""
	}
	field := []byte(`"metadata":`)
	end := body[max(0, len(body)-tail):]
	at := bytes.LastIndex(end, field)
	if at < 0 {
		return ""
	}
	var list metav1.ListMeta
	if err := json.NewDecoder(bytes.NewReader(end[at+len(field):])).Decode(&list); err != nil {
		return ""
	}
	return list.Continue
}
