// Package metricsauth lets those read the metrics whom the hub lets. In comes a request with a bearer token; it is served
// where the hub knows the token and whoever has it may get the path.
package metricsauth

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

const (
	// timeout is that of both reviews together.
	timeout = 10 * time.Second
	// lifetime is how long it is remembered that somebody may read a path.
	lifetime = time.Minute
	// maxReviews bounds the reviews at once, so that strangers do not keep the hub busy; maxAllowed what is remembered.
	maxReviews = 4
	maxAllowed = 100
)

// Provider returns the provider of a filter for metrics, which tells the time by a clock.
func Provider(now func() time.Time) func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
	return func(cfg *rest.Config, client *http.Client) (metricsserver.Filter, error) {
		hub, err := kubernetes.NewForConfigAndClient(cfg, client)
		if err != nil {
			return nil, err
		}
		return func(log logr.Logger, next http.Handler) (http.Handler, error) {
			return New(hub, now, log, next), nil
		}, nil
	}
}

// question is whether the holder of a token, of which this is the hash, may read a path.
type question struct {
	token [sha256.Size]byte
	path  string
}

type reviewer struct {
	hub     kubernetes.Interface
	now     func() time.Time
	log     logr.Logger
	next    http.Handler
	reviews chan struct{}

	mu      sync.Mutex
	allowed map[question]time.Time // until when
}

// New returns a handler that serves next to those whom the hub lets.
func New(hub kubernetes.Interface, now func() time.Time, log logr.Logger, next http.Handler) http.Handler {
	return &reviewer{hub: hub, now: now, log: log, next: next, reviews: make(chan struct{}, maxReviews), allowed: map[question]time.Time{}}
}

func (r *reviewer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	token, is := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !is || token == "" {
		http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
		return
	}
	if req.Method != http.MethodGet {
		http.Error(w, "only GET is served", http.StatusMethodNotAllowed)
		return
	}
	if status := r.review(req.Context(), token, req.URL.Path); status != http.StatusOK {
		http.Error(w, http.StatusText(status), status)
		return
	}
	r.next.ServeHTTP(w, req)
}

// review returns the HTTP status of the answer.
func (r *reviewer) review(ctx context.Context, token, path string) int {
	q := question{sha256.Sum256([]byte(token)), path}
	if r.isAllowed(q) {
		return http.StatusOK
	}
	select {
	case r.reviews <- struct{}{}:
		defer func() { <-r.reviews }()
	default:
		return http.StatusTooManyRequests
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, err := ask(ctx, r.hub, token, path)
	if err != nil {
		r.log.Error(err, "asking the hub who may read metrics")
		return http.StatusServiceUnavailable
	}
	if status == http.StatusOK {
		r.allow(q)
	}
	return status
}

// ask has the hub say whose token it is and what they may do.
func ask(ctx context.Context, hub kubernetes.Interface, token, path string) (int, error) {
	known, err := hub.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	if !known.Status.Authenticated || known.Status.Error != "" {
		return http.StatusUnauthorized, nil
	}
	who := known.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range who.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	access, err := hub.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: who.Username, UID: who.UID, Groups: who.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		},
	}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return 0, err
	case !access.Status.Allowed || access.Status.Denied:
		return http.StatusForbidden, nil
	default:
		return http.StatusOK, nil
	}
}

func (r *reviewer) isAllowed(q question) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now().Before(r.allowed[q])
}

func (r *reviewer) allow(q question) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.allowed) >= maxAllowed {
		clear(r.allowed) // they are asked about anew
	}
	r.allowed[q] = r.now().Add(lifetime)
}
