package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
)

// Who comes first is who would if all who wait had their turn one after the other, each chosen among all.
func TestContendersComeInTheOrderOfAll(t *testing.T) {
	r := rand.New(rand.NewPCG(53, 1))
	var behind, limited, dropped int
	for range 3000 {
		q, room := randomQueue(r)
		for range 4 {
			self := randomRank(r)
			if e := q.pending[self.Key]; e != nil && r.IntN(2) == 0 {
				self = e.Rank
			}
			v, gang := q.View("alpine", room, self.Key), randomGang(r)
			first, own := v.before(v.spare.table.Nodes, gang, self)
			wantFirst, wantOwn := firstOfAll(v, v.spare.table.Nodes, gang, self)
			if first != wantFirst {
				t.Fatalf("%v with %d pods is behind %v, not %v", self, gang.Size, first, wantFirst)
			}
			if got, want := fmt.Sprint(own.excess, own.first, own.kept), fmt.Sprint(wantOwn.excess, wantOwn.first, wantOwn.kept); v.limited() && got != want {
				t.Fatalf("%v with %d pods has the turn %s, not %s", self, gang.Size, got, want)
			}
			if first != nil {
				behind++
			}
			if own.excess != nil {
				limited++
			}
			if waiting(v.spare.contenders(v.line).line) < waiting(v.line) {
				dropped++
			}
		}
	}
	if min(behind, limited, dropped) < 1000 {
		t.Errorf("of 12,000, %d were behind somebody, %d beyond limits, and %d had others that never fit", behind, limited, dropped)
	}
}

func waiting(l *line) int {
	n := 0
	for _, t := range l.tenants {
		n += len(t.waiting)
	}
	return n
}

// firstOfAll is View.before with the line as it is.
func firstOfAll(v *View, nodes []fleet.Node, gang fit.Gang, self Rank) (first *Entry, own turn) {
	if v.State != nodeusage.Known && !v.limited() {
		return nil, turn{}
	}
	e := &Entry{Rank: self, Anywhere: &gang}
	w := waiters{nodes: nodes, placed: v.spare.unplaced}
	all := []*cursor{}
	for namespace, t := range v.line.tenants {
		if namespace != v.own.namespace {
			all = append(all, &cursor{tenant: *t, runs: t.usage.runs})
		}
	}
	mine := *v.own
	mine.waiting = slices.DeleteFunc(slices.Clone(mine.waiting), func(o *Entry) bool { return o.Key == e.Key })
	mine.waiting = inserted(mine.waiting, e)
	all = append(all, &cursor{tenant: mine, runs: mine.usage.runs})
	for served := v.line.served; ; {
		all = slices.DeleteFunc(all, func(c *cursor) bool { return len(c.waiting) == 0 })
		c := slices.MinFunc(all, func(a, b *cursor) int { return a.before(&b.tenant) })
		t := c.turn(v.line, v.spare.holds)
		if t.Entry == e {
			break
		}
		if first == nil && v.State == nodeusage.Known && t.holds && t.excess == nil && fit.Compete(nodes, t.gang, gang) {
			w.entries = append(w.entries, t)
			first = w.delayed(gang)
		}
		if t.holds {
			c.keep(v.line, t)
		}
		if t.holds && t.excess == nil {
			served++
			c.place(v.line, t, served)
		}
		c.waiting = c.waiting[1:]
	}
	for _, c := range all {
		if len(c.waiting) > 0 && c.waiting[0] == e {
			own = c.turn(v.line, v.spare.holds)
		}
	}
	return first, own
}

// randomQueue is one of a member with two nodes, on which some of four namespaces run, wait and have limits.
func randomQueue(r *rand.Rand) (*Queue, *nodeusage.Room) {
	q, sums := New(), nodeusage.New(true)
	var nodes []*corev1.Node
	for i, disk := range []string{"ssd", "hdd"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: types.UID(disk), Name: fmt.Sprint("n", i), Labels: map[string]string{"disk": disk}}}
		n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("6"), "pods": resource.MustParse("110")}
		nodes = append(nodes, n)
	}
	sums.ReplaceNodes(slices.Values(nodes))
	if r.IntN(8) > 0 {
		sums.ReplacePods(slices.Values([]*nodeusage.Pod(nil)))
	}
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "alpine", UID: "alpine", Generation: 1}}
	for i := range 4 {
		name := fmt.Sprint("team-", i)
		q.SetNamespace(name, Namespace{MaxPriority: int32(r.IntN(4) - 1)})
		s := v1alpha1.NamespaceShare{Name: name, Weight: int32(1 + r.IntN(3)), Namespaces: v1alpha1.ShareNamespaces{Names: []string{name}}}
		if r.IntN(3) == 0 {
			s.Limits = v1alpha1.ShareLimits{"cpu": *resource.NewQuantity(int64(2+r.IntN(12)), resource.DecimalSI)}
		}
		if r.IntN(3) == 0 {
			runs := int32(r.IntN(4))
			s.Runs = &runs
		}
		m.Spec.Shares = append(m.Spec.Shares, s)
	}
	if r.IntN(40) == 0 {
		m.Spec.Shares[0].Namespaces.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "?"}}}
	}
	q.SetShares(m)
	for range r.IntN(4) {
		reservation := Reservation{Gang: randomGang(r)}
		if r.IntN(2) == 0 {
			reservation.Run = fmt.Sprint("run-", r.IntN(100))
		}
		q.Update(randomRank(r).Key, map[string]Reservation{"alpine": reservation}, nil)
	}
	for range r.IntN(25) {
		e, gang := &Entry{Rank: randomRank(r)}, randomGang(r)
		if e.Gangs = map[string]fit.Gang{"alpine": gang}; r.IntN(6) == 0 {
			e.Gangs, e.Anywhere = nil, &gang
		}
		q.Update(e.Key, q.Reservations(e.Key), e)
	}
	return q, sums.Room()
}

// randomRank is that of one of 40, which may be older or more urgent than it was.
func randomRank(r *rand.Rand) Rank {
	key := Key{Namespace: fmt.Sprint("team-", r.IntN(4)), Name: fmt.Sprint("run-", r.IntN(10))}
	return Rank{Priority: int32(r.IntN(5) - 1), Created: time.Unix(int64(r.IntN(20)), 0), Key: key}
}

// randomGang fits, or lacks room, or never fits.
func randomGang(r *rand.Rand) fit.Gang {
	spec := &corev1.PodSpec{Containers: []corev1.Container{{}}}
	if r.IntN(6) > 0 {
		spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": *resource.NewQuantity(int64(1+r.IntN(3)), resource.DecimalSI)}
	}
	if r.IntN(3) == 0 {
		spec.NodeSelector = map[string]string{"disk": []string{"ssd", "hdd", "none"}[r.IntN(3)]}
	}
	return fit.Gang{Pod: fit.PodOf(spec), Size: []int{1, 2, 3, 5, 8, 99}[r.IntN(6)]}
}
