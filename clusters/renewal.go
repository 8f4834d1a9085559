package clusters

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// A watch is asked for a long time, and is begun anew sooner than that unless two things say that it is in order: it has
// brought something lately, and the member has said lately that its rights are as they were (Member.confirm). API servers
// bring a bookmark about once a minute. Of one that does not, and wherever there is doubt, watches are renewed as often as
// client-go does that, so that what a renewal finds is found no later.
const (
	// watchTimeout, with watchSpread of it more or less, is what API servers are asked to end a watch after.
	watchTimeout = time.Hour
	watchSpread  = 0.25
	// evidenceFor, with evidenceSpread of it more or less, is how long a watch goes on after the last that spoke for it. It
	// is at most the 10 minutes that client-go asks for.
	evidenceFor    = 8 * time.Minute
	evidenceSpread = 0.2
	// confirmSpread is the part of Intervals.Confirm that is added to it or taken off.
	confirmSpread = 0.1
)

// around is a time with at most a part of it more or less. A source of randomness of its own would take 5 KiB.
func around(d time.Duration, part float64) time.Duration {
	least := 1 - part
	return wait.Jitter(time.Duration(float64(d)*least), 2*part/least)
}

// renewalDue is when to begin a watch anew. It goes on for so long after it began, or after the earlier of the times when
// it last brought something and when the member's rights were last confirmed.
func renewalDue(began, heard, confirmed time.Time, goesOn time.Duration) time.Time {
	last := heard
	if confirmed.Before(last) {
		last = confirmed
	}
	if last.Before(began) {
		last = began
	}
	return last.Add(goesOn)
}

// lifetime ends a watch when it is due for renewal.
type lifetime struct {
	line   *line
	began  time.Time
	goesOn time.Duration
	end    func() error
	heard  atomic.Int64 // in Unix nanoseconds
	over   atomic.Bool  // it was ended here

	mu    sync.Mutex
	timer *time.Timer
}

func (l *line) newLifetime(end func() error) *lifetime {
	w := &lifetime{line: l, began: l.now(), goesOn: around(evidenceFor, evidenceSpread), end: end}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.goesOn, w.check)
	return w
}

// brought notes an event.
func (w *lifetime) brought() { w.heard.Store(w.line.now().UnixNano()) }

func (w *lifetime) check() {
	due := renewalDue(w.began, time.Unix(0, w.heard.Load()), time.Unix(0, w.line.confirmed.Load()), w.goesOn)
	left := due.Sub(w.line.now())
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.timer == nil:
	case left > 0:
		w.timer.Reset(left)
	default:
		w.over.Store(true)
		_ = w.end() // whoever reads it is told that it has ended
	}
}

// stop is for when the watch has ended.
func (w *lifetime) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}
