package gitsource

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/minifleet/minifleet/gitsource/fetch"
)

const (
	// DefaultPerNamespace is how many sources of one namespace are reconciled at once.
	DefaultPerNamespace = 2
	// DefaultLarge is how many sources at once may take more memory than a small repository does.
	DefaultLarge = 2
	// concurrentSources is how many sources are reconciled at once.
	concurrentSources = 16

	// minTurnDelay and maxTurnDelay bound after how long a source asks again for its turn.
	minTurnDelay, maxTurnDelay = 500 * time.Millisecond, 30 * time.Second
	// turnPace is what one source that waits adds to that.
	turnPace = 50 * time.Millisecond
)

// turns bounds how many sources of one namespace are reconciled at once, so that those of one namespace, however slow,
// do not take all workers. Who has to wait holds no worker: it asks again.
type turns struct {
	perNamespace int // 0 is DefaultPerNamespace
	// wake has a source that waits ask again; nil: only its delay does.
	wake func(types.NamespacedName)

	mu      sync.Mutex
	active  map[string]int
	waiting map[string]map[string]bool // names of sources, by namespace
}

// take returns what ends a turn, or, where there is none, after how long to ask again: the longer, the more wait.
func (t *turns) take(key types.NamespacedName) (end func(), again time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	most := t.perNamespace
	if most <= 0 {
		most = DefaultPerNamespace
	}
	if t.active[key.Namespace] >= most {
		return nil, t.wait(key, most)
	}
	t.removeWaiting(key)
	if t.active == nil {
		t.active = map[string]int{}
	}
	t.active[key.Namespace]++
	return func() { t.end(key.Namespace) }, 0
}

func (t *turns) wait(key types.NamespacedName, most int) time.Duration {
	if t.waiting == nil {
		t.waiting = map[string]map[string]bool{}
	}
	if t.waiting[key.Namespace] == nil {
		t.waiting[key.Namespace] = map[string]bool{}
	}
	t.waiting[key.Namespace][key.Name] = true
	return min(max(minTurnDelay, turnPace*time.Duration(len(t.waiting[key.Namespace])/most)), maxTurnDelay)
}

// end ends a turn and wakes one that waits for it, whichever: those of a repository that many sources read are told of a push
// at the same time, and the last of them would wait for many delays.
func (t *turns) end(namespace string) {
	t.mu.Lock()
	if t.active[namespace]--; t.active[namespace] == 0 {
		delete(t.active, namespace)
	}
	var next *types.NamespacedName
	for name := range t.waiting[namespace] {
		next = &types.NamespacedName{Namespace: namespace, Name: name}
		t.removeWaiting(*next) // another turn that ends wakes another one
		break
	}
	t.mu.Unlock()
	if next != nil && t.wake != nil {
		t.wake(*next)
	}
}

// forget removes a source that is no longer there from those that wait.
func (t *turns) forget(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeWaiting(key)
}

func (t *turns) removeWaiting(key types.NamespacedName) {
	delete(t.waiting[key.Namespace], key.Name)
	if len(t.waiting[key.Namespace]) == 0 {
		delete(t.waiting, key.Namespace)
	}
}

// reservations bound how many sources at once may take more memory than a small repository does. One namespace has no
// more than half of them, as long as there are two.
type reservations struct {
	most int // 0 is DefaultLarge

	mu      sync.Mutex
	used    map[string]int // by namespace
	total   int
	changed chan struct{} // closed when one is given back
}

// take waits for a reservation until the context ends, and returns what gives it back.
func (r *reservations) take(ctx context.Context, namespace string) (release func(), err error) {
	logged := false
	for {
		changed, ok := r.try(namespace)
		if ok {
			return sync.OnceFunc(func() { r.release(namespace) }), nil
		}
		if !logged {
			logged = true
			log.FromContext(ctx).Info("waits for memory that other large repositories use")
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, waitedInVain(ctx.Err())
		}
	}
}

func waitedInVain(err error) error {
	return &fetch.Error{Reason: fetch.ReasonWaitingForMemory, Err: err, Message: fmt.Sprintf(
		"the repository is large, and within spec.timeout there was no memory for it that other large repositories did not use; "+
			"it is tried again at the next interval: use a smaller repository for the manifests, a longer spec.timeout, or have an administrator of the hub raise --git-large-sources (%d bytes each)",
		largeBytes)}
}

// try takes a reservation if there is one, or returns what is closed once there may be.
func (r *reservations) try(namespace string) (changed <-chan struct{}, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := r.most
	if most <= 0 {
		most = DefaultLarge
	}
	if r.total < most && r.used[namespace] < (most+1)/2 {
		if r.used == nil {
			r.used = map[string]int{}
		}
		r.used[namespace]++
		r.total++
		return nil, true
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed, false
}

func (r *reservations) release(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total--
	if r.used[namespace]--; r.used[namespace] == 0 {
		delete(r.used, namespace)
	}
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}
