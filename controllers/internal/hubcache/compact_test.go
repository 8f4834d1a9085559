package hubcache

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/miniclustertest"
)

// decoded is a FleetMiniCluster of ten ledger lines as a watch brings it.
func decoded(t *testing.T, name string, change func(*v1alpha1.FleetMiniCluster)) *v1alpha1.FleetMiniCluster {
	t.Helper()
	at := metav1.NewTime(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))
	const digest = "sha256:0123456789abcdef"
	f := &v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "hpc", Name: name, UID: types.UID(name), Finalizers: []string{"minifleet.dev/runs"}, Labels: map[string]string{},
			Annotations:   map[string]string{v1alpha1.AnnotationSourceAuthor: "Ada", v1alpha1.AnnotationSourceSubject: "Run it again"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "minifleet"}},
		},
		Status: v1alpha1.FleetMiniClusterStatus{
			State: v1alpha1.StateSucceeded, Digest: digest, Unasked: []string{},
			Placement: &v1alpha1.PlacementDecision{Digest: digest, Clusters: []string{"member-0001"}, Decisions: []v1alpha1.ClusterDecision{{Name: "member-0001"}}},
		},
	}
	for i := range 10 {
		f.Status.Runs = append(f.Status.Runs, v1alpha1.Run{
			ID: fmt.Sprint(name, i), Cluster: "member-0001", ClusterUID: "8f14e45f-ceea-467f-a9cf-0123456789ab", Namespace: "hpc", Digest: digest,
			Revision: "main@sha1:0123456789abcdef0123456789abcdef01234567", State: v1alpha1.RunSucceeded, JobUID: types.UID(fmt.Sprint("job-", name, i)),
			StartTime: &at, CompletionTime: &at, Commit: &v1alpha1.RunCommit{Hash: "0123456789abcdef0123456789abcdef01234567", Author: "Ada", Subject: "Run it again"},
		})
	}
	if change != nil {
		change(f)
	}
	return again(t, f)
}

// again is an object as it is decoded from what it is encoded as.
func again(t *testing.T, f *v1alpha1.FleetMiniCluster) *v1alpha1.FleetMiniCluster {
	t.Helper()
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	out := &v1alpha1.FleetMiniCluster{}
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCompactSaysTheSame(t *testing.T) {
	compact := Compact()
	for _, manifest := range miniclustertest.Own() {
		mc, err := manifest.MiniCluster()
		if err != nil {
			t.Fatal(err)
		}
		f := decoded(t, "a", func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster = mc.Spec })
		want := again(t, f)
		want.ManagedFields = nil
		for range 2 { // what comes as a list is transformed twice
			got, err := compact(f)
			if err != nil || got != any(f) {
				t.Fatalf("%s: %v, %v", manifest.Name, got, err)
			}
			if !reflect.DeepEqual(f, want) {
				t.Errorf("%s: is now %+v", manifest.Name, f)
			}
		}
		if cap(f.Status.Runs) != 10 {
			t.Errorf("%s: there is room for %d lines", manifest.Name, cap(f.Status.Runs))
		}
	}
	other := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Name: "p", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}}
	if _, err := compact(other); err != nil || other.ManagedFields != nil || other.Name != "p" {
		t.Errorf("a Placement is now %+v, %v", other, err)
	}
}

// Bytes, and no time: what is saved is most of the texts, and the room for more lines.
func TestCompactTakesLess(t *testing.T) {
	const n = 500
	each := func(transform func(any) (any, error)) int64 {
		objects := make([]any, n)
		before := heap()
		for i := range objects {
			kept, err := transform(decoded(t, fmt.Sprintf("copy-%03d", i), nil))
			if err != nil {
				t.Fatal(err)
			}
			objects[i] = kept
		}
		used := (heap() - before) / n
		runtime.KeepAlive(objects)
		return used
	}
	as := each(func(obj any) (any, error) { return obj, nil })
	compact := Compact()
	less := each(compact)
	runtime.KeepAlive(compact)
	t.Logf("%d bytes as decoded, %d compact", as, less)
	if less > as*3/4 {
		t.Errorf("%d bytes for each, where as many as %d are decoded", less, as)
	}
}

func TestSharedTextsAreBounded(t *testing.T) {
	var shared texts
	if long := strings.Repeat("x", maxLength+1); shared.shared(long) != long || len(shared.held) != 0 {
		t.Error("a long text is held")
	}
	for i := range 2*maxTexts + 5 {
		if text := fmt.Sprint(i); shared.shared(text) != text {
			t.Fatalf("%s is another", text)
		}
		if len(shared.held) > maxTexts {
			t.Fatalf("%d texts are held", len(shared.held))
		}
	}
}

// heap is what is live, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
