package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/actions"
)

func newCancel(env *environment) *cobra.Command {
	f := newActFlags(env)
	cmd := &cobra.Command{
		Use:   "cancel NAME [RUN...]",
		Short: "Stop live runs of a FleetMiniCluster",
		Long: "Stops the runs with these ids, or the beginnings of ids, and without any all live runs. What was cancelled is not\n" +
			"started again until the MiniCluster changes or somebody asks for that with rerun.",
		Example:           "  minifleet cancel lammps --dry-run\n  minifleet cancel lammps 3f2a",
		Args:              names(1, -1, "a FleetMiniCluster"),
		ValidArgsFunction: f.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.output.check(); err != nil {
				return err
			}
			return f.run(cmd, func(ctx context.Context, hub *hubClient) error {
				return f.act(ctx, hub, args[:1], cancelRuns(args[1:]))
			})
		},
	}
	f.addAct(cmd)
	return cmd
}

func cancelRuns(ids []string) miniClusterAct {
	return miniClusterAct{
		effect: func(item *v1alpha1.FleetMiniCluster) (string, error) { return actions.EffectCancel(item, ids) },
		do: func(ctx context.Context, c client.Client, key client.ObjectKey, o actions.Options) (actions.MiniCluster, error) {
			return actions.Cancel(ctx, c, key, ids, o)
		},
		note: func(item *v1alpha1.FleetMiniCluster) string { return silentNote(item, ids) },
	}
}

// silentNote says what else there is to do about runs that cannot be stopped, since their members cannot be reached.
func silentNote(item *v1alpha1.FleetMiniCluster, ids []string) string {
	silent := slices.DeleteFunc(actions.SilentRuns(item), func(id string) bool {
		return len(ids) > 0 && !slices.ContainsFunc(ids, func(asked string) bool { return strings.HasPrefix(id, asked) })
	})
	if len(silent) == 0 {
		return ""
	}
	return fmt.Sprintf("nothing is stopped before the member answers; if it does not come back, make sure that the pods do not run any more, "+
		"and declare the run gone: kubectl -n %s annotate --overwrite fmc %s %s=%s", item.Namespace, item.Name, v1alpha1.AnnotationRunGone, strings.Join(silent, ","))
}

// completeRuns offers a FleetMiniCluster, and then its live runs.
func (h *hubFlags) completeRuns(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return h.completeMiniClusters(1)(cmd, args, text)
	}
	return h.complete(-1, func(ctx context.Context, hub *hubClient) ([]string, error) {
		item, err := h.miniCluster(ctx, hub, args[0])
		if err != nil {
			return nil, err
		}
		var out []string
		for i := range item.Status.Runs {
			if run := &item.Status.Runs[i]; !run.State.Ended() {
				out = append(out, run.ID+"\t"+string(run.State)+" on "+run.Cluster)
			}
		}
		return out, nil
	})(cmd, args, text)
}
