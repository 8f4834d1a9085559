package credentialplugin

import (
	"errors"
	"os/exec"
	"syscall"
)

// endGroup kills what a plugin has left behind, and waits for it in the background where it has become a child of the controller,
// which is the first process of its container: nobody else does.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process == nil {
		return
	}
	group := -cmd.Process.Pid
	if syscall.Kill(group, syscall.SIGKILL) != nil {
		return // there is nothing
	}
	go func() {
		for {
			if _, err := syscall.Wait4(group, nil, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	}()
}

// inGroup has a plugin killed together with what it has started.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
