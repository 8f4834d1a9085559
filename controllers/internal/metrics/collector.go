package metrics

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/gauges"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/version"
)

const (
	// freshness is for how long gauges that were computed are served again.
	freshness = 5 * time.Second
	// foremost is of how many in each line it is found out whether they could begin.
	foremost = 20
)

// State is what the leader knows of the fleet. It is a manager.Runnable: the gauges tell of it for as long as it runs, which
// is while this replica leads.
type State struct {
	// Hub reads the hub's objects from memory.
	Hub      client.Reader
	Members  *clusters.Provider
	Queue    *queue.Queue
	Arrivals *Arrivals
	Now      func() time.Time
	Log      logr.Logger
}

// Start implements manager.Runnable.
func (s *State) Start(ctx context.Context) error {
	theCollector.state.Store(s)
	<-ctx.Done()
	theCollector.state.CompareAndSwap(s, nil)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *State) NeedLeaderElection() bool { return true }

// collector makes gauges of the state. There is one for the process, as there is one registry; without a State, it tells no
// more than that this replica does not lead.
type collector struct {
	state atomic.Pointer[State]

	mu   sync.Mutex
	of   *State
	at   time.Time
	last []prometheus.Metric
}

var theCollector = &collector{}

// gauge is a gauge of the collector.
type gauge struct {
	*prometheus.Desc
}

// described are all gauges of the collector.
var described []gauge

func newGauge(name, help string, labels ...string) gauge {
	g := gauge{prometheus.NewDesc("minifleet_"+name, help, labels, nil)}
	described = append(described, g)
	return g
}

func (g gauge) is(value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(g.Desc, prometheus.GaugeValue, value, labels...)
}

var (
	buildInfo = newGauge("build_info", "1, with the version of MiniFleet and of Go.", "version", "goversion")
	leader    = newGauge("leader", "Whether this replica leads. Only the one that does has the gauges of the state of the fleet.")

	miniClusters = newGauge("fleetminiclusters", "FleetMiniClusters, by state.", "state")
	outOfSync    = newGauge("fleetminiclusters_out_of_sync", "FleetMiniClusters of which a member does not have what the hub wants.")
	liveRuns     = newGauge("runs", "Live runs, by member and state: Starting, Running or Stopping.", "member", "state")
	waiting      = newGauge("waiting", "FleetMiniClusters in state Waiting, by what they wait for.", "reason")
	waitingAge   = newGauge("waiting_oldest_age_seconds", "For how long the one has waited that has waited longest, by what it waits for; 0 where none does.", "reason")
	placement    = newGauge("placement_waiting", "FleetMiniClusters in state Waiting, by NAMESPACE/NAME of their Placement: the 100 Placements for which most wait.", "placement")
	placementAge = newGauge("placement_waiting_oldest_age_seconds", "For how long the one has waited that has waited longest, by NAMESPACE/NAME of its Placement.", "placement")
	omitted      = newGauge("omitted_objects", "Objects that are not told of one by one since there are too many, by kind.", "kind")

	lineLength   = newGauge("queue_length", "FleetMiniClusters that stand in the line for room, by member.", "member")
	lineReady    = newGauge("queue_ready", "Of the first 20 in the line for room on a member, those that fit and whose turn it is. They begin within seconds.", "member")
	reservations = newGauge("queue_reservations", "FleetMiniClusters that have reserved room, by member.", "member")

	memberReady    = newGauge("member_ready", "Whether a member answers and may be used.", "member")
	memberStatus   = newGauge("member_status", "1 for the reason of the condition Ready of a member.", "member", "reason")
	memberSilence  = newGauge("member_last_heard_age_seconds", "For how long nothing has been heard of a member that is not ready; 0 for one that is.", "member")
	memberCordoned = newGauge("member_cordoned", "Whether no new runs begin on a member (spec.suspend).", "member")
	memberUnowned  = newGauge("member_unowned_jobs", "Live Jobs of this fleet on a member that no FleetMiniCluster owns; at most 50 are counted.", "member")
	memberOrphans  = newGauge("member_orphans", "Deleted FleetMiniClusters whose objects are to be removed from a member when it returns.", "member")
	memberNodes    = newGauge("member_nodes", "Nodes of a member, schedulable or not.", "member")
	memberCPU      = newGauge("member_cpu_cores", "CPU of the schedulable nodes of a member.", "member")
	memberFreeCPU  = newGauge("member_cpu_free_cores", "CPU of the schedulable nodes of a member that no pod requests.", "member")
	memberMemory   = newGauge("member_memory_bytes", "Memory of the schedulable nodes of a member.", "member")
	memberFreeMem  = newGauge("member_memory_free_bytes", "Memory of the schedulable nodes of a member that no pod requests.", "member")
	memberGPUs     = newGauge("member_gpus", "GPUs of the schedulable nodes of a member.", "member")
	memberFreeGPUs = newGauge("member_gpus_free", "GPUs of the schedulable nodes of a member that no pod requests.", "member")

	sourceReady     = newGauge("source_ready", "Whether a repository was read, and all of it applied, by NAMESPACE/NAME of its GitSource.", "source")
	sourceStatus    = newGauge("source_status", "1 for the reason of the condition Ready of a GitSource.", "source", "reason")
	sourceSuspended = newGauge("source_suspended", "Whether a repository is not read (spec.suspend).", "source")
	sourceProblems  = newGauge("source_problems", "Problems in the files of a repository, without warnings.", "source")
	sourceObjects   = newGauge("source_objects", "Objects of the hub that a GitSource has.", "source")
	sourceApprovals = newGauge("source_approvals_pending", "Objects of a GitSource that wait until a person approves to delete them (prune) or to run them anew (runs); at most 100 are counted.", "source", "approval")
	sourceInterval  = newGauge("source_interval_seconds", "Interval at which a repository is read.", "source")
	sourceRead      = newGauge("source_last_read_timestamp_seconds", "When a repository was last read with success, since this replica has begun to lead.", "source")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, g := range described {
		out <- g.Desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.state.Load()
	leads := 0.0
	if s != nil {
		leads = 1
	}
	out <- buildInfo.is(1, version.String(), runtime.Version())
	out <- leader.is(leads)
	if s == nil {
		return
	}
	for _, m := range c.fresh(s) {
		out <- m
	}
}

// fresh are gauges of a state that are no older than freshness. Where they cannot be made, there are none.
func (c *collector) fresh(s *State) []prometheus.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := s.Now()
	if age := now.Sub(c.at); c.of == s && age >= 0 && age < freshness {
		return c.last
	}
	fleet, err := s.fleet(context.Background(), now)
	if err != nil {
		s.Log.Error(err, "making the gauges of the fleet")
		return nil
	}
	keep := make(map[string]bool, len(fleet.Members))
	names := make([]string, 0, len(fleet.Members))
	for i := range fleet.Members {
		keep[fleet.Members[i].Name] = true
		names = append(names, fleet.Members[i].Name)
	}
	forgetMembers(keep)
	for _, name := range names {
		beginMember(name)
	}
	c.of, c.at = s, now
	c.last = append(gaugesOf(fleet, now), s.lines(names)...)
	return c.last
}

// fleet reads what is in memory.
func (s *State) fleet(ctx context.Context, now time.Time) (gauges.Fleet, error) {
	var miniClusters v1alpha1.FleetMiniClusterList
	var members v1alpha1.MemberClusterList
	var sources v1alpha1.GitSourceList
	for _, list := range []client.ObjectList{&miniClusters, &members, &sources} {
		if err := s.Hub.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return gauges.Fleet{}, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	heard := map[string]time.Time{}
	for i := range members.Items {
		if state, ok := s.Members.State(members.Items[i].Name); ok {
			heard[members.Items[i].Name] = state.LastHeard
		}
	}
	return gauges.Of(gauges.Input{
		MiniClusters: miniClusters.Items, Members: members.Items, Sources: sources.Items,
		Heard: heard, Read: s.Arrivals.LastRead(), Now: now,
	}), nil
}

// lines are the lines for room on members.
func (s *State) lines(names []string) []prometheus.Metric {
	var out []prometheus.Metric
	runs := s.Queue.Runs()
	for _, name := range names {
		length, ready := 0, 0
		if m, err := s.Members.Member(name); err == nil && s.Queue.Waits(name) {
			line := s.Queue.Line(name, m.Room(), foremost)
			length = len(line.Standings)
			for i := range line.Standings {
				if f := line.Standings[i].Fit; f != nil && f.Blocked == "" {
					ready++
				}
			}
		}
		out = append(out, lineLength.is(float64(length), name), lineReady.is(float64(ready), name), reservations.is(float64(runs[name]), name))
	}
	return out
}

func gaugesOf(f gauges.Fleet, now time.Time) []prometheus.Metric {
	var out []prometheus.Metric
	add := func(g gauge, value float64, labels ...string) { out = append(out, g.is(value, labels...)) }
	for state, n := range f.States {
		add(miniClusters, float64(n), string(state))
	}
	add(outOfSync, float64(f.OutOfSync))
	for of, n := range f.Runs {
		add(liveRuns, float64(n), of.Member, string(of.State))
	}
	for class, w := range f.Waiting {
		add(waiting, float64(w.Count), string(class))
		add(waitingAge, w.Age(now).Seconds(), string(class))
	}
	for name, w := range f.Placements {
		add(placement, float64(w.Count), name)
		add(placementAge, w.Age(now).Seconds(), name)
	}
	add(omitted, float64(f.OmittedPlacements), "Placement")
	add(omitted, float64(f.OmittedSources), "GitSource")
	for i := range f.Members {
		addMember(add, &f.Members[i])
	}
	for i := range f.Sources {
		addSource(add, &f.Sources[i])
	}
	return out
}

func addMember(add func(gauge, float64, ...string), m *gauges.Member) {
	add(memberReady, truth(m.Ready), m.Name)
	add(memberStatus, 1, m.Name, cmp.Or(m.Reason, v1alpha1.ReasonConnecting))
	add(memberSilence, m.Silence.Seconds(), m.Name)
	add(memberCordoned, truth(m.Cordoned), m.Name)
	add(memberUnowned, float64(m.UnownedJobs), m.Name)
	add(memberOrphans, float64(m.Orphans), m.Name)
	if r := m.Room; r != nil {
		add(memberNodes, float64(r.Nodes), m.Name)
		add(memberCPU, r.Total.CPU, m.Name)
		add(memberFreeCPU, r.Free.CPU, m.Name)
		add(memberMemory, r.Total.Memory, m.Name)
		add(memberFreeMem, r.Free.Memory, m.Name)
		add(memberGPUs, r.Total.GPUs, m.Name)
		add(memberFreeGPUs, r.Free.GPUs, m.Name)
	}
}

func addSource(add func(gauge, float64, ...string), s *gauges.Source) {
	add(sourceReady, truth(s.Ready), s.Name)
	add(sourceStatus, 1, s.Name, s.Reason)
	add(sourceSuspended, truth(s.Suspended), s.Name)
	add(sourceProblems, float64(s.Problems), s.Name)
	add(sourceObjects, float64(s.Objects), s.Name)
	add(sourceApprovals, float64(s.Prune), s.Name, "prune")
	add(sourceApprovals, float64(s.Runs), s.Name, "runs")
	add(sourceInterval, s.Interval.Seconds(), s.Name)
	if !s.Read.IsZero() {
		add(sourceRead, float64(s.Read.UnixMilli())/1000, s.Name)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
