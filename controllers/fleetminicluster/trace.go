package fleetminicluster

import (
	"context"
	"strconv"
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/tracing"
)

// traced is what a trace tells of a reconciliation, if that does something on a member.
type traced struct {
	began, read, decided time.Time
	begun                bool
	span                 tracing.Span
}

// origin of the trace that a FleetMiniCluster is in: that of the commit which last changed it.
func traceOf(fmc *v1alpha1.FleetMiniCluster) (origin tracing.Origin, fromGit bool) {
	uid, commit := fmc.Annotations[v1alpha1.AnnotationSourceUID], fmc.Annotations[v1alpha1.AnnotationSourceCommit]
	if uid != "" && commit != "" {
		return tracing.Origin{UID: uid, Version: commit}, true
	}
	return tracing.Origin{UID: string(fmc.UID), Version: strconv.FormatInt(fmc.Generation, 10)}, false
}

// trace begins the span of a reconciliation that is about to do something, with what came before. The context that it returns is
// for what is done.
func (c *reconciliation) trace(ctx context.Context) context.Context {
	if c.traced.begun {
		return c.traced.span.Context(ctx)
	}
	fmc := c.snapshot.Object
	begin := tracing.Own
	origin, fromGit := traceOf(fmc)
	if fromGit {
		begin = tracing.Follow
	}
	ctx, c.traced.span = begin(ctx, origin, "reconcile FleetMiniCluster", c.traced.began,
		tracing.Text("k8s.namespace.name", fmc.Namespace), tracing.Text("minifleet.fleetminicluster", fmc.Name))
	c.traced.begun = true
	tracing.Record(ctx, "snapshot", c.traced.began, c.traced.read)
	tracing.Record(ctx, "place", c.traced.read, c.traced.decided)
	return ctx
}

// traceStep begins the span of a step on a member.
func traceStep(ctx context.Context, t *plan.Target) (context.Context, tracing.Span) {
	name := string(t.Step.Action)
	if t.Step.Action == runs.Create {
		name = "create Job"
	}
	return tracing.Start(ctx, name, tracing.Text("minifleet.member", t.Name), tracing.Text("minifleet.reason", t.Step.Reason))
}
