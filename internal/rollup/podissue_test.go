package rollup_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
)

func withIssue(i fleet.PodIssue) func(*rollup.Member) {
	return func(m *rollup.Member) { m.PodIssue = &i }
}

var (
	pull   = fleet.PodIssue{Reason: "ImagePullBackOff", Message: "container lammps: not found", Pod: "lammps-3-x7k2p", Pods: 1}
	quota  = fleet.PodIssue{Reason: "FailedCreate", Message: "exceeded quota", Pods: 4}
	silent = fleet.PodIssue{Reason: v1alpha1.ReasonPodsNotReady, Pod: "p", Pods: 1}
)

func TestPodIssues(t *testing.T) {
	behind := runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonWaitingForCompletion, Message: "the MiniCluster has changed"}
	more := pull
	more.Pods = 3
	most := more
	most.AtLeast = true
	cases := map[string]struct {
		in     rollup.Input
		reason string // of a's line
		line   string
		ready  string
	}{
		"one pod": {
			input(member("a", running, withIssue(pull))), "ImagePullBackOff",
			"3 of 4 pods ready; lammps-3-x7k2p: ImagePullBackOff: container lammps: not found",
			"True Synced: running on a (3 of 4 pods ready; lammps-3-x7k2p: ImagePullBackOff: container lammps: not found)",
		},
		"some pods": {
			input(member("a", running, withIssue(more))), "ImagePullBackOff",
			"3 of 4 pods ready; lammps-3-x7k2p and 2 more: ImagePullBackOff: container lammps: not found",
			"True Synced: running on a (3 of 4 pods ready; lammps-3-x7k2p and 2 more: ImagePullBackOff: container lammps: not found)",
		},
		"many pods": {
			input(member("a", running, withIssue(most))), "ImagePullBackOff",
			"3 of 4 pods ready; lammps-3-x7k2p and at least 2 more: ImagePullBackOff: container lammps: not found",
			"True Synced: running on a (3 of 4 pods ready; lammps-3-x7k2p and at least 2 more: ImagePullBackOff: container lammps: not found)",
		},
		"no pods": {
			input(member("a", running, withIssue(quota), func(m *rollup.Member) { m.Job.Pods.Ready = 0 })), "FailedCreate",
			"0 of 4 pods ready; 4 not created: FailedCreate: exceeded quota",
			"True Synced: running on a (0 of 4 pods ready; 4 not created: FailedCreate: exceeded quota)",
		},
		"no message": {
			input(member("a", running, withIssue(silent), func(m *rollup.Member) { m.Job.Pods.Succeeded = 1; m.Job.Pods.Ready = 1 })), "PodsNotReady",
			"2 of 4 pods ready or done; p", "True Synced: running on a (2 of 4 pods ready or done; p)",
		},
		"on one of two": {
			input(member("b", running, withIssue(silent)), member("a", running)), "", "", "True Synced: running on a, b (3 of 4 pods ready; p)",
		},
		"on one of two, the other has completed": {
			input(member("a", running, withIssue(silent)), member("b", succeeded)), "PodsNotReady",
			"3 of 4 pods ready; p", "True Synced: running on a (3 of 4 pods ready; p); completed on b",
		},
		"on many": {
			input(member("a", running, withIssue(silent)), member("b", running, withIssue(silent)), member("c", running), member("d", running, withIssue(silent)),
				member("e", running, withIssue(silent)), member("f", running, withIssue(silent))), "PodsNotReady", "3 of 4 pods ready; p",
			"True Synced: running on a (3 of 4 pods ready; p), b (3 of 4 pods ready; p), c, d (3 of 4 pods ready; p), e, f; for 2 more see status.clusters",
		},
		"of a run that something newer waits for": {
			input(member("a", running, outdated, withIssue(pull), func(m *rollup.Member) { m.Step = behind })), v1alpha1.ReasonWaitingForCompletion,
			"the MiniCluster has changed; 3 of 4 pods ready; lammps-3-x7k2p: ImagePullBackOff: container lammps: not found",
			"False WaitingForCompletion: a: the MiniCluster has changed; 3 of 4 pods ready; lammps-3-x7k2p: ImagePullBackOff: container lammps: not found",
		},
		"of a run whose member was removed from the placement": {
			input(member("a", running, removed, withIssue(silent))), "PodsNotReady", "3 of 4 pods ready; p",
			"False Progressing: a is no longer in the placement, and its run is still live (3 of 4 pods ready; p)",
		},
		"of a run that has ended meanwhile": {
			input(member("a", succeeded, withIssue(pull))), v1alpha1.ReasonRunSucceeded, "its message", "True Succeeded: completed on a",
		},
		"on a member that is lost": {
			input(member("a", running, withIssue(pull), lost)), v1alpha1.ReasonMemberUnreachable, "no answer", "Unknown MemberUnreachable: a: no answer",
		},
		"on a member that has refused something": {
			input(member("a", running, withIssue(pull), conflict)), v1alpha1.ReasonConflict, "Job hpc/n already exists", "False NameConflict: a: Job hpc/n already exists",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := rollup.Status(c.in)
			line := s.Clusters[len(s.Clusters)-1]
			for _, l := range s.Clusters {
				if l.Name == "a" {
					line = l
				}
			}
			ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
			got := []string{line.Reason, line.Message, string(ready.Status) + " " + ready.Reason + ": " + ready.Message}
			if diff := cmp.Diff([]string{c.reason, c.line, c.ready}, got); diff != "" {
				t.Error(diff)
			}
			in := c.in
			in.Previous, in.Now = s, now.Add(time.Hour)
			if again := rollup.Status(in); !equality.Semantic.DeepEqual(s, again) {
				t.Errorf("the same again: %s", cmp.Diff(s, again))
			}
			in.Members[0].PodIssue = nil
			if after := rollup.Status(in); strings.Contains(after.Clusters[0].Message, "pods ready") {
				t.Errorf("it is over, and still told: %q", after.Clusters[0].Message)
			}
		})
	}
}

// Before the members are connected again, after a start of the hub, what was known stays.
func TestPodIssuesOfUnconnectedMembers(t *testing.T) {
	in := input(member("a", running, withIssue(pull)))
	before := rollup.Status(in)
	in = input(member("a", running, func(m *rollup.Member) { m.Connecting, m.Job = true, nil }))
	in.Previous = before
	if after := rollup.Status(in); !equality.Semantic.DeepEqual(before, after) {
		t.Error(cmp.Diff(before, after))
	}
}
