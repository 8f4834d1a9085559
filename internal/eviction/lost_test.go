package eviction_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
)

func TestLost(t *testing.T) {
	const proven = "run a is lost for longer than 1m0s, and starts elsewhere once it is proven gone: " +
		"the member has to answer that it has no pod of it; or, run this"
	const manual = "run a is lost for longer than 1m0s, and may go on there (failover, fencing: Manual); run this"
	noted := func(r *v1alpha1.Run) { r.LostTime = since(-5) }
	cases := map[string]struct {
		run     v1alpha1.Run
		fencing v1alpha1.Fencing
		now     time.Time
		want    eviction.LostVerdict
	}{
		"not for long":             {run("a", v1alpha1.RunRunning), v1alpha1.FenceProvenGone, at(13), eviction.LostVerdict{After: 57 * time.Second}},
		"almost for longer":        {run("a", v1alpha1.RunRunning), v1alpha1.FenceProvenGone, at(70).Add(-1), eviction.LostVerdict{After: 1}},
		"for longer":               {run("a", v1alpha1.RunRunning), v1alpha1.FenceProvenGone, at(70), eviction.LostVerdict{Message: proven, LostTime: since(10)}},
		"for longer, by default":   {run("a", v1alpha1.RunRunning), "", at(999), eviction.LostVerdict{Message: proven, LostTime: since(10)}},
		"for longer, as is noted":  {run("a", v1alpha1.RunRunning, noted), v1alpha1.FenceProvenGone, at(999), eviction.LostVerdict{Message: proven}},
		"not for long, and noted":  {run("a", v1alpha1.RunRunning, noted), v1alpha1.FenceProvenGone, at(13), eviction.LostVerdict{After: 57 * time.Second}},
		"manual, not for long":     {run("a", v1alpha1.RunRunning), v1alpha1.FenceManual, at(13), eviction.LostVerdict{After: 57 * time.Second}},
		"manual, for longer":       {run("a", v1alpha1.RunRunning), v1alpha1.FenceManual, at(70), eviction.LostVerdict{Message: manual}},
		"manual, and noted before": {run("a", v1alpha1.RunRunning, noted), v1alpha1.FenceManual, at(999), eviction.LostVerdict{Message: manual}},
		"about to start":           {run("a", v1alpha1.RunStarting), v1alpha1.FenceProvenGone, at(70), eviction.LostVerdict{Message: proven, LostTime: since(10)}},
		"a clock that goes back":   {run("a", v1alpha1.RunRunning), v1alpha1.FenceProvenGone, at(0), eviction.LostVerdict{After: 70 * time.Second}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := *c.run.DeepCopy()
			l := eviction.Lost{
				Run: &c.run, Failover: &v1alpha1.Failover{AfterSeconds: 60, Fencing: c.fencing}, LastHeard: at(10), Declare: "run this",
			}
			equal(t, c.want, l.Judge(c.now))
			equal(t, before, c.run)
		})
	}
}

// The ledger holds whole seconds, and so does what is compared with it.
func TestLostTimeIsInWholeSeconds(t *testing.T) {
	r := run("a", v1alpha1.RunRunning)
	v := eviction.Lost{Run: &r, Failover: &v1alpha1.Failover{AfterSeconds: 10}, LastHeard: at(1).Add(700 * time.Millisecond)}.Judge(at(30))
	equal(t, since(1), v.LostTime)
}

func TestDeclared(t *testing.T) {
	const byMember = "annotation minifleet.dev/gone of MemberCluster alpine"
	since := func(seconds int) func(*v1alpha1.MemberCluster) {
		return annotated(v1alpha1.AnnotationMemberGone, at(seconds).Format(time.RFC3339))
	}
	ready := func(status metav1.ConditionStatus) func(*v1alpha1.MemberCluster) {
		return func(m *v1alpha1.MemberCluster) {
			m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status}}
		}
	}
	heard := func(seconds int) func(*v1alpha1.MemberCluster) {
		return func(m *v1alpha1.MemberCluster) { m.Status.LastHeardTime = &metav1.Time{Time: at(seconds)} }
	}
	silent := ready(metav1.ConditionUnknown)
	started := func(seconds int) func(*v1alpha1.Run) {
		return func(r *v1alpha1.Run) { r.StartTime = &metav1.Time{Time: at(seconds)} }
	}
	unstarted := func(r *v1alpha1.Run) { r.StartTime = nil }
	live := run("a", v1alpha1.RunRunning)
	cases := map[string]struct {
		run    v1alpha1.Run
		ids    []string
		member *v1alpha1.MemberCluster
		want   string
	}{
		"nobody says so":                         {live, nil, member("alpine", silent, heard(10)), ""},
		"by its id":                              {live, []string{"x", "a"}, member("alpine", silent, heard(10)), "annotation minifleet.dev/run-gone"},
		"by its id, on a member that is no more": {live, []string{"a"}, nil, "annotation minifleet.dev/run-gone"},
		"by its id, and by its member":           {live, []string{"a"}, member("alpine", silent, heard(10), since(20)), "annotation minifleet.dev/run-gone"},
		"by the id of another":                   {live, []string{"ab", ""}, member("alpine", silent, heard(10)), ""},
		"by the id of another, no member":        {live, []string{"b"}, nil, ""},
		"by its member":                          {live, nil, member("alpine", silent, heard(10), since(20)), byMember},
		"by its member, whose Ready is False":    {live, []string{"b"}, member("alpine", ready(metav1.ConditionFalse), heard(10), since(20)), byMember},
		"its member was heard of at that time":   {live, nil, member("alpine", silent, heard(20), since(20)), byMember},
		"its member was heard of after that":     {live, nil, member("alpine", silent, heard(21), since(20)), ""},
		"its member was never heard of":          {live, nil, member("alpine", silent, since(20)), ""},
		"its member is ready":                    {live, nil, member("alpine", ready(metav1.ConditionTrue), heard(10), since(20)), ""},
		"its member is not known":                {live, nil, member("alpine", heard(10), since(20)), ""},
		"now":                                    {live, nil, member("alpine", silent, heard(10), since(30)), byMember},
		"in a minute, by a clock that differs":   {live, nil, member("alpine", silent, heard(10), since(90)), byMember},
		"in the future":                          {live, nil, member("alpine", silent, heard(10), since(91)), ""},
		"no time":                                {live, nil, member("alpine", silent, heard(10), annotated(v1alpha1.AnnotationMemberGone, "true")), ""},
		"an empty annotation":                    {live, nil, member("alpine", silent, heard(10), annotated(v1alpha1.AnnotationMemberGone, "")), ""},
		"a day without a time":                   {live, nil, member("alpine", silent, heard(10), annotated(v1alpha1.AnnotationMemberGone, "2026-05-01")), ""},
		"in another zone":                        {live, nil, member("alpine", silent, heard(10), annotated(v1alpha1.AnnotationMemberGone, "2026-05-01T14:00:20+02:00")), byMember},
		"it was begun at that time":              {run("a", v1alpha1.RunRunning, started(20)), nil, member("alpine", silent, heard(10), since(20)), byMember},
		"it was begun after that":                {run("a", v1alpha1.RunRunning, started(21)), nil, member("alpine", silent, heard(10), since(20)), ""},
		"it is not known when it was begun":      {run("a", v1alpha1.RunRunning, unstarted), nil, member("alpine", silent, heard(10), since(20)), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			equal(t, c.want, eviction.Declared(&c.run, c.ids, c.member, at(30)))
		})
	}
}
