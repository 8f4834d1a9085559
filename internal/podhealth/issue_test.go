package podhealth

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/internal/fleet"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// brokerPod is the pod of an index on a node, ready.
func brokerPod(index int, change ...func(*corev1.Pod)) corev1.Pod {
	name := fmt.Sprintf("lammps-%d-x7k2p", index)
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.NewTime(noon),
			Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: fmt.Sprint(index)},
		},
		Spec: corev1.PodSpec{NodeName: "n1", SchedulerName: "fluence"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}},
	}
	for _, f := range change {
		f(&pod)
	}
	return pod
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func unplaced(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
		if reason != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message}}
		}
	}
}

func lacks(kind corev1.PodConditionType, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := podCondition(p, kind)
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, message
	}
}

// containers makes a pod Pending, with these containers; the first is an init container.
func containers(list ...corev1.ContainerStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: list[:1], ContainerStatuses: list[1:]}
	}
}

func waits(name, reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func endedWith(code int32, reason, message string) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}
}

func restarts(c corev1.ContainerStatus, times int32, last *corev1.ContainerStateTerminated) corev1.ContainerStatus {
	c.RestartCount, c.LastTerminationState.Terminated = times, last
	return c
}

func deletedAt(t time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: t} }
}

var (
	viewDone = corev1.ContainerStatus{Name: "flux-view", Ready: true, State: corev1.ContainerState{Terminated: endedWith(0, "Completed", "")}}
	viewRuns = corev1.ContainerStatus{Name: "flux-view", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	viewWait = waits("flux-view", "PodInitializing", "")
	mainWait = waits("lammps", "PodInitializing", "")
	mainRuns = corev1.ContainerStatus{Name: "lammps", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
)

func TestWorstOf(t *testing.T) {
	creating := containers(viewDone, waits("lammps", "ContainerCreating", ""))
	pull := containers(viewDone, waits("lammps", "ErrImagePull", "not found"))
	first := func(reason, message string, pods int) *fleet.PodIssue {
		return &fleet.PodIssue{Reason: reason, Message: message, Pod: "lammps-0-x7k2p", Pods: pods}
	}
	cases := map[string]struct {
		pods []corev1.Pod
		want *fleet.PodIssue
	}{
		"no pods":                {nil, nil},
		"all ready":              {[]corev1.Pod{brokerPod(0), brokerPod(1)}, nil},
		"all ready or succeeded": {[]corev1.Pod{brokerPod(0, inPhase(corev1.PodSucceeded), lacks("Ready", "PodCompleted", "")), brokerPod(1)}, nil},
		"unschedulable": {
			[]corev1.Pod{brokerPod(0, unplaced("Unschedulable", "0/3 nodes are available"))},
			first("Unschedulable", "0/3 nodes are available", 1),
		},
		"held by a queue": {
			[]corev1.Pod{brokerPod(0, unplaced("SchedulingGated", "gates"))}, first("SchedulingGated", "gates", 1),
		},
		"no such scheduler": {
			[]corev1.Pod{brokerPod(0, unplaced("", ""))},
			first("PodsNotReady", `the scheduler "fluence" has not said anything about it`, 1),
		},
		"a reason of nobody's": {
			[]corev1.Pod{brokerPod(0, unplaced("ApplyFailed", "ha"))}, first("PodsNotReady", "ApplyFailed: ha", 1),
		},
		"a container's reason of nobody's": {
			[]corev1.Pod{brokerPod(0, containers(viewDone, waits("lammps", "NameConflict", "ha")))},
			first("PodsNotReady", "container lammps: NameConflict: ha", 1),
		},
		"an image that cannot be pulled": {[]corev1.Pod{brokerPod(0, pull)}, first("ImagePullBackOff", "container lammps: not found", 1)},
		"the same image in the next attempt": {
			[]corev1.Pod{brokerPod(0, containers(viewDone, waits("lammps", "ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: not found`)))},
			first("ImagePullBackOff", "container lammps: not found", 1),
		},
		"the view's image": {
			[]corev1.Pod{brokerPod(0, containers(waits("flux-view", "ImagePullBackOff", `Back-off pulling image "v"`), mainWait))},
			first("ImagePullBackOff", `init container flux-view: Back-off pulling image "v"`, 1),
		},
		"no Secret": {
			[]corev1.Pod{brokerPod(0, containers(viewDone, waits("lammps", "CreateContainerConfigError", `secret "s" not found`)))},
			first("CreateContainerConfigError", `container lammps: secret "s" not found`, 1),
		},
		"a crash loop": {
			[]corev1.Pod{brokerPod(0, containers(viewDone, restarts(waits("lammps", "CrashLoopBackOff", "back-off 40s restarting"), 3, endedWith(2, "Error", "bad input"))))},
			first("CrashLoopBackOff", "container lammps: exit code 2: bad input", 1),
		},
		"the same crash loop while it runs": {
			[]corev1.Pod{brokerPod(0, containers(viewDone, restarts(mainRuns, 4, endedWith(2, "Error", "bad input"))))},
			first("CrashLoopBackOff", "container lammps: exit code 2: bad input", 1),
		},
		"a crash loop of the view": {
			[]corev1.Pod{brokerPod(0, containers(restarts(viewRuns, 1, endedWith(137, "OOMKilled", "")), mainWait))},
			first("CrashLoopBackOff", "init container flux-view: exit code 137, OOMKilled", 1),
		},
		"a restart that helped": {[]corev1.Pod{brokerPod(0, func(p *corev1.Pod) {
			c := restarts(mainRuns, 1, endedWith(1, "Error", ""))
			c.Ready = true
			p.Status.ContainerStatuses = []corev1.ContainerStatus{c}
		})}, nil},
		"one container of two has ended": {
			[]corev1.Pod{brokerPod(0, containers(viewDone, corev1.ContainerStatus{Name: "side", State: corev1.ContainerState{Terminated: endedWith(3, "Error", "")}}))},
			first("PodsNotReady", "container side: exit code 3", 1),
		},
		"a failed pod that waits for its successor": {
			[]corev1.Pod{brokerPod(0, inPhase(corev1.PodFailed), func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = "Evicted", "low on memory" })},
			first("PodsNotReady", "it has failed, and no other pod has taken its place yet: Evicted: low on memory", 1),
		},
		"a failed container whose pod waits for its successor": {
			[]corev1.Pod{brokerPod(0, inPhase(corev1.PodFailed), func(p *corev1.Pod) {
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "flux-view", State: corev1.ContainerState{Terminated: endedWith(9, "Error", "")}}}
			})},
			first("PodsNotReady", "it has failed, and no other pod has taken its place yet: container flux-view: exit code 9", 1),
		},
		"a failed pod whose successor is ready": {[]corev1.Pod{brokerPod(0, inPhase(corev1.PodFailed), func(p *corev1.Pod) { p.Name = "lammps-0-aaaaa" }), brokerPod(0)}, nil},
		"a pod that is being deleted": {
			[]corev1.Pod{brokerPod(0, deletedAt(noon.Add(30*time.Second)))}, first("Terminating", "it is being deleted", 1),
		},
		"a pod that ought to have been deleted": {
			[]corev1.Pod{brokerPod(0, deletedAt(noon.Add(-time.Minute)))},
			first("Terminating", "it should have been deleted by 2026-05-01T11:59:00Z; its node n1 may be down", 1),
		},
		"a silent node": {
			[]corev1.Pod{brokerPod(0, lacks("Ready", "", ""))}, first("NodeNotReady", "its node n1 is not ready", 1),
		},
		"not ready": {
			[]corev1.Pod{brokerPod(0, lacks("ContainersReady", "", ""), lacks("Ready", "ContainersNotReady", "containers with unready status: [lammps]"))},
			first("PodsNotReady", "it runs, and is not ready: ContainersNotReady: containers with unready status: [lammps]", 1),
		},
		"kept by a readiness condition": {
			[]corev1.Pod{brokerPod(0, lacks("Ready", "ReadinessGatesNotReady", "gate"), func(p *corev1.Pod) { p.Spec.ReadinessGates = []corev1.PodReadinessGate{{}} })},
			first("PodsNotReady", "it runs, and is not ready: ReadinessGatesNotReady: gate", 1),
		},
		"no condition at all": {
			[]corev1.Pod{brokerPod(0, func(p *corev1.Pod) { p.Status.Conditions = nil })}, first("PodsNotReady", "it runs, and is not ready", 1),
		},
		"its view is copied": {[]corev1.Pod{brokerPod(0, containers(viewRuns, mainWait))}, first("PodInitializing", "init container flux-view is running", 1)},
		"its view's image is being pulled": {
			[]corev1.Pod{brokerPod(0, containers(viewWait, mainWait))}, first("PodInitializing", "", 1),
		},
		"its image is being pulled": {[]corev1.Pod{brokerPod(0, creating)}, first("ContainerCreating", "", 1)},
		"on a node that has not begun": {
			[]corev1.Pod{brokerPod(0, func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} })},
			first("PodsNotReady", "its node n1 has not started it yet", 1),
		},
		"others with the same, in the order of their indexes": {
			[]corev1.Pod{brokerPod(10, pull), brokerPod(9, creating), brokerPod(2, pull), brokerPod(3), brokerPod(11, pull)},
			&fleet.PodIssue{Reason: "ImagePullBackOff", Message: "container lammps: not found", Pod: "lammps-2-x7k2p", Pods: 3},
		},
		"the worst, not the first": {
			[]corev1.Pod{brokerPod(0, creating), brokerPod(1, pull), brokerPod(2, unplaced("Unschedulable", "no room"))},
			&fleet.PodIssue{Reason: "Unschedulable", Message: "no room", Pod: "lammps-2-x7k2p", Pods: 1},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, _ := worstOf(byIndex(c.pods), noon)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
