package clusters

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// answer is what kind of an answer a request asks for.
type answer int

const (
	answerObject answer = iota
	answerList
	answerWatch
	answerLog
)

var errAnswerTime = errors.New("the answer did not end in time")

// answerTo tells from its address what a request asks for.
func answerTo(req *http.Request) answer {
	switch query := req.URL.Query(); {
	case req.Method != http.MethodGet:
		return answerObject
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		return answerWatch
	case isLog(req.URL.Path):
		return answerLog
	case isList(req.URL.Path):
		return answerList
	default:
		return answerObject
	}
}

// isList says whether the path of a request is that of a list of any kind that is used.
func isList(urlPath string) bool {
	if isOwnedList(urlPath) {
		return true
	}
	last := path.Base(urlPath)
	for _, o := range others {
		if o.sub == "" && o.name == "" && last == resourceOf(o.gvk) {
			return true
		}
	}
	return false
}

// isLog says whether the path of a request is that of a pod's log, /api/v1/namespaces/NAMESPACE/pods/NAME/log, and not of
// another object of that name.
func isLog(urlPath string) bool {
	parts := strings.Split(strings.Trim(urlPath, "/"), "/")
	return len(parts) >= 7 && slices.Equal(parts[len(parts)-7:len(parts)-4], []string{"api", "v1", "namespaces"}) &&
		parts[len(parts)-3] == "pods" && parts[len(parts)-1] == "log"
}

// isStream says whether an answer goes on for as long as the asker likes. Refusals do not.
func (a answer) isStream(resp *http.Response) bool {
	return (a == answerWatch || a == answerLog) && resp.StatusCode == http.StatusOK
}

// asked names a request to people.
func asked(req *http.Request) string { return req.Method + " " + req.URL.Path }

// prepare asks for a compressed answer, where that is one that ends.
func (l *line) prepare(req *http.Request, how answer) *http.Request {
	if !l.compress || how == answerWatch || how == answerLog || req.Header.Get("Accept-Encoding") != "" {
		return req
	}
	req.Header = req.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Accept-Encoding", "gzip")
	return req
}

// bound returns an answer that is within the limits: one that ends is received whole before anybody decodes it, and of a
// watch each event is.
func (l *line) bound(req *http.Request, resp *http.Response, how answer) (*http.Response, error) {
	if err := checkEncoding(resp, how); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	if !how.isStream(resp) {
		return l.receive(req, resp, how)
	}
	if how == answerWatch {
		resp.Body = newFrames(req.Context(), resp.Body, l, asked(req), mediaType(resp) == runtime.ContentTypeProtobuf)
	}
	return resp, nil
}

// checkEncoding refuses what an API server would not send. Decoders for whatever else client-go knows, such as YAML, are
// not to be chosen by a member.
func checkEncoding(resp *http.Response, how answer) error {
	encoding := resp.Header.Get("Content-Encoding")
	wrong := encoding != "" && encoding != "identity" && (encoding != "gzip" || how.isStream(resp))
	kind := mediaType(resp)
	isAPI := kind == runtime.ContentTypeJSON || kind == runtime.ContentTypeProtobuf
	if resp.StatusCode >= http.StatusMultipleChoices {
		if !isAPI {
			resp.Header.Set("Content-Type", "text/plain")
		}
	} else if how != answerLog && !isAPI && (kind != "" || resp.ContentLength != 0) {
		wrong = true
	}
	if wrong {
		return &Error{v1alpha1.ReasonUnreachable, errors.New("what answers at the member's address is not its API server: it sends what was not asked for (Content-Type or Content-Encoding)")}
	}
	return nil
}

// mediaType is that of an answer; client-go takes one without for JSON or protobuf, as it has asked.
func mediaType(resp *http.Response) string {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// receive reads a whole answer.
func (l *line) receive(req *http.Request, resp *http.Response, how answer) (*http.Response, error) {
	most, limit := l.limits.Object, limitObject
	if how == answerList && resp.StatusCode == http.StatusOK {
		most, limit = l.limits.List, limitList
	}
	held := &held{line: l}
	body, err := read(resp, most, held)
	_ = resp.Body.Close()
	switch {
	case errors.Is(err, errTooLarge):
		err = l.beyond(limit, asked(req))
	case errors.Is(err, errInFlight):
		err = l.beyond(limitInFlight, asked(req))
	case err == nil && l.countValues(body, mediaType(resp)) > l.limits.Values:
		err = l.beyond(limitValues, asked(req))
	}
	if err != nil {
		held.release()
		return nil, err
	}
	held.Reader = bytes.NewReader(body)
	resp.Body, resp.ContentLength, resp.Uncompressed = held, int64(len(body)), true
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	return resp, nil
}

func (l *line) countValues(body []byte, mediaType string) int {
	if mediaType == runtime.ContentTypeProtobuf {
		return countProtobuf(body, l.limits.Values)
	}
	return countJSON(body)
}

// strike notes an answer that a network or what is between may be to blame for, so that it takes several in a row.
func (l *line) strike(limit string, req *http.Request, what string) error {
	if l.strikes.Add(1) >= l.limits.Strikes {
		return l.beyond(limit, asked(req))
	}
	return &Error{v1alpha1.ReasonUnreachable, fmt.Errorf("the member's answer to %s %s", asked(req), what)}
}

var (
	errTooLarge = errors.New("the answer is too large")
	errInFlight = errors.New("there are too many answers at the same time")
)

// read reads and decompresses the body of an answer, of which neither form may have more than most bytes.
func read(resp *http.Response, most int64, in *held) ([]byte, error) {
	if resp.ContentLength > most {
		return nil, errTooLarge
	}
	var r io.Reader = &atMost{r: resp.Body, left: most}
	if resp.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		r = &atMost{r: unzipped, left: most}
	}
	in.into.Grow(int(min(max(resp.ContentLength, 0), 64<<10)))
	_, err := io.Copy(in, r)
	return in.into.Bytes(), err
}

// atMost is an io.LimitedReader that tells the end from the limit.
type atMost struct {
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (a *atMost) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if a.left -= int64(n); a.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// held is an answer in memory, which counts as in flight until it is closed.
type held struct {
	*bytes.Reader
	into bytes.Buffer
	line *line
	size int64
	once sync.Once
}

// Write implements io.Writer.
func (h *held) Write(p []byte) (int, error) {
	h.size += int64(len(p))
	if h.line.inFlight.Add(int64(len(p))) > h.line.limits.InFlight {
		return 0, errInFlight
	}
	return h.into.Write(p)
}

// Close implements io.Closer.
func (h *held) Close() error {
	h.release()
	return nil
}

func (h *held) release() { h.once.Do(func() { h.line.inFlight.Add(-h.size) }) }
