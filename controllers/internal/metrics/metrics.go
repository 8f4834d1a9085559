// Package metrics counts what the controllers do, and tells the state of the fleet to whoever scrapes /metrics
// (docs/metrics.md).
//
//	metrics.go    counters and histograms, of what happens when it does
//	series.go     which of them are of a member or source, so that they are forgotten with it
//	arrivals.go   when a push was first known, until it leads to a Job
//	collector.go  gauges of the state of the fleet, made on a scrape from what the leader has in memory
//
// Nothing here has a label that is as many as there are FleetMiniClusters or runs, or that somebody who pushes to Git
// chooses.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Buckets of histograms, in seconds.
var (
	requestBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	pushBuckets    = []float64{.25, .5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 6 * 3600}
	runBuckets     = []float64{1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 24 * 3600, 72 * 3600, 168 * 3600}
)

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "minifleet_" + name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "minifleet_" + name, Help: help, Buckets: buckets}, labels)
}

// Of members.
var (
	runsStarted = counter("runs_started_total", "Runs whose Job was created, by member.", "member")
	runsEnded   = counter("runs_ended_total", "Runs that have ended, by member and result: Succeeded, Failed, Replaced or Cancelled.", "member", "result")
	applied     = histogram("apply_duration_seconds", "Time that a step of a run took on a member: its Job and what that needs created, adjusted, deleted or cleaned up.", requestBuckets, "member")
	applyFailed = counter("apply_failures_total", "Steps of runs that have failed on a member, and are tried again.", "member")
	repaired    = counter("drift_repaired_total", "Objects on a member that somebody had edited or deleted, and that were put right.", "member")
	stale       = counter("stale_requests_refused_total", "Jobs on a member that were made by a request which arrived too late, never released, and removed.", "member")
)

// Of runs, whatever the member.
var (
	runDuration = histogram("run_duration_seconds", "Time from the decision to start a run until its end, by result.", runBuckets, "result")
	runStart    = histogram("run_start_duration_seconds", "Time from the decision to start a run until all of its pods ran for the first time.", runBuckets)
	pushToJob   = histogram("push_to_job_duration_seconds",
		"Time from when a commit was first known until the first Job that it leads to was created on a member, with the time for which that waited for room; by how it became known: webhook or interval.", pushBuckets, "trigger")
	denials = counter("policy_denials_total", "MiniClusters that were found to need a permission which they do not have, by the kind of the object that says so.", "kind")
)

// Of Git.
var (
	fetches     = counter("git_fetches_total", "Readings of repositories, by result: changed, unchanged or failed.", "result")
	fetchFailed = counter("git_fetch_failures_total", "Readings of repositories that have failed, by reason.", "reason")
	fetchTime   = histogram("git_fetch_duration_seconds", "Time that a reading of a repository took, by result.", pushBuckets, "result")
	pruned      = counter("pruned_objects_total", "Objects of the hub that were deleted because Git no longer declares them.")
)

func init() {
	ctrlmetrics.Registry.MustRegister(
		runsStarted, runsEnded, applied, applyFailed, repaired, stale, runDuration, runStart, pushToJob, denials,
		fetches, fetchFailed, fetchTime, pruned, theCollector,
	)
	// What is counted without a member is there from the beginning, so that the first time is an increase.
	for _, result := range results {
		runDuration.WithLabelValues(string(result))
	}
	for _, result := range []string{fetchChanged, fetchUnchanged, fetchHasFailed} {
		fetches.WithLabelValues(result)
		fetchTime.WithLabelValues(result)
	}
	for _, kind := range []string{"FleetMiniCluster", "GitSource"} {
		denials.WithLabelValues(kind)
	}
	for _, trigger := range []Trigger{ByWebhook, ByInterval} {
		pushToJob.WithLabelValues(string(trigger))
	}
	runStart.WithLabelValues()
	pruned.WithLabelValues()
}

// results of runs.
var results = []v1alpha1.RunState{v1alpha1.RunSucceeded, v1alpha1.RunFailed, v1alpha1.RunReplaced, v1alpha1.RunCancelled}

// Results of readings.
const (
	fetchChanged   = "changed"
	fetchUnchanged = "unchanged"
	fetchHasFailed = "failed"
)

// RunStarted counts a run whose Job was created on a member.
func RunStarted(member string) {
	beginMember(member)
	runsStarted.WithLabelValues(member).Inc()
}

// Applied notes a step of a run on a member, and whether it has failed.
func Applied(member string, took time.Duration, failed bool) {
	beginMember(member)
	applied.WithLabelValues(member).Observe(took.Seconds())
	if failed {
		applyFailed.WithLabelValues(member).Inc()
	}
}

// DriftRepaired counts an object on a member that was put right.
func DriftRepaired(member string) {
	beginMember(member)
	repaired.WithLabelValues(member).Inc()
}

// StaleRequestRefused counts a Job on a member that a request has made which arrived too late.
func StaleRequestRefused(member string) {
	beginMember(member)
	stale.WithLabelValues(member).Inc()
}

// PolicyDenied counts MiniClusters that need a permission, as an object of this kind says.
func PolicyDenied(kind string, n int) { denials.WithLabelValues(kind).Add(float64(n)) }

// RunsChanged counts what a new ledger says that the one before did not. It is told of after the write.
func RunsChanged(before, after []v1alpha1.Run) {
	was := make(map[string]*v1alpha1.Run, len(before))
	for i := range before {
		was[before[i].ID] = &before[i]
	}
	for i := range after {
		now, old := &after[i], was[after[i].ID]
		if now.RestoredTime != nil && old == nil {
			continue // it has run before, and was counted then
		}
		if now.RunningTime != nil && now.StartTime != nil && (old == nil || old.RunningTime == nil) {
			runStart.WithLabelValues().Observe(now.RunningTime.Sub(now.StartTime.Time).Seconds())
		}
		if now.State.Ended() && (old == nil || !old.State.Ended()) {
			runEnded(now)
		}
	}
}

func runEnded(r *v1alpha1.Run) {
	beginMember(r.Cluster)
	runsEnded.WithLabelValues(r.Cluster, string(r.State)).Inc()
	if r.StartTime != nil && r.CompletionTime != nil {
		runDuration.WithLabelValues(string(r.State)).Observe(max(r.CompletionTime.Sub(r.StartTime.Time), 0).Seconds())
	}
}

// GitRead notes a reading of a repository. The reason is one of the conditions' constants, and empty for a success.
func GitRead(took time.Duration, changed bool, reason string) {
	result := fetchUnchanged
	switch {
	case reason != "":
		result = fetchHasFailed
		fetchFailed.WithLabelValues(reason).Inc()
	case changed:
		result = fetchChanged
	}
	fetches.WithLabelValues(result).Inc()
	fetchTime.WithLabelValues(result).Observe(took.Seconds())
}

// Pruned counts objects that were deleted because Git no longer declares them.
func Pruned(n int) { pruned.WithLabelValues().Add(float64(n)) }
