package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/cli/screen"
)

// states are the words that --state takes.
var states = []v1alpha1.State{
	v1alpha1.StateWaiting, v1alpha1.StateStarting, v1alpha1.StateRunning, v1alpha1.StateStopping, v1alpha1.StateSuspended,
	v1alpha1.StateSucceeded, v1alpha1.StateFailed, v1alpha1.StateCancelled, v1alpha1.StateUnknown, v1alpha1.StateInvalid,
	v1alpha1.StateDeleting,
}

type getFlags struct {
	hubFlags
	output        outputFlag
	allNamespaces bool
	selector      string
	states        []string
}

func newGet(env *environment) *cobra.Command {
	f := getFlags{hubFlags: newHubFlags(env)}
	cmd := &cobra.Command{
		Use:   "get [NAME...]",
		Short: "List FleetMiniClusters: how far each is, and why",
		Long: "Lists FleetMiniClusters, with the state of each as a symbol and a word, and one sentence that says why.\n" +
			"-o json and yaml print the objects as the API has them.",
		Example:           "  minifleet get -A --state failed,unknown\n  minifleet get -l team=md -o wide\n  minifleet get lammps -o yaml",
		Args:              names(0, -1, "a FleetMiniCluster"),
		ValidArgsFunction: f.completeMiniClusters(-1),
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.output.add(cmd, formatWide, formatJSON, formatYAML, formatName)
	flags := cmd.Flags()
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "of all namespaces")
	flags.StringVarP(&f.selector, "selector", "l", "", "those with these labels, e.g. team=md,tier!=test")
	flags.StringSliceVar(&f.states, "state", nil, "those in one of these states: "+joinStates())
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(namesOf(states, func(s *v1alpha1.State) string { return string(*s) }), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	f.add(cmd)
	return cmd
}

func joinStates() string {
	return strings.Join(namesOf(states, func(s *v1alpha1.State) string { return string(*s) }), ", ")
}

func (f *getFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.output.check(); err != nil {
		return err
	}
	selector, err := labels.Parse(f.selector)
	if err != nil {
		return invalid{fmt.Errorf("-l: %w", err)}
	}
	wanted, err := parseStates(f.states)
	switch {
	case err != nil:
		return err
	case len(args) > 0 && (f.allNamespaces || f.selector != ""):
		return invalid{fmt.Errorf("names go with neither -A nor -l; see `%s --help`", cmd.CommandPath())}
	}
	return f.hubFlags.run(cmd, func(ctx context.Context, hub *hubClient) error {
		list, err := f.list(ctx, hub, args, selector)
		if err != nil {
			return err
		}
		items, err := f.keep(list, wanted)
		if err != nil {
			return err
		}
		return f.print(hub, list, items, len(args) == 1)
	})
}

func parseStates(values []string) ([]v1alpha1.State, error) {
	var out []v1alpha1.State
	for _, word := range values {
		i := slices.IndexFunc(states, func(s v1alpha1.State) bool { return strings.EqualFold(string(s), strings.TrimSpace(word)) })
		if i < 0 {
			return nil, invalid{fmt.Errorf("--state: %q is none of %s", word, joinStates())}
		}
		out = append(out, states[i])
	}
	return out, nil
}

// list reads the objects with all of their fields.
func (f *getFlags) list(ctx context.Context, hub *hubClient, args []string, selector labels.Selector) (*unstructured.UnstructuredList, error) {
	list := hub.rawList(&v1alpha1.FleetMiniCluster{})
	if len(args) == 0 {
		options := []client.ListOption{client.MatchingLabelsSelector{Selector: selector}}
		if !f.allNamespaces {
			options = append(options, client.InNamespace(hub.namespace))
		}
		return list, hub.client.List(ctx, list, options...)
	}
	for _, arg := range args {
		object := hub.raw(&v1alpha1.FleetMiniCluster{})
		key := hub.key(miniClusterName(arg))
		if err := hub.client.Get(ctx, key, object); err != nil {
			return nil, f.missing(err, &v1alpha1.FleetMiniCluster{}, key)
		}
		list.Items = append(list.Items, *object)
	}
	return list, nil
}

// keep leaves those in a state that is asked for, in the order of their names.
func (f *getFlags) keep(list *unstructured.UnstructuredList, wanted []v1alpha1.State) ([]v1alpha1.FleetMiniCluster, error) {
	slices.SortStableFunc(list.Items, func(a, b unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	kept := list.Items[:0]
	var items []v1alpha1.FleetMiniCluster
	for i := range list.Items {
		var item v1alpha1.FleetMiniCluster
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &item); err != nil {
			return nil, fmt.Errorf("FleetMiniCluster %s/%s is not as this version knows it: %w", list.Items[i].GetNamespace(), list.Items[i].GetName(), err)
		}
		if len(wanted) > 0 && !slices.Contains(wanted, item.Status.State) {
			continue
		}
		kept, items = append(kept, list.Items[i]), append(items, item)
	}
	list.Items = kept
	return items, nil
}

func (f *getFlags) print(hub *hubClient, list *unstructured.UnstructuredList, items []v1alpha1.FleetMiniCluster, single bool) error {
	out := f.env.streams.Out
	switch {
	case f.output.objects() && single && len(list.Items) == 1:
		return f.output.printObject(out, &list.Items[0])
	case f.output.objects():
		return f.output.printObject(out, list)
	case f.output.format == formatName:
		for i := range list.Items {
			if err := f.output.printObject(out, &list.Items[i]); err != nil {
				return err
			}
		}
		return nil
	case len(items) == 0:
		f.env.notef("no FleetMiniCluster found%s", f.where(hub))
		return nil
	}
	return f.table(items).Print(f.env.screen())
}

func (f *getFlags) where(hub *hubClient) string {
	if f.allNamespaces {
		return ""
	}
	return " in namespace " + hub.namespace + "; -A lists those of all namespaces"
}

func (f *getFlags) table(items []v1alpha1.FleetMiniCluster) *screen.Table {
	wide := f.output.format == formatWide
	head := []string{"NAME", "STATE", "PODS", "MEMBERS", "REVISION", "SINCE"}
	if wide {
		head = append(head, "AUTHOR", "SUBJECT", "SYNC", "HEALTH", "AGE")
	}
	if head = append(head, "WHY"); f.allNamespaces {
		head = append([]string{"NAMESPACE"}, head...)
	}
	table, s := screen.NewTable(head...), f.env.screen()
	table.Whole = wide
	for i := range items {
		table.Add(f.row(s, &items[i], wide)...)
	}
	return table
}

func (f *getFlags) row(s screen.Screen, item *v1alpha1.FleetMiniCluster, wide bool) []screen.Cell {
	now, sum := f.env.now(), briefOf(item)
	var row []screen.Cell
	if f.allNamespaces {
		row = append(row, screen.Text(item.Namespace))
	}
	row = append(row, screen.Text(item.Name), s.State(sum.state), screen.Text(sum.pods), screen.Text(sum.members),
		screen.Text(sum.revision), screen.Text(age(now, sum.since)))
	if wide {
		var commit v1alpha1.RunCommit
		if c := commitOf(item); c != nil {
			commit = *c
		}
		row = append(row, screen.Text(orDash(commit.Author)), screen.Text(orDash(commit.Subject)), screen.Text(orDash(string(item.Status.Sync))), screen.Text(orDash(string(item.Status.Health))),
			screen.Text(age(now, item.CreationTimestamp.Time)))
	}
	return append(row, screen.Text(sum.why))
}
