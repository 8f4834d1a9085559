package dashboard

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Requests are counted by operation, of which the API has a fixed number, and by the class of their status. How long a
// stream lasts says nothing of how long answers take.
var (
	requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "minifleet_dashboard_requests_total", Help: "Requests to the API of the dashboard, by operation and class of their status (2xx).",
	}, []string{"operation", "code"})
	requestTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "minifleet_dashboard_request_duration_seconds", Help: "Time that answers of the API of the dashboard took, by operation, without streams and logs.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"operation"})
	openStreams = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "minifleet_dashboard_streams", Help: "Open streams to browsers and programs, by kind: changes or logs.",
	}, []string{"kind"})
)

const (
	streamOperation, logsOperation = "stream", "logs"
	// Kinds of streams.
	streamChanges = "changes"
	streamLogs    = "logs"
)

func init() {
	ctrlmetrics.Registry.MustRegister(requests, requestTime, openStreams)
	openStreams.WithLabelValues(streamChanges)
	openStreams.WithLabelValues(streamLogs)
}

// measured counts the requests of an API.
func measured(now func() time.Time) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		begun, operation := now(), ctx.Operation().OperationID
		next(ctx)
		status := cmp.Or(ctx.Status(), http.StatusOK) // a stream sets none
		requests.WithLabelValues(operation, strconv.Itoa(status/100)+"xx").Inc()
		if operation != streamOperation && operation != logsOperation {
			requestTime.WithLabelValues(operation).Observe(now().Sub(begun).Seconds())
		}
	}
}
