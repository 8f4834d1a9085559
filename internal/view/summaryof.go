package view

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// Fleet is what a summary is made of, as far as the reader may see it.
type Fleet struct {
	// Matched are the FleetMiniClusters that are asked for, Facets those of the filter.
	Matched []*Entry
	Facets  Facets
	Sources []*v1alpha1.GitSource
	// Members are all of them. MayMembers says whether the reader may see them.
	Members    []*v1alpha1.MemberCluster
	MayMembers bool
	Now        time.Time
}

// SummaryOf is the fleet at a glance. Who may not see members is told only of those that their own FleetMiniClusters
// name.
func SummaryOf(f Fleet) Summary {
	out := Summary{MiniClusters: len(f.Matched), Facets: f.Facets, Stale: []Stale{}, Now: f.Now}
	named := map[string]bool{}
	for _, e := range f.Matched {
		if e.WaitsForRoom {
			out.Queue++
		}
		for _, m := range e.Row.Members {
			named[m] = true
		}
	}
	for _, s := range f.Sources {
		out.Sources.Total++
		if meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionReady) {
			out.Sources.Ready++
		}
	}
	out.addMembers(f, named)
	return out
}

func (s *Summary) addMembers(f Fleet, named map[string]bool) {
	var ready Ready
	var room *Room
	for _, m := range f.Members {
		ready.Total++
		stale, isStale := StaleOf(m)
		if !isStale {
			ready.Ready++
			room = room.Add(RoomOf(m.Status.Capacity))
			continue
		}
		if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Reason == v1alpha1.ReasonFenced {
			s.Fenced = cmp.Or(s.Fenced, fenced(c.Message, f.MayMembers))
		}
		switch {
		case f.MayMembers:
			s.Stale = append(s.Stale, stale)
		case named[m.Name]:
			s.Stale = append(s.Stale, Stale{Member: m.Name, Since: stale.Since, Message: "cannot be reached"})
		}
	}
	slices.SortFunc(s.Stale, func(a, b Stale) int { return cmp.Compare(a.Member, b.Member) })
	if f.MayMembers {
		s.Members, s.Room = &ready, room
	}
}

func fenced(message string, whole bool) string {
	if whole {
		return sanitize.Text(message, maxText)
	}
	return "another hub leads the fleet on a member"
}
