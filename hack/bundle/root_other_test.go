//go:build !linux

package main

import "syscall"

// rootDirectory has a process see a directory as /, which takes root here.
func rootDirectory(dir string) *syscall.SysProcAttr { return &syscall.SysProcAttr{Chroot: dir} }
