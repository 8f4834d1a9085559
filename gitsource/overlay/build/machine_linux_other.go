//go:build linux && !amd64 && !arm64

package build

// machine is what the kernel calls this one; 0: there is no filter for it.
const machine = 0

var allowedHere []uint32
