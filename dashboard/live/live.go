// Package live asks members what the hub's objects do not tell: pods, the objects of a run, logs. A member that does not
// answer is waited for no longer than Limit, and many readers of one thing cost it one request.
//
// In come FleetMiniClusters that somebody may see; out go values of internal/view, and lines of logs. Whoever calls has
// made sure that the person may see them.
//
//	memo.go   one request for many
//	pods.go   pods and objects of a run, for the tree
//	lines.go  the lines for room, gangs on nodes
//	diff.go   what is wanted on members against what is there
//	logs.go   logs: follow.go goes on after a connection was lost, text.go makes lines safe
package live

import (
	"context"
	"errors"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/sanitize"
	"github.com/minifleet/minifleet/internal/view"
)

// Limit is how long a member is waited for.
const Limit = 700 * time.Millisecond

// memory is how long an answer of a member is used again.
const memory = 1500 * time.Millisecond

// Member is a member that is connected.
type Member interface {
	KeyOf(ctx context.Context, f *v1alpha1.FleetMiniCluster, origin fleet.Origin) types.NamespacedName
	PodsOfJob(ctx context.Context, key types.NamespacedName, runID string) ([]corev1.Pod, error)
	PodLog(ctx context.Context, key types.NamespacedName, o corev1.PodLogOptions) (io.ReadCloser, error)
	GetLive(ctx context.Context, key types.NamespacedName, into client.Object) error
	Owned(ctx context.Context, key types.NamespacedName, origin fleet.Origin) ([]clusters.Owned, error)
	Room(without ...string) *nodeusage.Room
	RoomError() string
}

// Members are those that are connected.
type Members interface {
	// Member returns one, or clusters.ErrNotEngaged.
	Member(name string) (Member, error)
}

// Connected are the members of a provider.
type Connected struct{ *clusters.Provider }

// Member implements Members.
func (c Connected) Member(name string) (Member, error) {
	if c.Provider == nil {
		return nil, clusters.ErrNotEngaged
	}
	m, err := c.Provider.Member(name)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Options of a Reader.
type Options struct {
	Members Members
	// Queue is who waits for room; nil for nobody.
	Queue *queue.Queue
	// FleetID is the identity of the fleet.
	FleetID string
	Now     func() time.Time
}

// Reader asks members. It is safe for concurrent use.
type Reader struct {
	Options

	pods    memo[view.MemberPods]
	objects memo[[]object]
	lines   memo[queue.Line]
	gangs   memo[[]view.GangFit]
}

// New returns a Reader.
func New(o Options) *Reader {
	r := &Reader{Options: o}
	r.pods.now, r.objects.now, r.lines.now, r.gangs.now = o.Now, o.Now, o.Now, o.Now
	return r
}

func (r *Reader) origin(f *v1alpha1.FleetMiniCluster) fleet.Origin {
	return fleet.Origin{FleetID: r.FleetID, Owner: f.Namespace + "/" + f.Name, OwnerUID: string(f.UID)}
}

// errSlow says that a member has not answered within Limit.
var errSlow = errors.New("the member did not answer in time")

// within is a context that is cancelled after Limit. It has no deadline: a member that is merely slow for a page is not to
// be taken for one that is lost.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(Limit, func() { cancel(errSlow) })
	return ctx, func() {
		timer.Stop()
		cancel(context.Canceled)
	}
}

// explain says in a sentence why a member could not be asked.
func explain(err error) string {
	switch {
	case errors.Is(err, errSlow), errors.Is(err, context.Canceled):
		return errSlow.Error()
	case errors.Is(err, clusters.ErrNotEngaged):
		return "the member cannot be reached"
	}
	return sanitize.Text(clusters.Explain(err), sanitize.MaxNote)
}
