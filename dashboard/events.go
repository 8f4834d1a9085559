package dashboard

import (
	"cmp"
	"context"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"

	"github.com/minifleet/minifleet/internal/sanitize"
	"github.com/minifleet/minifleet/internal/view"
)

const (
	// hubTimeout is how long a read waits for the hub's API server.
	hubTimeout = 800 * time.Millisecond
	// maxEvents is how many events are read, and shown.
	maxEvents = 500
)

// events are read with the person's own token, so that the hub's API server decides.
func (s *Server) events(ctx context.Context, r *reader, _ string, in *MiniClusterPath) (*view.Events, error) {
	e, err := s.entry(r, *in)
	if err != nil {
		return nil, err
	}
	who, err := s.o.Person(ctx)
	if err != nil {
		return nil, errRights
	}
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	list, err := listEvents(ctx, s.o.Config, who.Token(), e)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return nil, notFound()
	case err != nil:
		s.o.Log.V(1).Info("events could not be read", "error", err.Error())
		return nil, unavailable("the hub's API server did not answer in time; try again")
	}
	out := &view.Events{Items: make([]view.Event, 0, len(list))}
	for i := range list {
		out.Items = append(out.Items, eventOf(&list[i], r.sees()))
	}
	slices.SortStableFunc(out.Items, func(a, b view.Event) int { return b.Time.Compare(a.Time) })
	return out, nil
}

// listEvents are the events about a FleetMiniCluster that who bears the token may list.
func listEvents(ctx context.Context, cfg *rest.Config, token string, e *view.Entry) ([]eventsv1.Event, error) {
	client, err := eventsclient.NewForConfig(asPerson(cfg, token, hubTimeout))
	if err != nil {
		return nil, err
	}
	list, err := client.Events(e.Row.Namespace).List(ctx, metav1.ListOptions{Limit: maxEvents, FieldSelector: fields.Set{
		"regarding.kind": "FleetMiniCluster", "regarding.name": e.Row.Name,
	}.String()})
	if err != nil {
		return nil, err
	}
	// Those of a predecessor with its name are of another object.
	return slices.DeleteFunc(list.Items, func(v eventsv1.Event) bool { return v.Regarding.UID != e.Object.UID }), nil
}

func eventOf(e *eventsv1.Event, sees view.Sees) view.Event {
	first := cmp.Or(e.EventTime.Time, e.DeprecatedFirstTimestamp.Time, e.CreationTimestamp.Time)
	out := view.Event{
		Time: first, First: first, Count: 1, Type: "Normal",
		Reason: sanitize.Text(e.Reason, 128), Message: view.HideOthers(sanitize.Text(e.Note, sanitize.MaxNote), sees),
	}
	if e.Type == "Warning" {
		out.Type = e.Type
	}
	if e.Series != nil {
		out.Count, out.Time = e.Series.Count, e.Series.LastObservedTime.Time
	} else if e.DeprecatedCount > 1 {
		out.Count, out.Time = e.DeprecatedCount, e.DeprecatedLastTimestamp.Time
	}
	return out
}
