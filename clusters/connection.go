package clusters

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

const (
	// engageTimeout bounds one attempt to fill a member's caches.
	engageTimeout = 60 * time.Second
	// retryJitter is the part of a wait that is added to it or taken off at most, so that members that were lost
	// together are not asked together.
	retryJitter = 0.5
	// probesToLose is how many probes in a row must fail before a member counts as unreachable.
	probesToLose = 2
	// http1Interval is how often a member without HTTP/2 is asked whether it is there, for want of pings.
	http1Interval = 20 * time.Second
	// http1Jitter is the part of it that is added or taken off at most, so that members which were connected together are not
	// asked together.
	http1Jitter = 0.2
)

// connection keeps one member connected: it connects, serves until the member is lost, and starts over.
//
//	         ┌───────────── retry ─────────────┐
//	         v                                 │
//	connecting ── identity, version, caches ── failed
//	         │                                 ^
//	         v          probes fail            │
//	      engaged ─────────────────────────────┘
type connection struct {
	provider *Provider
	name     string
	target   Target
	cfg      *rest.Config
	cfgErr   error
	before   *connection // that has to end before this one engages

	cancel context.CancelFunc
	done   chan struct{}
	member atomic.Pointer[Member]
	first  *turn // that of the first attempt, requested in the order in which connections are made; nil after it

	strikes atomic.Int32 // see line

	mu    sync.Mutex
	state State
	line  *line
}

func newConnection(p *Provider, name string, target Target, cfg *rest.Config, err error, before *connection) *connection {
	c := &connection{provider: p, name: name, target: target, cfg: cfg, cfgErr: err, before: before, done: make(chan struct{})}
	c.state = State{Reason: v1alpha1.ReasonConnecting, Message: "connecting to the member", UID: target.ExpectedUID, Since: p.now()}
	c.state.Server, c.state.CA = target.Address()
	if before != nil {
		old := before.snapshot()
		c.state.LastHeard, c.state.Version = old.LastHeard, old.Version
	}
	if q := target.Quarantine; q != nil {
		c.state.Reason, c.state.Message, c.state.Quarantine = v1alpha1.ReasonQuarantined, quarantineError(q, name).Error(), q
	}
	return c
}

func (c *connection) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
		return
	}
	// It has not begun to run: let it end as soon as it does.
	c.cancel = func() {}
}

func (c *connection) begin() (context.Context, bool) {
	<-c.provider.ready
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		return nil, false
	}
	ctx, cancel := context.WithCancel(c.provider.ctx)
	c.cancel = cancel
	return ctx, true
}

func (c *connection) run() {
	defer close(c.done)
	if c.before != nil {
		<-c.before.done
		c.before = nil
	}
	ctx, ok := c.begin()
	if !ok {
		if c.first != nil {
			c.provider.turns.withdraw(c.first)
		}
		return
	}
	intervals := c.provider.intervals
	wait, again, failed := intervals.RetryMin, false, false
	for ctx.Err() == nil {
		if c.snapshot().Quarantine != nil {
			<-ctx.Done() // only a person lifts that, and that is another connection
			return
		}
		turn := c.nextTurn(failed)
		if !c.provider.turns.wait(ctx, turn) {
			return
		}
		began := c.provider.now()
		engaged, err := c.session(ctx, turn.end)
		turn.end()
		if ctx.Err() != nil {
			return
		}
		failed = hasFailed(engaged, err)
		if engaged && c.provider.now().Sub(began) >= intervals.RetryMax {
			wait, again = intervals.RetryMin, false // one that comes and goes is not waited for less and less
		}
		if errors.Is(err, errReconnect) && c.snapshot().Quarantine == nil {
			c.reconnecting()
			if again {
				sleep(ctx, around(wait, retryJitter)) // its record changes again and again
				wait = min(2*wait, intervals.RetryMax)
			}
			again = true
			continue
		}
		c.lost(err)
		if errors.Is(err, c.cfgErr) && c.cfgErr != nil {
			<-ctx.Done() // only another kubeconfig helps, and that is another connection
			return
		}
		sleep(ctx, around(wait, retryJitter))
		wait = min(2*wait, intervals.RetryMax)
	}
}

// hasFailed says whether a session has ended before the member was engaged, and not to begin anew at once.
func hasFailed(engaged bool, err error) bool { return !engaged && !errors.Is(err, errReconnect) }

// nextTurn requests a turn for the next attempt. The first one was requested when the connection was made. What has failed comes
// after all that has not: members that are away keep nobody waiting who may be there, whatever is live on them.
func (c *connection) nextTurn(failed bool) *turn {
	if first := c.first; first != nil {
		c.first = nil
		return first
	}
	rank := c.target.Rank
	if failed {
		rank += afterFailure
	}
	return c.provider.turns.request(rank)
}

// session connects once and serves until the member is lost. It says whether the member was engaged, and calls connected when
// it is.
func (c *connection) session(ctx context.Context, connected func()) (bool, error) {
	if c.cfgErr != nil {
		return false, c.cfgErr
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cfg, issued, err := c.credentials(ctx)
	if err != nil {
		return false, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = UserAgent(c.provider.shard)
	l := newLine(c.provider.now, c.provider.limits)
	l.session, l.end, l.strikes = ctx, cancel, &c.strikes
	m, err := newMember(c.name, c.target.Spec, cfg, l)
	if err != nil {
		return false, err
	}
	m.issued = issued
	defer c.quarantine(l)
	m.session = ctx
	m.fence = newFence(c.provider, m)
	defer m.close()
	c.follow(m.line)
	if err := c.contact(ctx, m); err != nil {
		return false, err
	}
	if c.snapshot().Reason == v1alpha1.ReasonForbidden {
		// Caches fill with lists alone. The member would engage, be refused a watch, and be lost again.
		if err := m.checkWatches(ctx); err != nil {
			return false, err
		}
	}
	if err := m.engage(ctx, engageTimeout); err != nil {
		return false, err
	}
	epoch, err := c.lead(ctx, m)
	if err != nil {
		return false, err
	}
	for _, i := range c.provider.indexes() {
		if err := m.GetFieldIndexer().IndexField(ctx, i.obj, i.field, i.extract); err != nil {
			return false, fmt.Errorf("indexing %s: %w", i.field, err)
		}
	}
	c.member.Store(m)
	defer c.member.Store(nil)
	m.fence.noteUnless(epoch) // it may have been raised before that could be told here
	if err := c.provider.aware.Engage(ctx, multicluster.ClusterName(c.name), m); err != nil {
		return false, fmt.Errorf("watching the member: %w", err)
	}
	connected()
	c.strikes.Store(0)
	go m.capacity.run(ctx, c.provider.intervals.Capacity, c.setCapacity, func() { c.provider.roomChanged(c.name) })
	c.set(func(s *State) {
		if s.Reason != v1alpha1.ReasonConnecting {
			s.Since = c.provider.now()
		}
		s.Ready, s.Reason, s.Message = true, v1alpha1.ReasonConnected, c.target.connected()
		s.UID, s.Version = m.UID, m.Version
	})
	go c.renew(ctx, cancel, issued)
	err = c.serve(ctx, m, epoch)
	if errors.Is(context.Cause(ctx), errReconnect) {
		err = errReconnect
	}
	return true, err
}

// serve returns when the member is lost, or another hub takes it over. The epoch is the one that the member records.
func (c *connection) serve(ctx context.Context, m *Member, epoch int64) error {
	for {
		// Only now, when whoever asks this hub about the member is answered from its caches.
		if err := m.fence.connected(ctx, epoch); err != nil {
			return err
		}
		err := c.watch(ctx, m)
		if errors.Is(err, errRecordChanged) {
			epoch, err = c.claim(ctx, m)
		}
		if err != nil {
			return err
		}
	}
}

// lead waits until the member records no other hub as the one that leads the fleet, and returns the epoch in which this
// one does. What was read while there was another is not used: that one may have been about to change it.
func (c *connection) lead(ctx context.Context, m *Member) (epoch int64, err error) {
	if err := m.fence.follow(ctx); err != nil {
		return 0, err
	}
	epoch, err = c.claim(ctx, m)
	for isFenced(err) {
		c.lost(err)
		if err := c.watch(ctx, m); !errors.Is(err, errRecordChanged) {
			return 0, err
		}
		if epoch, err = c.claim(ctx, m); err == nil {
			return 0, errReconnect
		}
	}
	if err != nil {
		return 0, err
	}
	return epoch, m.fence.enroll(ctx, epoch)
}

// claim has the member record this hub, and returns the epoch that it has recorded. The error is errReconnect where
// another record was replaced: whoever made that may have changed something after the caches were filled.
func (c *connection) claim(ctx context.Context, m *Member) (epoch int64, err error) {
	if m.fence == nil {
		return 0, nil
	}
	before := m.fence.epoch()
	epoch, replaced, err := m.fence.claim(ctx)
	if m.fence.epoch() != before {
		c.provider.reclaim()
	}
	if err == nil && replaced {
		err = errReconnect
	}
	return epoch, err
}

// reconnecting begins a new attempt without a wait.
func (c *connection) reconnecting() {
	c.set(func(s *State) {
		s.Ready, s.Reason, s.Message, s.Since = false, v1alpha1.ReasonConnecting, "connecting to the member", c.provider.now()
	})
}

// contact learns who and what the member is, and refuses the wrong one.
func (c *connection) contact(ctx context.Context, m *Member) error {
	want := c.snapshot().UID
	m.UID = want
	if want == "" {
		uid, err := m.identify(ctx)
		if err != nil {
			return err
		}
		m.UID = uid
	}
	if err := m.verifyIdentity(ctx); err != nil {
		return err
	}
	if admit := c.provider.admit; admit != nil {
		if err := admit(ctx, c.name, m.UID); err != nil {
			return err
		}
	}
	var err error
	m.Version, err = m.serverVersion(ctx)
	return err
}

// watch returns when the member is lost, with the reason, or with errRecordChanged.
func (c *connection) watch(ctx context.Context, m *Member) error {
	ticker := time.NewTicker(jitter.Percent(http1Jitter, nil)(http1Interval))
	defer ticker.Stop()
	var confirm <-chan time.Time
	confirmLater := func() {
		if interval := c.provider.intervals.Confirm; interval > 0 {
			confirm = time.After(around(interval, confirmSpread))
		}
	}
	confirmLater()
	for {
		check := m.checkWatches
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.fence.changes():
			return errRecordChanged
		case <-m.line.suspect:
		case <-confirm:
			go m.confirm(ctx) // nothing waits for the answer of a member that may be slow
			confirmLater()
			continue
		case <-ticker.C:
			if !m.line.http1.Load() {
				continue
			}
			check = m.checkLists // a watch would cost a connection each time
		}
		if err := c.probe(ctx, m, check); err != nil {
			return err
		}
	}
}

// probe asks the member who it is, and whether what the check asks for is still allowed.
func (c *connection) probe(ctx context.Context, m *Member, check func(context.Context) error) error {
	var err error
	for range probesToLose {
		var uid string
		if uid, err = m.identify(ctx); err == nil {
			if uid != m.UID {
				return wrongCluster(m.UID, uid)
			}
			if err = check(ctx); err == nil {
				c.strikes.Store(0)
				return nil
			}
		}
		sleep(ctx, c.provider.intervals.Probe)
	}
	return err
}

// quarantine ends the use of a member one of whose answers was beyond a limit.
func (c *connection) quarantine(l *line) {
	q := l.quarantine.Load()
	if q == nil {
		return
	}
	e := quarantineError(q, c.name)
	c.set(func(s *State) {
		s.Ready, s.Reason, s.Message, s.Capacity, s.Quarantine = false, e.Reason, e.Error(), nil, q
	})
}

func (c *connection) lost(err error) {
	e := c.target.explain(connectionError(err))
	c.set(func(s *State) {
		if s.Quarantine == nil {
			s.Ready, s.Reason, s.Message, s.Capacity = false, e.Reason, e.Error(), nil
		}
	})
}

// follow takes the time of the last answer from a session's line.
func (c *connection) follow(l *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.line != nil {
		if t := c.line.lastHeard(); t.After(c.state.LastHeard) {
			c.state.LastHeard = t
		}
	}
	c.line = l
}

func (c *connection) setCapacity(capacity *v1alpha1.MemberCapacity) {
	c.set(func(s *State) { s.Capacity = capacity })
}

func (c *connection) set(change func(*State)) {
	c.mu.Lock()
	before := c.state
	change(&c.state)
	same := before == c.state
	after := c.state
	c.mu.Unlock()
	if same {
		return
	}
	moved := before.Ready != after.Ready || before.Reason != after.Reason
	if moved {
		c.provider.log.Info("member state", "member", c.name, "ready", after.Ready, "reason", after.Reason, "message", after.Message)
	}
	c.provider.changed(c.name, moved)
}

func (c *connection) snapshot() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state
	if c.line != nil {
		if t := c.line.lastHeard(); t.After(s.LastHeard) {
			s.LastHeard = t
		}
	}
	return s
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
