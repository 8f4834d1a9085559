package notify

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

var verbs = map[v1alpha1.NotificationEvent]string{
	v1alpha1.EventRunStarted:      "has started",
	v1alpha1.EventRunSucceeded:    "has succeeded",
	v1alpha1.EventRunFailed:       "has failed",
	v1alpha1.EventRunReplaced:     "was stopped and is to run anew",
	v1alpha1.EventRunCancelled:    "was cancelled",
	v1alpha1.EventSourceFailed:    "has failed",
	v1alpha1.EventSourceRecovered: "is applied again",
	v1alpha1.EventApprovalNeeded:  "waits for approval",
}

// Summary says what has happened.
func Summary(t *Transition) string {
	switch {
	case len(t.Dropped) > 0:
		return droppedText(t.Dropped)
	case t.Run != nil:
		return fmt.Sprintf("%s/%s: run %s %s on %s", t.Object.Namespace, t.Object.Name, t.Run.ID, verbs[t.Event], t.Run.Cluster)
	default:
		return fmt.Sprintf("%s/%s: the source %s", t.Object.Namespace, t.Object.Name, verbs[t.Event])
	}
}

// MaxText is how long a message for a chat may be, in bytes: all of them take it as one.
const MaxText = 1200

// Text is a message for a chat, on one line. What comes from Git and from members mentions nobody in it, and is no markup.
func Text(t *Transition, from types.NamespacedName, dashboard string) string {
	out := Summary(t)
	if len(t.Dropped) > 0 {
		out = from.String() + ": " + out
	} else if message := messageOf(t); message != "" {
		out += ": " + message
	}
	if t.Revision != "" {
		out += " (" + clean(t.Revision) + ")"
	}
	out = Plain(out)
	if to := link(t, dashboard); to != "" {
		out += " " + to
	}
	return out
}

// Plain replaces what chats read as mentions, links and markup.
func Plain(text string) string {
	out := plain.Replace(sanitize.Text(text, MaxText))
	for len(out) > MaxText {
		_, size := utf8.DecodeLastRuneInString(out)
		out = out[:len(out)-size]
	}
	return out
}

// plain has characters that look alike and mean nothing.
var plain = strings.NewReplacer("@", "\uff20", "<", "\u2039", ">", "\u203a", "[", "(", "]", ")", "&", "\uff06", "`", "'", "*", "\u2217", "_", "\uff3f", "~", "\u223c", "#", "\uff03", "|", "\u2223", "://", ":\u2044\u2044")
