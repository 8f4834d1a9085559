package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/cli/members"
	"github.com/minifleet/minifleet/internal/cli/screen"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// fromKubeconfig is where a member is found unless something else is said.
const fromKubeconfig = "kubeconfig"

// inventoryFlags say which system knows the cluster that is to be a member.
type inventoryFlags struct {
	from, context, namespace, name string
	labels, all                    bool
}

func (f *inventoryFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", fromKubeconfig, "where the member is known, and how to administer it: kubeconfig, capi (Cluster API) or argocd (Argo CD)")
	flags.StringVar(&f.context, "from-context", "", "context of the kubeconfig for the cluster in which Cluster API or Argo CD runs; empty: the hub")
	flags.StringVar(&f.namespace, "from-namespace", "", "namespace of its Secrets there; empty: argocd for Argo CD, that of the context for Cluster API")
	flags.StringVar(&f.name, "from-name", "", "name of the cluster there, where it is another one than that of the member")
	flags.BoolVar(&f.labels, "copy-labels", false, "give the member the labels that the cluster has there, but those of Kubernetes and its tools; --labels comes first")
	flags.BoolVar(&f.all, "all", false, "join all clusters that it knows; with --dry-run list them")
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{fromKubeconfig, "capi", "argocd"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// inventory is nil for a kubeconfig.
func (f *inventoryFlags) inventory() *members.Inventory { return members.Inventories[f.from] }

// used says that a flag was given which needs --from.
func (f *inventoryFlags) used() bool {
	return f.context != "" || f.namespace != "" || f.name != "" || f.labels || f.all
}

// check says which flags do not go together.
func (f *inventoryFlags) check(member bool, server serverFlags) error {
	inventory := f.inventory() != nil
	switch {
	case f.from != fromKubeconfig && !inventory:
		return invalid{fmt.Errorf("--from: %q is none of kubeconfig, capi, argocd", f.from)}
	case inventory && member:
		return invalid{fmt.Errorf("give --member-context and --member-kubeconfig, or --from %s, not both", f.from)}
	case !inventory && f.used():
		return invalid{errors.New("--from-context, --from-namespace, --from-name, --copy-labels and --all are for --from capi and --from argocd")}
	case !inventory && !member:
		return invalid{errors.New("which cluster is to be the member? Name it with --member-context, or --member-kubeconfig")}
	case f.all && (f.name != "" || server.url != ""):
		return invalid{errors.New("--from-name and --server are for one member, not for --all")}
	}
	return server.check()
}

// inventoryClient is a connection to the cluster in which the other system runs, and the namespace of its Secrets.
func (f *joinCommand) inventoryClient(hub *hubClient) (client.Client, string, error) {
	at := hub
	if f.from.context != "" {
		flags := genericclioptions.NewConfigFlags(true)
		flags.KubeConfig, flags.Context = f.config.KubeConfig, &f.from.context
		var err error
		if at, err = f.env.connect(flags); err != nil {
			return nil, "", err
		}
	}
	namespace := f.from.namespace
	if namespace == "" {
		namespace = f.from.inventory().Namespace
	}
	if namespace == "" {
		namespace = at.namespace
	}
	return at.client, namespace, nil
}

// runFrom joins one member that another system knows, or all of them.
func (f *joinCommand) runFrom(ctx context.Context, hub *hubClient, args []string) error {
	at, namespace, err := f.inventoryClient(hub)
	if err != nil {
		return err
	}
	if f.from.all {
		return f.joinAll(ctx, hub, at, namespace)
	}
	f.join.Name = memberName(args[0])
	name := f.from.name
	if name == "" {
		name = f.join.Name
	}
	candidate, err := f.from.inventory().Find(ctx, at, namespace, name)
	if err != nil {
		return err
	}
	return f.joinCandidate(ctx, hub, at, candidate, f.join)
}

// joinCandidate joins one member with what another system has to administer it.
func (f *joinCommand) joinCandidate(ctx context.Context, hub *hubClient, at client.Client, c *members.Candidate, join members.Join) error {
	if c.Refused != nil {
		return &members.InputError{Message: fmt.Sprintf("cluster %s of %s, Secret %s: %v", sanitize.Text(c.Name, sanitize.MaxNote), f.from.inventory().Title, c.Secret, c.Refused)}
	}
	labels, err := f.labelsOf(ctx, at, c)
	if err != nil {
		return err
	}
	if join.Member.Client, err = f.env.useMember(c.Config); err != nil {
		return err
	}
	join.Member.Server, join.Member.ServerName, join.Member.CA = c.Config.Host, c.Config.ServerName, c.Config.CAData
	join.Member = f.server.of(join.Member)
	join.Labels = labels
	if c.Note != "" {
		f.env.notef("%s: %s", join.Name, c.Note)
	}
	return f.do(ctx, f.hub(hub), join)
}

// labelsOf are those of the member: what --labels says comes before what the cluster has.
func (f *joinCommand) labelsOf(ctx context.Context, at client.Client, c *members.Candidate) (map[string]string, error) {
	out := map[string]string{}
	if f.from.labels {
		theirs := c.Labels
		if f.from.from == "capi" {
			var err error
			if theirs, err = members.CAPILabels(ctx, at, c); err != nil {
				return nil, err
			}
		}
		maps.Copy(out, theirs)
	}
	maps.Copy(out, f.join.Labels)
	return out, nil
}

// joinAll joins all clusters that can be, one after the other, and says of the others why they cannot.
func (f *joinCommand) joinAll(ctx context.Context, hub *hubClient, at client.Client, namespace string) error {
	all, err := f.from.inventory().List(ctx, at, namespace)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		f.env.notef("%s knows no clusters in namespace %s: --from-namespace names another one, --from-context another cluster", f.from.inventory().Title, namespace)
		return nil
	}
	registered, err := registeredServers(ctx, hub)
	if err != nil {
		return err
	}
	if f.dryRun {
		return f.candidateTable(all, registered).Print(f.env.screen())
	}
	if f.join.Access == nil {
		return &members.InputError{Message: "which namespaces of the hub may use the members? Say it with --hub-namespaces NAME,… or --hub-namespaces '*', or --hub-namespace-selector KEY=VALUE"}
	}
	failed := 0
	for _, c := range all {
		name, why := f.memberOf(all, c)
		if why == "" {
			join := f.join
			join.Name = name
			if err := explainMembers(f.joinCandidate(ctx, hub, at, c, join), f.env.program); err != nil {
				why = err.Error()
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if why != "" {
			failed++
			f.env.notef("%s: not joined: %s", sanitize.Text(c.Name, sanitize.MaxNote), why)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s of %d not joined", count(failed, "cluster"), len(all))
	}
	return nil
}

// memberOf is the name that a cluster gets as a member, or why it cannot be joined.
func (f *joinCommand) memberOf(all []*members.Candidate, c *members.Candidate) (name, why string) {
	name, ok := c.MemberName()
	twice := slices.ContainsFunc(all, func(other *members.Candidate) bool { return other != c && other.Name == c.Name })
	switch {
	case c.Refused != nil:
		return "", c.Refused.Error()
	case twice:
		return "", "another one has the same name: delete the Secret that is wrong"
	case !ok:
		return "", "no member can be called so: join it by itself, with a NAME for the member, and its own as --from-name"
	}
	return name, ""
}

// registeredServers are the names of members by their addresses.
func registeredServers(ctx context.Context, hub *hubClient) (map[string]string, error) {
	var list v1alpha1.MemberClusterList
	if err := hub.client.List(ctx, &list); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for i := range list.Items {
		if id := list.Items[i].Status.Identity; id != nil {
			out[id.Server] = list.Items[i].Name
		}
	}
	return out, nil
}

// candidateTable lists clusters, with what would become of them.
func (f *joinCommand) candidateTable(all []*members.Candidate, registered map[string]string) *screen.Table {
	table := screen.NewTable("CLUSTER", "SERVER", "SECRET", "STATE", "WHY")
	table.Whole = true
	s := f.env.screen()
	for _, c := range all {
		state, why := stateOK, "-"
		name, cannot := f.memberOf(all, c)
		member := registered[c.Address()]
		switch {
		case cannot != "":
			state, why = "Denied", cannot
		case member != "" && member != name:
			state, why = "Denied", "is a member already, as "+member
		case member != "":
			why = "is a member already"
		case c.Note != "":
			why = c.Note
		}
		table.Add(screen.Text(sanitize.Text(c.Name, sanitize.MaxNote)), screen.Text(orDash(c.Server)), screen.Text(c.Secret.String()), s.State(state), screen.Text(why))
	}
	return table
}
