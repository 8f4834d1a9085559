package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/actions"
)

// reconcileFlags are those of reconcile and of source reconcile.
type reconcileFlags struct {
	actFlags
	noWait  bool
	timeout time.Duration
}

// reconcileTimeout is how long the hub may take to read a repository, by default.
const reconcileTimeout = 2 * time.Minute

func newReconcile(env *environment) *cobra.Command {
	f := reconcileFlags{actFlags: newActFlags(env)}
	cmd := &cobra.Command{
		Use:   "reconcile NAME",
		Short: "Have the hub read the repository of a FleetMiniCluster now",
		Long: "Asks the GitSource that declares a FleetMiniCluster to read its repository now, and waits until it has. Everything\n" +
			"else that the hub does it does at once anyway; to run something again, use rerun.\n\n" +
			"The exit code is 1 when the GitSource is not ready then.",
		Example:           "  minifleet reconcile lammps",
		Args:              names(1, 1, "a FleetMiniCluster"),
		ValidArgsFunction: f.completeMiniClusters(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, func(ctx context.Context, hub *hubClient) (*v1alpha1.GitSource, error) {
				item, err := f.miniCluster(ctx, hub, args[0])
				if err != nil {
					return nil, err
				}
				name := item.Labels[v1alpha1.LabelSource]
				if name == "" {
					return nil, fmt.Errorf("FleetMiniCluster %s/%s is not from Git, so there is nothing to read; to run it again: %s rerun %s", item.Namespace, item.Name, env.program, item.Name)
				}
				return f.source(ctx, hub, name)
			})
		},
	}
	f.addReconcile(cmd)
	return cmd
}

func (f *reconcileFlags) addReconcile(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "only ask")
	cmd.Flags().DurationVar(&f.timeout, "timeout", reconcileTimeout, "how long to wait at most")
	f.addAct(cmd)
}

func (f *reconcileFlags) run(cmd *cobra.Command, find func(context.Context, *hubClient) (*v1alpha1.GitSource, error)) error {
	if err := f.output.check(); err != nil {
		return err
	}
	if f.timeout <= 0 {
		return invalid{errors.New("--timeout must be more than 0")}
	}
	return f.hubFlags.run(cmd, func(ctx context.Context, hub *hubClient) error {
		source, err := find(ctx, hub)
		if err != nil {
			return err
		}
		f.announce("GitSource "+source.Namespace+"/"+source.Name, actions.EffectSyncSource(source))
		token := f.env.requestToken()
		out, err := actions.SyncSource(ctx, hub.client, client.ObjectKeyFromObject(source), token, f.options())
		if err != nil {
			return err
		}
		if f.dryRun || f.noWait {
			return f.finish(hub, out.Object, out.Note)
		}
		return f.await(ctx, hub, source, token)
	})
}

// await waits until a GitSource has acted on a request, and says what came of it.
func (f *reconcileFlags) await(ctx context.Context, hub *hubClient, source *v1alpha1.GitSource, token string) error {
	ctx, stop := context.WithTimeoutCause(ctx, f.timeout, errTimeout)
	defer stop()
	progress := f.env.progress()
	defer progress.Clear()
	progress.Show("waiting for the hub to read " + orDash(source.Spec.URL))
	var last *v1alpha1.GitSource
	err := f.follow(ctx, hub, &v1alpha1.GitSource{}, source.Name, func(object client.Object) (bool, error) {
		s, ok := object.(*v1alpha1.GitSource)
		if ok {
			last = s
		}
		return ok && s.Annotations[v1alpha1.AnnotationReconcileAt] == token && !actions.SyncAsked(s), nil
	})
	progress.Clear()
	if errors.Is(context.Cause(ctx), errTimeout) {
		return fmt.Errorf("GitSource %s/%s: the repository was not read within %s: it may just take longer (--timeout); if not, is the controller running? `%s check`",
			source.Namespace, source.Name, f.timeout, f.env.program)
	}
	if err != nil {
		return err
	}
	state, message := ready(last.Status.Conditions)
	if f.output.format != "" {
		if err := f.finish(hub, last, ""); err != nil {
			return err
		}
	} else {
		s := f.env.screen()
		f.env.printf("GitSource %s/%s  %s  %s\n", last.Namespace, last.Name, s.Paint(s.State(state)), message)
	}
	if state != "Ready" {
		return quietExit(exitFailed)
	}
	return nil
}
