package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// maxParallel is how many namespaces Scope asks about at once.
const maxParallel = 16

// Allowed says whether the person may do something. With an error it is false.
func (a *Auth) Allowed(ctx context.Context, p *Person, attrs authorizationv1.ResourceAttributes) (bool, error) {
	if p == nil || p.Name == "" {
		return false, ErrUnauthenticated
	}
	who := p.identity()
	return a.allowed(ctx, who, who.key(), attrs)
}

func (a *Auth) allowed(ctx context.Context, who identity, person digest, attrs authorizationv1.ResourceAttributes) (bool, error) {
	key, err := accessKey(person, attrs)
	if err != nil {
		return false, err
	}
	allowed, err := a.access.get(ctx, key, a.options.AccessTTL, func(ctx context.Context) (bool, error) {
		status, err := a.options.Reviews.ReviewAccess(ctx, authorizationv1.SubjectAccessReviewSpec{
			User: who.Name, UID: who.UID, Groups: who.Groups, Extra: extraValues(who.Extra), ResourceAttributes: &attrs,
		})
		return err == nil && status.Allowed && !status.Denied, err
	})
	if err != nil {
		return false, a.unanswered("SubjectAccessReview", err)
	}
	return allowed, nil
}

// accessKey is equal for the same question about the same identity.
func accessKey(person digest, attrs authorizationv1.ResourceAttributes) (digest, error) {
	selectors, err := json.Marshal([]any{attrs.FieldSelector, attrs.LabelSelector})
	if err != nil {
		return digest{}, fmt.Errorf("selectors of a review: %w", err)
	}
	attrs.FieldSelector, attrs.LabelSelector = nil, nil
	return digestOf(fmt.Sprintf("%x %q %s", person, attrs, selectors)), nil
}

func extraValues(extra map[string][]string) map[string]authorizationv1.ExtraValue {
	if len(extra) == 0 {
		return nil
	}
	values := make(map[string]authorizationv1.ExtraValue, len(extra))
	for k, v := range extra {
		values[k] = v
	}
	return values
}

// Scope is the namespaces in which something is allowed. The zero value is none.
type Scope struct {
	// All says that it is allowed in every namespace, also in those that nobody has asked about.
	All bool

	namespaces map[string]struct{}
}

// ScopeOf is a Scope of these namespaces.
func ScopeOf(namespaces ...string) Scope {
	s := Scope{namespaces: make(map[string]struct{}, len(namespaces))}
	for _, n := range namespaces {
		s.namespaces[n] = struct{}{}
	}
	return s
}

// Has says whether it is allowed in a namespace.
func (s Scope) Has(namespace string) bool {
	_, ok := s.namespaces[namespace]
	return s.All || ok
}

// None says that it is allowed nowhere.
func (s Scope) None() bool { return !s.All && len(s.namespaces) == 0 }

// Equal says whether both allow the same.
func (s Scope) Equal(other Scope) bool {
	return s.All == other.All && slices.Equal(s.Namespaces(), other.Namespaces())
}

// Namespaces lists the namespaces in order; with All there are none.
func (s Scope) Namespaces() []string {
	if s.All {
		return nil
	}
	list := make([]string, 0, len(s.namespaces))
	for n := range s.namespaces {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// Scope says in which of these namespaces the person may do something; attrs.Namespace does not count. It asks about the
// whole cluster first, and about each namespace only if that is denied. With an error it is none: some namespaces
// without an answer would make a list that lacks them appear complete.
func (a *Auth) Scope(ctx context.Context, p *Person, attrs authorizationv1.ResourceAttributes, namespaces []string) (Scope, error) {
	if p == nil || p.Name == "" {
		return Scope{}, ErrUnauthenticated
	}
	who := p.identity()
	person := who.key()
	attrs.Namespace = ""
	if all, err := a.allowed(ctx, who, person, attrs); all || err != nil {
		return Scope{All: all}, err
	}
	var mu sync.Mutex
	scope := ScopeOf()
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(maxParallel)
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(namespaces))) {
		if namespace == "" {
			continue // it would ask about the whole cluster
		}
		asking.Go(func() error {
			attrs := attrs
			attrs.Namespace = namespace
			ok, err := a.allowed(ctx, who, person, attrs)
			if ok {
				mu.Lock()
				defer mu.Unlock()
				scope.namespaces[namespace] = struct{}{}
			}
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		return Scope{}, err
	}
	return scope, nil
}
