package main

import (
	"os"
	"syscall"
)

// rootDirectory has a process see a directory as /. Who is not root is root of a user namespace for it.
func rootDirectory(dir string) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Chroot: dir}
	if os.Getuid() != 0 {
		attributes.Cloneflags = syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return attributes
}
