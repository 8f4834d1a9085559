package dashboard

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/minifleet/minifleet/dashboard/store"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/sanitize"
	"github.com/minifleet/minifleet/internal/view"
)

func (s *Server) registerReads(api huma.API) {
	huma.Register(api, get("session", "/session", "session", "Who asks, and what may be asked for"), s.session)
	huma.Register(api, get("summary", "/summary", "fleet", "The fleet at a glance"), reading(s, s.summary))
	huma.Register(api, get("list-miniclusters", "/miniclusters", "miniclusters", "List MiniClusters"), reading(s, s.list))
	huma.Register(api, get("get-minicluster", miniClusterAt, "miniclusters", "One MiniCluster, with its runs"), reading(s, s.miniCluster))
	huma.Register(api, get("get-manifest", miniClusterAt+"/manifest", "miniclusters", "As YAML"), reading(s, s.manifest))
	huma.Register(api, get("list-events", miniClusterAt+"/events", "miniclusters", "Its events, for who may list events"), reading(s, s.events))
	huma.Register(api, get("grid", "/grid", "fleet", "MiniClusters × members × revisions"), reading(s, s.grid))
	huma.Register(api, get("timeline", "/timeline", "fleet", "Runs of a time, per member"), reading(s, s.timeline))
	huma.Register(api, get("list-members", "/members", "members", "List members"), reading(s, s.listMembers))
	huma.Register(api, get("get-member", memberAt, "members", "One member, with its nodes"), reading(s, s.member))
	huma.Register(api, get("list-sources", "/sources", "sources", "List sources"), reading(s, s.listSources))
	huma.Register(api, get("get-source", sourceAt, "sources", "One source, with its problems"), reading(s, s.source))
	huma.Register(api, get("changes", "/changes", "fleet", "What is different after a cursor, for who cannot keep a stream open"), reading(s, s.changes))
}

// reading has an operation called with what the reader may see. Its cursor was taken before anything is read.
func reading[I, O any](s *Server, f func(context.Context, *reader, string, *I) (*O, error)) func(context.Context, *I) (*body[O], error) {
	return func(ctx context.Context, in *I) (*body[O], error) {
		cursor := s.store.Cursor()
		r, err := s.read(ctx)
		if err != nil {
			return nil, err
		}
		out, err := f(ctx, r, cursor, in)
		if err != nil {
			return nil, err
		}
		return &body[O]{*out}, nil
	}
}

func (s *Server) session(ctx context.Context, _ *struct{}) (*body[Session], error) {
	who, err := s.o.Person(ctx)
	if err != nil {
		return nil, huma.Error401Unauthorized("log in")
	}
	r, err := s.readerOf(ctx)
	if err != nil {
		return nil, errRights
	}
	out := Session{Name: who.Name, Groups: append([]string{}, who.Groups...), Writes: s.o.Writes, Members: r.members, Version: s.o.Version, Now: s.o.Now()}
	if !who.Expires.IsZero() {
		out.Expires = &who.Expires
	}
	return &body[Session]{out}, nil
}

func (s *Server) summary(_ context.Context, r *reader, cursor string, in *summaryRequest) (*view.Summary, error) {
	matched, facets, err := s.selected(r, &in.FilterQuery)
	if err != nil {
		return nil, err
	}
	out := view.SummaryOf(view.Fleet{
		Matched: matched, Facets: facets, Sources: s.store.Sources(r.sources.Has), Members: s.store.Members(), MayMembers: r.members, Now: s.o.Now(),
	})
	out.Cursor = cursor
	return &out, nil
}

func (s *Server) list(_ context.Context, r *reader, cursor string, in *listRequest) (*projectedRows, error) {
	fields, err := projection(in.Fields)
	if err != nil {
		return nil, err
	}
	matched, facets, err := s.selected(r, &in.FilterQuery)
	if err != nil {
		return nil, err
	}
	view.Sort(matched, in.Sort, in.Order == "desc")
	page := view.Page(matched, in.Offset, in.Limit)
	out := &projectedRows{fields: fields, rows: view.Rows{Items: make([]view.Row, 0, len(page)), Total: len(matched), Facets: facets, Cursor: cursor}}
	place := s.place()
	for _, e := range page {
		out.rows.Items = append(out.rows.Items, e.For(r.sees(), place(keyOf(e))))
	}
	return out, nil
}

func keyOf(e *view.Entry) store.Key {
	return store.Key{Namespace: e.Row.Namespace, Name: e.Row.Name}
}

func (s *Server) miniCluster(ctx context.Context, r *reader, cursor string, in *MiniClusterPath) (*view.MiniCluster, error) {
	e, err := s.entry(r, *in)
	if err != nil {
		return nil, err
	}
	out := view.Detail(e, s.store.Contexts(r.sees())(e))
	out.Row = e.For(r.sees(), s.place()(keyOf(e)))
	out.Cursor = cursor
	if out.Actions, err = s.miniClusterActions(ctx, r, e); err != nil {
		return nil, err
	}
	if out.MayReadLogs, err = r.access.May(ctx, "get", "fleetminiclusters/logs", in.Namespace, in.Name); err != nil {
		return nil, errRights
	}
	return &out, nil
}

func (s *Server) grid(_ context.Context, r *reader, cursor string, in *gridRequest) (*view.Grid, error) {
	matched, _, err := s.selected(r, &in.FilterQuery)
	if err != nil {
		return nil, err
	}
	view.Sort(matched, "namespace", false)
	var members []string
	if r.members {
		for _, m := range s.store.Members() {
			members = append(members, m.Name)
		}
	}
	out := view.GridOf(view.Page(matched, in.Offset, in.Limit), members, in.Revisions, s.store.Contexts(r.sees()))
	out.Total, out.Cursor = len(matched), cursor
	return &out, nil
}

// timelineLength is how much of the past a timeline shows unless it is asked for more.
const timelineLength = 2 * time.Hour

func (s *Server) timeline(_ context.Context, r *reader, cursor string, in *timelineRequest) (*view.Timeline, error) {
	matched, _, err := s.selected(r, &in.FilterQuery)
	if err != nil {
		return nil, err
	}
	now := s.o.Now()
	from, to := in.From, in.To
	if to.IsZero() {
		to = now
	}
	if from.IsZero() {
		from = to.Add(-timelineLength)
	}
	if !from.Before(to) {
		return nil, huma.Error422UnprocessableEntity("from is not before to: exchange them")
	}
	out := view.TimelineOf(matched, from, to, now, in.Limit, s.store.Contexts(r.sees()))
	out.Cursor = cursor
	if r.members {
		out.AddMembers(s.store.Members())
	}
	return &out, nil
}

func (s *Server) listSources(_ context.Context, r *reader, cursor string, _ *struct{}) (*view.Sources, error) {
	out := &view.Sources{Items: []view.Source{}, Cursor: cursor}
	for _, g := range s.store.Sources(r.sources.Has) {
		out.Items = append(out.Items, view.SourceOf(g))
	}
	return out, nil
}

func (s *Server) source(ctx context.Context, r *reader, cursor string, in *SourcePath) (*view.SourceDetail, error) {
	if !r.sources.Has(in.Namespace) {
		return nil, notFound()
	}
	g := s.store.Source(store.Key{Namespace: in.Namespace, Name: in.Name})
	if g == nil {
		return nil, notFound()
	}
	out := view.SourceDetailOf(g, func(name string) int {
		e, err := s.entry(r, MiniClusterPath{in.Namespace, name})
		if err != nil {
			return 0
		}
		return len(e.LiveRuns())
	})
	out.Cursor = cursor
	var err error
	if out.Actions, err = s.sourceActions(ctx, r, g); err != nil {
		return nil, err
	}
	return &out, nil
}

func (s *Server) changes(_ context.Context, r *reader, _ string, in *changesRequest) (*view.Change, error) {
	out := s.store.Changes(in.After, s.reads(r))
	out.Now = s.o.Now()
	return &out, nil
}

// reads is what the store is asked with for a reader.
func (s *Server) reads(r *reader) store.Reader {
	return store.Reader{MiniClusters: r.sees(), Sources: r.sources.Has, Members: r.members, Place: s.place()}
}

func (s *Server) listMembers(_ context.Context, r *reader, cursor string, _ *struct{}) (*view.Members, error) {
	out := &view.Members{Items: []view.Member{}, Cursor: cursor}
	if !r.members {
		return out, nil
	}
	counts := view.CountOnMembers(s.store.MiniClusters(r.sees()))
	for _, m := range s.store.Members() {
		out.Items = append(out.Items, view.MemberOf(m, counts[m.Name].Live, counts[m.Name].Waiting, r.sees()))
	}
	return out, nil
}

func (s *Server) member(ctx context.Context, r *reader, cursor string, in *MemberPath) (*view.MemberDetail, error) {
	m := s.store.Member(in.Name)
	if !r.members || m == nil {
		return nil, notFound()
	}
	visible := s.store.MiniClusters(r.sees())
	count := view.CountOnMembers(visible)[m.Name]
	others := view.CountOnMembers(s.store.MiniClusters(nil))[m.Name].Live - count.Live
	room, problem := s.room(m.Name)
	out := view.MemberDetailOf(view.MemberOf(m, count.Live, count.Waiting, r.sees()), m, room.Nodes, s.usedByOthers(r, m.Name), r.sees())
	out.NodesError, out.Cursor = problem, cursor
	out.Runs = view.LiveRuns(visible, m.Name, s.store.Contexts(r.sees()))
	if s.o.Queue != nil {
		line := s.o.Queue.Line(m.Name, room, view.MaxPlaces)
		out.Line = view.LineOf(line, r.sees(), s.waitsSince)
		out.Line.StaleSince = out.LastHeard
	}
	var err error
	if out.Actions, err = s.memberActions(ctx, r, m, out.Runs, others); err != nil {
		return nil, err
	}
	return &out, nil
}

// usedByOthers says whether a member has, or has had, something of a FleetMiniCluster that the reader may not see: also what
// has ended may be named where a member is drained or removed.
func (s *Server) usedByOthers(r *reader, member string) bool {
	return slices.ContainsFunc(s.store.MiniClusters(nil), func(e *view.Entry) bool {
		return !r.miniClusters.Has(e.Row.Namespace) && slices.Contains(e.Row.Members, member)
	})
}

// waitsSince is since when a FleetMiniCluster waits.
func (s *Server) waitsSince(key store.Key) *time.Time {
	e := s.store.MiniCluster(key)
	if e == nil {
		return nil
	}
	return &e.Row.Since
}

// room is what a member has free, node by node, and why that is not known, where it is not.
func (s *Server) room(name string) (room *nodeusage.Room, problem string) {
	unknown := &nodeusage.Room{State: nodeusage.Unknown}
	if s.o.Members == nil {
		return unknown, "members are not connected here"
	}
	m, err := s.o.Members.Member(name)
	if err != nil {
		return unknown, "the member cannot be reached"
	}
	if room = m.Room(); len(room.Nodes) > 0 {
		return room, ""
	}
	return room, sanitize.Text(cmp.Or(m.RoomError(), "the nodes of this member are not observed, or there are none"), sanitize.MaxNote)
}
