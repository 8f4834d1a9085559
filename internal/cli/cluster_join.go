package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/cli/members"
)

func newClusterJoin(env *environment) *cobra.Command {
	f := newJoinFlags(env)
	var (
		join   members.Join
		server string
		dryRun bool
		access accessFlags
	)
	cmd := &cobra.Command{
		Use:   "join NAME --member-context CONTEXT",
		Short: "Register a cluster as a member",
		Long: "Makes credentials on the member that allow what MiniFleet needs there and no more, registers it on the hub,\n" +
			"and waits until the hub is connected. May be repeated: what is as it should be is not changed. When a step\n" +
			"fails, what was created by then is deleted again.",
		Example: "  minifleet cluster join alpine --member-context admin@alpine --hub-namespaces hpc,climate --labels site=north,gpu=true\n" +
			"  minifleet cluster join alpine --member-context admin@alpine --hub-namespaces '*' --dry-run",
		Args:              oneMember,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !f.member.given() {
				return invalid{errors.New("which cluster is to be the member? Name it with --member-context, or --member-kubeconfig")}
			}
			var err error
			if join.Access, err = access.value(); err != nil {
				return err
			}
			if join.Member, err = f.joining(server); err != nil {
				return err
			}
			join.Name = memberName(args[0])
			return f.run(cmd, func(ctx context.Context, hub members.Hub) error {
				join.Hub = hub
				if dryRun {
					return join.DryRun(ctx, env.streams.Out)
				}
				return join.Run(ctx)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&server, "server", "", "https:// URL by which the hub reaches the member's API server; empty: that of the kubeconfig")
	flags.StringVar(&join.Confined, "namespace-only", "", "the one namespace of the member, which exists, that MiniFleet may use")
	access.add(flags)
	flags.StringArrayVar(&join.Namespaces, "member-namespace", nil, "HUB=MEMBER: the namespace of the member, which exists, that stands for one of the hub, and no other is used; one name is for both; may be repeated")
	flags.BoolVar(&join.NoPolicy, "no-policy", false, "do not install the admission policy that bounds what MiniFleet's credentials can do on the member")
	flags.StringToStringVar(&join.Labels, "labels", nil, "labels of the member, which placements select: KEY=VALUE,…")
	flags.DurationVar(&join.Timeout, "timeout", time.Minute, "how long to wait for the token, and then for the hub to connect")
	flags.BoolVar(&dryRun, "dry-run", false, "print what would be created on both sides, without the token, and change nothing")
	f.addJoin(cmd, "administers the member")
	return cmd
}

// accessFlags say which namespaces of the hub may use a member.
type accessFlags struct {
	names    []string
	selector string
}

func (f *accessFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.names, "hub-namespaces", nil, "namespaces of the hub that may use the member: NAME,… or * for all; has to be said of a new member")
	flags.StringVar(&f.selector, "hub-namespace-selector", "", "the same by a label selector of the namespaces: KEY=VALUE,…")
}

// value is nil where nothing is said.
func (f *accessFlags) value() (*v1alpha1.NamespaceAccess, error) {
	switch {
	case len(f.names) > 0 && f.selector != "":
		return nil, invalid{errors.New("give --hub-namespaces or --hub-namespace-selector, not both")}
	case f.selector != "":
		selector, err := metav1.ParseToLabelSelector(f.selector)
		if err != nil {
			return nil, invalid{fmt.Errorf("--hub-namespace-selector: %w", err)}
		}
		return &v1alpha1.NamespaceAccess{From: v1alpha1.NamespacesFromSelector, Selector: selector}, nil
	case slices.Equal(f.names, []string{"*"}):
		return v1alpha1.AllNamespaces(), nil
	case len(f.names) > 0:
		return &v1alpha1.NamespaceAccess{From: v1alpha1.NamespacesFromNames, Names: f.names}, nil
	default:
		return nil, nil
	}
}

// joining is the member that the flags lead to.
func (f *joinFlags) joining(server string) (members.Member, error) {
	c, config, err := f.env.connectMember(f.member)
	if err != nil {
		return members.Member{}, err
	}
	m := members.Member{Client: c, Server: config.Host, ServerName: config.ServerName, CA: config.CAData}
	if server != "" && server != m.Server {
		m.Server, m.ServerName = server, ""
	}
	return m, nil
}

func newClusterRemove(env *environment) *cobra.Command {
	f := newJoinFlags(env)
	var (
		remove members.Remove
		policy string
		dryRun bool
	)
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Take a member out",
		Long: "Deletes the MemberCluster, waits until its deletion policy is carried out, and deletes the Secret that join has\n" +
			"made; with --member-context also the credentials that it has made on the member. May be repeated.",
		Example: "  minifleet cluster remove basalt --dry-run\n" +
			"  minifleet cluster remove basalt --policy Drain --member-context admin@basalt",
		Args:              oneMember,
		ValidArgsFunction: f.completeMembers(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			remove.Name, remove.Policy = memberName(args[0]), v1alpha1.DeletionPolicy(policy)
			switch remove.Policy {
			case "", v1alpha1.DeletionBlock, v1alpha1.DeletionDrain, v1alpha1.DeletionOrphan:
			default:
				return invalid{fmt.Errorf("--policy: %q is none of Block, Drain, Orphan", policy)}
			}
			if f.member.given() {
				var err error
				if remove.Member, _, err = env.connectMember(f.member); err != nil {
					return err
				}
			}
			return f.hubFlags.run(cmd, func(ctx context.Context, hub *hubClient) error {
				remove.Hub = f.hub(hub)
				return f.remove(ctx, hub, &remove, dryRun)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&policy, "policy", "", "Block waits for live runs to end, Drain stops them, Orphan keeps everything on the member; empty: that of the MemberCluster")
	flags.StringVar(&remove.Confined, "namespace-only", "", "the one namespace of the member that join was told, where the MemberCluster is deleted already")
	flags.DurationVar(&remove.Timeout, "timeout", defaultDrainTimeout, "how long to wait")
	flags.BoolVar(&dryRun, "dry-run", false, "say what it would do, and do nothing")
	_ = cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions([]string{"Block", "Drain", "Orphan"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	f.addJoin(cmd, "administers the member, from which the credentials are deleted")
	return cmd
}

// remove says what taking out a member does, and does it. One that is deleted already has no effect to tell of: then what
// a join has made is what is left to delete.
func (f *joinFlags) remove(ctx context.Context, hub *hubClient, remove *members.Remove, dryRun bool) error {
	effect, err := removeEffect(ctx, hub, remove)
	if err != nil {
		return err
	}
	if effect != "" {
		a := actFlags{hubFlags: f.hubFlags, dryRun: dryRun}
		a.announce("MemberCluster "+remove.Name, effect)
	} else if dryRun {
		f.env.notef("there is no MemberCluster %s; what a join has made for it is deleted, as far as it is there (dry run: nothing was done)", remove.Name)
	}
	if dryRun {
		return nil
	}
	return explainMembers(remove.Run(ctx), f.env.program)
}

func removeEffect(ctx context.Context, hub *hubClient, remove *members.Remove) (string, error) {
	m, err := remove.Hub.Find(ctx, remove.Name)
	if m == nil || err != nil {
		return "", err
	}
	live, err := liveOn(ctx, hub, m.Name)
	if err != nil {
		return "", err
	}
	return remove.Effect(m, live), nil
}
