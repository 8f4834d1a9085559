package gauges

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/view"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

func condition(kind string, status metav1.ConditionStatus, reason string, since time.Duration) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: ago(since)}
}

func miniCluster(change func(*v1alpha1.FleetMiniCluster)) v1alpha1.FleetMiniCluster {
	f := v1alpha1.FleetMiniCluster{}
	f.Namespace, f.Name, f.CreationTimestamp = "a", "a", ago(time.Hour)
	change(&f)
	return f
}

func waits(reason string) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) {
		f.Status.State = v1alpha1.StateWaiting
		f.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, time.Minute)}
	}
}

func TestMiniClustersAreCountedByWhatTheyWaitFor(t *testing.T) {
	for name, tc := range map[string]struct {
		object v1alpha1.FleetMiniCluster
		want   Class
		since  time.Duration
	}{
		"room": {miniCluster(waits(v1alpha1.ReasonInsufficientCapacity)), ForRoom, time.Minute},
		"room on a member that was chosen": {miniCluster(func(f *v1alpha1.FleetMiniCluster) {
			waits(v1alpha1.ReasonRunFailed)(f)
			f.Status.Placement = &v1alpha1.PlacementDecision{Waiting: []v1alpha1.RejectedCluster{{Name: "east"}}}
		}), ForRoom, time.Minute},
		"a member":              {miniCluster(waits(v1alpha1.ReasonMemberNotAsked)), ForMember, time.Minute},
		"members to choose":     {miniCluster(waits(v1alpha1.ReasonNotEnoughClusters)), ForPlacement, time.Minute},
		"a Secret":              {miniCluster(waits(v1alpha1.ReasonReferenceMissing)), ForReference, time.Minute},
		"a permission":          {miniCluster(waits(v1alpha1.ReasonPolicyDenied)), ForPermission, time.Minute},
		"the next attempt":      {miniCluster(waits(v1alpha1.ReasonRetryWaiting)), ForRetry, time.Minute},
		"another run":           {miniCluster(waits(v1alpha1.ReasonWaitingForCompletion)), ForRun, time.Minute},
		"something new":         {miniCluster(waits("Unheard")), ForOther, time.Minute},
		"its first observation": {miniCluster(func(*v1alpha1.FleetMiniCluster) {}), ForOther, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			got := Of(Input{MiniClusters: []v1alpha1.FleetMiniCluster{tc.object}, Now: noon})
			if w := got.Waiting[tc.want]; w.Count != 1 || w.Age(noon) != tc.since {
				t.Errorf("%+v", got.Waiting)
			}
			if len(got.Waiting) != len(Classes) || got.States[v1alpha1.StateWaiting] != 1 {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestEveryReasonToWaitForHasAClass(t *testing.T) {
	known := map[Class]bool{}
	for _, c := range Classes {
		known[c] = true
	}
	for reason, class := range classes {
		if !known[class] {
			t.Errorf("%s: %q is no class", reason, class)
		}
	}
}

func TestRunsAreCountedWhileTheyAreLive(t *testing.T) {
	f := miniCluster(func(f *v1alpha1.FleetMiniCluster) {
		f.Status.State, f.Status.Sync = v1alpha1.StateRunning, v1alpha1.OutOfSync
		f.Status.Runs = []v1alpha1.Run{
			{ID: "1", Cluster: "east", State: v1alpha1.RunSucceeded}, {ID: "2", Cluster: "east", State: v1alpha1.RunRunning},
			{ID: "3", Cluster: "west", State: v1alpha1.RunStopping},
		}
	})
	got := Of(Input{MiniClusters: []v1alpha1.FleetMiniCluster{f, f}, Now: noon})
	want := map[RunsOf]int{{"east", v1alpha1.RunRunning}: 2, {"west", v1alpha1.RunStopping}: 2}
	if diff := cmp.Diff(want, got.Runs); diff != "" || got.OutOfSync != 2 || got.States[v1alpha1.StateRunning] != 2 {
		t.Errorf("%s\n%+v", diff, got)
	}
}

func TestWhatMayBeLiveOnAnUnreachableMemberIsUnknown(t *testing.T) {
	f := miniCluster(func(f *v1alpha1.FleetMiniCluster) {
		f.Status.State = v1alpha1.StateRunning
		f.Status.Runs = []v1alpha1.Run{{ID: "2", Cluster: "east", State: v1alpha1.RunRunning}}
	})
	east := v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	got := Of(Input{MiniClusters: []v1alpha1.FleetMiniCluster{f}, Members: []v1alpha1.MemberCluster{east}, Now: noon})
	if got.States[v1alpha1.StateUnknown] != 1 || got.States[v1alpha1.StateRunning] != 0 {
		t.Errorf("%+v", got.States)
	}
}

func TestMembersTellTheirRoomAndTheirSilence(t *testing.T) {
	member := func(change func(*v1alpha1.MemberCluster)) v1alpha1.MemberCluster {
		m := v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", CreationTimestamp: ago(time.Hour)}}
		m.Status.Capacity = &v1alpha1.MemberCapacity{Nodes: 2, CPU: "1500m/8", Memory: "1Gi/2Gi", GPUs: "1/4"}
		change(&m)
		return m
	}
	heard := ago(20 * time.Minute)
	for name, tc := range map[string]struct {
		member v1alpha1.MemberCluster
		heard  time.Time
		want   Member
	}{
		"ready": {
			member: member(func(m *v1alpha1.MemberCluster) {
				m.Spec.Suspend = true
				m.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionTrue, v1alpha1.ReasonConnected, time.Hour)}
			}),
			want: Member{Name: "east", Ready: true, Reason: v1alpha1.ReasonConnected, Cordoned: true, Room: &view.Room{
				Nodes: 2, Free: view.Amount{CPU: 1.5, Memory: 1 << 30, GPUs: 1}, Total: view.Amount{CPU: 8, Memory: 2 << 30, GPUs: 4},
			}},
		},
		"away, as its connection knows": {
			member: member(func(m *v1alpha1.MemberCluster) {
				m.Status.LastHeardTime = &heard
				m.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, time.Minute)}
			}),
			heard: noon.Add(-5 * time.Minute),
			want:  Member{Name: "east", Reason: v1alpha1.ReasonUnreachable, Silence: 5 * time.Minute},
		},
		"away since before the hub was started": {
			member: member(func(m *v1alpha1.MemberCluster) {
				m.Status.LastHeardTime = &heard
				m.Status.Orphans = []v1alpha1.Orphan{{}}
				m.Status.UnownedJobs = []v1alpha1.UnownedJob{{}, {}}
				m.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, time.Minute)}
			}),
			want: Member{Name: "east", Reason: v1alpha1.ReasonUnreachable, Silence: 20 * time.Minute, Orphans: 1, UnownedJobs: 2},
		},
		"never reached": {
			member: member(func(*v1alpha1.MemberCluster) {}),
			want:   Member{Name: "east", Reason: v1alpha1.ReasonConnecting, Silence: time.Hour},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, memberOf(&tc.member, tc.heard, noon)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSourcesTellWhatWaitsForApproval(t *testing.T) {
	source := v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "science"}}
	source.Spec.Interval.Duration = time.Minute
	source.Status = v1alpha1.GitSourceStatus{
		ProblemCount: 3, InventoryCount: 7, Prune: []string{"FleetMiniCluster/a", "FleetMiniCluster/b"},
		Conditions: []metav1.Condition{
			condition("Ready", metav1.ConditionFalse, v1alpha1.ReasonPruneBlocked, time.Minute),
			condition(v1alpha1.ConditionPruneBlocked, metav1.ConditionTrue, v1alpha1.ReasonPruneBlocked, time.Minute),
		},
	}
	read := noon.Add(-time.Minute)
	got := Of(Input{Sources: []v1alpha1.GitSource{source}, Read: map[string]time.Time{"a/science": read}, Now: noon}).Sources
	want := []Source{{
		Name: "a/science", Reason: v1alpha1.ReasonPruneBlocked, Interval: time.Minute, Problems: 3, Objects: 7, Prune: 2, Read: read,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNobodyMakesAnyNumberOfSeries(t *testing.T) {
	var in Input
	for i := range 3 * MaxPlacements {
		for range 1 + i%2 {
			in.MiniClusters = append(in.MiniClusters, miniCluster(func(f *v1alpha1.FleetMiniCluster) {
				f.Spec.PlacementRef = &v1alpha1.LocalReference{Name: fmt.Sprintf("p-%d", i)}
			}))
		}
	}
	for i := range MaxSources + 5 {
		s := v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("s-%05d", i)}}
		if i < MaxSources {
			s.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionTrue, v1alpha1.ReasonSucceeded, time.Minute)}
		}
		in.Sources = append(in.Sources, s)
	}
	in.Now = noon
	got := Of(in)
	if len(got.Placements) != MaxPlacements || got.OmittedPlacements != 2*MaxPlacements {
		t.Errorf("%d Placements, %d omitted", len(got.Placements), got.OmittedPlacements)
	}
	for name, w := range got.Placements {
		if w.Count != 2 {
			t.Errorf("%s, for which fewer wait than for others, is told of", name)
		}
	}
	if len(got.Sources) != MaxSources || got.OmittedSources != 5 {
		t.Fatalf("%d sources, %d omitted", len(got.Sources), got.OmittedSources)
	}
	if first := got.Sources[0]; first.Ready {
		t.Errorf("sources that are not ready come first, and not %+v", first)
	}
}
