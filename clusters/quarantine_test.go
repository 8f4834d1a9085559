package clusters

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// nobody is not interested in members.
type nobody struct{}

func (nobody) Engage(context.Context, multicluster.ClusterName, cluster.Cluster) error { return nil }
func (h *hostile) kubeconfig(t *testing.T) []byte {
	t.Helper()
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["a"] = &clientcmdapi.Cluster{Server: h.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})}
	cfg.AuthInfos["a"] = &clientcmdapi.AuthInfo{Token: "secret"}
	cfg.Contexts["a"] = &clientcmdapi.Context{Cluster: "a", AuthInfo: "a"}
	cfg.CurrentContext = "a"
	out, err := clientcmd.Write(*cfg)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// emptyCluster answers as an API server without objects; extra may answer in its place.
func emptyCluster(extra func(http.ResponseWriter, *http.Request) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch how := answerTo(r); {
		case extra(w, r):
		case r.URL.Path == kubeSystem:
			writeJSON(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"u"}}`)
		case r.URL.Path == "/version":
			writeJSON(w, `{"major":"1","minor":"36","gitVersion":"v1.36.4"}`)
		case how == answerWatch && r.URL.Query().Get("sendInitialEvents") == "true":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity) // as an older one, which knows no streams of lists
		case how == answerWatch:
			writeJSON(w, "")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case how == answerList:
			list := map[string]string{"jobs": "batch/v1 Job", "pods": "v1 Pod", "services": "v1 Service", "configmaps": "v1 ConfigMap", "secrets": "v1 Secret", "nodes": "v1 Node"}
			version, kind, _ := strings.Cut(list[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]], " ")
			writeJSON(w, fmt.Sprintf(`{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[]}`, kind, version))
		default:
			http.NotFound(w, r)
		}
	}
}

// newTestProvider has small limits, and says in changed whenever a member is in another state.
func newTestProvider(t *testing.T) (p *Provider, changed chan struct{}) {
	t.Helper()
	changed = make(chan struct{}, 100)
	p = NewProvider(logr.Discard(), time.Now, func(string, bool) { changed <- struct{}{} })
	p.SetLimits(smallLimits())
	p.SetIntervals(Intervals{RetryMin: time.Millisecond, RetryMax: time.Millisecond, Probe: time.Millisecond, Capacity: time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = p.Start(ctx, nobody{}) }()
	t.Cleanup(func() { cancel(); <-ended })
	return p, changed
}

// await waits until a member is in a state.
func await(t *testing.T, p *Provider, changed chan struct{}, what string, is func(State) bool) State {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		if s, ok := p.State("a"); ok && is(s) {
			return s
		}
		select {
		case <-changed:
		case <-timeout:
			s, _ := p.State("a")
			t.Fatalf("not %s: %+v", what, s)
		}
	}
}

func isReady(s State) bool  { return s.Ready }
func isBarred(s State) bool { return s.Quarantine != nil }
func hasReason(r string) func(State) bool {
	return func(s State) bool { return s.Reason == r }
}

func TestAQuarantinedMemberIsNotAskedUntilThatIsLifted(t *testing.T) {
	var bad atomic.Bool
	h := newHostile(t, true, emptyCluster(func(w http.ResponseWriter, r *http.Request) bool {
		if bad.Load() && r.URL.Path == "/api/v1/secrets" && answerTo(r) == answerList {
			writeJSON(w, `{"items":["`)
			forever(w, "a")
			return true
		}
		return false
	}))
	p, changed := newTestProvider(t)
	target := Target{Kubeconfig: h.kubeconfig(t)}
	p.Ensure("a", target)
	await(t, p, changed, "ready", isReady)

	bad.Store(true)
	h.CloseClientConnections() // so that its objects are listed anew
	s := await(t, p, changed, "quarantined", isBarred)
	if q := s.Quarantine; s.Ready || s.Reason != v1alpha1.ReasonQuarantined || q.Limit != limitList || q.Asked != "GET /api/v1/secrets" || !strings.Contains(s.Message, v1alpha1.AnnotationLiftQuarantine) {
		t.Errorf("state %+v, quarantine %+v", s, q)
	}
	if _, err := p.Member("a"); !errors.Is(err, ErrNotEngaged) {
		t.Errorf("it is still there: %v", err)
	}
	target.ExpectedUID, target.Quarantine = "u", s.Quarantine // as the hub has recorded them
	asked := h.requests.Load()
	p.Ensure("a", target)
	p.Ensure("a", target)

	// A hub that has been restarted knows it from its record.
	restarted, _ := newTestProvider(t)
	restarted.Ensure("a", target)
	if s, _ := restarted.State("a"); s.Ready || s.Reason != v1alpha1.ReasonQuarantined || s.UID != "u" || s.Quarantine == nil {
		t.Errorf("after a restart: %+v", s)
	}
	restarted.Remove("a")
	if n := h.requests.Load(); n != asked {
		t.Errorf("it was asked %d times more", n-asked)
	}

	target.Quarantine = nil
	bad.Store(false)
	p.Ensure("a", target)
	await(t, p, changed, "ready again", isReady)
}

func TestAMemberIsRefusedBeforeItIsEngaged(t *testing.T) {
	h := newHostile(t, true, emptyCluster(func(http.ResponseWriter, *http.Request) bool { return false }))
	p, changed := newTestProvider(t)
	refuse := &Error{v1alpha1.ReasonIdentityClaimed, errors.New("it is another's")}
	var asked atomic.Pointer[string]
	var allow atomic.Bool
	p.SetAdmission(func(_ context.Context, _, uid string) error {
		asked.Store(&uid)
		if allow.Load() {
			return nil
		}
		return refuse
	})
	p.Ensure("a", Target{Kubeconfig: h.kubeconfig(t)})
	if s := await(t, p, changed, "refused", hasReason(v1alpha1.ReasonIdentityClaimed)); s.UID != "" || *asked.Load() != "u" {
		t.Errorf("state %+v, asked about %s", s, *asked.Load())
	}
	allow.Store(true)
	await(t, p, changed, "ready", isReady)
}

// What redirects may be in front of the member, and be taken away.
func TestARedirectingMemberIsTriedAgain(t *testing.T) {
	var away atomic.Bool
	away.Store(true)
	h := newHostile(t, true, emptyCluster(func(w http.ResponseWriter, r *http.Request) bool {
		if away.Load() {
			http.Redirect(w, r, "https://elsewhere.example.org/", http.StatusFound)
		}
		return away.Load()
	}))
	p, changed := newTestProvider(t)
	p.Ensure("a", Target{Kubeconfig: h.kubeconfig(t)})
	await(t, p, changed, "refused", hasReason(v1alpha1.ReasonRedirectRefused))
	away.Store(false)
	await(t, p, changed, "ready", isReady)
	away.Store(true)
	m, err := p.Member("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.identify(t.Context()); connectionError(err).Reason != v1alpha1.ReasonRedirectRefused {
		t.Errorf("got %v", err)
	}
	await(t, p, changed, "refused again", hasReason(v1alpha1.ReasonRedirectRefused))
}
