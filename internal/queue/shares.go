package queue

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
)

// Namespace is what the order of those that wait depends on of a namespace of the hub.
type Namespace struct {
	Labels map[string]string
	// MaxPriority is the highest priority that counts among those of other namespaces.
	MaxPriority int32
}

// MaxPriorityOf reads the annotation of a namespace. Without one, or with one that is no whole number, otherwise counts;
// the problem then says so.
func MaxPriorityOf(annotations map[string]string, otherwise int32) (highest int32, problem string) {
	value, ok := annotations[v1alpha1.AnnotationMaxPriority]
	if !ok {
		return otherwise, ""
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return otherwise, fmt.Sprintf("annotation %s of the namespace is no whole number of 32 bits, so the highest priority that counts is %d",
			v1alpha1.AnnotationMaxPriority, otherwise)
	}
	return int32(n), ""
}

// terms are what a member grants each of some namespaces. Runs is -1 where it does not limit those.
type terms struct {
	weight int64
	limits fleet.Amounts
	names  []corev1.ResourceName // of limits, sorted
	runs   int
}

// unlimited are those of a namespace that no share selects.
var unlimited = terms{weight: 1, runs: -1}

func (t *terms) limited() bool { return len(t.limits) > 0 || t.runs >= 0 }

// share is a NamespaceShare that is read.
type share struct {
	names    []string
	selector labels.Selector // nil selects nothing
	terms    terms
}

func (s *share) selects(namespace string, has map[string]string) bool {
	return slices.Contains(s.names, namespace) || s.selector != nil && s.selector.Matches(labels.Set(has))
}

func readShare(s *v1alpha1.NamespaceShare) (share, error) {
	out := share{names: s.Namespaces.Names, terms: terms{weight: int64(max(s.Weight, 1)), runs: -1}}
	if s.Namespaces.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(s.Namespaces.Selector)
		if err != nil {
			return share{}, err
		}
		out.selector = selector
	}
	if len(s.Limits) > 0 {
		out.terms.limits = fleet.AmountsOf(corev1.ResourceList(s.Limits))
		out.terms.names = slices.Sorted(maps.Keys(out.terms.limits))
	}
	if s.Runs != nil {
		out.terms.runs = int(*s.Runs)
	}
	return out, nil
}

// shares are those of a member.
type shares struct {
	uid        types.UID
	generation int64
	all        []share
	// problem is why nothing new may begin there: they cannot be understood.
	problem string
	// terms are those of namespaces that were asked for.
	terms map[string]terms
}

// SetShares notes the shares of a member. It says whether they may be others than before: then other runs may begin there.
func (q *Queue) SetShares(m *v1alpha1.MemberCluster) (changed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.shares[m.Name]
	switch {
	case before == nil && len(m.Spec.Shares) == 0:
		return false
	case before != nil && before.uid == m.UID && before.generation >= m.Generation:
		return false // whoever comes with an older one has read it before
	}
	next := &shares{uid: m.UID, generation: m.Generation, terms: map[string]terms{}}
	for i := range m.Spec.Shares {
		s, err := readShare(&m.Spec.Shares[i])
		if err != nil { // which may name what is no concern of those who are told
			next.problem = fmt.Sprintf("spec.shares[%d].namespaces.selector of MemberCluster %s is no valid label selector: nothing new begins there until it is one", i, m.Name)
			break
		}
		next.all = append(next.all, s)
	}
	q.shares[m.Name] = next
	q.version[m.Name]++
	delete(q.orders, m.Name)
	return true
}

// SetNamespace notes what the order depends on of a namespace. It returns the members where that may give others a turn.
func (q *Queue) SetNamespace(name string, ns Namespace) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	before, had := q.namespaces[name]
	if had && before.MaxPriority == ns.MaxPriority && maps.Equal(before.Labels, ns.Labels) {
		return nil
	}
	clear(q.orders)
	q.namespaces[name] = Namespace{Labels: maps.Clone(ns.Labels), MaxPriority: ns.MaxPriority}
	for member, s := range q.shares {
		delete(s.terms, name)
		q.version[member]++
	}
	affected := map[string]bool{}
	for _, e := range q.lines[name] {
		for member := range e.Gangs {
			affected[member] = true
		}
		if e.Anywhere != nil {
			for member := range q.known {
				affected[member] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(affected))
}

// termsOf are those of a namespace on a member. The queue is locked.
func (q *Queue) termsOf(member, namespace string) terms {
	s := q.shares[member]
	if s == nil {
		return unlimited
	}
	out, ok := s.terms[namespace]
	if ok {
		return out
	}
	out = unlimited
	for i := range s.all {
		if s.all[i].selects(namespace, q.namespaces[namespace].Labels) {
			out = s.all[i].terms
			break
		}
	}
	s.terms[namespace] = out
	return out
}

// usage is what runs of one namespace use of a member, or would: runs, and what the limits are about.
type usage struct {
	runs    int
	amounts fleet.Amounts
}

// need is what a gang takes. One that is to be larger is a run already, with its pod of services.
func need(t *terms, g fit.Gang, pods int, grows bool) usage {
	u := usage{}
	if !grows {
		u.runs = 1
	}
	if len(t.names) == 0 {
		return u
	}
	u.amounts = make(fleet.Amounts, len(t.names))
	for _, name := range t.names {
		u.amounts[name] = fleet.Times(g.Pod.Requests[name], int64(pods))
		if g.Beside != nil && !grows {
			u.amounts[name] = min(u.amounts[name]+g.Beside.Requests[name], fleet.MaxAmount)
		}
	}
	return u
}

func (u *usage) add(more usage) {
	u.runs += more.runs
	if u.amounts == nil && len(more.amounts) > 0 {
		u.amounts = fleet.Amounts{}
	}
	for name, n := range more.amounts {
		u.amounts[name] = min(u.amounts[name]+n, fleet.MaxAmount)
	}
}

// excess is why a gang is beyond the limits of its namespace.
type excess struct {
	member string
	// what is the resource, empty for runs; unsaid says that its pods do not request it.
	what                     corev1.ResourceName
	unsaid                   bool
	asks, used, first, limit int64
	// problem is set where limits are not known.
	problem string
}

// never says that the gang exceeds the limits whatever ends.
func (e *excess) never() bool { return e.problem != "" || e.unsaid || e.asks > e.limit }

// exceeds is how a gang exceeds the limits of a namespace that uses so much, of which those take more that come first.
func exceeds(member string, t *terms, g fit.Gang, grows bool, used, first usage) *excess {
	asks := need(t, g, g.Pods(), grows)
	var out *excess
	worse := func(e excess) {
		if out == nil || e.never() && !out.never() {
			e.member = member
			out = &e
		}
	}
	for _, name := range t.names {
		e := excess{what: name, asks: asks.amounts[name], used: used.amounts[name], first: first.amounts[name], limit: t.limits[name]}
		if g.Pod.Requests[name] == 0 && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			e.unsaid = true
		}
		if e.unsaid || e.asks > 0 && e.asks+e.used+e.first > e.limit {
			worse(e)
		}
	}
	if t.runs >= 0 && asks.runs > 0 {
		e := excess{asks: 1, used: int64(used.runs), first: int64(first.runs), limit: int64(t.runs)}
		if e.asks+e.used+e.first > e.limit {
			worse(e)
		}
	}
	return out
}

// String says it to those of the namespace.
func (e *excess) String() string {
	where := "spec.shares of MemberCluster " + e.member
	switch {
	case e.problem != "":
		return e.problem
	case e.unsaid:
		return fmt.Sprintf("quota exceeded: its pods request no %s, which is limited for its namespace (%s): it never fits there; set requests", e.what, where)
	case e.never():
		return fmt.Sprintf("quota exceeded: it asks for %s, and its namespace may use %s there (%s): it never fits there", e.say(e.asks), e.say(e.limit), where)
	}
	out := fmt.Sprintf("quota exceeded: it asks for %s; its namespace uses %s of the %s that it may use there (%s)", e.say(e.asks), e.say(e.used), e.say(e.limit), where)
	if e.first > 0 {
		out += fmt.Sprintf(", and %s of it are kept for those of the namespace that come first", e.say(e.first))
	}
	return out
}

func (e *excess) say(n int64) string {
	switch e.what {
	case "":
		return count(n, "run")
	case corev1.ResourcePods:
		return count(n, "pod")
	default:
		return fit.Describe(e.what, n)
	}
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}
