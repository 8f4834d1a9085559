package podhealth

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func TestFirstFailure(t *testing.T) {
	failedAt := func(after time.Duration, code int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			end := endedWith(code, "Error", "m")
			end.FinishedAt = metav1.NewTime(noon.Add(after))
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
				{Name: "lammps", State: corev1.ContainerState{Terminated: end}},
			}}
		}
	}
	killed := func(after time.Duration, reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			failedAt(after, 137)(p)
			p.Status.ContainerStatuses[0].State.Terminated.Reason = reason
		}
	}
	deleted := func(p *corev1.Pod) {
		killed(0, "Error")(p)
		p.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	evicted := func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}
	}
	exit := func(pod string, code int32) *v1alpha1.RunExit {
		return &v1alpha1.RunExit{Pod: pod, Container: "lammps", ExitCode: ptr.To(code), Reason: "Error", Message: "m"}
	}
	oom := func(pod string) *v1alpha1.RunExit {
		e := exit(pod, 137)
		e.Reason = "OOMKilled"
		return e
	}
	cases := map[string]struct {
		failed []corev1.Pod
		want   *v1alpha1.RunExit
	}{
		"none":                      {nil, nil},
		"the one that failed first": {[]corev1.Pod{brokerPod(0, failedAt(2*time.Second, 143)), brokerPod(1, failedAt(time.Second, 3))}, exit("lammps-1-x7k2p", 3)},
		"the lead, and before it a follower that lost it":     {[]corev1.Pod{brokerPod(0, failedAt(2*time.Second, 2)), brokerPod(1, failedAt(time.Second, 1))}, exit("lammps-0-x7k2p", 2)},
		"the lead, and before it a follower without memory":   {[]corev1.Pod{brokerPod(0, failedAt(2*time.Second, 1)), brokerPod(1, killed(0, "OOMKilled"))}, oom("lammps-1-x7k2p")},
		"the lead, and before it an evicted follower":         {[]corev1.Pod{brokerPod(0, failedAt(2*time.Second, 1)), brokerPod(1, evicted)}, &v1alpha1.RunExit{Pod: "lammps-1-x7k2p", Reason: "Evicted", Message: "low on memory"}},
		"a follower, and before it one that was asked to end": {[]corev1.Pod{brokerPod(1, failedAt(time.Second, 3)), brokerPod(2, failedAt(0, 143))}, exit("lammps-1-x7k2p", 3)},
		"a follower, and before it a lead that was deleted":   {[]corev1.Pod{brokerPod(1, failedAt(time.Second, 3)), brokerPod(0, deleted)}, exit("lammps-1-x7k2p", 3)},
		"at once, by index": {[]corev1.Pod{brokerPod(10, failedAt(0, 1)), brokerPod(9, failedAt(0, 2))}, exit("lammps-9-x7k2p", 2)},
		"without a container that failed": {
			[]corev1.Pod{brokerPod(0, evicted)}, &v1alpha1.RunExit{Pod: "lammps-0-x7k2p", Reason: "Evicted", Message: "low on memory"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, FirstFailure(c.failed)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
