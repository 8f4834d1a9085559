//go:build unix

package build

import (
	"os/exec"
	"syscall"
)

// isolate gives a process a group of its own, which is killed as a whole, and a folder that is not the hub's.
func isolate(cmd *exec.Cmd) {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
