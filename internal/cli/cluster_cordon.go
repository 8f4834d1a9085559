package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/actions"
)

// defaultDrainTimeout is how long commands wait until no run is live on a member.
const defaultDrainTimeout = 10 * time.Minute

// memberAct is an action on a MemberCluster, and its effect told beforehand.
type memberAct struct {
	effect func(m *v1alpha1.MemberCluster, live []string) (string, error)
	do     func(context.Context, client.Client, string, actions.Options) (actions.Member, error)
}

var (
	cordon = memberAct{
		effect: func(m *v1alpha1.MemberCluster, live []string) (string, error) {
			return actions.EffectCordon(m, live), nil
		},
		do: actions.Cordon,
	}
	uncordon = memberAct{
		effect: func(m *v1alpha1.MemberCluster, _ []string) (string, error) { return actions.EffectUncordon(m) },
		do:     actions.Uncordon,
	}
	drain = memberAct{
		effect: func(m *v1alpha1.MemberCluster, live []string) (string, error) {
			return actions.EffectDrain(m, live), nil
		},
		do: actions.Drain,
	}
)

func newClusterCordon(env *environment) *cobra.Command {
	return clusterAct(env, cordon, &cobra.Command{
		Use:     "cordon NAME",
		Short:   "Keep new runs away from a member; those that are live go on",
		Example: "  minifleet cluster cordon basalt",
	})
}

func newClusterUncordon(env *environment) *cobra.Command {
	return clusterAct(env, uncordon, &cobra.Command{
		Use:     "uncordon NAME",
		Short:   "Let new runs begin on a member again, after cordon or drain",
		Example: "  minifleet cluster uncordon basalt",
	})
}

// clusterAct is the command of an action that takes nothing but a member.
func clusterAct(env *environment, a memberAct, cmd *cobra.Command) *cobra.Command {
	f := newMemberActFlags(env)
	cmd.Args, cmd.ValidArgsFunction = oneMember, f.completeMembers(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.act(cmd, args[0], a, func(context.Context, *hubClient, string) error { return nil })
	}
	f.addAct(cmd)
	return cmd
}

func newClusterDrain(env *environment) *cobra.Command {
	f := newMemberActFlags(env)
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "drain NAME",
		Short: "Stop the live runs of a member and wait until none is live",
		Long: "Stops the live runs of a member, which start elsewhere where their placement allows it, keeps new ones away,\n" +
			"and waits until none is live. The member stays drained until it is uncordoned.",
		Example:           "  minifleet cluster drain basalt --dry-run\n  minifleet cluster drain basalt --timeout 1h",
		Args:              oneMember,
		ValidArgsFunction: f.completeMembers(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return invalid{errors.New("--timeout must be more than 0")}
			}
			return f.act(cmd, args[0], drain, func(ctx context.Context, hub *hubClient, name string) error {
				h := membersHub(env, hub, "")
				return explainMembers(h.AwaitDrained(ctx, name, timeout), env.program)
			})
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", defaultDrainTimeout, "how long to wait")
	f.addAct(cmd)
	return cmd
}

type memberActFlags struct{ actFlags }

func newMemberActFlags(env *environment) memberActFlags {
	f := memberActFlags{newActFlags(env)}
	f.hubFlags = withoutNamespace(f.hubFlags)
	return f
}

// act says what an action does to a member, does it, and then what follows, unless it is only tried.
func (f *memberActFlags) act(cmd *cobra.Command, arg string, a memberAct, then func(context.Context, *hubClient, string) error) error {
	if err := f.output.check(); err != nil {
		return err
	}
	return f.run(cmd, func(ctx context.Context, hub *hubClient) error {
		m, err := f.memberCluster(ctx, hub, memberName(arg))
		if err != nil {
			return err
		}
		live, err := liveOn(ctx, hub, m.Name)
		if err != nil {
			return err
		}
		effect, err := a.effect(m, live)
		if err != nil {
			return err
		}
		f.announce("MemberCluster "+m.Name, effect)
		out, err := a.do(ctx, hub.client, m.Name, f.options())
		if err != nil {
			return err
		}
		if !f.dryRun {
			if err := then(ctx, hub, m.Name); err != nil {
				return err
			}
		}
		return f.finish(hub, out.Object, "")
	})
}
