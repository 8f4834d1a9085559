package membercluster

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

// inShard puts a MemberCluster into a shard, which another one may have used.
func inShard(label, used string) func(*v1alpha1.MemberCluster) {
	return func(m *v1alpha1.MemberCluster) {
		m.Labels = map[string]string{v1alpha1.LabelShard: label}
		m.UID, m.Status.Shard, m.Status.ClusterUID = "m", used, "cluster"
	}
}

// liveIn is a FleetMiniCluster of a shard with a live run on a member.
func liveIn(shard, member string) *v1alpha1.FleetMiniCluster {
	return &v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "live", UID: "live", Labels: map[string]string{v1alpha1.LabelShard: shard}},
		Status:     v1alpha1.FleetMiniClusterStatus{Runs: []v1alpha1.Run{{ID: "1", Cluster: member, State: v1alpha1.RunRunning}}},
	}
}

func TestHeldElsewhere(t *testing.T) {
	for name, tc := range map[string]struct {
		member *v1alpha1.MemberCluster
		live   *v1alpha1.FleetMiniCluster
		held   bool
	}{
		"used by this shard":                   {newMember(inShard("west", "west")), liveIn("east", "alpine"), false},
		"of another, which has a live run":     {newMember(inShard("west", "east")), liveIn("east", "alpine"), true},
		"of none, which has a live run":        {newMember(inShard("west", "")), liveIn("", "alpine"), true},
		"of another, with a run elsewhere":     {newMember(inShard("west", "east")), liveIn("east", "basalt"), false},
		"of another, whose run has come along": {newMember(inShard("west", "east")), liveIn("west", "alpine"), false},
		"never connected":                      {newMember(inShard("west", ""), func(m *v1alpha1.MemberCluster) { m.Status.ClusterUID = "" }), liveIn("", "alpine"), false},
	} {
		t.Run(name, func(t *testing.T) {
			tc.member.Name = "alpine"
			hub := newHub(t, tc.live)
			r := newReconciler(hub, hub)
			r.Elsewhere.Shard = "west"
			held, err := r.heldElsewhere(t.Context(), tc.member)
			if err != nil || (held != nil) != tc.held {
				t.Fatalf("held: %v, %v", held, err)
			}
			if held != nil && (held.Reason != v1alpha1.ReasonOtherShard || !strings.Contains(held.Error(), "kubectl label --overwrite mcl alpine minifleet.dev/shard")) {
				t.Errorf("%s: %s", held.Reason, held)
			}
		})
	}
}

// A ledger that cannot be read is not one without live runs.
func TestHeldElsewhereWithoutAList(t *testing.T) {
	r := newReconciler(unreadable{newHub(t)}, newHub(t))
	r.Elsewhere.Shard = "west"
	if _, err := r.heldElsewhere(t.Context(), newMember(inShard("west", "east"))); err == nil {
		t.Error("no error")
	}
}

func TestTakeOver(t *testing.T) {
	other := newMember(inShard("east", "east"), func(m *v1alpha1.MemberCluster) {
		m.Name, m.UID = "other", "o"
		m.Status.Identity = &v1alpha1.MemberIdentity{Since: metav1.NewTime(noon.Add(-1))}
	})
	for name, tc := range map[string]struct {
		member *v1alpha1.MemberCluster
		others []*v1alpha1.MemberCluster
		live   *v1alpha1.FleetMiniCluster
		reason string // empty: it may be used
	}{
		"given to this shard":         {newMember(inShard("west", "east")), nil, liveIn("east", "basalt"), ""},
		"given back meanwhile":        {newMember(inShard("east", "east")), nil, liveIn("east", "basalt"), v1alpha1.ReasonOtherShard},
		"not free":                    {newMember(inShard("west", "east")), nil, liveIn("east", "alpine"), v1alpha1.ReasonOtherShard},
		"a member of the other shard": {newMember(inShard("west", "")), []*v1alpha1.MemberCluster{other}, liveIn("east", "basalt"), v1alpha1.ReasonDuplicateCluster},
	} {
		t.Run(name, func(t *testing.T) {
			tc.member.Name = "alpine"
			tc.member.Status.Identity = &v1alpha1.MemberIdentity{Since: metav1.NewTime(noon)}
			hub := newHub(t, tc.member, tc.live)
			for _, m := range tc.others {
				if err := hub.Create(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			r := newReconciler(hub, newHub(t))
			r.Elsewhere.Shard = "west"
			err := r.TakeOver(t.Context(), "alpine", "cluster")
			var reason string
			if e, ok := err.(*clusters.Error); ok { //nolint:errorlint // it is one
				reason = e.Reason
			}
			if (err == nil) != (tc.reason == "") || reason != tc.reason {
				t.Errorf("%q: %v, want %q", reason, err, tc.reason)
			}
		})
	}
}

// A Job whose FleetMiniCluster is of another shard is owned if its ledger knows it, which alone can wait for it.
func TestOwnersOfOtherShards(t *testing.T) {
	job := jobOf("hpc/live")
	for name, tc := range map[string]struct {
		owner *v1alpha1.FleetMiniCluster
		owned bool
	}{
		"of this shard, whatever its ledger":   {liveIn("west", "basalt"), true},
		"of another, whose ledger lacks it":    {liveIn("east", "alpine"), false},
		"of another, whose ledger has its UID": {known(liveIn("east", "alpine"), string(job.UID), "1"), true},
		"of another, that has just begun it":   {known(liveIn("east", "alpine"), "", "0123456789"), true},
	} {
		t.Run(name, func(t *testing.T) {
			owned := len(unowned([]*batchv1.Job{&job}, ownersAmong([]v1alpha1.FleetMiniCluster{*tc.owner}, "west"), nil)) == 0
			if owned != tc.owned {
				t.Errorf("owned: %v", owned)
			}
		})
	}
}

func known(f *v1alpha1.FleetMiniCluster, uid, id string) *v1alpha1.FleetMiniCluster {
	f.Status.Runs[0].JobUID, f.Status.Runs[0].ID = types.UID(uid), id
	return f
}
