package notification

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Results of messages.
const (
	resultDelivered = "delivered"
	resultFailed    = "failed"
	resultDropped   = "dropped"
)

var (
	sent = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "minifleet_notifications_total",
		Help: "Messages of Notifications by type (Webhook, Alertmanager, Chat) and result: delivered, failed after all attempts, or dropped because there were too many.",
	}, []string{"type", "result"})
	attempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "minifleet_notification_attempts_failed_total",
		Help: "Attempts to deliver a message of a Notification that have failed, by type.",
	}, []string{"type"})
	waiting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "minifleet_notification_queue_messages",
		Help: "Messages of Notifications that wait to be delivered.",
	})
)

func init() { metrics.Registry.MustRegister(sent, attempts, waiting) }
