package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/actions"
	"github.com/minifleet/minifleet/internal/cli/screen"
	"github.com/minifleet/minifleet/internal/sanitize"
)

func newSource(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "source",
		Short: "GitSources: what they read, what is wrong there, what waits for approval",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSourceList(env), newSourceGet(env), newSourceReconcile(env),
		newApproval(env, approval{
			name: "approve-prune", short: "Let a GitSource delete what Git no longer declares", condition: v1alpha1.ConditionPruneBlocked,
			effect: actions.EffectApprovePrune, do: actions.ApprovePrune,
		}),
		newApproval(env, approval{
			name: "approve-runs", short: "Let a GitSource apply what would run many MiniClusters anew", condition: v1alpha1.ConditionRunsBlocked,
			effect: actions.EffectApproveRuns, do: actions.ApproveRuns,
		}))
	return cmd
}

type sourceListFlags struct {
	hubFlags
	output        outputFlag
	allNamespaces bool
}

func newSourceList(env *environment) *cobra.Command {
	f := sourceListFlags{hubFlags: newHubFlags(env)}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List GitSources",
		Example: "  minifleet source list -A",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.output.add(cmd, formatWide, formatJSON, formatYAML, formatName)
	cmd.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "of all namespaces")
	f.add(cmd)
	return cmd
}

func (f *sourceListFlags) run(cmd *cobra.Command) error {
	if err := f.output.check(); err != nil {
		return err
	}
	return f.hubFlags.run(cmd, func(ctx context.Context, hub *hubClient) error {
		var options []client.ListOption
		if !f.allNamespaces {
			options = append(options, client.InNamespace(hub.namespace))
		}
		if f.output.objects() {
			list := hub.rawList(&v1alpha1.GitSource{})
			if err := hub.client.List(ctx, list, options...); err != nil {
				return err
			}
			return f.output.printObject(f.env.streams.Out, list)
		}
		var list v1alpha1.GitSourceList
		if err := hub.client.List(ctx, &list, options...); err != nil {
			return err
		}
		return f.print(hub, list.Items)
	})
}

func (f *sourceListFlags) print(hub *hubClient, items []v1alpha1.GitSource) error {
	slices.SortFunc(items, func(a, b v1alpha1.GitSource) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if f.output.format == formatName {
		for i := range items {
			if err := f.output.printObject(f.env.streams.Out, hub.typed(&items[i])); err != nil {
				return err
			}
		}
		return nil
	}
	if len(items) == 0 {
		f.env.notef("no GitSource found")
		return nil
	}
	return f.table(items).Print(f.env.screen())
}

func (f *sourceListFlags) table(items []v1alpha1.GitSource) *screen.Table {
	wide := f.output.format == formatWide
	head := []string{"NAME", "STATE", "REVISION", "MINICLUSTERS", "PROBLEMS"}
	if f.allNamespaces {
		head = append([]string{"NAMESPACE"}, head...)
	}
	if wide {
		head = append(head, "URL")
	}
	table, s := screen.NewTable(append(head, "WHY")...), f.env.screen()
	table.Whole = wide
	for i := range items {
		item := &items[i]
		state, message := sourceState(item)
		var row []screen.Cell
		if f.allNamespaces {
			row = append(row, screen.Text(item.Namespace))
		}
		row = append(row, screen.Text(item.Name), s.State(state), screen.Text(orDash(item.Status.Revision)),
			screen.Text(strconv.Itoa(int(item.Status.MiniClusters))), screen.Text(strconv.Itoa(int(item.Status.ProblemCount))))
		if wide {
			row = append(row, screen.Text(orDash(item.Spec.URL)))
		}
		table.Add(append(row, screen.Text(message))...)
	}
	return table
}

// sourceState is that of Ready, unless a person has to approve something or the source is suspended.
func sourceState(s *v1alpha1.GitSource) (state, message string) {
	state, message = ready(s.Status.Conditions)
	for _, kind := range []string{v1alpha1.ConditionPruneBlocked, v1alpha1.ConditionRunsBlocked} {
		if c := meta.FindStatusCondition(s.Status.Conditions, kind); c != nil && meta.IsStatusConditionTrue(s.Status.Conditions, kind) {
			return "Blocked", blockedWhy(c)
		}
	}
	if s.Spec.Suspend {
		return string(v1alpha1.StateSuspended), message
	}
	return state, message
}

// blockedWhy is what waits for approval, without how kubectl would approve it.
func blockedWhy(c *metav1.Condition) string {
	text, _, _ := strings.Cut(c.Message, ". If that is meant:")
	return orDash(text)
}

type sourceGetFlags struct {
	hubFlags
	output outputFlag
}

func newSourceGet(env *environment) *cobra.Command {
	f := sourceGetFlags{hubFlags: newHubFlags(env)}
	cmd := &cobra.Command{
		Use:               "get NAME",
		Short:             "Show a GitSource: its commits, and what is wrong in its files",
		Example:           "  minifleet source get fleet",
		Args:              names(1, 1, "a GitSource"),
		ValidArgsFunction: f.completeSources(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.output.check(); err != nil {
				return err
			}
			return f.run(cmd, func(ctx context.Context, hub *hubClient) error { return f.get(ctx, hub, args[0]) })
		},
	}
	f.output.add(cmd, formatJSON, formatYAML, formatName)
	f.add(cmd)
	return cmd
}

func (f *sourceGetFlags) get(ctx context.Context, hub *hubClient, name string) error {
	if f.output.format != "" {
		object, key := hub.raw(&v1alpha1.GitSource{}), hub.key(name)
		if err := hub.client.Get(ctx, key, object); err != nil {
			return f.missing(err, &v1alpha1.GitSource{}, key)
		}
		return f.output.printObject(f.env.streams.Out, object)
	}
	source, err := f.source(ctx, hub, name)
	if err != nil {
		return err
	}
	s := f.env.screen()
	state, message := ready(source.Status.Conditions)
	f.env.printf("%s/%s  %s  %s\n%s  %s\n", source.Namespace, source.Name, s.Paint(s.State(state)), message,
		orDash(source.Spec.URL), orDash(source.Spec.Path))
	f.questions(s, source)
	f.problems(source)
	return f.commits(s, source)
}

// questions are what waits for approval, each with the command that approves it.
func (f *sourceGetFlags) questions(s screen.Screen, source *v1alpha1.GitSource) {
	for _, q := range []struct{ condition, command string }{
		{v1alpha1.ConditionPruneBlocked, "approve-prune"}, {v1alpha1.ConditionRunsBlocked, "approve-runs"},
	} {
		c := meta.FindStatusCondition(source.Status.Conditions, q.condition)
		if c == nil || !meta.IsStatusConditionTrue(source.Status.Conditions, q.condition) {
			continue
		}
		f.env.printf("\n%s  %s\nif that is meant: %s\n", s.Paint(s.State("Blocked")), blockedWhy(c), revisionHint(f.env.program, source, q.command))
	}
}

func (f *sourceGetFlags) problems(source *v1alpha1.GitSource) {
	if len(source.Status.Problems) == 0 {
		return
	}
	f.env.printf("\nPROBLEMS\n")
	for i := range source.Status.Problems {
		f.env.printf("%s\n", problemText(&source.Status.Problems[i]))
	}
}

func (f *sourceGetFlags) commits(s screen.Screen, source *v1alpha1.GitSource) error {
	if len(source.Status.Commits) == 0 {
		return nil
	}
	f.env.printf("\n")
	table := screen.NewTable("REVISION", "AGE", "AUTHOR", "SUBJECT")
	for i := range source.Status.Commits {
		c := &source.Status.Commits[i]
		when := "-"
		if c.Time != nil {
			when = age(f.env.now(), c.Time.Time)
		}
		table.Add(screen.Text(orDash(c.Revision)), screen.Text(when), screen.Text(orDash(c.Author)), screen.Text(orDash(c.Subject)))
	}
	return table.Print(s)
}

func newSourceReconcile(env *environment) *cobra.Command {
	f := reconcileFlags{actFlags: newActFlags(env)}
	cmd := &cobra.Command{
		Use:               "reconcile NAME",
		Short:             "Have the hub read a repository now, and wait until it has",
		Example:           "  minifleet source reconcile fleet",
		Args:              names(1, 1, "a GitSource"),
		ValidArgsFunction: f.completeSources(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, func(ctx context.Context, hub *hubClient) (*v1alpha1.GitSource, error) {
				return f.source(ctx, hub, args[0])
			})
		},
	}
	f.addReconcile(cmd)
	return cmd
}

// approval is a command by which a person approves a commit.
type approval struct {
	name, short, condition string
	effect                 func(*v1alpha1.GitSource, string) (string, error)
	do                     func(context.Context, client.Client, client.ObjectKey, string, actions.Options) (actions.Source, error)
}

func newApproval(env *environment, a approval) *cobra.Command {
	f := newActFlags(env)
	cmd := &cobra.Command{
		Use:   a.name + " NAME [COMMIT]",
		Short: a.short,
		Long: "Says what would be done, and with the full hash of the commit that this is about, does it. Nothing is approved if\n" +
			"another commit is applied by then.",
		Example:           "  minifleet source " + a.name + " fleet\n  minifleet source " + a.name + " fleet 1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d",
		Args:              counted(1, 2, "a GitSource"),
		ValidArgsFunction: f.completeSources(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.output.check(); err != nil {
				return err
			}
			return f.run(cmd, func(ctx context.Context, hub *hubClient) error { return f.approve(ctx, hub, args, a) })
		},
	}
	f.addAct(cmd)
	return cmd
}

func (f *actFlags) approve(ctx context.Context, hub *hubClient, args []string, a approval) error {
	source, err := f.source(ctx, hub, args[0])
	if err != nil {
		return err
	}
	commit := source.Status.Commit
	if len(args) > 1 {
		commit = args[1]
	}
	effect, err := a.effect(source, commit)
	if err != nil {
		return err
	}
	object := "GitSource " + source.Namespace + "/" + source.Name
	if len(args) == 1 {
		f.env.printf("%s: %s\n", object, sanitize.Text(effect, sanitize.MaxMessage))
		f.env.notef("nothing was done; if that is meant: %s", revisionHint(f.env.program, source, a.name))
		return nil
	}
	f.announce(object, effect)
	out, err := a.do(ctx, hub.client, client.ObjectKeyFromObject(source), commit, f.options())
	if err != nil {
		return err
	}
	return f.finish(hub, out.Object, out.Note)
}
