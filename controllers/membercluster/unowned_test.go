package membercluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// jobOf is the live Job of a run of fleet hub.
func jobOf(owner string, changes ...func(*batchv1.Job)) batchv1.Job {
	_, name, _ := strings.Cut(owner, "/")
	job := batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "hpc", Name: name, UID: types.UID("job-" + name), CreationTimestamp: metav1.NewTime(noon),
		Labels:      map[string]string{v1alpha1.LabelRun: "0123456789"},
		Annotations: map[string]string{v1alpha1.AnnotationFleetID: "hub", v1alpha1.AnnotationOwner: owner},
	}}
	for _, change := range changes {
		change(&job)
	}
	return job
}

func TestLiveJobs(t *testing.T) {
	ended := func(kind batchv1.JobConditionType, status corev1.ConditionStatus) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: status}} }
	}
	for name, c := range map[string]struct {
		job  batchv1.Job
		live bool
	}{
		"live":                  {jobOf("hpc/a"), true},
		"suspended":             {jobOf("hpc/a", func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }), true},
		"about to fail":         {jobOf("hpc/a", ended(batchv1.JobFailureTarget, corev1.ConditionTrue)), true},
		"was suspended":         {jobOf("hpc/a", ended(batchv1.JobSuspended, corev1.ConditionFalse)), true},
		"complete":              {jobOf("hpc/a", ended(batchv1.JobComplete, corev1.ConditionTrue)), false},
		"failed":                {jobOf("hpc/a", ended(batchv1.JobFailed, corev1.ConditionTrue)), false},
		"being deleted":         {jobOf("hpc/a", func(j *batchv1.Job) { j.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }), false},
		"of another fleet":      {jobOf("hpc/a", func(j *batchv1.Job) { j.Annotations[v1alpha1.AnnotationFleetID] = "other" }), false},
		"created, not released": {jobOf("hpc/a", unreleased), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := liveJobs([]batchv1.Job{c.job}, "hub"); (len(got) == 1) != c.live {
				t.Errorf("live: %v", got)
			}
		})
	}
}

func unreleased(j *batchv1.Job) {
	j.Spec.Suspend = ptr.To(true)
	j.Annotations[v1alpha1.AnnotationSuspended] = v1alpha1.SuspendedUnreleased
}

func TestUnowned(t *testing.T) {
	here := withRun("m", "alpine", v1alpha1.RunRunning)
	here.Status.Runs[0].JobUID = "job-renamed"
	for name, c := range map[string]struct {
		job     batchv1.Job
		orphans []v1alpha1.Orphan
		want    bool
	}{
		"of one that is here":                    {jobOf("hpc/m"), nil, false},
		"of one that is not":                     {jobOf("hpc/n"), nil, true},
		"of one in another namespace":            {jobOf("lab/m"), nil, true},
		"its owner is not said":                  {jobOf(""), nil, true},
		"its owner is not said, a ledger has it": {jobOf("x/renamed"), nil, false},
		"to be removed as an orphan":             {jobOf("hpc/n"), []v1alpha1.Orphan{{Owner: "hpc/n"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := unowned([]*batchv1.Job{&c.job}, ownersAmong([]v1alpha1.FleetMiniCluster{*here}, ""), c.orphans)
			if (len(got) == 1) != c.want {
				t.Errorf("unowned: %v", got)
			}
		})
	}
}

func TestUnownedIsConfirmedByTheHub(t *testing.T) {
	lost := jobOf("hpc/n")
	named := v1alpha1.UnownedJob{Namespace: "hpc", Name: "n", Owner: "hpc/n", Run: "0123456789", Since: metav1.NewTime(noon)}
	empty, full := newHub(t), newHub(t, withRun("n", "alpine", v1alpha1.RunRunning))
	for name, c := range map[string]struct {
		r      *Reconciler
		before []v1alpha1.UnownedJob
		want   []v1alpha1.UnownedJob
	}{
		"the hub has none, too":     {newReconciler(empty, empty), nil, []v1alpha1.UnownedJob{named}},
		"the cache was behind":      {newReconciler(full, empty), nil, nil},
		"named before: not asked":   {newReconciler(unreadable{}, empty), []v1alpha1.UnownedJob{named}, []v1alpha1.UnownedJob{named}},
		"another was named before":  {newReconciler(full, empty), []v1alpha1.UnownedJob{{Name: "x"}}, nil},
		"a hub that cannot be read": {newReconciler(unreadable{}, empty), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			member := newMember()
			member.Status.UnownedJobs = c.before
			got, err := c.r.confirmUnowned(t.Context(), member, []*batchv1.Job{&lost})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if _, broken := c.r.APIReader.(unreadable); (err != nil) != (broken && c.want == nil) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestUnownedJobsInTheStatus(t *testing.T) {
	var jobs []*batchv1.Job
	for i := range v1alpha1.MaxUnownedJobs + 10 {
		job := jobOf(fmt.Sprintf("hpc/n%03d", v1alpha1.MaxUnownedJobs+9-i))
		jobs = append(jobs, &job)
	}
	m := newMember()
	setUnowned(m, describeJobs(jobs), noon)
	message := conditions.GetMessage(m, v1alpha1.ConditionUnownedJobs)
	if len(m.Status.UnownedJobs) != v1alpha1.MaxUnownedJobs || m.Status.UnownedJobs[0].Name != "n000" || !strings.HasPrefix(message, "60 live Jobs of this fleet") {
		t.Errorf("%d, %s", len(m.Status.UnownedJobs), message)
	}
	setUnowned(m, describeJobs(jobs[:1]), noon)
	if got := conditionOf(m, v1alpha1.ConditionUnownedJobs); got != "True OwnerNotFound" {
		t.Errorf("condition %s", got)
	}
	if message := conditions.GetMessage(m, v1alpha1.ConditionUnownedJobs); !strings.Contains(message, "hpc/n059 (of hpc/n059)") || !strings.HasSuffix(message, "`kubectl --context alpine -n hpc delete job n059`") {
		t.Errorf("message %s", message)
	}
	setUnowned(m, nil, noon)
	if m.Status.UnownedJobs != nil || conditionOf(m, v1alpha1.ConditionUnownedJobs) != "" {
		t.Errorf("%+v", m.Status)
	}
}

func TestUnownedBy(t *testing.T) {
	other := newMember(func(m *v1alpha1.MemberCluster) {
		m.Name, m.Status.UnownedJobs = "basalt", []v1alpha1.UnownedJob{{Owner: "hpc/m", Since: metav1.NewTime(noon)}}
	})
	hub := newHub(t, newMember(), other)
	r := newReconciler(hub, hub)
	if diff := cmp.Diff([]reconcile.Request{request("alpine"), request("basalt")}, r.unownedBy(t.Context(), withRun("m", "alpine", v1alpha1.RunRunning))); diff != "" {
		t.Error(diff)
	}
	for name, f := range map[string]*v1alpha1.FleetMiniCluster{
		"nothing is live":              withRun("n", "alpine", v1alpha1.RunSucceeded),
		"its member is not registered": withRun("n", "cinder", v1alpha1.RunRunning),
	} {
		if got := r.unownedBy(t.Context(), f); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOwnerMissing(t *testing.T) {
	hub := newHub(t, withRun("m", "alpine", v1alpha1.RunRunning))
	r := newReconciler(hub, hub)
	for name, c := range map[string]struct {
		job  batchv1.Job
		want bool
	}{
		"owned":            {jobOf("hpc/m"), false},
		"unowned":          {jobOf("hpc/n"), true},
		"no owner":         {jobOf("nobody"), true},
		"of another fleet": {jobOf("hpc/n", func(j *batchv1.Job) { j.Annotations[v1alpha1.AnnotationFleetID] = "other" }), false},
	} {
		if got := r.ownerMissing(t.Context(), &c.job); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestDeclared(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, "true": false, "2026-01-02T12:00:00Z": true, "2025-01-02T12:00:00+01:00": true, "2026-01-02T12:00:30Z": true, "2026-01-02T13:00:00Z": false,
	} {
		m := newMember(func(m *v1alpha1.MemberCluster) {
			m.Annotations = map[string]string{v1alpha1.AnnotationMemberGone: value}
		})
		if got := isDeclared(m, noon); got != want {
			t.Errorf("%q: %t", value, got)
		}
	}
}
