package render

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
)

// exitInterrupted is the exit code of a pod that was sent SIGTERM, and of no other: see wait.sh.
const exitInterrupted = 143

// job is the indexed Job whose pods are the brokers. A change of size changes its parallelism and
// completions only: those may change together while it runs, its pod template may not.
func (m *miniCluster) job() *batchv1.Job {
	backoffLimit := m.spec.BackoffLimit
	if backoffLimit == 0 {
		backoffLimit = fluxv1alpha2.DefaultBackoffLimit
	}
	meta := m.objectMeta(m.name, m.spec.JobLabels)
	m.withRun(meta.Labels)
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			Suspend:               ptr.To(m.in.Suspend),
			CompletionMode:        ptr.To(batchv1.IndexedCompletion),
			Completions:           ptr.To(m.spec.Size),
			Parallelism:           ptr.To(m.spec.Size),
			BackoffLimit:          ptr.To(backoffLimit),
			ActiveDeadlineSeconds: ptr.To(m.spec.DeadlineSeconds),
			PodFailurePolicy:      m.podFailurePolicy(),
			SuccessPolicy:         m.successPolicy(),
			Template:              m.podTemplate(),
		},
	}
}

// successPolicy ends the Job with the pod that leads: the command has succeeded then, and a pod that never got a node, or
// came when all was done, has nothing more to do. Without a lead among the pods each has to succeed. The index stands
// for any size, since the policy of a Job cannot change with it.
func (m *miniCluster) successPolicy() *batchv1.SuccessPolicy {
	if !m.leads() {
		return nil
	}
	return &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{
		{SucceededIndexes: ptr.To("0"), SucceededCount: ptr.To(int32(1))},
	}}
}

// podFailurePolicy fails the Job when the container that runs Flux fails. To start that pod alone once
// more would not run the command again: the other brokers have shut down with the first and completed,
// and a lost lead would wait for them until the deadline. Pods that were evicted or whose node went are
// replaced without counting, for then the other brokers wait for the new one.
//
// Kubernetes allows no such policy with restartPolicy OnFailure; who asks for that gets restarts.
func (m *miniCluster) podFailurePolicy() *batchv1.PodFailurePolicy {
	if m.restartPolicy() != corev1.RestartPolicyNever {
		return nil
	}
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{
			Action: batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
			},
		},
		{
			// The pod was asked to end: it is beyond the size, or its Job is suspended.
			Action: batchv1.PodFailurePolicyActionIgnore,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: ptr.To(m.name),
				Operator:      batchv1.PodFailurePolicyOnExitCodesOpIn,
				Values:        []int32{exitInterrupted},
			},
		},
		{
			Action: batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: ptr.To(m.name),
				Operator:      batchv1.PodFailurePolicyOnExitCodesOpNotIn,
				Values:        []int32{0},
			},
		},
	}}
}

func (m *miniCluster) restartPolicy() corev1.RestartPolicy {
	if m.spec.Pod.RestartPolicy == "" {
		return corev1.RestartPolicyNever
	}
	return corev1.RestartPolicy(m.spec.Pod.RestartPolicy)
}
