package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/internal/cli/server"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// exitDifferent is an exit code of diff, beside exitVerdictError.
const exitDifferent = 1

type diffFlags struct {
	hubFlags
	dashboard dashboardFlags
	output    outputFlag
	of        sourceFlags
}

func newDiff(env *environment) *cobra.Command {
	f := diffFlags{hubFlags: newHubFlags(env)}
	cmd := &cobra.Command{
		Use:   "diff [NAME]",
		Short: "See what a commit would change on the hub, or compare a FleetMiniCluster with its members",
		Long: "Without a name, compares a commit, or the working tree, with the fleet, as its GitSource would read it: which\n" +
			"MiniClusters appear, change, start a new run, move or go away, where each would be placed and whether it has\n" +
			"room now, and what a person would have to approve. Nothing is written. What is free on each node is known to\n" +
			"the dashboard: without --server, a member is chosen by what MemberClusters say.\n\n" +
			"With the name of a FleetMiniCluster, prints what differs on its members, object by object: - is on the member,\n" +
			"+ is wanted. Values of Secrets are not shown. Members are reached through the hub, as for logs.\n\n" +
			"The exit code is 0 when nothing differs, 1 when something does, and 2 when it cannot be said, or, of a commit,\n" +
			"when something is wrong with its files.",
		Example: "  minifleet diff lammps\n  minifleet diff lammps -o json | jq -r '.items[].state'\n" +
			"  minifleet diff --source fleet\n  minifleet diff --source fleet --revision HEAD -C ~/src/fleet\n" +
			"  minifleet diff --source fleet --ref refs/pull/7/merge -o markdown",
		Args:              names(0, 1, "a FleetMiniCluster"),
		ValidArgsFunction: f.completeMiniClusters(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.output.check(); err != nil {
				return err
			}
			if len(args) == 0 {
				return f.runSource(cmd)
			}
			return f.run(cmd, args[0])
		},
	}
	f.output.add(cmd, formatJSON, formatYAML, formatMarkdown)
	f.of.add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("source", f.completeSources()) // the flag is there
	f.dashboard.add(cmd)
	f.add(cmd)
	return cmd
}

func (f *diffFlags) run(cmd *cobra.Command, name string) error {
	switch given := needless(cmd); {
	case len(given) > 0:
		return invalid{fmt.Errorf("--%s is for the comparison of a commit: remove the name of the FleetMiniCluster", given[0])}
	case f.output.format == formatMarkdown:
		return invalid{errors.New("-o: markdown is for the comparison of a commit")}
	}
	err := f.hubFlags.run(cmd, func(ctx context.Context, hub *hubClient) error {
		dashboard, err := f.dashboard.client(&f.hubFlags, hub)
		if err != nil {
			return err
		}
		items, err := dashboard.Diff(ctx, hub.namespace, miniClusterName(name))
		if err != nil {
			return err
		}
		if err := f.print(items); err != nil {
			return err
		}
		return verdict(items)
	})
	return verdictError(err)
}

// verdict is the exit code: a difference that is known counts more than one that may be there.
func verdict(items []server.Difference) error {
	code := exitOK
	for _, d := range items {
		switch d.State {
		case server.Same:
		case server.Different, server.Missing, server.Extra:
			return quietExit(exitDifferent)
		default:
			code = exitVerdictError
		}
	}
	if code == exitOK {
		return nil
	}
	return quietExit(code)
}

func (f *diffFlags) print(items []server.Difference) error {
	if items == nil {
		items = []server.Difference{}
	}
	body, err := json.MarshalIndent(map[string]any{"items": items}, "", "  ")
	if err != nil {
		return err
	}
	switch f.output.format {
	case formatJSON:
		f.env.printf("%s\n", plainJSON(string(body)))
		return nil
	case formatYAML:
		if body, err = yaml.JSONToYAML(body); err == nil {
			f.env.printf("%s", body)
		}
		return err
	}
	same := 0
	for i := range items {
		if items[i].State == server.Same {
			same++
			continue
		}
		if err := f.printItem(&items[i]); err != nil {
			return err
		}
	}
	f.env.notef("%s compared, %d the same", count(len(items), "object"), same)
	return nil
}

func (f *diffFlags) printItem(d *server.Difference) error {
	s := f.env.screen()
	name := d.Name
	if d.Namespace != "" {
		name = d.Namespace + "/" + d.Name
	}
	line := fmt.Sprintf("%s  %s %s", orDash(d.Member), orDash(d.Kind), orDash(name))
	state := s.State(sanitize.Text(d.State, sanitize.MaxNote))
	f.env.printf("%s  %s", line, s.Paint(state))
	if d.Message != "" {
		f.env.printf("  %s", sanitize.Text(d.Message, sanitize.MaxMessage))
	}
	f.env.printf("\n")
	if d.Desired == "" && d.Live == "" {
		return nil
	}
	const context = 3
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: linesOf(d.Live), B: linesOf(d.Desired), FromFile: "live", ToFile: "desired", Context: context,
	})
	if err != nil {
		return err
	}
	f.env.printf("%s", text)
	return nil
}

// linesOf are the lines of a YAML document, each safe to show and with its end.
func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	out := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := range out {
		out[i] = sanitize.Line(out[i]) + "\n"
	}
	return out
}
