package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/bench/wait"
	"github.com/minifleet/minifleet/hack/bench/workload"
	"github.com/minifleet/minifleet/hack/lab"
)

// restingRows are measured in a fleet of its own, whose members have nodes.
const restingRows = "rest,hung,memory"

// The members of a resting fleet: one whose capacity is observed, one whose is not, and one that can hang.
const (
	observed   = "alpine"
	unobserved = "basalt"
	fragile    = "cinder"
)

const (
	othersName     = "others"
	everywhereName = "everywhere"
	// restingMiniClusters is how many there are in a resting fleet where nothing is said.
	restingMiniClusters = 30
	// reconnects is how often a connection is lost and made anew to see what stays behind.
	reconnects = 8
	// hungFor is how long a member goes on hanging between two measurements of what that costs.
	hungFor = 90 * time.Second
	// renewal is after how long every watch of the client library has been renewed.
	renewal = 10 * time.Minute
	// forever is how long, in seconds, what does not end runs.
	forever = 1000000
)

// resting measures a fleet in which nothing happens.
type resting struct {
	*bench
	// sized says that the options say how many MiniClusters there are, half of which have ended.
	sized bool
}

func (b *resting) all(ctx context.Context) error {
	if err := b.setUp(ctx); err != nil {
		return err
	}
	for _, row := range []struct {
		name    string
		measure func(context.Context) error
	}{{"rest", b.rest}, {"hung", b.hung}, {"memory", b.weighMembers}} {
		if !b.options.has(row.name) {
			continue
		}
		if err := row.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
	}
	return nil
}

// setUp registers the members, and has runs end and go on on them.
func (b *resting) setUp(ctx context.Context) error {
	if err := b.weigh(ctx, "at rest: no member"); err != nil {
		return err
	}
	var err error
	if b.proxy, err = lab.NewProxy(b.lab.Cluster(fragile).Address()); err != nil {
		return err
	}
	kubeconfig, err := lab.WithServer(b.lab.Cluster(fragile).Kubeconfig(), b.proxy.Address())
	if err != nil {
		return err
	}
	for name, k := range map[string][]byte{observed: b.lab.Cluster(observed).Kubeconfig(), unobserved: b.lab.Cluster(unobserved).Kubeconfig(), fragile: kubeconfig} {
		capacity := v1alpha1.CapacityObserve
		if name == unobserved {
			capacity = v1alpha1.CapacityNone
		}
		if err := b.registerOne(ctx, name, k, capacity); err != nil {
			return err
		}
	}
	if err := b.connected(ctx, len(memberNames)); err != nil {
		return err
	}
	if err := b.hungPlacements(ctx, fragile); err != nil {
		return err
	}
	return b.populate(ctx)
}

// populate has MiniClusters run, and others end.
func (b *resting) populate(ctx context.Context) error {
	r, err := b.newRepository(ctx, "resting")
	if err != nil {
		return err
	}
	b.standing = r
	if !b.sized {
		b.options.n = restingMiniClusters
	}
	half := b.options.n / 2
	files := map[string]string{}
	for i := range half {
		ends, goesOn := fmt.Sprintf("ends-%02d", i), fmt.Sprintf("goes-on-%02d", i)
		files[ends+".yaml"] = steered(ends, placementName, 1)
		files[goesOn+".yaml"] = steered(goesOn, placementName, forever)
	}
	if err := r.push(ctx, files); err != nil {
		return err
	}
	if err := r.fetch(ctx); err != nil {
		return err
	}
	err = b.eventually(ctx, "half of the runs to end", func(ctx context.Context) (bool, error) {
		var fleet v1alpha1.FleetMiniClusterList
		if err := b.hub.List(ctx, &fleet, client.InNamespace(fleetNamespace)); err != nil {
			return false, err
		}
		ended, running := 0, 0
		for i := range fleet.Items {
			s := &fleet.Items[i].Status
			switch {
			case meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionComplete):
				ended++
			case len(s.Clusters) == 1 && s.Clusters[0].Pods.Ready == 1:
				running++
			}
		}
		return ended == half && running == half, nil
	})
	if err != nil {
		return err
	}
	if _, err := b.trail.quiet(ctx, 4*b.still()); err != nil {
		return err
	}
	b.say("%d runs have ended, %d go on", half, half)
	return b.weigh(ctx, fmt.Sprintf("at rest: %d runs that have ended, %d that go on", half, half))
}

// steered is a MiniCluster whose pod ends after some seconds.
func steered(name, placement string, seconds int) string {
	return fmt.Sprintf(workload.Manifest, fmt.Sprintf("%s\n  labels: {%s: %s}", name, v1alpha1.LabelPlacement, placement)) +
		fmt.Sprintf("  pod:\n    annotations: {%s: %q}\n", lab.AskSeconds, fmt.Sprint(seconds))
}

// rest counts the requests of a fleet in which nothing happens. The floor is one watch for each kind that is
// watched, by the same library.
func (b *resting) rest(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	for _, name := range []string{observed, unobserved} {
		if err := b.watchBare(watching, name, name == observed); err != nil {
			return err
		}
	}
	if _, err := b.trail.quiet(ctx, b.still()); err != nil {
		return err
	}
	b.trail.watches = true
	defer func() { b.trail.watches = false }()
	start := time.Now()
	b.say("counting requests for %s", b.options.idleFor)
	if err := wait.Pause(ctx, b.options.idleFor); err != nil {
		return err
	}
	events, err := b.trail.read()
	if err != nil {
		return err
	}
	perHour := float64(time.Hour) / float64(time.Since(start))
	ours, floor, others := restingRequests(events)
	for _, m := range []struct{ name, what string }{{observed, "its capacity observed"}, {unobserved, "capacity: None"}} {
		against := "one watch for each kind"
		if b.options.idleFor < renewal {
			against = "" // so early no watch has to be renewed
		}
		b.report.figure("requests to a resting member in an hour, "+m.what, "", ours[m.name]*perHour, against, floor[m.name]*perHour)
	}
	b.report.figure("requests to the hub in an hour, of a resting fleet", "", ours[hubName]*perHour, "", 0)
	b.report.count(fmt.Sprintf("kinds of requests of a resting fleet that renew no watch, in %s", b.options.idleFor), []float64{float64(len(others))})
	for what, n := range others {
		b.report.count("  "+what, []float64{n})
	}
	return nil
}

// restingRequests counts the controller's requests, and those of the bare watches, by cluster; others are the
// controller's that are no watches'.
func restingRequests(events []event) (ours, floor, others map[string]float64) {
	ours, floor, others = map[string]float64{}, map[string]float64{}, map[string]float64{}
	for i := range events {
		e := &events[i]
		switch {
		case e.minifleet():
			ours[e.cluster]++
			if e.Verb != "watch" {
				others[e.side()+": "+e.what()]++
			}
		case e.UserAgent == benchAgent && e.Verb == "watch":
			floor[e.cluster]++
		}
	}
	return ours, floor, others
}

// pushes are times by the placement that was pushed for.
type pushes map[string][]time.Duration

// hung measures what goes to other members while one hangs, and before.
func (b *resting) hung(ctx context.Context) error {
	calm, hanging := pushes{}, pushes{}
	if err := b.block(ctx, pushes{}); err != nil { // everything is warm afterwards
		return err
	}
	if err := b.weighLive(ctx, "at rest: before a member hangs"); err != nil {
		return err
	}
	for _, last := range []bool{false, true} {
		if err := b.block(ctx, calm); err != nil {
			return err
		}
		if err := b.whileHung(ctx, hanging, last); err != nil {
			return err
		}
	}
	for _, of := range []struct{ placement, what string }{
		{othersName, "one MiniCluster for the others"}, {everywhereName, "one MiniCluster for all, its Jobs on the others"},
	} {
		b.report.row("while a member hangs: "+of.what, "p50", hanging[of.placement], "without it", calm[of.placement], quantile(0.5))
		b.report.row("while a member hangs: "+of.what, p99Of(len(hanging[of.placement])), hanging[of.placement], "without it", calm[of.placement], quantile(0.99))
	}
	return b.reconnect(ctx)
}

// whileHung has a member hang during a block, and for some minutes more where its memory is to be weighed.
func (b *resting) whileHung(ctx context.Context, into pushes, weigh bool) error {
	if err := b.proxy.SetMode(lab.Hang); err != nil {
		return err
	}
	start := time.Now()
	if err := b.block(ctx, into); err != nil {
		return err
	}
	for i := 0; weigh && i < 2; i++ {
		if err := b.weighLive(ctx, fmt.Sprintf("at rest: a member hung for %.0f s", time.Since(start).Seconds())); err != nil {
			return err
		}
		if err := wait.Pause(ctx, hungFor); err != nil {
			return err
		}
	}
	if err := b.proxy.SetMode(lab.Forward); err != nil {
		return err
	}
	return b.back(ctx)
}

// block pushes MiniClusters one after the other, for the others and for all members in turns.
func (b *resting) block(ctx context.Context, into pushes) error {
	for range b.options.singles {
		for _, placement := range []string{othersName, everywhereName} {
			took, err := b.onOthers(ctx, b.nextName("h-"), placement)
			if err != nil {
				return err
			}
			into[placement] = append(into[placement], took)
		}
	}
	return nil
}

// onOthers pushes a MiniCluster and returns the time to its last Job on the members that do not hang.
func (b *resting) onOthers(ctx context.Context, name, placement string) (time.Duration, error) {
	if err := b.standing.push(ctx, map[string]string{name + ".yaml": steered(name, placement, forever)}); err != nil {
		return 0, err
	}
	if _, err := b.trail.quiet(ctx, b.still()/4); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := b.standing.fetch(ctx); err != nil {
		return 0, err
	}
	want := 1
	if placement == everywhereName {
		want = len(memberNames) - 1
	}
	var last time.Time
	_, err := b.trail.until(ctx, "the Jobs of "+name, func(all []event) bool {
		n := 0
		for _, e := range jobs(all) {
			if e.cluster != fragile {
				n, last = n+1, latest(last, e.Answered)
			}
		}
		return n >= want
	})
	return last.Sub(start), err
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// back waits until all members are connected, and everything is quiet.
func (b *resting) back(ctx context.Context) error {
	if err := b.connected(ctx, len(memberNames)); err != nil {
		return err
	}
	_, err := b.trail.quiet(ctx, 4*b.still())
	return err
}

// reconnect loses and makes a connection again and again.
func (b *resting) reconnect(ctx context.Context) error {
	if err := b.weighLive(ctx, "at rest: after it has hung"); err != nil {
		return err
	}
	for range reconnects {
		if err := b.proxy.SetMode(lab.Refuse); err != nil {
			return err
		}
		err := b.eventually(ctx, "the member to be lost", func(ctx context.Context) (bool, error) {
			var m v1alpha1.MemberCluster
			err := b.hub.Get(ctx, types.NamespacedName{Name: fragile}, &m)
			return !meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady), err
		})
		if err != nil {
			return err
		}
		if err := b.proxy.SetMode(lab.Forward); err != nil {
			return err
		}
		if err := b.back(ctx); err != nil {
			return err
		}
	}
	return b.weighLive(ctx, fmt.Sprintf("at rest: after %d more connections to it", reconnects))
}
