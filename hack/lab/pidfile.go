package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A pid file, NAME, holds the pid and nothing else, for `kill $(cat NAME)`. Beside it the hidden file
// .NAME holds the identity of the process, because a pid alone may by now be somebody else's.

func writePidFile(dir, name string, pid int) error {
	identity, err := processIdentity(pid)
	if err != nil {
		return fmt.Errorf("identifying %s (pid %d): %w", name, pid, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "."+name), []byte(identity+"\n"), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), []byte(strconv.Itoa(pid)+"\n"), 0o644)
}

func removePidFile(dir, name string) error {
	var errs []error
	for _, file := range []string{name, "." + name} {
		if err := os.Remove(filepath.Join(dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Running returns the processes that the pid files in dir lead to and that still run, as name to pid.
// A missing directory holds none.
func Running(dir string) (map[string]int, error) {
	names, err := pidFiles(dir)
	if err != nil {
		return nil, err
	}
	running := map[string]int{}
	for _, name := range names {
		if pid, ok := pidFromFile(dir, name); ok {
			running[name] = pid
		}
	}
	return running, nil
}

// StopAll stops every process that the pid files in dir lead to, waits until they have ended, and
// removes the files, and the directory if nothing else is in it. A pid that by now belongs to another
// process is left alone. It works from any process: nothing but the files is needed.
//
// etcd goes last, since API servers cannot end in good order without it.
func StopAll(dir string) error {
	names, err := pidFiles(dir)
	if err != nil {
		return err
	}
	var last []string
	var errs []error
	pids := map[string]int{}
	for _, name := range names {
		if name == etcdName {
			last = append(last, name)
			continue
		}
		if pid, ok := pidFromFile(dir, name); ok {
			pids[name] = pid
		}
	}
	errs = append(errs, endPids(pids))
	for _, name := range last {
		if pid, ok := pidFromFile(dir, name); ok {
			errs = append(errs, endPids(map[string]int{name: pid}))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, name := range names {
		errs = append(errs, removePidFile(dir, name))
	}
	_ = os.Remove(dir) // what else is in it is not ours
	return errors.Join(errs...)
}

func pidFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.Type().IsRegular() && !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// pidFromFile returns the pid that a pid file holds, if the process is still the one it was written for.
func pidFromFile(dir, name string) (int, bool) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return 0, false
	}
	recorded, err := os.ReadFile(filepath.Join(dir, "."+name))
	if err != nil {
		return 0, false
	}
	identity, err := processIdentity(pid)
	if err != nil || identity != strings.TrimSpace(string(recorded)) {
		return 0, false
	}
	return pid, true
}

// endPids asks the processes, given by name, to end, and kills those that have not after stopGrace.
// Each leads a group, and what it started ends with it.
func endPids(pids map[string]int) error {
	identities := map[int]string{}
	for _, pid := range pids {
		if identity, err := processIdentity(pid); err == nil {
			identities[pid] = identity
			_ = syscall.Kill(-pid, syscall.SIGTERM)
			_ = syscall.Kill(-pid, syscall.SIGCONT) // it may be paused
		}
	}
	deadline := time.Now().Add(stopGrace)
	killed := false
	for len(identities) > 0 {
		for pid, identity := range identities {
			if now, err := processIdentity(pid); err != nil || now != identity {
				delete(identities, pid)
			}
		}
		if !killed && time.Now().After(deadline) {
			for pid := range identities {
				_ = syscall.Kill(-pid, syscall.SIGKILL)
			}
			killed = true
			deadline = deadline.Add(stopGrace)
		}
		if killed && time.Now().After(deadline) {
			return fmt.Errorf("processes %v do not end", identities)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

var errNoProcess = errors.New("no such process")

// processIdentity returns a text that differs between any two processes that ever had the pid: when it
// started, and on Linux in which boot. A process that has ended and only waits for its parent to take
// notice counts as ended.
func processIdentity(pid int) (string, error) {
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		return linuxIdentity(pid, strings.TrimSpace(string(boot)))
	}
	output, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	state, start, _ := strings.Cut(strings.TrimSpace(string(output)), " ")
	if err != nil || state == "" || strings.HasPrefix(state, "Z") {
		return "", errNoProcess
	}
	return strings.Join(strings.Fields(start), " "), nil
}

func linuxIdentity(pid int, boot string) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", errNoProcess
	}
	// The second field, the program's name in parentheses, may itself hold spaces and parentheses.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, start = 0, 19 // fields 3 and 22, of which two are cut off
	if len(fields) <= start || fields[state] == "Z" || fields[state] == "X" {
		return "", errNoProcess
	}
	return boot + " " + fields[start], nil
}
