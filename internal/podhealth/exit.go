package podhealth

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// FirstFailure says how the one of these failed pods has ended that failed first: nil where there is none. Pods that
// were asked to end because another one had failed come after that one. Its texts are the member's, unbounded and as
// they come.
func FirstFailure(failed []corev1.Pod) *v1alpha1.RunExit {
	if len(failed) == 0 {
		return nil
	}
	first := slices.MinFunc(failed, func(a, b corev1.Pod) int {
		return cmp.Or(endOf(&a).Compare(endOf(&b)), cmp.Compare(completionIndex(&a), completionIndex(&b)))
	})
	return exitOf(&first)
}

// failure is the container of a pod that failed first, or nil.
func failure(pod *corev1.Pod) *corev1.ContainerStatus {
	var first *corev1.ContainerStatus
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			end := list[i].State.Terminated
			if end == nil || end.ExitCode == 0 {
				continue
			}
			if first == nil || end.FinishedAt.Time.Before(first.State.Terminated.FinishedAt.Time) {
				first = &list[i]
			}
		}
	}
	return first
}

// endOf is when a pod's first container failed, or when the pod was made, where none has.
func endOf(pod *corev1.Pod) time.Time {
	if c := failure(pod); c != nil {
		return c.State.Terminated.FinishedAt.Time
	}
	return pod.CreationTimestamp.Time
}

func completionIndex(pod *corev1.Pod) int {
	n, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil {
		return 1 << 30
	}
	return n
}

func exitOf(pod *corev1.Pod) *v1alpha1.RunExit {
	e := &v1alpha1.RunExit{Pod: pod.Name, Reason: pod.Status.Reason, Message: pod.Status.Message}
	if c := failure(pod); c != nil {
		end := c.State.Terminated
		e.Container, e.ExitCode = c.Name, ptr.To(end.ExitCode)
		e.Reason, e.Message = cmp.Or(e.Reason, end.Reason), cmp.Or(end.Message, e.Message)
	}
	return e
}
