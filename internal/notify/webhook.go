package notify

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// Version is that of Body. Fields are added to it; none is taken away or changed without another version.
const Version = "v1alpha1"

// Body is what a webhook posts, in the shape of Standard Webhooks.
type Body struct {
	// Type is OBJECT.EVENT, e.g. run.failed.
	Type string `json:"type"`
	// Timestamp is when it happened.
	Timestamp time.Time `json:"timestamp"`
	Data      Data      `json:"data"`
}

// Data says what has happened to what.
type Data struct {
	// Version of this format.
	Version string `json:"version"`
	// Event is that of spec.events, or Dropped.
	Event v1alpha1.NotificationEvent `json:"event"`
	// Notification is NAMESPACE/NAME of the Notification.
	Notification string `json:"notification"`
	Kind         string `json:"kind,omitempty"`
	Namespace    string `json:"namespace,omitempty"`
	Name         string `json:"name,omitempty"`
	UID          string `json:"uid,omitempty"`
	// URL of the object on the dashboard, where the hub has been told where that is.
	URL string `json:"url,omitempty"`
	// Revision in Git: of a run, what ran; of a source, what is applied.
	Revision string `json:"revision,omitempty"`
	// Reason and Message say why, for people.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Run is the line of the ledger, where it is about a run.
	Run *RunData `json:"run,omitempty"`
	// Dropped is how many messages of each event were not sent, where it is about that.
	Dropped map[v1alpha1.NotificationEvent]int `json:"dropped,omitempty"`
}

// RunData is a line of the ledger.
type RunData struct {
	ID             string              `json:"id"`
	Member         string              `json:"member"`
	State          v1alpha1.RunState   `json:"state"`
	Digest         string              `json:"digest"`
	StartTime      *time.Time          `json:"startTime,omitempty"`
	CompletionTime *time.Time          `json:"completionTime,omitempty"`
	Attempt        int32               `json:"attempt,omitempty"`
	Stop           v1alpha1.StopReason `json:"stop,omitempty"`
	Commit         *v1alpha1.RunCommit `json:"commit,omitempty"`
	ExitCode       *int32              `json:"exitCode,omitempty"`
	ExitReason     string              `json:"exitReason,omitempty"`
}

// eventTypes are the names of events as Standard Webhooks has them.
var eventTypes = map[v1alpha1.NotificationEvent]string{
	v1alpha1.EventRunStarted:      "run.started",
	v1alpha1.EventRunSucceeded:    "run.succeeded",
	v1alpha1.EventRunFailed:       "run.failed",
	v1alpha1.EventRunReplaced:     "run.replaced",
	v1alpha1.EventRunCancelled:    "run.cancelled",
	v1alpha1.EventSourceFailed:    "source.failed",
	v1alpha1.EventSourceRecovered: "source.recovered",
	v1alpha1.EventApprovalNeeded:  "source.approval_needed",
	EventDropped:                  "notification.dropped",
}

// Webhook is the body of a message. Dashboard is the URL of the dashboard, "" for none.
func Webhook(t *Transition, from types.NamespacedName, dashboard string) ([]byte, error) {
	return json.Marshal(Body{Type: eventTypes[t.Event], Timestamp: t.At.UTC(), Data: Data{
		Version: Version, Event: t.Event, Notification: from.String(),
		Kind: t.Object.Kind, Namespace: t.Object.Namespace, Name: t.Object.Name, UID: string(t.Object.UID),
		URL: link(t, dashboard), Revision: clean(t.Revision), Reason: clean(t.Reason), Message: messageOf(t), Run: runData(t.Run), Dropped: t.Dropped,
	}})
}

func clean(text string) string { return sanitize.Text(text, maxMessage) }

func messageOf(t *Transition) string {
	if len(t.Dropped) > 0 {
		return droppedText(t.Dropped)
	}
	return clean(t.Message)
}

// droppedText says how many messages there were of each event: "12 more: 10 RunSucceeded, 2 RunFailed".
func droppedText(dropped map[v1alpha1.NotificationEvent]int) string {
	total := 0
	var parts []string
	for _, event := range slices.Sorted(maps.Keys(dropped)) {
		total += dropped[event]
		parts = append(parts, fmt.Sprintf("%d %s", dropped[event], event))
	}
	return fmt.Sprintf("%d more: %s", total, strings.Join(parts, ", "))
}

func runData(run *v1alpha1.Run) *RunData {
	if run == nil {
		return nil
	}
	out := &RunData{ID: run.ID, Member: run.Cluster, State: run.State, Digest: run.Digest, Attempt: run.Attempt, Stop: run.Stop}
	if run.StartTime != nil {
		t := run.StartTime.UTC()
		out.StartTime = &t
	}
	if run.CompletionTime != nil {
		t := run.CompletionTime.UTC()
		out.CompletionTime = &t
	}
	if c := run.Commit; c != nil {
		out.Commit = &v1alpha1.RunCommit{Hash: clean(c.Hash), Author: clean(c.Author), Subject: clean(c.Subject)}
	}
	if run.Exit != nil {
		out.ExitCode, out.ExitReason = run.Exit.ExitCode, clean(run.Exit.Reason)
	}
	return out
}

// pages are where the dashboard has its objects.
var pages = map[string]string{KindRun: "/miniclusters/", KindSource: "/sources/"}

func link(t *Transition, dashboard string) string {
	page, has := pages[t.Object.Kind]
	if dashboard == "" || !has {
		return ""
	}
	return strings.TrimSuffix(dashboard, "/") + page + url.PathEscape(t.Object.Namespace) + "/" + url.PathEscape(t.Object.Name)
}
