package changes

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

func TestNeedsApproval(t *testing.T) {
	for name, tc := range map[string]struct {
		pathProblem          string
		percent              int32
		undeclared, declared int
		want                 bool
	}{
		"nothing":                       {declared: 9, pathProblem: "there is no directory x"},
		"one of many":                   {undeclared: 1, declared: 9},
		"one of two":                    {undeclared: 1, declared: 1},
		"less than half":                {undeclared: 2, declared: 3},
		"half":                          {undeclared: 2, declared: 2, want: true},
		"most":                          {undeclared: 3, declared: 1, want: true},
		"the last one":                  {undeclared: 1, want: true},
		"the last one, whatever is set": {undeclared: 1, percent: 100, want: true},
		"the path has disappeared":      {undeclared: 1, declared: 9, pathProblem: "there is no directory x", want: true},
		"a fifth, which is much":        {undeclared: 2, declared: 8, percent: 20, want: true},
		"less than a fifth":             {undeclared: 2, declared: 9, percent: 20},
		"one, whatever is set":          {undeclared: 1, declared: 9, percent: 1},
		"all but one, which is little":  {undeclared: 9, declared: 1, percent: 100},
	} {
		in := inputOf(newSource(), nil)
		in.PathProblem, in.Source.Spec.Approval = tc.pathProblem, &v1alpha1.SourceApproval{PrunePercent: tc.percent}
		if got := pruneReason(&in, make([]string, tc.undeclared), tc.declared) != ""; got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestRunsNeedApproval(t *testing.T) {
	for name, tc := range map[string]struct {
		percent        int32
		anew, declared int
		want           bool
	}{
		"none":                   {declared: 9},
		"the only one":           {anew: 1, declared: 1},
		"one of two":             {anew: 1, declared: 2},
		"less than half":         {anew: 2, declared: 5},
		"half":                   {anew: 2, declared: 4, want: true},
		"all":                    {anew: 10, declared: 10, want: true},
		"a fifth, which is much": {anew: 2, declared: 10, percent: 20, want: true},
		"nine tenths":            {anew: 9, declared: 10, percent: 100},
	} {
		source, hub := newSource(), Hub{}
		source.Spec.Approval = &v1alpha1.SourceApproval{RunsPercent: tc.percent}
		var names []string
		for i := range tc.declared {
			f := onHub(fmt.Sprint("m", i), "fleet", "m.yaml")
			hub["FleetMiniCluster/"+f.Name] = f
			names = append(names, f.Name)
		}
		in := inputOf(source, hub, named(names...)...)
		if got := runsReason(&in, make([]string, tc.anew)) != ""; got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// What a commit creates does not make what it deletes and runs anew a smaller share, at the first attempt or later. Nor
// does another commit on top of it.
func TestQuestionsStay(t *testing.T) {
	names := func(prefix string, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint(prefix, i))
		}
		return out
	}
	keys := func(names []string) (out []string) {
		for _, name := range names {
			out = append(out, "FleetMiniCluster/"+name)
		}
		return out
	}
	old, added := names("old", 4), names("new", 9)
	declare := func(names []string, command string) (out []parse.Object) {
		for _, name := range names {
			out = append(out, running(name, command))
		}
		return out
	}
	for name, tc := range map[string]struct {
		objects     []parse.Object
		commit      string   // of what is added, where it is on the hub
		waited      []string // what waited at the time before
		prune, runs []string
	}{
		"most is replaced":                   {objects: declare(added, "one"), prune: old},
		"most is replaced, tried again":      {objects: declare(added, "one"), commit: fullCommit, prune: old},
		"most was, by a commit before":       {objects: declare(added, "one"), commit: "another", waited: old, prune: old},
		"some of that is put back":           {objects: declare(append(old[2:], added...), "one"), commit: "another", waited: old, prune: old[:2]},
		"all but one of that is put back":    {objects: declare(append(old[1:], added...), "one"), commit: "another", waited: old},
		"all of one that waited":             {objects: declare(append(old[1:], added...), "one"), commit: "another", waited: old[:1], prune: old[:1]},
		"little is deleted":                  {objects: declare(append(old[1:], added...), "one"), commit: "another"},
		"all run anew":                       {objects: append(declare(old, "two"), declare(added, "one")...), runs: old},
		"all run anew, tried again":          {objects: append(declare(old, "two"), declare(added, "one")...), commit: fullCommit, runs: old},
		"all run anew, by a commit before":   {objects: append(declare(old, "two"), declare(added, "one")...), commit: "another", waited: old, runs: old},
		"that was taken back, all but one":   {objects: append(declare(old[:1], "two"), declare(append(old[1:], added...), "one")...), commit: "another", waited: old},
		"a share is small with what came in": {objects: append(declare(old, "two"), declare(added, "one")...), commit: "another"},
	} {
		hub := Hub{}
		for _, n := range old {
			f := applyRunning(n, "one")
			ranFor(f, "one", "", v1alpha1.RunSucceeded)
			hub["FleetMiniCluster/"+n] = f
		}
		for _, n := range added {
			if tc.commit != "" {
				f := applyRunning(n, "one")
				f.Annotations[v1alpha1.AnnotationSourceCommit] = tc.commit
				hub["FleetMiniCluster/"+n] = f
			}
		}
		source := newSource()
		source.Status.Prune, source.Status.RunsAnew = keys(tc.waited), keys(tc.waited)
		plan := Compare(inputOf(source, hub, tc.objects...))
		if diff := cmp.Diff([][]string{keys(tc.prune), keys(tc.runs)}, [][]string{plan.Prune.Keys, plan.Runs.Keys}, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: prune and runs that wait (-want +got):\n%s", name, diff)
		}
	}
}
