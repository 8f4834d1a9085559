package cli

import (
	"context"
	"errors"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/minifleet/minifleet/internal/cli/screen"
	"github.com/minifleet/minifleet/internal/cli/server"
)

type openFlags struct {
	hubFlags
	dashboard dashboardFlags
	noBrowser bool
}

func newOpen(env *environment) *cobra.Command {
	f := openFlags{hubFlags: newHubFlags(env)}
	cmd := &cobra.Command{
		Use:   "open [NAME]",
		Short: "Print the address of a page of the dashboard, and show it in a browser",
		Long: "Prints the address of the page of a FleetMiniCluster, or without a name that of the fleet. Where it prints to a\n" +
			"terminal with a browser, it opens the page there. The hub is not asked.",
		Example:           "  minifleet open lammps --server https://fleet.example.org",
		Args:              names(0, 1, "a FleetMiniCluster"),
		ValidArgsFunction: f.completeMiniClusters(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return interruptible(cmd, func(ctx context.Context) error { return f.open(ctx, args) })
		},
	}
	cmd.Flags().BoolVar(&f.noBrowser, "no-browser", false, "only print the address")
	f.dashboard.add(cmd)
	f.add(cmd)
	return cmd
}

func (f *openFlags) open(ctx context.Context, args []string) error {
	base, err := f.dashboard.base(f.env)
	if err != nil {
		return err
	}
	var path []string
	if len(args) > 0 {
		namespace, _, err := f.config.ToRawKubeConfigLoader().Namespace()
		if err != nil {
			return invalid{err}
		}
		path = []string{"miniclusters", namespace, miniClusterName(args[0])}
	}
	page := server.Page(base, path...)
	f.env.printf("%s\n", page)
	if f.noBrowser || !screen.IsTerminal(f.env.streams.Out) {
		return nil
	}
	if err := f.env.browse(ctx, page); err != nil {
		f.env.notef("no browser: %v", err)
	}
	return nil
}

// startBrowser starts what shows pages on this machine, and does not wait for it to end.
func (e *environment) startBrowser(ctx context.Context, address string) error {
	program, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	default:
		if e.getenv("DISPLAY") == "" && e.getenv("WAYLAND_DISPLAY") == "" {
			return errors.New("this session has no display")
		}
	}
	return exec.CommandContext(context.WithoutCancel(ctx), program, args...).Start() //nolint:gosec // a fixed program, with an address that was checked
}
