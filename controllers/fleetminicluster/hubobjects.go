package fleetminicluster

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

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get

// hubObjects reads Secrets and ConfigMaps of the hub one by one: MiniFleet has no right to list or to watch
// them. What is read is remembered for a while, so that one read serves all that use an object.
type hubObjects struct {
	reader client.Reader
	// interval is how often those of live runs are read.
	interval time.Duration
	now      func() time.Time

	mu      sync.Mutex
	entries map[hubKey]*hubEntry
}

type hubKey struct {
	kind string
	types.NamespacedName
}

type hubEntry struct {
	mu     sync.Mutex
	at     time.Time     // when it was asked for; zero: never
	object client.Object // nil: there is none
}

// hubError is why the hub did not answer. It holds no other error, so that none is taken for a member's.
type hubError struct{ message string }

func (e *hubError) Error() string { return e.message }

func newHubObjects(reader client.Reader, interval time.Duration, now func() time.Time) *hubObjects {
	return &hubObjects{reader: reader, interval: interval, now: now, entries: map[hubKey]*hubEntry{}}
}

// lifetime is less than interval, so that what is followed is read anew each time.
func (h *hubObjects) lifetime() time.Duration { return h.interval * 5 / 6 }

// recent returns an object of the hub as it was lately, or nil where there is none.
func (h *hubObjects) recent(ctx context.Context, key hubKey) (client.Object, error) {
	return h.get(ctx, key, h.now().Add(-h.lifetime()))
}

// get returns an object of the hub as it was at some time since, or nil where there is none. It is not to
// be changed.
func (h *hubObjects) get(ctx context.Context, key hubKey, since time.Time) (client.Object, error) {
	now := h.now()
	e := h.entry(key, now)
	e.mu.Lock() // whoever asks for the same waits, and shares the answer
	defer e.mu.Unlock()
	if !e.at.IsZero() && !e.at.Before(since) {
		return e.object, nil
	}
	obj := copies.Empty(key.kind)
	err := h.reader.Get(ctx, key.NamespacedName, obj)
	if apierrors.IsNotFound(err) {
		obj, err = nil, nil
	}
	if err != nil {
		return nil, &hubError{fmt.Sprintf("reading %s %s on the hub: %v", key.kind, key.NamespacedName, err)}
	}
	e.at, e.object = now, obj
	return obj, nil
}

// entry returns the entry of a key and drops those that are too old to be of use.
func (h *hubObjects) entry(key hubKey, now time.Time) *hubEntry {
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
	e := &hubEntry{}
	h.entries[key] = e
	return e
}

// offer says whether an object of the hub may be copied to members.
type offer struct {
	// refused is why not, remedy what to do about it; both are empty if it may.
	refused, remedy string
}

func (o offer) ok() bool { return o.refused == "" }

func offerOf(key hubKey, source client.Object) offer {
	switch secret, _ := source.(*corev1.Secret); {
	case source == nil:
		return offer{"namespace " + key.Namespace + " of the hub has none",
			fmt.Sprintf("create it there with the label %s=true", v1alpha1.LabelPropagate)}
	case !source.GetDeletionTimestamp().IsZero():
		return offer{"the hub's, in namespace " + key.Namespace + ", is being deleted", "create it there anew"}
	case source.GetLabels()[v1alpha1.LabelPropagate] != "true":
		return offer{"the hub's, in namespace " + key.Namespace + ", lacks the label " + v1alpha1.LabelPropagate + "=true",
			fmt.Sprintf("label it with `kubectl -n %s label %s %s %s=true`", key.Namespace, resourceOf(key.kind), key.Name, v1alpha1.LabelPropagate)}
	case secret != nil && (secret.Type == corev1.SecretTypeServiceAccountToken || secret.Type == corev1.SecretTypeBootstrapToken):
		return offer{fmt.Sprintf("the hub's, in namespace %s, is of type %s, which is a credential for the hub and is not copied", key.Namespace, secret.Type),
			"name a Secret of another type"}
	default:
		return offer{}
	}
}

func resourceOf(kind string) string {
	if kind == fluxv1alpha2.KindSecret {
		return "secret"
	}
	return "configmap"
}

// missingKeys are those of keys that an object does not have.
func missingKeys(obj client.Object, keys []string) []string {
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
