package notification

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/notify"
)

const key = "a key that is long enough"

// quick are intervals for tests.
var quick = Intervals{Backoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond, Lifetime: 200 * time.Millisecond, Flush: time.Millisecond, Summary: 10 * time.Millisecond, Reread: time.Hour, Retry: time.Hour}

func notificationOf(name string, kind v1alpha1.NotificationType) *v1alpha1.Notification {
	n := &v1alpha1.Notification{ObjectMeta: metav1.ObjectMeta{
		Namespace: "physics", Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour)),
	}}
	n.Spec = v1alpha1.NotificationSpec{Type: kind, SecretRef: &v1alpha1.LocalReference{Name: "s"}, Events: []v1alpha1.NotificationEvent{v1alpha1.EventRunSucceeded}}
	if kind == v1alpha1.NotifyAlertmanager {
		n.Spec.Events = []v1alpha1.NotificationEvent{v1alpha1.EventRunFailed}
	}
	return n
}

// begin starts the sink of a Notification that sends to an address.
func begin(t *testing.T, r *Reconciler, n *v1alpha1.Notification, address string) *sink {
	t.Helper()
	data := map[string][]byte{"address": []byte(address), "hmacKey": []byte(key)}
	to, wrong := newTarget(n, data, loopback(t), "")
	if wrong != nil {
		t.Fatal(wrong)
	}
	s, _ := r.configured(n, labels.Everything(), to)
	return s
}

func reconcilerOf(t *testing.T) *Reconciler {
	t.Helper()
	r := &Reconciler{Now: time.Now, Intervals: quick}
	t.Cleanup(func() { r.sinks.close() })
	return r
}

// ended is an object whose run has ended.
func ended(i int) *v1alpha1.FleetMiniCluster {
	now := metav1.Now()
	f := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "physics", Name: fmt.Sprint("run-", i), UID: types.UID(fmt.Sprint(i))}}
	f.Status.Runs = []v1alpha1.Run{{ID: fmt.Sprintf("%010d", i), Cluster: "alpine", State: v1alpha1.RunSucceeded, JobUID: "job", StartTime: &now, CompletionTime: &now}}
	return f
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("never: %s", what)
		}
	}
}

func (s *sink) counted() counts {
	_, c, _ := s.snapshot()
	c.last = nil
	return c
}

// received collects what was told.
type received struct {
	mu     sync.Mutex
	bodies []string
	ids    map[string]int
}

func (r *received) take(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids = map[string]int{}
	}
	r.bodies = append(r.bodies, string(body))
	r.ids[req.Header.Get(notify.HeaderID)]++
	w.WriteHeader(http.StatusOK)
}

func (r *received) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.bodies)
}

func TestSinkSignsAndTellsOnce(t *testing.T) {
	var wrong atomic.Int32
	all := &received{}
	to := serve(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var seconds int64
		_, _ = fmt.Sscan(req.Header.Get(notify.HeaderTimestamp), &seconds)
		if notify.Sign([]byte(key), req.Header.Get(notify.HeaderID), time.Unix(seconds, 0), body) != req.Header.Get(notify.HeaderSignature) {
			wrong.Add(1)
		}
		all.take(w, req)
	})
	s := begin(t, reconcilerOf(t), notificationOf("a", v1alpha1.NotifyWebhook), to)
	for range 3 {
		for i := range 5 {
			s.runs(ended(i))
		}
	}
	eventually(t, "five messages", func() bool { return s.counted().delivered == 5 })
	if all.count() != 5 || len(all.ids) != 5 || wrong.Load() != 0 {
		t.Errorf("%d messages with %d ids, %d of them signed wrongly", all.count(), len(all.ids), wrong.Load())
	}
}

// What fails is tried again under the same id, and given up in the end.
func TestSinkTriesAgain(t *testing.T) {
	all := &received{}
	var asked atomic.Int32
	to := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		all.take(w, req)
	})
	r := reconcilerOf(t)
	s := begin(t, r, notificationOf("a", v1alpha1.NotifyWebhook), to)
	s.runs(ended(1))
	eventually(t, "a message", func() bool { return s.counted() == counts{delivered: 1} })
	down := begin(t, r, notificationOf("b", v1alpha1.NotifyWebhook), serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	down.runs(ended(1))
	eventually(t, "given up", func() bool { return down.counted() == counts{failed: 1} })
	if _, _, failing := down.snapshot(); failing != "the server answers 502" {
		t.Errorf("says %q", failing)
	}
}

// A server that never answers holds up its own Notification, and neither others of its namespace nor whoever reports.
func TestSinkThatHangsDelaysNothing(t *testing.T) {
	all := &received{}
	hang := serve(t, func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		<-req.Context().Done()
	})
	r := reconcilerOf(t)
	var hanging []*sink
	for i := range slotsPerNamespace - 1 {
		hanging = append(hanging, begin(t, r, notificationOf(fmt.Sprint("hangs-", i), v1alpha1.NotifyWebhook), hang))
	}
	good := begin(t, r, notificationOf("good", v1alpha1.NotifyWebhook), serve(t, all.take))
	start := time.Now()
	for i := range 2000 {
		r.observe(ended(i))
	}
	if took := time.Since(start); took > attemptTimeout/2 {
		t.Errorf("reporting took %s", took)
	}
	eventually(t, "the others", func() bool { return good.counted().delivered >= 300 })
	for _, s := range hanging {
		if c := s.counted(); c.delivered != 0 || c.dropped < 1000 {
			t.Errorf("%+v", c)
		}
		s.mu.Lock()
		if len(s.queue) > limitsOf[v1alpha1.NotifyWebhook].queue {
			t.Errorf("%d are queued", len(s.queue))
		}
		s.mu.Unlock()
	}
}

// Too many are counted, and told in one message.
func TestSinkSummarizes(t *testing.T) {
	all := &received{}
	s := begin(t, reconcilerOf(t), notificationOf("a", v1alpha1.NotifyWebhook), serve(t, all.take))
	const most = 300
	for i := range most + 12 {
		s.runs(ended(i))
	}
	eventually(t, "all", func() bool { return all.count() == most+1 })
	if last := all.bodies[most]; !strings.Contains(last, `"message":"12 more: 12 RunSucceeded"`) || !strings.Contains(last, `"type":"notification.dropped"`) {
		t.Errorf("the last one: %s", last)
	}
	if diff := cmp.Diff(counts{delivered: most, dropped: 12}, s.counted(), cmp.AllowUnexported(counts{})); diff != "" {
		t.Error(diff)
	}
}

func TestSinksEndWithoutTraces(t *testing.T) {
	hang := serve(t, func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		<-req.Context().Done()
	})
	before := runtime.NumGoroutine()
	r := reconcilerOf(t)
	for i := range 20 {
		n := notificationOf(fmt.Sprint(i), v1alpha1.NotifyWebhook)
		begin(t, r, n, hang).runs(ended(i))
		if i%2 == 0 {
			r.sinks.remove(types.NamespacedName{Namespace: n.Namespace, Name: n.Name})
		}
	}
	r.sinks.close()
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+2 })
	if s, _ := r.sinks.get(notificationOf("another", v1alpha1.NotifyWebhook), r.newSink); !ends(s) {
		t.Error("one begins after the end")
	}
}

// Objects come while a sink is made.
func TestSinksAreObservedFromTheirBeginning(t *testing.T) {
	r := reconcilerOf(t)
	n := notificationOf("hook", v1alpha1.NotifyWebhook)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for object := ended(1); ; {
			select {
			case <-stop:
				return
			default:
				r.observe(object)
			}
		}
	}()
	for range 2000 {
		r.configured(n, labels.Nothing(), nil)
		r.sinks.remove(types.NamespacedName{Namespace: n.Namespace, Name: n.Name})
	}
	close(stop)
	<-stopped
}

// behind is a client whose cache has an object as it was before.
type behind struct {
	client.Client
	was *v1alpha1.Notification
}

func (b behind) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	b.was.DeepCopyInto(obj.(*v1alpha1.Notification))
	return nil
}

// What was told last is saved when the hub stops, also right after another write.
func TestLastWriteIsOfTheHubItself(t *testing.T) {
	scheme := apiruntime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	n := notificationOf("hook", v1alpha1.NotifyWebhook)
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(n).WithStatusSubresource(n).Build()
	var was, is v1alpha1.Notification
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(n), &was); err != nil {
		t.Fatal(err)
	}
	is = *was.DeepCopy()
	is.Status.ObservedGeneration = 1
	if err := hub.Status().Update(t.Context(), &is); err != nil {
		t.Fatal(err)
	}
	r := reconcilerOf(t)
	r.Client, r.Live = behind{hub, &was}, hub
	s, _ := r.configured(&is, labels.Everything(), nil)
	s.counts.delivered = 7
	if _, err := r.reconcile(t.Context(), s.key, s); err != nil {
		t.Fatal(err)
	}
	if err := hub.Get(t.Context(), s.key, &is); err != nil || is.Status.Delivered != 7 {
		t.Errorf("%d, %v", is.Status.Delivered, err)
	}
}

func ends(s *sink) bool {
	select {
	case <-s.ended:
		return true
	case <-time.After(time.Minute):
		return false
	}
}

func TestNewTarget(t *testing.T) {
	for name, tc := range map[string]struct {
		kind    v1alpha1.NotificationType
		address string
		data    map[string]string
		want    string // the beginning of what is wrong
	}{
		"a webhook":                       {kind: v1alpha1.NotifyWebhook, address: "https://x.example.org/a", data: map[string]string{"hmacKey": key}},
		"a webhook with a secret address": {kind: v1alpha1.NotifyWebhook, data: map[string]string{"hmacKey": key, "address": "https://x.example.org/" + canary, "token": canary}},
		"a webhook without a key":         {kind: v1alpha1.NotifyWebhook, address: "https://x.example.org", want: "SecretInvalid spec.secretRef: Secret physics/s has no key to sign with"},
		"a webhook without an address":    {kind: v1alpha1.NotifyWebhook, data: map[string]string{"hmacKey": key}, want: "SecretInvalid spec.secretRef: Secret physics/s has no address"},
		"a token for an address that the Secret does not name": {
			kind: v1alpha1.NotifyWebhook, address: "https://evil.example.org", data: map[string]string{"hmacKey": key, "token": canary},
			want: "SecretInvalid spec.secretRef: Secret physics/s has a token and no address",
		},
		"no URL":               {kind: v1alpha1.NotifyWebhook, data: map[string]string{"hmacKey": key, "address": "file:///etc/" + canary}, want: "SecretInvalid spec.secretRef: Secret physics/s has an address that cannot be used"},
		"no certificate":       {kind: v1alpha1.NotifyWebhook, data: map[string]string{"ca.crt": canary}, want: "SecretInvalid spec.secretRef: Secret physics/s has no certificate"},
		"an Alertmanager":      {kind: v1alpha1.NotifyAlertmanager, address: "http://alertmanager:9093"},
		"a chat":               {kind: v1alpha1.NotifyChat, data: map[string]string{"address": "ntfy://ntfy.example.org/a"}},
		"a chat of no service": {kind: v1alpha1.NotifyChat, data: map[string]string{"address": "smtp://" + canary + "@x/?to=y"}, want: "SecretInvalid spec.secretRef: Secret physics/s has under the key address what is one of smtp"},
		"a chat without one":   {kind: v1alpha1.NotifyChat, want: "SecretInvalid spec.secretRef: Secret physics/s has no address of a chat"},
	} {
		t.Run(name, func(t *testing.T) {
			n := notificationOf("a", tc.kind)
			n.Spec.Address = tc.address
			data := map[string][]byte{}
			for k, v := range tc.data {
				data[k] = []byte(v)
			}
			_, wrong := newTarget(n, data, loopback(t), "")
			got := ""
			if wrong != nil {
				got = wrong.reason + " " + wrong.message
			}
			if tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) || strings.Contains(got, canary) {
				t.Errorf("got %q", got)
			}
		})
	}
}
