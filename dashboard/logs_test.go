package dashboard

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/dashboard/live"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
)

// logAccess is that of a person whose right to read logs can be taken away.
type logAccess struct {
	*fakeAccess
	mu     sync.Mutex
	denied bool
	err    error
}

func (a *logAccess) May(ctx context.Context, verb, resource, namespace, name string) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if resource == logsRight {
		return !a.denied && a.err == nil, a.err
	}
	return a.fakeAccess.May(ctx, verb, resource, namespace, name)
}

func (a *logAccess) change(denied bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.denied, a.err = denied, err
}

// logMember has a pod with a log, or answers nothing.
type logMember struct {
	hung bool
	log  func(context.Context) io.ReadCloser
}

func (m *logMember) Member(string) (live.Member, error) { return m, nil }

func (m *logMember) wait(ctx context.Context) error {
	if m.hung {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (m *logMember) KeyOf(_ context.Context, f *v1alpha1.FleetMiniCluster, _ fleet.Origin) types.NamespacedName {
	return types.NamespacedName{Namespace: f.Namespace, Name: f.Name}
}
func (m *logMember) PodsOfJob(ctx context.Context, key types.NamespacedName, _ string) ([]corev1.Pod, error) {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "p", Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: "0"}}}
	p.Spec.Containers = []corev1.Container{{Name: key.Name}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: key.Name}}
	return []corev1.Pod{p}, m.wait(ctx)
}
func (m *logMember) PodLog(ctx context.Context, _ types.NamespacedName, _ corev1.PodLogOptions) (io.ReadCloser, error) {
	return m.log(ctx), m.wait(ctx)
}
func (m *logMember) GetLive(ctx context.Context, _ types.NamespacedName, _ client.Object) error {
	return m.wait(ctx)
}
func (m *logMember) Owned(context.Context, types.NamespacedName, fleet.Origin) ([]clusters.Owned, error) {
	return nil, nil
}
func (m *logMember) Room(...string) *nodeusage.Room {
	return &nodeusage.Room{State: nodeusage.Unknown}
}
func (m *logMember) RoomError() string { return "" }

// open is a log that says something and goes on.
func open(ctx context.Context) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader("2026-03-04T12:00:00.5Z said \x1b[31mthis\n"), silent{ctx}))
}

type silent struct{ ctx context.Context }

func (s silent) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func logServer(m *logMember) (*Server, *logAccess) {
	a := &logAccess{fakeAccess: &fakeAccess{namespaces: scope{"physics"}, members: true}}
	s := newServer(a.fakeAccess, fleetMiniCluster("physics", "lammps", "alpine"), memberCluster("alpine"), gitSource("physics", "fleet"), waitingLine())
	s.o.Access = func(context.Context) (Access, error) { return a, nil }
	s.live = live.New(live.Options{Members: m, Queue: s.o.Queue, FleetID: "f", Now: time.Now})
	return s, a
}

const logsOf = "/miniclusters/physics/lammps/logs"

func TestLogs(t *testing.T) {
	s, _ := logServer(&logMember{log: func(context.Context) io.ReadCloser {
		return io.NopCloser(strings.NewReader("2026-03-04T12:00:00.5Z said \x1b[31mthis\n"))
	}})
	w := request(s, logsOf)
	want := `{"time":"2026-03-04T12:00:00.5Z","text":"said this"}` + "\n"
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/x-ndjson" || w.Body.String() != want {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	for _, path := range []string{logsOf + "?since=yesterday", logsOf + "?container=x", logsOf + "?tail=-1"} {
		if w := request(s, path); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// Logs are a right of their own, and without it they seem as if they were not there.
func TestLogsWithoutTheRight(t *testing.T) {
	s, a := logServer(&logMember{log: open})
	a.change(true, nil)
	denied, absent := request(s, logsOf), request(s, "/miniclusters/physics/absent/logs")
	if denied.Code != http.StatusNotFound || denied.Body.String() != absent.Body.String() {
		t.Errorf("%d %s", denied.Code, denied.Body)
	}
	a.change(false, errReviews)
	if w := request(s, logsOf); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestFollowedLogsEnd(t *testing.T) {
	cases := map[string]struct {
		end  func(*Server, *logAccess)
		want string
		most time.Duration
	}{
		"the right is taken away": {func(_ *Server, a *logAccess) { a.change(true, nil) }, "forbidden", 30 * time.Second},
		"the session ends":        {func(_ *Server, a *logAccess) { a.set(func(f *fakeAccess) { f.login = errReviews }) }, "forbidden", 30 * time.Second},
		"nobody knows the rights": {func(_ *Server, a *logAccess) { a.change(false, errReviews) }, "forbidden", 30 * time.Second},
		"the server ends":         {func(s *Server, _ *logAccess) { s.logs.stop() }, "disconnected", time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, a := logServer(&logMember{log: open})
				h := s.Handler()
				w, done := httptest.NewRecorder(), make(chan struct{})
				go func() {
					defer close(done)
					h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1"+logsOf+"?follow=true", nil))
				}()
				time.Sleep(time.Hour) // with rights that last, it does not end
				select {
				case <-done:
					t.Fatalf("it has ended: %s", w.Body)
				default:
				}
				start := time.Now()
				c.end(s, a)
				<-done
				if d := time.Since(start); d > c.most || !strings.HasSuffix(w.Body.String(), `{"end":"`+c.want+`"}`+"\n") || !w.Flushed {
					t.Errorf("after %s: %s", d, w.Body)
				}
			})
		})
	}
}

func TestLogsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := logServer(&logMember{log: open})
		h := s.Handler()
		ctx, cancel := context.WithCancel(t.Context())
		follow := func() int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1"+logsOf+"?follow=true", nil))
			return w.Code
		}
		var all sync.WaitGroup
		for range maxLogsOfPerson {
			all.Go(func() { follow() })
		}
		synctest.Wait()
		if got := follow(); got != http.StatusTooManyRequests {
			t.Errorf("one more: %d", got)
		}
		cancel()
		all.Wait()
	})
}

// A member that answers nothing holds nobody up.
func TestHungMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := logServer(&logMember{hung: true, log: open})
		h := s.Handler()
		for operation, path := range getPaths(t, "physics", "lammps", "alpine") {
			if operation == "list-events" {
				continue // no member is asked
			}
			w := httptest.NewRecorder()
			start := time.Now()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1"+strings.Replace(path, "CURSOR", "x", 1), nil))
			if d := time.Since(start); d >= time.Second {
				t.Errorf("%s takes %s", path, d)
			}
			want := http.StatusOK
			if operation == "logs" {
				want = http.StatusServiceUnavailable
			}
			if w.Code != want {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	})
}
