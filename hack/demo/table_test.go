package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// fleetOf is a MiniCluster of each kind that the table tells apart.
func fleetOf() []v1alpha1.FleetMiniCluster {
	named := func(name, placement string) v1alpha1.FleetMiniCluster {
		f := v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		f.Spec.PlacementRef = &v1alpha1.LocalReference{Name: placement}
		return f
	}
	ended := named("lammps", "south-all")
	start, end := metav1.NewTime(noon), metav1.NewTime(noon.Add(75*time.Second))
	ended.Status.Runs = []v1alpha1.Run{{ID: "r1", Cluster: "cinder", StartTime: &start, CompletionTime: &end}}
	ended.Status.Clusters = []v1alpha1.ClusterStatus{
		{
			Name: "cinder", Sync: v1alpha1.Synced, Run: "r1", State: v1alpha1.RunSucceeded,
			Pods: v1alpha1.PodCounts{Desired: 4, Succeeded: 4}, Message: "4 of 4 pods succeeded",
		},
		{
			Name: "basalt", Sync: v1alpha1.SyncUnknown, Run: "r2", State: v1alpha1.RunRunning,
			Pods: v1alpha1.PodCounts{Desired: 4, Active: 3, Ready: 2, Failed: 1}, Message: "not heard from",
		},
	}
	unplaced := named("amg", "nowhere")
	unplaced.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "NoClusterMatches", Message: "no member matches"},
	}
	return []v1alpha1.FleetMiniCluster{ended, unplaced}
}

func TestTableHasALinePerMiniClusterAndMember(t *testing.T) {
	want := `
MINICLUSTER  PLACEMENT  MEMBER  SYNC     RUN        PODS                            TOOK
amg          nowhere    -       -        -          -                               -      no member matches
lammps       south-all  basalt  Unknown  Running    1 pending, 2 running, 1 failed  -      not heard from
lammps       south-all  cinder  Synced   Succeeded  4 done                          1m15s
osu          -          -       -        -          -                               -`
	got := "\n" + strings.Join(newTable(fleetOf(), []string{"lammps", "osu"}).lines(), "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestChangesNameOnlyWhatIsNew(t *testing.T) {
	before := newTable(fleetOf(), []string{"osu"})
	fleet := fleetOf()
	fleet[0].Status.Clusters[1].Sync = v1alpha1.Synced
	fleet[0].Status.Clusters[1].Message = ""
	for name, c := range map[string]struct {
		since, now table
		want       []string
	}{
		"nothing has changed": {since: before, now: before},
		"a row has changed": {
			since: before, now: newTable(fleet, []string{"osu"}),
			want: []string{"lammps on basalt: Synced, Running, pods: 1 pending, 2 running, 1 failed"},
		},
		"all is new": {now: before, want: []string{
			"amg: no member matches",
			"lammps on basalt: Unknown, Running, pods: 1 pending, 2 running, 1 failed (not heard from)",
			"lammps on cinder: Synced, Succeeded, pods: 4 done",
			"osu: not placed yet",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.now.changes(c.since)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}
