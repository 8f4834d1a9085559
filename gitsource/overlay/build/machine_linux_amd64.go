package build

import "golang.org/x/sys/unix"

// machine is what the kernel calls this one.
const machine = unix.AUDIT_ARCH_X86_64

var allowedHere = []uint32{unix.SYS_EPOLL_WAIT, unix.SYS_ARCH_PRCTL}
