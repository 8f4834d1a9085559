package hubobjects

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

// hubReader answers Gets and counts them.
type hubReader struct {
	client.Reader
	mu    sync.Mutex
	count int
	err   error
}

func (r *hubReader) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	obj.SetName(key.Name)
	return r.err
}

func TestHubObjectsAreReadOnceForAll(t *testing.T) {
	now := time.Unix(1000, 0)
	reader := &hubReader{}
	s := New(reader, "minifleet-system", time.Minute, func() time.Time { return now })
	key := Key{"Secret", types.NamespacedName{Namespace: "n", Name: "s"}}
	read := func(want int) {
		t.Helper()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if obj, err := s.Recent(t.Context(), key); err != nil || obj.GetName() != "s" {
					t.Errorf("got %v, %v", obj, err)
				}
			})
		}
		wg.Wait()
		if reader.count != want {
			t.Errorf("%d reads, want %d", reader.count, want)
		}
	}
	read(1)
	now = now.Add(49 * time.Second)
	read(1)
	now = now.Add(11 * time.Second) // the next poll
	read(2)
	if _, err := s.Get(t.Context(), key, now); err != nil || reader.count != 2 {
		t.Errorf("read again though it is of that time: %d, %v", reader.count, err)
	}
	if _, err := s.Get(t.Context(), key, now.Add(time.Second)); err != nil || reader.count != 3 {
		t.Errorf("not read again though it is older: %d, %v", reader.count, err)
	}
	now = now.Add(time.Hour)
	if _, err := s.Recent(t.Context(), Key{Kind: "ConfigMap"}); err != nil || len(s.entries) != 1 {
		t.Errorf("%d entries are remembered, %v", len(s.entries), err)
	}
}

func TestWhatMayNotBeReadIsNotTakenForAbsence(t *testing.T) {
	now := time.Unix(1000, 0)
	reader := &hubReader{err: apierrors.NewForbidden(corev1.Resource("secrets"), "s", errors.New("no"))}
	s := New(reader, "system", time.Minute, func() time.Time { return now })
	key := Key{"Secret", types.NamespacedName{Namespace: "n", Name: "s"}}
	for range 2 {
		_, err := s.Recent(t.Context(), key)
		var denied *Denied
		if !errors.As(err, &denied) || denied.Key != key || clusters.Unanswered(err) ||
			!strings.Contains(err.Error(), "kubectl -n n create rolebinding minifleet-secrets --clusterrole=minifleet-secret-reader --serviceaccount=system:minifleet-controller-manager") {
			t.Fatalf("got %v", err)
		}
	}
	if reader.count != 1 {
		t.Errorf("asked %d times, though it was answered just now", reader.count)
	}
	reader.err = nil
	if obj, err := s.Get(t.Context(), key, now.Add(time.Second)); err != nil || obj == nil {
		t.Errorf("not read when it may be: %v", err)
	}
}

func TestAnErrorIsNotTakenForAbsence(t *testing.T) {
	reader := &hubReader{err: context.DeadlineExceeded}
	s := New(reader, "minifleet-system", time.Minute, time.Now)
	key := Key{"Secret", types.NamespacedName{Namespace: "n", Name: "s"}}
	_, err := s.Recent(t.Context(), key)
	var hub *Error
	if !errors.As(err, &hub) || clusters.Unanswered(err) || !strings.Contains(err.Error(), "n/s on the hub") {
		t.Errorf("got %v", err)
	}
	reader.err = apierrors.NewNotFound(corev1.Resource("secrets"), "s")
	if obj, err := s.Recent(t.Context(), key); obj != nil || err != nil {
		t.Errorf("got %v, %v", obj, err)
	}
}

func TestOffer(t *testing.T) {
	label := map[string]string{v1alpha1.LabelPropagate: "true"}
	secret := func(kind corev1.SecretType, labels map[string]string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n", Labels: labels}, Type: kind}
	}
	deleting := secret("", label)
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	tests := map[string]struct {
		source client.Object
		why    string // empty: it is offered
	}{
		"none":           {nil, "has none"},
		"unlabelled":     {secret("", nil), "lacks the label"},
		"label is false": {secret("", map[string]string{v1alpha1.LabelPropagate: "false"}), "lacks the label"},
		"being deleted":  {deleting, "being deleted"},
		"token":          {secret(corev1.SecretTypeServiceAccountToken, label), "kubernetes.io/service-account-token"},
		"bootstrap":      {secret(corev1.SecretTypeBootstrapToken, label), "bootstrap.kubernetes.io/token"},
		"Opaque":         {secret(corev1.SecretTypeOpaque, label), ""},
		"ConfigMap":      {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: label}}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := OfferOf(Key{"Secret", types.NamespacedName{Namespace: "n", Name: "s"}}, test.source)
			if got.OK() != (test.why == "") || !strings.Contains(got.Refused, test.why) || (got.Remedy == "") != got.OK() {
				t.Errorf("got %+v", got)
			}
		})
	}
}
