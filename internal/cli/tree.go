package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/cli/screen"
	"github.com/minifleet/minifleet/internal/sanitize"
)

type treeFlags struct{ hubFlags }

func newTree(env *environment) *cobra.Command {
	f := treeFlags{newHubFlags(env)}
	cmd := &cobra.Command{
		Use:   "tree NAME",
		Short: "Show what a FleetMiniCluster comes from and what has become of it",
		Long: "Prints a tree: the commit, the GitSource, the FleetMiniCluster, each member, the Job there with its run, and\n" +
			"how many pods are ready. What is not known is not shown.",
		Example:           "  minifleet tree lammps -n hpc",
		Args:              names(1, 1, "a FleetMiniCluster"),
		ValidArgsFunction: f.completeMiniClusters(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, func(ctx context.Context, hub *hubClient) error {
				item, err := f.miniCluster(ctx, hub, args[0])
				if err != nil {
					return err
				}
				s := env.screen()
				return s.Tree(f.tree(s, item, sourceOf(ctx, hub, item)))
			})
		},
	}
	f.add(cmd)
	return cmd
}

// sourceOf is the GitSource that declares a FleetMiniCluster; nil if there is none, or none that may be read.
func sourceOf(ctx context.Context, hub *hubClient, f *v1alpha1.FleetMiniCluster) *v1alpha1.GitSource {
	name := f.Labels[v1alpha1.LabelSource]
	if name == "" {
		return nil
	}
	source := &v1alpha1.GitSource{}
	if err := hub.client.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: name}, source); err != nil {
		return nil
	}
	return source
}

// commitOf is what is remembered of the commit of a revision, or nil.
func commitOf(source *v1alpha1.GitSource, revision string) *v1alpha1.Commit {
	if source == nil || revision == "" {
		return nil
	}
	for i := range source.Status.Commits {
		if c := &source.Status.Commits[i]; c.Revision == revision || c.Hash == revision {
			return c
		}
	}
	return nil
}

// tree has the commit at its root, or the first of the others that there is.
func (f *treeFlags) tree(s screen.Screen, item *v1alpha1.FleetMiniCluster, source *v1alpha1.GitSource) *screen.Node {
	top := &screen.Node{}
	at := top
	if revision := item.Status.Revision; revision != "" {
		at = at.Add(screen.Text("commit "+orDash(revision)), screen.Text(f.author(commitOf(source, revision))))
	}
	if name := item.Labels[v1alpha1.LabelSource]; name != "" {
		at = at.Add(f.sourceCells(s, name, item, source)...)
	}
	sum := briefOf(item)
	at = at.Add(screen.Text("FleetMiniCluster "+item.Namespace+"/"+item.Name), s.State(sum.state), screen.Text(sum.why))
	for i := range item.Status.Clusters {
		f.member(s, at, item, &item.Status.Clusters[i])
	}
	return top.Children[0]
}

// author of a commit, with what it says, as far as it is known.
func (f *treeFlags) author(c *v1alpha1.Commit) string {
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("%q by %s", sanitize.Text(c.Subject, sanitize.MaxNote), orDash(c.Author))
	if c.Time != nil {
		text += ", " + age(f.env.now(), c.Time.Time) + " ago"
	}
	return text
}

func (f *treeFlags) sourceCells(s screen.Screen, name string, item *v1alpha1.FleetMiniCluster, source *v1alpha1.GitSource) []screen.Cell {
	cells := []screen.Cell{screen.Text("GitSource " + orDash(name))}
	if source != nil {
		state, _ := ready(source.Status.Conditions)
		cells = append(cells, s.State(state))
	}
	return append(cells, screen.Text(sanitize.Text(item.Annotations[v1alpha1.AnnotationSourcePath], sanitize.MaxNote)))
}

func (f *treeFlags) member(s screen.Screen, at *screen.Node, item *v1alpha1.FleetMiniCluster, line *v1alpha1.ClusterStatus) {
	cells := []screen.Cell{screen.Text("member " + line.Name), s.State(string(line.Sync)), screen.Text(f.lastNews(line))}
	if line.Message != "" {
		cells = append(cells, screen.Text(orDash(line.Message)))
	}
	at = at.Add(cells...)
	if line.Run == "" {
		return
	}
	state, was := runState(item, line.Name, line.Run, line.State)
	job := at.Add(screen.Text("Job "+item.Name), s.State(state), screen.Text(was), screen.Text("run "+line.Run), screen.Text(f.runTime(item, line.Run)))
	if p := line.Pods; p.Desired > 0 {
		text := podsText(p)
		if was != "" {
			text += " when last heard of"
		}
		job.Add(screen.Text(text))
	}
}

// runState is that of a run. What was live on a member that cannot be reached is Unknown, and was says how it was then.
func runState(item *v1alpha1.FleetMiniCluster, member, run string, state v1alpha1.RunState) (shown, was string) {
	for _, line := range item.Status.Clusters {
		if line.Name == member && line.Run == run && line.Sync == v1alpha1.SyncUnknown && !state.Ended() {
			return string(v1alpha1.StateUnknown), "was " + string(state) + " when last heard of"
		}
	}
	return string(state), ""
}

// lastNews is how old what is known of a member is, if that is old.
func (f *treeFlags) lastNews(line *v1alpha1.ClusterStatus) string {
	if line.LastHeardTime == nil {
		return ""
	}
	return "last heard of " + age(f.env.now(), line.LastHeardTime.Time) + " ago"
}

// runTime is since when a run is live, or how long it took.
func (f *treeFlags) runTime(item *v1alpha1.FleetMiniCluster, id string) string {
	for i := range item.Status.Runs {
		run := &item.Status.Runs[i]
		if run.ID == id {
			return runTime(run, f.env)
		}
	}
	return ""
}

func runTime(run *v1alpha1.Run, env *environment) string {
	switch {
	case run.StartTime == nil:
		return ""
	case run.CompletionTime != nil:
		return fmt.Sprintf("took %s, ended %s ago", age(run.CompletionTime.Time, run.StartTime.Time), age(env.now(), run.CompletionTime.Time))
	}
	return "for " + age(env.now(), run.StartTime.Time)
}

func podsText(p v1alpha1.PodCounts) string {
	text := fmt.Sprintf("pods: %d of %d ready", p.Ready, p.Desired)
	if p.Succeeded > 0 {
		text += fmt.Sprintf(", %d succeeded", p.Succeeded)
	}
	if p.Failed > 0 {
		text += fmt.Sprintf(", %d failed", p.Failed)
	}
	return text
}
