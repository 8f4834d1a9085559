package notification

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/notify"
)

// Intervals of deliveries.
type Intervals struct {
	// Backoff is before the second attempt of a message, and doubles up to MaxBackoff. A message is given up after Lifetime.
	Backoff, MaxBackoff, Lifetime time.Duration
	// Flush is how long what has become of messages waits to be saved.
	Flush time.Duration
	// Summary is after how long of quiet it is told how many messages were dropped.
	Summary time.Duration
	// Reread is how often Secrets are read, Retry how often those that cannot be used.
	Reread, Retry time.Duration
}

// DefaultIntervals are those of a hub.
func DefaultIntervals() Intervals {
	return Intervals{
		Backoff: time.Second, MaxBackoff: 2 * time.Minute, Lifetime: 30 * time.Minute,
		Flush: 5 * time.Second, Summary: 30 * time.Second, Reread: 5 * time.Minute, Retry: 30 * time.Second,
	}
}

// Scale multiplies all of them.
func (i Intervals) Scale(by float64) Intervals {
	for _, d := range []*time.Duration{&i.Backoff, &i.MaxBackoff, &i.Lifetime, &i.Flush, &i.Summary, &i.Reread, &i.Retry} {
		*d = time.Duration(float64(*d) * by)
	}
	return i
}

// limits are how many messages of a Notification there may be.
type limits struct {
	queue, burst int
	every        rate.Limit // in a second, once burst is used up
}

// limitsOf are for people who read along, and for programs.
var limitsOf = map[v1alpha1.NotificationType]limits{
	v1alpha1.NotifyChat:         {queue: 50, burst: 20, every: rate.Every(10 * time.Second)},
	v1alpha1.NotifyWebhook:      {queue: 300, burst: 300, every: 2},
	v1alpha1.NotifyAlertmanager: {queue: 300, burst: 300, every: 2},
}

// sink tells the transitions of one Notification, one after the other.
type sink struct {
	key       types.NamespacedName
	uid       types.UID
	slots     *slots
	intervals Intervals
	now       func() time.Time
	// changed is called when there is something to write.
	changed func(types.NamespacedName)
	cancel  context.CancelFunc
	ended   chan struct{}
	wake    chan struct{}

	mu         sync.Mutex
	memory     *notify.Memory
	generation int64
	selector   labels.Selector
	events     []v1alpha1.NotificationEvent
	kind       v1alpha1.NotificationType
	to         *target // nil while the Secret cannot be used
	limiter    *rate.Limiter
	queue      []notify.Transition
	dropped    map[v1alpha1.NotificationEvent]int
	failing    string // why the last attempt has failed
	flushing   bool
	counts     counts
}

// counts are those of a status.
type counts struct {
	delivered, failed, dropped int64
	last                       *metav1.Time
}

// configure has a sink tell what a Notification asks for from now on.
func (s *sink) configure(n *v1alpha1.Notification, selector labels.Selector, to *target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.generation != 0 && s.generation != n.Generation {
		s.memory.Rebase(s.now())
	}
	if s.limiter == nil || s.kind != n.Spec.Type {
		l := limitsOf[n.Spec.Type]
		s.limiter = rate.NewLimiter(l.every, l.burst)
	}
	s.generation, s.kind, s.selector, s.to, s.events = n.Generation, n.Spec.Type, selector, to, wantedEvents(&n.Spec)
}

// wantedEvents are those that a spec asks for.
func wantedEvents(spec *v1alpha1.NotificationSpec) []v1alpha1.NotificationEvent {
	asked := spec.Events
	if len(asked) == 0 {
		asked = []v1alpha1.NotificationEvent{v1alpha1.EventRunFailed, v1alpha1.EventSourceFailed, v1alpha1.EventSourceRecovered, v1alpha1.EventApprovalNeeded}
	}
	if spec.Type == v1alpha1.NotifyAlertmanager {
		return notify.AlertEvents(asked)
	}
	return asked
}

func (s *sink) wanted(e v1alpha1.NotificationEvent) bool { return slices.Contains(s.events, e) }

// runs tells what is new of a FleetMiniCluster. It waits for nothing.
func (s *sink) runs(f *v1alpha1.FleetMiniCluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.selector.Matches(labels.Set(f.Labels)) {
		s.memory.Forget(f.UID)
		return
	}
	s.enqueue(s.memory.Runs(f, s.wanted))
}

// source tells what is new of a GitSource.
func (s *sink) source(g *v1alpha1.GitSource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.selector.Matches(labels.Set(g.Labels)) {
		s.enqueue(s.memory.Source(g, s.wanted))
	}
}

func (s *sink) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.Forget(uid)
}

func (s *sink) enqueue(all []notify.Transition) {
	for i := range all {
		t := all[i]
		s.memory.Queued(&t)
		switch {
		case t.Over && s.kind != v1alpha1.NotifyAlertmanager:
			s.memory.Done(&t, s.now()) // nobody else wants to know
			s.write()
		case len(s.queue) >= limitsOf[s.kind].queue || !s.limiter.AllowN(s.now(), 1):
			s.drop(&t)
		default:
			s.queue = append(s.queue, t)
			waiting.Inc()
		}
	}
	if len(all) > 0 {
		s.rouse()
	}
}

func (s *sink) drop(t *notify.Transition) {
	if s.dropped == nil {
		s.dropped = map[v1alpha1.NotificationEvent]int{}
	}
	s.dropped[t.Event]++
	s.counts.dropped++
	sent.WithLabelValues(string(s.kind), resultDropped).Inc()
	s.memory.Done(t, s.now())
	s.write()
}

func (s *sink) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// write has the status updated soon: once for all that changes until then.
func (s *sink) write() {
	if s.flushing {
		return
	}
	s.flushing = true
	time.AfterFunc(s.intervals.Flush, func() { s.changed(s.key) })
}

// snapshot is what the status is to say.
func (s *sink) snapshot() (*v1alpha1.NotificationMemory, counts, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushing = false
	return s.memory.Snapshot(s.now()), s.counts, s.failing
}

// run delivers until the context ends.
func (s *sink) run(ctx context.Context) {
	defer close(s.ended)
	for ctx.Err() == nil {
		t, more := s.next()
		switch {
		case t != nil:
			if s.deliver(ctx, t) {
				continue
			}
			return
		case more: // it is told how many there were once there are no others
			if timer := time.NewTimer(s.intervals.Summary); !s.await(ctx, timer) {
				s.summarize(ctx)
			}
		default:
			select {
			case <-ctx.Done():
			case <-s.wake:
			}
		}
	}
}

// await waits for a message, until a timer ends, and says whether there may be one.
func (s *sink) await(ctx context.Context, timer *time.Timer) bool {
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return true
	case <-s.wake:
		return true
	case <-timer.C:
		return false
	}
}

// next is the message to deliver, and whether some were dropped.
func (s *sink) next() (t *notify.Transition, dropped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		first := s.queue[0]
		return &first, true
	}
	return nil, len(s.dropped) > 0
}

// summarize tells how many messages were dropped.
func (s *sink) summarize(ctx context.Context) {
	s.mu.Lock()
	t := notify.Transition{Key: "Dropped", At: s.now().UTC().Truncate(time.Second), Event: notify.EventDropped, Dropped: s.dropped}
	s.dropped = nil
	kind := s.kind
	s.mu.Unlock()
	if kind == v1alpha1.NotifyAlertmanager {
		return // status and metrics say it
	}
	_, _ = s.attempts(ctx, &t)
}

// deliver tells the first of the queue, and says whether that has an end: the context may come first.
func (s *sink) deliver(ctx context.Context, t *notify.Transition) bool {
	ok, ended := s.attempts(ctx, t)
	if !ended {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = slices.Delete(s.queue, 0, 1)
	waiting.Dec()
	s.memory.Done(t, s.now())
	result := resultFailed
	if ok {
		result = resultDelivered
		now := metav1.NewTime(s.now())
		s.counts.last = &now
		s.counts.delivered++
	} else {
		s.counts.failed++
	}
	sent.WithLabelValues(string(s.kind), result).Inc()
	s.write()
	return true
}

// attempts tries to tell a transition until it is accepted or given up. The context may end before that.
func (s *sink) attempts(ctx context.Context, t *notify.Transition) (ok, ended bool) {
	until, wait := s.now().Add(s.intervals.Lifetime), s.intervals.Backoff
	tell := *t
	for {
		failed := s.attempt(ctx, &tell)
		if ctx.Err() != nil && failed != nil {
			return false, false
		}
		s.note(failed)
		switch {
		case failed == nil:
			return true, true
		case failed.final:
			return false, true
		}
		pause := max(wait, failed.after)
		pause += time.Duration(rand.Int64N(int64(pause)/4 + 1)) //nolint:gosec // only jitter
		if s.now().Add(pause).After(until) {
			return false, true
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false, false
		case <-timer.C:
		}
		wait = min(2*wait, s.intervals.MaxBackoff)
	}
}

// attempt tries once.
func (s *sink) attempt(ctx context.Context, t *notify.Transition) *failure {
	s.mu.Lock()
	to := s.to
	s.mu.Unlock()
	if to == nil {
		return &failure{message: "the Secret or the address cannot be used"}
	}
	if !s.slots.take(ctx) {
		return &failure{message: "the hub stops"}
	}
	defer s.slots.free()
	where, header, body, err := to.request(t, s.now())
	if err != nil {
		return &failure{message: "the message cannot be made", final: true}
	}
	// What is under way when the hub stops may still be answered: else it would be told again.
	under, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	defer stop()
	return post(under, to.client, where, header, body)
}

// note keeps why an attempt has failed, for the status.
func (s *sink) note(failed *failure) {
	message := ""
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed != nil {
		message = failed.message
		attempts.WithLabelValues(string(s.kind)).Inc()
	}
	if s.failing != message {
		s.failing = message
		s.write()
	}
}

// stop ends a sink, and waits for that.
func (s *sink) stop() {
	s.cancel()
	<-s.ended
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting.Sub(float64(len(s.queue)))
	s.queue = nil
}

const (
	// grace is how long a request may go on when its sink ends.
	grace = 2 * time.Second
	// slotsPerNamespace is how many requests there are at once for the Notifications of a namespace, maxSlots for all.
	slotsPerNamespace = 4
	maxSlots          = 512
)

// slots are how many requests may be made at once.
type slots struct{ own, all chan struct{} }

func newSlots(all chan struct{}) *slots { return &slots{make(chan struct{}, slotsPerNamespace), all} }

// take waits for a slot, unless the context ends.
func (s *slots) take(ctx context.Context) bool {
	select {
	case s.own <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	select {
	case s.all <- struct{}{}:
		return true
	case <-ctx.Done():
		<-s.own
		return false
	}
}

func (s *slots) free() {
	<-s.all
	<-s.own
}

// begin ends the time in which what is seen was there before.
func (s *sink) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.Began()
}

// dirty says whether there is something to write.
func (s *sink) dirty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushing
}
