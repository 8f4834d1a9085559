package dashboard

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// asPerson is how the hub's API server is reached with a person's own token. Of the configuration only where it is, and
// by which certificate it is known, is taken: nothing that the controller is known by.
func asPerson(cfg *rest.Config, token string, timeout time.Duration) *rest.Config {
	own := rest.AnonymousClientConfig(cfg)
	own.BearerToken = token
	own.UserAgent = "minifleet-dashboard"
	own.QPS, own.Burst, own.RateLimiter = -1, 0, nil // people are limited when they ask
	own.Timeout = timeout
	own.WarningHandler, own.WarningHandlerWithContext = rest.NoWarnings{}, nil
	return own
}

// hubKinds are what people change. With them no client asks the API server what there is.
var hubKinds = sync.OnceValues(func() (*runtime.Scheme, meta.RESTMapper) {
	known := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(known); err != nil {
		panic(err) // the types are compiled in
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.GroupVersion})
	for kind, scope := range map[string]meta.RESTScope{
		"FleetMiniCluster": meta.RESTScopeNamespace, "GitSource": meta.RESTScopeNamespace, "MemberCluster": meta.RESTScopeRoot,
	} {
		mapper.Add(v1alpha1.GroupVersion.WithKind(kind), scope)
	}
	return known, mapper
})

// hubClient changes objects of the hub as who bears the token. Clients share their connections.
func hubClient(cfg *rest.Config, token string) (client.Client, error) {
	known, mapper := hubKinds()
	return client.New(asPerson(cfg, token, writeTimeout), client.Options{Scheme: known, Mapper: mapper})
}
