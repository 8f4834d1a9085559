package auth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// Reviews asks the hub's API server.
type Reviews interface {
	// ReviewToken answers who bears a token that may be sent to the API server.
	ReviewToken(ctx context.Context, token string) (authenticationv1.TokenReviewStatus, error)
	// ReviewAccess answers whether somebody may do something.
	ReviewAccess(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)
}

// Client is what ReviewsOf wants of a kubernetes.Interface. It should have no rate limit of its own (QPS -1): reviews that
// wait for it are denied.
type Client interface {
	AuthenticationV1() authenticationclient.AuthenticationV1Interface
	AuthorizationV1() authorizationclient.AuthorizationV1Interface
}

// ReviewsOf asks with a client, which needs the rights of the ClusterRole system:auth-delegator.
func ReviewsOf(client Client) Reviews { return reviews{client} }

type reviews struct{ client Client }

func (r reviews) ReviewToken(ctx context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := r.client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.TokenReviewStatus{}, err
	}
	return review.Status, nil
}

func (r reviews) ReviewAccess(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: spec}
	review, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, err
	}
	return review.Status, nil
}

// verdict is what a TokenReview has said; nil that nobody bears the token.
type verdict struct {
	who     identity
	key     digest    // of the identity
	expires time.Time // zero if the token does not say
}

// identify returns who bears a token, by an answer that is at most so old.
func (a *Auth) identify(ctx context.Context, token string, within time.Duration) (*verdict, error) {
	v, err := a.tokens.get(ctx, digestOf(token), within, func(ctx context.Context) (*verdict, error) {
		status, err := a.options.Reviews.ReviewToken(ctx, token)
		if err != nil {
			return nil, err
		}
		if !status.Authenticated || status.User.Username == "" {
			return nil, nil
		}
		who := identityOf(status.User)
		return &verdict{who: who, key: who.key(), expires: expiryOf(token)}, nil
	})
	switch {
	case err != nil:
		return nil, a.unanswered("TokenReview", err)
	case v == nil, !v.expires.IsZero() && !a.options.Now().Before(v.expires):
		return nil, ErrUnauthenticated
	}
	return v, nil
}

// unanswered logs why there was no answer by its kind alone: the text of an error may repeat what was sent.
func (a *Auth) unanswered(review string, err error) error {
	reason := string(apierrors.ReasonForError(err))
	switch {
	case errors.Is(err, context.Canceled):
		return ErrUnavailable // whoever asked has disconnected
	case errors.Is(err, context.DeadlineExceeded):
		reason = "Timeout"
	case reason == "":
		reason = fmt.Sprintf("%T", err)
	}
	a.seldom.Do(func() {
		a.options.Log.Info("The hub's API server has not answered a review", "review", review, "reason", reason)
	})
	return fmt.Errorf("%s: %w", review, ErrUnavailable)
}

// expiryOf returns when a token ends that says so: the claim exp of a JWT. The API server has verified the token; this
// only ends what depends on it in time.
func expiryOf(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expiry float64 `json:"exp"`
	}
	const year9999 = 253402300799
	if json.Unmarshal(payload, &claims) != nil || claims.Expiry <= 0 || claims.Expiry > year9999 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expiry), 0)
}
