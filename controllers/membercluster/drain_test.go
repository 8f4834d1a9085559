package membercluster

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// verdict is what is known of a drain, in short.
type verdict struct {
	Nil, Done, Invalid, Again bool
	Live                      []string
	Ledgers                   int
}

func verdictOf(d *drain) verdict {
	if d == nil {
		return verdict{Nil: true}
	}
	v := verdict{Done: d.done, Invalid: d.invalid != nil, Again: d.again > 0, Ledgers: len(d.ledgers)}
	for _, l := range d.live {
		v.Live = append(v.Live, l.String())
	}
	return v
}

func drainedBefore(m *v1alpha1.MemberCluster) {
	setDrained(m, stateReady, &drain{done: true}, removal{}, noon)
}

func TestDrain(t *testing.T) {
	live, ended := withRun("m", "alpine", v1alpha1.RunRunning), withRun("m", "alpine", v1alpha1.RunSucceeded)
	elsewhere := withRun("m", "basalt", v1alpha1.RunRunning)
	for name, tc := range map[string]struct {
		member     *v1alpha1.MemberCluster
		cache, hub client.Object
		want       verdict
	}{
		"a member that stays":                          {newMember(), live, live, verdict{Nil: true}},
		"an annotation that says no":                   {newMember(draining("false")), live, live, verdict{Nil: true}},
		"an annotation that is wrong":                  {newMember(draining("soon")), live, live, verdict{Invalid: true}},
		"a run is live":                                {newMember(draining("true")), live, live, verdict{Live: []string{"hpc/m (run r-m)"}}},
		"a run is being stopped":                       {newMember(draining("true")), withRun("m", "alpine", v1alpha1.RunStopping), live, verdict{Live: []string{"hpc/m (run r-m)"}}},
		"no run is live":                               {newMember(draining("true")), ended, ended, verdict{Done: true}},
		"a run is live elsewhere":                      {newMember(draining("true")), elsewhere, elsewhere, verdict{Done: true}},
		"the cache does not have the run yet":          {newMember(draining("true")), ended, live, verdict{Live: []string{"hpc/m (run r-m)"}, Again: true}},
		"the cache does not have the end yet":          {newMember(draining("true")), live, ended, verdict{Live: []string{"hpc/m (run r-m)"}}},
		"drained before":                               {newMember(draining("true"), drainedBefore), ended, live, verdict{Done: true}},
		"drained before, and a run is live":            {newMember(draining("true"), drainedBefore), live, live, verdict{Live: []string{"hpc/m (run r-m)"}}},
		"deleted, and a run is live":                   {newMember(deleted(v1alpha1.DeletionBlock)), live, live, verdict{Live: []string{"hpc/m (run r-m)"}}},
		"deleted, and no run is live":                  {newMember(deleted(v1alpha1.DeletionBlock)), ended, ended, verdict{Done: true, Ledgers: 1}},
		"deleted, drained before, the cache is behind": {newMember(deleted(v1alpha1.DeletionDrain), drainedBefore), ended, live, verdict{Live: []string{"hpc/m (run r-m)"}, Again: true}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReconciler(newHub(t, tc.hub), newHub(t, tc.cache))
			d, err := r.drain(t.Context(), tc.member)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, verdictOf(d)); diff != "" {
				t.Errorf("drain (-want +got):\n%s", diff)
			}
		})
	}
}

// A reconciliation that began before the member was drained may still record a run.
func TestDrainWaitsForReconciliationsInFlight(t *testing.T) {
	hub := newHub(t)
	r := newReconciler(hub, hub)
	member := newMember(draining("true"))
	check := func(when string, want verdict) {
		t.Helper()
		d, err := r.drain(t.Context(), member)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, verdictOf(d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	done := r.InFlight.Start()
	check("one is in flight", verdict{Again: true})
	defer r.InFlight.Start()()
	check("another has begun since", verdict{Again: true})
	done()
	check("the first has ended", verdict{Done: true})

	// Once it is not drained any more, a new drain waits for what is in flight by then.
	member.Annotations = nil
	check("not drained any more", verdict{Nil: true})
	draining("true")(member)
	check("drained again", verdict{Again: true})
}

// A live run that is found starts the wait anew: what has recorded it may be in flight still.
func TestDrainBeginsAgainAfterALiveRun(t *testing.T) {
	cache, hub := newHub(t), newHub(t, withRun("m", "alpine", v1alpha1.RunStarting))
	r := newReconciler(hub, cache)
	member := newMember(draining("true"))
	if d, err := r.drain(t.Context(), member); err != nil || d.done {
		t.Fatalf("%+v, %v", d, err)
	}
	defer r.InFlight.Start()()
	r.APIReader = newHub(t)
	if d, err := r.drain(t.Context(), member); err != nil || d.done || d.again == 0 {
		t.Errorf("what is in flight was not waited for: %+v, %v", d, err)
	}
}

// An error is never an empty list.
func TestDrainIsNotDoneWithoutAList(t *testing.T) {
	hub := newHub(t)
	for name, r := range map[string]*Reconciler{
		"cache": newReconciler(hub, unreadable{hub}),
		"hub":   newReconciler(unreadable{hub}, hub),
	} {
		if d, err := r.drain(t.Context(), newMember(deleted(v1alpha1.DeletionBlock))); !errors.Is(err, errDown) || d != nil && d.done {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

func TestDescribeLive(t *testing.T) {
	for want, live := range map[string][]liveRun{
		"1 run is live: hpc/a (run 1)":                                                 {{"hpc/a", "1"}},
		"2 runs are live: hpc/a (run 1), hpc/b (run 2)":                                {{"hpc/a", "1"}, {"hpc/b", "2"}},
		"6 runs are live: a (run ), b (run ), c (run ), d (run ), e (run ) and 1 more": {{"a", ""}, {"b", ""}, {"c", ""}, {"d", ""}, {"e", ""}, {"f", ""}},
	} {
		if got := describeLive(live); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
