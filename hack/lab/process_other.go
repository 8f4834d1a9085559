//go:build !linux

package lab

import "syscall"

// processAttributes gives a process its own group, so that a Ctrl-C at the terminal does not reach it
// before this process has decided what to do.
func processAttributes(detach bool) *syscall.SysProcAttr {
	if detach {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}
