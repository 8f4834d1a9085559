package view

import (
	"cmp"
	"maps"
	"slices"
)

// maxFacet is how many values of a facet are told.
const maxFacet = 200

// facetKey is a namespaced name as a key, which is joined only once for each.
type facetKey struct{ namespace, name string }

func (k facetKey) String() string {
	if k.namespace == "" {
		return k.name
	}
	return k.namespace + "/" + k.name
}

type counts map[facetKey]int

// list are the most frequent values, then by name.
func (c counts) list() []Count {
	out := make([]Count, 0, len(c))
	for k, n := range maps.All(c) {
		out = append(out, Count{Value: k.String(), Count: n})
	}
	slices.SortFunc(out, func(a, b Count) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value)) })
	return out[:min(len(out), maxFacet)]
}

// Select returns those that a filter means, in the order in which they come, and counts by what they can be filtered.
func Select(entries []*Entry, f Filter) ([]*Entry, Facets) {
	t := tally{counts{}, counts{}, counts{}, counts{}}
	out := make([]*Entry, 0, len(entries))
	for _, e := range entries {
		missed, ok := f.misses(e)
		if !ok {
			continue
		}
		t.add(&e.Row, missed)
		if missed == 0 {
			out = append(out, e)
		}
	}
	return out, Facets{States: t.states.list(), Namespaces: t.namespaces.list(), Sources: t.sources.list(), Members: t.members.list()}
}

type tally struct{ states, namespaces, sources, members counts }

// add counts a row for each facet without the filter of that facet itself.
func (t *tally) add(r *Row, missed int) {
	if missed&^byState == 0 {
		t.states[facetKey{"", r.State}]++
	}
	if missed&^byNamespace == 0 {
		t.namespaces[facetKey{"", r.Namespace}]++
	}
	if missed&^bySource == 0 && r.Source != "" {
		t.sources[facetKey{r.Namespace, r.Source}]++
	}
	if missed&^byMember == 0 {
		for _, m := range r.Members {
			t.members[facetKey{"", m}]++
		}
	}
}

// attention orders states: what wants attention, then what waits, what runs, what is held, what has ended.
var attention = map[string]int{
	"Failed": 0, "Invalid": 0, "Unknown": 0, "Waiting": 1, "Starting": 2, "Running": 2, "Stopping": 2, "Deleting": 2, "Suspended": 3,
	"Cancelled": 4, "Succeeded": 5,
}

func byName(a, b *Row) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// orders are what lists can be sorted by. Those that are equal in it are sorted by namespace and name.
var orders = map[string]func(a, b *Entry) int{
	"attention": func(a, b *Entry) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		return b.Row.Since.Compare(a.Row.Since)
	},
	"name":      func(a, b *Entry) int { return cmp.Compare(a.Row.Name, b.Row.Name) },
	"namespace": func(a, b *Entry) int { return cmp.Compare(a.Row.Namespace, b.Row.Namespace) },
	"state": func(a, b *Entry) int {
		return cmp.Compare(slices.Index(States, a.Row.State), slices.Index(States, b.Row.State))
	},
	"pods":    func(a, b *Entry) int { return cmp.Compare(a.Row.Pods.Desired, b.Row.Pods.Desired) },
	"member":  func(a, b *Entry) int { return slices.Compare(a.Row.Members, b.Row.Members) },
	"commit":  func(a, b *Entry) int { return compareCommits(a.Row.Commit, b.Row.Commit) },
	"since":   func(a, b *Entry) int { return a.Row.Since.Compare(b.Row.Since) },
	"created": func(a, b *Entry) int { return a.Row.Created.Compare(b.Row.Created) },
}

// compareCommits orders by time, where it is known, and then by revision; what has none comes last.
func compareCommits(a, b *Commit) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	case a.Time != nil && b.Time != nil:
		return cmp.Or(a.Time.Compare(*b.Time), cmp.Compare(a.Revision, b.Revision))
	default:
		return cmp.Compare(a.Revision, b.Revision)
	}
}

// Sort sorts by one of attention, name, namespace, state, pods, member, commit, since and created.
func Sort(entries []*Entry, by string, descending bool) {
	order := orders[by]
	if order == nil {
		order = orders["attention"]
	}
	slices.SortFunc(entries, func(a, b *Entry) int {
		n := order(a, b)
		switch {
		case n == 0:
			return byName(&a.Row, &b.Row)
		case descending:
			return -n
		default:
			return n
		}
	})
}

// Page is so many of a list from an offset on.
func Page[T any](list []T, offset, limit int) []T {
	offset = min(max(offset, 0), len(list))
	return list[offset:min(len(list), offset+max(limit, 0))]
}
