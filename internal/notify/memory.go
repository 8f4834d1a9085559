package notify

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Window is for how long a transition that was told is remembered by its name. Older ones are known by their time, but for
// those that are awaited.
const Window = 20 * time.Minute

// Memory is what a Notification has told, and what it is about to tell. A transition of a run is new when it is younger than
// since and was not told, or when it is awaited: its run was seen without it. A condition of a source is new when it is
// not as it was told.
//
// What is remembered of it durably (Snapshot) is bounded: the names of what was told lately, and of what is awaited of runs that
// began before. It is no larger for a ledger that is.
type Memory struct {
	since time.Time
	// told are transitions of runs, each with the time from which on since knows of it.
	told map[string]time.Time
	// awaited are those to come, by the object that they are of, with when their run began.
	awaited map[types.UID]map[string]time.Time
	// pending are those that are being told, and what they make of active.
	pending map[string]pending
	// active are conditions of sources that were told, and hold.
	active map[string]bool
	// quiet are the first conditions of sources, which hold since before the Notification was made.
	quiet bool
}

type pending struct {
	at  time.Time
	end bool // of a condition: it is over
	// n is how many are being told of the same condition. The others are those of the latest.
	n int
}

// NewMemory tells nothing that happened up to since.
func NewMemory(since time.Time) *Memory {
	return &Memory{
		since: since.Truncate(time.Second), quiet: true,
		told: map[string]time.Time{}, awaited: map[types.UID]map[string]time.Time{}, pending: map[string]pending{}, active: map[string]bool{},
	}
}

// unowned has what is awaited of a memory that was restored, until its objects are seen.
const unowned types.UID = ""

// Restore is a memory from a status.
func Restore(from *v1alpha1.NotificationMemory, now time.Time) *Memory {
	m := NewMemory(from.Since.Time)
	m.quiet = false
	for _, key := range from.Told {
		m.told[key] = now
	}
	m.awaited[unowned] = map[string]time.Time{}
	for _, key := range from.Awaited {
		m.awaited[unowned][key] = time.Time{}
	}
	for _, key := range from.Active {
		m.active[key] = true
	}
	return m
}

// Began ends the time in which what is seen first was there before. All objects have been seen once.
func (m *Memory) Began() {
	m.quiet = false
	for key := range m.awaited[unowned] {
		if _, is := m.pending[key]; !is {
			delete(m.awaited[unowned], key) // its object is deleted
		}
	}
}

// Rebase has what happened up to now count as told, but for what is awaited: what is asked for has changed.
func (m *Memory) Rebase(now time.Time) {
	if now = now.Truncate(time.Second); now.After(m.since) {
		m.since = now
	}
}

// Runs are the new transitions of an object, oldest first. They are new until they are Queued, or not wanted.
func (m *Memory) Runs(f *v1alpha1.FleetMiniCluster, wanted func(v1alpha1.NotificationEvent) bool) []Transition {
	var out []Transition
	before := m.awaited[f.UID]
	still := map[string]time.Time{}
	for i := range f.Status.Runs {
		run := &f.Status.Runs[i]
		for _, t := range ofRun(f, run) {
			if m.isNew(&t, before) && wanted(t.Event) {
				t.Run = run.DeepCopy()
				out = append(out, t)
			}
			delete(m.awaited[unowned], t.Key)
		}
		m.await(still, run)
	}
	delete(m.awaited, f.UID)
	if len(still) > 0 {
		m.awaited[f.UID] = still
	}
	slices.SortStableFunc(out, func(a, b Transition) int { return a.At.Compare(b.At) })
	return out
}

func (m *Memory) isNew(t *Transition, awaited map[string]time.Time) bool {
	if _, is := m.told[t.Key]; is {
		return false
	}
	if _, is := m.pending[t.Key]; is {
		return false
	}
	_, is := awaited[t.Key]
	_, was := m.awaited[unowned][t.Key]
	return is || was || t.At.After(m.since)
}

// await notes what is to come of a run. What was told is not to come again, where an older state of the object is seen later.
func (m *Memory) await(to map[string]time.Time, run *v1alpha1.Run) {
	if run.State.Ended() {
		return
	}
	keys := []string{run.ID + ended}
	if run.State == v1alpha1.RunStarting {
		keys = append(keys, run.ID+started)
	}
	for _, key := range keys {
		_, told := m.told[key]
		if _, is := m.pending[key]; !told && !is {
			to[key] = timeOf(run.StartTime)
		}
		delete(m.awaited[unowned], key)
	}
}

// Source are the new conditions of a source. They are new until they are Queued; what is not wanted is noted at once.
func (m *Memory) Source(s *v1alpha1.GitSource, wanted func(v1alpha1.NotificationEvent) bool) []Transition {
	var out []Transition
	states := ofSource(s)
	for i := range states {
		st := &states[i]
		now := m.active[st.key]
		if p, is := m.pending[st.key]; is {
			now = !p.end
		}
		if st.is == unclear || (st.is == holds) == now {
			continue
		}
		old := m.quiet && !st.at.After(m.since)
		t := st.transition(s)
		if old || !wanted(t.Event) {
			m.set(st.key, st.is == holds)
			continue
		}
		out = append(out, t)
	}
	return out
}

func (m *Memory) set(key string, is bool) {
	if delete(m.active, key); is {
		m.active[key] = true
	}
}

// Queued says that a transition is being told.
func (m *Memory) Queued(t *Transition) {
	m.pending[t.Key] = pending{at: t.At, end: t.Event == v1alpha1.EventSourceRecovered || t.Over, n: m.pending[t.Key].n + 1}
}

// Done says that a transition was told, or that it will not be.
func (m *Memory) Done(t *Transition, now time.Time) {
	switch p := m.pending[t.Key]; t.Object.Kind {
	case KindRun:
		delete(m.pending, t.Key)
		delete(m.awaited[unowned], t.Key)
		m.told[t.Key] = latest(t.At, now)
	case KindSource:
		m.set(t.Key, t.Event != v1alpha1.EventSourceRecovered && !t.Over)
		if p.n--; p.n > 0 { // others are queued behind it
			m.pending[t.Key] = p
		} else {
			delete(m.pending, t.Key)
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Forget removes what is remembered of an object that is deleted.
func (m *Memory) Forget(uid types.UID) {
	delete(m.awaited, uid)
	maps.DeleteFunc(m.active, func(key string, _ bool) bool { return strings.HasPrefix(key, string(uid)+"/") })
}

// Snapshot is what is to be remembered durably, as of now.
func (m *Memory) Snapshot(now time.Time) *v1alpha1.NotificationMemory {
	if from := now.Add(-Window).Truncate(time.Second); from.After(m.since) {
		m.since = from
	}
	m.forgetTold()
	out := &v1alpha1.NotificationMemory{
		Since: metav1.NewTime(m.since), Told: slices.Sorted(maps.Keys(m.told)), Awaited: m.stillAwaited(), Active: slices.Sorted(maps.Keys(m.active)),
	}
	out.Active = out.Active[:min(len(out.Active), v1alpha1.MaxActiveConditions)]
	return out
}

// forgetTold forgets those that since knows of. Of too many, the oldest are forgotten, and since moves on.
func (m *Memory) forgetTold() {
	if excess := len(m.told) - v1alpha1.MaxToldTransitions; excess > 0 {
		times := slices.SortedFunc(maps.Values(m.told), time.Time.Compare)
		// To the next second, so that it is after all of these.
		if until := times[excess-1].Truncate(time.Second).Add(time.Second); until.After(m.since) {
			m.since = until
		}
	}
	maps.DeleteFunc(m.told, func(_ string, at time.Time) bool { return !at.After(m.since) })
}

// stillAwaited are those that since does not know of, the oldest first where there are too many.
func (m *Memory) stillAwaited() []string {
	from := map[string]time.Time{}
	for _, of := range m.awaited {
		for key, begun := range of {
			if !begun.After(m.since) {
				from[key] = begun
			}
		}
	}
	for key, p := range m.pending {
		if !p.at.After(m.since) && (strings.HasSuffix(key, started) || strings.HasSuffix(key, ended)) {
			from[key] = p.at
		}
	}
	keys := slices.SortedFunc(maps.Keys(from), func(a, b string) int {
		return cmp.Or(from[a].Compare(from[b]), strings.Compare(a, b))
	})
	keys = keys[:min(len(keys), v1alpha1.MaxAwaitedTransitions)]
	slices.Sort(keys)
	return keys
}
