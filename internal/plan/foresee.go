package plan

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// ForecastState says in one word what would become of a FleetMiniCluster.
type ForecastState string

// Values of ForecastState.
const (
	// ForecastStarts: a run would begin now, on as many members as are asked for or on some of them.
	ForecastStarts ForecastState = "Starts"
	// ForecastFollows: a run would begin once another one of the same FleetMiniCluster has ended.
	ForecastFollows ForecastState = "Follows"
	// ForecastWaits: it would wait for room, or for a member that is not known yet.
	ForecastWaits ForecastState = "Waits"
	// ForecastKeeps: no run would begin. Members keep the one that they have or had.
	ForecastKeeps ForecastState = "Keeps"
	// ForecastNoMember: no member may be chosen.
	ForecastNoMember ForecastState = "NoMember"
	// ForecastSuspended: nothing would begin, since it is suspended.
	ForecastSuspended ForecastState = "Suspended"
	// ForecastRefused: nothing would begin, since it is invalid or not allowed, or its Placement is not there.
	ForecastRefused ForecastState = "Refused"
	// ForecastUnknown: it cannot be said.
	ForecastUnknown ForecastState = "Unknown"
)

// Forecast is where a FleetMiniCluster would be placed if it were there as it is given, and what it would wait for. Members
// are named that its namespace may use, and no others.
type Forecast struct {
	State ForecastState `json:"state"`
	// Members are those where a run would begin, now or after what Message says.
	Members []string `json:"members,omitempty"`
	// OneOf are equals, of which so many as Choose would be chosen besides: which of them is known once the object has been
	// created.
	OneOf  []string `json:"oneOf,omitempty"`
	Choose int      `json:"choose,omitempty"`
	// Keeps are members that have run what is asked for, or have begun to: nothing begins there for it.
	Keeps []string `json:"keeps,omitempty"`
	// RoomUnknown are those of Members and OneOf of which it is not known what they have free: everything is taken to fit
	// there.
	RoomUnknown []string `json:"roomUnknown,omitempty"`
	// Wanted is how many members its placement asks for.
	Wanted int `json:"wanted,omitempty"`
	// Message says why nothing begins, or what comes first.
	Message string `json:"message,omitempty"`
	// Waiting are members that would be chosen if they had room, Rejected all that are not chosen, each with the reason.
	Waiting  []v1alpha1.RejectedCluster `json:"waiting,omitempty"`
	Rejected []v1alpha1.RejectedCluster `json:"rejected,omitempty"`
	// NotPermitted is how many members this namespace may not use, where fewer are chosen than are asked for.
	NotPermitted int `json:"notPermitted,omitempty"`

	reservations map[string]queue.Reservation
	entry        *queue.Entry
}

// Ask is what is to be foreseen of one FleetMiniCluster.
type Ask struct {
	// Object is as it would be; one without a UID is not there yet. Placement is nil where it names one that would not be
	// there.
	Object    *v1alpha1.FleetMiniCluster
	Placement *v1alpha1.PlacementSpec
	// Alone says that the others do not count with it: it is only for comparison.
	Alone bool
}

// Foreseer foresees.
type Foreseer struct {
	// Snapshot is what is the same for all: the members and how the hub is connected to them, the labels of the namespace,
	// the time. What takes a permission is not its business.
	Snapshot Snapshot
	// Queue is a copy, in which what is foreseen is put down. Room is what a member has free with some runs counted as
	// ended.
	Queue *queue.Queue
	Room  func(member string, without []string) *nodeusage.Room
}

// standIns are UIDs for what is not there yet.
var standIns = []types.UID{"a", "b", "c", "d", "e", "f", "g", "h"}

// All foresees what would become of FleetMiniClusters of one namespace if all of them were there: they are placed in the
// order of their priorities, as they would be, and what is not there yet comes last. The forecasts are in the order of
// the asks.
func (f *Foreseer) All(asks []Ask) []Forecast {
	order := make([]int, len(asks))
	ranks := make([]queue.Rank, len(asks))
	for i := range asks {
		order[i], ranks[i] = i, rankOf(asks[i].Object)
		if asks[i].Object.UID == "" {
			ranks[i].Created = f.Snapshot.Now
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return ranks[a].Compare(ranks[b]) })
	out := make([]Forecast, len(asks))
	for _, i := range order {
		out[i] = f.one(&asks[i])
	}
	return out
}

func (f *Foreseer) one(a *Ask) Forecast {
	s := f.Snapshot
	object := *a.Object
	s.Object, s.Placement = &object, a.Placement
	uids := []types.UID{object.UID}
	if object.UID == "" {
		object.CreationTimestamp.Time, uids = s.Now, standIns
	}
	key := rankOf(&object).Key
	s.Grants, s.Confirmed = &grant.Set{Namespace: grant.Namespace{Permissions: v1alpha1.Permissions()}}, true
	s.Queue.Reserved, s.Queue.Pending, s.Queue.Runs, s.Queue.Since = f.Queue.Reservations(key), f.Queue.Pending(key), f.Queue.Runs(), f.Queue.Since()
	s.Facts = map[string]Facts{}
	for i := range s.Members {
		if name := s.Members[i].Cluster.Name; s.Members[i].Connection.Connected && s.mayUse(&s.Members[i]) {
			s.Facts[name] = Facts{Room: f.Queue.View(name, f.Room(name, runsOn(&object, name)), key)}
		}
	}
	out := Foresee(&s, uids...)
	if !a.Alone && out.State != ForecastUnknown {
		out.enterQueue(f.Queue, key)
	}
	return out
}

// runsOn are the ids of the runs on a member.
func runsOn(f *v1alpha1.FleetMiniCluster, member string) []string {
	var out []string
	for i := range f.Status.Runs {
		if f.Status.Runs[i].Cluster == member {
			out = append(out, f.Status.Runs[i].ID)
		}
	}
	return out
}

// Foresee says what would become of a FleetMiniCluster if it were as a snapshot has it, by the rules of Decide. Nothing is
// read for it: the facts have to have the room of each member that is connected, with the FleetMiniCluster's own runs
// counted as ended. Of runs it knows what the ledger says.
//
// Equals are told apart by the UID of an object. One that is not there yet has none: then several that are made up stand for
// it, and what differs among these is not known.
func Foresee(s *Snapshot, uids ...types.UID) Forecast {
	if len(uids) == 0 {
		uids = []types.UID{s.Object.UID}
	}
	own := *s
	own.Placement = patient(s.Placement)
	var out Forecast
	var variants *Variants
	for i, uid := range uids {
		object := *s.Object
		object.UID = uid
		own.Object = &object
		d, complete := foresee(&own, variants)
		if !complete {
			return Forecast{State: ForecastUnknown, Message: "what is free on its members is not known here"}
		}
		next := forecastOf(&own, d)
		if variants = d.Variants; i == 0 {
			out = next
			continue
		}
		out.differs(next)
	}
	return out
}

// enterQueue has a queue count with what was foreseen: what begins has its room, and what waits its place in the line.
func (f *Forecast) enterQueue(q *queue.Queue, key queue.Key) { q.Update(key, f.reservations, f.entry) }

// Takes is what a run would take on a member where one would begin; false where that is not known.
func (f *Forecast) Takes(member string) (pods int, each fleet.Amounts, known bool) {
	r, known := f.reservations[member]
	return r.Gang.Pods(), r.Gang.Pod.Requests, known && r.Run == ""
}

// patient is a placement from which no run is moved for how it gets on: what a forecast is about has not begun.
func patient(spec *v1alpha1.PlacementSpec) *v1alpha1.PlacementSpec {
	if spec == nil {
		return nil
	}
	own := *spec
	own.PendingTimeout, own.Failover = nil, nil
	return &own
}

// foresee decides as Decide does, and says whether all was there that it depends on. Variants are those of the time before.
func foresee(s *Snapshot, variants *Variants) (d *Decision, complete bool) {
	var reads Reads
	d = &Decision{Ledger: runs.Ledger(s.Object.Status.Runs), Placement: s.Object.Status.Placement.DeepCopy(), asked: asked{variants: variants}}
	d.Request, _ = request(s, &reads)
	d.Succeeded = s.Object.Status.Succeeded
	d.giveUpDeclared(s)
	d.Evictions = eviction.Drained(d.Ledger, s.clusters())
	d.Variants = variants
	switch {
	case reads.Any() || d.Problem != nil:
	case s.Placement == nil:
		d.Problem = &rollup.Problem{Reason: v1alpha1.ReasonPlacementNotFound, Message: fmt.Sprintf(
			"there is no Placement %s/%s: create it, or name another one", s.Object.Namespace, PlacementName(s.Object))}
	default:
		d.place(s, &reads)
	}
	return d, !reads.Any()
}

func forecastOf(s *Snapshot, d *Decision) Forecast {
	f := Forecast{reservations: s.Queue.Reserved}
	p := d.Placement
	switch {
	case d.Problem != nil && d.Problem.Reason == v1alpha1.ReasonNoClusterMatches:
		f.State, f.Message = ForecastNoMember, d.Problem.Message
	case d.Problem != nil:
		f.State, f.Message = ForecastRefused, sanitize.Text(d.Problem.Message, sanitize.MaxMessage)
		return f
	case d.Wanted.Suspend:
		f.State = ForecastSuspended
	}
	f.Wanted, f.Waiting, f.Rejected, f.NotPermitted = int(p.Wanted), p.Waiting, p.Rejected, int(p.NotPermitted)
	for _, name := range p.Clusters {
		if d.Wanted.IsCurrent(d.Ledger.Last(name)) {
			f.Keeps = append(f.Keeps, name)
		} else {
			f.Members = append(f.Members, name)
		}
	}
	f.noteRoom(s)
	if f.State == "" {
		f.state(d)
		f.enter(s, d)
	}
	return f
}

// endsOrStops is what becomes of a live run when another is to begin in its place.
var endsOrStops = map[v1alpha1.OnChange]string{"": "ends", v1alpha1.AfterCompletion: "ends", v1alpha1.Replace: "is stopped"}

// state says what becomes of it, where nothing is wrong with it.
func (f *Forecast) state(d *Decision) {
	before := f.before(d)
	short := len(f.Members)+len(f.Keeps) < f.Wanted
	switch {
	case len(f.Members) > 0 && before != "":
		f.State, f.Message = ForecastFollows, before
	case len(f.Members) > 0:
		f.State = ForecastStarts
	case short && (len(f.Waiting) > 0 || len(d.Line.Lacking) > 0):
		f.State, f.Message = ForecastWaits, before
	case len(f.Keeps) == 0:
		f.State = ForecastNoMember
	default:
		f.State = ForecastKeeps
	}
	if short {
		f.Message = cmp.Or(f.Message, reasons(f.Waiting, ""))
	}
	if f.State == ForecastNoMember {
		f.Message = cmp.Or(f.Message, reasons(f.Rejected, ""))
	}
	f.Message = sanitize.Text(cmp.Or(f.Message, d.Line.Awaiting), sanitize.MaxMessage)
}

// before is what ends or is stopped before a run may begin; empty if nothing has to.
func (f *Forecast) before(d *Decision) string {
	if hold := d.hold(); hold != "" {
		return hold
	}
	for _, name := range f.Members {
		if last := d.Ledger.Last(name); last != nil && !last.State.Ended() {
			return fmt.Sprintf("run %s on %s %s first", last.ID, name, endsOrStops[d.Wanted.OnChange])
		}
	}
	return ""
}

// noteRoom finds the members of which it is not known what they have free.
func (f *Forecast) noteRoom(s *Snapshot) {
	f.RoomUnknown = nil
	for _, name := range slices.Concat(f.Members, f.OneOf) {
		if view := s.Facts[name].Room; view == nil || view.State != nodeusage.Known {
			f.RoomUnknown = append(f.RoomUnknown, name)
		}
	}
}

// enter makes up what the queue has of it.
func (f *Forecast) enter(s *Snapshot, d *Decision) {
	f.reservations = map[string]queue.Reservation{}
	for member, r := range s.Queue.Reserved {
		f.reservations[member] = r
	}
	for _, r := range d.Reserve {
		f.reservations[r.View.Member] = r.Reservation
	}
	if d.hold() != "" {
		return
	}
	e := &queue.Entry{Rank: s.rank(), Gangs: map[string]fit.Gang{}, Behind: d.Line.Behind, Reconciled: s.Now}
	for _, name := range d.Line.Lacking {
		if gang, err := d.Variants.Quorum(name); err == nil {
			e.Gangs[name] = gang
		}
	}
	if len(e.Gangs) > 0 {
		f.entry = e
	}
}

// differs notes what is not the same in a forecast for another UID: where a run begins there and not here, or here and not
// there, is open.
func (f *Forecast) differs(other Forecast) {
	if f.State != other.State {
		return // equals have the same room and the same rules
	}
	open := slices.Clone(f.OneOf)
	for _, name := range slices.Concat(f.Members, other.Members, other.OneOf) {
		if !slices.Contains(f.Members, name) || !slices.Contains(other.Members, name) {
			open = append(open, name)
		}
	}
	slices.Sort(open)
	open = slices.Compact(open)
	all := len(f.Members) + f.Choose
	f.Members = slices.DeleteFunc(slices.Clone(f.Members), func(name string) bool { return slices.Contains(open, name) })
	f.OneOf, f.Choose = open, all-len(f.Members)
	f.RoomUnknown = union(f.RoomUnknown, other.RoomUnknown)
	if len(open) > 0 {
		f.Rejected = slices.DeleteFunc(slices.Clone(f.Rejected), func(r v1alpha1.RejectedCluster) bool { return slices.Contains(open, r.Name) })
	}
}

func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}
