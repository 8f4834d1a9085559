package runs_test

import (
	"slices"
	"testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

// story is what people want, one thing after the other. They may go on to the next at any moment.
type story []runs.Wanted

// explore visits every world that a story can lead to, with the hub, the member, the network and people
// each taking a step at any moment.
func (s story) explore(t *testing.T, faults faults, visit func(*world)) {
	t.Helper()
	start := newWorld()
	seen := map[string]bool{start.key(): true}
	queue := []*world{start}
	for len(queue) > 0 {
		w := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		visit(w)
		if t.Failed() {
			return
		}
		for _, next := range s.next(w, faults) {
			if k := next.key(); !seen[k] {
				seen[k] = true
				queue = append(queue, next)
			}
		}
		if len(seen) > 50_000 {
			t.Fatalf("the story has no end: %s", queue[len(queue)-1].key())
		}
	}
}

// faults are what may go wrong besides crashes and lost replies, which always may.
type faults struct {
	stale           bool // a request arrives at any time after the hub has given it up, or never
	deletedByOthers bool // somebody deletes a Job on the member, once
}

func (s story) next(w *world, f faults) []*world {
	var out []*world
	try := func(change func(*world) bool) {
		if c := w.clone(); change(c) {
			out = append(out, c)
		}
	}
	wanted := s[w.wants]
	try(func(c *world) bool { return c.hub(wanted) })
	for _, step := range w.member() {
		try(func(c *world) bool { step(c); return true })
	}
	try(func(c *world) bool { c.wants++; return c.wants < len(s) })
	if f.stale && w.inFlight == nil && !w.clone().record(wanted) {
		try(func(c *world) bool { c.inFlight = c.request(wanted); return c.inFlight != nil })
	}
	if w.inFlight != nil {
		try(func(c *world) bool { c.land(c.inFlight); c.inFlight = nil; return true })
		try(func(c *world) bool { c.inFlight = nil; return true })
	}
	if f.deletedByOthers && !w.deleted && w.job != nil {
		try(func(c *world) bool { c.job.Deleting, c.deleted = true, true; return true })
		try(func(c *world) bool { // and orphans its pods
			if c.job.executing {
				c.orphan = c.job.RunID
			}
			c.job, c.deleted = nil, true
			return true
		})
	}
	return out
}

var stories = map[string]story{
	"one run":                          {wanted()},
	"a change":                         {wanted(), wanted(digest("2"))},
	"a change, replacing":              {wanted(replace), wanted(digest("2"), replace)},
	"two changes":                      {wanted(), wanted(digest("2")), wanted(digest("3"))},
	"two changes, replacing":           {wanted(replace), wanted(digest("2"), replace), wanted(digest("3"), replace)},
	"a change, then replacing":         {wanted(), wanted(digest("2")), wanted(digest("2"), replace)},
	"a token":                          {wanted(), wanted(token("t"))},
	"a token, replacing":               {wanted(replace), wanted(token("t"), replace)},
	"two tokens":                       {wanted(), wanted(token("t")), wanted(token("u"))},
	"a token with a change":            {wanted(), wanted(digest("2"), token("t"))},
	"a token, withdrawn":               {wanted(token("t")), wanted()},
	"suspended from the start":         {wanted(suspend), wanted()},
	"suspended and resumed":            {wanted(), wanted(suspend), wanted()},
	"suspended for good":               {wanted(), wanted(suspend)},
	"resized":                          {wanted(size(2)), wanted(size(4)), wanted(size(1))},
	"held, then let go":                {wanted(hold), wanted()},
	"held after a change":              {wanted(), wanted(digest("2"), hold), wanted(digest("2"))},
	"held after a change, replaced":    {wanted(replace), wanted(digest("2"), replace, hold), wanted(digest("2"), replace)},
	"the member is removed":            {wanted(), wanted(removed)},
	"the member is removed, replacing": {wanted(replace), wanted(replace, removed)},
	"it is removed after a change":     {wanted(), wanted(digest("2")), wanted(digest("2"), removed)},
	"it is removed, and back for more": {wanted(), wanted(removed), wanted(digest("2"))},
	"there and back":                   {wanted(), wanted(digest("2")), wanted()},
	"there and back, replacing":        {wanted(replace), wanted(digest("2"), replace), wanted(replace)},
	"tokens there and back":            {wanted(token("t")), wanted(token("u")), wanted(token("t"))},
	"the member is removed, and back":  {wanted(), wanted(removed), wanted()},
	"cleaned up":                       {wanted(cleanup)},
	"cleaned up after a change":        {wanted(), wanted(cleanup), wanted(cleanup, digest("2")), wanted(cleanup)},
	"cleaned up, and run again":        {wanted(cleanup), wanted(cleanup, token("t")), wanted(token("t"))},
	"tried again":                      {wanted(retries(2))},
	"tried again, and changed":         {wanted(retries(1)), wanted(retries(1), digest("2"))},
	"tried again, replacing":           {wanted(retries(1), replace), wanted(retries(1), replace, digest("2"))},
	"tried again, cleaned up":          {wanted(retries(1), cleanup)},
	"tried again after all":            {wanted(), wanted(retries(1))},
	"cancelled":                        {wanted(), wanted(cancelFirst)},
	"cancelled, and run again":         {wanted(), wanted(cancelFirst), wanted(cancelFirst, token("t"))},
	"cancelled, and changed":           {wanted(), wanted(cancelFirst), wanted(cancelFirst, digest("2"))},
	"cancelled while replaced":         {wanted(replace), wanted(replace, digest("2")), wanted(replace, digest("2"), cancelFirst)},
	"cancelled, with retries":          {wanted(retries(1)), wanted(retries(1), cancelFirst)},
	"cancelled while suspended":        {wanted(), wanted(suspend), wanted(suspend, cancelFirst), wanted(cancelFirst)},
	"drained":                          {wanted(), wanted(drained, removed)},
	"drained, and back":                {wanted(), wanted(drained, removed), wanted()},
	"drained while suspended":          {wanted(suspend), wanted(suspend, drained, removed), wanted(suspend), wanted()},
	"drained after a change":           {wanted(), wanted(digest("2")), wanted(digest("2"), drained, removed), wanted(digest("2"))},
	"drained while replaced":           {wanted(replace), wanted(replace, digest("2")), wanted(replace, digest("2"), drained, removed)},
	"drained and cancelled":            {wanted(), wanted(drained, removed), wanted(cancelFirst, drained, removed), wanted(cancelFirst)},
	"withdrawn, and back after all":    {wanted(), wanted(withdrawn, removed), wanted()},
	"changed while suspended":          {wanted(), wanted(suspend), wanted(suspend, digest("2")), wanted(digest("2"))},
}

func drained(w *runs.Wanted)   { w.Evict = v1alpha1.StopDrained }
func withdrawn(w *runs.Wanted) { w.Evict = v1alpha1.StopNotStarted }

// cancelFirst cancels the run that a story begins with.
func cancelFirst(w *runs.Wanted) { w.Cancel = []string{runs.ID("owner", "alpine", wanted(), nil)} }

// entered is how often a story comes to want something, up to a point.
func (s story) entered(upTo int, digest, token string) int {
	n := 0
	for i := 0; i <= upTo; i++ {
		is := s[i].Digest == digest && s[i].RerunAt == token
		switch {
		case is && (i == 0 || s[i-1].Digest != digest || s[i-1].RerunAt != token):
			n++
		case is && s[i].Evict == "" && s[i-1].Evict != "":
			n++ // what was evicted is wanted anew
		}
	}
	return n
}

// tries is how often a story runs the same thing at most, up to a point.
func (s story) tries(upTo int) int {
	n := 1
	for _, w := range s[:upTo+1] {
		n = max(n, 1+int(w.Retries))
	}
	return n
}

// However the hub crashes and whatever replies are lost: each run starts at most once, and no more runs
// start than were asked for.
func TestCrashesStartNothingTwice(t *testing.T) {
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.explore(t, faults{}, func(w *world) {
				for id, n := range w.created {
					if n > 1 {
						t.Fatalf("the Job of run %s was created %d times: %s", id, n, w.key())
					}
				}
				asked := map[[2]string]int{}
				for _, r := range w.ledger {
					if w.executed[r.ID] > 0 {
						asked[[2]string{r.Digest, r.RerunAt}]++
					}
				}
				for what, n := range asked {
					if most := s.entered(w.wants, what[0], what[1]) * s.tries(w.wants); n > most {
						t.Fatalf("%v ran %d times, and was asked for %d times: %s", what, n, most, w.key())
					}
				}
				live(t, w)
			})
		})
	}
}

// Nor does a request that arrives at any later time, from a hub that was succeeded or had given it up, run anything
// that is over, or anything a second time.
func TestStaleRequestsRunNothing(t *testing.T) {
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.explore(t, faults{stale: true, deletedByOthers: len(s) == 1}, func(w *world) {
				for id, n := range w.executed {
					if n > 1 && !s.suspends() {
						t.Fatalf("run %s executed %d times: %s", id, n, w.key())
					}
				}
				live(t, w)
			})
		})
	}
}

// suspends says whether a story ends executions and lets them go on.
func (s story) suspends() bool {
	return slices.ContainsFunc(s, func(w runs.Wanted) bool { return w.Suspend })
}

// live checks that what executes is the one run that the ledger calls live, or one that the hub has
// decided to stop.
func live(t *testing.T, w *world) {
	t.Helper()
	if n := len(w.ledger.Live()); n > 1 {
		t.Fatalf("%d live lines: %s", n, w.key())
	}
	if w.orphan != "" && w.ledger.Ended(w.orphan) && w.created[w.orphan] > 0 {
		t.Fatalf("run %s has ended in the ledger while a pod of it runs: %s", w.orphan, w.key())
	}
	if w.job == nil || !w.job.executing {
		return
	}
	if w.orphan != "" && w.orphan != w.job.RunID {
		t.Fatalf("two runs execute: %s", w.key())
	}
	if w.job.Deleting {
		return
	}
	if last := w.last(); last == nil || last.ID != w.job.RunID || last.State.Ended() {
		t.Fatalf("something executes that the ledger does not call live: %s", w.key())
	}
	for i, r := range w.ledger {
		if slices.ContainsFunc(w.ledger[:i], func(o v1alpha1.Run) bool { return o.ID == r.ID }) {
			t.Fatalf("two lines have one id: %s", w.key())
		}
	}
}

// Whatever a crash, a stale request or a person has made of it, everything comes to the end that is
// wanted, without anybody's help.
func TestEverythingConverges(t *testing.T) {
	for name, s := range stories {
		for title, f := range map[string]faults{"crashes": {}, "stale requests": {stale: true}, "Jobs deleted by others": {deletedByOthers: true}} {
			t.Run(name+", "+title, func(t *testing.T) {
				t.Parallel()
				s.explore(t, f, func(w *world) { converges(t, s, w) })
			})
		}
	}
}

func converges(t *testing.T, s story, from *world) {
	t.Helper()
	w, wanted := from.clone(), s[from.wants]
	if !w.converge(wanted) {
		t.Fatalf("no end from %s: at last %s", from.key(), w.key())
	}
	last := w.last()
	switch {
	case !wanted.Chosen:
		if w.job != nil {
			t.Errorf("a Job remains on a member that is not in the placement: from %s to %s", from.key(), w.key())
		}
	case wanted.Suspend || wanted.Hold != "":
		if w.job != nil && w.job.executing {
			t.Errorf("something executes: from %s to %s", from.key(), w.key())
		}
	case wanted.IsCurrent(last) && last.State == v1alpha1.RunCancelled:
		if !slices.Contains(wanted.Cancel, last.ID) || w.job != nil && w.job.executing {
			t.Errorf("it is called cancelled: from %s to %s", from.key(), w.key())
		}
	case wanted.WillRetry(last):
		t.Errorf("it is not tried again: from %s to %s", from.key(), w.key())
	case !wanted.IsCurrent(last) || last.State != v1alpha1.RunSucceeded && last.State != v1alpha1.RunFailed:
		t.Errorf("what is wanted has not run: from %s to %s", from.key(), w.key())
	}
}

// A Job that somebody deletes after the hub has seen it is not made again, and its run has failed.
func TestJobsDeletedByOthersAreNotRepeated(t *testing.T) {
	s := story{wanted()}
	s.explore(t, faults{deletedByOthers: true}, func(w *world) {
		last := w.last()
		if last == nil || last.JobUID == "" && !last.State.Ended() {
			return
		}
		before := w.created[last.ID]
		c := w.clone()
		c.converge(wanted())
		if after := c.created[last.ID]; after != before || len(c.ledger) != len(w.ledger) {
			t.Errorf("it was made again: from %s to %s", w.key(), c.key())
		}
	})
}

// A request to create that arrives when its run is over makes a Job that nobody wants any more: it never runs, it is
// removed, and it is not taken for a new run.
func TestStaleCreateRunsNothing(t *testing.T) {
	cases := map[string]struct {
		story  story
		faults faults
	}{
		"of a run that was replaced":     {story{wanted(replace), wanted(digest("2"), replace)}, faults{stale: true}},
		"of a run whose Job was deleted": {story{wanted()}, faults{stale: true, deletedByOthers: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { staleCreate(t, c.story, c.faults) })
	}
}

func staleCreate(t *testing.T, s story, f faults) {
	t.Helper()
	found := false
	s.explore(t, f, func(w *world) {
		if w.job == nil || w.job.Finished || w.job.Deleting || !w.ledger.Ended(w.job.RunID) {
			return
		}
		found = true
		if !w.job.Unreleased {
			t.Errorf("it may run: %s", w.key())
		}
		lines := len(w.ledger)
		c := w.clone()
		if !c.hub(s[w.wants]) || c.job == nil && len(c.ledger) == lines {
			t.Errorf("nothing is done about %s", w.key())
		}
		c.converge(s[w.wants])
		if c.created[w.job.RunID] != w.created[w.job.RunID] || slices.ContainsFunc(c.ledger[lines:], func(r v1alpha1.Run) bool { return r.ID == w.job.RunID }) {
			t.Errorf("it counts as a new run: from %s to %s", w.key(), c.key())
		}
	})
	if !found {
		t.Error("no request was stale: the story tests nothing")
	}
}
