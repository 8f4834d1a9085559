package metrics

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func newScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// memory answers lists as the cache does: with what is in memory, and no copies.
type memory struct {
	client.Reader
	miniClusters []v1alpha1.FleetMiniCluster
	members      []v1alpha1.MemberCluster
	sources      []v1alpha1.GitSource
}

func (m *memory) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	switch list := into.(type) {
	case *v1alpha1.FleetMiniClusterList:
		list.Items = append(list.Items, m.miniClusters...)
	case *v1alpha1.MemberClusterList:
		list.Items = append(list.Items, m.members...)
	case *v1alpha1.GitSourceList:
		list.Items = append(list.Items, m.sources...)
	}
	return nil
}

// large is a fleet of so many FleetMiniClusters, a third of which wait, on 50 members.
func large(n int) *memory {
	var m memory
	for i := range 50 {
		m.members = append(m.members, *member(fmt.Sprintf("member-%02d", i)))
	}
	for i := range 200 {
		m.sources = append(m.sources, v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("source-%03d", i)}})
	}
	for i := range n {
		f := v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%02d", i%40), Name: fmt.Sprintf("mini-%05d", i)}}
		f.Spec.PlacementRef = &v1alpha1.LocalReference{Name: fmt.Sprintf("p-%d", i%5)}
		f.Status.State = v1alpha1.StateRunning
		on := m.members[i%len(m.members)].Name
		for j := range 4 {
			f.Status.Runs = append(f.Status.Runs, v1alpha1.Run{ID: fmt.Sprint(j), Cluster: on, State: v1alpha1.RunSucceeded})
		}
		f.Status.Runs[3].State = v1alpha1.RunRunning
		if i%3 == 0 {
			f.Status.State, f.Status.Runs = v1alpha1.StateWaiting, f.Status.Runs[:3]
			f.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInsufficientCapacity}}
		}
		m.miniClusters = append(m.miniClusters, f)
	}
	return &m
}

// What a scrape costs when gauges are made anew, and when those of seconds ago are served.
func BenchmarkScrape(b *testing.B) {
	for name, step := range map[string]time.Duration{"anew": freshness, "again": 0} {
		b.Run(name, func(b *testing.B) {
			now := noon
			s := leading(b, func() time.Time { return now })
			s.Hub = large(10_000)
			for b.Loop() {
				now = now.Add(step)
				if _, err := ctrlmetrics.Registry.Gather(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
