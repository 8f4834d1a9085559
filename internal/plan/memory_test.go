package plan_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// BenchmarkMemory is what FleetMiniClusters of ten ledger lines each take in the hub's cache, which has no managed fields: live bytes of each, and bytes as
// JSON, which is what etcd holds of it, less what the API server adds.
func BenchmarkMemory(b *testing.B) {
	const n = 10000
	for b.Loop() {
		before, size := liveHeap(), 0
		indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
		for i := range n {
			data := encoded(b, i)
			size += len(data)
			f := &v1alpha1.FleetMiniCluster{}
			if err := json.Unmarshal(data, f); err != nil {
				b.Fatal(err)
			}
			if err := indexer.Add(f); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(liveHeap()-before)/n, "live-B/object")
		b.ReportMetric(float64(size)/n, "json-B/object")
		runtime.KeepAlive(indexer)
	}
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// encoded is one that has run ten times, the last of which is on record with its placement and line.
func encoded(b *testing.B, i int) []byte {
	b.Helper()
	w := MakeObject(fmt.Sprintf("simulation-%05d", i)).Placed(fmt.Sprintf("member-%04d", i%1000))
	for r := range 10 {
		run := MakeRun(fmt.Sprintf("%06x%04x", i, r), fmt.Sprintf("member-%04d", (i+r)%1000), v1alpha1.RunSucceeded)
		run.Namespace, run.Revision = "hpc", "main@sha1:0123456789abcdef0123456789abcdef01234567"
		run.ClusterUID, run.RunningTime = "8f14e45f-ceea-467f-a9cf-0123456789ab", at(0)
		w.Runs(run)
	}
	w.Shown(v1alpha1.ClusterStatus{Name: fmt.Sprintf("member-%04d", i%1000), Run: "0123456789", State: v1alpha1.RunSucceeded, Sync: v1alpha1.Synced, Health: v1alpha1.Healthy, Message: "succeeded"})
	w.Ready(v1alpha1.ReasonRunSucceeded)
	out, err := json.Marshal(w.Obj())
	if err != nil {
		b.Fatal(err)
	}
	return out
}
