//go:build !linux

package build

// confine has nothing to ask of this kernel: the command line of a person builds with what the code refuses alone.
func confine(int64, uint64) {}
