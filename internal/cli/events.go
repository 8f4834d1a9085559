package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/cli/screen"
)

type eventsFlags struct {
	hubFlags
	output        outputFlag
	allNamespaces bool
}

func newEvents(env *environment) *cobra.Command {
	f := eventsFlags{hubFlags: newHubFlags(env)}
	cmd := &cobra.Command{
		Use:   "events [NAME]",
		Short: "List the events of a FleetMiniCluster, or of all of MiniFleet's objects",
		Long: "Lists the events of one FleetMiniCluster, or without a name of all FleetMiniClusters, GitSources and Placements\n" +
			"of the namespace, the latest last. Those of MemberClusters are in namespace default.",
		Example:           "  minifleet events lammps\n  minifleet events -A",
		Args:              names(0, 1, "a FleetMiniCluster"),
		ValidArgsFunction: f.completeMiniClusters(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.output.add(cmd, formatWide, formatJSON, formatYAML)
	cmd.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "of all namespaces")
	f.add(cmd)
	return cmd
}

func (f *eventsFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.output.check(); err != nil {
		return err
	}
	if len(args) > 0 && f.allNamespaces {
		return invalid{fmt.Errorf("a name goes not with -A; see `%s --help`", cmd.CommandPath())}
	}
	return f.hubFlags.run(cmd, func(ctx context.Context, hub *hubClient) error {
		var name string
		if len(args) > 0 {
			name = miniClusterName(args[0])
			if _, err := f.miniCluster(ctx, hub, name); err != nil {
				return err
			}
		}
		list, err := f.list(ctx, hub, name)
		if err != nil {
			return err
		}
		return f.print(hub, list)
	})
}

func (f *eventsFlags) list(ctx context.Context, hub *hubClient, name string) (*eventsv1.EventList, error) {
	options := []client.ListOption{}
	if !f.allNamespaces {
		options = append(options, client.InNamespace(hub.namespace))
	}
	if name != "" {
		options = append(options, client.MatchingFields{"regarding.kind": "FleetMiniCluster", "regarding.name": name})
	}
	list := &eventsv1.EventList{}
	if err := hub.client.List(ctx, list, options...); err != nil {
		return nil, err
	}
	list.Items = slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool {
		return !strings.HasPrefix(e.Regarding.APIVersion, v1alpha1.GroupVersion.Group+"/")
	})
	slices.SortStableFunc(list.Items, func(a, b eventsv1.Event) int {
		return cmp.Or(lastSeen(&a).Compare(lastSeen(&b)), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

func lastSeen(e *eventsv1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	case !e.DeprecatedLastTimestamp.IsZero():
		return e.DeprecatedLastTimestamp.Time
	}
	return e.CreationTimestamp.Time
}

func (f *eventsFlags) print(hub *hubClient, list *eventsv1.EventList) error {
	if f.output.objects() {
		list.SetGroupVersionKind(eventsv1.SchemeGroupVersion.WithKind("EventList"))
		for i := range list.Items {
			hub.typed(&list.Items[i])
		}
		return f.output.printObject(f.env.streams.Out, list)
	}
	if len(list.Items) == 0 {
		f.env.notef("no events: they are kept for an hour or so")
		return nil
	}
	head := []string{"SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}
	if f.allNamespaces {
		head = append([]string{"NAMESPACE"}, head...)
	}
	table := screen.NewTable(head...)
	table.Whole = f.output.format == formatWide
	for i := range list.Items {
		e := &list.Items[i]
		row := []screen.Cell{
			screen.Text(age(f.env.now(), lastSeen(e))), screen.Text(orDash(e.Type)), screen.Text(orDash(e.Reason)),
			screen.Text(orDash(e.Regarding.Kind + "/" + e.Regarding.Name)), screen.Text(orDash(e.Note)),
		}
		if f.allNamespaces {
			row = append([]screen.Cell{screen.Text(e.Namespace)}, row...)
		}
		table.Add(row...)
	}
	return table.Print(f.env.screen())
}
