package fit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/minifleet/minifleet/internal/fleet"
)

// maxLevels is for how many levels of free resources, over all nodes, it is checked whether a gang takes room from another.
const maxLevels = 1 << 13

// Unplaced are equal pods that may be scheduled on any node which takes them.
type Unplaced struct {
	Pod   Pod
	Count int
}

// Spares says whether a gang surely takes no room from another that waits: whichever of the pods on the nodes end, and
// wherever unplaced pods and those of the gang are scheduled, as many pods of the other fit beside the gang as without it.
// That is so where on each node the gang stays within the remainder that the other cannot use. Pods that never end by themselves are
// taken to stay; those that come later are not considered. The answer is no as well where a node has too many different
// pods for all levels of free resources to be checked.
func Spares(nodes []fleet.Node, other, gang Gang, unplaced []Unplaced) bool {
	budget := maxLevels
	for i := range nodes {
		n := &nodes[i]
		if !gang.uses(n) || !other.uses(n) {
			continue
		}
		c := newContest(n, other, gang)
		if !c.group(n, unplaced) || c.levels > budget {
			return false
		}
		budget -= c.levels
		if !c.spares(0, c.free) {
			return false
		}
	}
	return true
}

// contest is about the room of one node that a gang might take from another. Amounts are slices, one for each resource that
// either asks for.
type contest struct {
	names []corev1.ResourceName
	// free is what is free where none of the groups' pods are there.
	free []int64
	// groups are the pods that may or may not be there, levels how many combinations of them there are.
	groups []group
	levels int

	pod, beside           []int64 // of the gang; nil where the node takes none
	otherPod, otherBeside []int64
	size                  int
}

type group struct {
	requests []int64
	count    int
}

func newContest(n *fleet.Node, other, gang Gang) *contest {
	c := &contest{size: gang.Size, levels: 1}
	for _, p := range []*Pod{&gang.Pod, gang.Beside, &other.Pod, other.Beside} {
		if p == nil {
			continue
		}
		for name := range p.Requests {
			if !slices.Contains(c.names, name) {
				c.names = append(c.names, name)
			}
		}
	}
	c.free = c.amounts(n.Total)
	c.pod, c.beside = c.of(n, &gang.Pod), c.of(n, gang.Beside)
	c.otherPod, c.otherBeside = c.of(n, &other.Pod), c.of(n, other.Beside)
	return c
}

func (c *contest) amounts(a fleet.Amounts) []int64 {
	out := make([]int64, len(c.names))
	for i, name := range c.names {
		out[i] = a[name]
	}
	return out
}

// of is what a pod requests, nil where it cannot be on the node.
func (c *contest) of(n *fleet.Node, p *Pod) []int64 {
	if p == nil || p.refuses(n) != "" {
		return nil
	}
	return c.amounts(p.Requests)
}

// group lists the pods that may or may not be on the node; it is false where there are too many combinations.
func (c *contest) group(n *fleet.Node, unplaced []Unplaced) bool {
	if n.EndingOmitted {
		return false
	}
	add := func(requests []int64, count int) bool {
		if count > 0 {
			c.groups = append(c.groups, group{requests, count})
			if count >= maxLevels {
				return false
			}
			c.levels *= count + 1
		}
		return c.levels <= maxLevels
	}
	for _, g := range n.Ending {
		if !add(c.amounts(g.Requests), g.Count) {
			return false
		}
	}
	for i := range unplaced {
		u := &unplaced[i]
		if u.Pod.refuses(n) == "" && !add(c.amounts(u.Pod.Requests), min(u.Count, u.Pod.count(n.Total))) {
			return false
		}
	}
	return true
}

// spares goes through all combinations of the groups from the one given on, beside which so much is free.
func (c *contest) spares(from int, free []int64) bool {
	if from == len(c.groups) {
		return c.sparesOf(free)
	}
	g, left := c.groups[from], slices.Clone(free)
	for n := 0; ; n++ {
		if !c.spares(from+1, left) {
			return false
		}
		if n == g.count {
			return true
		}
		take(left, g.requests, 1)
	}
}

// sparesOf says whether the other has the same beside as many pods of the gang as this level takes. Fewer take no more.
func (c *contest) sparesOf(free []int64) bool {
	left := slices.Clone(free)
	if c.pod != nil {
		take(left, c.pod, min(int64(c.size), times(free, c.pod)))
		if !c.same(free, left) {
			return false
		}
	}
	if c.beside == nil || times(free, c.beside) == 0 {
		return true
	}
	copy(left, free)
	take(left, c.beside, 1)
	if c.pod != nil {
		take(left, c.pod, min(int64(c.size), times(left, c.pod)))
	}
	return c.same(free, left)
}

// same says whether the other gang's pods fit as well into what is left as into what is free: the pods, the pod of services,
// and the pods beside that.
func (c *contest) same(free, left []int64) bool {
	if times(free, c.otherPod) != times(left, c.otherPod) {
		return false
	}
	if c.otherBeside == nil || times(free, c.otherBeside) == 0 {
		return true
	}
	if times(left, c.otherBeside) == 0 {
		return false
	}
	with, without := slices.Clone(free), slices.Clone(left)
	take(with, c.otherBeside, 1)
	take(without, c.otherBeside, 1)
	return times(with, c.otherPod) == times(without, c.otherPod)
}

// take takes so many pods from what is free.
func take(free, requests []int64, n int64) {
	for i := range free {
		free[i] -= n * requests[i]
	}
}

// times is how many pods fit into what is free: none, where they are nil.
func times(free, requests []int64) int64 {
	fewest := int64(-1)
	for i, n := range requests {
		if n <= 0 {
			continue
		}
		if fits := max(free[i], 0) / n; fewest < 0 || fits < fewest {
			fewest = fits
		}
	}
	return max(fewest, 0)
}
