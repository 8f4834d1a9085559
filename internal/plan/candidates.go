package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/placement"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
	"github.com/minifleet/minifleet/internal/tenant"
)

// Line is what a FleetMiniCluster waits for.
type Line struct {
	// Lacking are the members that would be chosen if they had room, or if their place was not kept for another member.
	Lacking []string
	// Awaiting is what a placement waits for that keeps places for members that are not known yet; empty if for none.
	Awaiting string
	// Unknown are the members whose room was not known when it was decided, Notify those of them whose room is to be told
	// of as soon as it is.
	Unknown, Notify []string
	// Behind is who comes first, by member.
	Behind map[string]queue.Key
}

// fitness is whether something new may be placed on a member now.
type fitness struct {
	// unfit is why it may not; empty if it may.
	unfit string
	// roomUnknown says that the reason is that its nodes and pods have not been listed yet.
	roomUnknown bool
	// left is for how long a placement waits, where that is only because the member is not known yet.
	left time.Duration
}

const notListed = "its nodes and pods have not been listed yet"

func fitnessOf(s *Snapshot, m *Member) fitness {
	ready := meta.FindStatusCondition(m.Cluster.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case m.isElsewhere():
		return fitness{unfit: "is of another shard"}
	case m.Cluster.Closed() != "":
		return fitness{unfit: m.Cluster.Closed()}
	case ready == nil || ready.Reason == v1alpha1.ReasonConnecting:
		return fitness{unfit: "is not connected yet", left: waitsFor(s, m)}
	case ready.Status != metav1.ConditionTrue:
		return fitness{unfit: "cannot be used: " + ready.Reason + ": " + sanitize.Text(ready.Message, maxWhy)}
	case !m.Connection.Connected:
		return fitness{unfit: "is not connected", left: waitsFor(s, m)}
	case m.Connection.Room != nodeusage.Pending:
		return fitness{}
	}
	f := fitness{unfit: notListed, roomUnknown: true, left: waitsFor(s, m)}
	if m.Connection.RoomError != "" {
		f.unfit += ": " + sanitize.Text(m.Connection.RoomError, maxWhy)
	}
	return f
}

// waitsFor is for how long a placement still waits for a member of which it is not known yet what it has free. So a
// member that hangs holds nobody up for long, and one that cannot be reached nobody at all.
func waitsFor(s *Snapshot, m *Member) time.Duration {
	since := s.Queue.Since
	if created := m.Cluster.CreationTimestamp.Time; created.After(since) {
		since = created
	}
	if m.Connection.Attempted {
		if !m.Connection.Ready && m.Connection.Reason != v1alpha1.ReasonConnecting {
			return 0
		}
		since = m.Connection.Since
	}
	return max(since.Add(roomTimeout).Sub(s.Now), 0)
}

// mayUse says whether the object's namespace may use a member.
func (s *Snapshot) mayUse(m *Member) bool {
	return tenant.MayUse(m.Cluster.Spec.Namespaces, s.Object.Namespace, s.NamespaceLabels)
}

// usable are how many members of its shard the object's namespace may use.
func (s *Snapshot) usable() int {
	n := 0
	for i := range s.Members {
		if !s.Members[i].isElsewhere() && s.mayUse(&s.Members[i]) {
			n++
		}
	}
	return n
}

// named names members for a message: the first few that the object's namespace may use, and how many others.
func (s *Snapshot) named(names []string) string {
	var known []string
	others := 0
	for _, name := range names {
		if m := s.Member(name); m != nil && !s.mayUse(m) {
			others++
			continue
		}
		known = append(known, name)
	}
	hidden := fmt.Sprintf("%d members that this namespace may not use", others)
	if others == 1 {
		hidden = "a member that this namespace may not use"
	}
	switch {
	case others == 0:
		return sanitize.Names(known, maxNamed)
	case len(known) == 0:
		return hidden
	default:
		return sanitize.Names(known, maxNamed) + " and " + hidden
	}
}

// candidates are the members that the object's namespace may use: a placement knows of no other.
type candidates struct {
	all []placement.Candidate
	// fitness is that of each member on which something new may not be placed, or may later.
	fitness map[string]fitness
	// unknown are those of which it is not known what they have free.
	unknown []string
}

func candidatesOf(s *Snapshot) *candidates {
	out := &candidates{all: make([]placement.Candidate, 0, len(s.Members)), fitness: map[string]fitness{}}
	for i := range s.Members {
		m := s.Members[i].Cluster
		f := fitnessOf(s, &s.Members[i])
		if f != (fitness{}) {
			out.fitness[m.Name] = f
		}
		if !s.mayUse(&s.Members[i]) {
			continue
		}
		if f.roomUnknown {
			out.unknown = append(out.unknown, m.Name)
		}
		out.all = append(out.all, placement.Candidate{
			Name: m.Name, Labels: m.Labels, Taints: m.Spec.Taints, Unfit: f.unfit, Unknown: f.left > 0,
			Closed: m.Closed() != "", Runs: s.Queue.Runs[m.Name],
		})
	}
	return out
}

// avoiding are the candidates, of which those come last that a run for what is wanted had to leave.
func (c *candidates) avoiding(ledger runs.Ledger, wanted runs.Wanted) []placement.Candidate {
	if len(ledger) == 0 {
		return c.all
	}
	out := slices.Clone(c.all)
	for i := range out {
		out[i].Avoid = eviction.Avoid(ledger, wanted, out[i].Name)
	}
	return out
}

// room tells how the MiniCluster fits on a member now. Its own pods there are counted as ended: a new run begins when
// the one before has.
func (d *Decision) room(s *Snapshot, member string, line *Line, reads *Reads) placement.Room {
	anything := placement.Room{Share: 1}
	m := s.Member(member)
	if m == nil || !m.Connection.Connected {
		return anything // it is unfit, or about to be
	}
	gang, err := d.Variants.Quorum(member)
	if err != nil {
		return anything // which is told when it is to be rendered
	}
	view := s.Facts[member].Room
	if view == nil {
		reads.add(member, ReadRoom)
		return anything
	}
	f := check(view, gang, s.rank(), line)
	out := placement.Room{Share: 1, Miss: f.Blocked}
	if view.State != nodeusage.Known {
		return out
	}
	if s.Placement != nil && placement.ByFree(s.Placement.PrioritizerPolicy) {
		out.Free = freeOf(f.Free)
	}
	if !f.Fits {
		out.Share = float64(f.Pods) / float64(max(gang.Size, 1))
	}
	return out
}

// check says how a gang fits, and notes who comes first. Names of nodes and taints in it are the member's own.
func check(view *queue.View, gang fit.Gang, self queue.Rank, line *Line) queue.Fit {
	f := view.Check(gang, self)
	if f.Blocked != "" {
		f.Blocked = sanitize.Text(f.Blocked, sanitize.MaxNote)
	}
	line.standBehind(view.Member, f.Behind)
	return f
}

// standBehind notes who comes first on a member; nobody, if the name is empty.
func (l *Line) standBehind(member string, first queue.Key) {
	if first.Name == "" {
		delete(l.Behind, member)
		return
	}
	if l.Behind == nil {
		l.Behind = map[string]queue.Key{}
	}
	l.Behind[member] = first
}

func freeOf(amounts fleet.Amounts) *placement.Free {
	f := &placement.Free{CPU: amounts[corev1.ResourceCPU], Memory: amounts[corev1.ResourceMemory]}
	for name, n := range amounts {
		if strings.HasSuffix(string(name), "/gpu") {
			f.GPU += n
		}
	}
	return f
}
