package metrics

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Trigger is how a commit became known.
type Trigger string

// Triggers.
const (
	ByWebhook  Trigger = "webhook"
	ByInterval Trigger = "interval"
)

const (
	// commitLifetime is for how long a commit is remembered that may still lead to Jobs, and maxCommits how many are.
	commitLifetime = 24 * time.Hour
	maxCommits     = 5000
	// webhookLifetime is for how long a webhook is remembered that has not led to a new commit.
	webhookLifetime = 10 * time.Minute
)

// Arrivals remember when commits of sources were first known. It is kept in memory alone: what a hub that was restarted has
// not seen arrive is not measured. The zero value is ready; nil remembers nothing.
type Arrivals struct {
	mu       sync.Mutex
	webhooks map[types.NamespacedName]time.Time
	commits  map[commit]arrival
	read     map[types.NamespacedName]time.Time
}

type commit struct {
	source types.NamespacedName
	hash   string
}

type arrival struct {
	at time.Time
	by Trigger
}

// Webhook notes that a forge has told of a push. The first since the repository was last read counts.
func (a *Arrivals) Webhook(source types.NamespacedName, now time.Time) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.webhooks == nil {
		a.webhooks = map[types.NamespacedName]time.Time{}
	}
	if at, ok := a.webhooks[source]; !ok || now.Sub(at) > webhookLifetime {
		a.webhooks[source] = now
	}
}

// Read notes that a repository was read with success from begun until now, and which commit was found if it is a new one;
// empty if not.
func (a *Arrivals) Read(source types.NamespacedName, hash string, begun, now time.Time) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.read == nil {
		a.read, a.commits = map[types.NamespacedName]time.Time{}, map[commit]arrival{}
	}
	a.read[source] = now
	told, ok := a.webhooks[source]
	if ok && told.After(begun) && hash == "" {
		return // it came while the repository was read: the next reading may find what was pushed
	}
	delete(a.webhooks, source)
	if hash == "" {
		return
	}
	key := commit{source, hash}
	if _, known := a.commits[key]; known {
		return
	}
	a.forgetOld(now)
	a.commits[key] = arrival{begun, ByInterval}
	if ok && now.Sub(told) <= webhookLifetime {
		a.commits[key] = arrival{told, ByWebhook}
	}
}

// forgetOld makes room for one more commit.
func (a *Arrivals) forgetOld(now time.Time) {
	maps.DeleteFunc(a.commits, func(_ commit, at arrival) bool { return now.Sub(at.at) > commitLifetime })
	if len(a.commits) >= maxCommits {
		clear(a.commits) // Jobs of these are not measured
	}
}

// JobCreated measures the first Job on a member that a commit has led to.
func (a *Arrivals) JobCreated(source types.NamespacedName, hash string, now time.Time) {
	if a == nil || hash == "" {
		return
	}
	a.mu.Lock()
	at, ok := a.commits[commit{source, hash}]
	a.mu.Unlock()
	if ok && now.Sub(at.at) <= commitLifetime {
		pushToJob.WithLabelValues(string(at.by)).Observe(max(now.Sub(at.at), 0).Seconds())
	}
}

// Forget drops a source that was deleted.
func (a *Arrivals) Forget(source types.NamespacedName) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.webhooks, source)
	delete(a.read, source)
	maps.DeleteFunc(a.commits, func(c commit, _ arrival) bool { return c.source == source })
}

// LastRead is when repositories were last read with success, by NAMESPACE/NAME of their sources.
func (a *Arrivals) LastRead() map[string]time.Time {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[string]time.Time, len(a.read))
	for source, at := range a.read {
		out[source.String()] = at
	}
	return out
}
