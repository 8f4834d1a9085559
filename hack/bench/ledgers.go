package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

// linesEach is how many runs each MiniCluster of a large hub has in its ledger.
const linesEach = 10

// largeHub measures a hub with many MiniClusters whose runs have ended: a start, memory, and one push beside them. One of them
// was run by the controller, and the others are the bench's own copies of it.
func largeHub(ctx context.Context, s *session, o options) error {
	n := o.n
	o.n = 2 // of the fleet that the copied one is run in
	b, err := s.resting(ctx, o)
	if err != nil {
		return err
	}
	ended, err := b.oneThatHasEnded(ctx)
	if err != nil {
		return err
	}
	if err := b.weighIn(ctx, s.short, "a hub of 2 MiniClusters"); err != nil {
		return err
	}
	before := b.lastWeight()
	if err := b.controller.Stop(); err != nil {
		return err
	}
	if err := b.copies(ctx, ended, n); err != nil {
		return err
	}
	b.options.n = n
	if err := b.firstStart(ctx, n); err != nil {
		return err
	}
	if err := b.weighIn(ctx, s.short, fmt.Sprintf("%d MiniClusters with %d ledger lines", n, n*linesEach)); err != nil {
		return err
	}
	if err := b.heapProfile(ctx, fmt.Sprintf("ledgers-%d", n)); err != nil {
		return err
	}
	floor, err := b.decodedFleet(ctx)
	if err != nil {
		return err
	}
	if s.short {
		s.skip("memory, for which the controller has to collect garbage first")
	} else {
		const kib = 1024
		live := (b.lastWeight().Live - before.Live) * kib / float64(n)
		s.report.figure(fmt.Sprintf("live memory for one of %d MiniClusters with %d ledger lines", n, linesEach), "KiB", live, "the same objects in a list", floor/kib/float64(n))
	}
	if err := b.restart(ctx); err != nil {
		return err
	}
	return b.webhook(ctx)
}

// oneThatHasEnded is a MiniCluster that the controller has run, whose digest is as it is computed here.
func (b *bench) oneThatHasEnded(ctx context.Context) (*v1alpha1.FleetMiniCluster, error) {
	var list v1alpha1.FleetMiniClusterList
	if err := b.hub.List(ctx, &list, client.InNamespace(fleetNamespace)); err != nil {
		return nil, err
	}
	for i := range list.Items {
		f := &list.Items[i]
		if !meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.ConditionComplete) || len(f.Status.Runs) != 1 {
			continue
		}
		if digest := runs.Digest(f.Name, &f.Spec.MiniCluster); digest != f.Status.Runs[0].Digest {
			return nil, fmt.Errorf("the digest of %s is %s, and %s is computed here", f.Name, f.Status.Runs[0].Digest, digest)
		}
		return f, nil
	}
	return nil, errors.New("no MiniCluster has ended with one run")
}

// copies makes n MiniClusters that have ended as one has, with ledgers of linesEach lines.
func (b *bench) copies(ctx context.Context, of *v1alpha1.FleetMiniCluster, n int) error {
	start := time.Now()
	err := many(n, func(i int) error {
		f := &v1alpha1.FleetMiniCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: fleetNamespace, Name: fmt.Sprintf("copy-%05d", i)}, Spec: *of.Spec.DeepCopy(),
		}
		if f.Spec.PlacementRef == nil {
			f.Spec.PlacementRef = &v1alpha1.LocalReference{Name: placementName}
		}
		ttl := int32(0) // nothing is left of the runs on members, as is usual of runs that ended long ago
		f.Spec.TTLSecondsAfterFinished = &ttl
		if err := b.hub.Create(ctx, f); err != nil {
			return err
		}
		f.Status = copiedStatus(of, f.Name, i)
		f.Status.ObservedGeneration = f.Generation
		return b.hub.Status().Update(ctx, f)
	})
	b.say("%d MiniClusters with %d ledger lines are on the hub after %s", n, n*linesEach, time.Since(start).Round(time.Second))
	return err
}

// copiedStatus is the status of a copy: each line of its ledger is a run of the same, an hour after the one before.
func copiedStatus(of *v1alpha1.FleetMiniCluster, name string, i int) v1alpha1.FleetMiniClusterStatus {
	status := *of.Status.DeepCopy()
	latest := status.Runs[0]
	digest := runs.Digest(name, &of.Spec.MiniCluster)
	status.Digest, status.Runs = digest, nil
	if status.Placement != nil {
		status.Placement.Digest = digest
	}
	for k := range linesEach {
		earlier := time.Duration(linesEach-1-k) * time.Hour
		run := *latest.DeepCopy()
		run.ID, run.Digest = runID(i, k), digest
		run.JobUID = types.UID(fmt.Sprintf("%08x-77aa-4a57-9c3e-%012x", k, i))
		for _, at := range []**metav1.Time{&run.StartTime, &run.RunningTime, &run.CompletionTime} {
			if *at != nil {
				moved := metav1.NewTime((*at).Add(-earlier))
				*at = &moved
			}
		}
		status.Runs = append(status.Runs, run)
	}
	for j := range status.Clusters {
		status.Clusters[j].Run = status.Runs[linesEach-1].ID
	}
	return status
}

// firstStart starts the controller with statuses that it has not made. Nothing may run again, and no line may be lost.
func (b *bench) firstStart(ctx context.Context, n int) error {
	if _, err := b.trail.read(); err != nil {
		return err
	}
	start := time.Now()
	if err := b.controller.Start(); err != nil {
		return err
	}
	took, _, err := b.allReconciled(ctx, start)
	if err != nil {
		return err
	}
	events, err := b.trail.quiet(ctx, b.still())
	if err != nil {
		return err
	}
	if again := len(jobs(events)); again > 0 {
		return fmt.Errorf("%d Jobs were created for runs that had ended", again)
	}
	writes := 0.0
	for i := range events {
		if events[i].minifleet() && events[i].Write() {
			writes++
			b.report.FirstWrites[events[i].side()+": "+events[i].what()]++
		}
	}
	b.say("the first start with %d MiniClusters: %s, %g writes", n, milliseconds(took), writes)
	b.report.count("writes in the first start, of statuses that the bench has made", []float64{writes})
	lines := 0
	var list v1alpha1.FleetMiniClusterList
	if err := b.hub.List(ctx, &list, client.InNamespace(fleetNamespace)); err != nil {
		return err
	}
	for i := range list.Items {
		lines += len(list.Items[i].Status.Runs)
	}
	if lines < n*linesEach {
		return fmt.Errorf("%d ledger lines are left of %d", lines, n*linesEach)
	}
	b.report.Rows = append(b.report.Rows, figureOf("ledger lines on the hub", []float64{float64(lines)}))
	return nil
}

// decodedFleet is the live memory that all MiniClusters of the hub take in this process, in bytes.
func (b *bench) decodedFleet(ctx context.Context) (float64, error) {
	before := live()
	var list v1alpha1.FleetMiniClusterList
	if err := b.hub.List(ctx, &list); err != nil {
		return 0, err
	}
	for i := range list.Items {
		list.Items[i].ManagedFields = nil
	}
	list.Items = slices.Clone(list.Items)
	used := live() - before
	runtime.KeepAlive(list.Items)
	return used, nil
}
