package dashboard

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/minifleet/minifleet/dashboard/store"
	"github.com/minifleet/minifleet/internal/view"
)

// reader is what the person behind a request may see.
type reader struct {
	access                Access
	miniClusters, sources Scope
	members               bool
}

// read says what the person behind a request may see. Its errors are answers.
func (s *Server) read(ctx context.Context) (*reader, error) {
	if !s.isFilled() {
		return nil, unavailable(errNotFilled.Error())
	}
	r, err := s.readerOf(ctx)
	if err != nil {
		s.o.Log.V(1).Info("what a person may see is not known", "error", err.Error())
		return nil, errRights
	}
	return r, nil
}

func (s *Server) readerOf(ctx context.Context) (*reader, error) {
	access, err := s.o.Access(ctx)
	if err != nil {
		return nil, err
	}
	r := &reader{access: access}
	// Each may ask the hub's API server.
	var wg sync.WaitGroup
	var errs [3]error
	wg.Go(func() { r.miniClusters, errs[0] = access.MiniClusters(ctx) })
	wg.Go(func() { r.sources, errs[1] = access.Sources(ctx) })
	wg.Go(func() { r.members, errs[2] = access.Members(ctx) })
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// errRights is the answer when it is not known what a person may see.
var errRights = unavailable("what you may see could not be found out; try again")

func unavailable(message string) error {
	return huma.NewError(http.StatusServiceUnavailable, message)
}

// notFound is the answer for what is not there, and for what the reader may not see.
func notFound() error { return huma.Error404NotFound("not found") }

// sees are the namespaces whose FleetMiniClusters the reader may see.
func (r *reader) sees() view.Sees { return r.miniClusters.Has }

// entry is a FleetMiniCluster that the reader may see.
func (s *Server) entry(r *reader, at MiniClusterPath) (*view.Entry, error) {
	if !r.miniClusters.Has(at.Namespace) {
		return nil, notFound()
	}
	if e := s.store.MiniCluster(store.Key{Namespace: at.Namespace, Name: at.Name}); e != nil {
		return e, nil
	}
	return nil, notFound()
}

// selected are the FleetMiniClusters that the reader may see and that a filter means.
func (s *Server) selected(r *reader, q *FilterQuery) ([]*view.Entry, view.Facets, error) {
	filter, err := view.NewFilter(q.Query, q.State, q.Namespace, q.Source, q.Member)
	if err != nil {
		return nil, view.Facets{}, huma.Error422UnprocessableEntity(err.Error())
	}
	entries, facets := view.Select(s.store.MiniClusters(r.sees()), filter)
	return entries, facets, nil
}

// placesAge is how old the places in the line may be: they are of all who wait.
const placesAge = time.Second

// places are those in the lines for room, for a moment.
type places struct {
	mu sync.Mutex
	at time.Time
	of map[store.Key]int32
}

// place is that of a FleetMiniCluster in the line for room, the foremost of all members; 0 for none.
func (s *Server) place() func(store.Key) int32 {
	if s.o.Queue == nil {
		return func(store.Key) int32 { return 0 }
	}
	p := &s.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := s.o.Now(); p.of == nil || now.Sub(p.at) >= placesAge {
		p.at, p.of = now, s.o.Queue.Places()
	}
	of := p.of
	return func(key store.Key) int32 { return of[key] }
}
