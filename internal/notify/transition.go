// Package notify decides what people are told of runs and sources. What comes in are objects of the hub, and what was told
// before; what goes out are transitions, each once, and what they say: signed JSON, alerts, a line of text. It is pure.
//
//	transition.go  status of an object -> its transitions
//	memory.go      transitions + what was told -> those to tell now, and what to remember
//	webhook.go     a transition -> JSON; sign.go: its signature
//	alert.go       a transition -> alerts for Alertmanager
//	text.go        a transition -> a line for people
package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// Kinds of what transitions are about.
const (
	KindRun    = "FleetMiniCluster"
	KindSource = "GitSource"
)

// Object is what a transition is about.
type Object struct {
	Kind, Namespace, Name string
	UID                   types.UID
}

// Transition is something that has happened, once.
type Transition struct {
	// Key names it among those of its namespace.
	Key string
	// At is when it happened, as far as the hub knows: to the second.
	At     time.Time
	Event  v1alpha1.NotificationEvent
	Object Object
	// Run is the line of the ledger; nil for a source.
	Run *v1alpha1.Run
	// Reason, Message and Revision are those of the object's status, safe to show.
	Reason, Message, Revision string
	// Over says that what Event says holds no more: of an approval, which is told to Alertmanager alone.
	Over bool
	// Dropped is how many transitions were not told because they were too many, where that is what is told.
	Dropped map[v1alpha1.NotificationEvent]int
}

// EventDropped is of a message that says how many others there would have been.
const EventDropped v1alpha1.NotificationEvent = "Dropped"

// ID is that of the message about a transition, whoever sends it however often, from the Notification of this name.
func (t *Transition) ID(notification types.NamespacedName) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		notification.String(), t.Object.Kind, t.Object.Namespace, t.Object.Name, t.Key, strconv.FormatInt(t.At.Unix(), 10),
	}, "\x00")))
	return "msg_" + hex.EncodeToString(sum[:12])
}

const maxMessage = 500

// Parts of keys.
const (
	started = "/Started"
	ended   = "/Ended"
)

var endings = map[v1alpha1.RunState]v1alpha1.NotificationEvent{
	v1alpha1.RunSucceeded: v1alpha1.EventRunSucceeded,
	v1alpha1.RunFailed:    v1alpha1.EventRunFailed,
	v1alpha1.RunReplaced:  v1alpha1.EventRunReplaced,
	v1alpha1.RunCancelled: v1alpha1.EventRunCancelled,
}

// ofRun are the transitions that a line of the ledger tells, oldest first.
func ofRun(f *v1alpha1.FleetMiniCluster, run *v1alpha1.Run) (out []Transition) {
	object := Object{Kind: KindRun, Namespace: f.Namespace, Name: f.Name, UID: f.UID}
	begun := timeOf(run.StartTime)
	if run.State != v1alpha1.RunStarting && (!run.State.Ended() || run.JobUID != "") {
		out = append(out, Transition{
			Key: run.ID + started, At: begun, Event: v1alpha1.EventRunStarted, Object: object, Run: run, Revision: run.Revision,
		})
	}
	event, has := endings[run.State]
	if !has {
		return out
	}
	// A member's clock may be behind the hub's.
	at := timeOf(run.CompletionTime)
	if at.Before(begun) {
		at = begun
	}
	return append(out, Transition{
		Key: run.ID + ended, At: at, Event: event, Object: object, Run: run, Reason: string(run.Stop),
		Message: sanitize.Text(run.Message, maxMessage), Revision: run.Revision,
	})
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Truncate(time.Second)
}

// holding says whether a condition of a source holds.
type holding int

const (
	unclear holding = iota
	holds
	over
)

// state is one condition of a source.
type state struct {
	key        string
	is         holding
	at         time.Time
	begins     v1alpha1.NotificationEvent // what is told when it begins to hold
	ends       v1alpha1.NotificationEvent // what is told when it is over
	reason     string
	message    string
	onlyAlerts bool // its end is told to Alertmanager alone
}

// neither are reasons of a source that is not Ready and has not failed: a person has decided so, or is asked, or it goes on
// by itself.
var neither = map[string]bool{
	v1alpha1.ReasonSuspended: true, v1alpha1.ReasonPruneBlocked: true, v1alpha1.ReasonRunsBlocked: true, v1alpha1.ReasonDeletionPending: true,
}

// ofSource are the conditions of a source.
func ofSource(s *v1alpha1.GitSource) []state {
	failed := state{key: string(s.UID) + "/Failed", begins: v1alpha1.EventSourceFailed, ends: v1alpha1.EventSourceRecovered}
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		failed.at, failed.reason, failed.message = c.LastTransitionTime.Time, c.Reason, c.Message
		switch {
		case c.Status == metav1.ConditionTrue:
			failed.is = over
		case c.Status == metav1.ConditionFalse && !neither[c.Reason]:
			failed.is = holds
		}
	}
	out := []state{failed}
	for _, kind := range []string{v1alpha1.ConditionPruneBlocked, v1alpha1.ConditionRunsBlocked} {
		asked := state{
			key: string(s.UID) + "/" + kind, is: over, reason: kind, onlyAlerts: true,
			begins: v1alpha1.EventApprovalNeeded, ends: v1alpha1.EventApprovalNeeded,
		}
		if c := meta.FindStatusCondition(s.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			asked.is, asked.at, asked.message = holds, c.LastTransitionTime.Time, c.Message
		}
		out = append(out, asked)
	}
	return out
}

// transition is the one that has brought a source into this state.
func (st *state) transition(s *v1alpha1.GitSource) Transition {
	t := Transition{
		Key: st.key, At: st.at.Truncate(time.Second), Event: st.begins, Reason: st.reason,
		Object:  Object{Kind: KindSource, Namespace: s.Namespace, Name: s.Name, UID: s.UID},
		Message: sanitize.Text(st.message, maxMessage), Revision: s.Status.Revision,
	}
	if st.is == over {
		t.Event, t.Over = st.ends, st.onlyAlerts
	}
	return t
}
