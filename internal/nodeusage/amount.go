package nodeusage

import (
	"cmp"
	"maps"
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
	// ending counts the pods that do not stay, by what they request. groups is the list made of it, nil until it is asked
	// for; it is never changed.
	ending map[requests]int
	groups []fleet.PodGroup
}

// requests are those of a pod, to be compared with ==.
type requests struct {
	cpu, memory int64
	extra       string
}

// maxGroups is how many groups of pods are listed of a node: enough for a few runs beside each other.
const maxGroups = 16

func newUsage(node string) *usage {
	return &usage{node: strings.Clone(node), all: fleet.Amounts{}, fixed: fleet.Amounts{}}
}

// add adds the requests of a pod, or takes them away.
func (u *usage) add(p *pod, sign int64) {
	sums := []fleet.Amounts{u.all}
	if p.kind == staysOnNode {
		sums = append(sums, u.fixed)
	} else {
		u.count(requests{p.amount.cpu, p.amount.memory, p.extra}, int(sign))
	}
	for _, sum := range sums {
		sum[corev1.ResourcePods] += sign
		sum[corev1.ResourceCPU] += sign * p.amount.cpu
		sum[corev1.ResourceMemory] += sign * p.amount.memory
		eachExtra(p.extra, func(name string, n int64) { sum[corev1.ResourceName(name)] += sign * n })
	}
}

// count notes that more or fewer pods request the same.
func (u *usage) count(r requests, n int) {
	if u.ending == nil {
		u.ending = map[requests]int{}
	}
	if u.ending[r] += n; u.ending[r] == 0 {
		delete(u.ending, r)
	}
	u.groups = nil
}

// listed are the pods that do not stay; ok is false where they request too many different things.
func (u *usage) listed() (groups []fleet.PodGroup, ok bool) {
	if len(u.ending) > maxGroups {
		return nil, false
	}
	if u.groups == nil && len(u.ending) > 0 {
		u.groups = groupsOf(u.ending)
	}
	return u.groups, true
}

func groupsOf(ending map[requests]int) []fleet.PodGroup {
	keys := slices.SortedFunc(maps.Keys(ending), func(a, b requests) int {
		return cmp.Or(cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.memory, b.memory), strings.Compare(a.extra, b.extra))
	})
	out := make([]fleet.PodGroup, len(keys))
	for i, k := range keys {
		amounts := fleet.Amounts{corev1.ResourcePods: 1, corev1.ResourceCPU: k.cpu, corev1.ResourceMemory: k.memory}
		eachExtra(k.extra, func(name string, n int64) { amounts[corev1.ResourceName(name)] = n })
		out[i] = fleet.PodGroup{Requests: amounts, Count: ending[k]}
	}
	return out
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
