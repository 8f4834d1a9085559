package membercluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/conditions/check"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

var (
	stateReady      = clusters.State{Ready: true, Reason: v1alpha1.ReasonConnected, UID: "cluster", Version: "v1.36.4"}
	stateAway       = clusters.State{Reason: v1alpha1.ReasonUnreachable, Message: "connection refused", UID: "cluster", LastHeard: noon.Add(-time.Minute)}
	stateConnecting = clusters.State{Reason: v1alpha1.ReasonConnecting, Message: "connecting"}
	stateForbidden  = clusters.State{Reason: v1alpha1.ReasonForbidden, Message: "pods is forbidden", UID: "cluster"}
	stateDuplicate  = clusters.State{Reason: v1alpha1.ReasonDuplicateCluster, Message: "this is basalt", UID: "other"}
)

func conditionOf(m *v1alpha1.MemberCluster, kind string) string {
	c := conditions.Get(m, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func TestReady(t *testing.T) {
	for name, tc := range map[string]struct {
		states []clusters.State
		want   string
	}{
		"first contact":              {[]clusters.State{stateConnecting}, "Unknown Connecting"},
		"connected":                  {[]clusters.State{stateConnecting, stateReady}, "True Connected"},
		"lost":                       {[]clusters.State{stateReady, stateAway}, "Unknown Unreachable"},
		"lost, connecting again":     {[]clusters.State{stateReady, stateAway, stateConnecting}, "Unknown Unreachable"},
		"connected, hub restarted":   {[]clusters.State{stateReady, stateConnecting}, "True Connected"},
		"cannot be used as it is":    {[]clusters.State{stateForbidden}, "False Forbidden"},
		"the same as another member": {[]clusters.State{stateDuplicate}, "False DuplicateCluster"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember()
			for _, state := range tc.states {
				setReady(m, state, noon)
			}
			if got := conditionOf(m, v1alpha1.ConditionReady); got != tc.want {
				t.Errorf("ready is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestIdentityIsRecordedOnce(t *testing.T) {
	m := newMember()
	setReady(m, stateDuplicate, noon)
	if m.Status.ClusterUID != "" {
		t.Error("the identity of a duplicate is recorded")
	}
	setReady(m, stateReady, noon)
	setReady(m, clusters.State{Reason: v1alpha1.ReasonWrongCluster, UID: "other"}, noon)
	if m.Status.ClusterUID != "cluster" || m.Status.Version != "v1.36.4" {
		t.Errorf("status %+v", m.Status)
	}
}

func TestCapacityIsForgottenWhenAMemberIsLost(t *testing.T) {
	m := newMember()
	known := stateReady
	known.Capacity = &v1alpha1.MemberCapacity{}
	setReady(m, known, noon)
	if setReady(m, stateReady, noon); m.Status.Capacity == nil {
		t.Error("while it is on its way, what was known is forgotten")
	}
	if setReady(m, stateAway, noon); m.Status.Capacity != nil {
		t.Error("the capacity of a lost member is still there")
	}
}

func TestLastHeard(t *testing.T) {
	early, at := metav1.NewTime(noon.Add(-time.Hour)), metav1.NewTime(noon.Add(-time.Minute))
	condition := func(status metav1.ConditionStatus) *metav1.Condition {
		return &metav1.Condition{Status: status, LastTransitionTime: early}
	}
	for name, tc := range map[string]struct {
		before *metav1.Time
		was    *metav1.Condition
		state  clusters.State
		want   *metav1.Time
	}{
		"answers":                             {&early, condition(metav1.ConditionTrue), stateReady, nil},
		"lost":                                {nil, condition(metav1.ConditionTrue), stateAway, &at},
		"lost again":                          {&early, condition(metav1.ConditionUnknown), stateAway, &at},
		"lost before a restart":               {&early, condition(metav1.ConditionUnknown), stateConnecting, &early},
		"ready before a restart":              {nil, condition(metav1.ConditionTrue), stateConnecting, &early},
		"never heard of":                      {nil, nil, stateConnecting, nil},
		"never heard of, as long as is known": {nil, condition(metav1.ConditionUnknown), stateConnecting, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lastHeard(tc.before, tc.was, tc.state)); diff != "" {
				t.Errorf("last heard (-want +got):\n%s", diff)
			}
		})
	}
}

// Since when a member is away is not moved by another error of the same kind.
func TestAnotherErrorIsNoTransition(t *testing.T) {
	m := newMember()
	setReady(m, stateAway, noon)
	other := stateAway
	other.Message = "no route to host"
	setReady(m, other, noon.Add(time.Hour))
	if c := conditions.Get(m, v1alpha1.ConditionReady); c.Message != other.Message || !c.LastTransitionTime.Time.Equal(noon) {
		t.Errorf("condition %+v", c)
	}
}

func TestDrained(t *testing.T) {
	live := []liveRun{{"hpc/m", "1"}}
	for name, tc := range map[string]struct {
		member  *v1alpha1.MemberCluster
		state   clusters.State
		drain   *drain
		removal removal
		want    string
		message string
	}{
		"a member that stays":                 {newMember(drainedBefore), stateReady, nil, removal{}, "", ""},
		"an annotation that is wrong":         {newMember(), stateReady, &drain{invalid: errors.New("soon is neither")}, removal{}, "False InvalidAnnotation", "soon is neither"},
		"live":                                {newMember(), stateReady, &drain{live: live}, removal{}, "False RunsLive", "1 run is live: hpc/m (run 1); being stopped now"},
		"live and away":                       {newMember(), stateAway, &drain{live: live}, removal{}, "False RunsLive", "annotation " + v1alpha1.AnnotationMemberGone},
		"live and deleted":                    {newMember(deleted(v1alpha1.DeletionBlock)), stateReady, &drain{live: live, deleting: true}, removal{}, "False RunsLive", "the deletion waits for that to end"},
		"live and deleted, drain":             {newMember(deleted(v1alpha1.DeletionDrain)), stateReady, &drain{live: live, deleting: true}, removal{}, "False RunsLive", "being stopped now"},
		"live, deleted and away":              {newMember(deleted(v1alpha1.DeletionDrain)), stateAway, &drain{live: live, deleting: true}, removal{}, "False RunsLive", "the deletion waits for the member to return"},
		"not certain":                         {newMember(), stateReady, &drain{}, removal{}, "", ""},
		"not certain, was drained":            {newMember(drainedBefore), stateReady, &drain{}, removal{}, "True Drained", "no run of MiniFleet is live there"},
		"connecting, was drained":             {newMember(drainedBefore), stateConnecting, &drain{live: live}, removal{}, "True Drained", "no run of MiniFleet is live there"},
		"connecting, live":                    {newMember(), stateConnecting, &drain{live: live}, removal{}, "False RunsLive", "being stopped now"},
		"done":                                {newMember(), stateReady, &drain{done: true}, removal{}, "True Drained", "no run of MiniFleet is live there"},
		"done, and something is left":         {newMember(), stateReady, &drain{done: true, deleting: true}, removal{remaining: "hpc/m is"}, "True Drained", "no run of MiniFleet is live there; hpc/m is"},
		"a wrong annotation while connecting": {newMember(drainedBefore), stateConnecting, &drain{invalid: errors.New("soon is neither")}, removal{}, "False InvalidAnnotation", "soon is neither"},
	} {
		t.Run(name, func(t *testing.T) {
			setDrained(tc.member, tc.state, tc.drain, tc.removal, noon)
			if got := conditionOf(tc.member, v1alpha1.ConditionDrained); got != tc.want {
				t.Errorf("drained is %q, want %q", got, tc.want)
			}
			if got := conditions.GetMessage(tc.member, v1alpha1.ConditionDrained); !strings.Contains(got, tc.message) {
				t.Errorf("message %q, want %q", got, tc.message)
			}
		})
	}
}

// Whatever comes after whatever, tools for kstatus understand the status.
func TestStatusesAreConsistent(t *testing.T) {
	states := map[string]clusters.State{"ready": stateReady, "away": stateAway, "connecting": stateConnecting, "forbidden": stateForbidden, "duplicate": stateDuplicate}
	drains := map[string]*drain{"stays": nil, "live": {live: []liveRun{{"hpc/m", "1"}}}, "done": {done: true}, "invalid": {invalid: errors.New("soon is neither")}}
	checker := check.NewChecker(nil, &check.Conditions{})
	checker.DisableFetch = true
	for before, state1 := range states {
		for after, state2 := range states {
			for name1, drain1 := range drains {
				for name2, drain2 := range drains {
					m := newMember()
					setReady(m, state1, noon)
					setDrained(m, state1, drain1, removal{}, noon)
					if state2.Reason != v1alpha1.ReasonConnecting {
						m.Generation++ // else nothing is known of the new generation yet, and what was known stays
					}
					setReady(m, state2, noon)
					setDrained(m, state2, drain2, removal{}, noon)
					if fail, warn := checker.Check(t.Context(), m); fail != nil || warn != nil {
						t.Errorf("%s %s, then %s %s: %v, %v", before, name1, after, name2, fail, warn)
					}
				}
			}
		}
	}
}

// A status is written when it has changed, and an event is sent when a reason has.
func TestReport(t *testing.T) {
	member := newMember()
	hub := newHub(t, member)
	r := newReconciler(hub, hub)
	otherError := stateAway
	otherError.Message = "no route to host"
	for i, step := range []struct {
		state  clusters.State
		drain  *drain
		events []string
		writes bool
	}{
		{stateReady, nil, []string{"Normal Connected "}, true},
		{stateReady, nil, nil, false},
		{stateAway, nil, []string{"Warning Unreachable connection refused"}, true},
		{otherError, nil, nil, true},
		{stateReady, &drain{live: []liveRun{{"hpc/m", "1"}}}, []string{"Normal Connected ", "Normal RunsLive runs are live there; condition Drained of MemberCluster alpine says more"}, true},
		{stateReady, &drain{done: true}, []string{"Normal Drained no run of MiniFleet is live there; condition Drained of MemberCluster alpine says more"}, true},
		{stateReady, &drain{done: true}, nil, false},
	} {
		before := get(t, hub, member)
		if err := r.report(t.Context(), before.DeepCopy(), step.state, step.drain, removal{}, nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.events, eventsOf(r)); diff != "" {
			t.Errorf("step %d: events (-want +got):\n%s", i, diff)
		}
		if after := get(t, hub, member); (after.ResourceVersion != before.ResourceVersion) != step.writes {
			t.Errorf("step %d: it was written: %v", i, !step.writes)
		}
	}
}

func get(t *testing.T, hub client.Client, member *v1alpha1.MemberCluster) *v1alpha1.MemberCluster {
	t.Helper()
	var out v1alpha1.MemberCluster
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(member), &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestSoonest(t *testing.T) {
	for want, delays := range map[time.Duration][]time.Duration{0: {0, 0}, 1: {0, 1, 2}, 2: {3, 0, 2}, 3: {3}} {
		if got := soonest(delays...); got != want {
			t.Errorf("%v: %d, want %d", delays, got, want)
		}
	}
	if got := (*drain)(nil).requeueAfter(); got != 0 {
		t.Errorf("no drain: %s", got)
	}
}
