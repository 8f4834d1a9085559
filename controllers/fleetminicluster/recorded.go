package fleetminicluster

import (
	"sync"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/queue"
)

// recorded remembers which runs were put on record, so that a cache that is behind has none put there twice. It is not
// needed for anything else.
type recorded struct {
	mu   sync.Mutex
	last map[queue.Key]map[string]string // the id and state of a run by member
}

func stateOf(r *v1alpha1.Run) string { return r.ID + " " + string(r.State) }

func (r *recorded) has(key queue.Key, member string, run *v1alpha1.Run) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[key][member] == stateOf(run)
}

func (r *recorded) add(key queue.Key, member string, run *v1alpha1.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[queue.Key]map[string]string{}
	}
	if r.last[key] == nil {
		r.last[key] = map[string]string{}
	}
	r.last[key][member] = stateOf(run)
}

// forget forgets a FleetMiniCluster that was deleted.
func (r *recorded) forget(key queue.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, key)
}
