package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a process may take to end by itself when it is asked to.
const stopGrace = 10 * time.Second

// Process is a program that runs in the background with a pid file and a log file. Fill in the
// exported fields, then Start it; it can be started again after it has ended.
type Process struct {
	// Name is the name of the pid file and of the log file, to which each start appends.
	Name string
	// Path and Args are the program and its arguments, without the program's name; Env (KEY=VALUE) is
	// added to this process's environment; Dir is the working directory, by default this process's.
	Path string
	Args []string
	Env  []string
	Dir  string
	// PidsDir and LogsDir hold the two files; both are made when missing.
	PidsDir, LogsDir string
	// Detach leaves the process running when this one ends (see StopAll). Otherwise it dies with this
	// process, however that ends; on systems other than Linux, only if it is stopped.
	Detach bool

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// spawner is where all processes are started: one goroutine that never leaves its thread. Linux sends
// the parent-death signal when the starting *thread* ends, and Go ends threads as it sees fit.
var spawner = sync.OnceValue(func() chan<- func() {
	jobs := make(chan func())
	go func() {
		runtime.LockOSThread()
		for job := range jobs {
			job()
		}
	}()
	return jobs
})

// Start starts the process and writes its pid file. It is an error if it runs already.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runningLocked() {
		return fmt.Errorf("%s runs already", p.Name)
	}
	for _, dir := range []string{p.PidsDir, p.LogsDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(p.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()

	cmd := exec.Command(p.Path, p.Args...)
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Dir = p.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = processAttributes(p.Detach)

	started := make(chan error)
	spawner() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		_ = cmd.Wait() // how it ended is in the log; that it ended is all that counts here
		close(done)
	}()
	if err := writePidFile(p.PidsDir, p.Name, cmd.Process.Pid); err != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-done
		return err
	}
	return nil
}

// LogPath returns where the process's output is.
func (p *Process) LogPath() string { return filepath.Join(p.LogsDir, p.Name) }

// Pid returns the process's id, 0 if it never started.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Running says whether the process has started and not ended. A paused process runs.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runningLocked()
}

func (p *Process) runningLocked() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Exited returns a channel that is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		never := make(chan struct{})
		close(never)
		return never
	}
	return p.done
}

// Signal sends a signal to the process and to what it started.
func (p *Process) Signal(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		return fmt.Errorf("%s does not run", p.Name)
	}
	return syscall.Kill(-p.cmd.Process.Pid, signal)
}

// Pause stops the process from doing anything, without its peers noticing: connections stay open and
// are accepted by the system, and nothing answers.
func (p *Process) Pause() error { return p.Signal(syscall.SIGSTOP) }

// Resume undoes Pause.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Stop asks the process to end, kills it when it takes more than 10 s, waits until it has ended and
// removes its pid file. Stopping what does not run is no error.
func (p *Process) Stop() error { return p.end(syscall.SIGTERM) }

// Kill ends the process at once, waits until it has ended and removes its pid file.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL) }

func (p *Process) end(signal syscall.Signal) error {
	if err := p.Signal(signal); err == nil {
		_ = p.Signal(syscall.SIGCONT) // a paused process cannot heed any other signal
		select {
		case <-p.Exited():
		case <-time.After(stopGrace):
			if err := p.Signal(syscall.SIGKILL); err != nil && p.Running() {
				return fmt.Errorf("killing %s: %w", p.Name, err)
			}
			<-p.Exited()
		}
	}
	return removePidFile(p.PidsDir, p.Name)
}

// exitError describes an end that was not asked for, with the last lines of the log.
func (p *Process) exitError() error {
	return fmt.Errorf("%s ended: %s", p.Name, p.LogTail())
}

// LogTail is the end of the process's log, at most 2000 bytes and whole lines if it has any, for an error message.
func (p *Process) LogTail() string {
	const size = 2000
	data, err := os.ReadFile(p.LogPath())
	if err != nil {
		return err.Error()
	}
	if len(data) > size {
		data = data[len(data)-size:]
		if _, whole, _ := bytes.Cut(data, []byte("\n")); len(whole) > 0 {
			data = whole
		}
	}
	return fmt.Sprintf("the end of %s:\n%s", p.LogPath(), bytes.TrimSpace(data))
}

// bindConflict says whether the process ended because another one took its port first.
func (p *Process) bindConflict() bool {
	return !p.Running() && strings.Contains(p.LogTail(), "address already in use")
}

// endProcesses ends all of them at once.
func endProcesses(processes []*Process, end func(*Process) error) error {
	errs := make([]error, len(processes))
	var group sync.WaitGroup
	for i, process := range processes {
		group.Go(func() { errs[i] = end(process) })
	}
	group.Wait()
	return errors.Join(errs...)
}
