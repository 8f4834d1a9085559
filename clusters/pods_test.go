package clusters

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

var lammps = types.NamespacedName{Namespace: "hpc", Name: "lammps"}

// verifiedMember is a member whose identity is known, over a fake of its API server.
func verifiedMember(s *fakeReader) *Member {
	m := &Member{Cluster: s, line: newLine(func() time.Time { return noon }, DefaultLimits())}
	m.line.dials.Store(1)
	m.verified.Store(1)
	return m
}

func TestPodsOfJob(t *testing.T) {
	later := func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(time.Minute)); p.Name += "-again" }
	managed := func(p *corev1.Pod) { p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}} }
	noIndex := func(p *corev1.Pod) { p.Annotations, p.Name = nil, "odd" }
	s := &fakeReader{pages: [][]corev1.Pod{{
		brokerPod(10), brokerPod(2, later), brokerPod(0, noIndex), brokerPod(2), brokerPod(0, managed),
	}}}
	pods, err := verifiedMember(s).PodsOfJob(t.Context(), lammps, "r1")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range pods {
		got = append(got, p.Name)
		if p.ManagedFields != nil {
			t.Errorf("%s has managed fields", p.Name)
		}
	}
	want := []string{"lammps-0-x7k2p", "lammps-2-x7k2p", "lammps-2-x7k2p-again", "lammps-10-x7k2p", "odd"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	selector := "pods batch.kubernetes.io/job-name," + v1alpha1.LabelOwner + "=lammps," + v1alpha1.LabelRun + "=r1 0"
	if diff := cmp.Diff([]string{selector}, s.asked); diff != "" {
		t.Error(diff)
	}
}

func TestPodsOfJobRefused(t *testing.T) {
	refused := errors.New("refused")
	if pods, err := verifiedMember(&fakeReader{pages: [][]corev1.Pod{nil}, podsErr: refused}).PodsOfJob(t.Context(), lammps, "r1"); !errors.Is(err, refused) || pods != nil {
		t.Errorf("got %v, %v", pods, err)
	}
}

// logServer is a member's API server for logs of pods: the pod's name says what it does.
func logServer(t *testing.T) *rest.Config {
	t.Helper()
	mux := http.NewServeMux()
	write := func(w http.ResponseWriter, text string) {
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	}
	mux.HandleFunc("GET /api/v1/namespaces/kube-system", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		write(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"u"}}`)
	})
	mux.HandleFunc("GET /api/v1/namespaces/hpc/pods/short/log", func(w http.ResponseWriter, r *http.Request) {
		write(w, "asked for "+r.URL.Query().Encode()+"\n")
	})
	mux.HandleFunc("GET /api/v1/namespaces/hpc/pods/endless/log", func(w http.ResponseWriter, r *http.Request) {
		write(w, "first\n")
		<-r.Context().Done()
	})
	mux.HandleFunc("GET /api/v1/namespaces/hpc/pods/forbidden/log", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		write(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"pods \"forbidden\" is forbidden: cannot get resource \"pods/log\""}`)
	})
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
}

// logMember is a member at that server, whose connection ends with session.
func logMember(t *testing.T, session context.Context) *Member { //nolint:revive // t comes first in tests
	t.Helper()
	m, err := newMember("a", v1alpha1.MemberClusterSpec{}, logServer(t), newLine(time.Now, DefaultLimits()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	m.session = session
	return m
}

func TestPodLog(t *testing.T) {
	m := logMember(t, t.Context())
	stream, err := m.PodLog(t.Context(), types.NamespacedName{Namespace: "hpc", Name: "short"}, corev1.PodLogOptions{Container: "flux", TailLines: ptr.To[int64](7), Previous: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(stream)
	if want := "asked for container=flux&previous=true&tailLines=7\n"; string(got) != want || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
}

func TestPodLogRefused(t *testing.T) {
	m := logMember(t, t.Context())
	_, err := m.PodLog(t.Context(), types.NamespacedName{Namespace: "hpc", Name: "forbidden"}, corev1.PodLogOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"pods/log"`) {
		t.Errorf("got %v", err)
	}
	if m.line.doubted() {
		t.Error("a refused log casts doubt on the connection")
	}
}

// A log that is followed ends when whoever reads it goes, and when the member is lost.
func TestPodLogEnds(t *testing.T) {
	for name, end := range map[string]func(stop, lose context.CancelFunc, s io.Closer){
		"reader": func(stop, _ context.CancelFunc, _ io.Closer) { stop() },
		"member": func(_, lose context.CancelFunc, _ io.Closer) { lose() },
		"closed": func(_, _ context.CancelFunc, s io.Closer) { _ = s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			session, lose := context.WithCancel(t.Context())
			defer lose()
			reader, stop := context.WithCancel(t.Context())
			defer stop()
			m := logMember(t, session)
			stream, err := m.PodLog(reader, types.NamespacedName{Namespace: "hpc", Name: "endless"}, corev1.PodLogOptions{Follow: true})
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close() //nolint:errcheck // it has ended
			lines := bufio.NewReader(stream)
			if line, err := lines.ReadString('\n'); line != "first\n" || err != nil {
				t.Fatalf("got %q, %v", line, err)
			}
			ended := make(chan error, 1)
			go func() { _, err := lines.ReadString('\n'); ended <- err }()
			end(stop, lose, stream)
			select {
			case err := <-ended:
				if err == nil {
					t.Error("it has ended like a log that is complete")
				}
			case <-time.After(time.Minute):
				t.Fatal("it goes on")
			}
			if m.line.doubted() {
				t.Error("an end that was asked for casts doubt on the connection")
			}
		})
	}
}

func TestPodLogOfLostMember(t *testing.T) {
	session, lose := context.WithCancel(t.Context())
	m := logMember(t, session)
	lose()
	if _, err := m.PodLog(t.Context(), types.NamespacedName{Namespace: "hpc", Name: "short"}, corev1.PodLogOptions{}); err == nil {
		t.Error("a log of a member that is not connected")
	}
}
