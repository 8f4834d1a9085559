package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/cli/screen"
)

type whyFlags struct{ hubFlags }

func newWhy(env *environment) *cobra.Command {
	f := whyFlags{newHubFlags(env)}
	cmd := &cobra.Command{
		Use:   "why NAME",
		Short: "Say why a FleetMiniCluster does not run, or does not run there",
		Long: "Says in one sentence why a FleetMiniCluster is in the state that it is in. Below that, a line for each member:\n" +
			"those that it is on, those that it waits for room on, the nearest miss first, and those that were not chosen.",
		Example:           "  minifleet why lammps",
		Args:              names(1, 1, "a FleetMiniCluster"),
		ValidArgsFunction: f.completeMiniClusters(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, func(ctx context.Context, hub *hubClient) error {
				item, err := f.miniCluster(ctx, hub, args[0])
				if err != nil {
					return err
				}
				return f.print(item)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (f *whyFlags) print(item *v1alpha1.FleetMiniCluster) error {
	s, sum := f.env.screen(), briefOf(item)
	f.env.printf("%s  %s  %s\n", item.Name, s.Paint(s.State(sum.state)), sum.why)
	table := screen.NewTable("MEMBER", "STATE", "WHY")
	table.Whole = true
	rows := f.rows(item)
	if len(rows) == 0 {
		return nil
	}
	for _, row := range rows {
		table.Add(screen.Text(row.member), s.State(row.state), screen.Text(row.why))
	}
	f.env.printf("\n")
	return table.Print(s)
}

type whyRow struct{ member, state, why string }

// rows are the members that something is known of, each once.
func (f *whyFlags) rows(item *v1alpha1.FleetMiniCluster) []whyRow {
	var out []whyRow
	named := map[string]bool{}
	add := func(member, state, why string) {
		if !named[member] {
			named[member] = true
			out = append(out, whyRow{orDash(member), state, why})
		}
	}
	for i := range item.Status.Clusters {
		line := &item.Status.Clusters[i]
		why := orDash(line.Message)
		if line.LastHeardTime != nil {
			why = "last heard of " + age(f.env.now(), line.LastHeardTime.Time) + " ago; " + why
		}
		add(line.Name, lineState(line), why)
	}
	if p := item.Status.Placement; p != nil {
		for _, w := range p.Waiting {
			add(w.Name, string(v1alpha1.StateWaiting), orDash(w.Reason))
		}
		for _, r := range p.Rejected {
			add(r.Name, "Rejected", orDash(r.Reason))
		}
	}
	return out
}

// lineState is that of a run on a member, unless it is not known, or there is none.
func lineState(line *v1alpha1.ClusterStatus) string {
	switch {
	case line.Sync == v1alpha1.SyncUnknown:
		return string(v1alpha1.StateUnknown)
	case line.State == "":
		return string(v1alpha1.StateWaiting)
	}
	return string(line.State)
}
