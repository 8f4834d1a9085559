package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/actions"
	"github.com/minifleet/minifleet/internal/cli/screen"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/sanitize"
)

type traceFlags struct {
	hubFlags
	run string
}

func newTrace(env *environment) *cobra.Command {
	f := traceFlags{hubFlags: newHubFlags(env)}
	cmd := &cobra.Command{
		Use:   "trace NAME",
		Short: "Follow a FleetMiniCluster from the commit to its runs",
		Long: "Says step by step how a MiniCluster came from a commit to the members: the commit of each run, the GitSource\n" +
			"and the file, the FleetMiniCluster, where it was placed and why, and each Job and run. What is wrong at a step\n" +
			"is said there.",
		Example:           "  minifleet trace lammps\n  minifleet trace lammps --run 3f2a",
		Args:              names(1, 1, "a FleetMiniCluster"),
		ValidArgsFunction: f.completeMiniClusters(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.hubFlags.run(cmd, func(ctx context.Context, hub *hubClient) error { return f.trace(ctx, hub, args[0]) })
		},
	}
	cmd.Flags().StringVar(&f.run, "run", "", "only this run: its id, or the beginning of it")
	f.add(cmd)
	return cmd
}

func (f *traceFlags) trace(ctx context.Context, hub *hubClient, name string) error {
	k, err := f.know(ctx, hub, name)
	if err != nil {
		return err
	}
	item := k.item
	runs, err := f.runs(item)
	if err != nil {
		return err
	}
	var b strings.Builder
	s := f.env.screen()
	k.origin(&b, s)
	step(&b, "FleetMiniCluster", fmt.Sprintf("%s/%s  %s", item.Namespace, item.Name, s.Paint(s.State(string(k.state)))))
	step(&b, "", k.sentence())
	f.placed(&b, item)
	for _, run := range runs {
		k.ledgerLine(&b, s, run)
	}
	f.env.printf("%s", b.String())
	return nil
}

// runs that are asked for: one, or the latest of each member.
func (f *traceFlags) runs(item *v1alpha1.FleetMiniCluster) ([]*v1alpha1.Run, error) {
	if f.run != "" {
		run, err := actions.FindRun(item, f.run)
		if err != nil {
			return nil, err
		}
		return []*v1alpha1.Run{run}, nil
	}
	var out []*v1alpha1.Run
	for i := range slices.Backward(item.Status.Runs) {
		run := &item.Status.Runs[i]
		if !slices.ContainsFunc(out, func(o *v1alpha1.Run) bool { return o.Cluster == run.Cluster }) {
			out = append(out, run)
		}
	}
	slices.Reverse(out)
	return out, nil
}

// stepWidth is that of the names of steps.
const stepWidth = 18

func step(b *strings.Builder, name, text string) {
	if text == "" {
		return
	}
	if name != "" {
		name += ":"
	}
	fmt.Fprintf(b, "%-*s%s\n", stepWidth, name, text)
}

func joinNonEmpty(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "  ")
}

// author of the commit of a revision, with what it says, as far as it is known: to the source, or else to what it has
// changed or started.
func (k *known) author(revision string, noted *v1alpha1.RunCommit) string {
	c := k.context.Commits[revision]
	if noted != nil && (c == nil || c.Hash != noted.Hash) {
		return fmt.Sprintf("%q by %s", sanitize.Text(noted.Subject, sanitize.MaxNote), orDash(noted.Author))
	}
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("%q by %s", c.Subject, orDash(c.Author))
	if c.Time != nil {
		text += ", " + age(k.now, *c.Time) + " ago"
	}
	return text
}

// commitOf is the commit that last changed an object, if that is the one of the revision that its status tells.
func commitOf(item *v1alpha1.FleetMiniCluster) *v1alpha1.RunCommit {
	if item.Status.Revision != item.Annotations[v1alpha1.AnnotationSourceRevision] {
		return nil
	}
	return plan.CommitOf(item)
}

func (k *known) origin(b *strings.Builder, s screen.Screen) {
	item, source := k.item, k.source
	name := item.Labels[v1alpha1.LabelSource]
	if name == "" {
		step(b, "Origin", "created on the hub, not from Git")
		return
	}
	step(b, "Commit", joinNonEmpty(orDash(item.Status.Revision), k.author(item.Status.Revision, commitOf(item))))
	if source == nil {
		step(b, "GitSource", orDash(name)+": not there, or you may not read it")
	} else {
		state, message := ready(source.Status.Conditions)
		step(b, "GitSource", fmt.Sprintf("%s  %s  %s", name, s.Paint(s.State(state)), message))
	}
	path := item.Annotations[v1alpha1.AnnotationSourcePath]
	step(b, "File", orDash(path))
	if source == nil {
		return
	}
	file, _, _ := strings.Cut(path, "#")
	for _, p := range source.Status.Problems {
		if p.Path == file {
			step(b, "", problemText(&p))
		}
	}
}

// problemText is FILE:LINE: OBJECT: FIELD: MESSAGE, as validate has it.
func problemText(p *v1alpha1.FileProblem) string {
	text := orDash(p.Path)
	if p.Line > 0 {
		text += fmt.Sprintf(":%d", p.Line)
	}
	if p.Warning {
		text += ": warning"
	}
	for _, part := range []string{p.Object, p.Field, p.Message} {
		if part != "" {
			text += ": " + sanitize.Text(part, sanitize.MaxMessage)
		}
	}
	return text
}

func (f *traceFlags) placed(b *strings.Builder, item *v1alpha1.FleetMiniCluster) {
	p := item.Status.Placement
	if p == nil {
		step(b, "Placement", "not decided yet")
		return
	}
	step(b, "Placement", fmt.Sprintf("%s (%d of %d)", orDash(strings.Join(p.Clusters, ", ")), len(p.Clusters), p.Wanted))
	for _, d := range p.Decisions {
		step(b, "", fmt.Sprintf("%s: %s", d.Name, orDash(d.Reason)))
	}
}

func (k *known) ledgerLine(b *strings.Builder, s screen.Screen, run *v1alpha1.Run) {
	shown, was := k.run(run), ""
	if shown.State == string(v1alpha1.StateUnknown) {
		was = "was " + string(run.State) + " when last heard of"
	}
	step(b, "Member", orDash(run.Cluster))
	step(b, "  Job", k.item.Name)
	step(b, "  Run", joinNonEmpty(run.ID, s.Paint(s.State(shown.State)), was, runTime(run, k.now)))
	if run.Revision != "" {
		step(b, "  Commit", joinNonEmpty(orDash(run.Revision), k.author(run.Revision, run.Commit)))
	}
	step(b, "", sanitize.Text(run.Message, sanitize.MaxMessage))
	if e := run.Exit; e != nil {
		text := "pod " + orDash(e.Pod) + ", container " + orDash(e.Container)
		if e.ExitCode != nil {
			text += fmt.Sprintf(", exit code %d", *e.ExitCode)
		}
		step(b, "  Exit", text+": "+orDash(strings.TrimSpace(e.Reason+" "+e.Message)))
	}
}
