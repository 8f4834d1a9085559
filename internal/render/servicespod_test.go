package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
)

// What names the brokers in DNS names the services' pod as well, and what selects brokers for any other
// purpose does not select it.
func TestServicesPodIsFoundByItsNameOnly(t *testing.T) {
	for title, minimalService := range map[string]bool{"all named": false, "minimal": true} {
		t.Run(title, func(t *testing.T) {
			in := minimal("true")
			in.Spec.Containers[0].RunFlux = true
			in.Spec.Containers = append(in.Spec.Containers, fluxv1alpha2.MiniClusterContainer{Name: "side", Ports: []int32{80}})
			in.Spec.Services = []fluxv1alpha2.MiniClusterContainer{{Name: "database", Image: "database", Ports: []int32{5432}}}
			in.Spec.Flux.MinimalService = minimalService
			bundle := mustRender(t, in)
			pod := bundle.ServicesPod
			headless, side := bundle.Services[0], bundle.Services[1]
			if !labels.SelectorFromSet(headless.Spec.Selector).Matches(labels.Set(pod.Labels)) {
				t.Errorf("the headless Service selects by %v, and the pod has %v", headless.Spec.Selector, pod.Labels)
			}
			if pod.Spec.Hostname != "lammps-services" || pod.Spec.Subdomain != headless.Name {
				t.Errorf("the pod is %s.%s", pod.Spec.Hostname, pod.Spec.Subdomain)
			}
			if labels.SelectorFromSet(side.Spec.Selector).Matches(labels.Set(pod.Labels)) {
				t.Errorf("the Service of a sidecar selects the services' pod by %v", side.Spec.Selector)
			}
			brokers := labels.Set(bundle.Job.Spec.Template.Labels)
			if !labels.SelectorFromSet(side.Spec.Selector).Matches(brokers) {
				t.Errorf("the Service of a sidecar selects by %v, and brokers have %v", side.Spec.Selector, brokers)
			}
		})
	}
}

// People's own Services select the pod as the Flux Operator labels it.
func TestServicesPodIsLabelledAsUpstream(t *testing.T) {
	in := minimal("true")
	in.Spec.Services = []fluxv1alpha2.MiniClusterContainer{{Name: "database", Image: "database"}}
	theirs := labels.Set{"app": "flux-operator", "app.kubernetes.io/name": "lammps", "namespace": in.Namespace, "job-name": "lammps", "job-index": "services"}
	if pod := mustRender(t, in).ServicesPod; !labels.SelectorFromSet(theirs).Matches(labels.Set(pod.Labels)) {
		t.Errorf("the pod has the labels %v, want %v among them", pod.Labels, theirs)
	}
}

func TestServicesPodHasNoKey(t *testing.T) {
	in := minimal("true")
	in.Spec.Services = []fluxv1alpha2.MiniClusterContainer{{Name: "database", Image: "database", Command: "serve"}}
	pod := mustRender(t, in).ServicesPod
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret != nil || volume.Projected != nil {
			t.Errorf("volume %s may hold a key", volume.Name)
		}
	}
}

// A service that is given no commands runs as its image does, which may have no shell.
func TestServiceKeepsItsImagesEntrypoint(t *testing.T) {
	in := minimal("true")
	in.Spec.Services = []fluxv1alpha2.MiniClusterContainer{{Name: "registry", Image: "registry"}}
	bundle := mustRender(t, in)
	if command := bundle.ServicesPod.Spec.Containers[0].Command; command != nil {
		t.Errorf("the command is %q", command)
	}
	for name := range bundle.ConfigMap.Data {
		if strings.HasPrefix(name, "services-") {
			t.Errorf("there is a file %s", name)
		}
	}
}

// The Flux Operator gives the services pod the pull secrets of the containers, so they must do for its images.
func TestServicesPodHasAllPullSecrets(t *testing.T) {
	in := minimal("true")
	in.Spec.Containers[0].ImagePullSecret = "site"
	in.Spec.Services = []fluxv1alpha2.MiniClusterContainer{{Name: "a", ImagePullSecret: "own"}, {Name: "b", ImagePullSecret: "site"}}
	bundle := mustRender(t, in)
	if diff := cmp.Diff([]corev1.LocalObjectReference{{Name: "own"}, {Name: "site"}}, bundle.ServicesPod.Spec.ImagePullSecrets); diff != "" {
		t.Errorf("of the services pod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.LocalObjectReference{{Name: "site"}}, bundle.Job.Spec.Template.Spec.ImagePullSecrets); diff != "" {
		t.Errorf("of the brokers' pods (-want +got):\n%s", diff)
	}
}

// An API server refuses a pod with the AppArmor profile of a container that it does not have.
func TestServicesPodHasNoProfilesOfOthers(t *testing.T) {
	in := minimal("true")
	in.Spec.Services = []fluxv1alpha2.MiniClusterContainer{{Name: "database", Image: "database"}}
	const profile = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "lammps"
	in.Spec.Pod.Annotations = map[string]string{profile: "runtime/default", "team": "md"}
	bundle := mustRender(t, in)
	if got := bundle.Job.Spec.Template.Annotations; got[profile] == "" || got["team"] != "md" {
		t.Errorf("the brokers' pods have the annotations %v", got)
	}
	got := bundle.ServicesPod.Annotations
	if _, has := got[profile]; has || got["team"] != "md" {
		t.Errorf("the services pod has the annotations %v", got)
	}
}

func TestNoServicesNoPod(t *testing.T) {
	if pod := mustRender(t, minimal("true")).ServicesPod; pod != nil {
		t.Errorf("there is a pod %s", pod.Name)
	}
}

func TestArchIsTheNodes(t *testing.T) {
	for arch, want := range map[string]string{"arm64": "arm64", "arm": "arm64", "aarch64": "arm64", "x86_64": "amd64"} {
		in := minimal("true")
		in.Spec.Flux.Arch = arch
		pod := mustRender(t, in).Job.Spec.Template.Spec
		if got := pod.NodeSelector[corev1.LabelArchStable]; got != want {
			t.Errorf("arch %s selects nodes of %q, want %q", arch, got, want)
		}
	}
	in := minimal("true")
	in.Spec.Flux.Arch = "arm64"
	in.Spec.Pod.NodeSelector = map[string]string{corev1.LabelArchStable: "riscv64"}
	if got := mustRender(t, in).Job.Spec.Template.Spec.NodeSelector[corev1.LabelArchStable]; got != "riscv64" {
		t.Errorf("a node selector of the spec gives way to arch: %s", got)
	}
}

// The munge key is where munge looks for it, in the container that runs Flux only.
func TestMungeKey(t *testing.T) {
	in := minimal("true")
	in.Spec.Containers[0].RunFlux = true
	in.Spec.Containers = append(in.Spec.Containers, fluxv1alpha2.MiniClusterContainer{Name: "side"})
	in.Spec.Flux.MungeSecret = "site-munge"
	pod := mustRender(t, in).Job.Spec.Template.Spec
	volume := ""
	for _, v := range pod.Volumes {
		if v.Secret != nil && v.Secret.SecretName == "site-munge" {
			volume = v.Name
			if *v.Secret.DefaultMode != 0o440 {
				t.Errorf("the key's mode is %o", *v.Secret.DefaultMode)
			}
		}
	}
	for i, want := range []string{"/etc/munge", ""} {
		got := ""
		for _, mount := range pod.Containers[i].VolumeMounts {
			if mount.Name == volume {
				got = mount.MountPath
			}
		}
		if volume == "" || got != want {
			t.Errorf("container %d has volume %q at %q, want it at %q", i, volume, got, want)
		}
	}
}
