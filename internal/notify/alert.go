package notify

import (
	"encoding/json"
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// AlertLasts is how long an alert is active that nothing ends: nobody repeats it.
const AlertLasts = 24 * time.Hour

// alert is one of Alertmanager's API, version 2.
type alert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// alerts says which alert an event begins or ends.
var alerts = map[v1alpha1.NotificationEvent]struct {
	of             v1alpha1.NotificationEvent
	name, severity string
	ends           bool
}{
	v1alpha1.EventRunFailed:       {v1alpha1.EventRunFailed, "MiniFleetRunFailed", "warning", false},
	v1alpha1.EventRunSucceeded:    {v1alpha1.EventRunFailed, "MiniFleetRunFailed", "warning", true},
	v1alpha1.EventSourceFailed:    {v1alpha1.EventSourceFailed, "MiniFleetSourceFailed", "warning", false},
	v1alpha1.EventSourceRecovered: {v1alpha1.EventSourceFailed, "MiniFleetSourceFailed", "warning", true},
	v1alpha1.EventApprovalNeeded:  {v1alpha1.EventApprovalNeeded, "MiniFleetApprovalNeeded", "info", false},
}

// Alerts is the body of a message for Alertmanager as of now. An alert is the same one for an object, a member, and what it is
// about: what recovers ends it.
func Alerts(t *Transition, dashboard string, now time.Time) ([]byte, error) {
	of := alerts[t.Event]
	a := alert{
		Labels: map[string]string{
			"alertname": of.name, "severity": of.severity, "namespace": t.Object.Namespace, "kind": t.Object.Kind, "name": t.Object.Name,
		},
		Annotations: map[string]string{"summary": Summary(t)},
		StartsAt:    t.At.UTC(), EndsAt: now.Add(AlertLasts).UTC(), GeneratorURL: link(t, dashboard),
	}
	if t.Run != nil {
		a.Labels["member"] = t.Run.Cluster
		a.Annotations["run"] = t.Run.ID
	}
	if t.Event == v1alpha1.EventApprovalNeeded {
		a.Labels["reason"] = t.Reason
	}
	if message := messageOf(t); message != "" {
		a.Annotations["description"] = message
	}
	if of.ends || t.Over {
		if t.At.IsZero() || t.At.After(now) { // it is not told since when, or by a clock that is ahead
			a.StartsAt = now.UTC()
		}
		a.EndsAt = a.StartsAt
	}
	return json.Marshal([]alert{a})
}

// AlertEvents are the events that are told to Alertmanager: what begins an alert of those that are asked for, and what ends it.
func AlertEvents(asked []v1alpha1.NotificationEvent) []v1alpha1.NotificationEvent {
	var out []v1alpha1.NotificationEvent
	for _, of := range asked {
		for event, a := range alerts {
			if a.of == of {
				out = append(out, event)
			}
		}
	}
	return out
}
