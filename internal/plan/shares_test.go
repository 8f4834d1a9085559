package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/runs"
)

// limitedTo lets each namespace use so many CPUs of alpine. Another run of hpc uses some of them.
func limitedTo(cpus string, used int) *queue.Queue {
	q := queue.New()
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "alpine"}}
	m.Spec.Shares = []v1alpha1.NamespaceShare{{
		Name: "all", Namespaces: v1alpha1.ShareNamespaces{Selector: &metav1.LabelSelector{}}, Limits: v1alpha1.ShareLimits{"cpu": resource.MustParse(cpus)},
	}}
	q.SetShares(m)
	q.Update(queue.Key{Namespace: "hpc", Name: "other"}, map[string]queue.Reservation{"alpine": {Run: "cc", Gang: gang(used)}}, nil)
	return q
}

// Nothing takes more of a member than its namespace may use, whether or not it is known what is free there.
func TestLimitsOfTheNamespace(t *testing.T) {
	type outcome struct {
		Action   runs.Action
		Size     int32
		Reserved int
		Told     bool
	}
	running := func(n int32, change ...func(*v1alpha1.FleetMiniCluster)) *ObjectWrapper {
		return MakeObject("run").With(elastic(6), sized(n)).With(change...).Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)).Placed("alpine")
	}
	cases := map[string]struct {
		object *ObjectWrapper
		job    *plan.Observation
		limit  string
		want   outcome
	}{
		"a run that is within":             {MakeObject("run"), none(), "5", outcome{Reserved: 2}},
		"a run that exceeds them":          {MakeObject("run"), none(), "4", outcome{Told: true}},
		"all of its pods do, not minSize":  {MakeObject("run").With(sized(4), quorum(2)), none(), "5", outcome{Told: true}},
		"larger, within":                   {running(4), MakeJob("aa").Observation(), "7", outcome{Action: runs.Adjust, Size: 4, Reserved: 4}},
		"larger as far as it is within":    {running(4), MakeJob("aa").Observation(), "6", outcome{Action: runs.Adjust, Size: 3, Reserved: 3}},
		"larger, and no pod is":            {running(4), MakeJob("aa").Observation(), "5", outcome{Action: runs.Nothing, Size: 4, Told: true}},
		"resumed, within":                  {running(2), MakeJob("aa").Suspended().Observation(), "5", outcome{Action: runs.Adjust, Size: 2, Reserved: 2}},
		"resumed, and it exceeds them":     {running(2), MakeJob("aa").Suspended().Observation(), "4", outcome{Action: runs.Nothing, Size: 2, Told: true}},
		"resumed, and all of its pods do":  {running(4, quorum(2)), MakeJob("aa").Size(4).Suspended().Observation(), "6", outcome{Action: runs.Nothing, Size: 4, Told: true}},
		"live, beyond what they are today": {running(2), MakeJob("aa").Running().Observation(), "1", outcome{Action: runs.Nothing}},
	}
	rooms := map[string]*nodeusage.Room{"known": roomWith(64, map[string]int{}), "not observed": {State: nodeusage.Unknown}}
	for name, c := range cases {
		for state, room := range rooms {
			t.Run(name+", room "+state, func(t *testing.T) {
				s, q := MakeSnapshot(c.object.Obj(), MakeMember("alpine").Observed()), limitedTo(c.limit, 3)
				view := q.View("alpine", room, keyOf(s.Object))
				fact(s, "alpine", func(f *plan.Facts) { f.Room, f.RoomBeside = view, view })
				observed(s, "alpine", c.job)
				if live := c.object.Status.Runs; live != nil {
					s.Queue.Reserved["alpine"] = queue.Reservation{Run: "aa", Gang: gang(2)}
				}
				d := decided(t, s)
				got, told := outcome{}, ""
				for _, w := range d.Placement.Waiting {
					told = w.Reason
				}
				for _, r := range d.Reserve {
					got.Reserved = r.Reservation.Gang.Size
				}
				if len(c.object.Status.Runs) > 0 {
					target := target(t, next(t, s, d))
					got.Action, got.Size, told = target.Step.Action, target.Size, target.Step.Message
					if target.Reserve != nil {
						got.Reserved = target.Reserve.Reservation.Gang.Size
					}
					if got.Told = strings.Contains(told, "quota exceeded"); got.Told != (target.Needs != nil) {
						t.Errorf("it waits in the line: %t", target.Needs != nil)
					}
				}
				got.Told = strings.Contains(told, "quota exceeded")
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(told, diff)
				}
			})
		}
	}
}

// What a namespace says of its priorities and cannot be read is told to those whom it concerns.
func TestMaxPriorityThatIsInvalid(t *testing.T) {
	for name, c := range map[string]struct {
		priority int32
		problem  string
		want     bool
	}{
		"nothing is wrong":      {1000, "", false},
		"it has none to lose":   {0, "no number", false},
		"its priority is lower": {1000, "no number", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(MakeObject("run").With(priority(c.priority)).Obj(), MakeMember("alpine"))
			s.Queue.Problem = c.problem
			anyRoom(s)
			told := false
			for _, e := range decided(t, s).Events {
				told = told || e.Reason == v1alpha1.ReasonInvalidMaxPriority && e.Message == c.problem && e.Type == "Warning"
			}
			if told != c.want {
				t.Errorf("it is told: %t", told)
			}
		})
	}
}

// When something was begun on a member is in the ledger, also of what has ended, and of what is suspended.
func TestRestoreKnowsWhatWasBegun(t *testing.T) {
	old, ended, live := MakeRun("aa", "alpine", v1alpha1.RunFailed), MakeRun("bb", "alpine", v1alpha1.RunSucceeded), MakeRun("cc", "basalt", v1alpha1.RunRunning)
	old.StartTime, ended.StartTime, live.StartTime = at(-3*time.Hour), at(-2*time.Hour), at(-time.Hour)
	f := MakeObject("run").With(suspended).Runs(old, ended, live)
	got := plan.Restore(f.Obj(), f.Spec.Placement, nil).Begun
	if diff := cmp.Diff(map[string]time.Time{"alpine": at(-2 * time.Hour).Time, "basalt": at(-time.Hour).Time}, got); diff != "" {
		t.Error(diff)
	}
}
