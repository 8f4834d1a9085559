package render_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/miniclustertest"
)

// TestParity compares our Job of each of the Flux Operator's examples with its own, in all that a pod can
// notice. What differs on purpose is taken out by the deviations, each with its reason.
func TestParity(t *testing.T) {
	shared, err := miniclustertest.Shared()
	if err != nil {
		t.Skipf("our Jobs are not compared with the Flux Operator's: %v", err)
	}
	used := map[string]bool{}
	for _, m := range shared {
		t.Run(m.Name, func(t *testing.T) {
			in := load(t, m)
			in.RunID = ""
			job := mustRender(t, in).Job
			text, err := os.ReadFile(filepath.Join(filepath.Dir(m.Path), "job.json"))
			if err != nil {
				t.Fatal(err)
			}
			var theirs batchv1.Job
			if err := json.Unmarshal(text, &theirs); err != nil {
				t.Fatal(err)
			}
			for _, d := range deviations {
				before := theirs.DeepCopy()
				d.apply(&theirs, job)
				used[d.reason] = used[d.reason] || !equality.Semantic.DeepEqual(before, &theirs)
			}
			if diff := gocmp.Diff(normal(&theirs), normal(job)); diff != "" {
				t.Errorf("the Job differs from the Flux Operator's (-theirs +ours):\n%s", diff)
			}
		})
	}
	for _, d := range deviations {
		if !used[d.reason] {
			t.Errorf("no example needs the deviation: %s", d.reason)
		}
	}
}

// deviations are what we do otherwise, as changes that make the Flux Operator's Job one of ours.
var deviations = []struct {
	reason string
	apply  func(theirs, ours *batchv1.Job)
}{
	{
		"A failed broker or command fails the run: restarted alone, the lead would wait for brokers that have completed.",
		func(theirs, ours *batchv1.Job) {
			theirs.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
			theirs.Spec.PodFailurePolicy = ours.Spec.PodFailurePolicy
		},
	},
	{
		"The lead's end is the run's: a pod that comes after it, or never gets a node, would keep the Job from completing.",
		func(theirs, ours *batchv1.Job) { theirs.Spec.SuccessPolicy = ours.Spec.SuccessPolicy },
	},
	{
		"What a container wrote last says why it failed, and is kept when its log is deleted.",
		func(theirs, _ *batchv1.Job) {
			pod := &theirs.Spec.Template.Spec
			for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
				for i := range containers {
					containers[i].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
				}
			}
		},
	},
	{
		"The Job can be created suspended, so suspend is always said.",
		func(theirs, _ *batchv1.Job) { theirs.Spec.Suspend = ptr.To(false) },
	},
	{
		"The CURVE key is in a Secret, so the scripts' volume has two sources. Its name does not grow with the MiniCluster's.",
		func(theirs, ours *batchv1.Job) {
			pod := &theirs.Spec.Template.Spec
			for i := range pod.Volumes {
				if pod.Volumes[i].Name == theirs.Name+"-entrypoint" {
					pod.Volumes[i] = ours.Spec.Template.Spec.Volumes[3]
				}
			}
			for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
				for i := range containers {
					for j := range containers[i].VolumeMounts {
						if mount := &containers[i].VolumeMounts[j]; mount.Name == theirs.Name+"-entrypoint" {
							mount.Name, mount.MountPath = "minifleet-entrypoint", "/flux_operator"
						}
					}
				}
			}
		},
	},
	{
		"Objects and pods carry labels and annotations that say whose they are.",
		func(theirs, ours *batchv1.Job) {
			theirs.Labels = addOurs(theirs.Labels, ours.Labels)
			theirs.Annotations = addOurs(theirs.Annotations, ours.Annotations)
			theirs.Spec.Template.Labels[v1alpha1.LabelOwner] = ours.Spec.Template.Labels[v1alpha1.LabelOwner]
		},
	},
	{
		"A volume with a path and no source is an emptyDir: no API server takes a claim without a name.",
		func(theirs, _ *batchv1.Job) {
			for i := range theirs.Spec.Template.Spec.Volumes {
				volume := &theirs.Spec.Template.Spec.Volumes[i]
				if claim := volume.PersistentVolumeClaim; claim != nil && claim.ClaimName == "" {
					volume.VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
				}
			}
		},
	},
}

// addOurs adds what is MiniFleet's own of our labels or annotations to theirs.
func addOurs(theirs, ours map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, theirs)
	for key, value := range ours {
		if strings.HasPrefix(key, "minifleet.dev/") || key == v1alpha1.LabelManagedBy {
			out[key] = value
		}
	}
	return out
}

// normal is a Job without what means nothing: the order of sets, and empty structs.
func normal(job *batchv1.Job) *batchv1.Job {
	job = job.DeepCopy()
	job.APIVersion = "batch/v1"
	pod := &job.Spec.Template.Spec
	byName := func(a, b corev1.Volume) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(pod.Volumes, byName)
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			c := &containers[i]
			slices.SortFunc(c.Env, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
			slices.SortFunc(c.VolumeMounts, func(a, b corev1.VolumeMount) int { return cmp.Compare(a.MountPath, b.MountPath) })
			if equality.Semantic.DeepEqual(c.SecurityContext, &corev1.SecurityContext{}) {
				c.SecurityContext = nil
			}
			if equality.Semantic.DeepEqual(c.Lifecycle, &corev1.Lifecycle{}) {
				c.Lifecycle = nil
			}
		}
	}
	return job
}
