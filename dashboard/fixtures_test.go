package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/dashboard/live"
	"github.com/minifleet/minifleet/internal/queue"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *metav1.Time {
	t := metav1.NewTime(noon.Add(-d))
	return &t
}

// scope are namespaces; "*" stands for all.
type scope []string

func (s scope) Has(namespace string) bool {
	return slices.Contains(s, "*") || slices.Contains(s, namespace)
}
func (s scope) None() bool { return len(s) == 0 }

// fakeAccess is an Access whose answers can be changed.
type fakeAccess struct {
	mu         sync.Mutex
	namespaces scope
	members    bool
	err        error  // of all reviews
	login      error  // of Recheck
	refuse     string // a verb
	asked      int
}

func (a *fakeAccess) set(change func(*fakeAccess)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a)
}

func (a *fakeAccess) scope() (Scope, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	if a.err != nil {
		return nil, a.err
	}
	return slices.Clone(a.namespaces), nil
}

func (a *fakeAccess) MiniClusters(context.Context) (Scope, error) { return a.scope() }
func (a *fakeAccess) Sources(context.Context) (Scope, error)      { return a.scope() }

func (a *fakeAccess) Members(context.Context) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.members && a.err == nil, a.err
}

func (a *fakeAccess) May(_ context.Context, verb, _, namespace, _ string) (bool, error) {
	s, err := a.scope()
	return err == nil && s.Has(namespace) && verb != a.refuse, err
}

func (a *fakeAccess) Recheck(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.login
}

// emptyHub has no Placements and no namespaces.
type emptyHub struct{ client.Reader }

func (emptyHub) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// newServer is a server whose store holds these objects, for one person.
func newServer(access *fakeAccess, objects ...any) *Server {
	s := New(Options{
		Access: func(context.Context) (Access, error) { return access, nil },
		Person: func(context.Context) (Person, error) {
			return Person{Name: "ada", Groups: []string{"hpc"}, Token: func() string { return "t" }}, nil
		},
		Hub: emptyHub{}, Config: hubConfig(), Version: "v0", Now: func() time.Time { return noon },
	})
	for _, o := range objects {
		switch o := o.(type) {
		case *v1alpha1.FleetMiniCluster:
			s.store.SetMiniCluster(o)
		case *v1alpha1.MemberCluster:
			s.store.SetMember(o)
		case *v1alpha1.GitSource:
			s.store.SetSource(o)
		case *queue.Queue:
			s.o.Queue = o
			s.live = live.New(live.Options{Members: live.Connected{}, Queue: o, FleetID: "f", Now: s.o.Now})
		}
	}
	filled := func() bool { return true }
	s.filled.Store(&filled)
	return s
}

// handlers are those of servers, since it takes a while to make one.
var handlers sync.Map

func handlerOf(s *Server) http.Handler {
	if h, ok := handlers.Load(s); ok {
		return h.(http.Handler)
	}
	h := s.Handler()
	handlers.Store(s, h)
	return h
}

// request answers a GET.
func request(s *Server, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handlerOf(s).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1"+path, nil))
	return w
}

// read answers a GET that succeeds.
func read[T any](t *testing.T, s *Server, path string) T {
	t.Helper()
	w := request(s, path)
	var out T
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func memberCluster(name string) *v1alpha1.MemberCluster {
	return &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1", CreationTimestamp: *ago(100 * time.Hour), Labels: map[string]string{"zone": "a"}},
		Status: v1alpha1.MemberClusterStatus{
			Version: "v1.36.0", Capacity: &v1alpha1.MemberCapacity{Nodes: 4, CPU: "8/16", Memory: "16Gi/64Gi"},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected, LastTransitionTime: *ago(50 * time.Hour)}},
		},
	}
}

func lost(m *v1alpha1.MemberCluster, since time.Duration) *v1alpha1.MemberCluster {
	m.Status.LastHeardTime = ago(since)
	m.Status.Conditions[0].Status, m.Status.Conditions[0].Reason = metav1.ConditionUnknown, v1alpha1.ReasonUnreachable
	m.Status.Conditions[0].Message = "no answer"
	return m
}

func gitSource(namespace, name string, commits ...v1alpha1.Commit) *v1alpha1.GitSource {
	return &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "1", CreationTimestamp: *ago(100 * time.Hour)},
		Spec:       v1alpha1.GitSourceSpec{URL: "https://git.example.org/" + namespace},
		Status: v1alpha1.GitSourceStatus{
			Commits:    commits,
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, LastTransitionTime: *ago(time.Hour)}},
		},
	}
}

// fleetMiniCluster runs on a member.
func fleetMiniCluster(namespace, name, member string) *v1alpha1.FleetMiniCluster {
	run := v1alpha1.Run{
		ID: "00000000aa", Cluster: member, Digest: "d1", Revision: "main@1a2b3c4", State: v1alpha1.RunRunning,
		StartTime: ago(20 * time.Minute), RunningTime: ago(19 * time.Minute), JobUID: "j",
	}
	return &v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name), ResourceVersion: "1", CreationTimestamp: *ago(time.Hour),
			Labels: map[string]string{"app": name, v1alpha1.LabelSource: "fleet"},
		},
		Spec: v1alpha1.FleetMiniClusterSpec{
			MiniCluster:  fluxv1alpha2.MiniClusterSpec{Size: 4, Containers: []fluxv1alpha2.MiniClusterContainer{{Image: "ghcr.io/example/lammps:1", Command: "lmp -in in.reaxff"}}},
			PlacementRef: &v1alpha1.LocalReference{Name: "default"},
		},
		Status: v1alpha1.FleetMiniClusterStatus{
			State: v1alpha1.StateRunning, Sync: v1alpha1.Synced, Health: v1alpha1.Progressing, Revision: "main@1a2b3c4", Digest: "d1",
			Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSynced, Message: "running on " + member, LastTransitionTime: *ago(20 * time.Minute)},
				{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing, LastTransitionTime: *ago(time.Hour)},
			},
			Placement: &v1alpha1.PlacementDecision{Digest: "d1", Clusters: []string{member}, Wanted: 1},
			Clusters: []v1alpha1.ClusterStatus{{
				Name: member, Sync: v1alpha1.Synced, Health: v1alpha1.Progressing, Run: run.ID, State: run.State, Pods: v1alpha1.PodCounts{Desired: 4, Active: 4, Ready: 4},
			}},
			Runs: []v1alpha1.Run{run},
		},
	}
}

func succeeded(f *v1alpha1.FleetMiniCluster) *v1alpha1.FleetMiniCluster {
	f.Status.State, f.Status.Health = v1alpha1.StateSucceeded, v1alpha1.Healthy
	f.Status.Runs[0].State, f.Status.Runs[0].CompletionTime = v1alpha1.RunSucceeded, ago(7*time.Minute)
	f.Status.Clusters[0].State, f.Status.Clusters[0].Pods = v1alpha1.RunSucceeded, v1alpha1.PodCounts{Desired: 4, Succeeded: 4}
	return f
}

func waiting(f *v1alpha1.FleetMiniCluster, reason string) *v1alpha1.FleetMiniCluster {
	f.Status.State, f.Status.Health, f.Status.Sync = v1alpha1.StateWaiting, v1alpha1.Missing, v1alpha1.OutOfSync
	f.Status.Placement.Waiting = []v1alpha1.RejectedCluster{{Name: f.Status.Placement.Clusters[0], Reason: reason}}
	f.Status.Placement.Clusters = nil
	f.Status.Runs, f.Status.Clusters = nil, nil
	return f
}

// fleetOf is so many FleetMiniClusters in 20 namespaces on 50 members, in all states.
func fleetOf(n int) []any {
	out := make([]any, 0, n+70)
	for i := range 50 {
		m := memberCluster(fmt.Sprintf("member-%02d", i))
		if i%25 == 24 {
			lost(m, time.Hour)
		}
		out = append(out, m)
	}
	for i := range 20 {
		out = append(out, gitSource(fmt.Sprintf("team-%02d", i), "fleet", v1alpha1.Commit{Hash: "1a2b3c4d5e", Revision: "main@1a2b3c4", Subject: "Use more ranks", Author: "Ada"}))
	}
	for i := range n {
		f := fleetMiniCluster(fmt.Sprintf("team-%02d", i%20), fmt.Sprintf("lammps-%05d", i), fmt.Sprintf("member-%02d", i*7%50))
		f.UID = types.UID(fmt.Sprintf("%08x-5f0c-4a57-9c3e-%012x", i*2654435761%(1<<32), i))
		f.Status.Runs[0].ID = fmt.Sprintf("%010x", i)
		f.Status.Clusters[0].Run = f.Status.Runs[0].ID
		f.Status.Runs[0].RunningTime = ago(time.Duration(i%5000) * time.Second)
		switch i % 10 {
		case 0, 1, 2, 3:
			succeeded(f)
		case 4, 5:
			waiting(f, fmt.Sprintf("3 of 4 pods fit; node-%d lacks %d CPU", i%7, 1+i%5))
		case 6:
			f.Status.State, f.Status.Health = v1alpha1.StateFailed, v1alpha1.Degraded
			f.Status.Runs[0].State, f.Status.Runs[0].CompletionTime = v1alpha1.RunFailed, ago(time.Duration(i)*time.Second)
			f.Status.Runs[0].Message = "pod lammps-0-x7k2p, container lammps, exit code 42: out of tea"
		}
		out = append(out, f)
	}
	return out
}

var errReviews = errors.New("the API server does not answer")
