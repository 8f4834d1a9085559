package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/minifleet/minifleet/internal/cli/server"
	"github.com/minifleet/minifleet/internal/sanitize"
)

type logsFlags struct {
	hubFlags
	dashboard  dashboardFlags
	options    server.LogOptions
	timestamps bool
}

func newLogs(env *environment) *cobra.Command {
	f := logsFlags{hubFlags: newHubFlags(env)}
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print the log of a pod of a run",
		Long: "Prints the log of a pod of a run, by default that of the lead (rank 0) of the latest run. Members are reached\n" +
			"through the hub, so it takes the address of the dashboard, with --server or MINIFLEET_SERVER, and the bearer\n" +
			"token of the kubeconfig, --token or MINIFLEET_TOKEN. Following, it connects again when the connection is lost;\n" +
			"lines that are missing then are told.",
		Example:           "  minifleet logs lammps -f\n  minifleet logs lammps --member alpine --rank 3 --tail 100",
		Args:              names(1, 1, "a FleetMiniCluster"),
		ValidArgsFunction: f.completeMiniClusters(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.options.Member, "member", "", "member whose run is meant; needed where several have one")
	flags.StringVar(&f.options.Run, "run", "", "id of the run; empty: the latest")
	flags.IntVar(&f.options.Rank, "rank", -1, "rank of the pod, from 0; -1: the lead's")
	flags.StringVarP(&f.options.Container, "container", "c", "", "container; empty: that which runs Flux")
	flags.BoolVarP(&f.options.Previous, "previous", "p", false, "of the container before its last restart")
	flags.IntVar(&f.options.Tail, "tail", -1, "so many of the last lines; -1: all")
	flags.BoolVarP(&f.options.Follow, "follow", "f", false, "go on until the log ends")
	flags.BoolVar(&f.timestamps, "timestamps", false, "print the time of each line")
	_ = cmd.RegisterFlagCompletionFunc("member", f.completeMembers(-1)) // the flag is there
	f.dashboard.add(cmd)
	f.add(cmd)
	return cmd
}

func (f *logsFlags) run(cmd *cobra.Command, name string) error {
	switch {
	case f.options.Rank < -1:
		return invalid{errors.New("--rank must be 0 or more")}
	case f.options.Tail < -1:
		return invalid{errors.New("--tail must be 0 or more")}
	case f.options.Follow && f.options.Previous:
		return invalid{errors.New("--previous has ended, so that --follow does not go with it")}
	}
	return f.hubFlags.run(cmd, func(ctx context.Context, hub *hubClient) error {
		dashboard, err := f.dashboard.client(&f.hubFlags, hub)
		if err != nil {
			return err
		}
		return dashboard.Logs(ctx, hub.namespace, miniClusterName(name), f.options, f.env.wait, f.print)
	})
}

// print prints the lines as results, and what is to be said about them for people.
func (f *logsFlags) print(e server.LogEvent) error {
	switch {
	case e.Lost > 0:
		f.env.notef("lost %s", count(e.Lost, "line"))
	case e.MayBeLost:
		f.env.notef("connected again; lines may be lost here")
	case e.End != "":
		f.env.notef("the log ends: %s", sanitize.Text(e.End, sanitize.MaxNote))
	default:
		text := sanitize.Line(e.Text)
		if f.timestamps {
			text = e.Time.UTC().Format(time.RFC3339Nano) + " " + text
		}
		_, err := fmt.Fprintln(f.env.streams.Out, text)
		return err
	}
	return nil
}
