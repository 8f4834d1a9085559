package view

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// MaxPlaces is how many places of a line are shown.
const MaxPlaces = 500

// LineOf is a line for room as a reader may see it. Since says since when somebody waits; it may be nil.
func LineOf(l queue.Line, sees Sees, since func(queue.Key) *time.Time) Line {
	out := Line{Member: l.Member, Places: []Place{}, Total: len(l.Standings)}
	for i := range l.Standings {
		if i == MaxPlaces {
			break
		}
		out.Places = append(out.Places, placeOf(int32(i+1), &l.Standings[i], sees, since))
	}
	return out
}

// placeOf is a place in a line. Of one that the reader may not see there is only the place.
func placeOf(place int32, s *queue.Standing, sees Sees, since func(queue.Key) *time.Time) Place {
	if !sees.has(s.Key.Namespace) {
		return Place{Place: place, Hidden: true}
	}
	p := Place{
		Place: place, Namespace: s.Key.Namespace, Name: s.Key.Name, Priority: s.Priority,
		Pods: int32(s.Gang.Size), Each: amountOf(s.Gang.Pod.Requests), //nolint:gosec // it was made of an int32
	}
	if since != nil {
		p.Since = since(s.Key)
	}
	f := s.Fit
	if f == nil {
		return p
	}
	p.Fits, p.Quota = int32(f.Pods), f.Quota //nolint:gosec // no more than Size
	if f.Behind.Name != "" {
		p.Behind = &Ref{Name: f.Behind.Name, Namespace: f.Behind.Namespace}
		if !sees.has(f.Behind.Namespace) {
			p.Behind = &Ref{}
		}
	}
	switch {
	case !f.Fits:
		counted := fmt.Sprintf("%d of %d pods fit; ", f.Pods, s.Gang.Size) // Fits says so
		p.Miss = sanitize.Text(strings.TrimPrefix(f.Blocked, counted), sanitize.MaxNote)
	case f.Blocked != "":
		p.Turn = sanitize.Text(HideOthers(f.Blocked, sees), sanitize.MaxNote)
	}
	return p
}

// amountOf is an amount of resources for people.
func amountOf(a fleet.Amounts) Amount {
	out := Amount{CPU: float64(a[corev1.ResourceCPU]) / 1000, Memory: float64(a[corev1.ResourceMemory])}
	for name, n := range a {
		if strings.HasSuffix(string(name), "/gpu") {
			out.GPUs += float64(n)
		}
	}
	return out
}

// find is the place of a MiniCluster in a line, nil where it does not stand in it.
func (l *Line) find(namespace, name string) *Place {
	if l == nil {
		return nil
	}
	for i := range l.Places {
		if p := &l.Places[i]; p.Namespace == namespace && p.Name == name {
			return p
		}
	}
	return nil
}
