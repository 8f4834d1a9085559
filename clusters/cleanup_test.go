package clusters

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// orphanage is a member's API server with objects of FleetMiniClusters that are deleted.
type orphanage struct {
	cluster.Cluster
	client.Client

	jobs    []batchv1.Job
	scripts []corev1.ConfigMap
	deleted []string
}

func (a *orphanage) GetAPIReader() client.Reader { return a }
func (a *orphanage) GetClient() client.Client    { return a }

func (a *orphanage) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	switch list := into.(type) {
	case *batchv1.JobList:
		list.Items = slices.Clone(a.jobs)
	case *corev1.ConfigMapList:
		list.Items = slices.Clone(a.scripts)
	}
	return nil
}

func (a *orphanage) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil // somebody else's
}

func (a *orphanage) Delete(_ context.Context, obj client.Object, _ ...client.DeleteOption) error {
	a.deleted = append(a.deleted, string(obj.GetUID()))
	return nil
}

// TestCleanup makes sure that what a hub removes that has been paused since it read the member is not a run that
// has begun meanwhile.
func TestCleanup(t *testing.T) {
	origin := fleet.Origin{FleetID: "hub", Owner: "hpc/app", OwnerUID: "owner"}
	meta := func(uid, run string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{UID: types.UID(uid), Annotations: map[string]string{v1alpha1.AnnotationFleetID: "hub", v1alpha1.AnnotationOwner: "hpc/app", v1alpha1.AnnotationOwnerUID: "owner"}}
		if run != "" {
			m.Labels = map[string]string{v1alpha1.LabelRun: run}
		}
		return m
	}
	const first, second = "0000000001", "0000000002"
	job := func(run string) []batchv1.Job { return []batchv1.Job{{ObjectMeta: meta("job", run)}} }
	stripped := func(run string) []batchv1.Job {
		j := job("")
		j[0].Spec.Template.Labels = map[string]string{v1alpha1.LabelRun: run}
		return j
	}
	over := func(run string) bool { return run == first }
	cases := map[string]struct {
		jobs    []batchv1.Job
		over    func(string) bool
		deleted []string
	}{
		"nothing runs":              {nil, over, []string{"scripts"}},
		"a run that is over":        {job(first), over, []string{"job"}},
		"a run that has begun":      {job(second), over, nil},
		"a run, and all is to go":   {job(second), nil, []string{"job"}},
		"a Job that says nothing":   {job(""), over, []string{"job"}},
		"its label was taken off":   {stripped(second), over, nil},
		"another's of the same hub": {[]batchv1.Job{{ObjectMeta: metav1.ObjectMeta{UID: "other", Annotations: map[string]string{v1alpha1.AnnotationFleetID: "hub"}}}}, over, []string{"scripts"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := &orphanage{jobs: c.jobs, scripts: []corev1.ConfigMap{{ObjectMeta: meta("scripts", "")}}}
			m := &Member{Cluster: a, line: newLine(func() time.Time { return noon }, DefaultLimits())}
			m.line.dials.Store(1)
			m.verified.Store(1)
			done, err := m.Cleanup(t.Context(), types.NamespacedName{Namespace: "hpc", Name: "app"}, Removal{Owns: origin.Owns, Over: c.over})
			if err != nil || done {
				t.Errorf("done: %t, error: %v", done, err)
			}
			if diff := cmp.Diff(c.deleted, a.deleted); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCleanupKeepsTheRecord(t *testing.T) {
	owns := func(metav1.Object) bool { return true }
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelRecord: "runs"}}}
	for keep, want := range map[bool]bool{true: false, false: true} {
		r := Removal{Owns: owns, KeepRecord: keep}
		if got := r.concerns(record); got != want {
			t.Errorf("kept: %t, deleted: %t", keep, got)
		}
	}
}
