//go:build !linux

package build

func probe() {}
