package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/actions"
)

// actFlags are those of commands that change something.
type actFlags struct {
	hubFlags
	output outputFlag
	dryRun bool
}

func newActFlags(env *environment) actFlags { return actFlags{hubFlags: newHubFlags(env)} }

func (f *actFlags) addAct(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what it would do, have the hub check it, and do nothing")
	f.output.add(cmd, formatName, formatJSON, formatYAML)
	f.add(cmd)
}

func (f *actFlags) options() actions.Options { return actions.Options{DryRun: f.dryRun} }

// announce says what an action does to an object, before it does it; an effect that names the object goes without one.
// Where objects are printed, it says so on standard error.
func (f *actFlags) announce(object, effect string) {
	text := effect
	if object != "" {
		text = object + ": " + effect
	}
	if f.dryRun {
		text += " (dry run: nothing was done)"
	}
	if f.output.format == "" {
		f.env.printf("%s\n", text)
		return
	}
	f.env.notef("%s", text)
}

// finish prints what an action has done.
func (f *actFlags) finish(hub *hubClient, object client.Object, note string) error {
	if note != "" {
		f.env.notef("note: %s", note)
	}
	if f.output.format == "" {
		return nil
	}
	return f.output.printObject(f.env.streams.Out, hub.typed(object))
}

// miniClusterAct is an action on a FleetMiniCluster, and its effect told beforehand.
type miniClusterAct struct {
	effect func(*v1alpha1.FleetMiniCluster) (string, error)
	do     func(context.Context, client.Client, client.ObjectKey, actions.Options) (actions.MiniCluster, error)
	// note is what else there is to say once it is done; nil for nothing.
	note func(*v1alpha1.FleetMiniCluster) string
}

// act does something to the FleetMiniClusters that arguments name, one after the other.
func (f *actFlags) act(ctx context.Context, hub *hubClient, args []string, a miniClusterAct) error {
	for _, arg := range args {
		item, err := f.miniCluster(ctx, hub, arg)
		if err != nil {
			return err
		}
		effect, err := a.effect(item)
		if err != nil {
			return err
		}
		f.announce("FleetMiniCluster "+item.Namespace+"/"+item.Name, effect)
		out, err := a.do(ctx, hub.client, client.ObjectKeyFromObject(item), f.options())
		if err != nil {
			return err
		}
		var note string // the outcome has none that the effect has not told
		if a.note != nil {
			note = a.note(item)
		}
		if err := f.finish(hub, out.Object, note); err != nil {
			return err
		}
	}
	return nil
}

// simpleAct is the command of an action that takes nothing but names.
func simpleAct(env *environment, cmd *cobra.Command, a miniClusterAct) *cobra.Command {
	f := newActFlags(env)
	cmd.Args = names(1, -1, "a FleetMiniCluster")
	cmd.ValidArgsFunction = f.completeMiniClusters(-1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.output.check(); err != nil {
			return err
		}
		return f.run(cmd, func(ctx context.Context, hub *hubClient) error {
			return f.act(ctx, hub, args, a)
		})
	}
	f.addAct(cmd)
	return cmd
}

// requestToken is a token that no request has used before.
func (e *environment) requestToken() string {
	return e.now().UTC().Format("2006-01-02T15:04:05.000000000Z")
}

func revisionHint(program string, s *v1alpha1.GitSource, command string) string {
	return fmt.Sprintf("%s source %s %s %s -n %s", program, command, s.Name, s.Status.Commit, s.Namespace)
}
