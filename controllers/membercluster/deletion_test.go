package membercluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

// errUnanswered is what a member that does not answer leads to.
var errUnanswered = fmt.Errorf("asking: %w", clusters.ErrNotEngaged)

func TestFootprint(t *testing.T) {
	placed := withRun("placed", "basalt", v1alpha1.RunRunning)
	placed.Status.Clusters = []v1alpha1.ClusterStatus{{Name: "alpine"}}
	all := []v1alpha1.FleetMiniCluster{
		*withRun("live", "alpine", v1alpha1.RunRunning), *withRun("ended", "alpine", v1alpha1.RunSucceeded), *placed, *withRun("elsewhere", "basalt", v1alpha1.RunRunning),
	}
	there := footprintOn(all, "alpine")
	if diff := cmp.Diff([]string{"hpc/ended", "hpc/live", "hpc/placed", "hpc/orphan"}, there.owners([]v1alpha1.Orphan{{Owner: "hpc/orphan"}})); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	for uid, want := range map[types.UID]bool{"live": true, "ended": true, "placed": true, "elsewhere": false, "does-not-exist": true} {
		if got := there.isRemoved(uid); got != want {
			t.Errorf("the use of copies by %s ends: %v, want %v", uid, got, want)
		}
	}
}

func TestRemoveEach(t *testing.T) {
	var users []*v1alpha1.FleetMiniCluster
	for i := range 3 * concurrentRemovals {
		users = append(users, withRun(fmt.Sprintf("m%02d", i), "alpine", v1alpha1.RunSucceeded))
	}
	refused := errors.New("forbidden")
	for name, tc := range map[string]struct {
		clean       []types.UID
		state       map[string]any // of users: an error, or that something is being deleted yet
		terminating []string
		err         error
		asked       int32 // at most
	}{
		"all":                      {asked: 24},
		"but what is clean":        {clean: []types.UID{"m00", "m01"}, asked: 22},
		"something is terminating": {state: map[string]any{"m07": true, "m03": true}, terminating: []string{"hpc/m03", "hpc/m07"}, asked: 24},
		"one is refused":           {state: map[string]any{"m03": refused, "m07": true}, terminating: []string{"hpc/m07"}, err: refused, asked: 24},
		"no answer":                {state: map[string]any{"m00": errUnanswered}, err: clusters.ErrNotEngaged, asked: 24},
		"no answer, any more":      {state: map[string]any{"m00": refused, "m23": errUnanswered}, err: clusters.ErrNotEngaged, asked: 24},
	} {
		t.Run(name, func(t *testing.T) {
			var clean uidSet
			for _, uid := range tc.clean {
				clean.add(uid)
			}
			var asked atomic.Int32
			terminating, err := removeEach(t.Context(), users, &clean, func(_ context.Context, f *v1alpha1.FleetMiniCluster) (bool, error) {
				asked.Add(1)
				switch state := tc.state[f.Name].(type) {
				case error:
					return false, state
				case bool:
					return false, nil
				default:
					return true, nil
				}
			})
			if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) || asked.Load() > tc.asked {
				t.Errorf("error %v, want %v; %d were asked, want %d", err, tc.err, asked.Load(), tc.asked)
			}
			if clusters.Unanswered(tc.err) != clusters.Unanswered(err) {
				t.Errorf("it answers: %v", err)
			}
			if diff := cmp.Diff(tc.terminating, terminating, cmpopts.EquateEmpty()); diff != "" && !clusters.Unanswered(err) {
				t.Errorf("terminating (-want +got):\n%s", diff)
			}
			for _, f := range users {
				if _, odd := tc.state[f.Name]; odd && clean.has(f.UID) {
					t.Errorf("%s is taken for clean", f.Name)
				}
			}
		})
	}
}

func TestRemoval(t *testing.T) {
	owners := []string{"hpc/a", "hpc/b"}
	for name, tc := range map[string]struct {
		got      removal
		done     bool
		again    bool
		contains string
	}{
		"away, with nothing there": {got: whileAway(nil, "Unreachable"), done: true},
		"away":                     {got: whileAway(owners, "Unreachable"), contains: "cannot be reached (Unreachable), and the deletion waits for it to remove what is left there of hpc/a, hpc/b: set spec.deletionPolicy: Orphan"},
		"nothing is left":          {got: DefaultIntervals().afterRemoval(owners, nil, nil), done: true},
		"something is terminating": {got: DefaultIntervals().afterRemoval(owners, []string{"hpc/b"}, nil), again: true, contains: "being deleted there is what is left of hpc/b"},
		"no answer":                {got: DefaultIntervals().afterRemoval(owners, nil, errUnanswered), again: true, contains: "the member does not answer"},
		"an error":                 {got: DefaultIntervals().afterRemoval(owners, nil, errors.New("pods is forbidden")), contains: "pods is forbidden: correct that, or set spec.deletionPolicy: Orphan"},
		"an error and more":        {got: DefaultIntervals().afterRemoval(owners, []string{"hpc/b"}, errors.New("pods is forbidden")), contains: "pods is forbidden"},
	} {
		if tc.got.done != tc.done || tc.got.again > 0 != tc.again || !strings.Contains(tc.got.remaining, tc.contains) || tc.done && tc.got.remaining != "" {
			t.Errorf("%s: %+v", name, tc.got)
		}
	}
}

// The finalizer is removed once a removal is complete.
func TestOrphansKeepARemovalFromBeingComplete(t *testing.T) {
	orphans := []v1alpha1.Orphan{{Owner: "hpc/o"}}
	for name, tc := range map[string]struct{ got, want bool }{
		"done":                 {removal{done: true}.complete(nil), true},
		"done but for orphans": {removal{done: true}.complete(orphans), false},
		"not done":             {removal{}.complete(nil), false},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %v, want %v", name, tc.got, tc.want)
		}
	}
}

func TestRemoveOrphans(t *testing.T) {
	orphan := func(owner string) v1alpha1.Orphan { return v1alpha1.Orphan{UID: types.UID(owner), Owner: owner} }
	all := []v1alpha1.Orphan{orphan("a"), orphan("b"), orphan("c")}
	refused := errors.New("forbidden")
	remaining, err := removeOrphans(all, func(o v1alpha1.Orphan) (bool, error) {
		switch o.Owner {
		case "a":
			return true, nil
		case "b":
			return false, nil
		default:
			return true, refused
		}
	})
	if diff := cmp.Diff(all[1:], remaining); diff != "" || !errors.Is(err, refused) {
		t.Errorf("%v, left (-want +got):\n%s", err, diff)
	}
}

func TestOrphanedMessage(t *testing.T) {
	withOrphan := func(m *v1alpha1.MemberCluster) { m.Status.Orphans = []v1alpha1.Orphan{{Owner: "hpc/o"}} }
	for name, tc := range map[string]struct {
		member *v1alpha1.MemberCluster
		all    []v1alpha1.FleetMiniCluster
		want   string
	}{
		"nothing":    {newMember(), nil, "nothing that is known of"},
		"an orphan":  {newMember(withOrphan), nil, "no live run, and what there is of 1 FleetMiniClusters"},
		"ended runs": {newMember(withOrphan), []v1alpha1.FleetMiniCluster{*withRun("m", "alpine", v1alpha1.RunFailed)}, "no live run, and what there is of 2 FleetMiniClusters"},
		"live runs":  {newMember(), []v1alpha1.FleetMiniCluster{*withRun("m", "alpine", v1alpha1.RunRunning)}, "live runs, 1 of them, whose end is not known any more, and what there is of 1 FleetMiniClusters"},
	} {
		if got, want := orphanedMessage(tc.member, tc.all), "left on the member as it is (deletionPolicy: Orphan): "+tc.want; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// The finalizer of a member that is not connected stays for as long as something may be there.
func TestDeletionOfAMemberThatIsAway(t *testing.T) {
	for name, tc := range map[string]struct {
		policy  v1alpha1.DeletionPolicy
		fmc     *v1alpha1.FleetMiniCluster
		orphans []v1alpha1.Orphan
		exists  bool
		event   string
	}{
		"nothing is there":             {policy: v1alpha1.DeletionBlock, fmc: withRun("m", "basalt", v1alpha1.RunRunning), event: "Normal CleanedUp"},
		"a run is live":                {policy: v1alpha1.DeletionBlock, fmc: withRun("m", "alpine", v1alpha1.RunRunning), exists: true, event: "Normal RunsLive"},
		"a run is live, drain":         {policy: v1alpha1.DeletionDrain, fmc: withRun("m", "alpine", v1alpha1.RunRunning), exists: true, event: "Normal RunsLive"},
		"a run has ended":              {policy: v1alpha1.DeletionBlock, fmc: withRun("m", "alpine", v1alpha1.RunSucceeded), exists: true, event: "Normal Drained"},
		"an orphan is there":           {policy: v1alpha1.DeletionBlock, fmc: withRun("m", "basalt", v1alpha1.RunRunning), orphans: []v1alpha1.Orphan{{Owner: "hpc/o"}}, exists: true, event: "Normal Drained"},
		"a run is live, to be left so": {policy: v1alpha1.DeletionOrphan, fmc: withRun("m", "alpine", v1alpha1.RunRunning), event: "Warning Orphaned"},
	} {
		t.Run(name, func(t *testing.T) {
			member := newMember()
			member.Spec.DeletionPolicy, member.Status.Orphans = tc.policy, tc.orphans
			hub := newHub(t, member, tc.fmc)
			if err := hub.Delete(t.Context(), member); err != nil {
				t.Fatal(err)
			}
			r := newReconciler(hub, hub)
			for range 3 {
				if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "alpine"}}); err != nil {
					t.Fatal(err)
				}
			}
			var now v1alpha1.MemberCluster
			err := hub.Get(t.Context(), client.ObjectKeyFromObject(member), &now)
			if client.IgnoreNotFound(err) != nil || apierrors.IsNotFound(err) == tc.exists {
				t.Errorf("exists: %v, want %v", err, tc.exists)
			}
			if got := eventsOf(r); !strings.Contains(strings.Join(got, "\n"), tc.event) {
				t.Errorf("events %q, want %s", got, tc.event)
			}
		})
	}
}

func TestUnansweredIsWhatTheseTestsTakeItFor(t *testing.T) {
	if !clusters.Unanswered(errUnanswered) || clusters.Unanswered(errors.New("forbidden")) || !clusters.Unanswered(&net.OpError{Op: "dial", Err: errors.New("refused")}) {
		t.Error("these tests mean nothing")
	}
}
