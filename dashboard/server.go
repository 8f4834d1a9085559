// Package dashboard serves the fleet to people and programs: a REST API with a stream of changes, and the page.
//
// The API answers from a store that the hub's cache feeds (dashboard/store): a request costs the hub's API server nothing
// but reviews of what a person may see, which are cached, and, for events and writes, one request with the person's own
// token. What is sent are values of internal/view.
package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/dashboard/auth"
	"github.com/minifleet/minifleet/dashboard/live"
	"github.com/minifleet/minifleet/dashboard/store"
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
	// Auth knows who is behind a request, and asks the hub what they may see. It is what Access and Person stand for where
	// these are nil.
	Auth *auth.Auth
	// Access says what the person behind a request may see, and Person who that is.
	Access func(context.Context) (Access, error)
	Person func(context.Context) (Person, error)
	// Writes lets people ask for something to be done.
	Writes bool
	// Version of this program.
	Version string
	Now     func() time.Time
	Log     logr.Logger
	// Stream has the intervals and limits of streams. Zero values stand for the defaults.
	Stream StreamOptions
}

// Server answers the dashboard's requests.
type Server struct {
	o       Options
	store   *store.Store
	filled  atomic.Pointer[func() bool] // whether the store has all that was there at first; nil before Start
	streams *streams
	places  places
	live    *live.Reader
	logs    *streams
	// foreseeing has room for one.
	foreseeing chan struct{}
}

// New returns a server that answers 503 until it is started and its cache is filled.
func New(o Options) *Server {
	o.Stream.setDefaults()
	s := &Server{
		o: o, store: store.New(rand.Text(), store.DefaultLog), streams: newStreams(streamChanges, o.Stream),
		live: live.New(live.Options{Members: live.Connected{Provider: o.Members}, Queue: o.Queue, FleetID: o.FleetID, Now: o.Now}),
		logs: newStreams(streamLogs, StreamOptions{PerPerson: maxLogsOfPerson, Total: maxLogs}), foreseeing: make(chan struct{}, 1),
	}
	if o.Access == nil {
		p := people{o.Auth, s.store.Namespaces}
		s.o.Access, s.o.Person = p.access, p.person
	}
	return s
}

// Site is everything that browsers see: the page, the login and, for those who have logged in, the API.
func (s *Server) Site(page http.Handler) http.Handler {
	mux := http.NewServeMux()
	s.o.Auth.Routes(mux)
	mux.Handle("/api/", s.o.Auth.Authenticate(s.Handler()))
	mux.Handle("/", page)
	return s.o.Auth.Protect(mux)
}

// Handler answers requests below /api/v1/. Who asks has to be known by then: Options.Access and Options.Person take it
// from the request's context.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	newAPI(mux, s.o.Version, s)
	return compressed(mux)
}

// Start implements manager.Runnable: it has the cache feed the store, until ctx ends. Then streams end, too.
func (s *Server) Start(ctx context.Context) error {
	defer s.streams.stop()
	defer s.logs.stop()
	filled, err := s.store.Watch(ctx, s.o.Cache)
	if err != nil {
		return err
	}
	s.filled.Store(&filled)
	<-ctx.Done()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: the cache is filled on every replica.
func (s *Server) NeedLeaderElection() bool { return false }

// Namespaces are those of the hub that have FleetMiniClusters or GitSources.
func (s *Server) Namespaces() []string { return s.store.Namespaces() }

var errNotFilled = errors.New("the hub's objects have not been read yet")

// isFilled says whether the store has all that was there at first.
func (s *Server) isFilled() bool {
	filled := s.filled.Load()
	return filled != nil && (*filled)()
}
