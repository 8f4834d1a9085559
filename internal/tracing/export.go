package tracing

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// What a collector can take of the process. Who ends a span never waits: a span that finds the queue full is lost.
const (
	queueSpans  = 2048
	batchSpans  = 512
	batchWait   = 2 * time.Second
	requestWait = 5 * time.Second
	retryFor    = 10 * time.Second
)

// Switch turns tracing on for this process. What it returns sends what is queued, for as long as its context lasts, and turns
// tracing off. Errors of the exporter, at any time later, go to report: they hold no header.
func Switch(ctx context.Context, s Settings, version string, report func(error)) (off func(context.Context) error, err error) {
	endpoint, err := s.endpoint()
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(endpoint),
		otlptracehttp.WithHeaders(s.Headers),
		otlptracehttp.WithTimeout(requestWait),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: requestWait, MaxElapsedTime: retryFor}),
		otlptracehttp.WithHTTPClient(&http.Client{
			Timeout:   requestWait,
			Transport: http.DefaultTransport,
			// The headers are for the collector alone.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
	)
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(report))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(queueSpans), sdktrace.WithMaxExportBatchSize(batchSpans),
			sdktrace.WithBatchTimeout(batchWait), sdktrace.WithExportTimeout(retryFor)),
		sdktrace.WithIDGenerator(generator{}),
		// By the trace's identity, so that all that take part in a trace decide the same.
		sdktrace.WithSampler(sdktrace.TraceIDRatioBased(s.Ratio)),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "minifleet"), attribute.String("service.version", version))),
	)
	use(provider.Tracer("github.com/minifleet/minifleet"))
	return func(ctx context.Context) error {
		tracer.Store(nil)
		return provider.Shutdown(ctx)
	}, nil
}

// use has spans made with a tracer.
func use(t trace.Tracer) { tracer.Store(&t) }
