package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/runs"
)

// story is what happens to a fleet, one thing after the other: each at any moment after the one before.
type story struct {
	world  func() *world
	events []func(*world)
	// mayFail says that runs may fail, not only succeed.
	mayFail bool
	// slow says that a hub that is started takes a while until it has connected alpine.
	slow bool
	// calm says that the hub crashes only where the story says so.
	calm bool
	// stale says that a request may arrive at any time after the hub has given it up, or never.
	stale bool
	// end checks what it comes to in the end; nil: what is wanted has run.
	end func(*world) string
}

// mostWorlds bounds a story.
const mostWorlds = 3000

// result is the world after an undisturbed reconciliation, and when there is to be another one.
type result struct {
	world *world
	again time.Duration
}

type explorer struct {
	t     *testing.T
	story *story
	seen  map[string]bool
	todo  []*world
	ends  map[string]bool // worlds that come to the end that is wanted
	after map[string]result
	// inspect is called with what is about to be decided.
	inspect func(*plan.Snapshot, *plan.Decision, runs.Ledger)
	count   int
}

// explore visits every world that a story can lead to.
func (s *story) explore(t *testing.T, inspect func(*plan.Snapshot, *plan.Decision, runs.Ledger)) int {
	t.Helper()
	e := &explorer{t: t, story: s, seen: map[string]bool{}, ends: map[string]bool{}, after: map[string]result{}, inspect: inspect}
	e.add(s.world())
	for len(e.todo) > 0 && !t.Failed() {
		w := e.todo[len(e.todo)-1]
		e.todo = e.todo[:len(e.todo)-1]
		if problem := w.violation(); problem != "" {
			t.Fatalf("%s:%s", problem, w.key())
		}
		e.expand(w)
		if !t.Failed() {
			e.converge(w)
		}
		if len(e.seen) > mostWorlds {
			t.Fatalf("the story has no end:%s", w.key())
		}
	}
	return len(e.seen)
}

func (e *explorer) add(w *world) {
	if k := w.key(); !e.seen[k] {
		e.seen[k] = true
		e.todo = append(e.todo, w)
	}
}

// expand adds all that may come next.
func (e *explorer) expand(w *world) {
	try := func(change func(*world)) {
		c := w.clone()
		change(c)
		e.add(c)
	}
	for i := range w.objects {
		e.reconcile(w, i)
	}
	for _, step := range w.steps(e.story.mayFail) {
		try(step)
	}
	if w.events < len(e.story.events) {
		try(func(c *world) {
			e.story.events[c.events](c)
			c.events++
		})
	}
	for _, m := range w.members {
		if m.link == connecting {
			try(func(c *world) { c.member(m.name).connect(c.now) })
		}
	}
	if w.inFlight != nil {
		try((*world).arrive)
		try(func(c *world) { c.inFlight = nil })
	}
}

func (w *world) arrive() {
	r := w.inFlight
	w.inFlight = nil
	_, _ = w.land(r)
}

// crash starts the hub anew.
func (e *explorer) crash(w *world) {
	w.hub = nil
	for _, m := range w.members {
		if e.story.slow && m.name == "alpine" && m.link == connected {
			m.link, m.since = connecting, w.now
		}
	}
}

// reconcile reconciles an object, to the end and to every point at which the hub may crash, or may find that somebody
// else has changed the object.
func (e *explorer) reconcile(w *world, i int) {
	c, sent := w.clone(), 0
	again := e.take(c, i, func(r *reconciliation, f effect) verdict {
		if e.story.calm {
			return proceed
		}
		crashed := r.w.clone()
		e.crash(crashed)
		e.add(crashed)
		if f.request != nil {
			sent++
			return proceed
		}
		if w.members[0].cpus > 0 { // what a hub remembers is room
			conflict := r.w.clone()
			conflict.hub = r.memory()
			e.add(conflict)
		}
		return proceed
	}).again
	e.after[w.key()+fmt.Sprint(i)] = result{c, again}
	e.add(c)
	for k := range sent {
		if !e.story.stale || w.delayed {
			return
		}
		c, n := w.clone(), 0
		e.take(c, i, func(_ *reconciliation, f effect) verdict {
			if f.request == nil {
				return proceed
			}
			n++
			if n == k+1 {
				c.delayed = true
				return delay
			}
			return proceed
		})
		e.add(c)
	}
}

func (e *explorer) take(w *world, i int, before func(*reconciliation, effect) verdict) *reconciliation {
	e.count++
	r := &reconciliation{w: w, index: i, before: before, inspect: e.inspect, proofs: map[string]bool{}}
	if e.t.Failed() {
		return r
	}
	from := w.clone()
	r.run()
	if len(r.violations) > 0 {
		e.t.Errorf("%v\nfrom:%s\nto:%s", r.violations, from.key(), w.key())
	}
	return r
}

func undisturbed(*reconciliation, effect) verdict { return proceed }

// mostIdle is how often in a row the time to reconcile again comes and nothing happens, until nothing will any more.
const mostIdle = 8

// converge lets hub and members work, with nobody interfering, until neither has anything to do. The time goes on only
// to when the plan has asked for another reconciliation.
func (e *explorer) converge(w *world) {
	var path []string
	start, idle := w, 0
	for range 300 {
		k := fmt.Sprint(idle, w.key())
		if e.ends[k] {
			break
		}
		path = append(path, k)
		next, again := e.advance(w)
		if next == nil {
			if again == 0 || idle == mostIdle {
				if problem := e.problem(w); problem != "" {
					e.t.Fatalf("%s\nfrom:%s\nin the end:%s", problem, start.key(), w.key())
				}
				break
			}
			idle++
			next = w.clone()
			next.now = next.now.Add(again)
		} else {
			idle = 0
		}
		if w = next; e.t.Failed() {
			return
		}
		if len(path) == 300 {
			e.t.Fatalf("no end from:%s\nat last:%s", start.key(), w.key())
		}
	}
	for _, k := range path {
		e.ends[k] = true
	}
}

// advance is what comes next where nobody interferes, nil for nothing, and when to reconcile again then.
func (e *explorer) advance(w *world) (*world, time.Duration) {
	c := w.clone()
	if c.inFlight != nil {
		c.arrive()
		return c, 0
	}
	for _, m := range c.members {
		if m.link == connecting {
			m.connect(c.now)
			return c, 0
		}
	}
	var again time.Duration
	state := w.state()
	for i := range w.objects {
		after, known := e.after[w.key()+fmt.Sprint(i)]
		if !known {
			after.world = w.clone()
			after.again = e.take(after.world, i, undisturbed).again
		}
		c := after.world.clone()
		again = plan.After(again, after.again)
		if c.state() != state {
			return c, 0
		}
	}
	if steps := w.steps(false); len(steps) > 0 {
		steps[0](c)
		return c, 0
	}
	return nil, again
}

// problem is what is wrong with an end. Before all of a story has happened, anything may be.
func (e *explorer) problem(w *world) string {
	switch {
	case w.events < len(e.story.events):
		return ""
	case e.story.end != nil:
		return e.story.end(w)
	default:
		return hasRun(w)
	}
}

// hasRun says what has not run.
func hasRun(w *world) string {
	for i := range w.objects {
		if problem := hasRunOn(w, i, 1); problem != "" {
			return problem
		}
	}
	return ""
}

func hasRunOn(w *world, i, members int) string {
	f := w.objects[i]
	n := 0
	ledger := runs.Ledger(f.Status.Runs)
	for _, m := range w.members {
		last := ledger.Last(m.name)
		current := last != nil && last.Digest == digestOf(f) && (f.Annotations[v1alpha1.AnnotationRerunAt] == "" || last.RerunAt == f.Annotations[v1alpha1.AnnotationRerunAt])
		if current && last.State != v1alpha1.RunReplaced && last.State.Ended() {
			n++
		}
		if m.jobs[f.Name].live() {
			return f.Name + ": a Job is live"
		}
	}
	if n != members || len(ledger.Live()) > 0 {
		return fmt.Sprintf("%s: what is wanted has run on %d members and is live on %v", f.Name, n, ledger.Live())
	}
	return ""
}

func idle(w *world) string {
	for _, f := range w.objects {
		for _, m := range w.members {
			if m.jobs[f.Name].live() {
				return f.Name + ": a Job is live"
			}
		}
	}
	return ""
}

// Things that happen.
func restarted(w *world) { w.hub = nil }

func edited(changes ...func(*v1alpha1.FleetMiniCluster)) func(*world) {
	return func(w *world) { w.edit(changes...) }
}

func drain(name, value string) func(*world) {
	return func(w *world) {
		w.member(name).register(func(c *v1alpha1.MemberCluster) { c.Annotations[v1alpha1.AnnotationDrain] = value })
	}
}

// later is after every timeout.
func later(w *world) {
	w.now = w.now.Add(2 * time.Minute)
	for _, m := range w.members {
		if m.link == connected {
			m.heard = w.now
		}
	}
}

func on(name string, changes ...func(*world, *modelMember)) func(*world) {
	return func(w *world) {
		for _, change := range changes {
			change(w, w.member(name))
		}
	}
}

func all(events ...func(*world)) func(*world) {
	return func(w *world) {
		for _, e := range events {
			e(w)
		}
	}
}

func lost(w *world, m *modelMember)         { m.lose(w.now) }
func back(w *world, m *modelMember)         { m.connect(w.now) }
func destroyed(_ *world, m *modelMember)    { m.erase() }
func unregistered(_ *world, m *modelMember) { m.registered = nil }
func registered(w *world, m *modelMember) {
	m.registered = MakeMember(m.name).Cluster
	m.connect(w.now)
}
func stuck(_ *world, m *modelMember)      { m.stuck = true }
func unstuck(_ *world, m *modelMember)    { m.stuck = false }
func lagging(_ *world, m *modelMember)    { m.lags = true }
func anotherOne(_ *world, m *modelMember) { m.uid += "-2" }

// meddled deletes a Job, whose pods go on.
func meddled(w *world) {
	for _, m := range w.members {
		if j := m.jobs["run"]; j != nil {
			if j.executing {
				m.stray["run"] = j.RunID
			}
			m.set("run", nil)
			return
		}
	}
}

// cancelLatest cancels the latest run.
func cancelLatest(w *world) {
	if n := len(w.objects[0].Status.Runs); n > 0 {
		w.edit(cancelled(w.objects[0].Status.Runs[n-1].ID))
	}
}

// declareLive says that all that the ledger calls live is no more.
func declareLive(w *world) {
	var ids []string
	for _, r := range w.objects[0].Status.Runs {
		if !r.State.Ended() {
			ids = append(ids, r.ID)
		}
	}
	w.edit(declared(ids...))
}

// one is a world of one object, in which something has happened already.
func one(changes ...func(*v1alpha1.FleetMiniCluster)) func(...func(*world)) func() *world {
	return func(events ...func(*world)) func() *world {
		return func() *world {
			w := newWorld(MakeObject("run").With(changes...).Obj())
			for _, e := range events {
				e(w)
			}
			return w
		}
	}
}

// two is a world of two objects, and room for the pods of one.
func two(changes ...func(*v1alpha1.FleetMiniCluster)) func() *world {
	return func() *world {
		w := newWorld(MakeObject("run").With(changes...).Obj(), MakeObject("other").With(changes...).Obj())
		for _, m := range w.members {
			m.cpus = 3
		}
		return w
	}
}

// begun is a world in which what can has begun, and its pods run.
func begun(from func() *world) func() *world {
	return func() *world {
		w := from()
		for range 2 {
			for i := range w.objects {
				w.reconcile(i, undisturbed)
			}
			for _, m := range w.members {
				for object, j := range m.jobs {
					if j.live() && !j.executing && !m.stuck {
						m.change(object, func(j *modelJob) { j.executing = true })
						w.executed[j.RunID]++
					}
				}
			}
		}
		return w
	}
}

func wantedNothing(*world) string { return "" }

var (
	moves     = pendingTimeout(time.Minute)
	failsOver = failover(v1alpha1.FenceProvenGone)
)

var stories = map[string]*story{
	"one run":                        {world: one()(), mayFail: true, stale: true, slow: true},
	"on all members":                 {world: one(func(f *v1alpha1.FleetMiniCluster) { f.Spec.Placement.NumberOfClusters = nil })(), end: everywhere},
	"a change":                       {world: one()(), events: []func(*world){edited(changed)}},
	"a change, replacing":            {world: one(replacing)(), events: []func(*world){edited(changed)}, stale: true, calm: true},
	"a token":                        {world: one()(), events: []func(*world){edited(rerun("t"))}},
	"retried":                        {world: one(retried(1))(), mayFail: true},
	"cancelled":                      {world: one()(), events: []func(*world){cancelLatest}, end: wantedNothing},
	"suspended and resumed":          {world: begun(one()()), events: []func(*world){edited(suspended), edited(resumed)}},
	"suspended from the start":       {world: one(suspended)(), end: idle},
	"resized":                        {world: begun(one(elastic(4))()), events: []func(*world){edited(sized(4)), edited(sized(1))}},
	"removed after the end":          {world: one(ttl(60))(), slow: true, end: cleaned},
	"another placement":              {world: one()(), events: []func(*world){edited(onlyOn("basalt"))}},
	"another placement and a change": {world: one()(), events: []func(*world){edited(onlyOn("basalt"), changed)}, slow: true},
	"another placement, replacing":   {world: one(replacing)(), events: []func(*world){edited(onlyOn("basalt"), changed)}, slow: true},
	"drained":                        {world: one()(), events: []func(*world){drain("alpine", "true")}, stale: true, calm: true},
	"drained, and a slow start":      {world: begun(one()()), events: []func(*world){drain("alpine", "true")}, slow: true},
	"drained and back":               {world: begun(one()()), events: []func(*world){drain("alpine", "true"), drain("alpine", "false")}},
	"both drained, one back":         {world: begun(one()()), events: []func(*world){all(drain("alpine", "true"), drain("basalt", "true")), drain("alpine", "false")}},
	"drained while lost":             {world: begun(one()()), events: []func(*world){all(on("alpine", lost), drain("alpine", "true")), on("alpine", back)}},
	"pods do not start":              {world: one(moves)(on("alpine", stuck)), events: []func(*world){later}},
	"pods start in the end":          {world: one(moves)(on("alpine", stuck)), events: []func(*world){later, on("alpine", unstuck)}},
	"pods start, and the cache lags": {world: one(moves)(on("alpine", stuck, lagging)), events: []func(*world){all(later, on("alpine", unstuck))}},
	"pods start nowhere":             {world: one(moves)(on("alpine", stuck), on("basalt", stuck)), events: []func(*world){later, all(on("alpine", unstuck), on("basalt", unstuck))}},
	"the cache lags":                 {world: one()(on("alpine", lagging))},
	"lost and back":                  {world: begun(one()()), events: []func(*world){on("alpine", lost), on("alpine", back)}, slow: true},
	"lost with its runs": {world: begun(one(failsOver)()), events: []func(*world){
		on("alpine", lost), later, on("alpine", destroyed, back)}},
	"lost with its runs, and a stale request": {world: begun(one(failsOver)()), calm: true, stale: true, events: []func(*world){
		on("alpine", lost), later, on("alpine", destroyed, back)}},
	"lost, and back with its runs": {world: begun(one(failsOver)()), events: []func(*world){on("alpine", lost), later, on("alpine", back)}},
	"lost, and no failover": {world: begun(one()()), events: []func(*world){
		on("alpine", lost), later, on("alpine", destroyed, back)}, end: wantedNothing},
	"lost for good": {world: begun(one(failover(v1alpha1.FenceManual))()), events: []func(*world){
		on("alpine", lost), later, all(on("alpine", destroyed), declareLive)}},
	"said to be lost, and back": {world: begun(one(failover(v1alpha1.FenceManual))()), events: []func(*world){
		on("alpine", lost), later, all(on("alpine", back), declareLive)}},
	"not registered any more": {world: begun(one()()), events: []func(*world){on("alpine", unregistered), on("alpine", registered)}},
	"another cluster comes": {world: begun(one()()), events: []func(*world){
		on("alpine", lost), on("alpine", destroyed, anotherOne, back)}, end: wantedNothing},
	"somebody deletes the Job":     {world: one()(), events: []func(*world){meddled}},
	"room for one of two":          {world: two(onlyOn("alpine"))},
	"room for one on each":         {world: two()},
	"a change while another waits": {world: begun(two(onlyOn("alpine"), replacing)), calm: true, events: []func(*world){edited(changed)}},
	"suspended while another waits": {world: begun(two(onlyOn("alpine"))), calm: true, events: []func(*world){
		edited(suspended), edited(resumed), restarted}},
	"larger while another runs": {world: func() *world {
		w := newWorld(MakeObject("run").With(onlyOn("alpine"), elastic(3)).Obj(), MakeObject("other").With(onlyOn("alpine"), sized(1)).Obj())
		w.member("alpine").cpus = 3
		return begun(func() *world { return w })()
	}, calm: true, events: []func(*world){edited(sized(3))}},
	"drained, and another waits": {world: begun(two()), calm: true, events: []func(*world){drain("alpine", "true")}},
}

func everywhere(w *world) string { return hasRunOn(w, 0, 2) }

func cleaned(w *world) string {
	for _, m := range w.members {
		if m.jobs["run"] != nil || m.prepared["run"] {
			return "something is on " + m.name
		}
	}
	return hasRun(w)
}

// However the hub crashes, whatever replies are lost, whenever people and members act: at most one run is live, nothing
// is deleted by mistake, nothing is evicted without proof, and all comes to the end that is wanted.
func TestStories(t *testing.T) {
	for _, told := range []map[string]*story{stories, forgetting} {
		for _, name := range slices.Sorted(maps.Keys(told)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				t.Logf("%d worlds", told[name].explore(t, nil))
			})
		}
	}
}
