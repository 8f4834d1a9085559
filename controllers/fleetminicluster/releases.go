package fleetminicluster

import (
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/minifleet/minifleet/internal/queue"
)

// releases are Jobs as members have answered to their creation or release, until the caches have them so. The reconciliation
// that follows at once would else see a Job that is not released yet, and release it again.
type releases struct {
	mu sync.Mutex
	of map[queue.Key]map[string]*batchv1.Job // by FleetMiniCluster and member
}

func (r *releases) add(key queue.Key, member string, job *batchv1.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[queue.Key]map[string]*batchv1.Job{}
	}
	if r.of[key] == nil {
		r.of[key] = map[string]*batchv1.Job{}
	}
	r.of[key][member] = job
}

// newest is the Job that a cache has or, while that is older, the same one as it was answered. The absence of a Job is taken as
// it is, and so is another Job. The result is shared.
func (r *releases) newest(key queue.Key, member string, cached *batchv1.Job) *batchv1.Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	answered := r.of[key][member]
	if answered == nil || cached == nil {
		return cached
	}
	if order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, answered.ResourceVersion); cached.UID == answered.UID && err == nil && order < 0 {
		return answered
	}
	if delete(r.of[key], member); len(r.of[key]) == 0 {
		delete(r.of, key)
	}
	return cached
}

// forget forgets a FleetMiniCluster that was deleted.
func (r *releases) forget(key queue.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, key)
}
