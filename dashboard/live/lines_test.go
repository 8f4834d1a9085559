package live

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/queue"
)

func cores(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n), corev1.ResourcePods: resource.MustParse("110")}
}

func roomOf(n string) *nodeusage.Room {
	s := nodeusage.New(true)
	s.ReplaceNodes(slices.Values([]*corev1.Node{{ObjectMeta: metav1.ObjectMeta{UID: "n", Name: "n1"}, Status: corev1.NodeStatus{Allocatable: cores(n)}}}))
	s.ReplacePods(slices.Values([]*nodeusage.Pod(nil)))
	return s.Room()
}

func gangOf(pods int) fit.Gang {
	return fit.Gang{Size: pods, Pod: fit.PodOf(&corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
	}}}})}
}

func TestGangsAndLines(t *testing.T) {
	q, f := queue.New(), running()
	gangs := map[string]fit.Gang{}
	for _, m := range []string{"alpine", "basalt", "cinder", "onyx", "pumice", "quartz"} {
		gangs[m] = gangOf(4)
	}
	key := queue.Key{Namespace: "hpc", Name: "lammps"}
	q.Update(key, nil, &queue.Entry{Rank: queue.Rank{Key: key}, Gangs: gangs})
	q.Update(queue.Key{Namespace: "x", Name: "x"}, map[string]queue.Reservation{"alpine": {Run: runA, Gang: gangOf(2)}}, nil)
	f.Status.Placement.Waiting = []v1alpha1.RejectedCluster{{Name: "basalt"}}
	r := New(Options{Members: fakes{
		"alpine": {room: roomOf("4")}, "basalt": {room: roomOf("2")}, "cinder": {room: roomOf("3")}, "onyx": {away: true},
		"pumice": {}, "quartz": {room: &nodeusage.Room{State: nodeusage.Pending}},
	}, Queue: q, Now: time.Now})
	found, err := r.Gangs(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range found {
		got = append(got, fmt.Sprintf("%s %d of %d%s", g.Member, g.Fits, g.Pods, map[bool]string{true: ", " + g.Unknown}[g.Unknown != ""]))
	}
	want := []string{"cinder 3 of 4", "basalt 2 of 4", "alpine 2 of 4", "onyx 0 of 4, the member cannot be reached", "pumice 0 of 4, its nodes are not observed, or there are none"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	line, unknown, err := r.Line(t.Context(), "alpine")
	if err != nil || unknown != "" || len(line.Standings) != 1 || line.Standings[0].Fit.Pods != 2 {
		t.Errorf("%v %q %+v", err, unknown, line)
	}
	if _, unknown, _ := r.Line(t.Context(), "quartz"); unknown != "its nodes and pods have not been listed yet" {
		t.Errorf("got %q", unknown)
	}
	if found, err := r.Gangs(t.Context(), &v1alpha1.FleetMiniCluster{}); err != nil || found == nil || len(found) != 0 {
		t.Errorf("one that does not wait: %v %v", found, err)
	}
}
