package cli

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/internal/actions"
)

type rerunFlags struct {
	actFlags
	request string
	wait    bool
	timeout time.Duration
}

func newRerun(env *environment) *cobra.Command {
	f := rerunFlags{actFlags: newActFlags(env)}
	cmd := &cobra.Command{
		Use:   "rerun NAME...",
		Short: "Run FleetMiniClusters once more, also what has succeeded",
		Long: "Asks for one more run of each. With --request, the same request again asks for nothing new, so that a script may\n" +
			"repeat it. With --wait it waits until the runs have ended, with the exit codes of wait.",
		Example:           "  minifleet rerun lammps\n  minifleet rerun lammps --request build-4711 --wait",
		Args:              names(1, -1, "a FleetMiniCluster"),
		ValidArgsFunction: f.completeMiniClusters(-1),
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.request, "request", "", "identity of the request; empty: a new one each time")
	flags.BoolVar(&f.wait, "wait", false, "wait until the runs have ended")
	flags.DurationVar(&f.timeout, "timeout", 0, "with --wait, how long at most; 0: as long as it takes")
	f.addAct(cmd)
	return cmd
}

func (f *rerunFlags) run(cmd *cobra.Command, args []string) error {
	switch err := f.output.check(); {
	case err != nil:
		return err
	case f.wait && f.dryRun:
		return invalid{errors.New("--wait: with --dry-run there is nothing to wait for")}
	case f.timeout != 0 && !f.wait:
		return invalid{errors.New("--timeout is for --wait")}
	}
	token := cmp.Or(f.request, f.env.requestToken())
	err := f.hubFlags.run(cmd, func(ctx context.Context, hub *hubClient) error {
		err := f.act(ctx, hub, args, miniClusterAct{
			effect: actions.EffectRerun,
			do: func(ctx context.Context, c client.Client, key client.ObjectKey, o actions.Options) (actions.MiniCluster, error) {
				return actions.Rerun(ctx, c, key, token, o)
			},
		})
		if err != nil || !f.wait {
			return err
		}
		return f.waitForEnd(ctx, hub, args, f.timeout)
	})
	if f.wait {
		return verdictError(err)
	}
	return err
}
