package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

const (
	// hungBlocks is how often a member hangs, and how often it does not beside that, in turns.
	hungBlocks = 2
	// everywhereShare is of how many pushes for one member there is one for all of them.
	everywhereShare = 10
)

// hungOfMany measures pushes for the others while one of many members hangs, in turns with the same while it does not.
func hungOfMany(ctx context.Context, s *session, o options) error {
	b, err := s.spread(ctx, o, o.members[0], true, true)
	if err != nil {
		return err
	}
	if b.standing, err = b.newRepository(ctx, b.nextName("hung")); err != nil {
		return err
	}
	tell, err := b.standing.hook(ctx)
	if err != nil {
		return err
	}
	calm, hanging := pushes{}, pushes{}
	if err := b.blockOf(ctx, tell, 2, pushes{}); err != nil { // everything is warm afterwards
		return err
	}
	for range hungBlocks {
		if err := b.blockOf(ctx, tell, o.singles, calm); err != nil {
			return err
		}
		if err := b.proxy.SetMode(lab.Hang); err != nil {
			return err
		}
		b.say("%s hangs", b.confined[0].name)
		if err := b.blockOf(ctx, tell, o.singles, hanging); err != nil {
			return err
		}
		if err := b.proxy.SetMode(lab.Forward); err != nil {
			return err
		}
		if err := b.connected(ctx, len(b.confined)); err != nil {
			return err
		}
		if _, err := b.trail.quiet(ctx, 2*b.still()); err != nil {
			return err
		}
	}
	for _, of := range []struct{ placement, what string }{
		{othersName, "one MiniCluster for one of the others"}, {everywhereName, "one MiniCluster for all, its Jobs on the others"},
	} {
		what := fmt.Sprintf("one of %d members hangs: %s, by a webhook", len(b.confined), of.what)
		for _, q := range []struct {
			name  string
			share float64
		}{{"p50", 0.5}, {p99Of(len(hanging[of.placement])), 0.99}} {
			s.report.row(what, q.name, hanging[of.placement], "while it does not", calm[of.placement], quantile(q.share))
		}
	}
	return nil
}

// withFragile registers confined members, the first of which can hang, and Placements without and with it.
func (b *bench) withFragile(ctx context.Context, n int) error {
	var err error
	if b.proxy, err = lab.NewProxy(b.lab.Cluster(memberNames[0]).Address()); err != nil {
		return err
	}
	err = b.registerConfined(ctx, n, func(c confined) ([]byte, error) {
		kubeconfig := b.lab.Cluster(c.cluster).Kubeconfig()
		if c != b.confined[0] {
			return kubeconfig, nil
		}
		return lab.WithServer(kubeconfig, b.proxy.Address())
	})
	if err != nil {
		return err
	}
	return b.hungPlacements(ctx, b.confined[0].name)
}

// hungPlacements makes the Placements for one of the others, and for all.
func (b *bench) hungPlacements(ctx context.Context, fragile string) error {
	one := int32(1)
	return b.create(ctx,
		&v1alpha1.Placement{
			ObjectMeta: metav1.ObjectMeta{Namespace: fleetNamespace, Name: othersName},
			Spec:       v1alpha1.PlacementSpec{NumberOfClusters: &one, ExcludeClusterNames: []string{fragile}},
		},
		&v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: fleetNamespace, Name: everywhereName}})
}

// blockOf pushes n MiniClusters for one of the others, one after the other, and some for all members among them.
func (b *bench) blockOf(ctx context.Context, tell func(context.Context) error, n int, into pushes) error {
	for i := range n {
		placements := []string{othersName}
		if i%everywhereShare == 0 {
			placements = append(placements, everywhereName)
		}
		for _, placement := range placements {
			took, err := b.pushFor(ctx, tell, b.nextName("h-"), placement)
			if err != nil {
				return err
			}
			into[placement] = append(into[placement], took)
		}
	}
	return nil
}

// pushFor pushes a MiniCluster and returns the time from the webhook to its last Job on members that never hang.
func (b *bench) pushFor(ctx context.Context, tell func(context.Context) error, name, placement string) (time.Duration, error) {
	if err := b.standing.push(ctx, map[string]string{name + ".yaml": steered(name, placement, forever)}); err != nil {
		return 0, err
	}
	if _, err := b.trail.quiet(ctx, b.still()/4); err != nil {
		return 0, err
	}
	want := 1
	if placement == everywhereName {
		want = len(b.confined) - 1
	}
	start := time.Now()
	if err := tell(ctx); err != nil {
		return 0, err
	}
	var last time.Time
	_, err := b.trail.until(ctx, "the Jobs of "+name, func(all []event) bool {
		n := 0
		for _, e := range jobs(all) {
			if e.Object.Namespace != b.confined[0].name {
				n, last = n+1, latest(last, e.Answered)
			}
		}
		return n >= want
	})
	return last.Sub(start), err
}
