package peers

import (
	"context"
	"time"

	"github.com/minifleet/minifleet/hack/bench/wait"
	"github.com/minifleet/minifleet/hack/lab"
)

// still is how long a peer writes nothing before it counts as done, restless how long it may go on.
const (
	still    = 3 * time.Second
	restless = time.Minute
)

// request is one answered request to a cluster, as its audit log has it.
type request struct {
	lab.AuditEvent
	cluster string
}

// tally counts requests, without watches, which are answered when they end: those of a peer, and those of all.
type tally struct {
	user string
	// own and others are by side, members or hub; kinds are the peer's own, by side and what was asked.
	own, others map[string]int
	kinds       map[string]int
}

func newTally(user string) *tally {
	return &tally{user: user, own: map[string]int{}, others: map[string]int{}, kinds: map[string]int{}}
}

func (t *tally) add(r request) {
	if r.Verb == "watch" {
		return
	}
	side := "members"
	if r.cluster == hubName {
		side = "hub"
	}
	if r.User.Username != t.user {
		if r.User.Username != "system:apiserver" && r.User.Username != "admin" { // servers' own loops, and the harness
			t.others[side]++
		}
		return
	}
	t.own[side]++
	t.kinds[side+": "+what(r)]++
}

func what(r request) string {
	if r.Object == nil {
		return r.Verb + " (no object)"
	}
	text := r.Verb + " " + r.Object.Resource
	if r.Object.Subresource != "" {
		text += "/" + r.Object.Subresource
	}
	if r.Response.Code >= 400 {
		text += " (refused)"
	}
	return text
}

// quiet gives all requests since the last time to add, until the peer has sent no write for a time. What renews leases
// goes on for ever.
func (t *turn) quiet(ctx context.Context, add func(request)) error {
	begun, last := time.Now(), time.Now()
	for time.Since(last) < still && time.Since(begun) < restless {
		for cluster, reader := range t.audit {
			events, err := reader.Next()
			if err != nil {
				return err
			}
			for _, event := range events {
				if t.moves(&event) && event.Received.After(last) {
					last = event.Received
				}
				add(request{event, cluster})
			}
		}
		if err := wait.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return t.running()
}

func (t *turn) moves(e *lab.AuditEvent) bool {
	return e.User.Username == t.user() && e.Write() && (e.Object == nil || e.Object.Resource != "leases")
}
