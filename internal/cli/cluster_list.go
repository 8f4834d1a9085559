package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/cli/screen"
)

type clusterListFlags struct {
	hubFlags
	output outputFlag
}

func newClusterList(env *environment) *cobra.Command {
	f := clusterListFlags{hubFlags: withoutNamespace(newHubFlags(env))}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the members: whether they can be reached, whether they are used, and what is free",
		Long: "Lists the members. STATE says whether the hub reaches them, USE whether new runs may begin there. What is free\n" +
			"on one that cannot be reached is not known, and not shown.",
		Example: "  minifleet cluster list\n  minifleet cluster list -o wide",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.output.add(cmd, formatWide, formatJSON, formatYAML, formatName)
	f.add(cmd)
	return cmd
}

func (f *clusterListFlags) run(cmd *cobra.Command) error {
	if err := f.output.check(); err != nil {
		return err
	}
	return f.hubFlags.run(cmd, func(ctx context.Context, hub *hubClient) error {
		if f.output.objects() {
			list := hub.rawList(&v1alpha1.MemberCluster{})
			if err := hub.client.List(ctx, list); err != nil {
				return err
			}
			return f.output.printObject(f.env.streams.Out, list)
		}
		var list v1alpha1.MemberClusterList
		if err := hub.client.List(ctx, &list); err != nil {
			return err
		}
		return f.print(hub, list.Items)
	})
}

func (f *clusterListFlags) print(hub *hubClient, items []v1alpha1.MemberCluster) error {
	slices.SortFunc(items, func(a, b v1alpha1.MemberCluster) int { return cmp.Compare(a.Name, b.Name) })
	if f.output.format == formatName {
		for i := range items {
			if err := f.output.printObject(f.env.streams.Out, hub.typed(&items[i])); err != nil {
				return err
			}
		}
		return nil
	}
	if len(items) == 0 {
		f.env.notef("the hub has no members: `%s cluster join` registers one", f.env.program)
		return nil
	}
	return f.table(items).Print(f.env.screen())
}

func (f *clusterListFlags) table(items []v1alpha1.MemberCluster) *screen.Table {
	wide := f.output.format == formatWide
	head := []string{"NAME", "STATE", "USE", "NODES", "CPU FREE/TOTAL", "MEMORY FREE/TOTAL", "GPUS FREE/TOTAL", "LAST HEARD"}
	if wide {
		head = append(head, "VERSION", "LABELS")
	}
	table := screen.NewTable(append(head, "WHY")...)
	table.Whole = wide
	for i := range items {
		table.Add(f.row(&items[i], wide)...)
	}
	return table
}

func (f *clusterListFlags) row(m *v1alpha1.MemberCluster, wide bool) []screen.Cell {
	s := f.env.screen()
	state, message := ready(m.Status.Conditions)
	row := []screen.Cell{screen.Text(m.Name), s.State(state), s.State(useOf(m, state))}
	nodes, cpu, memory, gpus := "-", "-", "-", "-"
	if c := m.Status.Capacity; c != nil && state == stateReady {
		nodes, cpu, memory, gpus = strconv.Itoa(int(c.Nodes)), orDash(c.CPU), orDash(c.Memory), orDash(c.GPUs)
	}
	for _, text := range []string{nodes, cpu, memory, gpus, f.lastHeard(m, state)} {
		row = append(row, screen.Text(text))
	}
	if wide {
		row = append(row, screen.Text(orDash(m.Status.Version)), screen.Text(orDash(labels.Set(m.Labels).String())))
	}
	return append(row, screen.Text(useWhy(m, state, message)))
}

// useOf says whether new runs begin on a member, and how far it is in being drained; empty where they would if it could be
// reached.
func useOf(m *v1alpha1.MemberCluster, state string) string {
	draining, _ := m.Draining()
	switch {
	case !m.DeletionTimestamp.IsZero():
		return "Deleting"
	case draining != "" && meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionDrained):
		return "Drained"
	case draining != "":
		return "Draining"
	case m.Spec.Suspend:
		return "Cordoned"
	case state != stateReady:
		return ""
	}
	return stateOK
}

// useWhy is why a member cannot be reached, or else why it is not used.
func useWhy(m *v1alpha1.MemberCluster, state, message string) string {
	drained := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionDrained)
	switch {
	case state != stateReady:
		return message
	case drained != nil:
		return orDash(drained.Message)
	case m.Closed() != "":
		return orDash(m.Closed())
	}
	return "-"
}

// lastHeard is how long ago the last answer of a member came, as far as the hub knows.
func (f *clusterListFlags) lastHeard(m *v1alpha1.MemberCluster, state string) string {
	switch {
	case m.Status.LastHeardTime != nil:
		return age(f.env.now(), m.Status.LastHeardTime.Time) + " ago"
	case state == stateReady:
		return "now"
	}
	return "-"
}
