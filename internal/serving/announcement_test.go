package serving_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/minifleet/minifleet/internal/serving"
)

// addresses are what a Service leads to.
func addresses(t *testing.T, c client.Client, key client.ObjectKey) (out []string) {
	t.Helper()
	var slice discoveryv1.EndpointSlice
	if err := c.Get(t.Context(), key, &slice); err != nil {
		t.Fatal(err)
	}
	for _, e := range slice.Endpoints {
		out = append(out, e.Addresses...)
	}
	return out
}

func TestAnnouncement(t *testing.T) {
	key := client.ObjectKey{Namespace: "minifleet-system", Name: "minifleet-dashboard"}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	synctest.Test(t, func(t *testing.T) {
		start := func(ip string) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			a := serving.Announcement{Name: "dashboard", Client: c, Slice: key, IP: ip, Port: 8443, Log: logr.Discard()}
			go a.Run(ctx)
			synctest.Wait()
			return func() { cancel(); synctest.Wait() }
		}
		expect := func(when string, want ...string) {
			t.Helper()
			if got := addresses(t, c, key); len(got) != len(want) || len(got) == 1 && got[0] != want[0] {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		stopFirst := start("10.0.0.1")
		expect("it leads", "10.0.0.1")
		var slice discoveryv1.EndpointSlice
		if err := c.Get(t.Context(), key, &slice); err != nil {
			t.Fatal(err)
		}
		slice.Endpoints = nil
		if err := c.Update(t.Context(), &slice); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		expect("somebody has taken it away", "10.0.0.1")
		stopSecond := start("10.0.0.2")
		stopFirst()
		expect("another one leads, and the first one ends after it began", "10.0.0.2")
		stopSecond()
		expect("nobody leads")
	})
}
