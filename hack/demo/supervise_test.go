package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minifleet/minifleet/hack/lab"
)

func TestBackOff(t *testing.T) {
	b := backOff{first: time.Second, most: 5 * time.Second, calm: time.Minute}
	for name, tc := range map[string]struct{ before, ran, want time.Duration }{
		"the first time":            {0, 0, time.Second},
		"again":                     {time.Second, 0, 2 * time.Second},
		"many times":                {4 * time.Second, 0, 5 * time.Second},
		"after it has run for long": {5 * time.Second, time.Minute, time.Second},
	} {
		if got := b.next(tc.before, tc.ran); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// A process that is killed comes back, and none is there once its supervisor has been told to end.
func TestSupervise(t *testing.T) {
	dir := t.TempDir()
	starts := filepath.Join(dir, "starts")
	p := &lab.Process{
		Name: "it", Path: "/bin/sh", Args: []string{"-c", "echo >> " + starts + "; exec sleep 60"},
		PidsDir: filepath.Join(dir, "pids"), LogsDir: filepath.Join(dir, "logs"),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- supervise(ctx, p, backOff{10 * time.Millisecond, 20 * time.Millisecond, time.Minute}, io.Discard)
	}()
	for want := 1; want <= 3; want++ {
		within(t, func() bool {
			text, _ := os.ReadFile(starts)
			running, err := lab.Running(p.PidsDir)
			return err == nil && running[p.Name] != 0 && strings.Count(string(text), "\n") == want
		})
		running, _ := lab.Running(p.PidsDir)
		if err := syscall.Kill(running[p.Name], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	within(t, func() bool {
		text, _ := os.ReadFile(starts)
		return strings.Count(string(text), "\n") == 4
	})
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(p.PidsDir); err != nil || len(left) > 0 || p.Running() {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestSuperviseWhatCannotStart(t *testing.T) {
	dir := t.TempDir()
	p := &lab.Process{Name: "it", Path: filepath.Join(dir, "missing"), PidsDir: dir, LogsDir: dir}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	said := &counter{what: "is started again", enough: 3, then: cancel}
	if err := supervise(ctx, p, backOff{time.Millisecond, time.Millisecond, time.Minute}, said); err != nil || said.n < said.enough {
		t.Errorf("it was tried %d times: %v", said.n, err)
	}
}

// counter counts what is said, and acts when it has been said often enough.
type counter struct {
	what      string
	n, enough int
	then      func()
}

func (c *counter) Write(text []byte) (int, error) {
	if c.n += strings.Count(string(text), c.what); c.n >= c.enough {
		c.then()
	}
	return len(text), nil
}

func within(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 10 s")
		}
	}
}
