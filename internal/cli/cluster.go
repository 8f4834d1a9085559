package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/actions"
	"github.com/minifleet/minifleet/internal/cli/members"
)

func newCluster(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Members: which there are, register them, keep runs away, take them out",
		Long: "Members are the clusters that MiniClusters run on. --kubeconfig and --context name the hub; join and remove find\n" +
			"the member by --member-kubeconfig and --member-context.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newClusterJoin(env), newClusterList(env), newClusterCordon(env), newClusterUncordon(env),
		newClusterDrain(env), newClusterRemove(env))
	return cmd
}

// withoutNamespace are the flags of the connection for commands that are about no namespace.
func withoutNamespace(h hubFlags) hubFlags {
	h.config.Namespace = nil
	return h
}

// joinFlags are those of the commands that make or delete objects on the hub and on the member.
type joinFlags struct {
	hubFlags
	member    memberFlags
	namespace string
}

func newJoinFlags(env *environment) joinFlags {
	return joinFlags{hubFlags: withoutNamespace(newHubFlags(env))}
}

func (f *joinFlags) addJoin(cmd *cobra.Command, use string) {
	f.member.add(cmd, use)
	cmd.Flags().StringVar(&f.namespace, "manager-namespace", members.DefaultManagerNamespace, "namespace of the hub in which its controller runs")
	f.add(cmd)
}

// run connects to the hub and runs; progress is told on standard error.
func (f *joinFlags) run(cmd *cobra.Command, do func(context.Context, members.Hub) error) error {
	return f.hubFlags.run(cmd, func(ctx context.Context, hub *hubClient) error {
		return explainMembers(do(ctx, f.hub(hub)), f.env.program)
	})
}

func (f *joinFlags) hub(hub *hubClient) members.Hub { return membersHub(f.env, hub, f.namespace) }

func membersHub(env *environment, hub *hubClient, namespace string) members.Hub {
	return members.Hub{Client: hub.client, Namespace: namespace, Program: env.program, Tell: env.notef}
}

// memberFlags find the member.
type memberFlags struct{ kubeconfig, context string }

func (m *memberFlags) add(cmd *cobra.Command, use string) {
	cmd.Flags().StringVar(&m.context, "member-context", "", "context of the kubeconfig that "+use)
	cmd.Flags().StringVar(&m.kubeconfig, "member-kubeconfig", "", "kubeconfig of the member, if it is another file than the usual ones")
}

func (m *memberFlags) given() bool { return m.context != "" || m.kubeconfig != "" }

// connectMember makes a client of a member, and the configuration that it is made of. It asks nothing yet.
func connectMember(m memberFlags) (client.Client, *rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if m.kubeconfig != "" {
		rules.ExplicitPath = m.kubeconfig
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: m.context}).ClientConfig()
	if err == nil {
		err = rest.LoadTLSFiles(config)
	}
	if err != nil {
		return nil, nil, invalid{fmt.Errorf("no connection to the member: name it with --member-kubeconfig and --member-context: %w", err)}
	}
	c, err := useMember(config)
	return c, config, err
}

// useMember makes a client of a member. It asks nothing yet.
func useMember(config *rest.Config) (client.Client, error) {
	config.QPS = -1 // the server's own flow control is the limit
	config.WarningHandler = rest.NoWarnings{}
	c, err := client.New(config, client.Options{Scheme: hubScheme()})
	return memberClient{c}, err
}

// memberError is an error of requests to a member.
type memberError struct{ error }

func (e memberError) Unwrap() error { return e.error }

func ofMember(err error) error {
	if err == nil {
		return nil
	}
	return memberError{err}
}

// memberClient marks errors of the member, which are told apart from those of the hub.
type memberClient struct{ client.Client }

func (c memberClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return ofMember(c.Client.Get(ctx, key, obj, opts...))
}

func (c memberClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return ofMember(c.Client.List(ctx, list, opts...))
}

func (c memberClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return ofMember(c.Client.Create(ctx, obj, opts...))
}

func (c memberClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return ofMember(c.Client.Update(ctx, obj, opts...))
}

func (c memberClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return ofMember(c.Client.Delete(ctx, obj, opts...))
}

// explainMembers gives errors of package members their exit codes, and says of each what to do next: where a step has
// failed and what was made could not be deleted again, both are told.
func explainMembers(err error, program string) error {
	if err == nil {
		return nil
	}
	told := eachExplained(err, program)
	var input *members.InputError
	var timeout *members.TimeoutError
	switch {
	case errors.As(err, &timeout):
		return exit{exitWaitTimeout, told}
	case errors.As(err, &input):
		return invalid{told}
	}
	return told
}

func eachExplained(err error, program string) error {
	var several interface{ Unwrap() []error }
	var coded exit
	var wrong invalid
	var marked memberError
	switch {
	case errors.As(err, &coded) || errors.As(err, &wrong):
		return err
	case errors.As(err, &several):
		var lines []string
		for _, e := range several.Unwrap() {
			lines = append(lines, eachExplained(e, program).Error())
		}
		return errors.New(strings.Join(lines, "; "))
	case errors.As(err, &marked):
		return explainSide(err, program, memberSide)
	}
	return explainSide(err, program, hubSide)
}

// oneMember takes the name of a member.
func oneMember(cmd *cobra.Command, args []string) error {
	if err := counted(1, 1, "a member")(cmd, args); err != nil {
		return err
	}
	if problems := validation.IsDNS1123Subdomain(memberName(args[0])); len(problems) > 0 {
		return invalid{fmt.Errorf("%s: %q is no name: %s", cmd.CommandPath(), args[0], problems[0])}
	}
	return nil
}

// memberCluster reads a MemberCluster.
func (h *hubFlags) memberCluster(ctx context.Context, hub *hubClient, name string) (*v1alpha1.MemberCluster, error) {
	m, key := &v1alpha1.MemberCluster{}, client.ObjectKey{Name: name}
	if err := hub.client.Get(ctx, key, m); err != nil {
		return nil, h.missing(err, m, key)
	}
	return m, nil
}

// liveOn names the live runs on a member. Who may not list all of them is told that.
func liveOn(ctx context.Context, hub *hubClient, name string) ([]string, error) {
	var list v1alpha1.FleetMiniClusterList
	err := hub.client.List(ctx, &list)
	if apierrors.IsForbidden(err) {
		return []string{"you may not list what that is"}, nil
	}
	return actions.LiveOn(list.Items, name), err
}
