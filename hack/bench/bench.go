package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/bench/wait"
	"github.com/minifleet/minifleet/hack/bench/workload"
	"github.com/minifleet/minifleet/hack/lab"
	"github.com/minifleet/minifleet/internal/render"
)

// waiting is longer than a status may wait to be written for the pods of its run, so that it is counted.
const waiting = 8 * time.Second

// bench measures, and fills the report.
type bench struct {
	*fleet
	report *report
	// standing is the repository of the MiniClusters that are there after the last of the large runs.
	standing *repository
	// standingN is how many MiniClusters that are, besides those that were pushed one by one.
	standingN int
	// tookEach is the time of the last push of many for one MiniCluster, by which a profile of the next one knows when to end.
	tookEach time.Duration
	// pattern is nil until the controller has made a MiniCluster.
	pattern *sameRequests
}

func (b *bench) all(ctx context.Context) error {
	if err := b.members(ctx); err != nil {
		return err
	}
	if _, err := b.many(ctx); err != nil {
		return err
	}
	for _, row := range []struct {
		name    string
		measure func(context.Context) error
	}{{"single", b.single}, {"idle", b.idle}, {"webhook", b.webhook}, {"restart", b.restart}, {"commit", b.commit}} {
		if !b.options.has(row.name) {
			continue
		}
		if err := row.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
	}
	return nil
}

// members measures what the controller holds before and after members are registered.
func (b *bench) members(ctx context.Context) error {
	if err := b.weigh(ctx, "no member"); err != nil {
		return err
	}
	if err := b.register(ctx); err != nil {
		return err
	}
	if _, err := b.trail.quiet(ctx, b.still()); err != nil {
		return err
	}
	return b.weigh(ctx, fmt.Sprintf("%d idle members", len(memberNames)))
}

// weigh adds a line about the controller's memory.
func (b *bench) weigh(ctx context.Context, when string) error {
	rss, err := b.memory()
	if err != nil {
		return err
	}
	m, err := b.metrics(ctx)
	if err != nil {
		return err
	}
	b.report.Memory = append(b.report.Memory, weight{When: when, RSS: rss, Heap: m.sum("go_memstats_heap_inuse_bytes") / (1 << 20), Goroutines: m.sum("go_goroutines")})
	return nil
}

// many pushes many MiniClusters at once, and creates as many in a bare loop, in turns. The first turn, a
// small one, warms everything up and does not count. The MiniClusters of the last one stay.
func (b *bench) many(ctx context.Context) (m manyRuns, err error) {
	for i := range b.options.runs + 1 {
		n := b.options.n
		if i == 0 {
			if b.hasty {
				continue
			}
			n = min(n, 20)
		}
		floor, err := b.oneFloor(ctx, n, createBare)
		if err != nil {
			return m, fmt.Errorf("the bare loop: %w", err)
		}
		push, err := b.onePush(ctx, n, i > 0)
		if err != nil {
			return m, fmt.Errorf("%d MiniClusters: %w", n, err)
		}
		if b.pattern == nil {
			if b.pattern, err = b.likeThose(ctx); err != nil {
				return m, err
			}
		}
		if i < b.options.runs {
			if err := b.removeFleet(ctx); err != nil {
				return m, err
			}
		}
		same, err := b.oneFloor(ctx, n, b.pattern.create)
		if err != nil {
			return m, fmt.Errorf("the bare loop with the same requests: %w", err)
		}
		b.say("%d MiniClusters: %s, released after %s; in a bare loop: %s; with the same requests: %s", n,
			milliseconds(push.created), milliseconds(push.released), milliseconds(floor.created), milliseconds(same.created))
		if i > 0 {
			m.floors, m.pushes, m.same = append(m.floors, floor), append(m.pushes, push), append(m.same, same)
		}
	}
	b.standingN = b.options.n
	m.report(b.report, b.options.n, b.membersText(), b.options.jobsRun)
	return m, b.weigh(ctx, fmt.Sprintf("%d MiniClusters", b.options.n))
}

// timed runs something while the Job controllers are paused, so that only what is measured and the API
// servers share the cores.
func (b *bench) timed(do func() error) error {
	if b.options.jobsRun {
		return do()
	}
	if err := b.onJobControllers((*lab.Process).Pause); err != nil {
		return err
	}
	return errors.Join(do(), b.onJobControllers((*lab.Process).Resume))
}

// oneFloor creates n MiniClusters in a bare loop, and removes them.
func (b *bench) oneFloor(ctx context.Context, n int, create func(context.Context, target, *render.Bundle) error) (manyRun, error) {
	before, err := b.cpu()
	if err != nil {
		return manyRun{}, err
	}
	var run manyRun
	err = b.timed(func() error {
		var err error
		if run.created, err = b.bareLoop(ctx, n, create); err != nil {
			return err
		}
		run.released = run.created // nothing has to be released
		if _, err := b.trail.quiet(ctx, b.still()); err != nil {
			return err
		}
		after, err := b.cpu()
		run.cpu = cpuBetween(before, after)
		return err
	})
	if err != nil {
		return manyRun{}, err
	}
	if err := b.clearFloor(ctx); err != nil {
		return manyRun{}, err
	}
	if err := b.hub.DeleteAllOf(ctx, &v1alpha1.FleetMiniCluster{}, client.InNamespace(floorNamespace)); err != nil {
		return manyRun{}, err
	}
	_, err = b.trail.quiet(ctx, b.still())
	return run, err
}

// onePush pushes n MiniClusters at once and times them from then on.
func (b *bench) onePush(ctx context.Context, n int, counts bool) (manyRun, error) {
	r, err := b.declare(ctx, b.nextName("r"), n)
	if err != nil {
		return manyRun{}, err
	}
	reconciles, err := b.metrics(ctx)
	if err != nil {
		return manyRun{}, err
	}
	before, err := b.cpu()
	if err != nil {
		return manyRun{}, err
	}
	var run manyRun
	var events, rest []event
	var start time.Time
	err = b.timed(func() (err error) {
		saved := func() error { return nil }
		if b.options.profiles != "" && b.tookEach > 0 {
			saved = b.profile(ctx, fmt.Sprintf("many-%d", n), b.tookEach*time.Duration(n))
		}
		defer func() { err = errors.Join(err, saved()) }()
		start = time.Now()
		if err := r.fetch(ctx); err != nil {
			return err
		}
		events, err = b.trail.until(ctx, "the Jobs", func(all []event) bool { return len(jobs(all)) >= n })
		if err != nil {
			return err
		}
		if rest, err = b.trail.quiet(ctx, b.still()); err != nil {
			return err
		}
		after, err := b.cpu()
		run.cpu = cpuBetween(before, after)
		return err
	})
	if err != nil {
		return manyRun{}, err
	}
	for _, e := range jobs(events) {
		run.created = max(run.created, e.Answered.Sub(start))
	}
	b.tookEach = run.created / time.Duration(n)
	run.released = max(run.created, lastRelease(append(events, rest...)).Sub(start))
	more, err := b.trail.quiet(ctx, max(waiting, b.still()))
	if err != nil {
		return manyRun{}, err
	}
	rest = append(rest, more...)
	after, err := b.metrics(ctx)
	if err != nil {
		return manyRun{}, err
	}
	run.requests = requestsBySide(append(events, rest...), n)
	if counts {
		b.report.tally(n, b.options.jobsRun, events, rest)
		b.report.stages(fmt.Sprintf("%d at once%s", n, jobControllers(b.options.jobsRun)), start, append(events, rest...))
		b.report.Reconciliations = append(b.report.Reconciliations, (after.sum(reconcileTotal, ofFleet)-reconciles.sum(reconcileTotal, ofFleet))/float64(n))
	}
	return run, nil
}

// nextName is a name that nothing has had in this fleet.
func (f *fleet) nextName(of string) string {
	f.serial++
	return fmt.Sprintf("%s%d", of, f.serial-1)
}

// stand makes sure that n MiniClusters, and no others, have their Jobs, and run where members have nodes.
func (b *bench) stand(ctx context.Context, n int) error {
	if b.standing != nil && b.standingN == n {
		return nil
	}
	if b.standing != nil {
		if err := b.removeFleet(ctx); err != nil {
			return err
		}
	}
	b.options.n = n
	if _, err := b.onePush(ctx, n, false); err != nil {
		return err
	}
	b.standingN = n
	if !b.nodes {
		return nil
	}
	err := b.eventually(ctx, "all MiniClusters to run", func(ctx context.Context) (bool, error) {
		var list v1alpha1.FleetMiniClusterList
		if err := b.hub.List(ctx, &list, client.InNamespace(fleetNamespace)); err != nil {
			return false, err
		}
		for i := range list.Items {
			if list.Items[i].Status.State != v1alpha1.StateRunning {
				return false, wait.Pause(ctx, time.Second)
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	_, err = b.trail.quiet(ctx, 4*b.still())
	return err
}

// declare pushes n MiniClusters to a new repository, and does not yet tell the hub.
func (b *bench) declare(ctx context.Context, name string, n int) (*repository, error) {
	r, err := b.newRepository(ctx, name)
	if err != nil {
		return nil, err
	}
	b.standing = r
	files := map[string]string{}
	for i := range n {
		mc := fmt.Sprintf("%s-%04d", name, i)
		files[mc+".yaml"] = fmt.Sprintf(workload.Manifest, mc)
		if b.nodes {
			files[mc+".yaml"] = steered(mc, placementName, forever)
		}
	}
	if err := r.push(ctx, files); err != nil {
		return nil, err
	}
	_, err = b.trail.quiet(ctx, b.still())
	return r, err
}

const (
	reconcileTotal = "controller_runtime_reconcile_total"
	ofFleet        = `controller="fleetminicluster"`
	ofSource       = `controller="gitsource"`
)

// jobs are the events in which the controller has created a Job.
func jobs(events []event) []event {
	var out []event
	for i := range events {
		if events[i].minifleet() && events[i].created("jobs") {
			out = append(out, events[i])
		}
	}
	return out
}

// lastRelease is when the last Job was changed that the controller has created suspended; zero where there is none.
func lastRelease(events []event) time.Time {
	var last time.Time
	for i := range events {
		e := &events[i]
		change := e.Verb == "patch" || e.Verb == "update"
		if e.minifleet() && change && e.Object != nil && e.Object.Resource == "jobs" && e.Object.Subresource == "" && e.Response.Code < 300 {
			last = latest(last, e.Answered)
		}
	}
	return last
}

// removeFleet deletes the GitSource and all MiniClusters, and waits until none is left.
func (b *bench) removeFleet(ctx context.Context) error {
	if err := b.hub.DeleteAllOf(ctx, &v1alpha1.GitSource{}, client.InNamespace(fleetNamespace)); err != nil {
		return err
	}
	b.standing, b.standingN = nil, 0
	asked := false
	err := b.eventually(ctx, "the MiniClusters to be deleted", func(ctx context.Context) (bool, error) {
		if !asked { // of a thousand, an API server does not delete all in the minute that it gives a request
			err := b.hub.DeleteAllOf(ctx, &v1alpha1.FleetMiniCluster{}, client.InNamespace(fleetNamespace))
			if asked = !apierrors.IsTimeout(err); asked && err != nil {
				return false, err
			}
		}
		var left v1alpha1.FleetMiniClusterList
		err := b.hub.List(ctx, &left, client.InNamespace(fleetNamespace), client.Limit(1))
		return len(left.Items) == 0, err
	})
	if err != nil {
		return err
	}
	_, err = b.trail.quiet(ctx, b.still())
	return err
}

// single pushes one MiniCluster at a time, tells the hub by an annotation, and does the same with the fewest requests.
func (b *bench) single(ctx context.Context) error {
	return b.oneByOne(ctx, "single", "push to its Job created", b.standing.fetch)
}

// webhook does the same, and tells the hub as a forge does.
func (b *bench) webhook(ctx context.Context) error {
	call, err := b.standing.hook(ctx)
	if err != nil {
		return err
	}
	return b.oneByOne(ctx, "webhook", "push to its Job created, by a webhook", call)
}

// oneByOne pushes one MiniCluster at a time, has the hub told, and does the same with the fewest requests.
func (b *bench) oneByOne(ctx context.Context, row, what string, tell func(context.Context) error) error {
	bare, err := cloneBare(ctx, b.git.URL(b.standing.name))
	if err != nil {
		return err
	}
	var floors, pushes []time.Duration
	for i := range b.options.singles + 1 {
		name := b.nextName(row + "-")
		push, events, err := b.pushOne(ctx, name, tell)
		if err != nil {
			return err
		}
		floor, err := b.applyBare(ctx, bare, name, memberNames[i%len(memberNames)])
		if err != nil {
			return err
		}
		if i == 0 {
			continue // everybody's first
		}
		floors, pushes = append(floors, floor), append(pushes, push.took)
		b.report.stages(row, push.start, events)
	}
	b.say("%s: %s; the floor: %s", row, milliseconds(quantile(0.5)(pushes)), milliseconds(quantile(0.5)(floors)))
	what = fmt.Sprintf("one MiniCluster beside %d, %s", b.options.n, what)
	b.report.row(what, "p50", pushes, "fetch, diff, 5 writes", floors, quantile(0.5))
	b.report.row(what, p99Of(len(pushes)), pushes, "fetch, diff, 5 writes", floors, quantile(0.99))
	return b.clearFloor(ctx)
}

// push is when the hub was told of a MiniCluster, and how long after that its Job was there.
type push struct {
	start time.Time
	took  time.Duration
}

// pushOne pushes one MiniCluster, has the hub told, and waits until all is quiet. It returns the events until its Job.
func (b *bench) pushOne(ctx context.Context, name string, tell func(context.Context) error) (push, []event, error) {
	if err := b.standing.push(ctx, map[string]string{name + ".yaml": fmt.Sprintf(workload.Manifest, name)}); err != nil {
		return push{}, nil, err
	}
	if _, err := b.trail.quiet(ctx, b.still()/4); err != nil {
		return push{}, nil, err
	}
	start := time.Now()
	if err := tell(ctx); err != nil {
		return push{}, nil, err
	}
	events, err := b.trail.until(ctx, "the Job of "+name, func(all []event) bool { return len(jobs(all)) > 0 })
	if err != nil {
		return push{}, nil, err
	}
	_, err = b.trail.quiet(ctx, b.still()/4)
	return push{start, jobs(events)[0].Answered.Sub(start)}, events, err
}

// idle makes the hub fetch a repository in which nothing has changed.
func (b *bench) idle(ctx context.Context) error {
	if _, err := b.trail.quiet(ctx, b.still()); err != nil {
		return err
	}
	const seconds = "controller_runtime_reconcile_time_seconds_sum"
	var floors, fetches []time.Duration
	var members, writes, gitRequests []float64
	for range max(b.options.runs, 5) {
		before, err := b.metrics(ctx)
		if err != nil {
			return err
		}
		b.git.ResetRequests()
		if err := b.standing.fetch(ctx); err != nil {
			return err
		}
		events, err := b.trail.quiet(ctx, b.still())
		if err != nil {
			return err
		}
		after, err := b.metrics(ctx)
		if err != nil {
			return err
		}
		if n := after.sum(reconcileTotal, ofSource) - before.sum(reconcileTotal, ofSource); n != 1 {
			return fmt.Errorf("the source was reconciled %g times", n)
		}
		toMembers, toHub := idleRequests(events)
		members, writes = append(members, toMembers), append(writes, toHub)
		gitRequests = append(gitRequests, float64(len(b.git.Requests())))
		fetches = append(fetches, time.Duration((after.sum(seconds, ofSource)-before.sum(seconds, ofSource))*float64(time.Second)))
		floor, err := listRefs(ctx, b.git.URL(b.standing.name))
		if err != nil {
			return err
		}
		floors = append(floors, floor)
	}
	b.report.row(fmt.Sprintf("a fetch that finds nothing new, %d MiniClusters", b.options.n), "p50", fetches, "one ls-remote", floors, quantile(0.5))
	b.report.count("requests to members in such a fetch", members)
	b.report.count("writes to the hub in such a fetch", writes)
	b.report.count("requests to Git in such a fetch", gitRequests)
	return nil
}

func idleRequests(events []event) (members, writes float64) {
	for i := range events {
		e := &events[i]
		switch {
		case !e.minifleet():
		case e.cluster != hubName:
			members++
		case e.Write():
			writes++
		}
	}
	return members, writes
}

// restart ends the controller and starts it again.
func (b *bench) restart(ctx context.Context) error {
	var floors, restarts []time.Duration
	var writes, reconciliations []float64
	for range b.options.runs {
		if err := b.controller.Stop(); err != nil {
			return err
		}
		if _, err := b.trail.quiet(ctx, b.still()/2); err != nil {
			return err
		}
		floor, err := b.listCaches(ctx)
		if err != nil {
			return err
		}
		if _, err := b.trail.read(); err != nil {
			return err
		}
		start := time.Now()
		if err := b.controller.Start(); err != nil {
			return err
		}
		took, n, err := b.allReconciled(ctx, start)
		if err != nil {
			return err
		}
		reconciliations = append(reconciliations, n)
		events, err := b.trail.quiet(ctx, b.still())
		if err != nil {
			return err
		}
		b.report.stages("restart", start, events)
		sent := 0.0
		for i := range events {
			if events[i].minifleet() && events[i].Write() {
				sent++
				b.report.RestartWrites[events[i].side()+": "+events[i].what()]++
			}
		}
		b.say("restart: %s, %g writes", milliseconds(took), sent)
		floors, restarts, writes = append(floors, floor), append(restarts, took), append(writes, sent)
	}
	b.report.row(fmt.Sprintf("restart with %d MiniClusters, to the last of them reconciled", b.options.n), "p50", restarts, "LIST of all caches at once", floors, quantile(0.5))
	b.report.count("writes in a restart", writes)
	var fleet v1alpha1.FleetMiniClusterList
	if err := b.hub.List(ctx, &fleet); err != nil {
		return err
	}
	b.report.count(fmt.Sprintf("reconciliations of %d MiniClusters in a restart", len(fleet.Items)), reconciliations)
	return b.weigh(ctx, fmt.Sprintf("%d MiniClusters, after a restart", b.options.n))
}

// allReconciled returns when, after start, the last MiniCluster was reconciled: when the controller's count of
// reconciliations last changed before it stood still, with nothing waiting. It returns that count, too.
func (b *bench) allReconciled(ctx context.Context, start time.Time) (took time.Duration, reconciliations float64, err error) {
	changed := start
	err = b.eventually(ctx, "the controller to have reconciled everything", func(ctx context.Context) (bool, error) {
		m, err := b.metrics(ctx)
		if err != nil {
			return false, nil //nolint:nilerr // it does not answer yet
		}
		if now := m.sum(reconcileTotal, ofFleet); now != reconciliations {
			reconciliations, changed = now, time.Now()
		}
		waiting := m.sum("workqueue_depth", `controller="fleetminicluster"`) + m.sum("controller_runtime_active_workers", ofFleet)
		return reconciliations >= float64(b.options.n) && waiting == 0 && time.Since(changed) > b.still(), nil
	})
	return changed.Sub(start), reconciliations, err
}
