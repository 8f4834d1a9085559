// Package headroom lets memory grow while much of what is allocated is soon not needed any more. In comes for how long; out comes a
// process that collects garbage less often meanwhile, and as often as before from then on.
//
// The collector runs when the heap has doubled: often, while a process fills its caches.
package headroom

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// most is how much larger the heap may become, in bytes, than what was live after the last collection: an eighth of the memory that
	// the Deployment sets as GOMEMLIMIT.
	most = 100 << 20
	// share of GOMEMLIMIT, where that is set, is all that there is.
	share = 8
	// least is what the runtime takes for live at least, with 100 %.
	least = 4 << 20
)

// given is that of this process.
var given room

type room struct {
	mu    sync.Mutex
	users int
	// percent is what the collector was told before: GOGC.
	percent int
}

// Give lets memory grow for d from now on. It returns at once, and may be called again meanwhile.
func Give(d time.Duration) {
	given.begin()
	time.AfterFunc(d, given.end)
}

func (r *room) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users++; r.users > 1 {
		return
	}
	r.percent = debug.SetGCPercent(-1)
	debug.SetGCPercent(r.percent)
	r.adjust()
	r.afterNext()
}

func (r *room) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users--; r.users > 0 {
		return
	}
	debug.SetGCPercent(r.percent)
	debug.FreeOSMemory() // what was garbage all along
}

// afterNext adjusts what the collector is told after each collection, as long as anybody has room.
func (r *room) afterNext() {
	runtime.AddCleanup(new(mark), func(r *room) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.users > 0 {
			r.adjust()
			r.afterNext()
		}
	}, r)
}

// mark is collected with the next garbage. It is too large to be allocated together with others.
type mark struct{ _ [32]byte }

func (r *room) adjust() {
	debug.SetGCPercent(percent(live(), debug.SetMemoryLimit(-1), r.percent))
}

// percent is what to tell the collector where so many bytes are live, GOMEMLIMIT is limit, and GOGC is set.
func percent(live, limit int64, set int) int {
	if set < 0 {
		return set // somebody wants none, but what the limit asks for
	}
	room := min(most, max(limit, 0)/share)
	return max(set, int(room*100/max(live, least)))
}

// live is how many bytes the last collection has found in use.
func live() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return math.MaxInt64 // not known to this version of Go: as before
	}
	return int64(min(sample[0].Value.Uint64(), math.MaxInt64))
}
