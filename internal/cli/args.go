package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Arguments that name a FleetMiniCluster may say so, as those of kubectl do.
var miniClusterPrefixes = []string{"fmc/", "fleetminicluster/", "fleetminiclusters/", "fleetminicluster.minifleet.dev/", "fleetminiclusters.minifleet.dev/"}

// Others may be named so as well.
var (
	memberPrefixes = []string{"member/", "mcl/", "membercluster/", "memberclusters/", "membercluster.minifleet.dev/", "memberclusters.minifleet.dev/"}
	sourcePrefixes = []string{"source/", "gs/", "gitsource/", "gitsources/", "gitsource.minifleet.dev/", "gitsources.minifleet.dev/"}
)

// cutPrefix is the name in an argument PREFIX/NAME, and whether it begins with one of the prefixes.
func cutPrefix(arg string, prefixes []string) (name string, ok bool) {
	for _, prefix := range prefixes {
		if name, ok := strings.CutPrefix(arg, prefix); ok {
			return name, true
		}
	}
	return arg, false
}

// miniClusterName is the name in an argument NAME or fmc/NAME.
func miniClusterName(arg string) string {
	name, _ := cutPrefix(arg, miniClusterPrefixes)
	return name
}

// memberName is the name in an argument NAME or member/NAME.
func memberName(arg string) string {
	name, _ := cutPrefix(arg, memberPrefixes)
	return name
}

// names takes between so many names of what is said; a negative number is any.
func names(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := counted(least, most, what)(cmd, args); err != nil {
			return err
		}
		for _, arg := range args {
			if problems := validation.IsDNS1123Subdomain(miniClusterName(arg)); len(problems) > 0 {
				return invalid{fmt.Errorf("%s: %q is no name: %s", cmd.CommandPath(), arg, problems[0])}
			}
		}
		return nil
	}
}

// counted takes between so many arguments, the first of which are what is said; a negative number is any.
func counted(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return invalid{fmt.Errorf("%s: name %s; see `%s --help`", cmd.CommandPath(), what, cmd.CommandPath())}
		case most >= 0 && len(args) > most:
			return invalid{fmt.Errorf("%s takes no argument %q; see `%s --help`", cmd.CommandPath(), args[most], cmd.CommandPath())}
		}
		return nil
	}
}

// completionTimeout is how long a shell waits for names.
const completionTimeout = 3 * time.Second

type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// complete offers the names that list finds, up to so many arguments; a negative number is any.
func (h *hubFlags) complete(most int, list func(context.Context, *hubClient) ([]string, error)) completion {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if most >= 0 && len(args) >= most {
			return nil, none
		}
		hub, err := h.env.connect(h.config)
		if err != nil {
			return nil, none
		}
		parent := cmd.Context()
		if parent == nil {
			parent = context.Background()
		}
		ctx, stop := context.WithTimeout(parent, completionTimeout)
		defer stop()
		found, err := list(ctx, hub)
		if err != nil {
			return nil, none
		}
		return found, none
	}
}

func (h *hubFlags) completeMiniClusters(most int) completion {
	return h.complete(most, func(ctx context.Context, hub *hubClient) ([]string, error) {
		var list v1alpha1.FleetMiniClusterList
		err := hub.client.List(ctx, &list, client.InNamespace(hub.namespace))
		return namesOf(list.Items, func(f *v1alpha1.FleetMiniCluster) string { return f.Name }), err
	})
}

func (h *hubFlags) completeSources() completion {
	return h.complete(1, func(ctx context.Context, hub *hubClient) ([]string, error) {
		var list v1alpha1.GitSourceList
		err := hub.client.List(ctx, &list, client.InNamespace(hub.namespace))
		return namesOf(list.Items, func(s *v1alpha1.GitSource) string { return s.Name }), err
	})
}

func (h *hubFlags) completeMembers(most int) completion {
	return h.complete(most, func(ctx context.Context, hub *hubClient) ([]string, error) {
		var list v1alpha1.MemberClusterList
		err := hub.client.List(ctx, &list)
		return namesOf(list.Items, func(m *v1alpha1.MemberCluster) string { return m.Name }), err
	})
}

func (h *hubFlags) completeNamespaces(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	return h.complete(-1, func(ctx context.Context, hub *hubClient) ([]string, error) {
		var list corev1.NamespaceList
		err := hub.client.List(ctx, &list)
		return namesOf(list.Items, func(n *corev1.Namespace) string { return n.Name }), err
	})(cmd, nil, text)
}

func namesOf[T any](items []T, name func(*T) string) []string {
	out := make([]string, len(items))
	for i := range items {
		out[i] = name(&items[i])
	}
	return out
}
