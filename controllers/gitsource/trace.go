package gitsource

import (
	"context"
	"slices"
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/tracing"
)

// reading is when a commit was read; the zero value is of one that was read before.
type reading struct{ began, fetched, parsed time.Time }

// traceCommit begins the trace of a commit that has just been read, with how it was: which commit it is, nobody knew before. A
// commit that is read again is in the trace that it has.
func traceCommit(ctx context.Context, source *v1alpha1.GitSource, t *tree) (context.Context, tracing.Span) {
	times := t.read
	t.read = reading{}
	if times.began.IsZero() {
		return ctx, tracing.Span{}
	}
	begin := tracing.Commit
	if slices.ContainsFunc(source.Status.Commits, func(c v1alpha1.Commit) bool { return c.Hash == t.commit }) {
		begin = tracing.Follow
	}
	ctx, span := begin(ctx, tracing.Origin{UID: string(source.UID), Version: t.commit}, "GitSource commit", times.began,
		tracing.Text("k8s.namespace.name", source.Namespace), tracing.Text("minifleet.source", source.Name), tracing.Text("minifleet.commit", t.commit))
	tracing.Record(ctx, "fetch", times.began, times.fetched)
	tracing.Record(ctx, "parse", times.fetched, times.parsed, tracing.Number("minifleet.objects", len(t.parsed.Objects)))
	return ctx, span
}
