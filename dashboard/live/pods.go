package live

import (
	"context"
	"sync"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/view"
)

// maxAsked is how many members are asked for one answer.
const maxAsked = 100

// Pods are those of the latest run on each member, and the objects beside it. All members are asked at once.
func (r *Reader) Pods(ctx context.Context, f *v1alpha1.FleetMiniCluster) map[string]view.MemberPods {
	out := map[string]view.MemberPods{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range f.Status.Clusters {
		c := &f.Status.Clusters[i]
		if c.Run == "" || i >= maxAsked {
			continue
		}
		wg.Go(func() {
			pods := r.podsOn(ctx, f, c.Name, c.Run)
			mu.Lock()
			defer mu.Unlock()
			out[c.Name] = pods
		})
	}
	wg.Wait()
	return out
}

// podsOn are the pods of a run on a member, or why they are not known.
func (r *Reader) podsOn(ctx context.Context, f *v1alpha1.FleetMiniCluster, member, run string) view.MemberPods {
	m, err := r.Members.Member(member)
	if err != nil {
		return view.MemberPods{Error: explain(err)}
	}
	key := m.KeyOf(ctx, f, r.origin(f))
	pods, err := r.pods.get(ctx, member+"/"+key.String()+"/"+run, func(ctx context.Context) (view.MemberPods, error) {
		pods, err := m.PodsOfJob(ctx, key, run)
		if err != nil {
			return view.MemberPods{}, err
		}
		out := view.MemberPods{Known: true, Pods: pods}
		owned, err := m.Owned(ctx, key, r.origin(f))
		for _, o := range owned {
			if o.Kind != "Job" {
				out.Objects = append(out.Objects, view.ObjectRef{Kind: o.Kind, Name: o.Object.GetName()})
			}
		}
		return out, err
	})
	if err != nil {
		return view.MemberPods{Error: explain(err)}
	}
	return pods
}
