package main

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/bench/record"
	"github.com/minifleet/minifleet/hack/bench/wait"
)

// weighIn adds a line about the controller's memory once it has collected garbage, or at once in the short form.
func (b *bench) weighIn(ctx context.Context, short bool, when string) error {
	if !short {
		return b.weighLive(ctx, when)
	}
	if err := b.weigh(ctx, when); err != nil {
		return err
	}
	last := &b.report.Memory[len(b.report.Memory)-1]
	last.Live = last.Heap
	return nil
}

// restarts measures restarts with MiniClusters on many members.
func restarts(ctx context.Context, s *session, o options) error {
	b, err := s.spread(ctx, o, o.members[0], true, false)
	if err != nil {
		return err
	}
	if err := b.stand(ctx, o.n); err != nil {
		return err
	}
	return b.restart(ctx)
}

// thousands measures what idle members hold, and restarts with the most of them.
func thousands(ctx context.Context, s *session, o options) error {
	b, err := s.spread(ctx, o, o.members[0], true, false)
	if err != nil {
		return err
	}
	if err := b.weighIn(ctx, s.short, fmt.Sprintf("%d idle members that are namespaces", len(b.confined))); err != nil {
		return err
	}
	connection, err := b.bareConnections(ctx, o.doubles)
	if err != nil {
		return err
	}
	floor, err := b.bareCaches(ctx, o.doubles)
	if err != nil {
		return err
	}
	for _, n := range o.members[1:] {
		before, from := b.lastWeight(), len(b.confined)
		began := time.Now()
		if err := b.registerConfined(ctx, n, nil); err != nil {
			return err
		}
		b.say("%d members are connected, %d of them after %s", n, n-from, time.Since(began).Round(time.Second))
		if _, err := b.trail.quiet(ctx, 4*b.still()); err != nil {
			return err
		}
		if err := b.weighIn(ctx, s.short, fmt.Sprintf("%d idle members that are namespaces", n)); err != nil {
			return err
		}
		after := b.lastWeight()
		each := func(more float64) float64 { return more / float64(n-from) }
		at := fmt.Sprintf(" of one idle member, from %d to %d", from, n)
		const bare = "a bare cache of the same kinds"
		if s.short {
			s.skip("memory, for which the controller has to collect garbage first")
		} else {
			s.report.figure("RSS"+at, "MiB", each(after.RSS-before.RSS), bare, floor.RSS)
			s.report.figure("live memory"+at, "MiB", each(after.Live-before.Live), bare, floor.Live)
		}
		goroutines := each(after.Goroutines - before.Goroutines)
		s.report.figure("goroutines"+at, "", goroutines, bare, floor.Goroutines)
		s.report.Rows = append(s.report.Rows, figureOf("goroutines beyond those of a connection with its watches,"+at, []float64{goroutines - connection}))
	}
	if err := b.stand(ctx, o.n); err != nil {
		return err
	}
	if err := b.restart(ctx); err != nil {
		return err
	}
	if err := b.weighIn(ctx, s.short, fmt.Sprintf("%d members and %d MiniClusters, after a restart", len(b.confined), o.n)); err != nil {
		return err
	}
	return b.shard(ctx, s.short)
}

// shard measures what one of two shards holds that have half of the members each, beside one process that has all.
func (b *bench) shard(ctx context.Context, short bool) error {
	if err := b.removeFleet(ctx); err != nil {
		return err
	}
	all, own := len(b.confined), (len(b.confined)+1)/2
	if err := b.restartController(ctx, all); err != nil {
		return err
	}
	if err := b.weighIn(ctx, short, fmt.Sprintf("%d idle members, one process", all)); err != nil {
		return err
	}
	whole := b.lastWeight()
	const key = "half"
	if err := b.relabel(ctx, own, key); err != nil {
		return err
	}
	args := b.controller.Args
	defer func() { b.controller.Args = args }()
	b.controller.Args = append(args[:len(args):len(args)], "--shard", key)
	for range 2 { // the first writes to each member that it is the shard's now, and holds what writing takes
		if err := b.restartController(ctx, own); err != nil {
			return err
		}
	}
	if err := b.weighIn(ctx, short, fmt.Sprintf("%d idle members, a shard with %d of them", all, own)); err != nil {
		return err
	}
	part := b.lastWeight()
	const floor = "one process with all"
	what := fmt.Sprintf(" of a shard with %d of %d idle members", own, all)
	b.report.figure("live memory"+what, "MiB", part.Live, floor, whole.Live)
	b.report.figure("RSS"+what, "MiB", part.RSS, floor, whole.RSS)
	b.report.figure("goroutines"+what, "", part.Goroutines, floor, whole.Goroutines)
	return nil
}

// relabel gives n members to a shard, every second one. A member is drained before.
func (b *bench) relabel(ctx context.Context, n int, shard string) error {
	patch := func(format string, args ...any) error {
		change := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))
		return many(n, func(i int) error {
			return b.hub.Patch(ctx, &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: b.confined[2*i].name}}, change)
		})
	}
	if err := patch(`{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.AnnotationDrain); err != nil {
		return err
	}
	err := b.eventually(ctx, "the members to be drained", func(ctx context.Context) (bool, error) {
		var list v1alpha1.MemberClusterList
		err := b.hub.List(ctx, &list)
		drained := 0
		for i := range list.Items {
			if meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, v1alpha1.ConditionDrained) {
				drained++
			}
		}
		return drained == n, err
	})
	if err != nil {
		return err
	}
	return patch(`{"metadata":{"annotations":{%q:null},"labels":{%q:%q}}}`, v1alpha1.AnnotationDrain, v1alpha1.LabelShard, shard)
}

// figureOf is a figure without a unit and a floor: the largest of some values.
func figureOf(what string, values []float64) record.Figure {
	most := values[0]
	for _, v := range values {
		most = max(most, v)
	}
	return record.Figure{What: what, Statistic: "most", Value: most, Values: values}
}

// watchedPaths are what is watched of a member whose capacity is observed.
var watchedPaths = []string{
	"/apis/batch/v1/jobs", "/api/v1/configmaps", "/api/v1/secrets", "/api/v1/services", "/api/v1/pods?labelSelector=a", "/api/v1/nodes", "/api/v1/pods",
}

// bareConnections is how many goroutines of this process a connection takes on which all kinds are watched, when nobody reads
// what comes.
func (f *fleet) bareConnections(outer context.Context, n int) (float64, error) {
	ctx, stop := context.WithCancel(outer)
	defer stop()
	// What has just ended is not counted.
	if err := wait.Pause(ctx, 2*f.still()); err != nil {
		return 0, err
	}
	before := runtime.NumGoroutine()
	for range n {
		cfg, err := f.lab.Cluster(observed).RESTConfig()
		if err != nil {
			return 0, err
		}
		cfg.Dial = dialer()
		client, err := rest.HTTPClientFor(cfg)
		if err != nil {
			return 0, err
		}
		defer client.CloseIdleConnections()
		for _, path := range watchedPaths {
			if err := openWatch(ctx, client, cfg.Host+path); err != nil {
				return 0, err
			}
		}
	}
	if err := wait.Pause(ctx, f.still()/2); err != nil {
		return 0, err
	}
	more := float64(runtime.NumGoroutine()-before) / float64(n)
	stop()
	return more, wait.Pause(outer, 2*f.still()) // until they have ended, which are no part of what is measured next
}

// openWatch opens a watch that nobody reads, until the context ends.
func openWatch(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	query := request.URL.Query()
	query.Set("watch", "true")
	request.URL.RawQuery = query.Encode()
	response, err := client.Do(request) //nolint:bodyclose // it is closed by the end of the context
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}
