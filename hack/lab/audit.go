package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// AuditEvent is one answered request in an API server's audit log: the fields that tests ask about.
type AuditEvent struct {
	AuditID    string    `json:"auditID"`
	Verb       string    `json:"verb"`
	RequestURI string    `json:"requestURI"`
	UserAgent  string    `json:"userAgent"`
	Received   time.Time `json:"requestReceivedTimestamp"`
	User       struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	} `json:"user"`
	// Object is what the request was about; nil for a URL that is no object's. On a create, Name may
	// be empty.
	Object *struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		UID         string `json:"uid"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	// Annotations say what happened to the request on its way, such as the authorizer's decision.
	Annotations map[string]string `json:"annotations"`
	// RequestObject is what was sent, if the log's level is Request or more.
	RequestObject json.RawMessage `json:"requestObject"`
	// ResponseObject is what was answered, if the log's level is RequestResponse.
	ResponseObject json.RawMessage `json:"responseObject"`
}

// Write says whether the request was one to change something. A review is created, and changes nothing.
func (e *AuditEvent) Write() bool {
	if e.Object != nil && strings.HasSuffix(e.Object.Resource, "reviews") {
		return false
	}
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
}

// Forbidden says whether the authorizer refused the request: of other refusals that are answered with 403, by a
// quota or in a namespace that is being deleted, it does not.
// https://kubernetes.io/docs/reference/labels-annotations-taints/audit-annotations/
func (e *AuditEvent) Forbidden() bool {
	return e.Annotations["authorization.k8s.io/decision"] == "forbid"
}

// ReadAudit returns the answered requests in an audit log, in the order in which they were answered.
// A watch is answered when it ends. A line that is still being written is left out.
func ReadAudit(path string) ([]AuditEvent, error) {
	return (&AuditReader{Path: path}).Read()
}

// AuditReader reads an audit log that grows. Path is that of the log.
type AuditReader struct {
	Path string

	mu     sync.Mutex
	offset int64 // bytes that have been read
	lines  int
	events []AuditEvent
}

// Read returns what ReadAudit does. It parses only what was added since it was last called: a test that polls would
// otherwise parse again all that earlier tests have done. The events are not to be changed.
func (r *AuditReader) Read() ([]AuditEvent, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	added, err := r.next()
	if err != nil {
		return nil, err
	}
	r.events = append(r.events, added...)
	return slices.Clip(r.events), nil
}

// Next returns the requests answered since the last call of Next or Read, and keeps none of them: for logs that are
// longer than anybody wants to hold. It is not to be mixed with Read.
func (r *AuditReader) Next() ([]AuditEvent, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next()
}

func (r *AuditReader) next() ([]AuditEvent, error) {
	file, err := os.Open(r.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(r.offset, io.SeekStart); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(file)
	var added []AuditEvent
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return added, nil
		}
		if err != nil {
			return nil, err
		}
		event, answered, err := r.parse(line)
		if err != nil {
			return nil, err
		}
		if answered {
			added = append(added, event)
		}
	}
}

// parse reads one line, and says whether it is about the answer to a request.
func (r *AuditReader) parse(line []byte) (event AuditEvent, answered bool, err error) {
	var staged struct {
		AuditEvent
		Stage string `json:"stage"`
	}
	if err := json.Unmarshal(line, &staged); err != nil {
		return AuditEvent{}, false, fmt.Errorf("%s:%d: %w", r.Path, r.lines+1, err)
	}
	r.offset += int64(len(line))
	r.lines++
	return staged.AuditEvent, staged.Stage == "ResponseComplete", nil
}

// auditPolicy logs every request once, when it has been answered, but for questions about health.
func auditPolicy(level string) []byte {
	return []byte(`apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  nonResourceURLs: ["/readyz*", "/livez*", "/healthz*"]
- level: ` + level + "\n")
}
