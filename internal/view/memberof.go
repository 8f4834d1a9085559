package view

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// maxNodes is how many nodes of a member are told of.
const maxNodes = 5000

// MemberOf is a member for a reader who may see members. Live and waiting are of what the reader may see.
func MemberOf(m *v1alpha1.MemberCluster, live, waiting int, sees Sees) Member {
	draining, _ := m.Draining()
	out := Member{
		Name: m.Name, Reason: "Connecting", Message: "has not been reached yet", Labels: labelsOf(m.Labels), Taints: taintsOf(m.Spec.Taints),
		Version: sanitize.Text(m.Status.Version, maxName), Cordoned: m.Spec.Suspend, Draining: draining != "",
		Drained: meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionDrained), Deleting: !m.DeletionTimestamp.IsZero(),
		Room: RoomOf(m.Status.Capacity), Live: live, Waiting: waiting, Unowned: len(unownedFor(m, sees)), Since: m.CreationTimestamp.Time,
	}
	if ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		out.Ready, out.Reason, out.Since = ready.Status == metav1.ConditionTrue, ready.Reason, ready.LastTransitionTime.Time
		out.Message = sanitize.Text(ready.Message, maxText)
	}
	if !out.Ready {
		out.LastHeard = timeOf(m.Status.LastHeardTime)
		out.Room = nil // what it has free now is not known
	}
	for i := range m.Status.Orphans {
		if sees.has(namespaceOf(m.Status.Orphans[i].Owner)) {
			out.Orphans++
		}
	}
	return out
}

// namespaceOf is that of NAMESPACE/NAME.
func namespaceOf(owner string) string {
	namespace, _, _ := strings.Cut(owner, "/")
	return namespace
}

// unownedFor are the Jobs without an owner that are, or were, of namespaces which the reader may see.
func unownedFor(m *v1alpha1.MemberCluster, sees Sees) []UnownedJob {
	out := []UnownedJob{}
	for _, j := range m.Status.UnownedJobs {
		namespace := namespaceOf(j.Owner)
		if namespace == "" {
			namespace = j.Namespace
		}
		if sees.has(namespace) {
			out = append(out, UnownedJob{
				Namespace: j.Namespace, Name: j.Name, Owner: sanitize.Text(j.Owner, maxText), Run: sanitize.Text(j.Run, maxName), Since: j.Since.Time,
			})
		}
	}
	return out
}

func taintsOf(taints []v1alpha1.Taint) []Taint {
	out := make([]Taint, 0, len(taints))
	for _, t := range taints {
		out = append(out, Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return out
}

// MemberDetailOf is a member with its nodes. Others says that something is there, or was, that the reader may not see: then
// what the hub says of runs and of what they leave is not told, for it names them.
func MemberDetailOf(m Member, of *v1alpha1.MemberCluster, nodes []fleet.Node, others bool, sees Sees) MemberDetail {
	c := Context{Sees: sees}
	out := MemberDetail{
		Member: m, Conditions: conditionsOf(of.Status.Conditions, &c), Nodes: NodesOf(nodes), Runs: []Run{},
		Line: Line{Member: m.Name, StaleSince: m.LastHeard, Places: []Place{}}, UnownedJobs: unownedFor(of, sees), Actions: []Action{},
	}
	hidden := others || len(out.UnownedJobs) < len(of.Status.UnownedJobs) || m.Orphans < len(of.Status.Orphans)
	for i := range out.Conditions {
		if cond := &out.Conditions[i]; hidden && cond.Type != v1alpha1.ConditionReady {
			cond.Message = "it is about runs of others as well"
		}
	}
	return out
}

// NodesOf are the nodes of a member, by name.
func NodesOf(nodes []fleet.Node) []Node {
	out := make([]Node, 0, min(len(nodes), maxNodes))
	for i := range nodes[:min(len(nodes), maxNodes)] {
		n := &nodes[i]
		taints := make([]Taint, 0, len(n.Taints))
		for _, t := range n.Taints {
			taints = append(taints, Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
		out = append(out, Node{Name: n.Name, Free: amountOf(n.Free), Total: amountOf(n.Total), Unschedulable: n.Unschedulable, Taints: taints})
	}
	slices.SortFunc(out, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// RoomOf reads the totals in the status of a member; nil where they are not known.
func RoomOf(c *v1alpha1.MemberCapacity) *Room {
	if c == nil {
		return nil
	}
	r := &Room{Nodes: c.Nodes}
	var ok [2]bool
	r.Free.CPU, r.Total.CPU, ok[0] = fraction(c.CPU)
	r.Free.Memory, r.Total.Memory, ok[1] = fraction(c.Memory)
	r.Free.GPUs, r.Total.GPUs, _ = fraction(c.GPUs)
	if !ok[0] || !ok[1] {
		return nil
	}
	return r
}

// fraction reads FREE/TOTAL.
func fraction(s string) (free, total float64, ok bool) {
	a, b, _ := strings.Cut(s, "/")
	f, err := resource.ParseQuantity(a)
	if err != nil {
		return 0, 0, false
	}
	t, err := resource.ParseQuantity(b)
	if err != nil {
		return 0, 0, false
	}
	return f.AsApproximateFloat64(), t.AsApproximateFloat64(), true
}

// Add adds the room of another member; nil stands for none.
func (r *Room) Add(o *Room) *Room {
	switch {
	case o == nil:
		return r
	case r == nil:
		sum := *o
		return &sum
	}
	r.Nodes += min(o.Nodes, math.MaxInt32-r.Nodes)
	r.Free = r.Free.plus(o.Free)
	r.Total = r.Total.plus(o.Total)
	return r
}

func (a Amount) plus(o Amount) Amount {
	return Amount{CPU: a.CPU + o.CPU, Memory: a.Memory + o.Memory, GPUs: a.GPUs + o.GPUs}
}

// OnMemberCount counts what some FleetMiniClusters have on a member.
type OnMemberCount struct{ Live, Waiting int }

// CountOnMembers counts live runs, and those that wait for room, by member.
func CountOnMembers(entries []*Entry) map[string]OnMemberCount {
	out := map[string]OnMemberCount{}
	for _, e := range entries {
		for i := range e.Object.Status.Runs {
			if r := &e.Object.Status.Runs[i]; !r.State.Ended() {
				c := out[r.Cluster]
				c.Live++
				out[r.Cluster] = c
			}
		}
		if p := e.Object.Status.Placement; e.WaitsForRoom && p != nil {
			for _, w := range p.Waiting {
				c := out[w.Name]
				c.Waiting++
				out[w.Name] = c
			}
		}
	}
	return out
}

// LiveRuns are the live runs of some FleetMiniClusters on a member, by namespace and name.
func LiveRuns(entries []*Entry, member string, contexts Contexts) []Run {
	out := []Run{}
	for _, e := range entries {
		for i := range e.Object.Status.Runs {
			if r := &e.Object.Status.Runs[i]; r.Cluster == member && !r.State.Ended() {
				c := contexts(e)
				out = append(out, RunOf(e.Object, r, &c))
			}
		}
	}
	slices.SortFunc(out, func(a, b Run) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return out
}
