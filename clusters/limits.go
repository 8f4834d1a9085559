package clusters

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Limits bound what one member may answer. Nothing that an API server does by itself comes near them: etcd takes no
// object larger than 1.5 MiB, and lists are asked for in pages.
type Limits struct {
	// Header bounds the headers of an answer in bytes.
	Header int64
	// Object bounds an answer that is no list, and an event of a watch, in bytes; List a page of a list. Both hold for
	// what is received and for what that becomes when it is decompressed.
	Object, List int64
	// Values bounds the fields and elements of an answer, or of an event: a few bytes may stand for a large struct.
	Values int
	// Objects bounds how many objects of one kind are cached, Pages the pages of their list.
	Objects, Pages int
	// Cached bounds what the caches hold of all kinds, in bytes of memory, and InFlight what is received and not decoded yet.
	Cached, InFlight int64
	// Answer is from the headers of an answer to its last byte, where it is no stream.
	Answer time.Duration
	// Strikes is how many answers in a row quarantine the member that take longer than Answer or break HTTP/2, for which the
	// network may be to blame.
	Strikes int32
	// Events is how many events of a kind that MiniFleet owns are taken in a second once there were Burst; more have to wait.
	// Of nodes and pods it is observedEvents times as many, which nothing is reconciled for. It quarantines nobody.
	Events, Burst int
	// Page is how many objects are asked for at once.
	Page int64
}

const observedEvents = 20

// DefaultLimits are those of a Provider that is given none. They have room for 100,000 pods, 5,000 nodes and 5,000 runs
// on one member.
//
//   - Object is five times what etcd stores in one object, and List a page of 50 objects that are all that large.
//   - Values is 2,000 for each object of a page; pods have 200 to 500.
//   - Objects is three times the pods of the largest clusters that Kubernetes supports.
//   - Cached is 50 KiB for each of 5,000 runs (a Job, ConfigMaps, a Service and a Secret), 700 bytes for each of 100,000 pods,
//     and 10 KiB for each of 5,000 nodes. The hub's memory limit has to leave room for what its members really have.
func DefaultLimits() Limits {
	return Limits{
		Header: 256 << 10, Object: 8 << 20, List: 96 << 20, Values: 500_000,
		Objects: 300_000, Pages: 10_000, Cached: 384 << 20, InFlight: 192 << 20,
		Answer: 45 * time.Second, Strikes: 3, Events: 250, Burst: 20_000, Page: 250,
	}
}

// Scale multiplies what a member may answer, but no times.
func (l Limits) Scale(factor float64) Limits {
	for _, n := range []*int64{&l.Header, &l.Object, &l.List, &l.Cached, &l.InFlight} {
		*n = int64(float64(*n) * factor)
	}
	for _, n := range []*int{&l.Values, &l.Objects, &l.Pages} {
		*n = int(float64(*n) * factor)
	}
	return l
}

// Names of limits, as a quarantine shows them.
const (
	limitHeader   = "Header"
	limitObject   = "Object"
	limitList     = "List"
	limitValues   = "Values"
	limitObjects  = "Objects"
	limitPages    = "Pages"
	limitCached   = "Cached"
	limitInFlight = "InFlight"
	limitAnswer   = "Answer"
	limitNames    = "Names"
)

// wellFormed says whether the names and the UID of an object are what an API server gives. They go into statuses
// and messages as they are.
func wellFormed(o metav1.Object) bool {
	const maxNamespace, maxName, maxUID = 63, 253, 128
	for text, most := range map[string]int{o.GetNamespace(): maxNamespace, o.GetName(): maxName, string(o.GetUID()): maxUID} {
		if len(text) > most || !nameCharacters.MatchString(text) {
			return false
		}
	}
	return true
}

var nameCharacters = regexp.MustCompile(`^[-A-Za-z0-9_.:]*$`)

// checkNames returns an error for an object that is not well formed.
func (l *line) checkNames(o metav1.Object, asked string) error {
	if wellFormed(o) {
		return nil
	}
	return l.beyond(limitNames, asked)
}

// describe tells people what a limit is.
func (l *Limits) describe(limit string) string {
	switch limit {
	case limitHeader:
		return "headers of at most " + bytesOf(l.Header)
	case limitObject:
		return "an object or event of at most " + bytesOf(l.Object)
	case limitList:
		return "a page of a list of at most " + bytesOf(l.List)
	case limitValues:
		return fmt.Sprintf("at most %d fields and elements in an answer", l.Values)
	case limitObjects:
		return fmt.Sprintf("at most %d objects of a kind", l.Objects)
	case limitPages:
		return fmt.Sprintf("at most %d pages of a list", l.Pages)
	case limitCached:
		return "at most " + bytesOf(l.Cached) + " in the caches of a member"
	case limitInFlight:
		return "at most " + bytesOf(l.InFlight) + " of answers at the same time"
	case limitNames:
		return "names and UIDs of the length and of the characters that Kubernetes gives"
	default:
		return fmt.Sprintf("the end of an answer within %s, %d times in a row", l.Answer, l.Strikes)
	}
}

func bytesOf(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}

// quarantineError is the condition of a quarantined member.
func quarantineError(q *v1alpha1.Quarantine, member string) *Error {
	return &Error{v1alpha1.ReasonQuarantined, fmt.Errorf(
		"the member's answer to %s was beyond the limit %s (%s) at %s: nothing is asked of it, and of its runs nothing is known, until a person lifts that; find out why first, raise --member-limit-factor of the hub if the member is in order, then `kubectl annotate --overwrite membercluster %s %s=$(date -u +%%Y-%%m-%%dT%%H:%%M:%%SZ)`",
		q.Asked, q.Limit, q.Allowed, q.Since.UTC().Format(time.RFC3339), member, v1alpha1.AnnotationLiftQuarantine)}
}

// isQuarantined says whether an error is that an answer was beyond a limit.
func isQuarantined(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == v1alpha1.ReasonQuarantined
}

// quarantined is what is noted of an answer beyond a limit.
func quarantined(l *Limits, limit, asked string, now time.Time) *v1alpha1.Quarantine {
	return &v1alpha1.Quarantine{Since: metav1.NewTime(now).Rfc3339Copy(), Limit: limit, Allowed: l.describe(limit), Asked: asked}
}
