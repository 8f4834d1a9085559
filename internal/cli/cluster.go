package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/cli/members"
)

// clusterFlags find the hub, and the namespace of its controller.
type clusterFlags struct {
	config    *genericclioptions.ConfigFlags
	namespace string
}

func newCluster() *cobra.Command {
	f := &clusterFlags{config: genericclioptions.NewConfigFlags(true)}
	// --server is the member's, in join; namespaces are not what these commands are about.
	f.config.APIServer, f.config.Namespace, f.config.CacheDir, f.config.DisableCompression = nil, nil, nil, nil
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Register members, and take them out again",
		Long: "Members are the clusters that MiniClusters run on. --kubeconfig and --context name the hub; the member is\n" +
			"named by --member-kubeconfig and --member-context.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f.config.AddFlags(cmd.PersistentFlags())
	cmd.PersistentFlags().StringVar(&f.namespace, "manager-namespace", members.DefaultManagerNamespace, "namespace of the hub in which its controller runs")
	cmd.AddCommand(newClusterJoin(f), newClusterList(f), newClusterCordon(f), newClusterUncordon(f), newClusterDrain(f), newClusterRemove(f))
	return cmd
}

// hub connects to the hub, and tells progress where errors go.
func (f *clusterFlags) hub(cmd *cobra.Command) (members.Hub, error) {
	config, err := f.config.ToRESTConfig()
	if err != nil {
		return members.Hub{}, invalid{fmt.Errorf("no connection to a hub: name one with --kubeconfig or --context: %w", err)}
	}
	c, err := clusterClient(config)
	if err != nil {
		return members.Hub{}, err
	}
	return members.Hub{Client: c, Namespace: f.namespace, Tell: func(format string, args ...any) {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
	}}, nil
}

func clusterClient(config *rest.Config) (client.Client, error) {
	scheme, err := members.NewScheme()
	if err != nil {
		return nil, err
	}
	config.WarningHandler = rest.NoWarnings{}
	return client.New(config, client.Options{Scheme: scheme})
}

// run runs a command against the hub until it ends or is interrupted, and gives its errors their exit codes.
func (f *clusterFlags) run(cmd *cobra.Command, do func(context.Context, members.Hub) error) error {
	hub, err := f.hub(cmd)
	if err != nil {
		return err
	}
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return clusterError(do(ctx, hub))
}

func clusterError(err error) error {
	var input *members.InputError
	var timeout *members.TimeoutError
	switch {
	case errors.As(err, &timeout):
		return exit{exitWaitTimeout, err}
	case errors.As(err, &input):
		return invalid{err}
	default:
		return err
	}
}

// oneMember takes the name of a member.
func oneMember(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return invalid{fmt.Errorf("name one member; see `%s --help`", cmd.CommandPath())}
	}
	if problems := validation.IsDNS1123Subdomain(args[0]); len(problems) > 0 {
		return invalid{fmt.Errorf("%q cannot be the name of a member: %s", args[0], problems[0])}
	}
	return nil
}

// memberFlags find the member.
type memberFlags struct{ kubeconfig, context string }

func (m *memberFlags) add(cmd *cobra.Command, use string) {
	cmd.Flags().StringVar(&m.context, "member-context", "", "context of the kubeconfig that "+use)
	cmd.Flags().StringVar(&m.kubeconfig, "member-kubeconfig", "", "kubeconfig of the member, if it is another file than the usual ones")
}

func (m *memberFlags) given() bool { return m.context != "" || m.kubeconfig != "" }

// restConfig is the configuration of a client of the member.
func (m *memberFlags) restConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if m.kubeconfig != "" {
		rules.ExplicitPath = m.kubeconfig
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: m.context}).ClientConfig()
	if err != nil {
		return nil, invalid{fmt.Errorf("no connection to the member: name it with --member-kubeconfig and --member-context: %w", err)}
	}
	return config, rest.LoadTLSFiles(config)
}

func newClusterJoin(f *clusterFlags) *cobra.Command {
	var (
		member memberFlags
		join   members.Join
		server string
		dryRun bool
	)
	cmd := &cobra.Command{
		Use:   "join NAME --member-context CONTEXT",
		Short: "Register a cluster as a member",
		Long: "Makes credentials on the member that allow what MiniFleet needs there and no more, registers it on the hub,\n" +
			"and waits until the hub is connected. May be repeated: what is as it should be is not changed. When a step\n" +
			"fails, what was created by then is deleted again.",
		Example: "  minifleet cluster join alpine --member-context admin@alpine --labels site=north,gpu=true",
		Args:    oneMember,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !member.given() {
				return invalid{errors.New("which cluster is to be the member? Name it with --member-context, or --member-kubeconfig")}
			}
			config, err := member.restConfig()
			if err != nil {
				return err
			}
			if join.Member, err = joining(config, server); err != nil {
				return err
			}
			join.Name = args[0]
			return f.run(cmd, func(ctx context.Context, hub members.Hub) error {
				join.Hub = hub
				if dryRun {
					return join.DryRun(ctx, cmd.OutOrStdout())
				}
				return join.Run(ctx)
			})
		},
	}
	member.add(cmd, "administers the member")
	cmd.Flags().StringVar(&server, "server", "", "https:// URL by which the hub reaches the member's API server; that of the kubeconfig where it is empty")
	cmd.Flags().StringVar(&join.Confined, "namespace-only", "", "the one namespace of the member, which exists, that MiniFleet may use")
	cmd.Flags().StringToStringVar(&join.Labels, "labels", nil, "labels of the member, which placements select: KEY=VALUE,…")
	cmd.Flags().DurationVar(&join.Timeout, "timeout", time.Minute, "how long to wait for the token, and then for the hub to connect")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be created on both sides, without the token, and change nothing")
	return cmd
}

// joining is the member that a configuration leads to.
func joining(config *rest.Config, server string) (members.Member, error) {
	m := members.Member{Server: config.Host, ServerName: config.ServerName, CA: config.CAData}
	if server != "" && server != m.Server {
		m.Server, m.ServerName = server, ""
	}
	var err error
	m.Client, err = clusterClient(config)
	return m, err
}

func newClusterList(f *clusterFlags) *cobra.Command {
	var output string
	formats := map[string]printers.ResourcePrinter{
		"json": &printers.OmitManagedFieldsPrinter{Delegate: &printers.JSONPrinter{}},
		"yaml": &printers.OmitManagedFieldsPrinter{Delegate: &printers.YAMLPrinter{}},
	}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the members, with their room and whether they are used",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			printer, ok := formats[output]
			if !ok && output != "" && output != "name" {
				return invalid{fmt.Errorf("--output %q is none of json, yaml, name", output)}
			}
			return f.run(cmd, func(ctx context.Context, hub members.Hub) error {
				list, err := hub.List(ctx)
				switch {
				case err != nil:
					return err
				case printer != nil:
					list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MemberClusterList"))
					for i := range list.Items {
						list.Items[i].SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MemberCluster"))
					}
					return printer.PrintObj(runtime.Object(list), cmd.OutOrStdout())
				case output == "name":
					for i := range list.Items {
						_, _ = fmt.Fprintln(cmd.OutOrStdout(), "membercluster.minifleet.dev/"+list.Items[i].Name)
					}
					return nil
				}
				if len(list.Items) == 0 {
					hub.Tell("the hub has no members: `minifleet cluster join` registers one")
					return nil
				}
				return members.WriteTable(cmd.OutOrStdout(), list.Items, time.Now())
			})
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, yaml or name; a table where it is empty")
	return cmd
}

func newClusterCordon(f *clusterFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "cordon NAME",
		Short: "Keep new runs away from a member; those that are live go on",
		Args:  oneMember,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, func(ctx context.Context, hub members.Hub) error { return hub.Cordon(ctx, args[0]) })
		},
	}
}

func newClusterUncordon(f *clusterFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "uncordon NAME",
		Short: "Let new runs begin on a member again, after cordon or drain",
		Args:  oneMember,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, func(ctx context.Context, hub members.Hub) error { return hub.Uncordon(ctx, args[0]) })
		},
	}
}

func newClusterDrain(f *clusterFlags) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "drain NAME",
		Short: "Stop the live runs of a member and wait until none is live",
		Long: "Stops the live runs of a member, which start elsewhere where their placement allows it, keeps new ones away,\n" +
			"and waits until none is live. The member stays drained until `minifleet cluster uncordon`.",
		Args: oneMember,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, func(ctx context.Context, hub members.Hub) error { return hub.Drain(ctx, args[0], timeout) })
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait")
	return cmd
}

func newClusterRemove(f *clusterFlags) *cobra.Command {
	var (
		member memberFlags
		remove members.Remove
		policy string
	)
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Take a member out",
		Long: "Deletes the MemberCluster, waits until its deletion policy is carried out, and deletes the Secret that join has\n" +
			"made; with --member-context also the credentials that it has made on the member. May be repeated.",
		Args: oneMember,
		RunE: func(cmd *cobra.Command, args []string) error {
			remove.Name, remove.Policy = args[0], v1alpha1.DeletionPolicy(policy)
			switch remove.Policy {
			case "", v1alpha1.DeletionBlock, v1alpha1.DeletionDrain, v1alpha1.DeletionOrphan:
			default:
				return invalid{fmt.Errorf("--policy %q is none of Block, Drain, Orphan", policy)}
			}
			if member.given() {
				config, err := member.restConfig()
				if err != nil {
					return err
				}
				if remove.Member, err = clusterClient(config); err != nil {
					return err
				}
			}
			return f.run(cmd, func(ctx context.Context, hub members.Hub) error {
				remove.Hub = hub
				return remove.Run(ctx)
			})
		},
	}
	member.add(cmd, "administers the member, from which the credentials are deleted")
	cmd.Flags().StringVar(&policy, "policy", "", "Block waits for live runs to end, Drain stops them, Orphan keeps everything on the member; that of the MemberCluster where it is empty")
	cmd.Flags().StringVar(&remove.Confined, "namespace-only", "", "the one namespace of the member that join was told, where the MemberCluster is deleted already")
	cmd.Flags().DurationVar(&remove.Timeout, "timeout", 10*time.Minute, "how long to wait")
	return cmd
}
