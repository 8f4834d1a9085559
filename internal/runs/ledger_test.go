package runs_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

func on(cluster, id string, state v1alpha1.RunState) v1alpha1.Run {
	return v1alpha1.Run{ID: id, Cluster: cluster, State: state}
}

func TestLedger(t *testing.T) {
	l := runs.Ledger{
		on("alpine", "a", v1alpha1.RunSucceeded), on("basalt", "b", v1alpha1.RunRunning),
		on("alpine", "c", v1alpha1.RunStarting), on("cinder", "d", v1alpha1.RunFailed),
	}
	for cluster, want := range map[string]string{"alpine": "c", "basalt": "b", "cinder": "d"} {
		if got := l.Last(cluster); got == nil || got.ID != want {
			t.Errorf("the latest run on %s is %v, want %s", cluster, got, want)
		}
	}
	if got := l.Last("dolomite"); got != nil {
		t.Errorf("a member without runs has %v", got)
	}
	for id, want := range map[string]bool{"a": true, "b": false, "c": false, "d": true, "x": false, "": false} {
		if got := l.Ended(id); got != want {
			t.Errorf("run %q has ended: %t", id, got)
		}
	}
	if diff := cmp.Diff([]string{"basalt", "alpine"}, l.Live()); diff != "" {
		t.Error(diff)
	}
	if got := (runs.Ledger{}).Live(); len(got) != 0 {
		t.Errorf("an empty ledger has live runs on %v", got)
	}
}

func TestEndedRunsAreInsertedWhereTheyEnded(t *testing.T) {
	hour := func(r v1alpha1.Run, from, to int) v1alpha1.Run {
		start, end := metav1.Unix(int64(from)*3600, 0), metav1.Unix(int64(to)*3600, 0)
		r.StartTime, r.CompletionTime = &start, &end
		return r
	}
	l := runs.Ledger{
		hour(on("alpine", "a", v1alpha1.RunFailed), 1, 2), hour(on("basalt", "b", v1alpha1.RunFailed), 3, 4),
		hour(on("cinder", "c", v1alpha1.RunFailed), 5, 6),
	}
	cases := map[string]struct {
		run  v1alpha1.Run
		want string
	}{
		"before all":                  {hour(on("dolomite", "x", v1alpha1.RunSucceeded), 0, 0), "xabc"},
		"between others":              {hour(on("alpine", "x", v1alpha1.RunSucceeded), 2, 2), "axbc"},
		"after the latest of its own": {hour(on("basalt", "x", v1alpha1.RunSucceeded), 0, 0), "abxc"},
		"while another ran":           {hour(on("alpine", "x", v1alpha1.RunSucceeded), 5, 5), "abcx"},
		"nobody knows when":           {on("alpine", "x", v1alpha1.RunSucceeded), "abcx"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, r := range l.Insert(c.run, runs.Limits{}) {
				got += r.ID
			}
			if got != c.want {
				t.Errorf("%s", got)
			}
		})
	}
}

// Otherwise a placement would be told anew, in another order, once its runs have begun.
func TestKeepersStayInTheOrderOfThePlacement(t *testing.T) {
	current := func(cluster string) v1alpha1.Run {
		run := on(cluster, cluster, v1alpha1.RunRunning)
		run.Digest = "1"
		return run
	}
	l := runs.Ledger{current("alpine"), current("basalt"), current("cinder"), current("dolomite")}
	cases := map[string]struct{ chosen, want []string }{
		"as they were chosen":         {[]string{"dolomite", "cinder", "basalt", "alpine"}, []string{"dolomite", "cinder", "basalt", "alpine"}},
		"those not chosen come after": {[]string{"cinder"}, []string{"cinder", "alpine", "basalt", "dolomite"}},
		"none chosen":                 {nil, []string{"alpine", "basalt", "cinder", "dolomite"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, l.Keepers(runs.Wanted{Digest: "1"}, c.chosen)); diff != "" {
				t.Errorf("keepers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLedgerForgetsOnlyWhatHasEnded(t *testing.T) {
	var l runs.Ledger
	l = l.Add(on("quiet", "quiet", v1alpha1.RunSucceeded), runs.Limits{})
	l = l.Add(on("live", "live", v1alpha1.RunRunning), runs.Limits{})
	for i := range 3 * runs.KeepEnded {
		before := len(l)
		next := l.Add(on("busy", fmt.Sprint(i), v1alpha1.RunFailed), runs.Limits{})
		if len(l) != before {
			t.Fatal("the ledger that was added to has changed")
		}
		l = next
	}
	want := []string{"quiet", "live"}
	for i := 3*runs.KeepEnded - runs.KeepEnded - 1; i < 3*runs.KeepEnded; i++ {
		want = append(want, fmt.Sprint(i))
	}
	var got []string
	for _, r := range l {
		got = append(got, r.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLedgerLimits(t *testing.T) {
	five, none := int32(5), int32(0)
	count := func(l runs.Ledger, state v1alpha1.RunState) (n int) {
		for _, r := range l {
			if r.State == state {
				n++
			}
		}
		return n
	}
	tests := map[string]struct {
		limits            runs.Limits
		succeeded, failed int
	}{
		"none":             {runs.Limits{}, 5, 6},
		"of one kind":      {runs.Limits{Succeeded: &five}, 5, 10 + 1},
		"of both kinds":    {runs.Limits{Succeeded: &five, Others: &five}, 5, 5},
		"less than needed": {runs.Limits{Succeeded: &none, Others: &none}, 3, 3},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			var l runs.Ledger
			for i := range 20 {
				l = l.Add(on("alpine", fmt.Sprint("s", i), v1alpha1.RunSucceeded), test.limits)
				l = l.Add(on("alpine", fmt.Sprint("f", i), v1alpha1.RunFailed), test.limits)
			}
			if s, f := count(l, v1alpha1.RunSucceeded), count(l, v1alpha1.RunFailed); s != test.succeeded || f != test.failed {
				t.Errorf("%d that succeeded and %d that failed are held, want %d and %d", s, f, test.succeeded, test.failed)
			}
			if last := l.Last("alpine"); last.ID != "f19" {
				t.Errorf("the latest is %s", last.ID)
			}
		})
	}
}

func TestID(t *testing.T) {
	first := runs.ID("owner", "alpine", wanted(), nil)
	if first != runs.ID("owner", "alpine", wanted(suspend, removed, size(9), replace), nil) {
		t.Error("the id depends on more than what identifies a run")
	}
	if len(first) != 10 {
		t.Errorf("the id %q is not 10 digits long", first)
	}
	seen := map[string]string{first: "the first run"}
	for name, id := range map[string]string{
		"another owner":   runs.ID("other", "alpine", wanted(), nil),
		"another member":  runs.ID("owner", "basalt", wanted(), nil),
		"another digest":  runs.ID("owner", "alpine", wanted(digest("2")), nil),
		"a token":         runs.ID("owner", "alpine", wanted(token("t")), nil),
		"moved boundary":  runs.ID("ownera", "lpine", wanted(), nil),
		"after something": runs.ID("owner", "alpine", wanted(), line("a", v1alpha1.RunSucceeded)),
	} {
		if other, ok := seen[id]; ok {
			t.Errorf("%s has the id of %s", name, other)
		}
		seen[id] = name
	}
}

// Going back and forth between two digests names every run anew.
func TestIDThereAndBack(t *testing.T) {
	seen := map[string]bool{}
	var last *v1alpha1.Run
	for i := range 100 {
		w := wanted(digest(fmt.Sprint(i % 2)))
		id := runs.ID("owner", "alpine", w, last)
		if seen[id] {
			t.Fatalf("run %d has the id of an earlier one", i)
		}
		seen[id] = true
		last = line(id, v1alpha1.RunSucceeded)
	}
}
