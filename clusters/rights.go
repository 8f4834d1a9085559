package clusters

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// What the caches live on is the right to list and watch each owned kind. API servers do not end a watch when its
// right is withdrawn: as long as it goes on, the cache is right. Whoever is refused a list or watch later casts doubt
// on the connection, and the member is lost with the answer to one of these checks as the reason. It engages again
// when all are allowed. All other rights are those of single requests, and who makes them reports the refusal.

// checkLists asks for one object of each owned kind, and returns the first refusal.
func (m *Member) checkLists(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for _, k := range owned {
		if err := m.GetAPIReader().List(ctx, k.list(), m.cached(client.Limit(1))); err != nil {
			return err
		}
	}
	return nil
}

// checkWatches begins a watch of each owned kind, and returns the first refusal.
func (m *Member) checkWatches(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*probeTimeout)
	defer cancel()
	watcher, err := client.NewWithWatch(m.GetConfig(), client.Options{HTTPClient: m.http, Scheme: clientgoscheme.Scheme, Mapper: m.GetRESTMapper()})
	if err != nil {
		return err
	}
	for _, k := range owned {
		list := k.list()
		if err := m.GetAPIReader().List(ctx, list, m.cached(client.Limit(1))); err != nil {
			return err
		}
		// From here on, so that nothing that there is comes first.
		from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
		w, err := watcher.Watch(ctx, k.list(), m.cached(from))
		if err != nil {
			return err
		}
		w.Stop()
	}
	return nil
}

// cached are list options for what the caches hold.
func (m *Member) cached(more ...client.ListOption) client.ListOption {
	o := &client.ListOptions{}
	o.ApplyOptions(append(more, client.InNamespace(m.Spec.Namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}))
	return o
}
