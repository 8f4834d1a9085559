package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/minifleet/minifleet/internal/cli/screen"
)

type whyFlags struct{ hubFlags }

func newWhy(env *environment) *cobra.Command {
	f := whyFlags{newHubFlags(env)}
	cmd := &cobra.Command{
		Use:   "why NAME",
		Short: "Say why a FleetMiniCluster does not run, or does not run there",
		Long: "Says in a sentence or two why a FleetMiniCluster is in the state that it is in. Below that, a line for each member:\n" +
			"those that it is on, those that it waits for room on, the nearest miss first, and those that were not chosen.",
		Example:           "  minifleet why lammps",
		Args:              names(1, 1, "a FleetMiniCluster"),
		ValidArgsFunction: f.completeMiniClusters(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, func(ctx context.Context, hub *hubClient) error {
				k, err := f.know(ctx, hub, args[0])
				if err != nil {
					return err
				}
				return f.print(k)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (f *whyFlags) print(k *known) error {
	s := f.env.screen()
	f.env.printf("%s  %s  %s\n", k.item.Name, s.Paint(s.State(string(k.state))), k.sentence())
	lines := k.members()
	if len(lines) == 0 {
		return nil
	}
	table := screen.NewTable("MEMBER", "STATE", "WHY")
	table.Whole = true
	for _, line := range lines {
		table.Add(screen.Text(line.member), s.State(line.state), screen.Text(line.why))
	}
	f.env.printf("\n")
	return table.Print(s)
}
