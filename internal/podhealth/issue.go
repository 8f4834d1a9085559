package podhealth

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// severity orders issues, the worst first: a pod that has no node can do nothing else, and so on. What only takes
// its time comes last.
type severity int

const (
	unscheduled severity = iota
	blocked              // a container cannot start
	ended
	stuck // it ought to have been deleted
	nodeNotReady
	unready
	starting
	terminating
)

// Reasons that Kubernetes gives.
const (
	reasonImagePullBackOff = "ImagePullBackOff"
	reasonErrImagePull     = "ErrImagePull"
	reasonCrashLoopBackOff = "CrashLoopBackOff"
	reasonCreating         = "ContainerCreating"
	reasonInitializing     = "PodInitializing"
	reasonTerminating      = "Terminating"
	reasonNodeNotReady     = "NodeNotReady"
)

// knownReasons are those of schedulers and kubelets that are shown as the reason. Any other is part of
// the message, so that no member can say what only the hub says.
var knownReasons = []string{
	corev1.PodReasonUnschedulable, corev1.PodReasonSchedulingGated, corev1.PodReasonSchedulerError,
	reasonImagePullBackOff, "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError", reasonCrashLoopBackOff,
	"PreCreateHookError", "PreStartHookError", "PostStartHookError", "CreatePodSandboxError", "ConfigPodSandboxError",
	reasonCreating, reasonInitializing,
}

// overdue is how long after its deadline a pod that is being deleted counts as stuck. The deadline is by the
// member's clock.
const overdue = 30 * time.Second

// issue is what keeps one pod from being ready.
type issue struct {
	severity
	reason, message string
}

// reported makes an issue of a reason and a message of the member's.
func reported(s severity, reason, message string) *issue {
	if !slices.Contains(knownReasons, reason) {
		return &issue{s, v1alpha1.ReasonPodsNotReady, sentenceOf(reason, message)}
	}
	return &issue{s, reason, message}
}

func sentenceOf(reason, message string) string {
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}

// worstOf is the worst issue of a Job's pods, and its severity; nil where all are ready or have succeeded.
func worstOf(pods []*corev1.Pod, now time.Time) (*fleet.PodIssue, severity) {
	var worst *fleet.PodIssue
	var worstSeverity severity
	for _, pod := range pods {
		t := issueOf(pod, now)
		switch {
		case t == nil:
		case worst == nil || t.severity < worstSeverity:
			worst, worstSeverity = &fleet.PodIssue{Reason: t.reason, Message: t.message, Pod: pod.Name, Pods: 1}, t.severity
		case t.severity == worstSeverity && t.reason == worst.Reason:
			worst.Pods++
		}
	}
	return worst, worstSeverity
}

// byIndex is the pod that counts for each index, in their order: one that may still become ready before any other,
// and then the newest.
func byIndex(pods []corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range pods {
		out = append(out, &pods[i])
	}
	over := func(p *corev1.Pod) int {
		if p.Status.Phase == corev1.PodFailed || !p.DeletionTimestamp.IsZero() {
			return 1
		}
		return 0
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(completionIndex(a), completionIndex(b)), cmp.Compare(over(a), over(b)),
			b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(out, func(a, b *corev1.Pod) bool { return completionIndex(a) == completionIndex(b) })
}

func issueOf(pod *corev1.Pod, now time.Time) *issue {
	switch {
	case !pod.DeletionTimestamp.IsZero():
		return terminatingIssue(pod, now)
	case pod.Status.Phase == corev1.PodSucceeded:
		return nil
	case pod.Status.Phase == corev1.PodFailed:
		e := exitOf(pod)
		message := sentenceOf(e.Reason, e.Message)
		if c := failure(pod); c != nil {
			message = "container " + c.Name + ": " + exitSentence(c.State.Terminated)
		}
		return &issue{ended, v1alpha1.ReasonPodsNotReady, sentenceOf("it has failed, and no other pod has taken its place yet", message)}
	case pod.Spec.NodeName == "":
		return unscheduledIssue(pod)
	}
	ready := podCondition(pod, corev1.PodReady)
	if ready != nil && ready.Status == corev1.ConditionTrue {
		return nil
	}
	if t := blockedIssue(pod); t != nil {
		return t
	}
	if pod.Status.Phase == corev1.PodRunning {
		return unreadyIssue(pod, ready)
	}
	return startingIssue(pod)
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// terminatingIssue is of a pod that is being deleted. The Job may make no other in its place before it is deleted.
func terminatingIssue(pod *corev1.Pod, now time.Time) *issue {
	if now.Sub(pod.DeletionTimestamp.Time) < overdue {
		return &issue{terminating, reasonTerminating, "it is being deleted"}
	}
	message := "it should have been deleted by " + pod.DeletionTimestamp.UTC().Format(time.RFC3339)
	if pod.Spec.NodeName != "" {
		message += "; its node " + pod.Spec.NodeName + " may be down"
	}
	return &issue{stuck, reasonTerminating, message}
}

func unscheduledIssue(pod *corev1.Pod) *issue {
	c := podCondition(pod, corev1.PodScheduled)
	if c == nil || c.Reason == "" {
		return &issue{unscheduled, v1alpha1.ReasonPodsNotReady, fmt.Sprintf("the scheduler %q has not said anything about it", pod.Spec.SchedulerName)}
	}
	return reported(unscheduled, c.Reason, c.Message)
}

// blockedIssue is of the first container that cannot start, or that ends again and again.
func blockedIssue(pod *corev1.Pod) *issue {
	for i, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for j := range list {
			if t := containerIssue(&list[j]); t != nil {
				t.message = sentenceOf([]string{"init container ", "container "}[i]+list[j].Name, t.message)
				return t
			}
		}
	}
	return nil
}

// containerIssue says the same about a container whenever it is asked, though the kubelet tries and
// waits in turn.
func containerIssue(c *corev1.ContainerStatus) *issue {
	wait := corev1.ContainerStateWaiting{}
	if c.State.Waiting != nil {
		wait = *c.State.Waiting
	}
	end := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
	failed := end != nil && end.ExitCode != 0
	switch {
	case c.Ready:
		return nil
	case wait.Reason == reasonErrImagePull, wait.Reason == reasonImagePullBackOff:
		// The cause is in no field of its own: the kubelet tells it in the message only.
		message := wait.Message
		if _, cause, ok := strings.Cut(message, reasonErrImagePull+": "); ok {
			message = cause
		}
		return &issue{blocked, reasonImagePullBackOff, message}
	case failed && (c.RestartCount > 0 || wait.Reason == reasonCrashLoopBackOff):
		return &issue{blocked, reasonCrashLoopBackOff, exitSentence(end)}
	case failed && c.State.Terminated != nil:
		return &issue{blocked, v1alpha1.ReasonPodsNotReady, exitSentence(end)}
	case wait.Reason != "" && wait.Reason != reasonCreating && wait.Reason != reasonInitializing:
		return reported(blocked, wait.Reason, wait.Message)
	default:
		return nil
	}
}

func exitSentence(end *corev1.ContainerStateTerminated) string {
	out := fmt.Sprintf("exit code %d", end.ExitCode)
	if end.Reason != "" && end.Reason != "Error" {
		out += ", " + end.Reason
	}
	return sentenceOf(out, Cause(end.Message))
}

func unreadyIssue(pod *corev1.Pod, ready *corev1.PodCondition) *issue {
	if ready == nil {
		return &issue{unready, v1alpha1.ReasonPodsNotReady, "it runs, and is not ready"}
	}
	// Where a kubelet is silent, the member takes Ready away, and keeps the rest as it was last reported.
	all := podCondition(pod, corev1.ContainersReady)
	if len(pod.Spec.ReadinessGates) == 0 && all != nil && all.Status == corev1.ConditionTrue {
		return &issue{nodeNotReady, reasonNodeNotReady, "its node " + pod.Spec.NodeName + " is not ready"}
	}
	return &issue{unready, v1alpha1.ReasonPodsNotReady, sentenceOf("it runs, and is not ready", sentenceOf(ready.Reason, ready.Message))}
}

func startingIssue(pod *corev1.Pod) *issue {
	for i := range pod.Status.InitContainerStatuses {
		if c := &pod.Status.InitContainerStatuses[i]; c.State.Running != nil && !c.Ready {
			return &issue{starting, reasonInitializing, "init container " + c.Name + " is running"}
		}
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if w := list[i].State.Waiting; w != nil && w.Reason != "" {
				return reported(starting, w.Reason, w.Message)
			}
		}
	}
	return &issue{starting, v1alpha1.ReasonPodsNotReady, "its node " + pod.Spec.NodeName + " has not started it yet"}
}
