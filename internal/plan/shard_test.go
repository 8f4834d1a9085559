package plan

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/placement"
)

// elsewhere is a member of another shard.
func elsewhere(name string) Member {
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.Spec.Namespaces = v1alpha1.AllNamespaces()
	m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected}}
	return Member{Cluster: m, Connection: Connection{Attempted: true, Reason: v1alpha1.ReasonOtherShard, Message: "it is of another shard"}}
}

func ofEast(members ...Member) *Snapshot {
	return &Snapshot{Object: &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "m"}}, Shard: "east", Members: members}
}

// A member of another shard is chosen for nothing new, is not waited for, and what is live there is not known.
func TestMembersOfOtherShards(t *testing.T) {
	s := ofEast(elsewhere("basalt"))
	if f := fitnessOf(s, &s.Members[0]); f.unfit == "" || f.left != 0 {
		t.Errorf("fitness %+v", f)
	}
	d := &Decision{Placement: &v1alpha1.PlacementDecision{Clusters: []string{"basalt"}}}
	got := target(s, d, nil, "basalt")
	if got.Unregistered || got.Connecting || got.Reachable() || got.Lost == nil || got.Lost.Reason != v1alpha1.ReasonOtherShard {
		t.Errorf("target %+v", got)
	}
	if s.usable() != 0 || s.own() != 0 {
		t.Errorf("%d of %d are of this shard", s.usable(), s.own())
	}
}

// What a member of another shard has of the object's name is waited for.
func TestNotesOfOtherShards(t *testing.T) {
	m := elsewhere("basalt")
	m.Cluster.Status.UnownedJobs = []v1alpha1.UnownedJob{{Owner: "hpc/m"}}
	s := ofEast(m)
	s.Placement = &v1alpha1.PlacementSpec{NumberOfClusters: ptr.To[int32](1)}
	if why := (&Decision{}).mayRunUnknown(s); !strings.Contains(why, "basalt") {
		t.Errorf("it does not wait: %q", why)
	}
	s.Members[0].Cluster.Status.UnownedJobs[0].Owner = "hpc/other"
	if why := (&Decision{}).mayRunUnknown(s); why != "" {
		t.Errorf("it waits: %q", why)
	}
}

func TestMessagesAboutShards(t *testing.T) {
	for name, c := range map[string]struct {
		got, want string
	}{
		"no members in the shard": {
			func() string {
				s := ofEast()
				s.Elsewhere = 3
				return noMatch(s, &v1alpha1.PlacementSpec{}, placement.Decision{})
			}(), `shard "east" has no MemberClusters, and 3 are of other shards: give members its label (kubectl label --overwrite mcl NAME minifleet.dev/shard=east)`,
		},
		"a Placement of no shard": {
			func() string {
				s := ofEast()
				s.PlacementShard, s.Object.Spec.PlacementRef = ptr.To(""), &v1alpha1.LocalReference{Name: "any"}
				return noPlacement(s).Message
			}(), `Placement hpc/any is of no shard, and this FleetMiniCluster of shard "east": give them the same label (kubectl label --overwrite -n hpc placement any minifleet.dev/shard=east)`,
		},
		"no Placement": {
			func() string {
				s := ofEast()
				s.Object.Spec.PlacementRef = &v1alpha1.LocalReference{Name: "any"}
				return noPlacement(s).Message
			}(), "there is no Placement hpc/any",
		},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("%s: %s", name, c.got)
		}
	}
}
