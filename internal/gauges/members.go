package gauges

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/view"
)

// Member is what the gauges tell of a member.
type Member struct {
	Name     string
	Ready    bool
	Reason   string // of the condition Ready
	Cordoned bool
	// Silence is for how long nothing has been heard of a member that is not ready; 0 for one that is.
	Silence time.Duration
	// UnownedJobs and Orphans are numbers of what is there and should not be.
	UnownedJobs, Orphans int
	// Room is nil where it is not known what the member has.
	Room *view.Room
}

// memberOf is a member, of which the connection has heard at a time; zero where it does not know.
func memberOf(m *v1alpha1.MemberCluster, heard, now time.Time) Member {
	out := Member{
		Name: m.Name, Reason: v1alpha1.ReasonConnecting, Cordoned: m.Spec.Suspend,
		UnownedJobs: len(m.Status.UnownedJobs), Orphans: len(m.Status.Orphans),
	}
	if ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		out.Ready, out.Reason = ready.Status == metav1.ConditionTrue, ready.Reason
	}
	if out.Ready {
		out.Room = view.RoomOf(m.Status.Capacity)
		return out
	}
	since := heard
	if stale, _ := view.StaleOf(m); since.IsZero() && stale.Since != nil {
		since = *stale.Since
	}
	out.Silence = max(now.Sub(since), 0)
	return out
}
