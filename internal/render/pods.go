package render

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Pods returns what Render would of the Job and the services pod, nil where there is none, and nothing else:
// for those who want to know what the pods of a MiniCluster need.
func Pods(in Input) (*batchv1.Job, *corev1.Pod, error) {
	m, err := prepare(in)
	if err != nil {
		return nil, nil, err
	}
	return m.job(), m.servicesPod(), nil
}
