package dashboard

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/dashboard/auth"
)

// people asks the hub's API server about the person that auth.Authenticate has found behind a request.
type people struct {
	auth *auth.Auth
	// namespaces are those that have objects: only of these it matters whether a person may see them.
	namespaces func() []string
}

func (p people) access(ctx context.Context) (Access, error) {
	person, ok := auth.From(ctx)
	if !ok {
		return nil, auth.ErrUnauthenticated
	}
	return rights{p, person}, nil
}

func (p people) person(ctx context.Context) (Person, error) {
	person, ok := auth.From(ctx)
	if !ok {
		return Person{}, auth.ErrUnauthenticated
	}
	return Person{Name: person.Name, Groups: person.Groups, Token: person.Token, Expires: person.Expires()}, nil
}

// rights are those of one person.
type rights struct {
	people
	of *auth.Person
}

func (r rights) MiniClusters(ctx context.Context) (Scope, error) {
	return r.auth.Scope(ctx, r.of, attributes("list", "fleetminiclusters"), r.namespaces())
}

func (r rights) Sources(ctx context.Context) (Scope, error) {
	return r.auth.Scope(ctx, r.of, attributes("list", "gitsources"), r.namespaces())
}

func (r rights) Members(ctx context.Context) (bool, error) {
	return r.auth.Allowed(ctx, r.of, attributes("list", "memberclusters"))
}

func (r rights) May(ctx context.Context, verb, resource, namespace, name string) (bool, error) {
	a := attributes(verb, resource)
	a.Namespace, a.Name = namespace, name
	return r.auth.Allowed(ctx, r.of, a)
}

func (r rights) Recheck(ctx context.Context) error {
	err := r.auth.Recheck(ctx, r.of)
	if errors.Is(err, auth.ErrUnavailable) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// attributes are those of RESOURCE or RESOURCE/SUBRESOURCE.
func attributes(verb, resource string) authorizationv1.ResourceAttributes {
	group := v1alpha1.GroupVersion.Group
	if resource == "events" {
		group = "events.k8s.io"
	}
	resource, subresource, _ := strings.Cut(resource, "/")
	return authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Subresource: subresource}
}
