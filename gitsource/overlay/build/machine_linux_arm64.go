package build

import "golang.org/x/sys/unix"

// machine is what the kernel calls this one.
const machine = unix.AUDIT_ARCH_AARCH64

var allowedHere []uint32
