package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/internal/render"
)

// TestDeviations holds what is rendered otherwise than by the Flux Operator, as docs/compatibility.md lists
// it. What the scripts do otherwise is tested by running them.
func TestDeviations(t *testing.T) {
	volume := func(v fluxv1alpha2.ContainerVolume) func(*spec) {
		return func(s *spec) { s.Containers[0].Volumes = map[string]fluxv1alpha2.ContainerVolume{"data": v} }
	}
	tests := map[string]struct {
		change func(*spec)
		got    func(*render.Bundle) any
		want   any
	}{
		"a failed pod is not restarted": {
			got: func(b *render.Bundle) any { return b.Job.Spec.Template.Spec.RestartPolicy }, want: corev1.RestartPolicyNever,
		},
		"a failure of Flux's container fails the Job": {
			got:  func(b *render.Bundle) any { return b.Job.Spec.PodFailurePolicy.Rules[2].Action },
			want: batchv1.PodFailurePolicyActionFailJob,
		},
		"a pod that was evicted or asked to end is no failure": {
			got: func(b *render.Bundle) any {
				rules := b.Job.Spec.PodFailurePolicy.Rules
				return []any{rules[0].Action, rules[0].OnPodConditions[0].Type, rules[1].Action, rules[1].OnExitCodes.Values}
			},
			want: []any{
				batchv1.PodFailurePolicyActionIgnore, corev1.DisruptionTarget, batchv1.PodFailurePolicyActionIgnore, []int32{143},
			},
		},
		"the lead's end is the Job's": {
			change: func(s *spec) { s.MaxSize = 8 },
			got: func(b *render.Bundle) any {
				rules := b.Job.Spec.SuccessPolicy.Rules
				return []any{len(rules), *rules[0].SucceededIndexes, *rules[0].SucceededCount}
			},
			want: []any{1, "0", int32(1)},
		},
		"without a lead among the pods each counts": {
			change: func(s *spec) {
				s.Flux.Bursting.LeadBroker = fluxv1alpha2.FluxBroker{Name: "lead", Address: "192.0.2.1", Size: 2}
				s.Flux.Bursting.Clusters = []fluxv1alpha2.BurstedCluster{{Name: "lammps", Size: 2}}
			},
			got: func(b *render.Bundle) any { return b.Job.Spec.SuccessPolicy == nil }, want: true,
		},
		"restarts are there for who asks for them": {
			change: func(s *spec) { s.Pod.RestartPolicy = "OnFailure" },
			got: func(b *render.Bundle) any {
				return []any{b.Job.Spec.Template.Spec.RestartPolicy, b.Job.Spec.PodFailurePolicy == nil}
			},
			want: []any{corev1.RestartPolicyOnFailure, true},
		},
		"no Job expires": {
			got: func(b *render.Bundle) any { return b.Job.Spec.TTLSecondsAfterFinished }, want: (*int32)(nil),
		},
		"the whole security context of the pod": {
			change: func(s *spec) {
				s.Pod.SecurityContext = corev1.PodSecurityContext{RunAsUser: ptr.To(int64(7)), SupplementalGroups: []int64{8}}
			},
			got:  func(b *render.Bundle) any { return *b.Job.Spec.Template.Spec.SecurityContext },
			want: corev1.PodSecurityContext{RunAsUser: ptr.To(int64(7)), SupplementalGroups: []int64{8}},
		},
		"a volume with a path alone is an emptyDir": {
			change: volume(fluxv1alpha2.ContainerVolume{Path: "/data"}),
			got:    func(b *render.Bundle) any { return userVolume(b).VolumeSource },
			want:   corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		},
		"an emptyDir honours path, medium and limit": {
			change: volume(fluxv1alpha2.ContainerVolume{EmptyDir: true, Path: "/data", EmptyDirMedium: "memory", EmptyDirSizeLimit: "1Gi"}),
			got:    func(b *render.Bundle) any { return []any{userMount(b).MountPath, userVolume(b).VolumeSource} },
			want: []any{"/data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
				Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("1Gi")),
			}}},
		},
		"an emptyDir without a path is the shared memory": {
			change: volume(fluxv1alpha2.ContainerVolume{EmptyDir: true}),
			got:    func(b *render.Bundle) any { return userMount(b).MountPath }, want: "/dev/shm",
		},
		"a volume of a ConfigMap bears the name that it is mounted by": {
			change: volume(fluxv1alpha2.ContainerVolume{ConfigMapName: "settings", Path: "/data"}),
			got:    func(b *render.Bundle) any { return []any{userMount(b).Name, userVolume(b).ConfigMap.Name} },
			want:   []any{"data", "settings"},
		},
		"the view's image has its pull secret": {
			change: func(s *spec) { s.Flux.Container.ImagePullSecret = "view" },
			got:    func(b *render.Bundle) any { return b.Job.Spec.Template.Spec.ImagePullSecrets },
			want:   []corev1.LocalObjectReference{{Name: "view"}},
		},
		"a minimal service selects the lead broker": {
			change: func(s *spec) { s.Flux.MinimalService = true },
			got:    func(b *render.Bundle) any { return b.Services[0].Spec.Selector },
			want:   map[string]string{"batch.kubernetes.io/job-name": "lammps", "batch.kubernetes.io/job-completion-index": "0"},
		},
		"an architecture selects nodes": {
			change: func(s *spec) { s.Flux.Arch = "aarch64" },
			got:    func(b *render.Bundle) any { return b.Job.Spec.Template.Spec.NodeSelector },
			want:   map[string]string{"kubernetes.io/arch": "arm64"},
		},
		"a hook of several words is run by a shell": {
			change: func(s *spec) {
				s.Containers[0].LifeCycle = fluxv1alpha2.LifeCycle{PostStartExec: "echo a > /tmp/b", PreStopExec: "/bin/stop"}
			},
			got: func(b *render.Bundle) any {
				hooks := b.Job.Spec.Template.Spec.Containers[0].Lifecycle
				return [][]string{hooks.PostStart.Exec.Command, hooks.PreStop.Exec.Command}
			},
			want: [][]string{{"/bin/sh", "-c", "echo a > /tmp/b"}, {"/bin/stop"}},
		},
		"a quiet broker tells errors": {
			change: func(s *spec) { s.Logging.Quiet = true },
			got:    brokerOption("-Slog-stderr-level="), want: "3",
		},
		"the brokers' tree is wide": {got: brokerOption("-Stbon.topo="), want: "kary:256"},
		"brokers that are not ready have names": {
			got: func(b *render.Bundle) any { return b.Services[0].Spec.PublishNotReadyAddresses }, want: true,
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			in := minimal("true")
			if test.change != nil {
				test.change(&in.Spec)
			}
			if diff := cmp.Diff(test.want, test.got(mustRender(t, in))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// brokerOption is the value of an option of the brokers.
func brokerOption(option string) func(*render.Bundle) any {
	return func(b *render.Bundle) any {
		_, rest, _ := strings.Cut(b.ConfigMap.Data["wait-0.sh"], option)
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
}

// userVolume and userMount are the ones called data.
func userVolume(b *render.Bundle) corev1.Volume {
	for _, volume := range b.Job.Spec.Template.Spec.Volumes {
		if volume.Name == "data" {
			return volume
		}
	}
	return corev1.Volume{}
}

func userMount(b *render.Bundle) corev1.VolumeMount {
	for _, mount := range b.Job.Spec.Template.Spec.Containers[0].VolumeMounts {
		if mount.Name == "data" {
			return mount
		}
	}
	return corev1.VolumeMount{}
}
