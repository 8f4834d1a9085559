package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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

// Write says whether the request was one to change something.
func (e *AuditEvent) Write() bool {
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
	file, err := os.Open(r.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(r.offset, io.SeekStart); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return slices.Clip(r.events), nil
		}
		if err != nil {
			return nil, err
		}
		if err := r.parse(line); err != nil {
			return nil, err
		}
	}
}

func (r *AuditReader) parse(line []byte) error {
	var event struct {
		AuditEvent
		Stage string `json:"stage"`
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return fmt.Errorf("%s:%d: %w", r.Path, r.lines+1, err)
	}
	r.offset += int64(len(line))
	r.lines++
	if event.Stage == "ResponseComplete" {
		r.events = append(r.events, event.AuditEvent)
	}
	return nil
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
