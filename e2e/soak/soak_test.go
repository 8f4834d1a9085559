package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// fewSteps are enough for the tests that guard every change, manySteps are those of one round of a soak.
	fewSteps, manySteps = 18, 60
	// fixedSeed is one that soon comes to rest.
	fixedSeed = 35
	// restLimit is how long a healed fleet may take to come to rest: it waits out the back-off of members that
	// were away, of runs that failed, and the pods' own seconds.
	restLimit = 3 * time.Minute
)

// TestSchedules plays the directed schedules, and a short one of a fixed seed.
func TestSchedules(t *testing.T) {
	f := newFleet(t, undivided)
	for _, d := range directed {
		if !t.Run(d.name, func(t *testing.T) { f.follow(t, d) }) {
			t.Fatal("what comes after it would be played on a fleet that is not sound")
		}
	}
	if !t.Run(fmt.Sprintf("seed=%d", fixedSeed), func(t *testing.T) { f.play(t, fixedSeed, fewSteps, kinds) }) {
		t.Fatalf("repeat it, with more steps after these, with: make soak SEED=%d DURATION=1s", fixedSeed)
	}
}

// TestShards plays the directed schedules for two shards alone, where MINIFLEET_SOAK_SHARDS is 2; TestSoak has them take turns
// with others. Five clusters take longer to start than any of it.
func TestShards(t *testing.T) {
	if len(shardsOf(t)) == 1 {
		t.Skip("NOT TESTED with two shards, which takes a minute: MINIFLEET_SOAK_SHARDS=2 go test ./e2e/soak -run TestShards, or make soak SHARDS=2")
	}
	f := newFleet(t, divided)
	for _, d := range directedShards {
		if !t.Run(d.name, func(t *testing.T) { f.follow(t, d) }) {
			t.Fatal("what comes after it would be played on a fleet that is not sound")
		}
	}
}

// TestSoak plays schedules until a time has passed: MINIFLEET_SOAK_DURATION, a Go duration. The first has
// the seed MINIFLEET_SOAK_SEED, or one drawn at random, and the next ones count up from it. `make soak` sets
// both.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("MINIFLEET_SOAK_DURATION"))
	if err != nil {
		t.Skip("for minutes or hours: make soak DURATION=10m")
	}
	seed := uint64(rand.Uint32())
	if given := os.Getenv("MINIFLEET_SOAK_SEED"); given != "" {
		seed, err = strconv.ParseUint(given, 10, 64)
		check(t, err)
	}
	for end := time.Now().Add(length); time.Now().Before(end); seed++ {
		fmt.Printf("%s seed %d\n", time.Now().Format(time.TimeOnly), seed) // also while it goes on
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { round(t, seed) }) {
			t.Fatalf("repeat it with: make soak SEED=%d DURATION=1s SHARDS=%s", seed, os.Getenv("MINIFLEET_SOAK_SHARDS"))
		}
	}
}

// round is one of a soak: the schedule of a seed, and then, on the fleet that has been through that, one of the
// directed ones, which take turns.
func round(t *testing.T, seed uint64) {
	f := newFleet(t, shardsOf(t))
	if f.play(t, seed, manySteps, kindsWithLosses(lossWeight(t))); !t.Failed() {
		all := directedFor(f.shards)
		f.follow(t, all[seed%uint64(len(all))])
	}
}

// shardsOf are those of a soak, as many as MINIFLEET_SOAK_SHARDS says: 2, or none.
func shardsOf(t *testing.T) []shard {
	t.Helper()
	switch n := os.Getenv("MINIFLEET_SOAK_SHARDS"); n {
	case "", "1":
		return undivided
	case "2":
		return divided
	default:
		t.Fatalf("there are no schedules for %s shards: make soak SHARDS=2", n)
		return nil
	}
}

// lossWeight is how many times as often as usual the hub is made to forget: MINIFLEET_SOAK_LOSSES, or 1.
func lossWeight(t *testing.T) int {
	t.Helper()
	given := os.Getenv("MINIFLEET_SOAK_LOSSES")
	if given == "" {
		return 1
	}
	times, err := strconv.Atoi(given)
	check(t, err)
	return times
}

// play lets the schedule of a seed happen in a new namespace, heals the fleet, waits until it is at rest, and
// checks what has happened.
func (f *fleet) play(t *testing.T, seed uint64, steps int, kinds []kind) {
	f.enter(t, fmt.Sprintf("soak-%d", seed))
	story := newTrace(t, fmt.Sprintf("seed %d, %d steps, %d controllers at a time", seed, steps, len(f.shards)))
	f.perform(t, story, draw(seed, steps, kinds, f.shards))
	err := f.heal(t.Context())
	story.add("heal", err)
	check(t, err)
	if steps == fewSteps {
		f.endAllPods(t.Context())
	}
	f.judge(t, story)
}

// perform takes one step after the other. It returns what could not be done.
func (f *fleet) perform(t *testing.T, story *trace, steps []step) []error {
	ctx := t.Context()
	var errs []error
	for i, s := range steps {
		line := fmt.Sprintf("%3d %s", i, s)
		err := actions[s.do](ctx, f, s)
		story.add(line, err)
		if err != nil {
			errs = append(errs, fmt.Errorf("step %d, %s: %w", i, s, err))
		}
		time.Sleep(s.wait)
		if err := f.superviseHub(ctx); err != nil {
			story.add("    start it again", err)
		}
	}
	return errs
}

// judge waits until the fleet is at rest, and checks what has happened.
func (f *fleet) judge(t *testing.T, story *trace) {
	ctx := t.Context()
	rested := f.rest(ctx)
	story.add("rest", nil)
	for _, why := range rested {
		t.Errorf("L: not at rest after %s: %s", restLimit, why)
	}
	h, err := f.readHistory()
	check(t, err)
	check(t, f.mark(ctx, h))
	logs, err := f.logs()
	check(t, err)
	for _, invariant := range invariants {
		for _, violation := range invariant.check(h) {
			t.Errorf("%s: %s", invariant.name, violation)
		}
	}
	for _, violation := range h.touched(f.strangers) {
		t.Errorf("U4: nothing of others is changed: %s", violation)
	}
	for _, violation := range h.leaks(logs) {
		t.Errorf("S: no secret leaves: %s", violation)
	}
	t.Logf("%s: %s in %s", story.name, h.summary(), time.Since(story.start).Round(time.Second))
}

// rest waits until the fleet is at rest, twice in a row, and returns what keeps it from that.
func (f *fleet) rest(ctx context.Context) []string {
	var left []string
	calm := 0
	for end := time.Now().Add(restLimit); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		if left = f.unrest(ctx); len(left) > 0 {
			calm = 0
			if err := errors.Join(f.reregister(ctx), f.sweep(ctx), f.sweepVanished(ctx)); err != nil {
				left = append(left, err.Error())
			}
			if err := f.superviseHub(ctx); err != nil {
				left = append(left, err.Error())
			}
		} else if calm++; calm == 3 {
			return nil
		}
	}
	return left
}

// mark tells the history which Jobs are there in the end: what no log says of them has not happened.
func (f *fleet) mark(ctx context.Context, h *history) error {
	for _, member := range membersOf(f.shards) {
		var list batchv1.JobList
		if err := f.clients[member].List(ctx, &list, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			if j := h.jobs[list.Items[i].UID]; j != nil {
				j.stays = true
			}
		}
	}
	return nil
}

// summary is for those who wonder whether anything has happened at all.
func (h *history) summary() string {
	return fmt.Sprintf("%d FleetMiniClusters had %d Jobs; MiniFleet made %d writes", len(h.all()), len(h.ours()), len(h.writes))
}

// trace is what has happened so far.
type trace struct {
	name  string
	start time.Time
	lines []string
}

// newTrace begins a trace, which a test that fails prints.
func newTrace(t *testing.T, name string) *trace {
	t.Helper()
	tr := &trace{name: name, start: time.Now()}
	t.Cleanup(func() {
		if t.Failed() || os.Getenv("TRACE") != "" {
			t.Logf("%s:\n%s", name, tr)
		}
	})
	return tr
}

func (tr *trace) add(line string, err error) {
	if err != nil {
		line += fmt.Sprintf(" (could not: %v)", err)
	}
	tr.lines = append(tr.lines, fmt.Sprintf("%7.3fs %s", time.Since(tr.start).Seconds(), line))
}

func (tr *trace) String() string { return strings.Join(tr.lines, "\n") }
