package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/actions"
)

type scaleFlags struct {
	actFlags
	size int32
}

func newScale(env *environment) *cobra.Command {
	f := scaleFlags{actFlags: newActFlags(env)}
	cmd := &cobra.Command{
		Use:               "scale NAME --size N",
		Short:             "Change the size of an elastic MiniCluster in place",
		Long:              "Changes the number of pods of a MiniCluster with maxSize, while it runs, from minSize to maxSize.",
		Example:           "  minifleet scale lammps --size 8",
		Args:              names(1, 1, "a FleetMiniCluster"),
		ValidArgsFunction: f.completeMiniClusters(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.output.check(); err != nil {
				return err
			}
			if !cmd.Flags().Changed("size") {
				return invalid{errors.New("--size: say how many pods there are to be")}
			}
			return f.run(cmd, func(ctx context.Context, hub *hubClient) error {
				return f.act(ctx, hub, args, f.action())
			})
		},
	}
	cmd.Flags().Int32Var(&f.size, "size", 0, "number of pods on each member")
	f.addAct(cmd)
	return cmd
}

func (f *scaleFlags) action() miniClusterAct {
	return miniClusterAct{
		effect: func(item *v1alpha1.FleetMiniCluster) (string, error) { return actions.EffectScale(item, f.size) },
		do: func(ctx context.Context, c client.Client, key client.ObjectKey, o actions.Options) (actions.MiniCluster, error) {
			return actions.Scale(ctx, c, key, f.size, o)
		},
	}
}
