package clusters

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

// severity orders troubles, the worst first: what keeps pods from being created keeps them from everything
// else, and so on. What only takes its time comes last.
type severity int

const (
	uncreated severity = iota
	unscheduled
	blocked // a container cannot start
	ended
	stuck // it ought to be gone
	severed
	unready
	starting
	leaving
)

// Words that Kubernetes has for it.
const (
	reasonFailedCreate     = "FailedCreate"
	reasonImagePullBackOff = "ImagePullBackOff"
	reasonErrImagePull     = "ErrImagePull"
	reasonCrashLoopBackOff = "CrashLoopBackOff"
	reasonCreating         = "ContainerCreating"
	reasonInitializing     = "PodInitializing"
	reasonTerminating      = "Terminating"
	reasonNodeNotReady     = "NodeNotReady"
)

// knownReasons are the words of schedulers and kubelets that are shown as the reason. Any other is part of
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

// trouble is what keeps one pod from being ready.
type trouble struct {
	severity
	reason, message string
}

// inWords makes a trouble of a word and a sentence of the member's.
func inWords(s severity, reason, message string) *trouble {
	if !slices.Contains(knownReasons, reason) {
		return &trouble{s, v1alpha1.ReasonPodsNotReady, sentenceOf(reason, message)}
	}
	return &trouble{s, reason, message}
}

func sentenceOf(word, message string) string {
	if word == "" || message == "" {
		return word + message
	}
	return word + ": " + message
}

// worstOf is the worst trouble of a Job's pods, and how bad it is; nil where all are ready or have succeeded.
func worstOf(pods []*corev1.Pod, now time.Time) (*fleet.PodIssue, severity) {
	var worst *fleet.PodIssue
	var how severity
	for _, pod := range pods {
		t := troubleOf(pod, now)
		switch {
		case t == nil:
		case worst == nil || t.severity < how:
			worst, how = &fleet.PodIssue{Reason: t.reason, Message: t.message, Pod: pod.Name, Pods: 1}, t.severity
		case t.severity == how && t.reason == worst.Reason:
			worst.Pods++
		}
	}
	return worst, how
}

// oneEach is the pod of each index that counts, in their order: one that has a future before any other,
// and then the newest.
func oneEach(pods []corev1.Pod) []*corev1.Pod {
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

func troubleOf(pod *corev1.Pod, now time.Time) *trouble {
	switch {
	case !pod.DeletionTimestamp.IsZero():
		return leavingTrouble(pod, now)
	case pod.Status.Phase == corev1.PodSucceeded:
		return nil
	case pod.Status.Phase == corev1.PodFailed:
		e := exitOf(pod)
		message := sentenceOf(e.Reason, e.Message)
		if c := failure(pod); c != nil {
			message = "container " + c.Name + ": " + endWords(c.State.Terminated)
		}
		return &trouble{ended, v1alpha1.ReasonPodsNotReady, sentenceOf("it has failed, and no other pod has taken its place yet", message)}
	case pod.Spec.NodeName == "":
		return unscheduledTrouble(pod)
	}
	ready := podCondition(pod, corev1.PodReady)
	if ready != nil && ready.Status == corev1.ConditionTrue {
		return nil
	}
	if t := blockedTrouble(pod); t != nil {
		return t
	}
	if pod.Status.Phase == corev1.PodRunning {
		return unreadyTrouble(pod, ready)
	}
	return startingTrouble(pod)
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// leavingTrouble is of a pod that is being deleted. The Job may make no other in its place before it is gone.
func leavingTrouble(pod *corev1.Pod, now time.Time) *trouble {
	if now.Sub(pod.DeletionTimestamp.Time) < overdue {
		return &trouble{leaving, reasonTerminating, "it is being deleted"}
	}
	message := "it should have been gone by " + pod.DeletionTimestamp.UTC().Format(time.RFC3339)
	if pod.Spec.NodeName != "" {
		message += "; its node " + pod.Spec.NodeName + " may be down"
	}
	return &trouble{stuck, reasonTerminating, message}
}

func unscheduledTrouble(pod *corev1.Pod) *trouble {
	c := podCondition(pod, corev1.PodScheduled)
	if c == nil || c.Reason == "" {
		return &trouble{unscheduled, v1alpha1.ReasonPodsNotReady, fmt.Sprintf("the scheduler %q has not said anything about it", pod.Spec.SchedulerName)}
	}
	return inWords(unscheduled, c.Reason, c.Message)
}

// blockedTrouble is of the first container that cannot start, or that ends again and again.
func blockedTrouble(pod *corev1.Pod) *trouble {
	for i, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for j := range list {
			if t := containerTrouble(&list[j]); t != nil {
				t.message = sentenceOf([]string{"init container ", "container "}[i]+list[j].Name, t.message)
				return t
			}
		}
	}
	return nil
}

// containerTrouble says the same about a container whenever it is looked at, though the kubelet tries and
// waits in turn.
func containerTrouble(c *corev1.ContainerStatus) *trouble {
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
		message := wait.Message
		if _, cause, ok := strings.Cut(message, reasonErrImagePull+": "); ok {
			message = cause
		}
		return &trouble{blocked, reasonImagePullBackOff, message}
	case failed && (c.RestartCount > 0 || wait.Reason == reasonCrashLoopBackOff):
		return &trouble{blocked, reasonCrashLoopBackOff, endWords(end)}
	case failed && c.State.Terminated != nil:
		return &trouble{blocked, v1alpha1.ReasonPodsNotReady, endWords(end)}
	case wait.Reason != "" && wait.Reason != reasonCreating && wait.Reason != reasonInitializing:
		return inWords(blocked, wait.Reason, wait.Message)
	default:
		return nil
	}
}

func endWords(end *corev1.ContainerStateTerminated) string {
	out := fmt.Sprintf("exit code %d", end.ExitCode)
	if end.Reason != "" && end.Reason != "Error" {
		out += ", " + end.Reason
	}
	return sentenceOf(out, end.Message)
}

func unreadyTrouble(pod *corev1.Pod, ready *corev1.PodCondition) *trouble {
	if ready == nil {
		return &trouble{unready, v1alpha1.ReasonPodsNotReady, "it runs, and is not ready"}
	}
	// Where a kubelet is silent, the member takes Ready away, and leaves the rest as it was last reported.
	all := podCondition(pod, corev1.ContainersReady)
	if len(pod.Spec.ReadinessGates) == 0 && all != nil && all.Status == corev1.ConditionTrue {
		return &trouble{severed, reasonNodeNotReady, "its node " + pod.Spec.NodeName + " is not ready"}
	}
	return &trouble{unready, v1alpha1.ReasonPodsNotReady, sentenceOf("it runs, and is not ready", sentenceOf(ready.Reason, ready.Message))}
}

func startingTrouble(pod *corev1.Pod) *trouble {
	for i := range pod.Status.InitContainerStatuses {
		if c := &pod.Status.InitContainerStatuses[i]; c.State.Running != nil && !c.Ready {
			return &trouble{starting, reasonInitializing, "init container " + c.Name + " is running"}
		}
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if w := list[i].State.Waiting; w != nil && w.Reason != "" {
				return inWords(starting, w.Reason, w.Message)
			}
		}
	}
	return &trouble{starting, v1alpha1.ReasonPodsNotReady, "its node " + pod.Spec.NodeName + " has not started it yet"}
}
