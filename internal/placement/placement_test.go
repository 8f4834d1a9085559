package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/placement"
)

var fleet = []placement.Candidate{
	{Name: "alpine", Labels: map[string]string{"site": "north", "gpu": "true"}},
	{Name: "basalt", Labels: map[string]string{"site": "south", "gpu": "true"}},
	{Name: "cinder", Labels: map[string]string{"site": "south"}},
}

func labelled(kv ...string) metav1.LabelSelector {
	s := metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(kv); i += 2 {
		s.MatchLabels[kv[i]] = kv[i+1]
	}
	return s
}

func unfit(names ...string) []placement.Candidate {
	out := slices.Clone(fleet)
	for i := range out {
		if slices.Contains(names, out[i].Name) {
			out[i].Unfit = "is suspended"
		}
	}
	return out
}

func decide(t *testing.T, in placement.Input) placement.Decision {
	t.Helper()
	d, err := placement.Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDecide(t *testing.T) {
	const no = "its labels do not match the selector "
	type rejected = map[string]string
	one, two := ptr.To[int32](1), ptr.To[int32](2)
	cases := map[string]struct {
		in       placement.Input
		clusters []string // in any order
		wanted   int
		matching int
		rejected rejected
	}{
		"an empty selector takes all": {
			placement.Input{Candidates: fleet}, []string{"alpine", "basalt", "cinder"}, 3, 3, rejected{},
		},
		"a label": {
			placement.Input{Candidates: fleet, Spec: v1alpha1.PlacementSpec{ClusterSelector: labelled("gpu", "true")}},
			[]string{"alpine", "basalt"}, 2, 2, rejected{"cinder": no + "gpu=true"},
		},
		"two labels": {
			placement.Input{Candidates: fleet, Spec: v1alpha1.PlacementSpec{ClusterSelector: labelled("gpu", "true", "site", "south")}},
			[]string{"basalt"}, 1, 1, rejected{"alpine": no + "gpu=true,site=south", "cinder": no + "gpu=true,site=south"},
		},
		"an expression": {
			placement.Input{Candidates: fleet, Spec: v1alpha1.PlacementSpec{ClusterSelector: metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "gpu", Operator: metav1.LabelSelectorOpDoesNotExist}},
			}}},
			[]string{"cinder"}, 1, 1, rejected{"alpine": no + "!gpu", "basalt": no + "!gpu"},
		},
		"nothing matches": {
			placement.Input{Candidates: fleet[:1], Spec: v1alpha1.PlacementSpec{ClusterSelector: labelled("site", "moon")}},
			nil, 0, 0, rejected{"alpine": no + "site=moon"},
		},
		"no members": {placement.Input{}, nil, 0, 0, rejected{}},
		"more than there are": {
			placement.Input{Candidates: fleet, Spec: v1alpha1.PlacementSpec{NumberOfClusters: ptr.To[int32](5)}},
			[]string{"alpine", "basalt", "cinder"}, 5, 3, rejected{},
		},
		"an unfit member is not chosen, and still wanted": {
			placement.Input{Candidates: unfit("basalt")}, []string{"alpine", "cinder"}, 3, 3, rejected{"basalt": "is suspended"},
		},
		"all unfit": {
			placement.Input{Candidates: unfit("alpine", "basalt", "cinder"), Spec: v1alpha1.PlacementSpec{NumberOfClusters: one}},
			nil, 1, 3, rejected{"alpine": "is suspended", "basalt": "is suspended", "cinder": "is suspended"},
		},
		"preferred before others": {
			placement.Input{Candidates: fleet, Prefer: []string{"cinder", "alpine"}, Spec: v1alpha1.PlacementSpec{NumberOfClusters: two}},
			[]string{"alpine", "cinder"}, 2, 3, rejected{"basalt": "not needed: 2 of 2 chosen"},
		},
		"preferred in order": {
			placement.Input{Candidates: fleet, Prefer: []string{"cinder", "alpine"}, Spec: v1alpha1.PlacementSpec{NumberOfClusters: one}},
			[]string{"cinder"}, 1, 3, rejected{"alpine": "not needed: 1 of 1 chosen", "basalt": "not needed: 1 of 1 chosen"},
		},
		"preferred, but unfit": {
			placement.Input{Candidates: unfit("cinder"), Prefer: []string{"cinder", "alpine"}, Spec: v1alpha1.PlacementSpec{NumberOfClusters: one}},
			[]string{"alpine"}, 1, 3, rejected{"basalt": "not needed: 1 of 1 chosen", "cinder": "is suspended"},
		},
		"preferred, but not matching any more": {
			placement.Input{Candidates: fleet, Prefer: []string{"cinder"}, Spec: v1alpha1.PlacementSpec{ClusterSelector: labelled("site", "north")}},
			[]string{"alpine"}, 1, 1, rejected{"basalt": no + "site=north", "cinder": no + "site=north"},
		},
		"kept though unfit": {
			placement.Input{Candidates: unfit("basalt"), Keep: []string{"basalt"}, Spec: v1alpha1.PlacementSpec{NumberOfClusters: one}},
			[]string{"basalt"}, 1, 3, rejected{"alpine": "not needed: 1 of 1 chosen", "cinder": "not needed: 1 of 1 chosen"},
		},
		"kept though it matches no more": {
			placement.Input{Candidates: fleet, Keep: []string{"cinder"}, Spec: v1alpha1.PlacementSpec{ClusterSelector: labelled("gpu", "true"), NumberOfClusters: one}},
			[]string{"cinder"}, 1, 2, rejected{"alpine": "not needed: 1 of 1 chosen", "basalt": "not needed: 1 of 1 chosen"},
		},
		"kept though no longer registered": {
			placement.Input{Candidates: fleet[:1], Keep: []string{"deleted"}, Spec: v1alpha1.PlacementSpec{NumberOfClusters: one}},
			[]string{"deleted"}, 1, 1, rejected{"alpine": "not needed: 1 of 1 chosen"},
		},
		"kept though fewer are wanted": {
			placement.Input{Candidates: fleet, Keep: []string{"alpine", "basalt"}, Spec: v1alpha1.PlacementSpec{NumberOfClusters: one}},
			[]string{"alpine", "basalt"}, 1, 3, rejected{"cinder": "not needed: 2 of 1 chosen"},
		},
		"kept, and more wanted": {
			placement.Input{Candidates: unfit("cinder"), Keep: []string{"basalt"}, Spec: v1alpha1.PlacementSpec{NumberOfClusters: two}},
			[]string{"alpine", "basalt"}, 2, 3, rejected{"cinder": "is suspended"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, c.in)
			got := map[string]string{}
			for _, r := range d.Rejected {
				got[r.Name] = r.Reason
			}
			if diff := cmp.Diff(c.clusters, slices.Sorted(slices.Values(d.Clusters))); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.rejected, got); diff != "" {
				t.Error(diff)
			}
			if d.Wanted != c.wanted || d.Matching != c.matching {
				t.Errorf("wanted %d, matching %d", d.Wanted, d.Matching)
			}
			if !slices.IsSortedFunc(d.Rejected, func(a, b v1alpha1.RejectedCluster) int { return strings.Compare(a.Name, b.Name) }) {
				t.Errorf("rejected are not in order: %v", d.Rejected)
			}
		})
	}
}

// unknown are the members of the fleet, of which some are not known yet.
func unknown(names ...string) []placement.Candidate {
	out := unfit(names...)
	for i := range out {
		out[i].Unknown = out[i].Unfit != ""
	}
	return out
}

func TestPlacesAreKeptForMembersNotKnownYet(t *testing.T) {
	one, two := ptr.To[int32](1), ptr.To[int32](2)
	order := func(n *int32) v1alpha1.PlacementSpec { // by the label price
		return v1alpha1.PlacementSpec{NumberOfClusters: n, PrioritizerPolicy: v1alpha1.PrioritizerPolicy{
			Configurations: []v1alpha1.PrioritizerConfig{costs("price", 1)},
		}}
	}
	cost := func(cs []placement.Candidate) []placement.Candidate {
		for i := range cs {
			cs[i].Labels = map[string]string{"price": fmt.Sprint(i)}
		}
		return cs
	}
	full := func(names ...string) func(string) placement.Room {
		return func(name string) placement.Room {
			if slices.Contains(names, name) {
				return placement.Room{Miss: "is full"}
			}
			return placement.Room{Share: 1, Free: &placement.Free{CPU: int64(name[0])}}
		}
	}
	free := func(weight int32) v1alpha1.PlacementSpec {
		return v1alpha1.PlacementSpec{NumberOfClusters: one, PrioritizerPolicy: v1alpha1.PrioritizerPolicy{
			Configurations: []v1alpha1.PrioritizerConfig{builtIn(v1alpha1.FreeCPU, weight)},
		}}
	}
	cases := map[string]struct {
		in                                   placement.Input
		clusters, awaited, waiting, heldBack []string
	}{
		"the first is not known": {
			placement.Input{Candidates: cost(unknown("alpine")), Spec: order(one)}, nil, []string{"alpine"}, nil, []string{"basalt", "cinder"},
		},
		"the second is not, and one is wanted": {
			placement.Input{Candidates: cost(unknown("basalt")), Spec: order(one)}, []string{"alpine"}, nil, nil, nil,
		},
		"the second is not, and two are wanted": {
			placement.Input{Candidates: cost(unknown("basalt")), Spec: order(two)}, []string{"alpine"}, []string{"basalt"}, nil, []string{"cinder"},
		},
		"the first is not, and two are wanted": {
			placement.Input{Candidates: cost(unknown("alpine")), Spec: order(two)}, []string{"basalt"}, []string{"alpine"}, nil, []string{"cinder"},
		},
		"those before it are full": {
			placement.Input{Candidates: cost(unknown("cinder")), Spec: order(one), Room: full("alpine", "basalt")},
			nil, []string{"cinder"}, []string{"alpine", "basalt"}, nil,
		},
		"those behind it are full": {
			placement.Input{Candidates: cost(unknown("alpine")), Spec: order(one), Room: full("basalt", "cinder")},
			nil, []string{"alpine"}, []string{"basalt", "cinder"}, nil,
		},
		"all are wanted": {
			placement.Input{Candidates: cost(unknown("alpine")), Spec: order(nil)}, []string{"basalt", "cinder"}, []string{"alpine"}, nil, nil,
		},
		"it is there already": {
			placement.Input{Candidates: cost(unknown("alpine")), Keep: []string{"cinder"}, Spec: order(one)}, []string{"cinder"}, nil, nil, nil,
		},
		"it was placed on one that is not known": {
			placement.Input{Candidates: cost(unknown("alpine")), Prefer: []string{"alpine"}, Spec: order(one)}, []string{"alpine"}, nil, nil, nil,
		},
		"most may be free there": {
			placement.Input{Candidates: unknown("alpine"), Spec: free(1), Room: full()}, nil, []string{"alpine"}, nil, []string{"basalt", "cinder"},
		},
		"least may be free there": {
			placement.Input{Candidates: unknown("cinder"), Spec: free(-1), Room: full()}, nil, []string{"cinder"}, nil, []string{"alpine", "basalt"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, c.in)
			names := func(rs []v1alpha1.RejectedCluster) (out []string) {
				for _, r := range rs {
					out = append(out, r.Name)
				}
				return out
			}
			slices.Sort(d.HeldBack)
			for i, what := range []string{"clusters", "awaited", "waiting", "held back"} {
				want := [][]string{c.clusters, c.awaited, c.waiting, c.heldBack}[i]
				if diff := cmp.Diff(want, [][]string{d.Clusters, names(d.Awaited), names(d.Waiting), d.HeldBack}[i]); diff != "" {
					t.Error(what, diff)
				}
			}
		})
	}
}

func TestInvalidSelector(t *testing.T) {
	for name, s := range map[string]metav1.LabelSelector{
		"value":    labelled("site", "a b"),
		"operator": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}},
		"no value": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := placement.Decide(placement.Input{Candidates: fleet, Spec: v1alpha1.PlacementSpec{ClusterSelector: s}})
			if err == nil || !strings.HasPrefix(err.Error(), "clusterSelector: ") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func many(n int) []placement.Candidate {
	var out []placement.Candidate
	for i := range n {
		out = append(out, placement.Candidate{Name: fmt.Sprintf("m%02d", i)})
	}
	return out
}

func TestOrderOfCandidatesDoesNotMatter(t *testing.T) {
	in := placement.Input{Key: "k", Candidates: many(12), Prefer: []string{"m07"}, Keep: []string{"m03"}, Spec: v1alpha1.PlacementSpec{NumberOfClusters: ptr.To[int32](5)}}
	want := decide(t, in)
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		random.Shuffle(len(in.Candidates), func(i, j int) { in.Candidates[i], in.Candidates[j] = in.Candidates[j], in.Candidates[i] })
		before := slices.Clone(in.Candidates)
		if diff := cmp.Diff(want, decide(t, in)); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(before, in.Candidates); diff != "" {
			t.Fatal("the input has changed: " + diff)
		}
	}
}

// A member that is added or removed moves at most one place, and MiniClusters spread over the members.
func TestMovementAndSpread(t *testing.T) {
	all := many(20)
	count := map[string]int{}
	for k := range 400 {
		in := placement.Input{Key: fmt.Sprint(k), Candidates: all, Spec: v1alpha1.PlacementSpec{NumberOfClusters: ptr.To[int32](3)}}
		before := decide(t, in).Clusters
		for _, name := range before {
			count[name]++
		}
		removed := all[k%len(all)].Name
		in.Candidates = slices.DeleteFunc(slices.Clone(all), func(c placement.Candidate) bool { return c.Name == removed })
		after := decide(t, in).Clusters
		for _, name := range before {
			if name != removed && !slices.Contains(after, name) {
				t.Fatalf("%s was removed, and %v became %v", removed, before, after)
			}
		}
	}
	for _, c := range all {
		if n := count[c.Name]; n < 30 || n > 90 {
			t.Errorf("%s was chosen %d times of 1200 by 20", c.Name, n)
		}
	}
}
