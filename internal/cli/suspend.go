package cli

import (
	"github.com/spf13/cobra"

	"github.com/minifleet/minifleet/internal/actions"
)

func newSuspend(env *environment) *cobra.Command {
	return simpleAct(env, &cobra.Command{
		Use:   "suspend NAME...",
		Short: "Hold FleetMiniClusters back: nothing new starts, live runs are suspended",
		Long: "Holds FleetMiniClusters back by the annotation minifleet.dev/hold, which Git leaves alone. Nothing new starts.\n" +
			"The pods of live runs end; resumed, the same runs begin anew.",
		Example: "  minifleet suspend lammps\n  minifleet suspend lammps --dry-run",
	}, miniClusterAct{effect: actions.EffectSuspend, do: actions.Suspend})
}

func newResume(env *environment) *cobra.Command {
	return simpleAct(env, &cobra.Command{
		Use:   "resume NAME...",
		Short: "Let FleetMiniClusters go on that are suspended",
		Long: "Takes away what suspends FleetMiniClusters: the annotation minifleet.dev/hold, and spec.suspend unless Git\n" +
			"declares it, which only a commit can change.",
		Example: "  minifleet resume lammps",
	}, miniClusterAct{effect: actions.EffectResume, do: actions.Resume})
}
