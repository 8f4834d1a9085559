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

// joinCommand is what the flags of join say.
type joinCommand struct {
	joinFlags
	join   members.Join
	server serverFlags
	dryRun bool
	shard  string
	access accessFlags
	from   inventoryFlags
}

func newClusterJoin(env *environment) *cobra.Command {
	f := joinCommand{joinFlags: newJoinFlags(env)}
	cmd := &cobra.Command{
		Use:   "join NAME [--member-context CONTEXT] [--from capi|argocd]",
		Short: "Register a cluster as a member",
		Long: "Makes credentials on the member that allow what MiniFleet needs there and no more, registers it on the hub,\n" +
			"and waits until the hub is connected. May be repeated: what is as it should be is not changed. When a step\n" +
			"fails, what was created by then is deleted again.\n\n" +
			"With --from capi or argocd the cluster is one that Cluster API or Argo CD knows, and what that has to administer\n" +
			"it is used, once. --all joins all that it knows; --all --dry-run lists them, with what cannot be used, and why.",
		Example: "  minifleet cluster join alpine --member-context admin@alpine --hub-namespaces hpc,climate --labels site=north,gpu=true\n" +
			"  minifleet cluster join alpine --member-context admin@alpine --hub-namespaces '*' --dry-run\n" +
			"  minifleet cluster join alpine --from capi --from-context management --hub-namespaces hpc\n" +
			"  minifleet cluster join --from argocd --all --dry-run",
		Args: func(cmd *cobra.Command, args []string) error {
			if f.from.all {
				return noArgs(cmd, args)
			}
			return oneMember(cmd, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              f.runE,
	}
	flags := cmd.Flags()
	f.server.add(flags)
	flags.StringVar(&f.join.Confined, "namespace-only", "", "the one namespace of the member, which exists, that MiniFleet may use")
	f.access.add(flags)
	flags.StringArrayVar(&f.join.Namespaces, "member-namespace", nil, "HUB=MEMBER: the namespace of the member, which exists, that stands for one of the hub, and no other is used; one name is for both; may be repeated")
	flags.BoolVar(&f.join.NoPolicy, "no-policy", false, "do not install the admission policy that bounds what MiniFleet's credentials can do on the member")
	flags.StringToStringVar(&f.join.Labels, "labels", nil, "labels of the member, which placements select: KEY=VALUE,…")
	flags.StringVar(&f.shard, "shard", "", "shard of the member: that of the controller with this --shard (docs/sharding.md)")
	flags.DurationVar(&f.join.Timeout, "timeout", time.Minute, "how long to wait for the token, and then for the hub to connect")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print what would be created on both sides, without the token, and change nothing")
	f.from.add(cmd)
	f.addJoin(cmd, "administers the member")
	return cmd
}

func (f *joinCommand) runE(cmd *cobra.Command, args []string) error {
	if err := f.from.check(f.member.given(), f.server); err != nil {
		return err
	}
	var err error
	if f.join.Access, err = f.access.value(); err != nil {
		return err
	}
	if err := v1alpha1.CheckShard(f.shard); err != nil {
		return invalid{fmt.Errorf("--shard: %w", err)}
	}
	if f.shard != "" {
		if f.join.Labels == nil {
			f.join.Labels = map[string]string{}
		}
		f.join.Labels[v1alpha1.LabelShard] = f.shard
	}
	if f.from.inventory() != nil {
		return f.hubFlags.run(cmd, func(ctx context.Context, hub *hubClient) error {
			return explainMembers(f.runFrom(ctx, hub, args), f.env.program)
		})
	}
	if f.join.Member, err = f.joining(f.server); err != nil {
		return err
	}
	f.join.Name = memberName(args[0])
	return f.run(cmd, func(ctx context.Context, hub members.Hub) error { return f.do(ctx, hub, f.join) })
}

// do joins one member, or prints what it would do.
func (f *joinCommand) do(ctx context.Context, hub members.Hub, join members.Join) error {
	join.Hub = hub
	if f.dryRun {
		return join.DryRun(ctx, f.env.streams.Out)
	}
	return join.Run(ctx)
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

// serverFlags say how the hub reaches a member's API server.
type serverFlags struct{ url, name string }

func (f *serverFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "server", "", "https:// URL by which the hub reaches the member's API server; empty: that of the kubeconfig")
	flags.StringVar(&f.name, "server-name", "", "name in that server's certificate, where it is not the host of --server")
}

func (f *serverFlags) check() error {
	if f.name != "" && f.url == "" {
		return invalid{errors.New("--server-name: say besides with --server by which URL the hub reaches the member")}
	}
	return nil
}

// of is a member by the URL and the name that the flags give it.
func (f *serverFlags) of(m members.Member) members.Member {
	if f.name != "" || f.url != "" && f.url != m.Server {
		m.Server, m.ServerName = f.url, f.name
	}
	return m
}

// joining is the member that the flags lead to.
func (f *joinFlags) joining(server serverFlags) (members.Member, error) {
	c, config, err := f.env.connectMember(f.member)
	if err != nil {
		return members.Member{}, err
	}
	return server.of(members.Member{Client: c, Server: config.Host, ServerName: config.ServerName, CA: config.CAData}), nil
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
