package cli

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/view"
)

// known is what the page would tell of a FleetMiniCluster, made of objects of the hub alone. All texts can be shown.
type known struct {
	item    *v1alpha1.FleetMiniCluster
	source  *v1alpha1.GitSource // nil where there is none, or none that may be read
	context view.Context
	state   v1alpha1.State
	now     time.Time
}

// know reads a FleetMiniCluster, and what else may be read that says more about it.
func (h *hubFlags) know(ctx context.Context, hub *hubClient, arg string) (*known, error) {
	item, err := h.miniCluster(ctx, hub, arg)
	if err != nil {
		return nil, err
	}
	k := &known{item: item, source: sourceOf(ctx, hub, item), now: h.env.now(), context: view.Context{Stale: staleMembers(ctx, hub)}}
	markStale(item, k.context.Stale)
	if k.source != nil {
		k.context.Commits = view.CommitsOf(k.source)
	}
	k.state = v1alpha1.State(view.RowOf(item, k.context).State)
	return k, nil
}

// sourceOf is the GitSource that declares a FleetMiniCluster; nil if there is none, or none that may be read.
func sourceOf(ctx context.Context, hub *hubClient, f *v1alpha1.FleetMiniCluster) *v1alpha1.GitSource {
	name := f.Labels[v1alpha1.LabelSource]
	if name == "" {
		return nil
	}
	source := &v1alpha1.GitSource{}
	if err := hub.client.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: name}, source); err != nil {
		return nil
	}
	return source
}

// staleMembers are those that cannot be reached. Where members may not be read, the FleetMiniCluster says what is known.
func staleMembers(ctx context.Context, hub *hubClient) map[string]view.Stale {
	var list v1alpha1.MemberClusterList
	if err := hub.client.List(ctx, &list); err != nil {
		return nil
	}
	out := map[string]view.Stale{}
	for i := range list.Items {
		if s, stale := view.StaleOf(&list.Items[i]); stale {
			out[s.Member] = s
		}
	}
	return out
}

// markStale notes of members that cannot be reached that what is known of them is old, where the hub has not done so yet.
func markStale(item *v1alpha1.FleetMiniCluster, stale map[string]view.Stale) {
	for i := range item.Status.Clusters {
		line := &item.Status.Clusters[i]
		s, ok := stale[line.Name]
		if !ok || line.Sync == v1alpha1.SyncUnknown {
			continue
		}
		line.Sync = v1alpha1.SyncUnknown
		if s.Since != nil && line.LastHeardTime == nil {
			line.LastHeardTime = &metav1.Time{Time: *s.Since}
		}
	}
}

// sentence says why it is in its state.
func (k *known) sentence() string {
	return view.WhySentence(k.item, view.WhyParts{Now: k.now, State: k.state})
}

func (k *known) tree() view.TreeNode {
	return view.Tree(view.TreeInput{Object: k.item, State: k.state, Source: k.source})
}

// run is a line of the ledger.
func (k *known) run(r *v1alpha1.Run) view.Run { return view.RunOf(k.item, r, &k.context) }

// memberLine is what is known of a FleetMiniCluster on one member.
type memberLine struct{ member, state, why string }

// members are those that something is known of, each once: those that it is on, those that it waits for room on, the
// nearest miss first, and those that were not chosen.
func (k *known) members() []memberLine {
	var out []memberLine
	add := func(member, state, why string) {
		if !slices.ContainsFunc(out, func(l memberLine) bool { return l.member == member }) {
			out = append(out, memberLine{orDash(member), state, why})
		}
	}
	for _, m := range view.OnMembers(k.item, k.context) {
		why := orDash(m.Message)
		if m.StaleSince != nil {
			why = lastNews(k.now, *m.StaleSince) + "; " + why
		}
		add(m.Member, m.State, why)
	}
	if p := k.item.Status.Placement; p != nil {
		for _, w := range p.Waiting {
			add(w.Name, string(v1alpha1.StateWaiting), orDash(w.Reason))
		}
		for _, r := range p.Rejected {
			add(r.Name, "Rejected", orDash(r.Reason))
		}
	}
	return out
}

// lastNews is how old what is known of a member is.
func lastNews(now, at time.Time) string { return "last heard of " + age(now, at) + " ago" }
