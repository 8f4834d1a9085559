package auth

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"
)

var (
	// ErrUnauthenticated says that the API server does not know the token, or that the session has ended.
	ErrUnauthenticated = errors.New("not logged in, or no longer")
	// ErrUnavailable says that the API server has not answered, which is never access.
	ErrUnavailable = errors.New("the hub's API server does not answer")
)

// problem is an answer as in RFC 9457. Its text is constant: it repeats nothing of the request.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	retry  time.Duration
}

var (
	// The same for a wrong token, one that has ended and none.
	unauthorized = problem{Status: http.StatusUnauthorized, Detail: "Log in, or send a valid bearer token."}
	unavailable  = problem{
		Status: http.StatusServiceUnavailable, Detail: "The hub's API server does not answer. Try again in a moment.",
		retry: time.Second,
	}
	crossOrigin   = problem{Status: http.StatusForbidden, Detail: "Pages of other origins may not ask for this."}
	notJSON       = problem{Status: http.StatusUnsupportedMediaType, Detail: "Send JSON, as application/json."}
	tooLarge      = problem{Status: http.StatusRequestEntityTooLarge, Detail: "The body of the request is too large."}
	malformed     = problem{Status: http.StatusBadRequest, Detail: `Send {"token": "..."}.`}
	internalError = problem{Status: http.StatusInternalServerError, Detail: "This is a fault of MiniFleet. Its log has more."}
)

func tooMany(wait time.Duration) problem {
	return problem{Status: http.StatusTooManyRequests, Detail: "Too many requests. Try again in a moment.", retry: wait}
}

// problemOf tells an error of a review.
func problemOf(err error) problem {
	if errors.Is(err, ErrUnauthenticated) {
		return unauthorized
	}
	return unavailable
}

func (p problem) head(h http.Header) {
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="minifleet"`)
	}
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(p.retry.Seconds())))))
	}
	h.Set("Cache-Control", "no-store")
}

func (p problem) write(w http.ResponseWriter) {
	p.Title = http.StatusText(p.Status)
	p.head(w.Header())
	writeJSON(w, p.Status, "application/problem+json", p)
}

func writeJSON(w http.ResponseWriter, status int, contentType string, body any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has disconnected
}
