package clusters

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
)

func TestRenewalDue(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
	for name, c := range map[string]struct {
		heard, confirmed, want time.Time
	}{
		"nothing came, nothing was confirmed":      {time.Time{}, time.Time{}, at(8)},
		"nothing came":                             {time.Time{}, at(30), at(8)},
		"nothing was confirmed":                    {at(30), time.Time{}, at(8)},
		"nothing was confirmed since it began":     {at(30), at(-1), at(8)},
		"both":                                     {at(30), at(30), at(38)},
		"it is silent, and rights are as ever":     {at(3), at(30), at(11)},
		"it goes on, and rights are not confirmed": {at(30), at(5), at(13)},
	} {
		if got := renewalDue(began, c.heard, c.confirmed, 8*time.Minute); !got.Equal(c.want) {
			t.Errorf("%s: %v after it began, want %v", name, got.Sub(began), c.want.Sub(began))
		}
	}
}

// A watch ends within 10 minutes of the last that spoke for it, as client-go would have it end in any case.
func TestWatchesAreBegunAnew(t *testing.T) {
	const ofClientGo = 10 * time.Minute
	for name, c := range map[string]struct {
		events, confirmations time.Duration // for how long they come
		least                 time.Duration // that it goes on
	}{
		"a server without bookmarks":               {0, 4 * time.Hour, 5 * time.Minute},
		"a server that does not tell of rights":    {4 * time.Hour, 0, 5 * time.Minute},
		"one that falls silent":                    {time.Hour, 4 * time.Hour, time.Hour},
		"one whose rights are confirmed no longer": {4 * time.Hour, time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(time.Now, DefaultLimits())
				body, server := io.Pipe()
				began := time.Now()
				go func() {
					for time.Since(began) < c.events {
						time.Sleep(time.Minute)
						_, _ = io.WriteString(server, `{"type":"BOOKMARK"}`)
					}
					_, _ = io.WriteString(server, `{"type":`) // and no more
				}()
				go func() {
					for time.Since(began) < c.confirmations {
						time.Sleep(5 * time.Minute)
						l.confirmed.Store(time.Now().UnixNano())
					}
				}()
				w := newFrames(t.Context(), body, l, "WATCH", false)
				read, err := io.Copy(io.Discard, w)
				went := time.Since(began)
				last := min(c.events, c.confirmations)
				if err != nil || went < c.least || went > last+ofClientGo {
					t.Errorf("ended after %v, with %v", went, err)
				}
				if want := int64(went/time.Minute) * int64(len(`{"type":"BOOKMARK"}`)); c.events > went && read != want {
					t.Errorf("%d bytes of whole events were read, want %d", read, want)
				}
				_ = w.Close()
				_ = server.Close()
				time.Sleep(5 * time.Hour) // until the server and its rights are done
			})
		})
	}
}

// All watches of a member are asked for long, and with bookmarks.
func TestWatchesAreAskedForLong(t *testing.T) {
	asked := make(chan url.Values, 100)
	h := newHostile(t, true, emptyCluster(func(_ http.ResponseWriter, r *http.Request) bool {
		if q := r.URL.Query(); answerTo(r) == answerWatch && q.Get("sendInitialEvents") == "" {
			asked <- q
		}
		return false
	}))
	p, _ := newTestProvider(t)
	p.Ensure("a", Target{Kubeconfig: h.kubeconfig(t)})
	for range len(owned) + len(observedKinds) {
		q := <-asked
		seconds, err := strconv.Atoi(q.Get("timeoutSeconds"))
		if took := time.Duration(seconds) * time.Second; err != nil || took < 45*time.Minute || took > 75*time.Minute || q.Get("allowWatchBookmarks") != "true" {
			t.Errorf("a watch is asked for with %v", q)
		}
	}
}

// What has ended leaves no timer that would end it again.
func TestAClosedWatchIsNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := 0
		w := newLine(time.Now, DefaultLimits()).newLifetime(func() error { ends++; return nil })
		w.stop()
		w.check() // that had begun before
		time.Sleep(time.Hour)
		if ends != 0 {
			t.Errorf("ended %d times", ends)
		}
	})
}

// split is for rules: the core group is the empty name.
func split(names string) []string { return strings.Split(names, " ") }

func TestPermitsWatches(t *testing.T) {
	rule := func(verbs, groups, resources string, names ...string) authorizationv1.ResourceRule {
		return authorizationv1.ResourceRule{Verbs: split(verbs), APIGroups: split(groups), Resources: split(resources), ResourceNames: names}
	}
	core := rule("get list watch create", "", "pods services configmaps secrets")
	jobs := rule("list watch", "batch", "jobs")
	for name, c := range map[string]struct {
		rules []authorizationv1.ResourceRule
		want  bool
	}{
		"all of them":                 {[]authorizationv1.ResourceRule{core, jobs}, true},
		"everything":                  {[]authorizationv1.ResourceRule{rule("*", "*", "*")}, true},
		"none":                        {nil, false},
		"no Jobs":                     {[]authorizationv1.ResourceRule{core}, false},
		"Jobs of another group":       {[]authorizationv1.ResourceRule{core, rule("list watch", "batch.example.org", "jobs")}, false},
		"list alone":                  {[]authorizationv1.ResourceRule{core, rule("list", "batch", "jobs")}, false},
		"list and watch in two rules": {[]authorizationv1.ResourceRule{core, rule("list", "batch", "jobs"), rule("watch", "batch", "*")}, true},
		"one Job":                     {[]authorizationv1.ResourceRule{core, rule("list watch", "batch", "jobs", "a")}, false},
		"a subresource":               {[]authorizationv1.ResourceRule{core, rule("list watch", "batch", "jobs/status")}, false},
	} {
		if got := permitsWatches(c.rules, ownedKinds()); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
