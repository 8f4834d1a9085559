package nodeusage

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/minifleet/minifleet/internal/fleet"
)

// amount is CPU in millicores, memory in bytes, and whole GPUs.
type amount struct{ cpu, memory, gpu int64 }

func (a *amount) add(b amount) {
	a.cpu += b.cpu
	a.memory += b.memory
	a.gpu += b.gpu
}

func amountOf(list corev1.ResourceList) amount {
	a := amount{cpu: list.Cpu().MilliValue(), memory: list.Memory().Value()}
	for name, q := range list {
		if fleet.IsGPU(name) {
			a.gpu += q.Value()
		}
	}
	return a
}

// usage is what the pods on a node use: all of them, and those of them that stay there.
type usage struct {
	node       string
	all, fixed fleet.Amounts
}

func newUsage(node string) *usage {
	return &usage{node: strings.Clone(node), all: fleet.Amounts{}, fixed: fleet.Amounts{}}
}

// add adds the requests of a pod, or takes them away.
func (u *usage) add(p *pod, sign int64) {
	sums := []fleet.Amounts{u.all}
	if p.kind == staysOnNode {
		sums = append(sums, u.fixed)
	}
	for _, sum := range sums {
		sum[corev1.ResourcePods] += sign
		sum[corev1.ResourceCPU] += sign * p.amount.cpu
		sum[corev1.ResourceMemory] += sign * p.amount.memory
		eachExtra(p.extra, func(name string, n int64) { sum[corev1.ResourceName(name)] += sign * n })
	}
}

// amount is the part of a usage that is shown to people.
func (u *usage) amount() amount {
	a := amount{cpu: u.all[corev1.ResourceCPU], memory: u.all[corev1.ResourceMemory]}
	for name, n := range u.all {
		if fleet.IsGPU(name) {
			a.gpu += n
		}
	}
	return a
}

// extraOf writes what a pod requests besides CPU and memory as NAME=AMOUNT,…, by name: most pods have none,
// and those that have some are compared with ==.
func extraOf(list corev1.ResourceList) string {
	var parts []string
	for name, q := range list {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory && !q.IsZero() {
			parts = append(parts, string(name)+"="+strconv.FormatInt(q.Value(), 10))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

func eachExtra(extra string, f func(name string, n int64)) {
	for extra != "" {
		var part string
		part, extra, _ = strings.Cut(extra, ",")
		name, amount, _ := strings.Cut(part, "=")
		if n, err := strconv.ParseInt(amount, 10, 64); err == nil {
			f(name, n)
		}
	}
}

// cores writes millicores for people, rounded down to tenths of a core.
func cores(milli int64) string { return fleet.Cores(milli - milli%100) }

// binary rounds down to whole MiB, or GiB from 10 GiB on.
func binary(bytes int64) string {
	unit := int64(1) << 20
	if bytes >= 10<<30 {
		unit = 1 << 30
	}
	return resource.NewQuantity(bytes-bytes%unit, resource.BinarySI).String()
}
