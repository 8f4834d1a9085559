package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/minifleet/minifleet/hack/bench/wait"
	"github.com/minifleet/minifleet/hack/lab"
)

// event is an answered request of somebody to a cluster.
type event struct {
	lab.AuditEvent
	Stage string `json:"stage"`
	// Answered is when the answer was ready.
	Answered time.Time `json:"stageTimestamp"`

	cluster string
}

// minifleet says whether the controller sent it.
func (e *event) minifleet() bool { return strings.HasPrefix(e.UserAgent, "minifleet") }

// what is VERB RESOURCE or VERB RESOURCE/SUBRESOURCE, with the code of an answer that is an error.
func (e *event) what() string {
	text := e.Verb + " " + e.RequestURI
	if e.Object != nil {
		text = e.Verb + " " + e.Object.Resource
		if e.Object.Subresource != "" {
			text += "/" + e.Object.Subresource
		}
	}
	if e.Response.Code >= 400 {
		text += fmt.Sprintf(" (%d)", e.Response.Code)
	}
	return text
}

// created says whether the request has created an object of a resource.
func (e *event) created(resource string) bool {
	return e.Verb == "create" && e.Object != nil && e.Object.Resource == resource && e.Object.Subresource == "" && e.Response.Code < 300
}

// trail reads the audit logs of all clusters as they grow. It costs the API servers nothing.
type trail struct {
	logs []*auditLog
	// watches says that watches, which are logged when they end, are read, too.
	watches bool
}

type auditLog struct {
	cluster string
	file    *os.File
	lines   *bufio.Reader
	partial []byte
}

// openTrail opens audit logs, given by cluster.
func openTrail(paths map[string]string) (*trail, error) {
	t := &trail{}
	for cluster, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		t.logs = append(t.logs, &auditLog{cluster: cluster, file: file, lines: bufio.NewReaderSize(file, 1<<16)})
	}
	return t, nil
}

func (t *trail) close() error {
	var errs []error
	for _, log := range t.logs {
		errs = append(errs, log.file.Close())
	}
	return errors.Join(errs...)
}

// read returns what has come since the last read.
func (t *trail) read() ([]event, error) {
	var events []event
	for _, log := range t.logs {
		for {
			line, err := log.line()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			e := event{cluster: log.cluster}
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, fmt.Errorf("%s: %w", log.file.Name(), err)
			}
			if e.Stage == "ResponseComplete" && (t.watches || e.Verb != "watch") {
				events = append(events, e)
			}
		}
	}
	return events, nil
}

// line returns a whole line, or io.EOF where there is none yet.
func (l *auditLog) line() ([]byte, error) {
	part, err := l.lines.ReadBytes('\n')
	if err != nil {
		l.partial = append(l.partial, part...)
		return nil, err
	}
	whole := append(l.partial, part...)
	l.partial = nil
	return whole, nil
}

// until collects events until enough says so of all that there are.
func (t *trail) until(ctx context.Context, what string, enough func([]event) bool) ([]event, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var all []event
	for {
		events, err := t.read()
		if err != nil {
			return all, err
		}
		all = append(all, events...)
		if len(events) > 0 && enough(all) {
			return all, nil
		}
		if err := wait.Pause(ctx, 5*time.Millisecond); err != nil {
			return all, fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
}

// quiet collects events until nobody has written for a time, and the controller has asked nothing.
func (t *trail) quiet(ctx context.Context, d time.Duration) ([]event, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var all []event
	last := time.Now()
	for time.Since(last) < d {
		events, err := t.read()
		if err != nil {
			return all, err
		}
		for i := range events {
			if events[i].minifleet() || events[i].Write() && !background(&events[i]) {
				last = time.Now()
			}
		}
		all = append(all, events...)
		if err := wait.Pause(ctx, 20*time.Millisecond); err != nil {
			return all, fmt.Errorf("waiting until nobody writes: %w", err)
		}
	}
	return all, nil
}

// background says whether a request is one that API servers send themselves all the time.
func background(e *event) bool {
	return e.Object != nil && (e.Object.Resource == "leases" || strings.HasPrefix(e.UserAgent, "kube-apiserver"))
}
