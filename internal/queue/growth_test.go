package queue_test

import (
	"fmt"
	"testing"

	"github.com/minifleet/minifleet/internal/queue"
)

// Who fits is told so without going through those who wait and never fit, nor through all namespaces that somebody waits of.
func TestCheckDoesNotGrowWithTheLine(t *testing.T) {
	room := newMember(node("n1", "8", nil)).Room()
	self, one := queue.Rank{Created: hour(0), Key: key("self")}, gang(1)
	allocations := func(namespaces, pods int) float64 {
		q := queue.New()
		for i := range 10 * namespaces {
			e := entry(fmt.Sprint(i), 0, 1, gang(pods), in(fmt.Sprint("team-", i%namespaces)))
			q.Update(e.Key, nil, &e)
		}
		v := q.View("alpine", room, self.Key)
		return testing.AllocsPerRun(5, func() {
			if f := v.Check(one, self); f.Blocked != "" {
				t.Error(f.Blocked)
			}
		})
	}
	if few, many := allocations(1, 99), allocations(100, 99); many > few {
		t.Errorf("%.0f allocations where 10 wait that never fit, %.0f where 1,000 do", few, many)
	}
	if few, many := allocations(2, 8), allocations(100, 8); many > few {
		t.Errorf("%.0f allocations where 2 namespaces wait, %.0f where 100 do", few, many)
	}
}
