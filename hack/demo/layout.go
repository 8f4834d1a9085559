package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// layout says where everything is.
type layout struct{ root string }

func (l layout) dir() string { return filepath.Join(l.root, ".demo") }
func (l layout) in(elements ...string) string {
	return filepath.Join(append([]string{l.dir()}, elements...)...)
}

func (l layout) bin(name string) string    { return filepath.Join(l.root, "bin", name) }
func (l layout) crds() string              { return filepath.Join(l.root, "config", "crd", "bases") }
func (l layout) policies() string          { return filepath.Join(l.root, "config", "policy") }
func (l layout) pids() string              { return l.in("pids") }
func (l layout) logs() string              { return l.in("logs") }
func (l layout) hub() string               { return l.in("hub.kubeconfig") }
func (l layout) member(name string) string { return l.in("members", name+".kubeconfig") }
func (l layout) dashboard() string         { return l.in("dashboard") }
func (l layout) token() string             { return l.in("token") }
func (l layout) clone() string             { return l.in("fleet") }
func (l layout) commands() string          { return l.in("commands.json") }

// lock makes sure that no other demo is being started, and returns what ends the exclusion. The system
// ends it also when this process dies.
func (l layout) lock() (unlock func(), err error) {
	if err := os.MkdirAll(l.dir(), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(l.in(lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, errStarting
	}
	return func() { _ = file.Close() }, nil
}

const lockName = "lock"

var errStarting = fmt.Errorf("another `make demo` is at work here: wait for it, or end it with Ctrl-C where it runs")

// clear removes what an earlier demo left, except for the lock.
func (l layout) clear() error {
	entries, err := os.ReadDir(l.dir())
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == lockName {
			continue
		}
		if err := os.RemoveAll(l.in(entry.Name())); err != nil {
			return err
		}
	}
	return nil
}
