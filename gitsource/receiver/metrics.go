package receiver

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// answered counts requests. It says nothing of who has made them: whoever has no token can make any number.
var answered = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "minifleet_webhook_requests_total",
	Help: "Requests to the receiver of webhooks, by result: accepted, ignored (what is followed has not moved), ping, or why they were refused.",
}, []string{"result"})

// Results of requests that are answered with 200, of which there are two.
const (
	resultPing    = "ping"
	resultIgnored = "ignored"
)

// results are what the other statuses stand for.
var results = map[int]string{
	http.StatusAccepted:              "accepted",
	http.StatusUnauthorized:          "unauthorized",
	http.StatusTooManyRequests:       "too_many_requests",
	http.StatusRequestEntityTooLarge: "too_large",
	http.StatusBadRequest:            "unreadable",
	http.StatusNotFound:              "not_found",
	http.StatusMethodNotAllowed:      "method_not_allowed",
}

func init() {
	ctrlmetrics.Registry.MustRegister(answered)
	for _, result := range results {
		answered.WithLabelValues(result)
	}
	answered.WithLabelValues(resultPing)
	answered.WithLabelValues(resultIgnored)
}
