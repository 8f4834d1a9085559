package plan_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
)

// startingStatus is that of a run that is written ahead on alpine.
func startingStatus() *v1alpha1.FleetMiniClusterStatus {
	return &v1alpha1.FleetMiniClusterStatus{
		ObservedGeneration: 1, State: v1alpha1.StateStarting, Sync: v1alpha1.OutOfSync, Health: v1alpha1.Progressing, Digest: "d",
		Summary:   &v1alpha1.Summary{Clusters: "0/1", Pods: "0/2", Members: "alpine"},
		Placement: &v1alpha1.PlacementDecision{Digest: "d", Clusters: []string{"alpine"}, Wanted: 1},
		Clusters: []v1alpha1.ClusterStatus{{
			Name: "alpine", Sync: v1alpha1.OutOfSync, Health: v1alpha1.Progressing, Run: "aa", State: v1alpha1.RunStarting,
			Pods: v1alpha1.PodCounts{Desired: 2}, Reason: v1alpha1.ReasonRunStarted,
		}},
		Runs: []v1alpha1.Run{{ID: "aa", Cluster: "alpine", Digest: "d", State: v1alpha1.RunStarting, StartTime: at(0)}},
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing},
			{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonProgressing},
			{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHealthy},
		},
	}
}

// released is that status once the Job is released.
func released() *v1alpha1.FleetMiniClusterStatus {
	s := startingStatus()
	s.Sync, s.Summary.Clusters = v1alpha1.Synced, "1/1"
	c := &s.Clusters[0]
	c.Sync, c.State, c.Reason = v1alpha1.Synced, v1alpha1.RunRunning, ""
	s.Runs[0].State, s.Runs[0].JobUID = v1alpha1.RunRunning, "job-aa"
	meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionReconciling)
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSynced})
	return s
}

// A status waits where it only tells that Jobs which were written ahead are released, and how many of their pods run. What
// people or the next reconciliation act on is written at once.
func TestWhatCanWait(t *testing.T) {
	cases := map[string]struct {
		told, next *v1alpha1.FleetMiniClusterStatus
		change     func(*v1alpha1.FleetMiniClusterStatus) // of next
		want       bool
	}{
		"the Job is released":                {change: func(*v1alpha1.FleetMiniClusterStatus) {}, want: true},
		"and has some pods":                  {change: func(s *v1alpha1.FleetMiniClusterStatus) { s.Clusters[0].Pods.Active, s.Clusters[0].Pods.Ready = 2, 1 }, want: true},
		"more of its pods run than was told": {told: released(), change: func(s *v1alpha1.FleetMiniClusterStatus) { s.Clusters[0].Pods.Ready, s.Summary.Pods = 1, "1/2" }, want: true},
		"all of them run": {change: func(s *v1alpha1.FleetMiniClusterStatus) {
			s.State, s.Runs[0].RunningTime = v1alpha1.StateRunning, at(time.Second)
		}},
		"a pod has failed":           {change: func(s *v1alpha1.FleetMiniClusterStatus) { s.Clusters[0].Pods.Failed = 1 }},
		"why its pods are not ready": {change: func(s *v1alpha1.FleetMiniClusterStatus) { s.Clusters[0].Message = "ImagePullBackOff" }},
		"that was told, and is over": {told: told(func(s *v1alpha1.FleetMiniClusterStatus) { s.Clusters[0].Message = "no answer" }), change: func(*v1alpha1.FleetMiniClusterStatus) {}},
		"the member is not heard of": {change: func(s *v1alpha1.FleetMiniClusterStatus) { s.Clusters[0].Sync = v1alpha1.SyncUnknown }},
		"it is heard of again":       {told: told(func(s *v1alpha1.FleetMiniClusterStatus) { s.Clusters[0].Sync = v1alpha1.SyncUnknown }), change: func(*v1alpha1.FleetMiniClusterStatus) {}},
		"it is out of sync":          {told: released(), change: func(s *v1alpha1.FleetMiniClusterStatus) { s.Clusters[0].Sync = v1alpha1.OutOfSync }},
		"it is degraded":             {change: func(s *v1alpha1.FleetMiniClusterStatus) { s.Clusters[0].Health = v1alpha1.Degraded }},
		"the run has ended":          {change: func(s *v1alpha1.FleetMiniClusterStatus) { s.Runs[0].State = v1alpha1.RunFailed }},
		"the run is to be stopped":   {told: released(), change: func(s *v1alpha1.FleetMiniClusterStatus) { s.Runs[0].State = v1alpha1.RunStopping }},
		"the run is lost":            {change: func(s *v1alpha1.FleetMiniClusterStatus) { s.Runs[0].LostTime = at(time.Second) }},
		"the Job was not released":   {next: startingStatus(), change: func(s *v1alpha1.FleetMiniClusterStatus) { s.Runs[0].JobUID = "job-aa" }},
		"another Job":                {told: released(), change: func(s *v1alpha1.FleetMiniClusterStatus) { s.Runs[0].JobUID = "job-bb" }},
		"another run":                {change: func(s *v1alpha1.FleetMiniClusterStatus) { s.Runs = append(s.Runs, v1alpha1.Run{ID: "bb"}) }},
		"another member": {change: func(s *v1alpha1.FleetMiniClusterStatus) {
			s.Clusters = append(s.Clusters, v1alpha1.ClusterStatus{Name: "basalt"})
		}},
		"another placement":  {change: func(s *v1alpha1.FleetMiniClusterStatus) { s.Placement.Clusters = []string{"basalt"} }},
		"another generation": {change: func(s *v1alpha1.FleetMiniClusterStatus) { s.ObservedGeneration = 2 }},
		"a problem": {change: func(s *v1alpha1.FleetMiniClusterStatus) {
			s.Conditions[0] = metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPolicyDenied}
		}},
		"it is stalled": {change: func(s *v1alpha1.FleetMiniClusterStatus) {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled})
		}},
		"a request for a run answered": {change: func(s *v1alpha1.FleetMiniClusterStatus) { s.LastHandledRerunAt = "1" }},
		"nothing was told yet":         {told: &v1alpha1.FleetMiniClusterStatus{}, change: func(*v1alpha1.FleetMiniClusterStatus) {}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			told, next := c.told, c.next
			if told == nil {
				told = startingStatus()
			}
			if next == nil {
				next = released()
			}
			c.change(next)
			if got := plan.CanWait(told, next); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func told(change func(*v1alpha1.FleetMiniClusterStatus)) *v1alpha1.FleetMiniClusterStatus {
	s := startingStatus()
	change(s)
	return s
}
