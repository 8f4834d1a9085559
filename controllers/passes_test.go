package controllers

import "testing"

func TestPasses(t *testing.T) {
	p := &passes{}
	if !p.over(p.mark()) {
		t.Error("nothing has begun, but something is not over")
	}
	first := p.begin()
	second := p.begin()
	mark := p.mark()
	later := p.begin()
	second()
	if p.over(mark) {
		t.Error("the first has not ended")
	}
	first()
	if !p.over(mark) {
		t.Error("what begins after a mark is not waited for")
	}
	if p.over(p.mark()) {
		t.Error("the last one has not ended")
	}
	later()
	if !p.over(p.mark()) {
		t.Error("all have ended")
	}
}
