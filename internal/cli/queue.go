package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/cli/screen"
)

type queueFlags struct {
	hubFlags
	member string
}

func newQueue(env *environment) *cobra.Command {
	f := queueFlags{hubFlags: newHubFlags(env)}
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Show who waits for room on each member, first come first in each namespace",
		Long: "Lists what waits for room, by member and namespace: the higher spec.priority comes first, then the older, and\n" +
			"MISSING says what is lacking there. RANK counts those of the same namespace. The order of namespaces depends on\n" +
			"what each of them uses of the member at the moment; the dashboard shows it. Where you may not list all\n" +
			"namespaces, one is shown.",
		Example: "  minifleet queue\n  minifleet queue --member alpine",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, f.show)
		},
	}
	cmd.Flags().StringVar(&f.member, "member", "", "only this member")
	_ = cmd.RegisterFlagCompletionFunc("member", f.completeMembers(-1)) // the flag is there
	f.add(cmd)
	return cmd
}

// waiter waits for room on a member.
type waiter struct {
	item            *v1alpha1.FleetMiniCluster
	member, missing string
	// rank is among those of its namespace, from 1.
	rank int
}

func (f *queueFlags) show(ctx context.Context, hub *hubClient) error {
	var list v1alpha1.FleetMiniClusterList
	err := hub.client.List(ctx, &list)
	partial := apierrors.IsForbidden(err)
	if partial {
		err = hub.client.List(ctx, &list, client.InNamespace(hub.namespace))
	}
	if err != nil {
		return err
	}
	waiters := waitersOf(list.Items, f.member)
	if partial {
		f.env.notef("only namespace %s is shown: you may not list those of others", hub.namespace)
	}
	if len(waiters) == 0 {
		f.env.notef("nothing waits for room")
		return nil
	}
	table := screen.NewTable("MEMBER", "RANK", "NAMESPACE", "NAME", "PRIORITY", "PODS", "AGE", "MISSING")
	for _, w := range waiters {
		table.Add(screen.Text(orDash(w.member)), screen.Text(strconv.Itoa(w.rank)), screen.Text(w.item.Namespace), screen.Text(w.item.Name), screen.Text(strconv.Itoa(int(w.item.Spec.Priority))),
			screen.Text(strconv.Itoa(int(max(w.item.Spec.MiniCluster.Size, 1)))), screen.Text(age(f.env.now(), w.item.CreationTimestamp.Time)), screen.Text(w.missing))
	}
	return table.Print(f.env.screen())
}

// waitersOf are those who wait, by member, namespace and rank.
func waitersOf(items []v1alpha1.FleetMiniCluster, member string) []waiter {
	var out []waiter
	for i := range items {
		for name, missing := range waitsOn(&items[i]) {
			if member == "" || name == member {
				out = append(out, waiter{item: &items[i], member: name, missing: missing})
			}
		}
	}
	slices.SortFunc(out, func(a, b waiter) int {
		return cmp.Or(cmp.Compare(a.member, b.member), cmp.Compare(a.item.Namespace, b.item.Namespace),
			cmp.Compare(b.item.Spec.Priority, a.item.Spec.Priority), created(a.item).Compare(created(b.item)), cmp.Compare(a.item.Name, b.item.Name))
	})
	for i := range out {
		out[i].rank = 1
		if i > 0 && out[i-1].member == out[i].member && out[i-1].item.Namespace == out[i].item.Namespace {
			out[i].rank = out[i-1].rank + 1
		}
	}
	return out
}

func created(f *v1alpha1.FleetMiniCluster) time.Time { return f.CreationTimestamp.Time }

// waitsOn are the members that it waits for room on, each with what is missing there: those that it might be placed on,
// and those that it is on and that have no room for it, or for all of it.
func waitsOn(f *v1alpha1.FleetMiniCluster) map[string]string {
	out := map[string]string{}
	if p := f.Status.Placement; p != nil {
		for _, w := range p.Waiting {
			out[w.Name] = orDash(w.Reason)
		}
	}
	for _, line := range f.Status.Clusters {
		if line.Reason == v1alpha1.ReasonInsufficientCapacity {
			out[line.Name] = orDash(line.Message)
		}
	}
	return out
}
