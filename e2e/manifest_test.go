package e2e

import (
	"fmt"
	"strings"
	"time"
)

const second = time.Second

// manifest is a MiniCluster file in the making.
type manifest struct {
	name, placement string
	size, maxSize   int
	image           string
	pod             map[string]string // annotations of the pods: what the lab is asked to do with them
}

func miniCluster(name string) *manifest {
	return &manifest{name: name, size: 2, image: "example.org/lammps:latest", pod: map[string]string{}}
}

func (m *manifest) on(placement string) *manifest { m.placement = placement; return m }
func (m *manifest) pods(n int) *manifest          { m.size = n; return m }
func (m *manifest) upTo(n int) *manifest          { m.maxSize = n; return m }
func (m *manifest) of(image string) *manifest     { m.image = image; return m }

// held keeps the pods running until they are released.
func (m *manifest) held() *manifest { m.pod["lab.minifleet.dev/hold"] = "true"; return m }

// lasting makes the pods run for some seconds.
func (m *manifest) lasting(seconds int) *manifest {
	m.pod["lab.minifleet.dev/seconds"] = fmt.Sprint(seconds)
	return m
}

func (m *manifest) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata:\n  name: %s\n", m.name)
	if m.placement != "" {
		fmt.Fprintf(&b, "  labels:\n    minifleet.dev/placement: %s\n", m.placement)
	}
	fmt.Fprintf(&b, "spec:\n  size: %d\n", m.size)
	if m.maxSize > 0 {
		fmt.Fprintf(&b, "  maxSize: %d\n", m.maxSize)
	}
	if len(m.pod) > 0 {
		b.WriteString("  pod:\n    annotations:\n")
		for k, v := range m.pod {
			fmt.Fprintf(&b, "      %s: %q\n", k, v)
		}
	}
	fmt.Fprintf(&b, "  containers:\n    - image: %s\n      command: lmp -in in.reaxc.hns\n", m.image)
	return b.String()
}
