// Package authtest has an API server's reviews for tests of what asks dashboard/auth.
package authtest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// Reviews implements auth.Reviews in memory and counts. The zero value knows nobody.
type Reviews struct {
	mu     sync.Mutex
	users  map[string]authenticationv1.UserInfo
	issuer string
	bearer authenticationv1.UserInfo
	allow  func(authorizationv1.SubjectAccessReviewSpec) bool
	err    error
	hang   bool
	tokens int
	access []authorizationv1.SubjectAccessReviewSpec
}

// SetUser says who bears a token.
func (r *Reviews) SetUser(token string, user authenticationv1.UserInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == nil {
		r.users = map[string]authenticationv1.UserInfo{}
	}
	r.users[token] = user
}

// SetIssuer has everything that has the form of a JWT of this issuer be a token of the user; "" ends that.
func (r *Reviews) SetIssuer(issuer string, user authenticationv1.UserInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.issuer, r.bearer = issuer, user
}

// Revoke ends a token.
func (r *Reviews) Revoke(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.users, token)
}

// SetAllow says who may do what; nil denies all.
func (r *Reviews) SetAllow(allow func(authorizationv1.SubjectAccessReviewSpec) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.allow = allow
}

// SetErr has all reviews fail; nil ends that.
func (r *Reviews) SetErr(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// SetHang has reviews never answer.
func (r *Reviews) SetHang(hang bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hang = hang
}

// TokenReviews is how many there were.
func (r *Reviews) TokenReviews() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tokens
}

// AccessReviews is what was asked for.
func (r *Reviews) AccessReviews() []authorizationv1.SubjectAccessReviewSpec {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]authorizationv1.SubjectAccessReviewSpec(nil), r.access...)
}

// ReviewToken implements auth.Reviews.
func (r *Reviews) ReviewToken(ctx context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
	r.mu.Lock()
	r.tokens++
	user, ok := r.users[token]
	if r.issuer != "" && issuerOf(token) == r.issuer {
		user, ok = r.bearer, true
	}
	hang, err := r.hang, r.err
	r.mu.Unlock()
	if hang {
		<-ctx.Done()
		err = ctx.Err()
	}
	return authenticationv1.TokenReviewStatus{Authenticated: ok, User: user}, err
}

// ReviewAccess implements auth.Reviews.
func (r *Reviews) ReviewAccess(
	ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec,
) (authorizationv1.SubjectAccessReviewStatus, error) {
	r.mu.Lock()
	r.access = append(r.access, spec)
	allowed := r.allow != nil && r.allow(spec)
	hang, err := r.hang, r.err
	r.mu.Unlock()
	if hang {
		<-ctx.Done()
		err = ctx.Err()
	}
	return authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}, err
}

func issuerOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	return claims.Issuer
}
