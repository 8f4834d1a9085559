// Package tracing tells an OpenTelemetry collector how a commit became Jobs: which parts of the way took how long. What comes in
// are beginnings and ends; what goes out are spans, sent in the background. Where it is off, nothing is made.
//
//	tracing.go  spans, for those who do something
//	export.go   the exporter, and how it is bounded
//	settings.go what an administrator says of it
//
// Every commit of a GitSource has one trace, whose identity follows from the source's UID and the commit's hash. So a
// FleetMiniCluster, which names both in annotations, is in the trace of the commit that last changed it, and nothing has to be
// stored. Attributes are names and numbers: no URL, no text of a commit, no message of an error.
package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxText is how many bytes of a text are sent.
const maxText = 256

// tracer is what spans are made with; nil where tracing is off.
var tracer atomic.Pointer[trace.Tracer]

// Origin is what a trace is about.
type Origin struct {
	// UID is that of the object that began it: a GitSource, or a FleetMiniCluster that comes from none.
	UID string
	// Version is the full hash of the commit, or the object's generation.
	Version string
}

func (o Origin) sum() [sha256.Size]byte {
	return sha256.Sum256([]byte("minifleet\x00" + o.UID + "\x00" + o.Version))
}

func (o Origin) traceID() trace.TraceID { s := o.sum(); return trace.TraceID(s[:16]) }
func (o Origin) rootID() trace.SpanID   { s := o.sum(); return trace.SpanID(s[16:24]) }

// Attribute says something of a span.
type Attribute = attribute.KeyValue

// Text is an attribute for the name of something, which is no secret. It is cut after 256 bytes.
func Text(key, value string) Attribute {
	return attribute.String(key, value[:min(len(value), maxText)])
}

// Number is an attribute for how many there are of something.
func Number(key string, value int) Attribute { return attribute.Int(key, value) }

// Span is something that takes time. The zero value does nothing.
type Span struct{ span trace.Span }

// End ends it, with what came of it. Of an error the kind is told, and never the message, which may be of somebody else's making.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, kindOf(err))
	}
	s.span.End()
}

// Context is one in which spans are begun below this one.
func (s Span) Context(ctx context.Context) context.Context {
	if s.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.span)
}

// Commit begins the trace of a commit, as it was at a time before: the first span of all. It is called once for each origin.
func Commit(ctx context.Context, o Origin, name string, began time.Time, attributes ...Attribute) (context.Context, Span) {
	return root(ctx, ids{o.traceID(), o.rootID()}, name, began, attributes)
}

// Own begins a span, as it was at a time before, in the trace of an origin that no Commit begins.
func Own(ctx context.Context, o Origin, name string, began time.Time, attributes ...Attribute) (context.Context, Span) {
	return root(ctx, ids{o.traceID(), randomSpanID()}, name, began, attributes)
}

// Follow begins a span, as it was at a time before, below the first one of an origin, whichever process has made that.
func Follow(ctx context.Context, o Origin, name string, began time.Time, attributes ...Attribute) (context.Context, Span) {
	if tracer.Load() == nil {
		return ctx, Span{}
	}
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: o.traceID(), SpanID: o.rootID(), Remote: true})
	return start(trace.ContextWithRemoteSpanContext(ctx, parent), name, attributes, trace.WithTimestamp(began))
}

// Start begins a span below that of the context. Where the context has none, neither is this one.
func Start(ctx context.Context, name string, attributes ...Attribute) (context.Context, Span) {
	if tracer.Load() == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, Span{}
	}
	return start(ctx, name, attributes)
}

// Record tells of something that has ended, below the span of the context.
func Record(ctx context.Context, name string, began, ended time.Time, attributes ...Attribute) {
	if tracer.Load() == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return
	}
	_, s := start(ctx, name, attributes, trace.WithTimestamp(began))
	s.span.End(trace.WithTimestamp(ended))
}

func root(ctx context.Context, i ids, name string, began time.Time, attributes []Attribute) (context.Context, Span) {
	if tracer.Load() == nil {
		return ctx, Span{}
	}
	return start(context.WithValue(ctx, idsKey{}, i), name, attributes, trace.WithNewRoot(), trace.WithTimestamp(began))
}

func start(ctx context.Context, name string, attributes []Attribute, options ...trace.SpanStartOption) (context.Context, Span) {
	t := tracer.Load()
	if t == nil {
		return ctx, Span{}
	}
	ctx, span := (*t).Start(ctx, name, append(options, trace.WithAttributes(attributes...))...)
	return ctx, Span{span}
}

// kindOf is what kind of error it is, in words of Kubernetes or Go.
func kindOf(err error) string {
	switch reason := apierrors.ReasonForError(err); {
	case errors.Is(err, context.DeadlineExceeded):
		return "DeadlineExceeded"
	case errors.Is(err, context.Canceled):
		return "Canceled"
	case reason != metav1.StatusReasonUnknown:
		return string(reason)
	default:
		return fmt.Sprintf("%T", err)
	}
}

// ids are those of the next span that has no parent.
type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

type idsKey struct{}

// generator gives spans their ids: those of the context, else random ones.
type generator struct{}

func (generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if i, ok := ctx.Value(idsKey{}).(ids); ok {
		return i.trace, i.span
	}
	var id trace.TraceID
	_, _ = rand.Read(id[:]) // it does not fail
	return id, randomSpanID()
}

func (generator) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return randomSpanID() }

func randomSpanID() trace.SpanID {
	var id trace.SpanID
	_, _ = rand.Read(id[:]) // it does not fail
	return id
}
