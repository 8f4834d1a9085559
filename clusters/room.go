package clusters

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// RoomState says what is known of a member's free room.
type RoomState string

// Values of RoomState.
const (
	// RoomKnown says that Room.Nodes are all nodes.
	RoomKnown RoomState = "Known"
	// RoomUnknown says that nothing is known and nothing will be: capacity is not observed, the credentials do
	// not show it, or the member has no node at all until it needs one.
	RoomUnknown RoomState = "Unknown"
	// RoomPending says that nodes and pods have not been listed yet.
	RoomPending RoomState = "Pending"
)

// Room is what a member has free, node by node. Nothing in it may be changed.
type Room struct {
	State RoomState
	Nodes []fleet.Node

	scheduled map[string]fleet.Scheduled
}

// count adds n pods of a kind.
func count(s *fleet.Scheduled, kind podKind, n int) {
	if kind == servesRun {
		s.Services += n
		return
	}
	s.Pods += n
}

// Scheduled tells how many pods of a run have a node.
func (r *Room) Scheduled(run string) fleet.Scheduled { return r.scheduled[run] }

// Room is what is free now. Pods of the runs given are counted as gone.
func (m *Member) Room(without ...string) *Room { return m.capacity.roomWithout(without) }

// RoomState is that of Room.
func (m *Member) RoomState() RoomState {
	m.capacity.mu.Lock()
	defer m.capacity.mu.Unlock()
	return m.capacity.state()
}

// RoomTrouble is what the member last answered instead of its nodes or pods; empty if it has not answered, or with
// these.
func (m *Member) RoomTrouble() string {
	m.capacity.mu.Lock()
	defer m.capacity.mu.Unlock()
	if m.capacity.failed == nil {
		return ""
	}
	return m.capacity.failed.Error()
}

func (c *capacity) pending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state() == RoomPending
}

func (c *capacity) roomWithout(without []string) *Room {
	c.mu.Lock()
	defer c.mu.Unlock()
	without = slices.DeleteFunc(slices.Clone(without), func(run string) bool { return c.runs[run] == (fleet.Scheduled{}) })
	if c.room != nil && len(without) == 0 {
		return c.room
	}
	r := &Room{State: c.state(), scheduled: maps.Clone(c.runs)}
	if r.State == RoomKnown {
		r.Nodes = c.rooms(c.usedBy(without))
	}
	if len(without) == 0 {
		c.room = r
	}
	return r
}

func (c *capacity) state() RoomState {
	switch {
	case c.member != nil && c.off(), c.denied.nodes, c.denied.pods:
		return RoomUnknown
	case !c.listed.nodes || !c.listed.pods:
		return RoomPending
	case len(c.nodes) == 0:
		return RoomUnknown
	default:
		return RoomKnown
	}
}

// usedBy sums, by node, what the pods of these runs use.
func (c *capacity) usedBy(runs []string) map[string]*usage {
	if len(runs) == 0 {
		return nil
	}
	out := map[string]*usage{}
	for _, p := range c.pods {
		if p.run == "" || !slices.Contains(runs, p.run) {
			continue
		}
		if out[p.at.node] == nil {
			out[p.at.node] = newUsage(p.at.node)
		}
		out[p.at.node].add(&p, 1)
	}
	return out
}

// rooms lists nodes by name. What is in gone is counted as free.
func (c *capacity) rooms(gone map[string]*usage) []fleet.Node {
	out := make([]fleet.Node, 0, len(c.nodes))
	for _, n := range c.nodes {
		r := fleet.Node{Name: n.name, Labels: n.labels, Taints: n.taints, Unschedulable: !n.schedulable, Total: n.total, Free: n.total}
		if u := c.used[n.name]; u != nil {
			r.Total, r.Free = less(n.total, u.fixed), less(n.total, u.all)
			if g := gone[n.name]; g != nil {
				for name, amount := range g.all {
					r.Free[name] += amount
				}
			}
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b fleet.Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func less(total, used fleet.Amounts) fleet.Amounts {
	out := maps.Clone(total)
	for name, amount := range used {
		out[name] -= amount
	}
	return out
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
		if strings.HasSuffix(string(name), "/gpu") {
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

// podKindOf tells pods apart. Those of Jobs do not bear the label that MiniFleet's own objects do. Pods that
// are always restarted never end by themselves, unless they are being deleted: those of Deployments and DaemonSets,
// and of the kubelet.
func podKindOf(p *corev1.Pod) podKind {
	switch {
	case p.Labels[v1alpha1.LabelRun] != "" && p.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy:
		return servesRun
	case p.Spec.RestartPolicy == corev1.RestartPolicyAlways && p.DeletionTimestamp.IsZero():
		return staysOnNode
	default:
		return comesAndGoes
	}
}
