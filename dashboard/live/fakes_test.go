package live

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
)

const runA, runB = "00000000aa", "00000000bb"

// fakes are members by name.
type fakes map[string]*fake

func (f fakes) Member(name string) (Member, error) {
	m, ok := f[name]
	if !ok || m.isAway() {
		return nil, clusters.ErrNotEngaged
	}
	return m, nil
}

// fake is a member.
type fake struct {
	mu sync.Mutex
	// hung answers nothing; away is not connected; err is the answer to everything.
	hung, away bool
	err        error
	pods       []corev1.Pod
	objects    map[string]client.Object // by KIND/NAME
	room       *nodeusage.Room
	lists      int
	// logs are the answers to requests for logs, one after the other; the last is given again. asked are the requests.
	logs  []func(context.Context, corev1.PodLogOptions) (io.ReadCloser, error)
	asked []corev1.PodLogOptions
}

func (m *fake) set(change func(*fake)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

func (m *fake) isAway() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.away
}

// answer waits for as long as the member hangs.
func (m *fake) answer(ctx context.Context) error {
	m.mu.Lock()
	hung, err := m.hung, m.err
	m.mu.Unlock()
	if hung {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (m *fake) KeyOf(_ context.Context, f *v1alpha1.FleetMiniCluster, _ fleet.Origin) types.NamespacedName {
	return types.NamespacedName{Namespace: f.Namespace, Name: f.Name}
}

func (m *fake) PodsOfJob(ctx context.Context, _ types.NamespacedName, run string) ([]corev1.Pod, error) {
	err := m.answer(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lists++
	return slices.DeleteFunc(slices.Clone(m.pods), func(p corev1.Pod) bool { return p.Labels[v1alpha1.LabelRun] != run }), err
}

func (m *fake) PodLog(ctx context.Context, _ types.NamespacedName, o corev1.PodLogOptions) (io.ReadCloser, error) {
	if err := m.answer(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	next := m.logs[min(len(m.asked), len(m.logs)-1)]
	m.asked = append(m.asked, o)
	m.mu.Unlock()
	return next(ctx, o)
}

func (m *fake) GetLive(ctx context.Context, key types.NamespacedName, into client.Object) error {
	if err := m.answer(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	notFound := apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	switch into := into.(type) {
	case *corev1.Pod:
		for i := range m.pods {
			if m.pods[i].Name == key.Name {
				m.pods[i].DeepCopyInto(into)
				return nil
			}
		}
		if o, ok := m.objects["Pod/"+key.Name].(*corev1.Pod); ok {
			o.DeepCopyInto(into)
			return nil
		}
	case *batchv1.Job:
		if o, ok := m.objects["Job/"+key.Name].(*batchv1.Job); ok {
			o.DeepCopyInto(into)
			return nil
		}
	case *corev1.Secret:
		if o, ok := m.objects["Secret/"+key.Name].(*corev1.Secret); ok {
			o.DeepCopyInto(into)
			return nil
		}
	case *corev1.ConfigMap:
		if o, ok := m.objects["ConfigMap/"+key.Name].(*corev1.ConfigMap); ok {
			o.DeepCopyInto(into)
			return nil
		}
	case *corev1.Service:
		if o, ok := m.objects["Service/"+key.Name].(*corev1.Service); ok {
			o.DeepCopyInto(into)
			return nil
		}
	}
	return notFound
}

func (m *fake) Owned(_ context.Context, _ types.NamespacedName, origin fleet.Origin) ([]clusters.Owned, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []clusters.Owned
	for _, name := range slices.Sorted(maps.Keys(m.objects)) {
		if kind, _, _ := strings.Cut(name, "/"); origin.Owns(m.objects[name]) {
			out = append(out, clusters.Owned{Kind: kind, Object: m.objects[name]})
		}
	}
	return out, nil
}

func (m *fake) Room(...string) *nodeusage.Room {
	if m.room == nil {
		return &nodeusage.Room{State: nodeusage.Unknown}
	}
	return m.room
}

func (m *fake) RoomError() string { return "" }

func reader(members fakes) *Reader {
	return New(Options{Members: members, FleetID: "f", Now: time.Now})
}

// running is a FleetMiniCluster that runs on a member.
func running(members ...string) *v1alpha1.FleetMiniCluster {
	f := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "lammps", UID: "u", ResourceVersion: "1"}}
	f.Spec.MiniCluster = fluxv1alpha2.MiniClusterSpec{Size: 2, Containers: []fluxv1alpha2.MiniClusterContainer{{
		Image: "ghcr.io/example/lammps:1", Command: "lmp", Environment: map[string]string{"OMP_NUM_THREADS": "4"},
	}}}
	f.Status.Placement = &v1alpha1.PlacementDecision{Clusters: members, Wanted: int32(len(members))}
	for _, m := range members {
		f.Status.Clusters = append(f.Status.Clusters, v1alpha1.ClusterStatus{
			Name: m, Sync: v1alpha1.Synced, Run: runA, State: v1alpha1.RunRunning, Pods: v1alpha1.PodCounts{Desired: 2, Ready: 2},
		})
		f.Status.Runs = append(f.Status.Runs, v1alpha1.Run{ID: runA, Cluster: m, State: v1alpha1.RunRunning})
	}
	return f
}

// podOf is the pod of a rank of run A.
func podOf(rank int, change ...func(*corev1.Pod)) corev1.Pod {
	name := "lammps-" + strconv.Itoa(rank) + "-abcde"
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "hpc", Name: name, Labels: map[string]string{v1alpha1.LabelRun: runA},
		Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: strconv.Itoa(rank)},
	}}
	p.Spec.Containers = []corev1.Container{{Name: "lammps"}, {Name: "sidecar"}}
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "lammps", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	for _, c := range change {
		c(&p)
	}
	return p
}

// inTime fails unless something takes less than a second.
func inTime(t *testing.T, what string, do func()) {
	t.Helper()
	start := time.Now()
	do()
	if d := time.Since(start); d >= time.Second {
		t.Errorf("%s took %s", what, d)
	}
}

var errRefused = errors.New("refused")
