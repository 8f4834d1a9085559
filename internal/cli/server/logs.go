package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"
)

// LogOptions say which log is meant. What is empty is for the dashboard to choose.
type LogOptions struct {
	Member, Run, Container string
	// Rank of the pod, from 0; negative: the lead's.
	Rank int
	// Previous is the container before the last restart.
	Previous bool
	// Tail is how many of the last lines come first; negative: all.
	Tail int
	// Follow goes on until the log ends.
	Follow bool
}

func (o LogOptions) query() url.Values {
	q := url.Values{}
	for key, value := range map[string]string{"member": o.Member, "run": o.Run, "container": o.Container} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if o.Rank >= 0 {
		q.Set("rank", strconv.Itoa(o.Rank))
	}
	if o.Tail >= 0 {
		q.Set("tail", strconv.Itoa(o.Tail))
	}
	if o.Previous {
		q.Set("previous", "true")
	}
	if o.Follow {
		q.Set("follow", "true")
	}
	return q
}

// LogEvent is a line of a log, or what is said about it. One of Lost, MayBeLost and End is set, or none.
type LogEvent struct {
	Time time.Time
	Text string
	// Lost is how many lines are missing before the next one.
	Lost int
	// MayBeLost says that some are missing, perhaps.
	MayBeLost bool
	// End says why the log ends.
	End string
}

// record is a line of application/x-ndjson.
type record struct {
	Time string `json:"time"`
	Text string `json:"text"`
	Lost int    `json:"lost"`
	End  string `json:"end"`
}

const (
	// maxRecord is the longest line that is read, in bytes.
	maxRecord = 4 << 20
	// overlap is how many lines are asked for again after a connection was lost, to find where it had been.
	overlap = 1000
)

// Wait waits, or until the context ends.
type Wait func(context.Context, time.Duration) error

// Logs reads a log and hands on what comes, in order and each line once. Following, it connects again when the
// connection is lost, as often as it takes.
func (c *Client) Logs(ctx context.Context, namespace, name string, o LogOptions, wait Wait, each func(LogEvent) error) error {
	var at position
	const firstDelay, maxDelay = time.Second, 30 * time.Second
	delay := firstDelay
	for {
		before := at
		ended, err := c.stream(ctx, namespace, name, o, &at, each)
		if ended || err == nil && !o.Follow {
			return nil
		}
		var lost *Unreachable
		if err != nil && (!errors.As(err, &lost) || !o.Follow || ctx.Err() != nil) {
			return err
		}
		if at != before {
			delay = firstDelay
		}
		if err := wait(ctx, delay); err != nil {
			return err
		}
		delay = min(2*delay, maxDelay)
		if at.any {
			o.Tail = overlap
		}
	}
}

// position is how far a log was read: the time of the last line, and how many lines had that time.
type position struct {
	time time.Time
	same int
	any  bool
}

// skipper skips what was read before, once a log is read again.
type skipper struct {
	from    position
	same    int
	found   bool
	checked bool
}

// skip says whether a line was read before.
func (s *skipper) skip(t time.Time) bool {
	switch {
	case !s.from.any || t.After(s.from.time):
		return false
	case t.Equal(s.from.time):
		s.same++
		s.found = true
		return s.same <= s.from.same
	}
	s.found = true
	return true
}

// gap says, once, whether the first new line may not be the next one.
func (s *skipper) gap() bool {
	if s.checked || !s.from.any {
		return false
	}
	s.checked = true
	return !s.found
}

func (p *position) advance(t time.Time) {
	if p.any && t.Equal(p.time) {
		p.same++
		return
	}
	*p = position{time: t, same: 1, any: true}
}

// stream reads one answer to its end.
func (c *Client) stream(ctx context.Context, namespace, name string, o LogOptions, at *position, each func(LogEvent) error) (ended bool, err error) {
	body, err := c.get(ctx, namespace, name, "logs", o.query())
	if err != nil {
		return false, err
	}
	defer func() { _ = body.Close() }()
	before := skipper{from: *at}
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 64<<10), maxRecord)
	for lines.Scan() {
		ended, err := relay(lines.Bytes(), &before, at, each)
		if ended || err != nil {
			return ended, err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return false, fmt.Errorf("a line of the log is longer than %d MiB", maxRecord>>20)
	case err != nil && ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		return false, &Unreachable{err}
	case o.Follow:
		return false, &Unreachable{io.ErrUnexpectedEOF}
	}
	return false, nil
}

// relay hands one record on.
func relay(line []byte, before *skipper, at *position, each func(LogEvent) error) (ended bool, err error) {
	if len(line) == 0 {
		return false, nil
	}
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return false, fmt.Errorf("the dashboard's answer is no log: is --server right? %w", err)
	}
	switch {
	case r.End != "":
		return true, each(LogEvent{End: r.End})
	case r.Lost > 0:
		before.checked = true
		return false, each(LogEvent{Lost: r.Lost})
	}
	t, _ := time.Parse(time.RFC3339Nano, r.Time) // a line without a time is never left out
	if !t.IsZero() {
		if before.skip(t) {
			return false, nil
		}
		if before.gap() {
			if err := each(LogEvent{MayBeLost: true}); err != nil {
				return false, err
			}
		}
		at.advance(t)
	}
	return false, each(LogEvent{Time: t, Text: r.Text})
}
