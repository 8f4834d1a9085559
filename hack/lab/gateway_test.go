package lab_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/minifleet/minifleet/hack/lab"
)

// throughGateway returns a gateway to the member, and a client of its ConfigMaps that comes through it.
func throughGateway(t *testing.T) (*lab.Gateway, typedcorev1.ConfigMapInterface) {
	t.Helper()
	gateway, err := lab.NewGateway(shared.Cluster("member").Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gateway.Close)
	proxy := proxyTo(t, gateway.Address())
	kubeconfig, err := gateway.Kubeconfig(proxy.Address())
	if err != nil {
		t.Fatal(err)
	}
	client := clientWith(t, kubeconfig)
	return gateway, client.CoreV1().ConfigMaps("default")
}

func uniqueMap(prefix string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: prefix + strings.ToLower(rand.Text())}}
}

// told is the next object of this name that a watch tells of within a time, or nil.
func told(w watch.Interface, name string, within time.Duration) *corev1.ConfigMap {
	for end := time.After(within); ; {
		select {
		case e, open := <-w.ResultChan():
			if m, ok := e.Object.(*corev1.ConfigMap); ok && m.Name == name || !open {
				return m
			}
		case <-end:
			return nil
		}
	}
}

func TestGatewayStallsWatches(t *testing.T) {
	t.Parallel()
	gateway, maps := throughGateway(t)
	w, err := maps.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	before, during := uniqueMap("before-"), uniqueMap("during-")
	if _, err := maps.Create(t.Context(), before, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if told(w, before.Name, time.Minute) == nil {
		t.Error("the watch does not tell")
	}
	gateway.SetTrouble(lab.Trouble{StallWatches: true})
	if _, err := maps.Create(t.Context(), during, metav1.CreateOptions{}); err != nil {
		t.Errorf("creating: %v", err)
	}
	if _, err := maps.Get(t.Context(), during.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("reading: %v", err)
	}
	if told(w, during.Name, 300*time.Millisecond) != nil {
		t.Error("the watch told what was to be held back")
	}
	gateway.SetTrouble(lab.Trouble{})
	if told(w, during.Name, time.Minute) == nil {
		t.Error("the watch does not tell what was held back")
	}
}

func TestGatewayFailsReads(t *testing.T) {
	t.Parallel()
	gateway, maps := throughGateway(t)
	object := uniqueMap("read-")
	if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	gateway.SetTrouble(lab.Trouble{FailReads: true})
	for range 3 {
		_, err := maps.Get(t.Context(), object.Name, metav1.GetOptions{})
		if err == nil || apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
			t.Errorf("reading: %v", err)
		}
	}
	if _, err := maps.List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("listing: no error")
	}
	if _, err := maps.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Errorf("writing: %v", err)
	}
	if gateway.Failed() != 4 {
		t.Errorf("%d failures", gateway.Failed())
	}
}

func TestGatewayFailsWrites(t *testing.T) {
	t.Parallel()
	gateway, maps := throughGateway(t)
	gateway.SetTrouble(lab.Trouble{FailWrites: true})
	object := uniqueMap("write-")
	if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("creating: %v", err)
	}
	if _, err := maps.Get(t.Context(), object.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("reading: %v", err)
	}
	gateway.SetTrouble(lab.Trouble{FailWrites: true, Only: "jobs"})
	if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Errorf("creating, when only Jobs cannot be: %v", err)
	}
}
