package live

import (
	"context"
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/sanitize"
	"github.com/minifleet/minifleet/internal/view"
)

const (
	// maxComputed is for how many of a line it is computed how they fit.
	maxComputed = 200
	// maxGangs is on how many members a gang is drawn.
	maxGangs = 5
)

// Line is the line for room of a member, and why what is free there is not known, if it is not. No member is asked.
func (r *Reader) Line(ctx context.Context, member string) (line queue.Line, unknown string, err error) {
	room, unknown := r.room(member)
	line, err = r.lines.get(ctx, member, func(context.Context) (queue.Line, error) {
		return r.Queue.Line(member, room, maxComputed), nil
	})
	return line, unknown, err
}

// room is what a member has free, or why that is not known.
func (r *Reader) room(member string) (room *nodeusage.Room, unknown string) {
	m, err := r.Members.Member(member)
	if err != nil {
		return &nodeusage.Room{State: nodeusage.Pending}, explain(err)
	}
	room = m.Room()
	switch {
	case room.State == nodeusage.Known:
	case m.RoomError() != "":
		unknown = sanitize.Text(m.RoomError(), sanitize.MaxNote)
	case room.State == nodeusage.Pending:
		unknown = "its nodes and pods have not been listed yet"
	default:
		unknown = "its nodes are not observed, or there are none"
	}
	return room, unknown
}

// Gangs are how the pods of a FleetMiniCluster that waits would lie on members, the nearest miss first. They are not to be
// changed. No member is asked.
func (r *Reader) Gangs(ctx context.Context, f *v1alpha1.FleetMiniCluster) ([]view.GangFit, error) {
	if r.Queue == nil {
		return []view.GangFit{}, nil
	}
	return r.gangs.get(ctx, f.Namespace+"/"+f.Name, func(context.Context) ([]view.GangFit, error) { return r.gangsOf(f), nil })
}

func (r *Reader) gangsOf(f *v1alpha1.FleetMiniCluster) []view.GangFit {
	out := []view.GangFit{}
	key := queue.Key{Namespace: f.Namespace, Name: f.Name}
	entry := r.Queue.Pending(key)
	if entry == nil {
		return out
	}
	for _, member := range candidates(f, entry) {
		gang, ok := entry.On(member)
		if !ok {
			continue
		}
		room, unknown := r.room(member)
		if unknown != "" {
			out = append(out, view.GangFit{Member: member, Pods: int32(gang.Size), Nodes: []view.NodeFit{}, Unknown: unknown}) //nolint:gosec // it was made of an int32
			continue
		}
		out = append(out, view.GangOf(member, r.nodes(member, room, key), gang))
	}
	return view.NearestFirst(out, maxGangs)
}

// nodes are those of a member, less what others have reserved.
func (r *Reader) nodes(member string, room *nodeusage.Room, key queue.Key) []fleet.Node {
	return r.Queue.View(member, room, key).Nodes()
}

// candidates are the members that one waits for: those that its status names first, and so many that all can be computed.
func candidates(f *v1alpha1.FleetMiniCluster, e *queue.Entry) []string {
	const most = 20
	var out []string
	if p := f.Status.Placement; p != nil {
		for _, w := range p.Waiting {
			out = append(out, w.Name)
		}
	}
	var rest []string
	for member := range e.Gangs {
		if !slices.Contains(out, member) {
			rest = append(rest, member)
		}
	}
	slices.Sort(rest)
	out = append(out, rest...)
	return out[:min(len(out), most)]
}
