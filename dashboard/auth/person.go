package auth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// Person is who asks, as the hub's API server names them.
type Person struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string

	// A function, because what prints or compares values by reflection shows fields, also unexported ones.
	token   func() string
	expires time.Time // zero if the token does not say
	session *digest   // nil for a bearer token
}

// Token is what the person has logged in with, for requests to the hub's API server on their behalf. It is empty for a
// Person that Authenticate has not made.
func (p *Person) Token() string {
	if p == nil || p.token == nil {
		return ""
	}
	return p.token()
}

// Expires is when the token ends; zero if it does not say.
func (p *Person) Expires() time.Time { return p.expires }

// String is the person's name.
func (p *Person) String() string {
	if p == nil {
		return ""
	}
	return p.Name
}

type personKey struct{}

// NewContext returns a context from which From has the person. Authenticate does so; others need it in tests.
func NewContext(ctx context.Context, p *Person) context.Context {
	return context.WithValue(ctx, personKey{}, p)
}

// From returns who asks. Behind Authenticate there is always somebody.
func From(ctx context.Context) (*Person, bool) {
	p, ok := ctx.Value(personKey{}).(*Person)
	return p, ok && p != nil
}

// digest is a SHA-256 sum: what is kept in place of tokens and of the ids of sessions.
type digest [sha256.Size]byte

func digestOf(secret string) digest { return sha256.Sum256([]byte(secret)) }

// identity is all that authorizers may decide by. Two persons with equal identities have the same rights.
type identity struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

func (p *Person) identity() identity { return identity{p.Name, p.UID, p.Groups, p.Extra} }

func identityOf(user authenticationv1.UserInfo) identity {
	who := identity{Name: user.Username, UID: user.UID, Groups: user.Groups}
	if len(user.Extra) > 0 {
		who.Extra = make(map[string][]string, len(user.Extra))
		for k, v := range user.Extra {
			who.Extra[k] = v
		}
	}
	return who
}

// key is equal for equal identities. The order of groups does not matter.
func (i identity) key() digest {
	groups := slices.Sorted(slices.Values(i.Groups))
	return digestOf(fmt.Sprintf("%q %q %q %q", i.Name, i.UID, groups, i.Extra))
}

// account is equal for all tokens of the same user.
func (i identity) account() string { return fmt.Sprintf("%q %q", i.Name, i.UID) }

func (i identity) person(token string, expires time.Time, session *digest) *Person {
	extra := maps.Clone(i.Extra)
	for k, v := range extra {
		extra[k] = slices.Clone(v)
	}
	return &Person{
		Name: i.Name, UID: i.UID, Groups: slices.Clone(i.Groups), Extra: extra,
		token: func() string { return token }, expires: expires, session: session,
	}
}

// earliest returns the earlier of two times of which zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
