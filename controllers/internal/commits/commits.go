// Package commits tells who has applied a commit when the first of the FleetMiniClusters that it changed was reconciled, and so
// has its Job if it gets one now.
package commits

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Tracker tracks commits that are being applied. The zero value is ready; nil tracks nothing.
type Tracker struct {
	mu      sync.Mutex
	waiting map[commit]chan struct{}
}

type commit struct {
	source types.NamespacedName
	hash   string
}

// Expect begins to track a commit of a source, before anything of it is applied. The channel is closed when an object of it was
// reconciled. A source applies one commit at a time: Expect replaces what was expected of the same one before.
func (t *Tracker) Expect(source types.NamespacedName, hash string) (first <-chan struct{}) {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == nil {
		t.waiting = map[commit]chan struct{}{}
	}
	reconciled := make(chan struct{})
	t.waiting[commit{source, hash}] = reconciled
	return reconciled
}

// Reconciled notes that an object of a commit was reconciled.
func (t *Tracker) Reconciled(source types.NamespacedName, hash string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if reconciled, ok := t.waiting[commit{source, hash}]; ok {
		close(reconciled)
		delete(t.waiting, commit{source, hash})
	}
}

// Forget stops tracking a commit.
func (t *Tracker) Forget(source types.NamespacedName, hash string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, commit{source, hash})
}
