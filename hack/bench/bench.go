package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// still is how long nobody writes before something counts as over.
const still = 2 * time.Second

// bench measures, and fills the report.
type bench struct {
	*fleet
	report *report
	// standing is the repository of the MiniClusters that are there after the last of the large runs.
	standing *repository
}

func (b *bench) all(ctx context.Context) error {
	if err := b.members(ctx); err != nil {
		return err
	}
	if err := b.many(ctx); err != nil {
		return err
	}
	for _, row := range []struct {
		name    string
		measure func(context.Context) error
	}{{"single", b.single}, {"idle", b.idle}, {"restart", b.restart}} {
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
	if _, err := b.trail.quiet(ctx, still); err != nil {
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
// small one, warms everything up and does not count.
func (b *bench) many(ctx context.Context) error {
	var floors, pushes []time.Duration
	for i := range b.options.runs + 1 {
		n := b.options.n
		if i == 0 {
			n = min(n, 20)
		}
		floor, err := b.oneFloor(ctx, n, i > 0)
		if err != nil {
			return fmt.Errorf("the bare loop: %w", err)
		}
		push, err := b.onePush(ctx, fmt.Sprintf("r%d", i), n, i > 0)
		if err != nil {
			return fmt.Errorf("%d MiniClusters: %w", n, err)
		}
		b.say("%d MiniClusters: %s; in a bare loop: %s", n, milliseconds(push), milliseconds(floor))
		if i > 0 {
			floors, pushes = append(floors, floor), append(pushes, push)
		}
		if i < b.options.runs {
			if err := b.removeFleet(ctx); err != nil {
				return err
			}
		}
	}
	b.report.row(fmt.Sprintf("%d MiniClusters onto %d members, push to the last Job created", b.options.n, len(memberNames)),
		"p50", pushes, "bare create loop", floors, quantile(0.5))
	return b.weigh(ctx, fmt.Sprintf("%d MiniClusters", b.options.n))
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

func (b *bench) oneFloor(ctx context.Context, n int, counts bool) (time.Duration, error) {
	before, err := b.cpu()
	if err != nil {
		return 0, err
	}
	var took time.Duration
	err = b.timed(func() error {
		var err error
		if took, err = b.createBare(ctx, n); err != nil || !counts {
			return err
		}
		after, err := b.cpu()
		b.report.cpuTime("bare create loop", before, after)
		return err
	})
	if err != nil {
		return 0, err
	}
	if _, err := b.trail.quiet(ctx, still); err != nil {
		return 0, err
	}
	if err := b.clearFloor(ctx); err != nil {
		return 0, err
	}
	_, err = b.trail.quiet(ctx, still)
	return took, err
}

// onePush pushes n MiniClusters at once and returns the time from then to the last Job.
func (b *bench) onePush(ctx context.Context, name string, n int, counts bool) (time.Duration, error) {
	r, err := b.declare(ctx, name, n)
	if err != nil {
		return 0, err
	}
	reconciles, err := b.metrics(ctx)
	if err != nil {
		return 0, err
	}
	before, err := b.cpu()
	if err != nil {
		return 0, err
	}
	var events []event
	var start time.Time
	err = b.timed(func() error {
		start = time.Now()
		if err := r.fetch(ctx); err != nil {
			return err
		}
		events, err = b.trail.until(ctx, "the Jobs", func(all []event) bool { return len(jobs(all)) >= n })
		if err != nil || !counts {
			return err
		}
		after, err := b.cpu()
		b.report.cpuTime("minifleet", before, after)
		return err
	})
	if err != nil {
		return 0, err
	}
	last := start
	for _, e := range jobs(events) {
		if e.Answered.After(last) {
			last = e.Answered
		}
	}
	rest, err := b.trail.quiet(ctx, still)
	if err != nil {
		return 0, err
	}
	after, err := b.metrics(ctx)
	if err != nil {
		return 0, err
	}
	if counts {
		b.report.tally(n, events, rest)
		b.report.stages("many", start, append(events, rest...))
		b.report.Reconciliations = append(b.report.Reconciliations, (after.sum(reconcileTotal, ofFleet)-reconciles.sum(reconcileTotal, ofFleet))/float64(n))
	}
	return last.Sub(start), nil
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
		files[mc+".yaml"] = fmt.Sprintf(manifest, mc)
	}
	if err := r.push(ctx, files); err != nil {
		return nil, err
	}
	_, err = b.trail.quiet(ctx, still)
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

// removeFleet deletes the GitSource and all MiniClusters, and waits until none is left.
func (b *bench) removeFleet(ctx context.Context) error {
	if err := b.hub.DeleteAllOf(ctx, &v1alpha1.GitSource{}, client.InNamespace(fleetNamespace)); err != nil {
		return err
	}
	if err := b.hub.DeleteAllOf(ctx, &v1alpha1.FleetMiniCluster{}, client.InNamespace(fleetNamespace)); err != nil {
		return err
	}
	err := b.eventually(ctx, "the MiniClusters to be deleted", func(ctx context.Context) (bool, error) {
		var left v1alpha1.FleetMiniClusterList
		err := b.hub.List(ctx, &left, client.InNamespace(fleetNamespace), client.Limit(1))
		return len(left.Items) == 0, err
	})
	if err != nil {
		return err
	}
	_, err = b.trail.quiet(ctx, still)
	return err
}

// single pushes one MiniCluster at a time, and does the same with the fewest requests.
func (b *bench) single(ctx context.Context) error {
	bare, err := cloneBare(ctx, filepath.Join(b.dir, "bare.git"), b.git.URL(b.standing.name))
	if err != nil {
		return err
	}
	var floors, pushes []time.Duration
	for i := range b.options.singles + 1 {
		name := fmt.Sprintf("single-%03d", i)
		if err := b.standing.push(ctx, map[string]string{name + ".yaml": fmt.Sprintf(manifest, name)}); err != nil {
			return err
		}
		if _, err := b.trail.quiet(ctx, still/4); err != nil {
			return err
		}
		start := time.Now()
		if err := b.standing.fetch(ctx); err != nil {
			return err
		}
		events, err := b.trail.until(ctx, "the Job of "+name, func(all []event) bool { return len(jobs(all)) > 0 })
		if err != nil {
			return err
		}
		push := jobs(events)[0].Answered.Sub(start)
		if _, err := b.trail.quiet(ctx, still/4); err != nil {
			return err
		}
		floor, err := b.applyBare(ctx, bare, name, memberNames[i%len(memberNames)])
		if err != nil {
			return err
		}
		if i == 0 {
			continue // everybody's first
		}
		floors, pushes = append(floors, floor), append(pushes, push)
		b.report.stages("single", start, events)
	}
	b.say("single MiniClusters: %s; the floor: %s", milliseconds(quantile(0.5)(pushes)), milliseconds(quantile(0.5)(floors)))
	what := fmt.Sprintf("one MiniCluster beside %d, push to its Job created", b.options.n)
	b.report.row(what, "p50", pushes, "fetch, diff, 5 writes", floors, quantile(0.5))
	b.report.row(what, "p99", pushes, "fetch, diff, 5 writes", floors, quantile(0.99))
	return b.clearFloor(ctx)
}

// idle makes the hub fetch a repository in which nothing has changed.
func (b *bench) idle(ctx context.Context) error {
	if _, err := b.trail.quiet(ctx, still); err != nil {
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
		events, err := b.trail.quiet(ctx, still)
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
		if _, err := b.trail.quiet(ctx, still/2); err != nil {
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
		events, err := b.trail.quiet(ctx, still)
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
		return reconciliations >= float64(b.options.n) && waiting == 0 && time.Since(changed) > still, nil
	})
	return changed.Sub(start), reconciliations, err
}
