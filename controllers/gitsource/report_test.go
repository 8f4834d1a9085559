package gitsource

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/conditions/check"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/changes"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// outcomes are those of reconciliations, with the status and reason of Ready that each leads to.
var outcomes = map[string]struct {
	done    func() progress
	err     error
	ready   string
	message string
}{
	"applied": {done: applies("a", "b"), ready: "True Succeeded", message: "applied revision main@0123456: 2 MiniClusters"},
	"a problem in a file": {
		done: with(applies("a"), func(p *progress) {
			p.tree.parsed.Problems = []parse.Problem{{Path: "b.yaml", Line: 3, Object: "MiniCluster/b", Field: "spec.size", Message: "is negative"}}
		}),
		ready: "False ProblemsFound", message: "b.yaml:3: MiniCluster/b: spec.size: is negative; everything else of revision main@0123456 is applied",
	},
	"several problems": {
		done: with(applies("a"), func(p *progress) {
			p.declared.problems = []v1alpha1.FileProblem{{Path: "a.yaml", Message: "is not allowed"}}
			p.tree.parsed.Problems = []parse.Problem{{Path: "b.yaml", Message: "is no YAML"}}
			p.applied.problems = []v1alpha1.FileProblem{{Path: "c.yaml", Message: "is refused"}}
		}),
		ready: "False ProblemsFound", message: "a.yaml: is not allowed (and 2 more, see status.problems); everything else of revision main@0123456 is applied",
	},
	"a warning": {
		done: with(applies("a"), func(p *progress) {
			p.tree.parsed.Problems = []parse.Problem{{Path: "a.yaml", Message: "is odd", Warning: true}}
		}),
		ready: "True Succeeded", message: "applied revision main@0123456: 1 MiniClusters",
	},
	"a prune that waits for approval": {
		done: with(applies("a"), func(p *progress) {
			p.pruned.blocked, p.plan.Prune.Why = []string{"FleetMiniCluster/b", "FleetMiniCluster/c"}, changes.WhyMany
		}),
		ready: "False PruneBlocked",
		message: "revision main@0123456 no longer declares FleetMiniCluster/b, FleetMiniCluster/c (so many objects at once); nothing was deleted. " +
			"If that is meant: kubectl -n hpc annotate --overwrite gitsource fleet minifleet.dev/approve-prune=" + fullCommit,
	},
	"runs that wait for approval": {
		done: with(applies("a", "b"), func(p *progress) {
			p.applied.blocked, p.plan.Runs.Why = []string{"FleetMiniCluster/a", "FleetMiniCluster/b"}, changes.WhyMany
		}),
		ready: "False RunsBlocked",
		message: "revision main@0123456 would run 2 MiniClusters anew that have run before (FleetMiniCluster/a, FleetMiniCluster/b); these were not updated. " +
			"If that is meant: kubectl -n hpc annotate --overwrite gitsource fleet minifleet.dev/approve-runs=" + fullCommit,
	},
	"a prune and runs that wait for approval": {
		done: with(applies("a", "b"), func(p *progress) {
			p.applied.blocked, p.pruned.blocked = []string{"FleetMiniCluster/a", "FleetMiniCluster/b"}, []string{"FleetMiniCluster/b", "FleetMiniCluster/c"}
			p.plan.Prune.Why, p.plan.Runs.Why = changes.WhyMany, changes.WhyMany
		}),
		ready: "False PruneBlocked",
		message: "revision main@0123456 no longer declares FleetMiniCluster/b, FleetMiniCluster/c (so many objects at once); nothing was deleted. " +
			"If that is meant: kubectl -n hpc annotate --overwrite gitsource fleet minifleet.dev/approve-prune=" + fullCommit,
	},
	"one that is still being deleted": {
		done:    with(applies("a", "b"), func(p *progress) { p.applied.deleting = []string{"FleetMiniCluster/a"} }),
		ready:   "False DeletionPending",
		message: "waits for the end of a deletion, to create anew: FleetMiniCluster/a; everything else of revision main@0123456 is applied",
	},
	"one that is still being deleted, and a problem": {
		done: with(applies("a", "b"), func(p *progress) {
			p.applied.deleting = []string{"FleetMiniCluster/a"}
			p.applied.problems = []v1alpha1.FileProblem{{Path: "c.yaml", Message: "is refused"}}
		}),
		ready:   "False ProblemsFound",
		message: "c.yaml: is refused; waits for the end of a deletion, to create anew: FleetMiniCluster/a; everything else of revision main@0123456 is applied",
	},
	"a prune that has not ended": {
		done:    with(applies("a"), func(p *progress) { p.pruned.pending = []string{"FleetMiniCluster/b"} }),
		ready:   "True Succeeded",
		message: "applied revision main@0123456: 1 MiniClusters; no longer declared, and still being deleted: FleetMiniCluster/b",
	},
	"runs of a source that has moved, which wait for approval": {
		done: with(applies("a"), func(p *progress) {
			p.applied.blocked, p.plan.Runs.Why = []string{"FleetMiniCluster/a"}, "spec.url has changed"
		}),
		ready: "False RunsBlocked",
		message: "revision main@0123456 would run 1 MiniClusters anew that have run before (FleetMiniCluster/a), and spec.url has changed; these were not updated. " +
			"If that is meant: kubectl -n hpc annotate --overwrite gitsource fleet minifleet.dev/approve-runs=" + fullCommit,
	},
	"a path that has disappeared": {
		done:  with(applies(), func(p *progress) { p.tree.pathProblem = "there is no directory x" }),
		ready: "False FetchFailed", message: "spec.path: there is no directory x",
	},
	"no credentials": {
		err: &sourceError{v1alpha1.ReasonSecretInvalid, "there is no Secret"}, ready: "False SecretInvalid", message: "there is no Secret",
	},
	"a server that is down": {
		err: fmt.Errorf("fetching: %w", &fetch.Error{Reason: v1alpha1.ReasonFetchFailed}), ready: "False FetchFailed",
	},
	"a hub that is down": {err: errors.New("etcd is down"), ready: "False ApplyFailed", message: "etcd is down"},
}

func applies(names ...string) func() progress {
	return func() progress { return progress{tree: treeOf(named(names...)...)} }
}

func with(done func() progress, change func(*progress)) func() progress {
	return func() progress {
		p := done()
		change(&p)
		return p
	}
}

func reportOn(source *v1alpha1.GitSource, name string) {
	tc := outcomes[name]
	var done progress
	if tc.done != nil {
		done = tc.done()
	}
	setStatus(source, done, tc.err, noon)
}

func readyOf(source *v1alpha1.GitSource) string {
	c := conditions.Get(source, v1alpha1.ConditionReady)
	return string(c.Status) + " " + c.Reason
}

func TestReady(t *testing.T) {
	for name, tc := range outcomes {
		t.Run(name, func(t *testing.T) {
			source := newSource()
			reportOn(source, name)
			if got := readyOf(source); got != tc.ready {
				t.Errorf("ready is %s, want %s", got, tc.ready)
			}
			if got := conditions.GetMessage(source, v1alpha1.ConditionReady); tc.message != "" && got != tc.message {
				t.Errorf("message (-want +got):\n%s", cmp.Diff(tc.message, got))
			}
		})
	}
}

// After each outcome, whichever came before, the status is one that tools for kstatus understand.
func TestStatusesAreConsistent(t *testing.T) {
	checker := check.NewChecker(nil, &check.Conditions{NegativePolarity: []string{v1alpha1.ConditionPruneBlocked, v1alpha1.ConditionRunsBlocked}})
	checker.DisableFetch = true
	for before := range outcomes {
		for after := range outcomes {
			t.Run(before+", then "+after, func(t *testing.T) {
				source := newSource()
				reportOn(source, before)
				source.Generation++
				reportOn(source, after)
				// What waits for approval still does while the repository cannot be read, and Ready says that first.
				if strings.HasSuffix(before, "for approval") && outcomes[after].err != nil {
					if !conditions.IsTrue(source, v1alpha1.ConditionPruneBlocked) && !conditions.IsTrue(source, v1alpha1.ConditionRunsBlocked) {
						t.Error("it is not known any more that something waits for approval")
					}
					return
				}
				if fail, warn := checker.Check(t.Context(), source); fail != nil || warn != nil {
					t.Errorf("%v, %v: %+v", fail, warn, source.Status.Conditions)
				}
			})
		}
	}
}

func TestWhatWasAppliedStaysInTheStatusAfterAnError(t *testing.T) {
	source := newSource()
	reportOn(source, "applied")
	reportOn(source, "a hub that is down")
	if source.Status.Revision != "main@0123456" || source.Status.MiniClusters != 2 {
		t.Errorf("status %+v", source.Status)
	}
	if got, want := conditions.GetMessage(source, v1alpha1.ConditionReady), "etcd is down; revision main@0123456 stays applied"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

func TestProblemsAreBoundedAndSafe(t *testing.T) {
	done := applies("a")()
	for i := range maxProblems + 5 {
		done.tree.parsed.Problems = append(done.tree.parsed.Problems,
			parse.Problem{Path: fmt.Sprintf("%d.yaml", i), Message: "\x1b[2J" + strings.Repeat("x", 1<<16)},
			parse.Problem{Path: "w.yaml", Warning: true})
	}
	source := newSource()
	setStatus(source, done, nil, noon)
	if got := source.Status; got.ProblemCount != maxProblems+5 || len(got.Problems) != maxProblems {
		t.Errorf("%d problems, %d of them listed", got.ProblemCount, len(got.Problems))
	}
	for _, p := range source.Status.Problems {
		if p.Warning || len(p.Message) > 1000 || strings.ContainsRune(p.Message, '\x1b') {
			t.Fatalf("problem %.60v", p)
		}
	}
}

// An event is sent for what has happened, and once for what is wrong.
func TestReportSendsEventsOfChanges(t *testing.T) {
	source := newSource()
	hub := newHub(t, source)
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Client: hub, Recorder: recorder, Now: func() time.Time { return noon }}
	done := applies("a")()
	done.applied.changed, done.pruned.deleted = []string{"FleetMiniCluster/a"}, []string{"FleetMiniCluster/b"}
	failed := errors.New("down")
	for i, step := range []struct {
		done progress
		err  error
		want []string
	}{
		{done, nil, []string{
			"Normal RevisionApplied revision main@0123456: applied FleetMiniCluster/a",
			"Normal Pruned revision main@0123456: deleted FleetMiniCluster/b, which it no longer declares",
		}},
		{applies("a")(), nil, nil},
		{progress{}, failed, []string{"Warning ApplyFailed down; revision main@0123456 stays applied"}},
		{progress{}, failed, nil},
		{applies("a")(), nil, nil},
		{outcomes["runs that wait for approval"].done(), nil, []string{"Warning RunsBlocked " + outcomes["runs that wait for approval"].message}},
		{outcomes["runs that wait for approval"].done(), nil, nil},
		{outcomes["a prune and runs that wait for approval"].done(), nil, []string{"Warning PruneBlocked " + outcomes["a prune that waits for approval"].message}},
		{applies("a")(), nil, nil},
		{outcomes["a prune and runs that wait for approval"].done(), nil, []string{
			"Warning PruneBlocked " + outcomes["a prune that waits for approval"].message, "Warning RunsBlocked " + outcomes["runs that wait for approval"].message,
		}},
		{outcomes["one that is still being deleted"].done(), nil, []string{"Normal DeletionPending " + outcomes["one that is still being deleted"].message}},
		{applies("a")(), nil, nil},
	} {
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(source), source); err != nil {
			t.Fatal(err)
		}
		if err := r.report(t.Context(), source, step.done, step.err); err != nil {
			t.Fatal(err)
		}
		var got []string
		for len(recorder.Events) > 0 {
			got = append(got, <-recorder.Events)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestSpread(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		got := spread(time.Hour)
		if got < 54*time.Minute || got > 66*time.Minute {
			t.Fatalf("%s is more than a tenth off", got)
		}
		seen[got] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d different ones of 100", len(seen))
	}
	if got := spread(0); got < 54*time.Second {
		t.Errorf("without an interval: %s", got)
	}
}

// What is no full hash approves nothing, and the question says so.
func TestApprovalsThatAreNoFullHash(t *testing.T) {
	command := "If that is meant: kubectl -n hpc annotate --overwrite gitsource fleet minifleet.dev/approve-prune=" + fullCommit
	for value, note := range map[string]string{
		"":                        "",
		strings.Repeat("f", 40):   "", // of an earlier commit
		"main@0123456":            `The annotation minifleet.dev/approve-prune is "main@0123456", which approves nothing: it has to be the full hash of the commit. `,
		fullCommit[:7]:            `is "0123456", which approves nothing`,
		"yes\n\x1b[2J":            "which approves nothing",
		strings.Repeat("a", 5000): "which approves nothing",
	} {
		source := newSource()
		source.Annotations = map[string]string{v1alpha1.AnnotationApprovePrune: value}
		got := approve(source, v1alpha1.AnnotationApprovePrune, fullCommit)
		if !strings.HasSuffix(got, command) || !strings.Contains(got, note) || note == "" && got != command || strings.ContainsAny(got, "\n\x1b") || len(got) > 400 {
			t.Errorf("%.20q: %q", value, got)
		}
	}
}
