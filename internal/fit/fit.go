// Package fit says whether the pods of a MiniCluster have room on the nodes of a member. It is pure: nodes, with what is
// free on them, and a gang of pods come in; out goes how many of the pods have room, and what the others lack.
//
// The pods of a MiniCluster are equal, so it is enough to count how many of them each node takes. What
// counts is what makes a scheduler refuse a node: requests, the limit of pods, node selector, required
// node affinity, and taints. Volumes, host ports, quota, and pods that would be preempted are not.
package fit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/minifleet/minifleet/internal/fleet"
)

// Pod is what a pod needs of a node.
type Pod struct {
	// Requests are those of the pod, init containers and overhead included, and 1 of the resource pods.
	Requests fleet.Amounts

	spec *corev1.PodSpec // the parts that choose nodes; nil for any node without taints
	// node matches nodeSelector and required node affinity.
	node nodeaffinity.RequiredNodeAffinity
	// Key is the same for pods that need the same.
	Key string
}

// PodOf reads what a pod of this spec needs. A limit without a request counts as one, as the API server
// makes it one.
func PodOf(spec *corev1.PodSpec) Pod {
	full := corev1.Pod{Spec: *spec.DeepCopy()}
	for _, containers := range [][]corev1.Container{full.Spec.Containers, full.Spec.InitContainers} {
		for i := range containers {
			request(&containers[i].Resources)
		}
	}
	p := Pod{Requests: fleet.AmountsOf(podresources.PodRequests(&full, podresources.PodResourcesOptions{}))}
	maps.DeleteFunc(p.Requests, func(_ corev1.ResourceName, n int64) bool { return n <= 0 })
	p.Requests[corev1.ResourcePods] = 1
	p.spec = &corev1.PodSpec{NodeSelector: full.Spec.NodeSelector, Tolerations: full.Spec.Tolerations}
	if a := full.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		p.spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		}}
	}
	p.node = nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *p.spec})
	key, err := json.Marshal(struct {
		Requests fleet.Amounts
		Spec     corev1.PodSpec
	}{p.Requests, *p.spec})
	if err != nil {
		panic(err) // not reachable: these are plain values
	}
	p.Key = string(key)
	return p
}

func request(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; ok {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[name] = limit
	}
}

// Gang is the pods of a run, which start together.
type Gang struct {
	Pod  Pod
	Size int
	// Full is how many pods its run may have, where those are more than have to start together; else 0.
	Full int
	// Beside is the pod of services, if there is one.
	Beside *Pod
}

// Pods is how many pods a run of the gang may have.
func (g Gang) Pods() int { return max(g.Size, g.Full) }

// Result is how a gang fits.
type Result struct {
	// Fits says that all of it does.
	Fits bool
	// Pods is how many of its pods do, Size at most.
	Pods int
	// Miss is what is missing; empty if it fits.
	Miss string
	// Free is what is free on nodes that take at least one of its pods.
	Free fleet.Amounts
}

// Check says whether a gang fits into what is free on these nodes. For many gangs there is a Table.
func Check(nodes []fleet.Node, g Gang) Result {
	counts, excluded := make([]int, len(nodes)), newReasons(len(nodes))
	free := fleet.Amounts{}
	for i := range nodes {
		if why := g.Pod.refuses(&nodes[i]); why != "" {
			excluded.add(why)
			continue
		}
		if counts[i] = g.Pod.count(nodes[i].Free); counts[i] > 0 {
			addTo(free, nodes[i].Free, 1)
		}
	}
	return g.result(nodes, counts, excluded, free)
}

// result says whether a gang fits where each node takes so many of its pods.
func (g Gang) result(nodes []fleet.Node, counts []int, excluded *reasons, free fleet.Amounts) Result {
	total := 0
	for _, n := range counts {
		total += n
	}
	r := Result{Pods: min(total, g.Size), Free: free}
	switch {
	case total < g.Size:
		r.Miss = fmt.Sprintf("%d of %d pods fit; %s", total, g.Size, nearest(nodes, counts, g.Pod, excluded))
	case g.Beside != nil && nodeBeside(nodes, counts, total, g) < 0:
		r.Miss = fmt.Sprintf("%d of %d pods fit, but not the pod of services beside them; %s", g.Size, g.Size, nearestBeside(nodes, g))
	default:
		r.Fits = true
	}
	return r
}

// nodeBeside is the first node that takes the pod beside the gang and has enough for the gang all the same; -1 if none has.
func nodeBeside(nodes []fleet.Node, counts []int, total int, g Gang) int {
	for i := range nodes {
		if g.Beside.refuses(&nodes[i]) != "" || g.Beside.count(nodes[i].Free) == 0 {
			continue
		}
		if total-counts[i]+g.countBeside(&nodes[i]) >= g.Size {
			return i
		}
	}
	return -1
}

// countBeside is how many pods of the gang fit on a node that the pod beside them is on.
func (g Gang) countBeside(n *fleet.Node) int {
	if g.Pod.refuses(n) != "" {
		return 0
	}
	rest := maps.Clone(n.Free)
	addTo(rest, g.Beside.Requests, -1)
	return g.Pod.count(rest)
}

// Holds says whether a gang would fit once everything had ended that ever ends.
func Holds(nodes []fleet.Node, g Gang) bool { return Check(emptied(nodes), g).Fits }

func emptied(nodes []fleet.Node) []fleet.Node {
	out := slices.Clone(nodes)
	for i := range out {
		out[i].Free = out[i].Total
	}
	return out
}

// Compete says whether two gangs want the same room: whether a node could run pods of either.
func Compete(nodes []fleet.Node, a, b Gang) bool {
	for i := range nodes {
		if a.uses(&nodes[i]) && b.uses(&nodes[i]) {
			return true
		}
	}
	return false
}

func (g Gang) uses(n *fleet.Node) bool {
	uses := func(p *Pod) bool { return p.refuses(n) == "" && p.count(n.Total) > 0 }
	return uses(&g.Pod) || g.Beside != nil && uses(g.Beside)
}

// Reserve takes the room of so many pods from the nodes, as a scheduler might that spreads them, and
// returns for how many there was none. The nodes' Free must not be shared with anybody.
func Reserve(nodes []fleet.Node, p Pod, pods int) int {
	counts := make([]int, len(nodes))
	for i := range nodes {
		if p.refuses(&nodes[i]) == "" {
			counts[i] = p.count(nodes[i].Free)
		}
	}
	for i, n := range spread(counts, pods) {
		if n > 0 {
			addTo(nodes[i].Free, p.Requests, -int64(n))
			pods -= n
		}
	}
	return pods
}

// spread lays so many pods on nodes that take as many as counts says, one on each in turn, the one that takes most first.
func spread(counts []int, pods int) []int {
	order := make([]int, 0, len(counts))
	for i, n := range counts {
		if n > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return counts[b] - counts[a] })
	out := make([]int, len(counts))
	for placed := true; placed && pods > 0; {
		placed = false
		for _, i := range order {
			if pods == 0 || out[i] == counts[i] {
				continue
			}
			out[i]++
			pods--
			placed = true
		}
	}
	return out
}

// Clone copies nodes so that room can be reserved on the copy.
func Clone(nodes []fleet.Node) []fleet.Node {
	out := slices.Clone(nodes)
	for i := range out {
		out[i].Free = maps.Clone(out[i].Free)
	}
	return out
}

func addTo(sum, more fleet.Amounts, sign int64) {
	for name, n := range more {
		sum[name] += sign * n
	}
}

// count is how many pods fit into what is free.
func (p *Pod) count(free fleet.Amounts) int {
	fewest := int64(-1)
	for name, n := range p.Requests {
		if fits := max(free[name], 0) / n; fewest < 0 || fits < fewest {
			fewest = fits
		}
	}
	return int(max(fewest, 0))
}

// refuses is why a node would not be chosen for the pod however much room it had; empty if it would.
func (p *Pod) refuses(n *fleet.Node) string {
	if why := p.repelled(n); why != "" {
		return why
	}
	if !p.selects(n) {
		return "without the labels asked for"
	}
	return ""
}

// repelled is why a node that is cordoned, or has taints, takes no such pod; empty if it does.
func (p *Pod) repelled(n *fleet.Node) string {
	if n.Unschedulable && !p.tolerates(&corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) {
		return "cordoned"
	}
	for i := range n.Taints {
		if t := &n.Taints[i]; t.Effect != corev1.TaintEffectPreferNoSchedule && !p.tolerates(t) {
			return tainted(t)
		}
	}
	return ""
}

// selects says whether a node has what the pod asks for with nodeSelector and required node affinity.
func (p *Pod) selects(n *fleet.Node) bool {
	switch {
	case p.spec == nil:
		return true
	case p.spec.Affinity == nil:
		for key, value := range p.spec.NodeSelector {
			if has, ok := n.Labels[key]; !ok || has != value {
				return false
			}
		}
		return true
	}
	// An affinity that cannot be understood matches no node, and the member will say so.
	match, err := p.node.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}})
	return err == nil && match
}

func tainted(t *corev1.Taint) string {
	switch t.Key {
	case corev1.TaintNodeUnschedulable:
		return "cordoned"
	case corev1.TaintNodeNotReady:
		return "not ready"
	case corev1.TaintNodeUnreachable:
		return "unreachable"
	default:
		return "tainted " + t.Key + ":" + string(t.Effect)
	}
}

func (p *Pod) tolerates(t *corev1.Taint) bool {
	return p.spec != nil && slices.ContainsFunc(p.spec.Tolerations, func(have corev1.Toleration) bool {
		return have.ToleratesTaint(logr.Discard(), t, false)
	})
}

// reasons count why nodes are not chosen.
type reasons struct {
	nodes int
	count map[string]int
}

func newReasons(nodes int) *reasons { return &reasons{nodes: nodes, count: map[string]int{}} }

func (r *reasons) add(why string) { r.count[why]++ }

// none says why none of the nodes is chosen.
func (r *reasons) none() string {
	if r.nodes == 0 {
		return "there are no nodes"
	}
	return fmt.Sprintf("none of %d nodes may run them (%s)", r.nodes, r)
}

// some says why some of the nodes are not chosen; empty if all may be.
func (r *reasons) some() string {
	n := 0
	for _, count := range r.count {
		n += count
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d of %d nodes may not run them: %s)", n, r.nodes, r)
}

// String lists the reasons, the commonest first.
func (r *reasons) String() string {
	all := slices.SortedFunc(maps.Keys(r.count), func(a, b string) int {
		if d := r.count[b] - r.count[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, why := range all[:min(len(all), 3)] {
		parts = append(parts, fmt.Sprintf("%d %s", r.count[why], why))
	}
	return strings.Join(parts, ", ")
}
