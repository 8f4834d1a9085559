package controllers

import "sync"

// passes are the looks at FleetMiniClusters that are under way. One that began before a member was drained or
// deleted may still write down a run there, and create what it needs; one that begins later knows better.
type passes struct {
	mu      sync.Mutex
	next    uint64
	running map[uint64]struct{}
}

// begin notes a pass and returns what ends it.
func (p *passes) begin() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		p.running = map[uint64]struct{}{}
	}
	id := p.next
	p.next++
	p.running[id] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.running, id)
	}
}

// mark is a point in time.
func (p *passes) mark() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next
}

// over says whether all passes that began before a mark have ended.
func (p *passes) over(mark uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.running {
		if id < mark {
			return false
		}
	}
	return true
}
