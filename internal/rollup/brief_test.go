package rollup_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
)

// Ready tells the whole of it. Stalled and Reconciling, which tools for kstatus show alone, say briefly what it is about.
func TestStalledAndReconcilingAreBrief(t *testing.T) {
	for name, c := range cases {
		s := rollup.Status(c.in)
		ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
		for _, kind := range []string{v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling} {
			got := meta.FindStatusCondition(s.Conditions, kind)
			switch {
			case got == nil:
			case got.Reason != ready.Reason || got.Message == ready.Message:
				t.Errorf("%s: %s says what Ready says: %s", name, kind, got.Message)
			case len(got.Message) > 120 || !strings.HasSuffix(got.Message, "; see the condition Ready") || strings.HasPrefix(got.Message, ";"):
				t.Errorf("%s: %s: %q", name, kind, got.Message)
			}
		}
	}
}

// How a run has failed is told in its line of the ledger and by Ready, and nowhere else.
func TestFailuresAreToldOnce(t *testing.T) {
	const why = "pod lammps-0-x7k2p, container lammps, exit code 137, OOMKilled: out of memory"
	exit := func(code *int32, reason string) func(*rollup.Member) {
		return func(m *rollup.Member) {
			m.Run.Message = why
			m.Run.Exit = &v1alpha1.RunExit{Pod: "lammps-0-x7k2p", ExitCode: code, Reason: reason, Message: "out of memory"}
		}
	}
	again := func(m *rollup.Member) {
		m.Step = runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonRetryWaiting, Message: "retry 1 of 1 at 12:00:10 UTC"}
	}
	retried := func(in *rollup.Input) { in.Wanted.Retries = 1 }
	cases := map[string]struct {
		in                  rollup.Input
		ready, beside, line string
	}{
		"with an exit code": {
			input(member("a", failed, exit(ptr.To(int32(3)), "Error"))), "a: " + why, "a: failed with exit code 3", "failed with exit code 3; see status.runs",
		},
		"with an exit code and a reason": {
			input(member("a", failed, exit(ptr.To(int32(137)), "OOMKilled"))), "a: " + why, "a: failed with exit code 137 (OOMKilled)",
			"failed with exit code 137 (OOMKilled); see status.runs",
		},
		"without an exit code": {
			input(member("a", failed, exit(nil, "Evicted"))), "a: " + why, "a: failed (Evicted)", "failed (Evicted); see status.runs",
		},
		"how is not known": {input(member("a", failed)), "a: its message", "a: failed", "failed; see status.runs"},
		"to be tried again": {
			with(input(member("a", failed, exit(ptr.To(int32(3)), "Error"), again)), retried),
			"a: " + why + "; retry 1 of 1 at 12:00:10 UTC", "a: the last run has failed, and is to be tried again", "retry 1 of 1 at 12:00:10 UTC",
		},
		"about to be tried again": {
			with(input(member("a", failed, exit(ptr.To(int32(3)), "Error"))), retried), "a: " + why, "a: the last run has failed, and another one is about to start",
			"failed with exit code 3; see status.runs",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := rollup.Status(c.in)
			beside := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStalled)
			if beside == nil {
				beside = meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReconciling)
			}
			got := []string{meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady).Message, beside.Message, s.Clusters[0].Message}
			if diff := cmp.Diff([]string{c.ready, c.beside + "; see the condition Ready", c.line}, got); diff != "" {
				t.Error(diff)
			}
			c.in.Members[0].Connecting, c.in.Previous = true, s
			if again := rollup.Status(c.in); meta.FindStatusCondition(again.Conditions, v1alpha1.ConditionReady).Message != c.ready {
				t.Errorf("before its member is connected again: %+v", again.Conditions)
			}
		})
	}
}

// A line of the ledger that says nothing, such as one that was edited by hand, makes no empty message.
func TestLinesThatSayNothing(t *testing.T) {
	for state, want := range map[v1alpha1.RunState]string{
		failed: "a: failed", v1alpha1.RunCancelled: "a: run run-a was cancelled; to run again, set the annotation minifleet.dev/rerun-at",
		v1alpha1.RunReplaced: "a: replaced", succeeded: "completed on a",
	} {
		s := rollup.Status(input(member("a", state, func(m *rollup.Member) { m.Run.Message = "" })))
		if got := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady).Message; got != want || s.Clusters[0].Message == "" {
			t.Errorf("%s: %q, and the line says %q", state, got, s.Clusters[0].Message)
		}
	}
}
