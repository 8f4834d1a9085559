package queue_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/queue"
)

func TestMaxPriorityOf(t *testing.T) {
	problem := "annotation minifleet.dev/max-priority of the namespace is no whole number of 32 bits, so the highest priority that counts is 3"
	for value, want := range map[string]struct {
		highest int32
		problem string
	}{
		"7": {7, ""}, "-7": {-7, ""}, "0": {0, ""}, "2147483647": {1<<31 - 1, ""},
		"": {3, problem}, "high": {3, problem}, "2147483648": {3, problem}, "1.5": {3, problem}, " 1": {3, problem},
	} {
		highest, told := queue.MaxPriorityOf(map[string]string{v1alpha1.AnnotationMaxPriority: value}, 3)
		equal(t, want.highest, highest)
		equal(t, want.problem, told)
	}
	highest, told := queue.MaxPriorityOf(nil, 3)
	equal(t, 3, highest)
	equal(t, "", told)
}

func TestLimits(t *testing.T) {
	const where = " (spec.shares of MemberCluster alpine)"
	self := queue.Rank{Created: hour(9), Key: of("team", "self")}
	cores := func(limit string) v1alpha1.NamespaceShare {
		return share(1, map[corev1.ResourceName]string{"cpu": limit}, -1, "team")
	}
	gpus := func(g fit.Gang, n string) fit.Gang {
		return gang(g.Size, func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Requests["nvidia.com/gpu"] = quantity(n)
		})
	}
	cases := map[string]struct {
		shares  []v1alpha1.NamespaceShare
		live    map[string]fit.Gang // of team
		waiting []queue.Entry
		gang    fit.Gang
		want    string
		behind  string
	}{
		"no shares":                   {gang: gang(6)},
		"of another namespace":        {shares: []v1alpha1.NamespaceShare{share(1, map[corev1.ResourceName]string{"cpu": "1"}, 0, "other")}, gang: gang(6)},
		"within":                      {shares: []v1alpha1.NamespaceShare{cores("6")}, live: map[string]fit.Gang{"a": gang(4)}, gang: gang(2)},
		"beyond":                      {shares: []v1alpha1.NamespaceShare{cores("6")}, live: map[string]fit.Gang{"a": gang(4)}, gang: gang(3), want: "quota exceeded: it asks for 3 CPU; its namespace uses 4 CPU of the 6 CPU that it may use there" + where},
		"beyond, by itself":           {shares: []v1alpha1.NamespaceShare{cores("6")}, gang: gang(7), want: "quota exceeded: it asks for 7 CPU, and its namespace may use 6 CPU there" + where + ": it never fits there"},
		"beyond, with its services":   {shares: []v1alpha1.NamespaceShare{cores("6")}, gang: beside(gang(6), "1"), want: "quota exceeded: it asks for 7 CPU, and its namespace may use 6 CPU there" + where + ": it never fits there"},
		"all pods count, not minSize": {shares: []v1alpha1.NamespaceShare{cores("6")}, gang: full(gang(2), 7), want: "quota exceeded: it asks for 7 CPU, and its namespace may use 6 CPU there" + where + ": it never fits there"},
		"the first share that selects it counts": {
			shares: []v1alpha1.NamespaceShare{cores("6"), share(1, nil, 0, "team")}, gang: gang(6),
		},
		"runs": {
			shares: []v1alpha1.NamespaceShare{share(1, nil, 1, "team")}, live: map[string]fit.Gang{"a": gang(4)}, gang: gang(1),
			want: "quota exceeded: it asks for 1 run; its namespace uses 1 run of the 1 run that it may use there" + where,
		},
		"no runs at all": {
			shares: []v1alpha1.NamespaceShare{share(1, nil, 0, "team")}, gang: gang(1),
			want: "quota exceeded: it asks for 1 run, and its namespace may use 0 runs there" + where + ": it never fits there",
		},
		"GPUs": {
			shares: []v1alpha1.NamespaceShare{share(1, map[corev1.ResourceName]string{"nvidia.com/gpu": "4"}, -1, "team")}, live: map[string]fit.Gang{"a": gpus(gang(3), "1")},
			gang: gpus(gang(1), "2"),
			want: "quota exceeded: it asks for 2 nvidia.com/gpu; its namespace uses 3 nvidia.com/gpu of the 4 nvidia.com/gpu that it may use there" + where,
		},
		"GPUs, and it wants none": {
			shares: []v1alpha1.NamespaceShare{share(1, map[corev1.ResourceName]string{"nvidia.com/gpu": "4"}, -1, "team")}, live: map[string]fit.Gang{"a": gpus(gang(4), "1")},
			gang: gang(1),
		},
		"pods": {
			shares: []v1alpha1.NamespaceShare{share(1, map[corev1.ResourceName]string{"pods": "4"}, -1, "team")}, live: map[string]fit.Gang{"a": gang(3)},
			gang: gang(2), want: "quota exceeded: it asks for 2 pods; its namespace uses 3 pods of the 4 pods that it may use there" + where,
		},
		"memory that is not requested": {
			shares: []v1alpha1.NamespaceShare{share(1, map[corev1.ResourceName]string{"memory": "4Gi"}, -1, "team")}, gang: gang(1),
			want: "quota exceeded: its pods request no memory, which is limited for its namespace" + where + ": it never fits there; set requests",
		},
		"kept for one that comes first": {
			shares: []v1alpha1.NamespaceShare{cores("6")}, live: map[string]fit.Gang{"a": gang(2)}, waiting: []queue.Entry{entry("first", 0, 1, gang(4), in("team"))}, gang: gang(1),
			want:   "quota exceeded: it asks for 1 CPU; its namespace uses 2 CPU of the 6 CPU that it may use there" + where + ", and 4 CPU of it are kept for those of the namespace that come first",
			behind: "first",
		},
		"not for one that comes after":  {shares: []v1alpha1.NamespaceShare{cores("6")}, waiting: []queue.Entry{entry("after", 0, 11, gang(6), in("team"))}, gang: gang(1)},
		"nor for one that never fits":   {shares: []v1alpha1.NamespaceShare{cores("6")}, waiting: []queue.Entry{entry("never", 0, 1, gang(7), in("team"))}, gang: gang(1)},
		"nor for one of another":        {shares: []v1alpha1.NamespaceShare{cores("6")}, live: map[string]fit.Gang{"a": gang(5)}, waiting: []queue.Entry{entry("other", 0, 1, gang(7), in("other"), elsewhere)}, gang: gang(1)},
		"a selector that is none":       {shares: []v1alpha1.NamespaceShare{selecting("Near")}, gang: gang(1), want: "spec.shares[0].namespaces.selector of MemberCluster alpine is no valid label selector: nothing new begins there until it is one"},
		"a selector that selects it":    {shares: []v1alpha1.NamespaceShare{selecting("In")}, gang: gang(1), want: "quota exceeded: it asks for 1 run, and its namespace may use 0 runs there" + where + ": it never fits there"},
		"a selector that does not":      {shares: []v1alpha1.NamespaceShare{selecting("NotIn")}, gang: gang(1)},
		"an empty selector selects all": {shares: []v1alpha1.NamespaceShare{selecting("")}, gang: gang(1), want: "quota exceeded: it asks for 1 run, and its namespace may use 0 runs there" + where + ": it never fits there"},
	}
	known := newMember(node("n", "64", nil))
	known.SetNode(withGPUs(node("n", "64", nil), "8"))
	rooms := map[string]*nodeusage.Room{"known": known.Room(), "not observed": {State: nodeusage.Unknown}}
	for name, tc := range cases {
		for state, room := range rooms {
			t.Run(name+", room "+state, func(t *testing.T) {
				q := waiting(tc.waiting...)
				q.SetNamespace("team", queue.Namespace{Labels: map[string]string{"team": "physics"}})
				q.SetShares(shared("alpine", 1, tc.shares...))
				for name, g := range tc.live {
					q.Update(of("team", name), reservations{"alpine": {Run: runA, Gang: g}}, nil)
				}
				q.Update(of("other", "live"), reservations{"alpine": {Run: runB, Gang: gang(1)}}, nil)
				got := q.View("alpine", room, self.Key).Check(tc.gang, self)
				equal(t, tc.want, got.Blocked)
				equal(t, tc.want != "", got.Quota)
				equal(t, tc.behind, got.Behind.Name)
				equal(t, true, got.Fits)
				e := queue.Entry{Rank: self, Gangs: map[string]fit.Gang{"alpine": tc.gang}, Reconciled: hour(12), Behind: map[string]queue.Key{"alpine": got.Behind}}
				q.Update(self.Key, nil, &e)
				affected := false
				for _, k := range q.Affected("alpine", room, hour(12)) {
					affected = affected || k == self.Key
				}
				equal(t, tc.want == "", affected)
				for _, s := range q.Line("alpine", room, 10).Standings {
					if s.Key == self.Key {
						equal(t, tc.want, s.Fit.Blocked)
					}
				}
			})
		}
	}
}

// Requests so large that their sum cannot be counted are not taken for small ones.
func TestLimitsOfMoreThanCanBeCounted(t *testing.T) {
	q, self := queue.New(), queue.Rank{Key: of("team", "self")}
	q.SetShares(shared("alpine", 1, share(1, map[corev1.ResourceName]string{"cpu": "6"}, -1, "team")))
	for name, g := range map[string]fit.Gang{
		"many pods":         gang(1<<31-1, cpu("9000000000000000")),
		"2^64 millicores":   gang(1, cpu("18446744073709552")),
		"and of services":   beside(gang(1<<31-1, cpu("9000000000000000")), "9000000000000000"),
		"2^31 pods of 2^33": gang(1<<31-1, cpu("8589934592")),
	} {
		v := q.View("alpine", &nodeusage.Room{State: nodeusage.Unknown}, self.Key)
		if !v.Check(g, self).Quota {
			t.Errorf("%s are within the limits", name)
		}
	}
}

// What exceeds its limits holds up nobody else, however early it comes.
func TestLimitsHoldUpNobodyElse(t *testing.T) {
	full := newMember(node("n", "8", nil))
	full.schedule("", "n", "6")
	for name, tc := range map[string]struct {
		share v1alpha1.NamespaceShare
		first string
	}{
		"it waits for its room":    {share(1, nil, 1, "a"), "a1"},
		"it waits for its limits":  {share(1, nil, 1, "a", "b"), ""},
		"it never fits into those": {share(1, map[corev1.ResourceName]string{"cpu": "3"}, -1, "a"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			q := waiting(entry("a1", 0, 1, gang(8), in("a")))
			q.SetShares(shared("alpine", 1, tc.share))
			if name == "it waits for its limits" {
				q.Update(of("a", "live"), reservations{"alpine": {Run: runA, Gang: gang(0)}}, nil)
			}
			self := queue.Rank{Created: hour(9), Key: of("c", "self")}
			got := q.View("alpine", full.Room(), self.Key).Check(gang(2), self)
			equal(t, tc.first, got.Behind.Name)
		})
	}
}

// What keeps it back frees it: a run that ends, pods that have succeeded, other limits, and another label.
func TestLimitsThatChange(t *testing.T) {
	self := queue.Rank{Created: hour(9), Key: of("team", "self")}
	room := &nodeusage.Room{State: nodeusage.Unknown}
	four := map[corev1.ResourceName]string{"cpu": "4"}
	for name, change := range map[string]func(q *queue.Queue){
		"a run has ended": func(q *queue.Queue) { q.Release(of("team", "live")) },
		"pods have succeeded": func(q *queue.Queue) {
			q.Update(of("team", "live"), reservations{"alpine": {Run: runA, Gang: gang(4), Succeeded: 2}}, nil)
		},
		"a higher limit": func(q *queue.Queue) {
			q.SetShares(shared("alpine", 2, share(1, map[corev1.ResourceName]string{"cpu": "6"}, -1, "team")))
		},
		"no shares": func(q *queue.Queue) { q.SetShares(shared("alpine", 2)) },
		"registered anew": func(q *queue.Queue) {
			m := shared("alpine", 1)
			m.UID = "anew"
			q.SetShares(m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := queue.New()
			q.SetShares(shared("alpine", 1, share(1, four, -1, "team")))
			q.Update(of("team", "live"), reservations{"alpine": {Run: runA, Gang: gang(4)}}, nil)
			equal(t, true, q.View("alpine", room, self.Key).Check(gang(2), self).Quota)
			change(q)
			equal(t, "", q.View("alpine", room, self.Key).Check(gang(2), self).Blocked)
		})
	}

	q := queue.New()
	q.SetShares(shared("alpine", 1, selecting("In")))
	e := queue.Entry{Rank: self, Gangs: map[string]fit.Gang{"alpine": gang(1)}}
	q.Update(self.Key, nil, &e)
	v := q.View("alpine", room, self.Key)
	equal(t, "", v.Check(gang(1), self).Blocked)
	equal(t, []string{"alpine"}, q.SetNamespace("team", queue.Namespace{Labels: map[string]string{"team": "physics"}}))
	equal(t, false, q.Reserve(self.Key, []queue.Request{request(v, gang(1))})) // it was decided by the limits before
	equal(t, true, q.View("alpine", room, self.Key).Check(gang(1), self).Quota)
	equal(t, nil, q.SetNamespace("team", queue.Namespace{Labels: map[string]string{"team": "physics"}}))
}

func TestSharesThatAreOlderAreNotTaken(t *testing.T) {
	q := queue.New()
	equal(t, false, q.SetShares(shared("alpine", 1)))
	equal(t, true, q.SetShares(shared("alpine", 3, share(1, nil, 0, "team"))))
	equal(t, false, q.SetShares(shared("alpine", 3, share(1, nil, 0, "team"))))
	equal(t, false, q.SetShares(shared("alpine", 2)))
	self := queue.Rank{Key: of("team", "self")}
	equal(t, true, q.View("alpine", &nodeusage.Room{State: nodeusage.Unknown}, self.Key).Check(gang(1), self).Quota)
}

// A live run gets as many more pods as its namespace may have.
func TestGrowth(t *testing.T) {
	self := queue.Rank{Created: hour(9), Key: of("team", "self")}
	for name, tc := range map[string]struct {
		shares []v1alpha1.NamespaceShare
		others int
		want   int
		told   bool
	}{
		"no limits":          {nil, 0, 4, false},
		"within":             {[]v1alpha1.NamespaceShare{share(1, map[corev1.ResourceName]string{"cpu": "6"}, 1, "team")}, 0, 4, false},
		"some of them":       {[]v1alpha1.NamespaceShare{share(1, map[corev1.ResourceName]string{"cpu": "6"}, -1, "team")}, 1, 3, false},
		"none":               {[]v1alpha1.NamespaceShare{share(1, map[corev1.ResourceName]string{"cpu": "6"}, -1, "team")}, 4, 0, true},
		"runs are no matter": {[]v1alpha1.NamespaceShare{share(1, nil, 1, "team")}, 0, 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			q := queue.New()
			q.SetShares(shared("alpine", 1, tc.shares...))
			q.Update(self.Key, reservations{"alpine": {Run: runA, Gang: gang(2)}}, nil)
			if tc.others > 0 {
				q.Update(of("team", "live"), reservations{"alpine": {Run: runB, Gang: gang(tc.others)}}, nil)
			}
			got, told := q.View("alpine", &nodeusage.Room{State: nodeusage.Unknown}, self.Key).Growth(gang(2), 4, self)
			equal(t, tc.want, got)
			equal(t, tc.told, told != "")
		})
	}
}

// Nothing that is told to one names another namespace, or anything in it.
func TestTurnNamesNobodyElse(t *testing.T) {
	full := newMember(node("n", "8", nil))
	full.schedule("", "n", "4")
	q := waiting(entry("secret", 0, 1, gang(8), in("other")))
	self := queue.Rank{Priority: 1000, Created: hour(9), Key: key("self")}
	q.SetNamespace("hpc", queue.Namespace{MaxPriority: 0})
	got := q.View("alpine", full.Room(), self.Key).Check(gang(1), self)
	equal(t, of("other", "secret"), got.Behind)
	equal(t, "room there is kept for a run of another namespace, which waits for it and comes first; "+
		"its priority 1000 counts as 0 among other namespaces (annotation minifleet.dev/max-priority of its namespace)", got.Blocked)

	// Which of them comes first is no news for its status.
	e := queue.Entry{Rank: self, Gangs: map[string]fit.Gang{"alpine": gang(1)}, Reconciled: hour(12), Behind: map[string]queue.Key{"alpine": of("third", "x")}}
	q.Update(self.Key, nil, &e)
	equal(t, nil, q.Affected("alpine", full.Room(), hour(12)))
}

// The remainders of the nodes that the first waits for are open to those behind it.
func TestBackfill(t *testing.T) {
	gpus := func(n string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests["nvidia.com/gpu"] = quantity(n) }
	}
	m := newMember(withGPUs(node("n", "64", nil), "8"))
	m.schedule(runA, "n", "8", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = quantity("7") })
	first := entry("first", 0, 1, gang(1, cpu("16"), gpus("8")), in("a"))
	second := entry("second", 0, 1, gang(1, cpu("4"), gpus("1")), in("a"), func(e *queue.Entry) { e.Behind = map[string]queue.Key{"alpine": first.Key} })
	self := queue.Rank{Created: hour(9), Key: of("b", "self")}
	for name, tc := range map[string]struct {
		line     []queue.Entry
		reserved []fit.Gang
		gang     fit.Gang
		begins   bool
	}{
		"within the remainder": {[]queue.Entry{first}, nil, gang(6, cpu("8")), true},
		"beyond it":            {[]queue.Entry{first}, nil, gang(7, cpu("8")), false},
		"within it now, and beyond it with minSize": {[]queue.Entry{first}, nil, full(gang(6, cpu("8")), 7), false},
		"beside another that is about to start":     {[]queue.Entry{first}, []fit.Gang{gang(3, cpu("8"))}, gang(4, cpu("8")), false},
		"beside another, and still within it":       {[]queue.Entry{first}, []fit.Gang{gang(3, cpu("8"))}, gang(3, cpu("8")), true},
		"what the second may need beside the first": {[]queue.Entry{first, second}, nil, gang(6, cpu("8")), true},
		"GPUs": {[]queue.Entry{first}, nil, gang(1, cpu("1"), gpus("1")), false},
	} {
		t.Run(name, func(t *testing.T) {
			q := waiting(tc.line...)
			for i, g := range tc.reserved {
				q.Update(of("c", string(rune('a'+i))), reservations{"alpine": {Run: runB, Gang: g}}, nil)
			}
			equal(t, tc.begins, q.View("alpine", m.Room(), self.Key).Check(tc.gang, self).Blocked == "")
			e := queue.Entry{Rank: self, Gangs: map[string]fit.Gang{"alpine": tc.gang}, Reconciled: hour(12), Behind: map[string]queue.Key{"alpine": first.Key}}
			q.Update(self.Key, nil, &e)
			got := names(q.Affected("alpine", m.Room(), hour(12)))
			equal(t, tc.begins, len(got) == 1 && got[0] == "self")
		})
	}
}

// A thousand that might fill gaps cost no more than a hundred, and each is told when it is reconciled.
func TestBackfillOfMany(t *testing.T) {
	m := newMember(node("n", "64", nil))
	m.schedule(runA, "n", "8")
	first := entry("first", 0, 1, gang(1, cpu("60")))
	q := waiting(first)
	for i := range 1000 { // by itself each takes none of the 60 of 64 that the first wants
		e := entry(fmt.Sprint(i), 0, 2+i/100, gang(1, cpu(fmt.Sprintf("%dm", 2000+i))), func(e *queue.Entry) { e.Behind = map[string]queue.Key{"alpine": first.Key} })
		q.Update(e.Key, nil, &e)
	}
	if n := len(q.Affected("alpine", m.Room(), hour(12))); n == 0 || n > 100 {
		t.Errorf("%d may begin", n)
	}
	self := queue.Rank{Priority: 1, Created: hour(11), Key: key("self")}
	q.Update(first.Key, nil, &queue.Entry{Rank: queue.Rank{Priority: 9, Key: first.Key}, Gangs: first.Gangs})
	equal(t, "", q.View("alpine", m.Room(), self.Key).Check(gang(1, cpu("3")), self).Blocked)
}

// full is a gang that begins with fewer pods than it will have.
func full(g fit.Gang, pods int) fit.Gang {
	g.Full = pods
	return g
}

func withGPUs(n *corev1.Node, gpus string) *corev1.Node {
	n.Status.Allocatable["nvidia.com/gpu"] = quantity(gpus)
	return n
}

// selecting allows no runs to namespaces whose label team is, or is not, physics; or to all.
func selecting(operator metav1.LabelSelectorOperator) v1alpha1.NamespaceShare {
	s := share(1, nil, 0, "selected")
	s.Namespaces = v1alpha1.ShareNamespaces{Selector: &metav1.LabelSelector{}}
	if operator != "" {
		s.Namespaces.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "team", Operator: operator, Values: []string{"physics"}}}
	}
	return s
}
