package dashboard

import (
	"context"
	"errors"
	"time"
)

// Scope is the namespaces that somebody may see something of.
type Scope interface {
	Has(namespace string) bool
	// None says that there is no such namespace.
	None() bool
}

// ErrUnavailable says that there was no answer to who somebody is, or what they may see.
var ErrUnavailable = errors.New("no answer to who this is, or what they may see")

// Access is what the person behind a request may see. An error denies: it is answered with 503 and nothing else.
type Access interface {
	// MiniClusters and Sources are the namespaces whose FleetMiniClusters and GitSources the person may list.
	MiniClusters(ctx context.Context) (Scope, error)
	Sources(ctx context.Context) (Scope, error)
	// Members says whether the person may list MemberClusters.
	Members(ctx context.Context) (bool, error)
	// May says whether the person may do something with an object: of the API group minifleet.dev, or of events.k8s.io
	// for the resource events. The resource may have a subresource: fleetminiclusters/logs.
	May(ctx context.Context, verb, resource, namespace, name string) (bool, error)
	// Recheck fails when the person is not who they were any more: the token has expired, the session has ended. Where
	// that could not be found out, the error wraps ErrUnavailable.
	Recheck(ctx context.Context) error
}

// Person is who is behind a request.
type Person struct {
	Name   string
	Groups []string
	// Token is what the hub's API server knows the person by. It is sent nowhere else; a function, so that nothing that
	// prints values shows it.
	Token func() string
	// Expires is when the session ends, zero where that is not known.
	Expires time.Time
}
