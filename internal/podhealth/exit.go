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

// FirstFailure says how the one of these failed pods has ended that failed first: nil where there is none. The lead comes
// before a follower that has merely ended with an error, which may be about the lead that it lost; pods that were asked to
// end come after all others. Its texts are the member's, unbounded and as they come, but for the message, which is that of
// Cause.
func FirstFailure(failed []corev1.Pod) *v1alpha1.RunExit {
	if len(failed) == 0 {
		return nil
	}
	first := slices.MinFunc(failed, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(interrupted(&a), interrupted(&b)), endOf(&a).Compare(endOf(&b)), cmp.Compare(completionIndex(&a), completionIndex(&b)))
	})
	lead := slices.IndexFunc(failed, func(p corev1.Pod) bool { return completionIndex(&p) == 0 && interrupted(&p) == 0 })
	if lead >= 0 && merelyFailed(&first) {
		first = failed[lead]
	}
	return exitOf(&first)
}

// Exit codes of a container that was ended by SIGTERM, which the entrypoint keeps for that, and by SIGKILL.
const exitInterrupted, exitKilled = 143, 137

// interrupted is 1 for a pod that has failed since it was asked to end, 0 for any other.
func interrupted(pod *corev1.Pod) int {
	c := failure(pod)
	if c == nil {
		return 0
	}
	code := c.State.Terminated.ExitCode
	if code == exitInterrupted || code == exitKilled && c.State.Terminated.Reason == reasonError && pod.DeletionTimestamp != nil {
		return 1
	}
	return 0
}

// reasonError is a kubelet's for a container of which it knows nothing but the exit code.
const reasonError = "Error"

// merelyFailed says that no more is known of a pod's end than what its container says.
func merelyFailed(pod *corev1.Pod) bool {
	c := failure(pod)
	return c != nil && c.State.Terminated.Reason == reasonError && pod.Status.Reason == ""
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
		e.Reason, e.Message = cmp.Or(e.Reason, end.Reason), cmp.Or(Cause(end.Message), e.Message)
	}
	return e
}
