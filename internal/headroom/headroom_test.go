package headroom

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		live  int64
		limit int64
		set   int
		want  int
	}{
		"nothing live":                {0, math.MaxInt64, 100, 2500},
		"as much as there is room":    {100 * mib, math.MaxInt64, 100, 100},
		"half as much":                {50 * mib, math.MaxInt64, 100, 200},
		"more":                        {1000 * mib, math.MaxInt64, 100, 100},
		"more than a person wants":    {50 * mib, math.MaxInt64, 50, 200},
		"less than a person wants":    {50 * mib, math.MaxInt64, 400, 400},
		"a person wants none":         {50 * mib, math.MaxInt64, -1, -1},
		"an eighth of the limit":      {50 * mib, 400 * mib, 50, 100},
		"the limit of the Deployment": {50 * mib, 800 * mib, 100, 200},
		"hardly any memory":           {50 * mib, 0, 100, 100},
		"what is live is not known":   {math.MaxInt64, math.MaxInt64, 100, 100},
	} {
		if got := percent(test.live, test.limit, test.set); got != test.want {
			t.Errorf("%s: %d %%, not %d", name, got, test.want)
		}
	}
}

var sink [][]byte

// While there is room, garbage as large as what is live several times over is not collected; before and afterwards it is.
func TestCollectionsWhileThereIsRoom(t *testing.T) {
	old := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(old) })
	collections := func() uint32 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 64 {
			sink = append(sink[:0], make([]byte, 1<<20))
		}
		runtime.ReadMemStats(&after)
		return after.NumGC - before.NumGC
	}
	often := collections()
	r := &room{}
	r.begin()
	r.begin()
	r.end() // one has ended, and the other has not
	runtime.GC()
	rarely := collections()
	r.end()
	if often < 3 || rarely > often/2 {
		t.Errorf("%d collections, and %d while there is room", often, rarely)
	}
	if again := collections(); again < 3 {
		t.Errorf("%d collections afterwards", again)
	}
	if set := debug.SetGCPercent(100); set != 100 {
		t.Errorf("GOGC is %d afterwards", set)
	}
}

func TestGiveEnds(t *testing.T) {
	old := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(old) })
	Give(20 * time.Millisecond)
	if set := setNow(); set <= 100 {
		t.Errorf("GOGC is %d while there is room", set)
	}
	for setNow() != 100 {
		time.Sleep(time.Millisecond)
	}
}

// setNow is what the collector was told last.
func setNow() int {
	given.mu.Lock()
	defer given.mu.Unlock()
	set := debug.SetGCPercent(-1)
	debug.SetGCPercent(set)
	return set
}
