package fleetminicluster

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// A Job has failed when its member says so or, where it is suspended and has no pod any more, when that is decided.
func TestJobsThatFail(t *testing.T) {
	condition := func(kind batchv1.JobConditionType, status corev1.ConditionStatus) batchv1.JobCondition {
		return batchv1.JobCondition{Type: kind, Status: status, Reason: "PodFailurePolicy", Message: "exit code 137"}
	}
	suspended := condition(batchv1.JobSuspended, corev1.ConditionTrue)
	target, failed := condition(batchv1.JobFailureTarget, corev1.ConditionTrue), condition(batchv1.JobFailed, corev1.ConditionTrue)
	cases := map[string]struct {
		suspended  bool
		status     batchv1.JobStatus
		wantFailed bool
	}{
		"running":                           {false, batchv1.JobStatus{Active: 1}, false},
		"suspended":                         {true, batchv1.JobStatus{Conditions: []batchv1.JobCondition{suspended}}, false},
		"failed":                            {false, batchv1.JobStatus{Conditions: []batchv1.JobCondition{target, failed}}, true},
		"failed while suspended":            {true, batchv1.JobStatus{Conditions: []batchv1.JobCondition{suspended, target, failed}}, true},
		"about to fail":                     {false, batchv1.JobStatus{Conditions: []batchv1.JobCondition{target}}, false},
		"suspended, and to fail":            {true, batchv1.JobStatus{Conditions: []batchv1.JobCondition{suspended, target}}, true},
		"suspended, to fail, a pod remains": {true, batchv1.JobStatus{Terminating: ptr.To(int32(1)), Conditions: []batchv1.JobCondition{suspended, target}}, false},
		"suspended, to fail, a pod runs":    {true, batchv1.JobStatus{Active: 1, Conditions: []batchv1.JobCondition{target}}, false},
		"not to fail any more":              {true, batchv1.JobStatus{Conditions: []batchv1.JobCondition{condition(batchv1.JobFailureTarget, corev1.ConditionFalse)}}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			job := observe(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "run"}, Spec: batchv1.JobSpec{Suspend: &c.suspended}, Status: c.status})
			if job.Finished != c.wantFailed || job.Succeeded || (job.CompletionTime != nil) != c.wantFailed || (job.Message == "PodFailurePolicy: exit code 137") != c.wantFailed {
				t.Errorf("%+v", job)
			}
		})
	}
}
