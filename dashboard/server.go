// Package dashboard serves the fleet to people and programs: a REST API with a stream of changes, and the page.
package dashboard

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/queue"
)

// Options of a Server.
type Options struct {
	// Hub reads the hub's objects from the cache; Cache is that cache, for those who are to be told of changes.
	Hub   client.Reader
	Cache cache.Cache
	// Config leads to the hub, for requests with the token of whoever asks.
	Config *rest.Config
	// Members are the connections to members, Queue who waits for room there: the one that the controller fills.
	Members *clusters.Provider
	Queue   *queue.Queue
	// FleetID is the identity of the fleet.
	FleetID string
	// Access says what the person behind a request may see.
	Access func(context.Context) (Access, error)
	// Writes lets people ask for something to be done.
	Writes bool
	// Version of this program.
	Version string
	Now     func() time.Time
	Log     logr.Logger
}

// Server answers the dashboard's requests.
type Server struct {
	o Options
}
