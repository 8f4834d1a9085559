// Package hubobjects reads Secrets and ConfigMaps of the hub one by one. In come their kinds and names; out come the
// objects as they were lately, and whether they may be copied to members.
package hubobjects

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters/copies"
)

// Reader reads Secrets and ConfigMaps of the hub one by one: MiniFleet has no right to list or to watch
// them, and may read them only where a RoleBinding says so. What is read is remembered for a while, so that one read serves
// all that use an object.
type Reader struct {
	reader client.Reader
	// manager is the manager's own namespace.
	manager string
	// interval is how often those of live runs are read.
	interval time.Duration
	now      func() time.Time

	mu      sync.Mutex
	entries map[Key]*entry
}

// Key is the kind, namespace and name of a Secret or ConfigMap.
type Key struct {
	Kind string
	types.NamespacedName
}

type entry struct {
	mu     sync.Mutex
	at     time.Time     // when it was asked for; zero: never
	object client.Object // nil: there is none, or it may not be read
	denied *Denied
}

// Error is why the hub did not answer. It holds no other error, so that none is taken for a member's.
type Error struct{ Message string }

func (e *Error) Error() string { return e.Message }

// Denied says that MiniFleet may not read an object of the hub, so that nothing is known of it.
type Denied struct {
	Key
	// Command gives MiniFleet that right in the namespace.
	Command string
}

func (e *Denied) Error() string {
	return fmt.Sprintf("MiniFleet may not read %s %s on the hub; to let it read Secrets and ConfigMaps of this namespace: %s", e.Kind, e.NamespacedName, e.Command)
}

// BindCommand is the kubectl command that lets MiniFleet, whose manager runs in a namespace of its own, read Secrets and
// ConfigMaps of another one. The names are those in config.
func BindCommand(namespace, manager string) string {
	return fmt.Sprintf("kubectl -n %s create rolebinding minifleet-secrets --clusterrole=minifleet-secret-reader --serviceaccount=%s:minifleet-controller-manager",
		namespace, manager)
}

// New returns a Reader that reads anew what is older than about an interval, for the manager in a namespace.
func New(reader client.Reader, manager string, interval time.Duration, now func() time.Time) *Reader {
	return &Reader{reader: reader, manager: manager, interval: interval, now: now, entries: map[Key]*entry{}}
}

// lifetime is less than interval, so that what is followed is read anew each time.
func (h *Reader) lifetime() time.Duration { return h.interval * 5 / 6 }

// Recent returns an object of the hub as it was lately, or nil where there is none.
func (h *Reader) Recent(ctx context.Context, key Key) (client.Object, error) {
	return h.Get(ctx, key, h.now().Add(-h.lifetime()))
}

// Get returns an object of the hub as it was at some time since, or nil where there is none. It is not to
// be changed. The error is a *Denied where it may not be read.
func (h *Reader) Get(ctx context.Context, key Key, since time.Time) (client.Object, error) {
	now := h.now()
	e := h.entryOf(key, now)
	e.mu.Lock() // whoever asks for the same waits, and shares the answer
	defer e.mu.Unlock()
	if !e.at.IsZero() && !e.at.Before(since) {
		return e.answer()
	}
	obj := copies.Empty(key.Kind)
	err := h.reader.Get(ctx, key.NamespacedName, obj)
	var denied *Denied
	switch {
	case apierrors.IsNotFound(err):
		obj, err = nil, nil
	case apierrors.IsForbidden(err):
		denied = &Denied{Key: key, Command: BindCommand(key.Namespace, h.manager)}
		obj, err = nil, nil
	}
	if err != nil {
		return nil, &Error{fmt.Sprintf("reading %s %s on the hub: %v", key.Kind, key.NamespacedName, err)}
	}
	e.at, e.object, e.denied = now, obj, denied
	return e.answer()
}

func (e *entry) answer() (client.Object, error) {
	if e.denied != nil {
		return nil, e.denied
	}
	return e.object, nil
}

// entryOf returns the entry of a key and drops those that are too old to be of use.
func (h *Reader) entryOf(key Key, now time.Time) *entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.entries[key]; e != nil {
		return e
	}
	for k, e := range h.entries {
		if e.mu.TryLock() {
			if now.Sub(e.at) > h.lifetime() {
				delete(h.entries, k)
			}
			e.mu.Unlock()
		}
	}
	e := &entry{}
	h.entries[key] = e
	return e
}

// Offer says whether an object of the hub may be copied to members.
type Offer struct {
	// Refused is why not, Remedy what to do about it; both are empty if it may.
	Refused, Remedy string
}

// OK says whether it may.
func (o Offer) OK() bool { return o.Refused == "" }

// OfferOf says whether an object, nil where there is none, may be copied.
func OfferOf(key Key, source client.Object) Offer {
	switch secret, _ := source.(*corev1.Secret); {
	case source == nil:
		return Offer{"namespace " + key.Namespace + " of the hub has none",
			fmt.Sprintf("create it there with the label %s=true", v1alpha1.LabelPropagate)}
	case !source.GetDeletionTimestamp().IsZero():
		return Offer{"the hub's, in namespace " + key.Namespace + ", is being deleted", "create it there anew"}
	case source.GetLabels()[v1alpha1.LabelPropagate] != "true":
		return Offer{"the hub's, in namespace " + key.Namespace + ", lacks the label " + v1alpha1.LabelPropagate + "=true",
			fmt.Sprintf("label it with `kubectl -n %s label %s %s %s=true`", key.Namespace, resourceOf(key.Kind), key.Name, v1alpha1.LabelPropagate)}
	case secret != nil && (secret.Type == corev1.SecretTypeServiceAccountToken || secret.Type == corev1.SecretTypeBootstrapToken):
		return Offer{fmt.Sprintf("the hub's, in namespace %s, is of type %s, which is a credential for the hub and is not copied", key.Namespace, secret.Type),
			"name a Secret of another type"}
	default:
		return Offer{}
	}
}

func resourceOf(kind string) string {
	if kind == fluxv1alpha2.KindSecret {
		return "secret"
	}
	return "configmap"
}

// MissingKeys are those of keys that an object does not have.
func MissingKeys(obj client.Object, keys []string) []string {
	has := func(string) bool { return false }
	switch obj := obj.(type) {
	case *corev1.Secret:
		has = func(key string) bool { _, ok := obj.Data[key]; return ok }
	case *corev1.ConfigMap:
		has = func(key string) bool {
			_, text := obj.Data[key]
			_, binary := obj.BinaryData[key]
			return text || binary
		}
	}
	var missing []string
	for _, key := range keys {
		if !has(key) {
			missing = append(missing, key)
		}
	}
	return missing
}
