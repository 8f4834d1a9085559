package dashboard

import (
	"context"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/dashboard/live"
	"github.com/minifleet/minifleet/dashboard/store"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/view"
)

func (s *Server) registerLive(api huma.API) {
	huma.Register(api, get("get-tree", miniClusterAt+"/tree", "miniclusters", "From the commit to the pods"), reading(s, s.tree))
	huma.Register(api, get("get-why", miniClusterAt+"/why", "miniclusters", "Why it does not run, or runs where it does"), reading(s, s.why))
	huma.Register(api, get("queue", "/queue", "fleet", "The lines for room"), reading(s, s.queue))
	huma.Register(api, get("get-diff", miniClusterAt+"/diff", "miniclusters", "What is wanted against what is there"), reading(s, s.diff))
	s.registerLogs(api)
	stream := get(streamOperation, "/stream", "fleet", "Changes as they happen (server-sent events)")
	stream.Description = "Events: hello and change hold a Change, with its cursor as id; reset: everything is to be read again, and a Change has the cursor from then on; ping every 15 s, with now; bye: no more will come, the data is the reason (forbidden, login, shutdown, unavailable). Last-Event-ID goes on after a cursor."
	stream.Responses = map[string]*huma.Response{"200": {Description: "A stream of events.", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}}
	huma.Register(api, stream, s.stream)
}

type streamRequest struct {
	LastEventID string `header:"Last-Event-ID" maxLength:"128"`
	After       string `query:"after" maxLength:"128" doc:"A cursor, where the header cannot be set."`
}

func (s *Server) tree(ctx context.Context, r *reader, _ string, in *MiniClusterPath) (*view.TreeNode, error) {
	e, err := s.entry(r, *in)
	if err != nil {
		return nil, err
	}
	t := view.TreeInput{
		Object: e.Object, State: v1alpha1.State(e.Row.State), Members: s.live.Pods(ctx, e.Object), Stale: s.store.Contexts(nil)(e).Stale, Sees: r.sees(),
	}
	if source := e.Object.Labels[v1alpha1.LabelSource]; source != "" && r.sources.Has(in.Namespace) {
		t.Source = s.store.Source(store.Key{Namespace: in.Namespace, Name: source})
	}
	out := view.Tree(t)
	return &out, nil
}

func (s *Server) why(ctx context.Context, r *reader, cursor string, in *MiniClusterPath) (*view.Why, error) {
	e, err := s.entry(r, *in)
	if err != nil {
		return nil, err
	}
	f := e.Object
	detail := view.Detail(e, s.store.Contexts(r.sees())(e))
	out := &view.Why{State: e.Row.State, Chosen: detail.OnMembers, Rejected: detail.Rejected, Cursor: cursor}
	out.Chosen = slices.DeleteFunc(out.Chosen, func(m view.OnMember) bool { return !m.Chosen })
	if out.Gangs, err = s.live.Gangs(ctx, f); err != nil {
		return nil, errBusy
	}
	if out.Line, err = s.ownLine(ctx, r, f, out.Gangs); err != nil {
		return nil, err
	}
	out.Sentence = view.WhySentence(f, view.WhyParts{
		Now: s.o.Now(), Sees: r.sees(), State: v1alpha1.State(e.Row.State), Line: out.Line, Gangs: out.Gangs,
	})
	if !r.members {
		gangs := make([]view.GangFit, 0, len(out.Gangs))
		for _, g := range out.Gangs {
			gangs = append(gangs, g.WithoutNodes())
		}
		out.Gangs = gangs
	}
	return out, nil
}

// errBusy is the answer while too much is asked at once.
var errBusy = unavailable("too much is asked at once; try again")

// ownLine is the line that a FleetMiniCluster stands in on the member that is nearest, nil where it does not wait.
func (s *Server) ownLine(ctx context.Context, r *reader, f *v1alpha1.FleetMiniCluster, gangs []view.GangFit) (*view.Line, error) {
	if s.o.Queue == nil || len(gangs) == 0 || s.o.Queue.Pending(client.ObjectKeyFromObject(f)) == nil {
		return nil, nil
	}
	line, err := s.line(ctx, r, gangs[0].Member)
	if err != nil {
		return nil, err
	}
	return &line, nil
}

// line is the line for room of a member.
func (s *Server) line(ctx context.Context, r *reader, member string) (view.Line, error) {
	line, unknown, err := s.live.Line(ctx, member)
	if err != nil {
		return view.Line{}, errBusy
	}
	out := view.LineOf(line, r.sees(), s.waitsSince)
	out.Unknown = unknown
	if m := s.store.Member(member); m != nil {
		if stale, ok := view.StaleOf(m); ok {
			out.StaleSince = stale.Since
		}
	}
	return out, nil
}

// queue is the lines in which somebody waits. Who may not see members sees those in which somebody stands whom they may
// see.
func (s *Server) queue(ctx context.Context, r *reader, cursor string, _ *struct{}) (*view.Queue, error) {
	out := &view.Queue{Lines: []view.Line{}, Cursor: cursor}
	if s.o.Queue == nil {
		return out, nil
	}
	var names []string
	for _, m := range s.store.Members() {
		names = append(names, m.Name)
	}
	for _, member := range s.o.Queue.Members(names) {
		line, err := s.line(ctx, r, member)
		if err != nil {
			return nil, err
		}
		visible := slices.ContainsFunc(line.Places, func(p view.Place) bool { return !p.Hidden })
		if visible || r.members && line.Total > 0 {
			out.Lines = append(out.Lines, line)
		}
	}
	return out, nil
}

func (s *Server) diff(ctx context.Context, r *reader, _ string, in *MiniClusterPath) (*view.Differences, error) {
	e, err := s.entry(r, *in)
	if err != nil {
		return nil, err
	}
	w := live.Wanted{Object: e.Object, Members: map[string]*v1alpha1.MemberCluster{}}
	for _, m := range s.store.Members() {
		w.Members[m.Name] = m
	}
	if w.Placement, err = s.placement(ctx, e.Object); err != nil {
		return nil, unavailable("the placement could not be read; try again")
	}
	return &view.Differences{Items: s.live.Differences(ctx, w)}, nil
}

// placement is that of a FleetMiniCluster, nil where there is none.
func (s *Server) placement(ctx context.Context, f *v1alpha1.FleetMiniCluster) (*v1alpha1.PlacementSpec, error) {
	if f.Spec.Placement != nil {
		return f.Spec.Placement, nil
	}
	var placement v1alpha1.Placement
	err := s.o.Hub.Get(ctx, types.NamespacedName{Namespace: f.Namespace, Name: plan.PlacementName(f)}, &placement)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return &placement.Spec, nil
}
