package queue_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/queue"
)

// Those who wait for the same on many members share what they wait for.
func TestManyWaitForTheSame(t *testing.T) {
	const members, waiting = 1000, 200
	q, g := queue.New(), gang(3)
	before := heap()
	for i := range waiting {
		gangs := map[string]fit.Gang{}
		for m := range members {
			gangs[fmt.Sprint("member-", m)] = g
		}
		e := entry(fmt.Sprint("run-", i), 0, 1, g, func(e *queue.Entry) { e.Gangs = gangs })
		q.Update(e.Key, nil, &e)
	}
	const most = 40 << 10 // a map of its own takes three times as much
	if each := (heap() - before) / waiting; each > most {
		t.Errorf("%d bytes for each that waits on %d members", each, members)
	}
	if e := q.Pending(key("run-7")); e == nil || len(e.Gangs) != members {
		t.Errorf("run-7 waits as %+v", e)
	}
	other := entry("other", 0, 1, gang(4), func(e *queue.Entry) { e.Gangs = map[string]fit.Gang{"alpine": gang(4)} })
	q.Update(other.Key, nil, &other)
	if got := q.Pending(key("other")).Gangs["alpine"].Size; got != 4 {
		t.Errorf("the other waits for %d pods", got)
	}
	runtime.KeepAlive(q)
}

// heap is what is live, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
