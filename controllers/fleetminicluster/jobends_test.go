package fleetminicluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestObserveEnds(t *testing.T) {
	type end struct {
		Finished, Succeeded, Succeeding bool
		Message                         string
	}
	for name, c := range map[string]struct {
		succeeded  int32
		conditions []batchv1.JobConditionType
		want       end
	}{
		"live":                        {0, nil, end{}},
		"suspended":                   {0, []batchv1.JobConditionType{batchv1.JobSuspended}, end{}},
		"pods still end":              {1, []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet}, end{Succeeding: true}},
		"about to have failed":        {0, []batchv1.JobConditionType{batchv1.JobFailureTarget}, end{}},
		"all succeeded":               {4, []batchv1.JobConditionType{batchv1.JobComplete}, end{true, true, false, "4 of 4 pods succeeded"}},
		"the lead and one more":       {2, []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}, end{true, true, false, "the lead succeeded; 2 of 4 pods had ended by then"}},
		"complete is told the sooner": {2, []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobSuccessCriteriaMet}, end{true, true, false, "the lead succeeded; 2 of 4 pods had ended by then"}},
		"failed":                      {1, []batchv1.JobConditionType{batchv1.JobFailed}, end{true, false, false, "R: m"}},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{Spec: batchv1.JobSpec{Completions: ptr.To(int32(4))}, Status: batchv1.JobStatus{Succeeded: c.succeeded}}
			for _, kind := range c.conditions {
				job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "R", Message: "m"})
			}
			j := observe(job)
			if diff := cmp.Diff(c.want, end{j.Finished, j.Succeeded, j.Succeeding, j.Message}); diff != "" {
				t.Error(diff)
			}
		})
	}
}
