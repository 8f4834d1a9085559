package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/cli/review"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/view"
)

// forecaster says where FleetMiniClusters would be placed, all of them together, and what is not known of that.
type forecaster func(ctx context.Context, asks []plan.Ask) (forecasts []plan.Forecast, notes []string, err error)

// Limits of what is asked for: in one request, which are those of the dashboard, and in all.
const (
	maxAsks      = 100
	maxAskBytes  = 512 << 10
	maxForecasts = 1000
)

// dashboardClient is what forecasts are asked of.
type dashboardClient interface {
	Forecasts(ctx context.Context, namespace string, items any) (json.RawMessage, error)
}

// askDashboard has the hub's controller foresee, which knows what each node has free and who waits for it. Those that do
// not go into one request count for each other only within theirs, so those that are for comparison come last.
func askDashboard(dashboard dashboardClient, namespace string) forecaster {
	return func(ctx context.Context, asks []plan.Ask) (out []plan.Forecast, notes []string, err error) {
		out = make([]plan.Forecast, len(asks))
		for i := range out {
			out[i] = plan.Forecast{State: plan.ForecastUnknown, Message: fmt.Sprintf("no more than %d are foreseen", maxForecasts)}
		}
		requests, err := requestsFor(asks)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range requests {
			answer, err := dashboard.Forecasts(ctx, namespace, r.items)
			if err != nil {
				return nil, nil, err
			}
			var found []plan.Forecast
			if err := json.Unmarshal(answer, &found); err != nil || len(found) != len(r.items) {
				return nil, nil, errors.New("the dashboard's answer is no forecast: is it of another version?")
			}
			for i, of := range r.of {
				out[of] = found[i]
			}
		}
		if len(requests) > 1 && requests[1].counted {
			notes = append(notes, fmt.Sprintf("the forecasts are those of %d groups, each as if the others were not there", len(requests)))
		}
		return out, notes, nil
	}
}

// forecastRequest is one request: items, and which of the asks each of them is. Counted says that it has some that are
// not alone.
type forecastRequest struct {
	items   []json.RawMessage
	of      []int
	size    int
	counted bool
}

// requestsFor are the requests for asks.
func requestsFor(asks []plan.Ask) ([]*forecastRequest, error) {
	order := make([]int, len(asks))
	for i := range order {
		order[i] = i
	}
	rank := map[bool]int{false: 0, true: 1}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank[asks[a].Alone], rank[asks[b].Alone]) })
	var out []*forecastRequest
	for _, i := range order[:min(len(order), maxForecasts)] {
		a := &asks[i]
		item, err := json.Marshal(struct {
			Name      string                         `json:"name"`
			Spec      *v1alpha1.FleetMiniClusterSpec `json:"spec"`
			Placement *v1alpha1.PlacementSpec        `json:"placement,omitempty"`
			RerunAt   string                         `json:"rerunAt,omitempty"`
			Alone     bool                           `json:"alone,omitempty"`
		}{a.Object.Name, &a.Object.Spec, a.Placement, a.Object.Annotations[v1alpha1.AnnotationRerunAt], a.Alone})
		if err != nil {
			return nil, err
		}
		if len(out) == 0 || len(out[len(out)-1].items) == maxAsks || out[len(out)-1].size+len(item) > maxAskBytes {
			out = append(out, &forecastRequest{})
		}
		r := out[len(out)-1]
		r.items, r.of, r.size, r.counted = append(r.items, item), append(r.of, i), r.size+len(item), r.counted || !a.Alone
	}
	return out, nil
}

// fromMembers foresees by what MemberClusters say, which is not what each node has free.
func fromMembers(members []v1alpha1.MemberCluster, namespace *corev1.Namespace, now time.Time) forecaster {
	return func(_ context.Context, asks []plan.Ask) (out []plan.Forecast, notes []string, err error) {
		s := plan.Snapshot{Now: now, Members: offlineMembers(members)}
		if namespace != nil {
			s.NamespaceLabels = namespace.Labels
		} else if open := bySelector(members); len(open) > 0 {
			notes = append(notes, "whether this namespace may use "+strings.Join(open, ", ")+" depends on its labels, which you may not read: it is taken that it may not")
		}
		f := plan.Foreseer{
			Snapshot: s, Queue: queue.New(), Room: func(string, []string) *nodeusage.Room { return &nodeusage.Room{State: nodeusage.Unknown} },
		}
		wide := slices.Clone(asks)
		for i := range wide {
			wide[i].Placement = everywhere(asks[i].Placement)
		}
		out = f.All(wide)
		for i := range out {
			narrow(&out[i], &asks[i], members)
		}
		if len(asks) > 0 {
			notes = append(notes, "what is free on each node is known to the hub's controller alone: with --server, its dashboard says whether there is room and which member is chosen")
		}
		return out, notes, nil
	}
}

// bySelector are members that say by labels which namespaces may use them.
func bySelector(members []v1alpha1.MemberCluster) []string {
	var out []string
	for i := range members {
		if n := members[i].Spec.Namespaces; n != nil && n.From == v1alpha1.NamespacesFromSelector {
			out = append(out, members[i].Name)
		}
	}
	return out
}

// offlineMembers are members as far as their status tells how they are.
func offlineMembers(members []v1alpha1.MemberCluster) []plan.Member {
	out := make([]plan.Member, len(members))
	for i := range members {
		m := &members[i]
		c := plan.Connection{Attempted: true, Room: nodeusage.Unknown, UID: m.Status.ClusterUID}
		if ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
			c.Ready, c.Reason, c.Message = meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady), ready.Reason, ready.Message
		}
		c.Connected = c.Ready
		out[i] = plan.Member{Cluster: m, Connection: c}
	}
	return out
}

// everywhere is a placement on all members that may be chosen: which of them are depends on what is not known.
func everywhere(spec *v1alpha1.PlacementSpec) *v1alpha1.PlacementSpec {
	if spec == nil {
		return nil
	}
	own := spec.DeepCopy()
	own.NumberOfClusters, own.SpreadPolicy = nil, v1alpha1.SpreadPolicy{}
	return own
}

// narrow makes a forecast for all members that may be chosen one for as many as are asked for. Members that have less free
// in sum than is needed are not among them.
func narrow(f *plan.Forecast, a *plan.Ask, members []v1alpha1.MemberCluster) {
	if f.State != plan.ForecastStarts && f.State != plan.ForecastFollows {
		return
	}
	if a.Placement != nil && a.Placement.NumberOfClusters != nil {
		f.Wanted = int(*a.Placement.NumberOfClusters)
	}
	f.Members = slices.DeleteFunc(f.Members, func(name string) bool {
		why := lacks(f, name, members)
		if why != "" {
			f.Waiting = append(f.Waiting, v1alpha1.RejectedCluster{Name: name, Reason: why})
		}
		return why != ""
	})
	missing := f.Wanted - len(f.Keeps)
	switch {
	case missing <= 0:
		f.State, f.Members, f.Message = plan.ForecastKeeps, nil, ""
	case len(f.Members) == 0:
		f.State, f.Message = plan.ForecastWaits, f.Waiting[0].Name+": "+f.Waiting[0].Reason
	case len(f.Members) > missing:
		f.OneOf, f.Choose, f.Members = f.Members, missing, nil
	}
	f.RoomUnknown = slices.Concat(f.Members, f.OneOf)
}

// lacks says what a member lacks for sure: it has less free in sum than the pods need.
func lacks(f *plan.Forecast, name string, members []v1alpha1.MemberCluster) string {
	pods, each, known := f.Takes(name)
	i := slices.IndexFunc(members, func(m v1alpha1.MemberCluster) bool { return m.Name == name })
	if i < 0 || !known {
		return ""
	}
	room := view.RoomOf(members[i].Status.Capacity)
	if room == nil {
		return ""
	}
	const gib = 1 << 30
	for _, r := range []struct {
		resource   corev1.ResourceName
		free, unit float64
		name       string
	}{{corev1.ResourceCPU, room.Free.CPU, 1000, "CPU"}, {corev1.ResourceMemory, room.Free.Memory / gib, gib, "GiB of memory"}} {
		if need := float64(each[r.resource]) * float64(pods) / r.unit; need > r.free {
			return fmt.Sprintf("needs %.4g %s, and %.4g are free on all of its nodes together", need, r.name, r.free)
		}
	}
	return ""
}

// unforeseeable says of all that nothing is known.
func unforeseeable(why string) forecaster {
	return func(_ context.Context, asks []plan.Ask) ([]plan.Forecast, []string, error) {
		out := make([]plan.Forecast, len(asks))
		for i := range out {
			out[i] = plan.Forecast{State: plan.ForecastUnknown, Message: why}
		}
		return out, nil, nil
	}
}

// placementOf is what a report says of a forecast.
func placementOf(f *plan.Forecast) *review.Placement {
	return &review.Placement{
		State: string(f.State), Says: forecastSays(f), Members: f.Members, OneOf: f.OneOf, Choose: f.Choose, Keeps: f.Keeps, RoomUnknown: f.RoomUnknown,
		Waiting: reasonsOf(f.Waiting), Rejected: reasonsOf(f.Rejected),
	}
}

func reasonsOf(list []v1alpha1.RejectedCluster) []review.Reason {
	var out []review.Reason
	for _, r := range list {
		out = append(out, review.Reason{Member: r.Name, Reason: r.Reason})
	}
	return out
}

// forecastSays is a forecast in a sentence.
func forecastSays(f *plan.Forecast) string {
	where := whereOf(f)
	switch f.State {
	case plan.ForecastStarts:
		out := "starts now on " + where
		if len(f.RoomUnknown) > 0 {
			out = "would be placed on " + where + "; whether there is room is not known"
			if len(f.RoomUnknown) < len(f.Members)+len(f.OneOf) {
				out += " of " + strings.Join(f.RoomUnknown, ", ")
			}
		}
		return out + shortOf(f)
	case plan.ForecastFollows:
		return "starts on " + where + ", and not at once: " + f.Message
	case plan.ForecastWaits:
		return "waits: " + f.Message
	case plan.ForecastKeeps:
		return "starts no run: " + strings.Join(f.Keeps, ", ") + " " + choose(len(f.Keeps), "has", "have") + " one for this"
	case plan.ForecastNoMember:
		return "runs nowhere: " + f.Message
	case plan.ForecastSuspended:
		return "starts no run: it is suspended"
	case plan.ForecastRefused:
		return "starts no run: " + f.Message
	}
	return "where it would run is not known: " + f.Message
}

// shortOf says that fewer members are chosen than are asked for.
func shortOf(f *plan.Forecast) string {
	n := len(f.Members) + f.Choose + len(f.Keeps)
	if n >= f.Wanted {
		return ""
	}
	out := fmt.Sprintf(" (%d of %d members", n, f.Wanted)
	if f.Message != "" {
		out += "; " + f.Message
	}
	return out + ")"
}

// whereOf names the members where a run would begin.
func whereOf(f *plan.Forecast) string {
	where := strings.Join(f.Members, ", ")
	if len(f.OneOf) == 0 {
		return where
	}
	if where != "" {
		where += " and "
	}
	return fmt.Sprintf("%s%s of %s", where, map[bool]string{true: "one", false: fmt.Sprint(f.Choose)}[f.Choose == 1], strings.Join(f.OneOf, ", "))
}

func choose(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
