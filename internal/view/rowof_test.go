package view_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/view"
)

// told is what a row says of how it is going.
type told struct {
	State, Sync, Health, Why string
	Since                    time.Duration // before noon
	Stale                    time.Duration
}

func TestRowOf(t *testing.T) {
	code := int32(42)
	cases := map[string]struct {
		object  *v1alpha1.FleetMiniCluster
		context view.Context
		want    told
	}{
		"new": {miniCluster(), view.Context{}, told{"Waiting", "Unknown", "Missing", "has not been placed yet", time.Hour, 0}},
		"waits for room": {
			miniCluster(state(v1alpha1.StateWaiting), waitsFor("alpine", "3 of 4 pods fit; node-7 lacks 2 CPU"), waitsFor("birch", "no room")),
			view.Context{}, told{"Waiting", "Unknown", "Missing", "alpine: 3 of 4 pods fit; node-7 lacks 2 CPU; no room on 1 more either", time.Hour, 0},
		},
		"waits for a Secret": {
			miniCluster(state(v1alpha1.StateWaiting), condition("Ready", "False", v1alpha1.ReasonReferenceMissing, "alpine: there is no Secret key")),
			view.Context{}, told{"Waiting", "Unknown", "Missing", "alpine: there is no Secret key", 5 * time.Minute, 0},
		},
		"runs": {
			miniCluster(state(v1alpha1.StateRunning), on("alpine", "a", v1alpha1.RunRunning)),
			view.Context{}, told{"Running", "Unknown", "Missing", "runs on alpine", 19 * time.Minute, 0},
		},
		"starts, and something holds pods up": {
			miniCluster(state(v1alpha1.StateStarting), on("alpine", "a", v1alpha1.RunRunning), line("alpine", func(c *v1alpha1.ClusterStatus) { c.Message = "2 of 4 pods ready; ImagePullBackOff" })),
			view.Context{}, told{"Starting", "Unknown", "Missing", "alpine: 2 of 4 pods ready; ImagePullBackOff", 20 * time.Minute, 0},
		},
		"succeeded": {
			miniCluster(state(v1alpha1.StateSucceeded), on("alpine", "a", v1alpha1.RunSucceeded), condition("Complete", "True", "RunSucceeded", "")),
			view.Context{}, told{"Succeeded", "Unknown", "Missing", "12 min on alpine", 5 * time.Minute, 0},
		},
		"succeeded on many": {
			miniCluster(state(v1alpha1.StateSucceeded), on("a", "1", v1alpha1.RunSucceeded), on("b", "2", v1alpha1.RunSucceeded), on("c", "3", v1alpha1.RunSucceeded),
				on("d", "4", v1alpha1.RunSucceeded, func(r *v1alpha1.Run) { r.CompletionTime = stamp(0) }), condition("Complete", "True", "RunSucceeded", "")),
			view.Context{}, told{"Succeeded", "Unknown", "Missing", "12 min to 19 min on 4 members", 5 * time.Minute, 0},
		},
		"succeeded before": {
			miniCluster(state(v1alpha1.StateSucceeded), on("alpine", "a", v1alpha1.RunSucceeded, func(r *v1alpha1.Run) {
				r.RestoredTime, r.Message = stamp(0), "succeeded before, as run a of revision main@1a2b3c4"
			}), condition("Complete", "True", "RunSucceeded", "")),
			view.Context{}, told{"Succeeded", "Unknown", "Missing", "succeeded before, as run a of revision main@1a2b3c4", 5 * time.Minute, 0},
		},
		"succeeded on a member that was lost since": {
			miniCluster(state(v1alpha1.StateSucceeded), on("alpine", "a", v1alpha1.RunSucceeded), condition("Complete", "True", "RunSucceeded", "")),
			losing("alpine"), told{"Succeeded", "Unknown", "Missing", "12 min on alpine", 5 * time.Minute, 10 * time.Minute},
		},
		"failed": {
			miniCluster(state(v1alpha1.StateFailed), on("alpine", "a", v1alpha1.RunFailed, func(r *v1alpha1.Run) { r.Exit = &v1alpha1.RunExit{ExitCode: &code, Message: "out of\ntea"} }),
				condition("Failed", "True", "RunFailed", "")),
			view.Context{}, told{"Failed", "Unknown", "Missing", "alpine: exit code 42: out of tea", 5 * time.Minute, 0},
		},
		"failed, says the hub": {
			miniCluster(state(v1alpha1.StateFailed), on("alpine", "a", v1alpha1.RunFailed, func(r *v1alpha1.Run) { r.Message = "its Job was deleted" }), on("birch", "b", v1alpha1.RunFailed)),
			view.Context{}, told{"Failed", "Unknown", "Missing", "alpine: its Job was deleted; failed on 1 more", time.Hour, 0},
		},
		"cancelled": {
			miniCluster(state(v1alpha1.StateCancelled), on("alpine", "a", v1alpha1.RunCancelled)),
			view.Context{}, told{"Cancelled", "Unknown", "Missing", "cancelled on alpine", time.Hour, 0},
		},
		"live on a member that is lost": {
			miniCluster(state(v1alpha1.StateRunning), on("alpine", "a", v1alpha1.RunRunning), func(f *v1alpha1.FleetMiniCluster) { f.Status.Sync, f.Status.Health = v1alpha1.Synced, v1alpha1.Healthy }),
			losing("alpine"), told{"Unknown", "Unknown", "Unknown", "no news from alpine; the run there may go on", 10 * time.Minute, 10 * time.Minute},
		},
		"live on a member that was lost when the status was made": {
			miniCluster(on("alpine", "a", v1alpha1.RunRunning), line("alpine", func(c *v1alpha1.ClusterStatus) { c.LastHeardTime = stamp(3 * time.Minute) })),
			view.Context{}, told{"Unknown", "Unknown", "Unknown", "no news from alpine; the run there may go on", 3 * time.Minute, 3 * time.Minute},
		},
		"held": {
			miniCluster(state(v1alpha1.StateSuspended), func(f *v1alpha1.FleetMiniCluster) { f.Annotations[v1alpha1.AnnotationHold] = "true" }),
			view.Context{}, told{"Suspended", "Unknown", "Missing", "held by a person (annotation minifleet.dev/hold)", time.Hour, 0},
		},
		"invalid": {
			miniCluster(state(v1alpha1.StateInvalid), condition("Stalled", "True", "InvalidSpec", "size: is negative")),
			view.Context{}, told{"Invalid", "Unknown", "Missing", "size: is negative", 5 * time.Minute, 0},
		},
		"being deleted": {
			miniCluster(state(v1alpha1.StateRunning), func(f *v1alpha1.FleetMiniCluster) { f.DeletionTimestamp = stamp(time.Minute) }, condition("Ready", "False", "Deleting", "waits for alpine")),
			view.Context{}, told{"Deleting", "Unknown", "Missing", "waits for alpine", time.Minute, 0},
		},
		"no state, and a run": {
			miniCluster(on("alpine", "a", v1alpha1.RunStarting)), view.Context{}, told{"Starting", "Unknown", "Missing", "starts on alpine", 20 * time.Minute, 0},
		},
		"no state, and complete": {
			miniCluster(on("alpine", "a", v1alpha1.RunSucceeded), condition("Complete", "True", "RunSucceeded", "")),
			view.Context{}, told{"Succeeded", "Unknown", "Missing", "12 min on alpine", 5 * time.Minute, 0},
		},
		"no state, and cancelled": {
			miniCluster(on("alpine", "a", v1alpha1.RunCancelled), condition("Failed", "True", "RunCancelled", "")),
			view.Context{}, told{"Cancelled", "Unknown", "Missing", "cancelled on alpine", 5 * time.Minute, 0},
		},
		"no state, and stalled": {
			miniCluster(condition("Stalled", "True", "InvalidSpec", "size: is negative")),
			view.Context{}, told{"Invalid", "Unknown", "Missing", "size: is negative", 5 * time.Minute, 0},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := view.RowOf(c.object, c.context)
			got := told{State: r.State, Sync: r.Sync, Health: r.Health, Why: r.Why, Since: noon.Sub(r.Since)}
			if r.StaleSince != nil {
				got.Stale = noon.Sub(*r.StaleSince)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever the text, a row is one line that steers nothing, and not long.
func TestHostileText(t *testing.T) {
	hostile := "\x1b[2J<script>\u202e\n" + strings.Repeat("x", 10000)
	f := miniCluster(state(v1alpha1.StateFailed), on("alpine", "a", v1alpha1.RunFailed, func(r *v1alpha1.Run) {
		r.Message, r.Revision, r.Exit = hostile, hostile, &v1alpha1.RunExit{Pod: hostile, Message: hostile, Reason: hostile, Container: hostile}
	}), condition("Ready", "False", "RunFailed", hostile), waitsFor("birch", hostile), func(f *v1alpha1.FleetMiniCluster) {
		f.Status.Revision = hostile
		f.Annotations[v1alpha1.AnnotationSourcePath] = hostile
	}, line("alpine", func(c *v1alpha1.ClusterStatus) { c.Message = hostile }))
	d := view.Detail(view.EntryOf(f, view.Context{}), view.Context{})
	texts := []string{
		d.Why, d.Commit.Revision, d.SourcePath, d.Conditions[0].Message, d.Runs[0].Message, d.Runs[0].Commit.Revision, d.Runs[0].Exit.Pod,
		d.Runs[0].Exit.Message, d.Runs[0].Exit.Reason, d.Runs[0].Exit.Container, d.OnMembers[0].Message, d.WaitingFor[0].Reason,
	}
	for i, text := range texts {
		if text == "" || len(text) > 4096 || strings.ContainsAny(text, "\x1b\n\u202e") {
			t.Errorf("%d: %.50q (%d bytes)", i, text, len(text))
		}
	}
	if len(d.Why) > 300 {
		t.Errorf("why has %d bytes", len(d.Why))
	}
}

func TestPodsAndMembers(t *testing.T) {
	f := miniCluster(on("alpine", "a", v1alpha1.RunRunning), on("birch", "b", v1alpha1.RunSucceeded), func(f *v1alpha1.FleetMiniCluster) {
		f.Status.Clusters = append(f.Status.Clusters, v1alpha1.ClusterStatus{Name: "cinder", Pods: v1alpha1.PodCounts{Desired: 9}})
		f.Status.Runs = append(f.Status.Runs, v1alpha1.Run{ID: "c", Cluster: "dune", State: v1alpha1.RunFailed})
	})
	r := view.RowOf(f, view.Context{})
	if diff := cmp.Diff(view.Pods{Desired: 8, Ready: 4, Succeeded: 4}, r.Pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"alpine", "birch", "cinder", "dune"}, r.Members); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if got := view.RowOf(miniCluster(func(f *v1alpha1.FleetMiniCluster) { f.Status.Placement = &v1alpha1.PlacementDecision{Wanted: 3} }), view.Context{}).Pods.Desired; got != 12 {
		t.Errorf("%d pods are wanted", got)
	}
}

func TestLength(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 45 * time.Second: "45 s", 90 * time.Second: "1 min 30 s", 12*time.Minute + 31*time.Second: "12 min", 200 * time.Minute: "3 h 20 min",
		time.Hour: "1 h", 52 * time.Hour: "2 d 4 h",
	} {
		if got := view.Length(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

func TestDetail(t *testing.T) {
	f := miniCluster(on("alpine", "b", v1alpha1.RunRunning, func(r *v1alpha1.Run) { r.Revision = "main@2222222" }), chosen("birch"), labelled("app", "x"), func(f *v1alpha1.FleetMiniCluster) {
		f.Status.Succeeded = []v1alpha1.EndedRun{{ID: "a", Cluster: "alpine", State: v1alpha1.RunSucceeded, Revision: "main@1111111", CompletionTime: stamp(time.Hour)}}
		f.Status.Placement.Decisions = []v1alpha1.ClusterDecision{{Name: "alpine", Score: 7, Reason: "most room", Overrides: []string{"gpus"}}}
		f.Status.Placement.Rejected = []v1alpha1.RejectedCluster{{Name: "cinder", Reason: "a taint"}}
	})
	known := &view.Commit{Revision: "main@2222222", Hash: "2222222aaa", Subject: "Use more ranks"}
	d := view.Detail(view.EntryOf(f, view.Context{}), view.Context{Commits: map[string]*view.Commit{"main@2222222": known}})
	var runs []string
	for _, r := range d.Runs {
		runs = append(runs, r.ID+" "+r.State+" "+r.Commit.Revision+" "+r.Commit.Subject)
	}
	if diff := cmp.Diff([]string{"b Running main@2222222 Use more ranks", "a Succeeded main@1111111 "}, runs); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	var members []string
	for _, m := range d.OnMembers {
		members = append(members, m.Member+" "+m.State+" "+m.Because+strings.Join(m.Overrides, ","))
	}
	if diff := cmp.Diff([]string{"alpine Running most roomgpus", "birch Waiting "}, members); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if d.Wanted != 2 || len(d.Rejected) != 1 || d.Labels["app"] != "x" || d.Size != 4 {
		t.Errorf("got %+v", d)
	}
}

// What a run does on a member that cannot be reached is not known; how one has ended stays.
func TestRunsOnLostMember(t *testing.T) {
	f := miniCluster(on("alpine", "b", v1alpha1.RunRunning), func(f *v1alpha1.FleetMiniCluster) {
		f.Status.Runs = append(f.Status.Runs, v1alpha1.Run{ID: "a", Cluster: "alpine", State: v1alpha1.RunSucceeded, CompletionTime: stamp(time.Hour)})
	})
	d := view.Detail(view.EntryOf(f, losing("alpine")), losing("alpine"))
	if d.Runs[1].State != "Unknown" || d.Runs[1].StaleSince == nil || d.Runs[0].State != "Succeeded" || d.Runs[0].StaleSince != nil {
		t.Errorf("got %+v", d.Runs)
	}
	if m := d.OnMembers[0]; m.State != "Unknown" || m.Sync != "Unknown" || m.Health != "Unknown" || m.StaleSince == nil {
		t.Errorf("got %+v", m)
	}
}
