package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/cli/screen"
	"github.com/minifleet/minifleet/internal/sanitize"
	"github.com/minifleet/minifleet/internal/view"
)

type treeFlags struct{ hubFlags }

func newTree(env *environment) *cobra.Command {
	f := treeFlags{newHubFlags(env)}
	cmd := &cobra.Command{
		Use:   "tree NAME",
		Short: "Show what a FleetMiniCluster comes from and what has become of it",
		Long: "Prints a tree: the commit, the GitSource, the FleetMiniCluster, each member, the Job there with its run, and\n" +
			"how many pods are in which phase; below those the members that were not chosen. What is not known is not shown.",
		Example:           "  minifleet tree lammps -n hpc",
		Args:              names(1, 1, "a FleetMiniCluster"),
		ValidArgsFunction: f.completeMiniClusters(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, func(ctx context.Context, hub *hubClient) error {
				k, err := f.know(ctx, hub, args[0])
				if err != nil {
					return err
				}
				s, top := env.screen(), &screen.Node{}
				k.branch(s, top, k.tree())
				return s.Tree(top.Children[0])
			})
		},
	}
	f.add(cmd)
	return cmd
}

// kindNames are the kinds of nodes of a tree, as the command line names them; none for those whose name says it.
var kindNames = map[string]string{
	"Commit": "commit ", "Source": "GitSource ", "MiniCluster": "FleetMiniCluster ", "Member": "member ", "Job": "Job ",
	"Rejected": "member ", "Pod": "Pod ",
}

// branch adds a node and all below it.
func (k *known) branch(s screen.Screen, at *screen.Node, n view.TreeNode) {
	name, state, path := n.Name, n.State, ""
	switch n.Kind {
	case "MiniCluster":
		name = k.item.Namespace + "/" + n.Name
	case "Source":
		path = sanitize.Text(k.item.Annotations[v1alpha1.AnnotationSourcePath], sanitize.MaxNote)
	case "Rejected":
		if state == "" {
			state = "Rejected"
		}
	}
	cells := []screen.Cell{screen.Text(kindNames[n.Kind] + name)}
	if state != "" {
		cells = append(cells, s.State(state))
	}
	cells = append(cells, screen.Text(path), screen.Text(n.Text), screen.Text(k.when(n)))
	at = at.Add(cells...)
	for _, child := range n.Children {
		k.branch(s, at, child)
	}
}

// when is how old a commit is, how long a Job is or has been there, and how old the last news is.
func (k *known) when(n view.TreeNode) string {
	switch {
	case n.Kind == "Member" && n.Stale != nil:
		return lastNews(k.now, *n.Stale)
	case n.Since == nil || n.Stale != nil:
		return ""
	case n.Kind == "Commit":
		return age(k.now, *n.Since) + " ago"
	case n.Kind != "Job":
		return ""
	case v1alpha1.RunState(n.State).Ended():
		return "ended " + age(k.now, *n.Since) + " ago"
	}
	return "for " + age(k.now, *n.Since)
}

// runTime is since when a run is live, or how long it took.
func runTime(run *v1alpha1.Run, now time.Time) string {
	switch {
	case run.StartTime == nil:
		return ""
	case run.CompletionTime != nil:
		return "took " + age(run.CompletionTime.Time, run.StartTime.Time) + ", ended " + age(now, run.CompletionTime.Time) + " ago"
	}
	return "for " + age(now, run.StartTime.Time)
}
