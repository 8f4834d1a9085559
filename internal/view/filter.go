package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Filter says which MiniClusters are meant. Its zero value means all.
type Filter struct {
	terms []term // all hold
	// Of each of these one holds, where there are any.
	states, namespaces, sources, members []string
}

// term is a condition on a MiniCluster.
type term func(*Entry) bool

// FilterError says which term of a filter means nothing, and how to correct it.
type FilterError struct{ Term, Message string }

func (e *FilterError) Error() string { return fmt.Sprintf("%q: %s", e.Term, e.Message) }

// States are those of a MiniCluster, those first that want attention.
var States = []string{
	string(v1alpha1.StateFailed), string(v1alpha1.StateInvalid), string(v1alpha1.StateUnknown), string(v1alpha1.StateWaiting),
	string(v1alpha1.StateStarting), string(v1alpha1.StateRunning), string(v1alpha1.StateStopping), string(v1alpha1.StateDeleting),
	string(v1alpha1.StateSuspended), string(v1alpha1.StateCancelled), string(v1alpha1.StateSucceeded),
}

var (
	healths = []string{"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"}
	syncs   = []string{"Synced", "OutOfSync", "Unknown"}
)

// NewFilter makes a filter of a query and of lists of alternatives; sources are NAMESPACE/NAME.
//
// A query has parts that are separated by spaces and that all hold. A part is a piece of NAMESPACE/NAME or the name of a
// label, LABEL=VALUE, or KIND:VALUE with one of the kinds of kinds.
func NewFilter(query string, states, namespaces, sources, members []string) (Filter, error) {
	f := Filter{namespaces: namespaces, sources: sources, members: members}
	for _, s := range states {
		state, err := oneOf("state="+s, s, States)
		if err != nil {
			return Filter{}, err
		}
		f.states = append(f.states, state)
	}
	for part := range strings.FieldsSeq(query) {
		t, err := parseTerm(part)
		if err != nil {
			return Filter{}, err
		}
		f.terms = append(f.terms, t)
	}
	return f, nil
}

// kinds are the terms of the form KIND:VALUE.
var kinds = map[string]func(part, value string) (term, error){
	"state": func(part, value string) (term, error) {
		return enumerated(part, value, States, func(r *Row) string { return r.State })
	},
	"health": func(part, value string) (term, error) {
		return enumerated(part, value, healths, func(r *Row) string { return r.Health })
	},
	"sync": func(part, value string) (term, error) {
		return enumerated(part, value, syncs, func(r *Row) string { return r.Sync })
	},
	"member": func(_, value string) (term, error) {
		return func(e *Entry) bool { return slices.Contains(e.Row.Members, value) }, nil
	},
	"source": func(_, value string) (term, error) {
		return func(e *Entry) bool {
			return e.Row.Source != "" && (e.Row.Source == value || e.Row.Namespace+"/"+e.Row.Source == value)
		}, nil
	},
	"ns": func(_, value string) (term, error) {
		return func(e *Entry) bool { return e.Row.Namespace == value }, nil
	},
	"commit": commitTerm,
}

const kindsForPeople = "state:, health:, sync:, member:, source:, ns: or commit:"

func parseTerm(part string) (term, error) {
	kind, value, isKind := strings.Cut(part, ":")
	key, wanted, isLabel := strings.Cut(part, "=")
	switch {
	case isLabel && key == "":
		return nil, &FilterError{part, "name the label before =: LABEL=VALUE"}
	case isLabel && !strings.Contains(key, ":"):
		return func(e *Entry) bool { have, ok := e.Object.Labels[key]; return ok && have == wanted }, nil
	case !isKind:
		piece := strings.ToLower(part)
		return func(e *Entry) bool {
			_, labelled := e.Object.Labels[part]
			return labelled || hasPiece(&e.Row, piece)
		}, nil
	case kinds[strings.ToLower(kind)] == nil:
		return nil, &FilterError{part, "there is no " + kind + ":; use " + kindsForPeople + ", or LABEL=VALUE"}
	case value == "":
		return nil, &FilterError{part, "a value is missing after the colon"}
	}
	return kinds[strings.ToLower(kind)](part, value)
}

// hasPiece says whether NAMESPACE/NAME has a piece, without joining the two where that can be avoided.
func hasPiece(r *Row, piece string) bool {
	if strings.Contains(r.Name, piece) || strings.Contains(r.Namespace, piece) {
		return true
	}
	return strings.Contains(piece, "/") && strings.Contains(r.Namespace+"/"+r.Name, piece)
}

// oneOf is the value that is meant, whatever its case.
func oneOf(part, value string, values []string) (string, error) {
	i := slices.IndexFunc(values, func(v string) bool { return strings.EqualFold(v, value) })
	if i < 0 {
		return "", &FilterError{part, "use one of " + strings.ToLower(strings.Join(values, ", "))}
	}
	return values[i], nil
}

func enumerated(part, value string, values []string, of func(*Row) string) (term, error) {
	want, err := oneOf(part, value, values)
	if err != nil {
		return nil, err
	}
	return func(e *Entry) bool { return of(&e.Row) == want }, nil
}

// minHash is the least that names a commit, as in Git.
const minHash = 4

func commitTerm(part, value string) (term, error) {
	if len(value) < minHash {
		return nil, &FilterError{part, fmt.Sprintf("use at least %d digits of the hash, or the revision as it is shown", minHash)}
	}
	hash := strings.ToLower(value)
	return func(e *Entry) bool {
		c := e.Row.Commit
		if c == nil {
			return false
		}
		_, short, _ := strings.Cut(c.Revision, "@")
		return c.Revision == value || strings.HasPrefix(c.Hash, hash) || strings.HasPrefix(short, hash) || short != "" && strings.HasPrefix(hash, short)
	}, nil
}

// The lists of alternatives of a filter, as bits.
const (
	byState = 1 << iota
	byNamespace
	bySource
	byMember
)

// misses says of which lists of alternatives none holds; ok is false where a term does not.
func (f *Filter) misses(e *Entry) (lists int, ok bool) {
	r := &e.Row
	for _, t := range f.terms {
		if !t(e) {
			return 0, false
		}
	}
	if len(f.states) > 0 && !slices.Contains(f.states, r.State) {
		lists |= byState
	}
	if len(f.namespaces) > 0 && !slices.Contains(f.namespaces, r.Namespace) {
		lists |= byNamespace
	}
	if len(f.sources) > 0 && (r.Source == "" || !slices.ContainsFunc(f.sources, func(s string) bool { return isJoined(s, r.Namespace, r.Source) })) {
		lists |= bySource
	}
	if len(f.members) > 0 && !slices.ContainsFunc(f.members, func(m string) bool { return slices.Contains(r.Members, m) }) {
		lists |= byMember
	}
	return lists, true
}

// isJoined says whether a text is NAMESPACE/NAME.
func isJoined(s, namespace, name string) bool {
	return len(s) == len(namespace)+1+len(name) && strings.HasPrefix(s, namespace) && s[len(namespace)] == '/' && strings.HasSuffix(s, name)
}
