package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/placement"
)

func reasons(d placement.Decision) map[string]string {
	out := map[string]string{}
	for _, r := range d.Rejected {
		out[r.Name] = r.Reason
	}
	return out
}

func tainted(name, key, value string, effect v1alpha1.TaintEffect) []placement.Candidate {
	out := slices.Clone(fleet)
	for i := range out {
		if out[i].Name == name {
			out[i].Taints = []v1alpha1.Taint{{Key: key, Value: value, Effect: effect}}
		}
	}
	return out
}

func TestNames(t *testing.T) {
	one := ptr.To[int32](1)
	cases := map[string]struct {
		spec     v1alpha1.PlacementSpec
		keep     []string
		clusters []string
		wanted   int
		rejected map[string]string
	}{
		"only those named": {
			v1alpha1.PlacementSpec{ClusterNames: []string{"cinder", "alpine"}}, nil, []string{"alpine", "cinder"}, 2,
			map[string]string{"basalt": "clusterNames does not name it"},
		},
		"named, and matching": {
			v1alpha1.PlacementSpec{ClusterNames: []string{"cinder", "alpine"}, ClusterSelector: labelled("gpu", "true")}, nil, []string{"alpine"}, 1,
			map[string]string{"basalt": "clusterNames does not name it", "cinder": "its labels do not match the selector gpu=true"},
		},
		"a name that nobody has is waited for": {
			v1alpha1.PlacementSpec{ClusterNames: []string{"alpine", "onyx"}}, nil, []string{"alpine"}, 2,
			map[string]string{
				"basalt": "clusterNames does not name it", "cinder": "clusterNames does not name it",
				"onyx": "there is no MemberCluster of this name that this namespace may use, which clusterNames asks for",
			},
		},
		"excluded": {
			v1alpha1.PlacementSpec{ExcludeClusterNames: []string{"basalt"}, ClusterNames: []string{"alpine", "basalt"}}, nil, []string{"alpine"}, 1,
			map[string]string{"basalt": "excludeClusterNames excludes it", "cinder": "clusterNames does not name it"},
		},
		"excluded, and kept": {
			v1alpha1.PlacementSpec{ExcludeClusterNames: []string{"basalt"}, NumberOfClusters: one}, []string{"basalt"}, []string{"basalt"}, 1,
			map[string]string{"alpine": "not needed: 1 of 1 chosen", "cinder": "not needed: 1 of 1 chosen"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, placement.Input{Candidates: fleet, Spec: c.spec, Keep: c.keep})
			if diff := cmp.Diff(c.clusters, slices.Sorted(slices.Values(d.Clusters))); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.rejected, reasons(d)); diff != "" {
				t.Error(diff)
			}
			if d.Wanted != c.wanted {
				t.Errorf("wanted %d, want %d", d.Wanted, c.wanted)
			}
		})
	}
}

func TestTaints(t *testing.T) {
	const key = "example.org/maintenance"
	exists := v1alpha1.Toleration{Key: key, Operator: v1alpha1.TolerateExists}
	cases := map[string]struct {
		effect      v1alpha1.TaintEffect
		tolerations []v1alpha1.Toleration
		prefer      []string
		keep        []string
		chosen      bool // cinder, of all
		first       bool // cinder, of one
	}{
		"NoSelect":                                {effect: v1alpha1.NoSelect},
		"NoSelect, chosen before":                 {effect: v1alpha1.NoSelect, prefer: []string{"cinder"}},
		"NoSelect, kept":                          {effect: v1alpha1.NoSelect, keep: []string{"cinder"}, chosen: true, first: true},
		"NoSelectIfNew":                           {effect: v1alpha1.NoSelectIfNew},
		"NoSelectIfNew, chosen before":            {effect: v1alpha1.NoSelectIfNew, prefer: []string{"cinder"}, chosen: true, first: true},
		"PreferNoSelect":                          {effect: v1alpha1.PreferNoSelect, chosen: true},
		"PreferNoSelect, chosen before":           {effect: v1alpha1.PreferNoSelect, prefer: []string{"cinder"}, chosen: true},
		"PreferNoSelect, tolerated":               {effect: v1alpha1.PreferNoSelect, prefer: []string{"cinder"}, tolerations: []v1alpha1.Toleration{exists}, chosen: true, first: true},
		"tolerated by key":                        {effect: v1alpha1.NoSelect, prefer: []string{"cinder"}, tolerations: []v1alpha1.Toleration{exists}, chosen: true, first: true},
		"tolerated by value":                      {effect: v1alpha1.NoSelect, prefer: []string{"cinder"}, tolerations: []v1alpha1.Toleration{{Key: key, Value: "spring"}}, chosen: true, first: true},
		"another value":                           {effect: v1alpha1.NoSelect, tolerations: []v1alpha1.Toleration{{Key: key, Value: "autumn"}}},
		"another key":                             {effect: v1alpha1.NoSelect, tolerations: []v1alpha1.Toleration{{Key: "other", Operator: v1alpha1.TolerateExists}}},
		"another effect":                          {effect: v1alpha1.NoSelect, tolerations: []v1alpha1.Toleration{{Key: key, Operator: v1alpha1.TolerateExists, Effect: v1alpha1.NoSelectIfNew}}},
		"everything tolerated":                    {effect: v1alpha1.NoSelect, prefer: []string{"cinder"}, tolerations: []v1alpha1.Toleration{{Operator: v1alpha1.TolerateExists}}, chosen: true, first: true},
		"an empty key tolerates nothing by value": {effect: v1alpha1.NoSelect, tolerations: []v1alpha1.Toleration{{Value: "spring"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := placement.Input{Candidates: tainted("cinder", key, "spring", c.effect), Prefer: c.prefer, Keep: c.keep}
			in.Spec.Tolerations = c.tolerations
			d := decide(t, in)
			if got := slices.Contains(d.Clusters, "cinder"); got != c.chosen {
				t.Errorf("of all: chosen %v, %v", d.Clusters, d.Rejected)
			}
			if !c.chosen {
				if diff := cmp.Diff(map[string]string{"cinder": "its taint " + key + "=spring:" + string(c.effect) + " is not tolerated"}, reasons(d)); diff != "" {
					t.Error(diff)
				}
				if d.Wanted != 2 {
					t.Errorf("a tainted member is waited for: %d", d.Wanted)
				}
			}
			in.Spec.NumberOfClusters = ptr.To[int32](1)
			if got := decide(t, in).Clusters; slices.Contains(got, "cinder") != c.first {
				t.Errorf("of one: chosen %v", got)
			}
		})
	}
}

func builtIn(p v1alpha1.Prioritizer, weight int32) v1alpha1.PrioritizerConfig {
	return v1alpha1.PrioritizerConfig{ScoreCoordinate: v1alpha1.ScoreCoordinate{Type: v1alpha1.ScoreBuiltIn, BuiltIn: p}, Weight: &weight}
}

func costs(label string, weight int32) v1alpha1.PrioritizerConfig {
	return v1alpha1.PrioritizerConfig{ScoreCoordinate: v1alpha1.ScoreCoordinate{Type: v1alpha1.ScoreLabel, Label: label}, Weight: &weight}
}

func TestScores(t *testing.T) {
	candidates := []placement.Candidate{
		{Name: "dear", Labels: map[string]string{"cost": "4"}},
		{Name: "cheap", Labels: map[string]string{"cost": "0.5"}, Runs: 4},
		{Name: "free", Labels: map[string]string{"cost": "0"}, Runs: 3},
		{Name: "odd", Labels: map[string]string{"cost": "low"}, Runs: 1},
		{Name: "negative", Labels: map[string]string{"cost": "-1"}, Runs: 1},
		{Name: "unknown", Runs: 2},
	}
	type score = map[string]int32
	cases := map[string]struct {
		mode   v1alpha1.PrioritizerPolicyMode
		config []v1alpha1.PrioritizerConfig
		prefer []string
		want   score
		why    map[string]string
	}{
		"by default where it was": {
			prefer: []string{"odd", "dear"}, want: score{"dear": 100, "cheap": 0, "free": 0, "odd": 100, "negative": 0, "unknown": 0},
			why: map[string]string{"odd": "Steady 100 (placed here before)", "free": "Steady 0"},
		},
		"exactly nothing": {
			mode: v1alpha1.PrioritizersExact, prefer: []string{"odd"},
			want: score{"dear": 0, "cheap": 0, "free": 0, "odd": 0, "negative": 0, "unknown": 0},
			why:  map[string]string{"odd": "no prioritizer has a weight"},
		},
		"balance and steady": {
			config: []v1alpha1.PrioritizerConfig{builtIn(v1alpha1.Balance, 2)}, prefer: []string{"cheap"},
			want: score{"dear": 200, "odd": 100, "negative": 100, "unknown": 0, "free": -100, "cheap": -100},
			why:  map[string]string{"free": "Balance 2×-50 (3 of at most 4 live runs), Steady 0"},
		},
		"cost alone": {
			mode: v1alpha1.PrioritizersExact, config: []v1alpha1.PrioritizerConfig{costs("cost", 1)}, prefer: []string{"dear"},
			want: score{"free": 100, "cheap": 75, "dear": -100, "odd": -100, "negative": -100, "unknown": -100},
			why: map[string]string{
				"cheap": "label cost 75 (0.5)", "odd": "label cost -100 (low is no number from 0 on)", "unknown": "label cost -100 (no such label)",
			},
		},
		"the dearest first": {
			mode: v1alpha1.PrioritizersExact, config: []v1alpha1.PrioritizerConfig{costs("cost", -1)},
			want: score{"free": -100, "cheap": -75, "dear": 100, "odd": 100, "negative": 100, "unknown": 100},
		},
		"a weight of 0 turns steady off": {
			config: []v1alpha1.PrioritizerConfig{builtIn(v1alpha1.Steady, 0), builtIn(v1alpha1.Balance, 1)}, prefer: []string{"cheap"},
			want: score{"dear": 100, "odd": 50, "negative": 50, "unknown": 0, "free": -50, "cheap": -100},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := placement.Input{Key: "k", Candidates: candidates, Prefer: c.prefer}
			in.Spec.PrioritizerPolicy = v1alpha1.PrioritizerPolicy{Mode: c.mode, Configurations: c.config}
			d := decide(t, in)
			got, last := score{}, int32(1000)
			for i, r := range d.Reasons {
				got[r.Name] = r.Score
				if r.Name != d.Clusters[i] || r.Score > last {
					t.Errorf("the scores do not explain the order: %v, %v", d.Clusters, d.Reasons)
				}
				last = r.Score
				if why, ok := c.why[r.Name]; ok && why != r.Reason {
					t.Errorf("%s: %q, want %q", r.Name, r.Reason, why)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRoom(t *testing.T) {
	type rooms = map[string]placement.Room
	free := func(cpu, memory, gpu int64) *placement.Free {
		return &placement.Free{CPU: cpu * 1000, Memory: memory << 30, GPU: gpu}
	}
	full := func(share float64) placement.Room { return placement.Room{Miss: "is full", Share: share} }
	cases := map[string]struct {
		rooms    rooms
		prefer   []string
		n        int32
		config   v1alpha1.Prioritizer
		clusters []string
		waiting  []string
		why      string // of the first
	}{
		"where there is room":       {rooms: rooms{"alpine": full(0), "cinder": full(0.9)}, n: 1, clusters: []string{"basalt"}},
		"nowhere":                   {rooms: rooms{"alpine": full(0.5), "basalt": full(0), "cinder": full(0.9)}, n: 1, waiting: []string{"cinder", "alpine", "basalt"}},
		"some of all":               {rooms: rooms{"alpine": full(0.5)}, clusters: []string{"basalt", "cinder"}, waiting: []string{"alpine"}},
		"preferred, but full":       {rooms: rooms{"alpine": full(0)}, prefer: []string{"alpine", "cinder"}, n: 1, clusters: []string{"cinder"}},
		"most CPU":                  {rooms: rooms{"alpine": {Free: free(8, 1, 1)}, "basalt": {Free: free(4, 2, 1)}, "cinder": {Free: free(2, 3, 2)}}, n: 1, config: v1alpha1.FreeCPU, clusters: []string{"alpine"}, why: "FreeCPU 10×100 (8 CPU free), Steady 0"},
		"most memory":               {rooms: rooms{"alpine": {Free: free(8, 1, 1)}, "basalt": {Free: free(4, 3, 1)}, "cinder": {Free: free(2, 2, 2)}}, n: 1, config: v1alpha1.FreeMemory, clusters: []string{"basalt"}, why: "FreeMemory 10×100 (3Gi memory free), Steady 0"},
		"most GPUs":                 {rooms: rooms{"alpine": {Free: free(8, 1, 1)}, "basalt": {Free: free(4, 3, 1)}, "cinder": {Free: free(2, 2, 2)}}, n: 1, config: v1alpha1.FreeGPU, clusters: []string{"cinder"}, why: "FreeGPU 10×100 (2 GPUs free), Steady 0"},
		"unknown is in the middle":  {rooms: rooms{"alpine": {Free: free(8, 1, 1)}, "basalt": {}, "cinder": {Free: free(2, 2, 2)}}, n: 2, config: v1alpha1.FreeCPU, clusters: []string{"alpine", "basalt"}},
		"a great score is no room":  {rooms: rooms{"alpine": {Free: free(8, 1, 1), Miss: "is full"}, "basalt": {Free: free(4, 3, 1)}, "cinder": {Free: free(2, 2, 2)}}, n: 1, config: v1alpha1.FreeCPU, clusters: []string{"basalt"}, why: "FreeCPU 10×0 (4 CPU free), Steady 0"},
		"steady is worth less here": {rooms: rooms{"alpine": {Free: free(8, 1, 1)}, "basalt": {Free: free(4, 3, 1)}, "cinder": {Free: free(2, 2, 2)}}, prefer: []string{"cinder"}, n: 1, config: v1alpha1.FreeCPU, clusters: []string{"alpine"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			asked := map[string]int{}
			in := placement.Input{Candidates: fleet, Prefer: c.prefer, Room: func(name string) placement.Room {
				asked[name]++
				return c.rooms[name]
			}}
			if c.n > 0 {
				in.Spec.NumberOfClusters = &c.n
			}
			if c.config != "" {
				in.Spec.PrioritizerPolicy.Configurations = []v1alpha1.PrioritizerConfig{builtIn(c.config, 10)}
			}
			d := decide(t, in)
			if diff := cmp.Diff(c.clusters, slices.Sorted(slices.Values(d.Clusters))); diff != "" {
				t.Error(diff)
			}
			var waiting []string
			for _, w := range d.Waiting {
				waiting = append(waiting, w.Name)
			}
			if diff := cmp.Diff(c.waiting, waiting); diff != "" {
				t.Error(diff)
			}
			if c.why != "" && d.Reasons[0].Reason != c.why {
				t.Errorf("%q, want %q", d.Reasons[0].Reason, c.why)
			}
			for name, n := range asked {
				if n > 1 {
					t.Errorf("%s was asked for %d times", name, n)
				}
			}
		})
	}
	in := placement.Input{Candidates: fleet, Keep: []string{"alpine"}, Spec: v1alpha1.PlacementSpec{NumberOfClusters: ptr.To[int32](1)}}
	in.Room = func(name string) placement.Room {
		t.Errorf("%s is asked for although nothing is to be chosen", name)
		return placement.Room{}
	}
	decide(t, in)
}

func TestReasonsOnRecordStay(t *testing.T) {
	kept := []v1alpha1.ClusterDecision{{Name: "basalt", Score: 42, Reason: "as it was"}}
	d := decide(t, placement.Input{Candidates: fleet, Keep: []string{"basalt", "cinder"}, Kept: kept, Spec: v1alpha1.PlacementSpec{NumberOfClusters: ptr.To[int32](2)}})
	want := []v1alpha1.ClusterDecision{kept[0], {Name: "cinder", Reason: "it has a run for this already"}}
	if diff := cmp.Diff(want, d.Reasons); diff != "" {
		t.Error(diff)
	}
}

// sited are members named SITE-N, and two without a site.
func sited(sizes map[string]int) []placement.Candidate {
	out := []placement.Candidate{{Name: "nowhere-0"}, {Name: "nowhere-1"}}
	for site, n := range sizes {
		for i := range n {
			out = append(out, placement.Candidate{Name: fmt.Sprintf("%s-%d", site, i), Labels: map[string]string{"site": site}})
		}
	}
	return out
}

func sites(names []string) map[string]int {
	out := map[string]int{}
	for _, n := range names {
		site, _, _ := strings.Cut(n, "-")
		out[site]++
	}
	return out
}

func TestSpread(t *testing.T) {
	all := sited(map[string]int{"north": 4, "south": 2, "west": 1})
	cases := map[string]struct {
		n      int32
		skew   int32
		action v1alpha1.UnsatisfiableMaxSkewAction
		keep   []string
		unfit  string
		want   map[string]int
		why    string // of one that was rejected
	}{
		"one each":            {n: 3, skew: 1, want: map[string]int{"north": 1, "south": 1, "west": 1}},
		"even, as far as can": {n: 5, skew: 1, want: map[string]int{"north": 2, "south": 2, "west": 1}},
		"anyway":              {n: 8, skew: 1, want: map[string]int{"north": 4, "south": 2, "west": 1, "nowhere": 1}},
		"kept ones count":     {n: 4, skew: 1, keep: []string{"north-0", "north-1"}, want: map[string]int{"north": 2, "south": 1, "west": 1}},
		"at most one apart": {n: 9, skew: 1, action: v1alpha1.DoNotSchedule, want: map[string]int{"north": 2, "south": 2, "west": 1},
			why: "one more with site=north would exceed maxSkew 1 (DoNotSchedule)"},
		"at most two apart": {n: 9, skew: 2, action: v1alpha1.DoNotSchedule, want: map[string]int{"north": 3, "south": 2, "west": 1},
			why: "it has no label site to spread over (DoNotSchedule)"},
		"a site that is unreachable counts": {n: 9, skew: 1, action: v1alpha1.DoNotSchedule, unfit: "west-0", want: map[string]int{"north": 1, "south": 1}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for key := range 20 {
				in := placement.Input{Key: fmt.Sprint(key), Candidates: slices.Clone(all), Keep: c.keep}
				for i := range in.Candidates {
					if in.Candidates[i].Name == c.unfit {
						in.Candidates[i].Unfit = "is unreachable"
					}
				}
				in.Spec.NumberOfClusters = &c.n
				in.Spec.SpreadPolicy.SpreadConstraints = []v1alpha1.SpreadConstraint{{TopologyKey: "site", MaxSkew: c.skew, WhenUnsatisfiable: c.action}}
				d := decide(t, in)
				if diff := cmp.Diff(c.want, sites(d.Clusters)); diff != "" {
					t.Fatal(diff)
				}
				if c.why != "" && !slices.ContainsFunc(d.Rejected, func(r v1alpha1.RejectedCluster) bool { return r.Reason == c.why }) {
					t.Fatalf("nobody was told %q: %v", c.why, d.Rejected)
				}
			}
		})
	}
}

// randomInput makes a fleet with taints, labels, runs and unfit members, and a placement on some of it.
func randomInput(r *rand.Rand) placement.Input {
	var in placement.Input
	in.Key = fmt.Sprint(r.Uint32())
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	effects := []v1alpha1.TaintEffect{v1alpha1.NoSelect, v1alpha1.PreferNoSelect, v1alpha1.NoSelectIfNew}
	for i := range r.IntN(12) {
		c := placement.Candidate{Name: fmt.Sprintf("m%d", i), Labels: map[string]string{"site": pick("n", "s", "w"), "cost": pick("1", "2", "x")}, Runs: r.IntN(5)}
		if r.IntN(4) == 0 {
			delete(c.Labels, "site")
		}
		if r.IntN(3) == 0 {
			c.Taints = []v1alpha1.Taint{{Key: pick("a", "b"), Effect: effects[r.IntN(3)]}}
		}
		if r.IntN(4) == 0 {
			c.Unfit, c.Unknown, c.Closed = "is unreachable", r.IntN(2) == 0, r.IntN(2) == 0
		}
		in.Candidates = append(in.Candidates, c)
	}
	name := func() string { return fmt.Sprintf("m%d", r.IntN(14)) }
	for range r.IntN(3) {
		if n := name(); !slices.Contains(in.Keep, n) {
			in.Keep = append(in.Keep, n)
		}
		in.Prefer = append(in.Prefer, name())
	}
	for range r.IntN(2) * r.IntN(6) {
		in.Spec.ClusterNames = append(in.Spec.ClusterNames, name())
	}
	slices.Sort(in.Spec.ClusterNames)
	in.Spec.ClusterNames = slices.Compact(in.Spec.ClusterNames)
	for range r.IntN(2) {
		in.Spec.ExcludeClusterNames = append(in.Spec.ExcludeClusterNames, name())
		in.Spec.Tolerations = append(in.Spec.Tolerations, v1alpha1.Toleration{Key: pick("a", "b"), Operator: v1alpha1.TolerateExists})
	}
	if r.IntN(3) > 0 {
		in.Spec.NumberOfClusters = ptr.To(int32(1 + r.IntN(5)))
	}
	for range r.IntN(3) {
		in.Spec.PrioritizerPolicy.Configurations = append(in.Spec.PrioritizerPolicy.Configurations,
			costs("cost", int32(r.IntN(21)-10)), builtIn(v1alpha1.Balance, int32(r.IntN(21)-10)))
	}
	if rooms := r.IntN(1 << 14); r.IntN(2) == 0 {
		in.Room = func(name string) placement.Room {
			var i int
			_, _ = fmt.Sscanf(name, "m%d", &i)
			out := placement.Room{Share: 1, Free: &placement.Free{CPU: int64(i), Memory: int64(rooms), GPU: int64(rooms % (i + 1))}}
			if rooms>>i&1 == 1 {
				out.Miss, out.Share = "is full", float64(i%4)/4
			}
			return out
		}
		in.Spec.PrioritizerPolicy.Configurations = append(in.Spec.PrioritizerPolicy.Configurations, builtIn(v1alpha1.FreeGPU, 1))
	}
	if r.IntN(2) == 0 && in.Spec.NumberOfClusters != nil {
		action := v1alpha1.ScheduleAnyway
		if r.IntN(2) == 0 {
			action = v1alpha1.DoNotSchedule
		}
		in.Spec.SpreadPolicy.SpreadConstraints = []v1alpha1.SpreadConstraint{{TopologyKey: "site", MaxSkew: int32(1 + r.IntN(2)), WhenUnsatisfiable: action}}
	}
	return in
}

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20000 {
		in := randomInput(r)
		d := decide(t, in)
		checkDecision(t, in, d)
		r.Shuffle(len(in.Candidates), func(i, j int) { in.Candidates[i], in.Candidates[j] = in.Candidates[j], in.Candidates[i] })
		if diff := cmp.Diff(d, decide(t, in)); diff != "" {
			t.Fatalf("the order of candidates matters: %s", diff)
		}
		if t.Failed() {
			t.Fatalf("%+v\n%+v", in, d)
		}
	}
}

// Whoever is chosen while members are not known yet would also be chosen if they were, whatever becomes known of
// them. And then nobody is waited for.
func TestKnowingMoreTakesNothingBack(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	awaited := 0
	for range 20000 {
		in := randomInput(r)
		in.Spec.SpreadPolicy = v1alpha1.SpreadPolicy{} // where the choice of one follows from that of others
		in.Spec.PrioritizerPolicy.Configurations = slices.DeleteFunc(in.Spec.PrioritizerPolicy.Configurations, func(c v1alpha1.PrioritizerConfig) bool {
			return c.ScoreCoordinate.BuiltIn == v1alpha1.FreeGPU
		})
		d := decide(t, in)
		if len(d.Awaited) == 0 {
			continue
		}
		awaited++
		known := in
		known.Candidates = slices.Clone(in.Candidates)
		for i := range known.Candidates {
			if c := &known.Candidates[i]; c.Unknown {
				c.Unknown = false
				if r.IntN(2) == 0 {
					c.Unfit = ""
				}
			}
		}
		after := decide(t, known)
		for _, name := range d.Clusters {
			if !slices.Contains(after.Clusters, name) && !slices.Contains(in.Prefer, name) {
				t.Fatalf("%s was chosen, and is not when more is known:\n%+v\n%+v\n%+v", name, in, d, after)
			}
		}
		if len(after.Awaited)+len(after.HeldBack) > 0 {
			t.Fatalf("it waits although all is known: %+v", after)
		}
	}
	if awaited < 500 {
		t.Errorf("only %d of the placements had to wait", awaited)
	}
}

func checkDecision(t *testing.T, in placement.Input, d placement.Decision) {
	t.Helper()
	if len(d.Clusters) < len(in.Keep) || !slices.Equal(d.Clusters[:len(in.Keep)], in.Keep) {
		t.Errorf("a member to keep is not kept: %v", d.Clusters)
	}
	if n := in.Spec.NumberOfClusters; n != nil && len(d.Clusters) > max(int(*n), len(in.Keep)) {
		t.Errorf("%d members are chosen, of %d", len(d.Clusters), *n)
	}
	seen := map[string]int{}
	for i, name := range d.Clusters {
		seen[name]++
		if d.Reasons[i].Name != name || d.Reasons[i].Reason == "" {
			t.Errorf("no reason for %s", name)
		}
	}
	for _, x := range d.Rejected {
		seen[x.Name]++
		if x.Reason == "" {
			t.Errorf("no reason against %s", x.Name)
		}
	}
	byName := map[string]placement.Candidate{}
	for _, c := range in.Candidates {
		byName[c.Name] = c
		if seen[c.Name] != 1 {
			t.Errorf("%s is told of %d times", c.Name, seen[c.Name])
		}
	}
	if len(d.Waiting) > 0 && len(d.Clusters) >= d.Wanted {
		t.Errorf("it waits for %v although %d of %d are chosen", d.Waiting, len(d.Clusters), d.Wanted)
	}
	nearest := 1.0
	for _, w := range d.Waiting {
		room := in.Room(w.Name)
		if w.Reason != room.Miss || room.Miss == "" || room.Share > nearest || !slices.Contains(d.Rejected, w) {
			t.Errorf("waiting for %v, of %v", w, d.Waiting)
		}
		nearest = room.Share
	}
	last := int32(1 << 30)
	for i, name := range d.Clusters[len(in.Keep):] {
		c := byName[name]
		if c.Unfit != "" && (!c.Unknown || !slices.Contains(in.Prefer, name)) {
			t.Errorf("%s is chosen although it is unfit", name)
		}
		if in.Room != nil && in.Room(name).Miss != "" {
			t.Errorf("%s is chosen although it has no room", name)
		}
		if slices.Contains(in.Spec.ExcludeClusterNames, name) || len(in.Spec.ClusterNames) > 0 && !slices.Contains(in.Spec.ClusterNames, name) {
			t.Errorf("%s is chosen although names exclude it", name)
		}
		score := d.Reasons[len(in.Keep)+i].Score
		if len(in.Spec.SpreadPolicy.SpreadConstraints) == 0 && len(c.Taints) == 0 {
			if score > last {
				t.Errorf("%s comes too low for its score of %d", name, score)
			}
			last = score
		}
	}
}
