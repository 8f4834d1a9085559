package clusters

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/tenant"
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
		for _, namespace := range m.Namespaces() {
			if err := m.GetAPIReader().List(ctx, k.list(), cached(namespace, client.Limit(1))); err != nil {
				return err
			}
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
		for _, namespace := range m.Namespaces() {
			if err := m.checkWatch(ctx, watcher, &k, namespace); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Member) checkWatch(ctx context.Context, watcher client.WithWatch, k *kind, namespace string) error {
	list := k.list()
	if err := m.GetAPIReader().List(ctx, list, cached(namespace, client.Limit(1))); err != nil {
		return err
	}
	// From here on, so that nothing that there is comes first.
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	w, err := watcher.Watch(ctx, k.list(), cached(namespace, from))
	if err == nil {
		w.Stop()
	}
	return err
}

// Namespaces are those that MiniFleet is confined to, one that is empty for all.
func (m *Member) Namespaces() []string {
	if only := tenant.Confined(&m.Spec); only != nil {
		return only
	}
	return []string{metav1.NamespaceAll}
}

// cached are list options for what the caches hold of a namespace.
func cached(namespace string, more ...client.ListOption) client.ListOption {
	o := &client.ListOptions{}
	o.ApplyOptions(append(more, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}))
	return o
}
