package clusters

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/tenant"
)

// What the caches live on is the right to list and watch each owned kind. API servers do not end a watch when its
// right is withdrawn: as long as it goes on, the cache is right. Whoever is refused a list or watch later casts doubt
// on the connection, and the member is lost with the answer to one of these checks as the reason. It engages again
// when all are allowed. All other rights are those of single requests, and who makes them reports the refusal. Since
// watches go on for long, a member that is at rest is asked for all of these rights with one request (confirm).

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

// noNamespace is none that a cluster can have: what may be done there may be done everywhere.
const noNamespace = "every.namespace"

// confirm asks the member whether all that is watched may still be, with one request for each namespace that MiniFleet is
// confined to, if it is, else one. A right that the caches live on and that is not in a complete answer casts doubt on the
// connection, as a refused watch does. Where an API server does not tell, nothing is confirmed, and watches are renewed the
// sooner. What a request finds besides, such as credentials that are refused, the line notes.
func (m *Member) confirm(ctx context.Context) {
	began := m.line.now()
	for _, namespace := range m.Namespaces() {
		if namespace == metav1.NamespaceAll {
			namespace = noNamespace
		}
		rules, err := m.rules(ctx, namespace)
		if err != nil {
			return
		}
		if !permitsWatches(rules.ResourceRules, ownedKinds()) {
			if !rules.Incomplete {
				m.line.doubt()
			}
			return
		}
		if observesNodes(&m.Spec) && !permitsWatches(rules.ResourceRules, observedKinds) {
			return
		}
	}
	m.line.confirmed.Store(began.UnixNano())
}

// rules are what MiniFleet may do in a namespace of the member, as far as its API server can tell. It has as long for the
// answer as for that to a watch.
func (m *Member) rules(ctx context.Context, namespace string) (authorizationv1.SubjectRulesReviewStatus, error) {
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	err := m.GetClient().Create(ctx, review)
	return review.Status, err
}

// observedKinds are watched for capacity.
var observedKinds = []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Node"), corev1.SchemeGroupVersion.WithKind("Pod")}

func ownedKinds() []schema.GroupVersionKind {
	out := make([]schema.GroupVersionKind, len(owned))
	for i, k := range owned {
		out[i] = k.gvk
	}
	return out
}

// permitsWatches says whether rules allow all objects of all kinds to be listed and watched.
func permitsWatches(rules []authorizationv1.ResourceRule, kinds []schema.GroupVersionKind) bool {
	for _, gvk := range kinds {
		for _, verb := range []string{"list", "watch"} {
			if !slices.ContainsFunc(rules, func(r authorizationv1.ResourceRule) bool {
				return len(r.ResourceNames) == 0 && covers(r.Verbs, verb) && covers(r.APIGroups, gvk.Group) && covers(r.Resources, resourceOf(gvk))
			}) {
				return false
			}
		}
	}
	return true
}

// covers says whether a part of a rule has something, or all.
func covers(have []string, what string) bool {
	return slices.Contains(have, what) || slices.Contains(have, everything)
}

// everything stands in rules for all verbs, groups or resources.
const everything = "*"
