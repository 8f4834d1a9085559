package view_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/view"
)

func gang(pods int, cpu string) fit.Gang {
	return fit.Gang{Size: pods, Pod: fit.PodOf(&corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi"), "nvidia.com/gpu": resource.MustParse("1"),
	}}}}})}
}

// room is of one node with so many cores free of 16, and as many GPUs.
func room(free string) *nodeusage.Room {
	s := nodeusage.New(true)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "n", Name: "node-7"}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		"nvidia.com/gpu": resource.MustParse("16"), corev1.ResourcePods: resource.MustParse("110"),
	}
	used := resource.MustParse("16")
	used.Sub(resource.MustParse(free))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID("p")}, Spec: corev1.PodSpec{NodeName: "node-7", RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: used}}}}}}
	s.ReplaceNodes(slices.Values([]*corev1.Node{n}))
	s.ReplacePods(slices.Values([]*nodeusage.Pod{nodeusage.PodFrom(p)}))
	return s.Room()
}

func queued(namespace, name string, priority int32, g fit.Gang) queue.Entry {
	return queue.Entry{
		Rank:  queue.Rank{Priority: priority, Created: noon, Key: queue.Key{Namespace: namespace, Name: name}},
		Gangs: map[string]fit.Gang{"alpine": g},
	}
}

func lineOf(free string, entries ...queue.Entry) queue.Line {
	q := queue.New()
	for _, e := range entries {
		q.Update(e.Key, nil, &e)
	}
	return q.Line("alpine", room(free), 10)
}

func TestLineOf(t *testing.T) {
	each := view.Amount{CPU: 2, Memory: 1 << 30, GPUs: 1}
	line := lineOf("10", queued("canary", "canary-large", 9, gang(8, "2")), queued("hpc", "b", 1, gang(2, "2")), queued("hpc", "c", 0, gang(6, "2")))
	want := view.Line{Member: "alpine", Total: 3, Places: []view.Place{
		{Place: 1, Namespace: "canary", Name: "canary-large", Priority: 9, Since: &noon, Pods: 8, Each: each, Fits: 5, Miss: "2 CPU short on node-7"},
		{
			Place: 2, Namespace: "hpc", Name: "b", Priority: 1, Since: &noon, Pods: 2, Each: each, Fits: 2, Behind: &view.Ref{Namespace: "canary", Name: "canary-large"},
			Turn: "room there is kept for a run of another namespace, which waits for it and comes first; " +
				"its priority 1 counts as 0 among other namespaces (annotation minifleet.dev/max-priority of its namespace)",
		},
		{
			Place: 3, Namespace: "hpc", Name: "c", Since: &noon, Pods: 6, Each: each, Fits: 5, Behind: &view.Ref{Namespace: "canary", Name: "canary-large"},
			Miss: "2 CPU short on node-7",
		},
	}}
	since := func(queue.Key) *time.Time { return &noon }
	if diff := cmp.Diff(want, view.LineOf(line, nil, since)); diff != "" {
		t.Error(diff)
	}
	want.Places[0] = view.Place{Place: 1, Hidden: true}
	want.Places[1].Behind, want.Places[2].Behind = &view.Ref{}, &view.Ref{}
	got := view.LineOf(line, only("hpc"), since)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if raw, err := json.Marshal(got); err != nil || strings.Contains(string(raw), "canary") {
		t.Errorf("%v %s", err, raw)
	}
}

func TestLineOfIsBounded(t *testing.T) {
	line := queue.Line{Member: "alpine", Standings: make([]queue.Standing, 2*view.MaxPlaces)}
	if got := view.LineOf(line, nil, nil); len(got.Places) != view.MaxPlaces || got.Total != 2*view.MaxPlaces || got.Places[7].Fits != 0 {
		t.Errorf("%d places, %d in all", len(got.Places), got.Total)
	}
	if got := view.LineOf(queue.Line{Member: "alpine"}, nil, nil); got.Places == nil {
		t.Error("a list is nil")
	}
}

// Who would exceed what the namespace may use is told so, and it alone.
func TestLineOfLimits(t *testing.T) {
	q, first, second := queue.New(), queued("hpc", "a", 0, gang(2, "2")), queued("canary", "b", 0, gang(1, "2"))
	none := int32(0)
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "alpine"}}
	m.Spec.Shares = []v1alpha1.NamespaceShare{{Name: "hpc", Namespaces: v1alpha1.ShareNamespaces{Names: []string{"hpc"}}, Runs: &none}}
	q.SetShares(m)
	q.Update(first.Key, nil, &first)
	q.Update(second.Key, nil, &second)
	for _, p := range view.LineOf(q.Line("alpine", room("10"), 10), nil, nil).Places {
		if limited := strings.HasPrefix(p.Turn, "quota exceeded: "); limited != (p.Name == "a") || p.Quota != limited {
			t.Errorf("%+v", p)
		}
	}
}
