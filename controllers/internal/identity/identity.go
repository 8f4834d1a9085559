// Package identity holds who the fleet is and which hub leads it. In come the ConfigMap minifleet-fleet of the
// manager's namespace and what connections find on members; out go the fleet's identity and epoch, which members record,
// and the names of members that may hold what this hub has not read yet.
//
// The identity outlives a hub: whoever carries the ConfigMap to another cluster, with a higher epoch, carries the fleet.
//
//	content.go   the ConfigMap's data
//	load.go      the ConfigMap at the start of the manager
//	identity.go  what is known while it runs
package identity

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

// create cannot be limited to a name.
//
// +kubebuilder:rbac:groups="",namespace=system,resources=configmaps,verbs=create
// +kubebuilder:rbac:groups="",namespace=system,resources=configmaps,resourceNames=minifleet-fleet,verbs=get;update

// refreshInterval is how often the ConfigMap is read while members are unasked: a person may remove one.
const refreshInterval = 30 * time.Second

// Options of an Identity.
type Options struct {
	// Reader reads the hub itself, not its cache; Writer writes to it.
	Reader client.Reader
	Writer client.Writer
	// Namespace is the manager's own.
	Namespace string
	Recorder  events.EventRecorder
	Log       logr.Logger
	Now       func() time.Time
}

// Identity is that of the fleet, and of the hub that leads it. It is safe for concurrent use.
type Identity struct {
	Options

	id, hub string
	// confirmed is closed once this process leads; nil where nobody waits for that.
	confirmed chan struct{}

	// writing is held while the ConfigMap is changed.
	writing sync.Mutex

	mu       sync.Mutex
	content  content
	epoch    int64           // in which this process leads; the ConfigMap's may be raised by a person meanwhile
	declared map[string]bool // members of which a person says that they have nothing
	read     time.Time
	changed  func()
}

var _ clusters.Hub = (*Identity)(nil)

// FleetID is the identity of the fleet, which marks all that it has on members.
func (i *Identity) FleetID() string { return i.id }

// UID is that of the hub's kube-system namespace.
func (i *Identity) UID() string { return i.hub }

// Epoch is the one in which this hub leads the fleet, from 1.
func (i *Identity) Epoch() int64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.epoch
}

// OnChange has a function called, from any goroutine, when Unasked has changed. It must not block, and is set before
// the manager starts.
func (i *Identity) OnChange(changed func()) { i.changed = changed }

// Unasked are the names, sorted, of members of the fleet of which it is not known what they hold: another hub, or this
// one before its data was lost, has used them, and this one has not read them in its epoch. They need not be registered.
// In epoch 1 there are none.
func (i *Identity) Unasked() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.content.unasked(i.epoch, i.declared)
}

// Declare says whether a person has declared that nothing of the fleet is live on a member, so that it need not be
// asked.
func (i *Identity) Declare(member string, nothingLive bool) {
	i.change(func() {
		if nothingLive {
			i.declared[member] = true
		} else {
			delete(i.declared, member)
		}
	})
}

// Members are the names, sorted, of all members that may hold something of the fleet, registered or not, but for those
// that are declared to have nothing live.
func (i *Identity) Members() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.content.unasked(maxEpoch+1, i.declared)
}

// Enroll implements clusters.Hub.
func (i *Identity) Enroll(ctx context.Context, member, uid string, epoch int64) error {
	if err := i.leading(ctx); err != nil {
		return err
	}
	i.mu.Lock()
	_, known := i.content.members[member]
	i.mu.Unlock()
	if known {
		return nil
	}
	return i.update(ctx, func(c *content) {
		if _, known := c.members[member]; !known {
			c.members[member] = membership{uid: uid, epoch: epoch}
		}
	})
}

// Connected implements clusters.Hub.
func (i *Identity) Connected(ctx context.Context, member, uid string, epoch int64) error {
	i.mu.Lock()
	known := i.content.members[member]
	i.mu.Unlock()
	now := membership{uid: uid, epoch: epoch}
	if known == now {
		return nil
	}
	return i.update(ctx, func(c *content) {
		if have := c.members[member]; have.uid != uid || have.epoch < epoch {
			c.members[member] = now
		}
	})
}

// Forget takes a member out of the fleet, whose MemberCluster is deleted.
func (i *Identity) Forget(ctx context.Context, member string) error {
	i.Declare(member, false)
	i.mu.Lock()
	_, known := i.content.members[member]
	i.mu.Unlock()
	if !known {
		return nil
	}
	return i.update(ctx, func(c *content) { delete(c.members, member) })
}

// Raise implements clusters.Hub.
func (i *Identity) Raise(ctx context.Context, epoch int64) error {
	before := i.Epoch()
	if epoch <= before {
		return nil
	}
	if err := i.update(ctx, func(c *content) { c.epoch = max(c.epoch, epoch) }); err != nil {
		return err
	}
	i.change(func() { i.epoch = max(i.epoch, epoch) })
	i.Log.Info("members have recorded a later epoch for this hub, which is adopted: its data was restored from a backup, or another process has raised it", "from", before, "to", epoch)
	i.Recorder.Eventf(i.reference(), nil, corev1.EventTypeWarning, v1alpha1.ReasonEpochRaised, "Adopt",
		"members have recorded epoch %d for this hub, which was of epoch %d: it is adopted, and nothing new begins before all members are read again", epoch, before)
	return nil
}

// Refresh reads the ConfigMap again if members are unasked and that was not done lately. It returns when to do it again;
// 0: not.
func (i *Identity) Refresh(ctx context.Context) (again time.Duration, err error) {
	if len(i.Unasked()) == 0 {
		return 0, nil
	}
	i.mu.Lock()
	due := i.Now().Sub(i.read) >= refreshInterval
	i.mu.Unlock()
	if !due {
		return refreshInterval, nil
	}
	_, now, err := i.get(ctx)
	if apierrors.IsNotFound(err) {
		return refreshInterval, nil // the next change makes it anew
	}
	if err != nil {
		return 0, err
	}
	i.learn(now)
	return refreshInterval, nil
}

// update changes the ConfigMap as it is now. One that somebody has deleted is made anew.
func (i *Identity) update(ctx context.Context, edit func(*content)) error {
	i.writing.Lock()
	defer i.writing.Unlock()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cm, now, err := i.get(ctx)
		missing := apierrors.IsNotFound(err)
		if missing {
			cm, now = i.empty(), i.known()
		} else if err != nil {
			return err
		}
		before := now.clone()
		edit(&now)
		switch {
		case missing:
			cm.Data = now.data(nil)
			err = i.Writer.Create(ctx, cm)
		case !now.equal(before):
			cm.Data = now.data(cm.Data)
			err = i.Writer.Update(ctx, cm)
		default:
			err = nil
		}
		if err != nil {
			return fmt.Errorf("writing ConfigMap %s: %w", i.key(), err)
		}
		i.learn(now)
		return nil
	})
}

// get reads the ConfigMap, which has to be of this fleet.
func (i *Identity) get(ctx context.Context) (*corev1.ConfigMap, content, error) {
	cm, c, err := read(ctx, i.Reader, i.key())
	if err == nil && c.id != i.id {
		err = fmt.Errorf("ConfigMap %s: data.%s was changed from %q to %q: put the former back, or restart the controller if that is meant", i.key(), keyID, i.id, c.id)
	}
	return cm, c, err
}

func (i *Identity) learn(c content) {
	i.change(func() { i.content, i.read = c, i.Now() })
}

// change changes what is known, and tells if that has changed what is unasked.
func (i *Identity) change(edit func()) {
	i.mu.Lock()
	before := i.content.unasked(i.epoch, i.declared)
	edit()
	same := slices.Equal(before, i.content.unasked(i.epoch, i.declared))
	i.mu.Unlock()
	if !same && i.changed != nil {
		i.changed()
	}
}

func (i *Identity) known() content {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.content.clone()
}

func (i *Identity) key() types.NamespacedName { return keyIn(i.Namespace) }

func (i *Identity) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: i.Namespace, Name: v1alpha1.FleetConfigMap}
}

func (i *Identity) empty() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: i.Namespace, Name: v1alpha1.FleetConfigMap, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
	}}
}

func keyIn(namespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: v1alpha1.FleetConfigMap}
}

func (c content) clone() content {
	c.members = maps.Clone(c.members)
	return c
}

func (c content) equal(o content) bool {
	return c.id == o.id && c.epoch == o.epoch && maps.Equal(c.members, o.members)
}
