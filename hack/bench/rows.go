package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/minifleet/minifleet/dashboard/web"
	"github.com/minifleet/minifleet/hack/bench/record"
)

// numberedRow is a row of `make bench`.
type numberedRow struct {
	number int
	name   string
	// measure and floor say what is measured, and beside what.
	measure, floor string
	// goals are for figures by part of their name.
	goals []record.Goal
	// takes is how long it takes on two cores of its own, about.
	takes time.Duration
	// full is how much is measured, short how little in the short form.
	full, short size
	run         func(ctx context.Context, s *session, o options) error
}

const (
	byRatio = record.Ratio
	byValue = record.Value
)

// allNumbered are the rows, in order.
var allNumbered = []numberedRow{
	{
		number: 1, name: "many at once",
		measure: "many MiniClusters of four objects each onto 3 members: the hub is told of a push, to the last Job created, and to the last released; CPU time and requests for each",
		floor:   "a bare loop that creates the same objects on the same members, in turns with it",
		goals: []record.Goal{
			{Figure: "the last Job created, p50", Against: byRatio, AtMost: 2.5},
			{Figure: "the last Job released, p50", Against: byRatio, AtMost: 2.5},
			{Figure: "requests to the hub for one of", Against: byValue, AtMost: 5},
		},
		takes: 15 * time.Minute,
		full:  size{counts: []int{100, 1000}, runs: 5}, short: size{counts: []int{3}, runs: 1},
		run: manyAtOnce,
	},
	{
		number: 2, name: "one push",
		measure: "one MiniCluster beside others: a webhook is sent, to its Job created",
		floor:   "fetch of what is new, in this process, comparison of trees, and five writes one after the other",
		goals: []record.Goal{
			{Figure: "by a webhook, p50", Against: byRatio, AtMost: 1.5},
			{Figure: "by a webhook, p99", Against: byRatio, AtMost: 1.5},
			{Figure: "by a webhook, p99", Against: byValue, AtMost: 250},
		},
		takes: 7 * time.Minute,
		full:  size{n: 100, singles: 200}, short: size{n: 3, singles: 2},
		run: onePush,
	},
	{
		number: 3, name: "a sync that changes nothing",
		measure: "a reconciliation of a GitSource that finds no new commit, half of whose MiniClusters run and half have ended; requests to members and writes to the hub in it",
		floor:   "one ls-remote over an open connection, which nobody parses",
		goals: []record.Goal{
			{Figure: "a fetch that finds nothing new", Against: byRatio, AtMost: 1.2},
			{Figure: "requests to members in such a fetch", Against: byValue},
			{Figure: "writes to the hub in such a fetch", Against: byValue},
		},
		takes: 3 * time.Minute,
		full:  size{n: 200, runs: 20}, short: size{n: 4, runs: 2},
		run: nothingNew,
	},
	{
		number: 4, name: "a fleet at rest",
		measure: "requests to a member in an hour in which nothing happens, with runs that go on and runs that have ended",
		floor:   "one watch for each kind, by the same library in the same time",
		goals: []record.Goal{
			{Figure: "requests to a resting member in an hour", Against: byValue, AtMost: 20},
			{Figure: "that renew no watch", Against: byValue},
		},
		takes: 18 * time.Minute,
		full:  size{n: 30, idleFor: 15 * time.Minute}, short: size{n: 4, idleFor: time.Second},
		run: atRest,
	},
	{
		number: 5, name: "memory of members",
		measure: "memory and goroutines for one more idle member, and memory with 10,000 pods, Jobs and ConfigMaps of others on one",
		floor:   "a bare cache of the same kinds; without the objects of others",
		goals: []record.Goal{
			{Figure: "RSS of one more idle member", Against: byRatio, AtMost: 1.3},
			{Figure: "live memory of one more idle member", Against: byValue, AtMost: 0.5},
			{Figure: "goroutines of one more idle member", Against: byRatio, AtMost: 1.3},
			{Figure: "RSS with 10000 pods", Against: byRatio, AtMost: 1.05},
		},
		takes: 18 * time.Minute,
		full:  size{n: 30, doubles: 20, strangers: 10000}, short: size{n: 4},
		run: membersMemory,
	},
	{
		number: 6, name: "growth",
		measure: "how the time and CPU time of many at once grow with MiniClusters onto 3 members, and with members for 100 MiniClusters: exponents, 1 being in proportion",
		floor:   "1; beside it the exponents of the bare loop",
		goals: []record.Goal{
			{Figure: "exponent of", Against: byValue, AtMost: 1.05},
		},
		takes: 20 * time.Minute,
		full:  size{counts: []int{10, 100, 1000}, members: []int{3, 30, 100}, n: 100, runs: 3}, short: size{counts: []int{1, 3}, members: []int{3, 4}, n: 2, runs: 1},
		run: growth,
	},
	{
		number: 7, name: "restart",
		measure: "restart with MiniClusters that run on 30 members: start of the process to the last of them reconciled, and writes sent",
		floor:   "one LIST of each kind on each member, all at once, over new connections",
		goals: []record.Goal{
			{Figure: "to the last of them reconciled", Against: byRatio, AtMost: 3},
			{Figure: "writes in a restart", Against: byValue},
		},
		takes: 6 * time.Minute,
		full:  size{n: 1000, members: []int{30}, runs: 5}, short: size{n: 2, members: []int{4}, runs: 1},
		run: restarts,
	},
	{
		number: 8, name: "a hung member",
		measure: "one MiniCluster by a webhook, for one of the others and for all, while one of 30 members accepts connections and answers nothing, from the moment it begins to",
		floor:   "the same while it does not hang, in turns",
		goals: []record.Goal{
			{Figure: "for one of the others, by a webhook, p99", Against: byRatio, AtMost: 1.02},
		},
		takes: 14 * time.Minute,
		full:  size{members: []int{30}, singles: 60}, short: size{members: []int{4}, singles: 1},
		run: hungOfMany,
	},
	{
		number: 9, name: "thousands of members",
		measure: "memory and goroutines for one more idle member with 20, 200 and 1,000 of them, a restart with all, and memory of a shard with half of them",
		floor:   "a bare cache of the same kinds; one LIST of each kind on each member, all at once; one process with all members",
		goals: []record.Goal{
			{Figure: "live memory of one idle member", Against: byValue, AtMost: 0.5},
			{Figure: "goroutines beyond those of a connection", Against: byValue, AtMost: 20},
			{Figure: "live memory of a shard", Against: byRatio, AtMost: 0.6},
			{Figure: "to the last of them reconciled", Against: byRatio, AtMost: 3},
			{Figure: "writes in a restart", Against: byValue},
		},
		takes: 20 * time.Minute,
		full:  size{n: 100, members: []int{20, 200, 1000}, doubles: 20, runs: 5}, short: size{n: 2, members: []int{4, 6}, doubles: 2, runs: 1},
		run: thousands,
	},
	{
		number: 10, name: "a large hub",
		measure: "10,000 MiniClusters with 100,000 ledger lines on the hub: memory, restart, and one push beside them",
		floor:   "the same objects in a list; one LIST of each kind on each member and of the MiniClusters, all at once; fetch, comparison, and five writes",
		goals: []record.Goal{
			{Figure: "to the last of them reconciled", Against: byRatio, AtMost: 3},
			{Figure: "writes in a restart", Against: byValue},
			{Figure: "by a webhook, p50", Against: byRatio, AtMost: 1.5},
		},
		takes: 20 * time.Minute,
		full:  size{n: 10000, runs: 5, singles: 50}, short: size{n: 10, runs: 1, singles: 1},
		run: largeHub,
	},
	{
		number: 11, name: "placement",
		measure: "one placement over 1,000 members of 100 nodes each, computed, without the servers",
		floor:   "one walk over what the nodes have free",
		goals: []record.Goal{
			{Figure: "plan.Placement/", Against: byValue, AtMost: 10},
		},
		takes: 2 * time.Minute,
		full:  size{runs: 5}, short: size{runs: 1},
		run: placements,
	},
	{
		number: 12, name: "dashboard",
		measure: "lists, the page, frames, updates and idle tabs with 2,000 and 10,000 MiniClusters, whose statuses the bench makes",
		floor:   "a request that is answered with who asks; the page of a few; without updates; the cache; one tab",
		goals: []record.Goal{
			{Figure: "list of 200 of 2000 MiniClusters, p95", Against: byValue, AtMost: 50},
			{Figure: "first page of 2000 MiniClusters, compressed", Against: byValue, AtMost: 80},
			{Figure: "navigation to rows of 2000 MiniClusters", Against: byValue, AtMost: 500},
			{Figure: "navigation to rows of 10000 MiniClusters", Against: byValue, AtMost: 1200},
			{Figure: "rows of 10000 in the document", Against: byValue, AtMost: 60},
		},
		takes: 14 * time.Minute,
		full:  size{sizes: sizes{2000, 10000}, tabsFor: time.Minute}, short: size{sizes: sizes{20}},
		run: dashboardRow,
	},
	{
		number: 13, name: "peers",
		measure: "many at once beside what people would pick instead, one after the other on the same API servers",
		floor:   "no floor: the peer's own figure in the same run",
		goals: []record.Goal{
			{Figure: "push to the last Job released, beside Flux CD, one Kustomization per member", Against: byRatio, AtMost: 0.5},
			{Figure: "push to the last Job released, beside Flux CD, one Kustomization per MiniCluster", Against: byRatio, AtMost: 0.17},
		},
		takes: 15 * time.Minute,
		full:  size{counts: []int{100}, runs: 5}, short: size{counts: []int{2}, runs: 1},
		run: besidePeers,
	},
	{
		number: 14, name: "packages",
		measure: "the benchmarks of packages",
		floor:   "none but those that benchmarks have themselves",
		takes:   10 * time.Minute,
		full:    size{runs: 5}, short: size{runs: 1},
		run: packageBenchmarks,
	},
}

// plain returns a fleet of three members without nodes.
func (s *session) plain(ctx context.Context, o options) (*bench, error) {
	return s.benchOf(ctx, o, "plain", false, func(b *bench) error { return b.register(ctx) })
}

// benchOf returns a fleet of that kind, which is started and set up where there is none yet.
func (s *session) benchOf(ctx context.Context, o options, kind string, nodes bool, setUp func(*bench) error) (*bench, error) {
	if have, ok := s.fleets[kind].(*bench); ok {
		have.use(s.report, o)
		return have, nil
	}
	b := &bench{fleet: &fleet{options: o, dir: s.folder(kind), say: s.progress.say, hasty: s.short, nodes: nodes}, report: s.report}
	s.fleets[kind] = b
	if err := b.start(ctx, s.root); err != nil {
		return nil, errors.Join(err, b.logTail())
	}
	if err := setUp(b); err != nil {
		return nil, errors.Join(err, b.logTail())
	}
	_, err := b.trail.quiet(ctx, b.still())
	return b, err
}

// use has a fleet be measured by another row.
func (b *bench) use(r *report, o options) { b.report, b.options = r, o }

func manyAtOnce(ctx context.Context, s *session, o options) error {
	b, err := s.plain(ctx, o)
	if err != nil {
		return err
	}
	for _, n := range o.counts {
		for _, jobsRun := range []bool{false, true} {
			if jobsRun && (s.short || n != o.counts[0]) {
				continue
			}
			b.options.n, b.options.jobsRun = n, jobsRun
			if _, err := b.many(ctx); err != nil {
				return err
			}
			if err := b.removeFleet(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func onePush(ctx context.Context, s *session, o options) error {
	b, err := s.standing(ctx, o)
	if err != nil {
		return err
	}
	return b.webhook(ctx)
}

func nothingNew(ctx context.Context, s *session, o options) error {
	b, err := s.resting(ctx, o)
	if err != nil {
		return err
	}
	return b.idle(ctx)
}

// standing returns a fleet with MiniClusters that have their Jobs.
func (s *session) standing(ctx context.Context, o options) (*bench, error) {
	b, err := s.plain(ctx, o)
	if err != nil {
		return nil, err
	}
	return b, b.stand(ctx, o.n)
}

func atRest(ctx context.Context, s *session, o options) error {
	if o.idleFor < renewal {
		s.skip("watches are renewed after 5 to 10 minutes, and only %s are counted", o.idleFor)
	}
	b, err := s.resting(ctx, o)
	if err != nil {
		return err
	}
	return b.rest(ctx)
}

func membersMemory(ctx context.Context, s *session, o options) error {
	if s.short {
		s.skip("the controller collects garbage every two minutes, which the short form does not wait for")
		return nil
	}
	b, err := s.resting(ctx, o)
	if err != nil {
		return err
	}
	return b.weighMembers(ctx)
}

// resting returns a fleet whose members have nodes, with runs that have ended and runs that go on.
func (s *session) resting(ctx context.Context, o options) (*resting, error) {
	const kind = "resting"
	if have, ok := s.fleets[kind].(*resting); ok {
		have.use(s.report, o)
		return have, nil
	}
	b := &resting{bench: &bench{fleet: &fleet{options: o, dir: s.folder(kind), say: s.progress.say, hasty: s.short, nodes: true}, report: s.report}, sized: true}
	s.fleets[kind] = b
	if err := b.start(ctx, s.root); err != nil {
		return nil, errors.Join(err, b.logTail())
	}
	if err := b.setUp(ctx); err != nil {
		return nil, errors.Join(err, b.logTail())
	}
	return b, nil
}

// dashboardRow measures the dashboard, without what needs Chromium where that is not installed.
func dashboardRow(ctx context.Context, s *session, o options) error {
	if !web.Built() {
		s.skip("the dashboard: its page is not in this program, which takes Node.js: make web")
		return nil
	}
	o.rows = dashboardRows
	switch {
	case s.short:
		o.rows = "list"
		s.skip("the page, its frames and updates, and idle tabs, which take longer than the short form may")
	case !hasBrowser():
		o.rows = "list,tabs"
		s.skip("the page, its frames and updates: Chromium or Node.js is not installed")
	}
	d := &dashboards{fleet: &fleet{options: o, dir: s.folder("dashboard"), say: s.progress.say}, report: s.report}
	return d.with(ctx, s.root)
}

// hasBrowser says whether Chromium can be driven, as the tests of the page do it.
func hasBrowser() bool {
	if _, err := exec.LookPath("node"); err != nil {
		return false
	}
	if os.Getenv("CHROMIUM") != "" {
		return true
	}
	return slices.ContainsFunc([]string{"chromium", "chromium-browser", "google-chrome"}, func(name string) bool {
		_, err := exec.LookPath(name)
		return err == nil
	})
}
