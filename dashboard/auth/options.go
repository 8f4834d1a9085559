package auth

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
)

// Options is what New wants. Of what is not said otherwise, zero means the default.
type Options struct {
	// Reviews asks the hub's API server. Required.
	Reviews Reviews
	// Now is the clock. Required.
	Now func() time.Time
	// Rand is the source of ids, safe for concurrent use. Default: crypto/rand.
	Rand io.Reader
	// Log tells of reviews that had no answer, and of panics.
	Log logr.Logger
	// OIDC is the issuer through which people log in; nil for none.
	OIDC *OIDCOptions

	// SessionLifetime is how long a session lasts at most, however much it is used. Default: 12 h.
	SessionLifetime time.Duration
	// IdleTimeout is how long a session lasts without a request or an open stream. Default: 1 h.
	IdleTimeout time.Duration
	// ReviewTTL is how long a TokenReview is believed, at most 10 s. Default: 10 s.
	ReviewTTL time.Duration
	// AccessTTL is how long a SubjectAccessReview is believed, at most 10 s. Default: 5 s.
	AccessTTL time.Duration
	// ReviewTimeout is how long the API server has for a review, less than 1 s. Default: 800 ms.
	ReviewTimeout time.Duration

	// MaxSessions bounds the sessions, and MaxSessionsPerPerson those of one person. One more ends the oldest.
	// Default: 10,000 and 50.
	MaxSessions, MaxSessionsPerPerson int
	// MaxReviews bounds the TokenReviews that are kept, MaxAccess the SubjectAccessReviews. Default: 10,000 and 50,000.
	MaxReviews, MaxAccess int
	// MaxBody is how many bytes the body of a request may have. Default: 1 MiB.
	MaxBody int64

	// Requests is how many requests an address may make, PersonRequests how many a person. Default: 50 a second
	// after 300 at once; 30 after 200.
	Requests, PersonRequests Rate
	// Logins is how many attempts to log in, and bearer tokens not seen before, an address may send. Default: 1 a
	// second after 20 at once.
	Logins Rate
	// TrustedProxies are those whose X-Forwarded-For is believed. Without them everybody behind a proxy has its address,
	// and shares its rates.
	TrustedProxies []netip.Prefix
}

// Rate is so many a second in the long run, after so many at once.
type Rate struct {
	PerSecond float64
	Burst     int
}

const (
	maxTTL           = 10 * time.Second
	maxReviewTimeout = time.Second
)

func (o Options) withDefaults() Options {
	preset(&o.Rand, rand.Reader)
	preset(&o.SessionLifetime, 12*time.Hour)
	preset(&o.IdleTimeout, time.Hour)
	preset(&o.ReviewTTL, maxTTL)
	preset(&o.AccessTTL, 5*time.Second)
	preset(&o.ReviewTimeout, 800*time.Millisecond)
	preset(&o.MaxSessions, 10_000)
	preset(&o.MaxSessionsPerPerson, 50)
	preset(&o.MaxReviews, 10_000)
	preset(&o.MaxAccess, 50_000)
	preset(&o.MaxBody, 1<<20)
	preset(&o.Requests, Rate{PerSecond: 50, Burst: 300})
	preset(&o.PersonRequests, Rate{PerSecond: 30, Burst: 200})
	preset(&o.Logins, Rate{PerSecond: 1, Burst: 20})
	return o
}

func preset[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o Options) validate() error {
	var errs []error
	if o.Reviews == nil || o.Now == nil {
		errs = append(errs, errors.New("reviews and a clock are required"))
	}
	for name, d := range map[string]struct{ value, most time.Duration }{
		"SessionLifetime": {o.SessionLifetime, 0},
		"IdleTimeout":     {o.IdleTimeout, 0},
		"ReviewTTL":       {o.ReviewTTL, maxTTL},
		"AccessTTL":       {o.AccessTTL, maxTTL},
		"ReviewTimeout":   {o.ReviewTimeout, maxReviewTimeout},
	} {
		if d.value < 0 || d.most > 0 && d.value > d.most {
			errs = append(errs, fmt.Errorf("%s: %s is out of range", name, d.value))
		}
	}
	for name, n := range map[string]int{
		"MaxSessions": o.MaxSessions, "MaxSessionsPerPerson": o.MaxSessionsPerPerson, "MaxReviews": o.MaxReviews,
		"MaxAccess": o.MaxAccess, "MaxBody": int(min(o.MaxBody, 1<<30)),
	} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("%s: %d is negative", name, n))
		}
	}
	for name, r := range map[string]Rate{"Requests": o.Requests, "PersonRequests": o.PersonRequests, "Logins": o.Logins} {
		if r.PerSecond <= 0 || r.Burst < 1 {
			errs = append(errs, fmt.Errorf("%s: nothing would be allowed", name))
		}
	}
	return errors.Join(errs...)
}

// Auth is safe for concurrent use.
type Auth struct {
	options  Options
	origins  *http.CrossOriginProtection
	tokens   *answers[*verdict]
	access   *answers[bool]
	sessions *store[session]
	requests *limiter
	people   *limiter
	logins   *limiter
	seldom   rate.Sometimes // logs
	oidc     *flow          // nil without an issuer
}

// New makes no request; an issuer is asked when somebody logs in.
func New(o Options) (*Auth, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("settings of the dashboard's logins: %w", err)
	}
	a := &Auth{
		options:  o,
		origins:  http.NewCrossOriginProtection(),
		tokens:   newAnswers[*verdict](o.MaxReviews, o.ReviewTimeout, o.Now),
		access:   newAnswers[bool](o.MaxAccess, o.ReviewTimeout, o.Now),
		sessions: newStore[session](o.MaxSessions, o.MaxSessionsPerPerson, o.IdleTimeout, o.Now, o.Rand),
		requests: newLimiter(o.Requests, o.Now),
		people:   newLimiter(o.PersonRequests, o.Now),
		logins:   newLimiter(o.Logins, o.Now),
		seldom:   rate.Sometimes{Interval: 10 * time.Second},
	}
	if o.OIDC != nil {
		f, err := newFlow(*o.OIDC, o.Now, o.Rand)
		if err != nil {
			return nil, err
		}
		a.oidc = f
	}
	return a, nil
}
