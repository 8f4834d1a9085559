package clusters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters/credentialplugin"
)

// State is what is known of the connection to a member.
type State struct {
	// Ready says that the member is engaged: it answers, it is the right cluster, its caches are fresh.
	Ready bool
	// Reason and Message are those of its condition.
	Reason, Message string
	// UID and Version as they were last seen, empty before the first contact.
	UID, Version string
	// Server and CA are what the kubeconfig or the ClusterProfile says (Address).
	Server, CA string
	// Since is when the attempt began that has engaged the member, or is to; of one that was lost, when it was
	// engaged again.
	Since time.Time
	// LastHeard is the time of the last answer, zero before the first.
	LastHeard time.Time
	// Capacity is nil where it is not known.
	Capacity *v1alpha1.MemberCapacity
	// Quarantine is why nothing is asked of the member any more; nil where it is not quarantined.
	Quarantine *v1alpha1.Quarantine
}

// Target says which cluster to connect to.
type Target struct {
	Spec v1alpha1.MemberClusterSpec
	// Kubeconfig is the content of the member's Secret, where it has one.
	Kubeconfig []byte
	// Access is how else to reach the member; nil where there is a kubeconfig.
	Access *Access
	// ExpectedUID is the identity recorded at the first contact, or empty.
	ExpectedUID string
	// Quarantine is that of a member of which nothing is asked; nil for all others.
	Quarantine *v1alpha1.Quarantine
	// Rank says who is connected first where many are to be: members of a lower one. It is that of when the connection was made.
	Rank int
}

// Provider connects members and hands the engaged ones to a multicluster manager.
type Provider struct {
	log     logr.Logger
	now     func() time.Time
	changed func(name string, reachability bool)

	intervals Intervals
	limits    Limits
	admit     func(ctx context.Context, name, uid string) error
	hub       Hub
	plugins   *credentialplugin.Runner
	held      sync.Map // see fence
	shard     string
	takeOver  func(ctx context.Context, name, uid string) error
	turns     *turns

	ctx   context.Context
	aware multicluster.Aware
	ready chan struct{} // closed when ctx and aware are set

	mu          sync.RWMutex
	connections map[string]*connection
	indexers    []index
	onRoom      func(name string)
}

type index struct {
	obj     client.Object
	field   string
	extract client.IndexerFunc
}

var (
	_ multicluster.Provider         = (*Provider)(nil)
	_ multicluster.ProviderRunnable = (*Provider)(nil)
)

// NewProvider makes a provider without members. The function changed is called, from any goroutine, with
// the name of a member whose State has changed, and whether its Ready or Reason has; it must not block.
func NewProvider(log logr.Logger, now func() time.Time, changed func(name string, reachability bool)) *Provider {
	return &Provider{log: log, now: now, changed: changed, intervals: DefaultIntervals(), limits: DefaultLimits(), turns: newTurns(DefaultConnects), ready: make(chan struct{}), connections: map[string]*connection{}}
}

// SetIntervals replaces the default intervals. It is called before Start.
func (p *Provider) SetIntervals(i Intervals) { p.intervals = i }

// SetLimits replaces the default limits. It is called before Start.
func (p *Provider) SetLimits(l Limits) { p.limits = l }

// SetConnects replaces how many members are connected at once; 0 is no bound. It is called before Start.
func (p *Provider) SetConnects(most int) { p.turns = newTurns(most) }

// Connects is how many members are connected at once; 0 is no bound.
func (p *Provider) Connects() int { return p.turns.most }

// SetAdmission has a function asked, from any goroutine, whether the member of a name may be the cluster with a UID, each
// time before that is engaged. The error, an *Error, is why not. It is called before Start.
func (p *Provider) SetAdmission(admit func(ctx context.Context, name, uid string) error) {
	p.admit = admit
}

// SetHub has members record this hub, and fences it where they have recorded another. It is called before Start; without
// it nothing is recorded, and nothing is fenced.
func (p *Provider) SetHub(h Hub) { p.hub = h }

// SetShard has members record that a shard of the hub uses them, empty for none. Where a member has another shard of this hub
// on record, takeOver is asked, from any goroutine, whether the member of that name, which is the cluster with that UID, may be
// used all the same; the error, an *Error, is why not. It is called before Start.
func (p *Provider) SetShard(shard string, takeOver func(ctx context.Context, name, uid string) error) {
	p.shard, p.takeOver = shard, takeOver
}

// SetPlugins runs the credential plugins of members that have an Access. It is called before Start.
func (p *Provider) SetPlugins(r *credentialplugin.Runner) { p.plugins = r }

// OnRoom has a function called, from any goroutine, with the name of a member whose Room has changed. It must
// not block, and is set before Start.
func (p *Provider) OnRoom(f func(name string)) { p.onRoom = f }

func (p *Provider) roomChanged(name string) {
	if p.onRoom != nil {
		p.onRoom(name)
	}
}

// Start implements multicluster.ProviderRunnable: it lets members engage, until ctx ends.
func (p *Provider) Start(ctx context.Context, aware multicluster.Aware) error {
	p.ctx, p.aware = ctx, aware
	close(p.ready)
	<-ctx.Done()
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.connections))
	p.mu.Unlock()
	for _, c := range all {
		<-c.done
	}
	return nil
}

// Get implements multicluster.Provider. A member that is not engaged is not found.
func (p *Provider) Get(_ context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	m, err := p.Member(name.String())
	if err != nil {
		return nil, errors.Join(err, multicluster.ErrClusterNotFound)
	}
	return m, nil
}

// Member returns an engaged member, or ErrNotEngaged.
func (p *Provider) Member(name string) (*Member, error) {
	p.mu.RLock()
	c := p.connections[name]
	p.mu.RUnlock()
	if c != nil {
		if m := c.member.Load(); m != nil {
			return m, nil
		}
	}
	return nil, fmt.Errorf("member %s: %w", name, ErrNotEngaged)
}

// IndexField implements multicluster.Provider.
func (p *Provider) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	p.mu.Lock()
	p.indexers = append(p.indexers, index{obj, field, extract})
	all := slices.Collect(maps.Values(p.connections))
	p.mu.Unlock()
	var errs []error
	for _, c := range all {
		if m := c.member.Load(); m != nil {
			errs = append(errs, m.GetFieldIndexer().IndexField(ctx, obj, field, extract))
		}
	}
	return errors.Join(errs...)
}

// State returns what is known of a member; ok is false for one that was never Ensured.
func (p *Provider) State(name string) (s State, ok bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	c, ok := p.connections[name]
	if !ok {
		return State{}, false
	}
	return c.snapshot(), true
}

// Ensure connects a member, or connects it anew if the target has changed. It does not wait for the
// member: State tells how far it is.
func (p *Provider) Ensure(name string, target Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.connections[name]; ok {
		if c.sameTarget(target) {
			return
		}
		defer c.stop()
	}
	cfg, err := target.restConfig()
	c := newConnection(p, name, target, cfg, err, p.connections[name])
	if c.before == nil && target.Quarantine == nil {
		c.first = p.turns.request(target.Rank)
	}
	p.connections[name] = c
	go c.run()
}

// Remove disconnects a member. Nothing on the member is touched.
func (p *Provider) Remove(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.connections[name]; ok {
		c.stop()
		delete(p.connections, name)
	}
}

func (p *Provider) indexes() []index {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Clone(p.indexers)
}

// reclaim has all members record the epoch of this hub, which was raised.
func (p *Provider) reclaim() {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, c := range p.connections {
		if m := c.member.Load(); m != nil {
			m.fence.note()
		}
	}
}

// sameTarget ignores an expected UID that is merely recorded now: it came from this very connection.
func (c *connection) sameTarget(t Target) bool {
	now := c.snapshot()
	uid := c.target.ExpectedUID == t.ExpectedUID || now.UID == t.ExpectedUID
	return uid && sameQuarantine(now.Quarantine, t.Quarantine) && string(c.target.Kubeconfig) == string(t.Kubeconfig) &&
		reflect.DeepEqual(c.target.Access, t.Access) && reflect.DeepEqual(c.target.Spec, t.Spec)
}

// sameQuarantine says whether two are the same, or both are none.
func sameQuarantine(a, b *v1alpha1.Quarantine) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Since.Equal(&b.Since) && a.Limit == b.Limit && a.Asked == b.Asked
}
