package serving

import (
	"context"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// announceInterval is how often the leader makes sure that its address is what is published.
const announceInterval = 10 * time.Second

// Announcement makes a Service lead to the leader: a Service that selects no pods, and has the name of the EndpointSlice.
type Announcement struct {
	// Client reads and writes the EndpointSlice without a cache.
	Client client.Client
	// Name is that of the port, and says what is served.
	Name string
	// Slice names the EndpointSlice. IP and Port are where this replica serves.
	Slice client.ObjectKey
	IP    string
	Port  int32
	Log   logr.Logger
}

// Run publishes the address until the context ends, and takes it away then unless somebody else has replaced it.
func (a *Announcement) Run(ctx context.Context) {
	ticker := time.NewTicker(announceInterval)
	defer ticker.Stop()
	for {
		if err := a.set(ctx, true); err != nil && ctx.Err() == nil {
			a.Log.Error(err, "the Service does not lead here; trying again", "endpointSlice", a.Slice)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
			defer cancel()
			_ = a.set(last, false) // the next leader replaces it anyway
			return
		}
	}
}

func (a *Announcement) set(ctx context.Context, serving bool) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var slice discoveryv1.EndpointSlice
		err := a.Client.Get(ctx, a.Slice, &slice)
		missing := apierrors.IsNotFound(err)
		if err != nil && !missing {
			return err
		}
		if serving == a.published(&slice) {
			return nil
		}
		slice.Endpoints = []discoveryv1.Endpoint{}
		if serving {
			slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{a.IP}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}}
			slice.Ports = []discoveryv1.EndpointPort{{Name: &a.Name, Port: &a.Port}}
		}
		if missing {
			return a.create(ctx, &slice)
		}
		return a.Client.Update(ctx, &slice)
	})
}

func (a *Announcement) create(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	slice.ObjectMeta = metav1.ObjectMeta{Namespace: a.Slice.Namespace, Name: a.Slice.Name, Labels: map[string]string{
		discoveryv1.LabelServiceName: a.Slice.Name, discoveryv1.LabelManagedBy: "controller.minifleet.dev",
	}}
	slice.AddressType = discoveryv1.AddressTypeIPv4
	if ip, err := netip.ParseAddr(a.IP); err == nil && ip.Is6() {
		slice.AddressType = discoveryv1.AddressTypeIPv6
	}
	return a.Client.Create(ctx, slice)
}

// published says whether this replica, and no other, is what the Service leads to.
func (a *Announcement) published(slice *discoveryv1.EndpointSlice) bool {
	return len(slice.Endpoints) == 1 && len(slice.Endpoints[0].Addresses) == 1 && slice.Endpoints[0].Addresses[0] == a.IP &&
		len(slice.Ports) == 1 && slice.Ports[0].Port != nil && *slice.Ports[0].Port == a.Port
}
