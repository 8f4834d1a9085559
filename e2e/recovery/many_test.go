package recovery

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
)

func took(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began).Round(10 * time.Millisecond)
}

// identify gives a hub an identity, as a controller does.
func (f *fleet) identify(t *testing.T, hub string) {
	t.Helper()
	check(t, f.Clients[hub].Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: v1alpha1.FleetConfigMap},
		Data:       map[string]string{"id": "of-many", "epoch": "1", "members": ""},
	}))
}

// fill makes so many FleetMiniClusters on a hub that have run three times each.
func (f *fleet) fill(t *testing.T, hub, namespace string, n int) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	next := make(chan int)
	for range 16 {
		wg.Go(func() {
			for i := range next {
				obj := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("run-%05d", i)}}
				obj.Spec.PlacementRef = &v1alpha1.LocalReference{Name: "any"}
				obj.Spec.MiniCluster = fluxv1alpha2.MiniClusterSpec{Size: 4, Containers: []fluxv1alpha2.MiniClusterContainer{{Image: "example.org/app", Command: "lmp -in in.melt"}}}
				err := f.Clients[hub].Create(t.Context(), obj)
				for j := range 3 {
					now := metav1.NewTime(time.Unix(1_700_000_000, 0))
					obj.Status.Runs = append(obj.Status.Runs, v1alpha1.Run{
						ID: fmt.Sprintf("%09x%d", i, j), Cluster: "alpine", Digest: "0123456789abcdef", State: v1alpha1.RunSucceeded,
						JobUID: "0b2f7a52-4a53-4d0c-9f0e-6f6a3c1f8a52", StartTime: &now, CompletionTime: &now, Message: "the lead succeeded",
					})
				}
				if err == nil {
					err = f.Clients[hub].Status().Update(t.Context(), obj)
				}
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	check(t, errors.Join(errs...))
}

// many measures how long a backup of many objects takes, and its restoration.
func (f *fleet) many(t *testing.T) {
	const namespace = "team-many"
	n := 300 // as many as are asked for in MINIFLEET_TEST_RESTORE
	if text := os.Getenv("MINIFLEET_TEST_RESTORE"); text != "" {
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatal(err)
		}
	}
	f.wipe(t, oldHub)
	f.wipe(t, newHub)
	f.found(t, oldHub, namespace)
	f.identify(t, oldHub)
	f.fill(t, oldHub, namespace, n)
	file := filepath.Join(t.TempDir(), "many")
	t.Logf("backup of %d: %s", n, took(func() { f.mustCLI(t, oldHub, "backup", "-o", file) }))
	info, err := os.Stat(file)
	check(t, err)
	t.Logf("%d bytes", info.Size())
	t.Logf("restore of %d: %s", n, took(func() { f.mustCLI(t, newHub, "restore", "-f", file) }))
	t.Logf("restore of %d, nothing to do: %s", n, took(func() { f.mustCLI(t, newHub, "restore", "-f", file) }))
	var list v1alpha1.FleetMiniClusterList
	check(t, f.Clients[newHub].List(t.Context(), &list))
	if len(list.Items) != n {
		t.Errorf("%d of %d", len(list.Items), n)
	}
	for i := range list.Items {
		if runs := list.Items[i].Status.Runs; len(runs) != 3 {
			t.Fatalf("%s has %d runs", list.Items[i].Name, len(runs))
		}
	}
}
