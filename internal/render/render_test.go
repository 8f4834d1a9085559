package render_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/render"
)

func encode(t *testing.T, bundle *render.Bundle) string {
	t.Helper()
	text, err := json.Marshal(bundle.Objects())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rich has maps wherever a spec has them, since their order is what could differ.
func rich() render.Input {
	in := minimal("true")
	values := map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}
	in.Spec.Flux.Environment = values
	in.Spec.JobLabels = values
	in.Spec.Pod = fluxv1alpha2.PodSpec{
		Labels: values, Annotations: values, NodeSelector: values,
		NodeAffinity: map[string][]string{"x": {"1"}, "y": {"2"}, "z": {"3"}},
	}
	c := &in.Spec.Containers[0]
	c.Environment = values
	c.Secrets = map[string]fluxv1alpha2.Secret{"X": {Name: "s", Key: "k"}, "Y": {Name: "s", Key: "k"}}
	c.Volumes = map[string]fluxv1alpha2.ContainerVolume{
		"one": {Path: "/one", ConfigMapName: "c", Items: values}, "two": {Path: "/two"}, "three": {Path: "/three", HostPath: "/x"},
	}
	return in
}

func TestRenderIsDeterministic(t *testing.T) {
	want := encode(t, mustRender(t, rich()))
	for range 20 {
		if got := encode(t, mustRender(t, rich())); got != want {
			t.Fatalf("the same input gave other bytes:\n%s", cmp.Diff(want, got))
		}
	}
}

func TestRenderChangesNothing(t *testing.T) {
	in := rich()
	before := in.Spec.DeepCopy()
	bundle := mustRender(t, in)
	if diff := cmp.Diff(before, &in.Spec); diff != "" {
		t.Errorf("Render changed the spec (-before +after):\n%s", diff)
	}
	pod := &bundle.Job.Spec.Template
	pod.Labels["a"], pod.Annotations["a"], pod.Spec.NodeSelector["a"] = "changed", "changed", "changed"
	bundle.Job.Labels["a"] = "changed"
	bundle.Secret.Data["curve.cert"][0] = 'X'
	pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "changed"
	if diff := cmp.Diff(before, &in.Spec); diff != "" || in.CurveCert[0] == 'X' {
		t.Errorf("what is rendered shares memory with the input (-before +after):\n%s", diff)
	}
}

func TestMetadata(t *testing.T) {
	in := minimal("true")
	in.Spec.JobLabels = map[string]string{"team": "md", v1alpha1.LabelManagedBy: "me"}
	for _, object := range mustRender(t, in).Objects() {
		if object.GetObjectKind().GroupVersionKind().Kind == "" {
			t.Errorf("%s has no kind", object.GetName())
		}
		labels, annotations := object.GetLabels(), object.GetAnnotations()
		want := map[string]string{
			v1alpha1.AnnotationFleetID: "hub", v1alpha1.AnnotationOwner: "default/lammps", v1alpha1.AnnotationOwnerUID: "owner",
			v1alpha1.AnnotationDigest: annotations[v1alpha1.AnnotationDigest],
		}
		if diff := cmp.Diff(want, annotations); diff != "" || len(annotations[v1alpha1.AnnotationDigest]) != 16 {
			t.Errorf("annotations of %s (-want +got):\n%s", object.GetName(), diff)
		}
		if labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy || labels[v1alpha1.LabelOwner] != "lammps" {
			t.Errorf("labels of %s: %v", object.GetName(), labels)
		}
	}
	job := mustRender(t, in).Job
	want := map[string]string{
		"app": "flux-operator", "app.kubernetes.io/name": "lammps", "hpa-selector": "lammps", "namespace": "default",
		v1alpha1.LabelRun: "run-1", v1alpha1.LabelOwner: "lammps",
	}
	if diff := cmp.Diff(want, job.Spec.Template.Labels); diff != "" {
		t.Errorf("labels of the pods (-want +got):\n%s", diff)
	}
	if job.Labels["team"] != "md" || job.Labels[v1alpha1.LabelRun] != "run-1" {
		t.Errorf("labels of the Job: %v", job.Labels)
	}
}

func TestWithoutRunAndOrigin(t *testing.T) {
	in := minimal("true")
	in.RunID, in.Origin = "", fleet.Origin{}
	for _, object := range mustRender(t, in).Objects() {
		if len(object.GetAnnotations()) != 1 {
			t.Errorf("annotations of %s: %v, want the digest only", object.GetName(), object.GetAnnotations())
		}
		if _, ok := object.GetLabels()[v1alpha1.LabelRun]; ok {
			t.Errorf("%s has a run", object.GetName())
		}
	}
}

// TestSecretStaysInTheSecret looks for the key wherever it does not belong.
func TestSecretStaysInTheSecret(t *testing.T) {
	own := minimal("true")
	own.Spec.Flux.CurveCert = string(certificate("own"))
	for name, in := range map[string]render.Input{"generated": minimal("true"), "of the spec": own} {
		t.Run(name, func(t *testing.T) {
			bundle := mustRender(t, in)
			cert := string(bundle.Secret.Data["curve.cert"])
			if in.Spec.Flux.CurveCert != "" && cert != in.Spec.Flux.CurveCert {
				t.Error("the Secret does not hold the certificate of the spec")
			}
			_, line, _ := strings.Cut(cert, "secret-key = \"")
			key, _, _ := strings.Cut(line, "\"")
			if len(key) != 40 {
				t.Fatalf("no secret key in the Secret")
			}
			bundle.Secret.Data = nil
			quoted, err := json.Marshal(key)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(encode(t, bundle), strings.Trim(string(quoted), `"`)) {
				t.Error("the secret key is outside of the Secret")
			}
		})
	}
}

func TestCurveMode(t *testing.T) {
	tests := map[string]struct {
		pod  corev1.PodSecurityContext
		own  corev1.SecurityContext
		want int32
	}{
		"nothing said":      {want: 0o440},
		"root":              {own: corev1.SecurityContext{RunAsUser: ptr.To(int64(0))}, want: 0o440},
		"user and fsGroup":  {pod: corev1.PodSecurityContext{RunAsUser: ptr.To(int64(7)), FSGroup: ptr.To(int64(7))}, want: 0o440},
		"user, no fsGroup":  {pod: corev1.PodSecurityContext{RunAsUser: ptr.To(int64(7))}, want: 0o444},
		"root over the pod": {pod: corev1.PodSecurityContext{RunAsUser: ptr.To(int64(7))}, own: corev1.SecurityContext{RunAsUser: ptr.To(int64(0))}, want: 0o440},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			in := minimal("true")
			in.Spec.Pod.SecurityContext, in.Spec.Containers[0].SecurityContext = test.pod, test.own
			for _, volume := range mustRender(t, in).Job.Spec.Template.Spec.Volumes {
				if volume.Projected == nil {
					continue
				}
				if got := *volume.Projected.Sources[1].Secret.Items[0].Mode; got != test.want {
					t.Errorf("mode %o, want %o", got, test.want)
				}
				return
			}
			t.Error("no projected volume")
		})
	}
}

func TestErrors(t *testing.T) {
	tests := map[string]struct {
		change func(*render.Input)
		want   []string
	}{
		"every problem at once": {
			change: func(in *render.Input) { in.Spec.Size, in.Spec.Pod.RestartPolicy = -1, "Always" },
			want:   []string{"spec.size", "spec.pod.restartPolicy"},
		},
		"no certificate":      {change: func(in *render.Input) { in.CurveCert = nil }, want: []string{"CURVE certificate"}},
		"another certificate": {change: func(in *render.Input) { in.CurveCert = []byte("hello") }, want: []string{"CURVE certificate"}},
		"no namespace":        {change: func(in *render.Input) { in.Namespace = "" }, want: []string{"namespace"}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			in := minimal("true")
			test.change(&in)
			_, err := render.Render(in)
			if err == nil {
				t.Fatal("Render gave no error")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not name %s: %v", part, err)
				}
			}
		})
	}
}

// TestResize checks that the size of an elastic cluster changes nothing that a running Job or its pods
// could not follow.
func TestResize(t *testing.T) {
	in := minimal("true")
	in.Spec.MaxSize = 8
	before := mustRender(t, in)
	in.Spec.Size = 5
	after := mustRender(t, in)

	if *after.Job.Spec.Parallelism != 5 || *after.Job.Spec.Completions != 5 {
		t.Errorf("parallelism %d, completions %d; want 5", *after.Job.Spec.Parallelism, *after.Job.Spec.Completions)
	}
	after.Job.Spec.Parallelism, after.Job.Spec.Completions = before.Job.Spec.Parallelism, before.Job.Spec.Completions
	delete(after.Job.Annotations, v1alpha1.AnnotationDigest)
	delete(before.Job.Annotations, v1alpha1.AnnotationDigest)
	if diff := cmp.Diff(before.Job, after.Job); diff != "" {
		t.Errorf("a resize changed more of the Job (-before +after):\n%s", diff)
	}
	for _, file := range []string{"hostlist", "broker.toml"} {
		if !strings.Contains(after.ConfigMap.Data[file], "lammps-[0-7]") || before.ConfigMap.Data[file] != after.ConfigMap.Data[file] {
			t.Errorf("%s: %s", file, after.ConfigMap.Data[file])
		}
	}
}

// A container's own mount wins over that of a container before it, however the path is written.
func TestOwnMountWins(t *testing.T) {
	in := minimal("true")
	in.Spec.Containers[0].RunFlux = true
	in.Spec.Containers[0].Volumes = map[string]fluxv1alpha2.ContainerVolume{"first": {Path: "/data/"}, "both": {Path: "/both"}}
	in.Spec.Containers = append(in.Spec.Containers, fluxv1alpha2.MiniClusterContainer{
		Name: "side", Volumes: map[string]fluxv1alpha2.ContainerVolume{"own": {Path: "/data"}},
	})
	got := map[string]string{}
	for _, mount := range mustRender(t, in).Job.Spec.Template.Spec.Containers[1].VolumeMounts {
		if slices.Contains([]string{"first", "own", "both"}, mount.Name) {
			got[mount.Name] = mount.MountPath
		}
	}
	if diff := cmp.Diff(map[string]string{"own": "/data", "both": "/both"}, got); diff != "" {
		t.Errorf("mounts of the sidecar (-want +got):\n%s", diff)
	}
}
