package cli

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"slices"
	"strings"

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
		Use:   "open [NAME | member/NAME | source/NAME]",
		Short: "Print the address of a page of the dashboard, and show it in a browser",
		Long: "Prints the address of the page of a FleetMiniCluster, a member or a GitSource, or without a name that of the fleet.\n" +
			"Where it prints to a terminal with a browser, it opens the page there. The hub is not asked.",
		Example: "  minifleet open lammps --server https://fleet.example.org\n  minifleet open member/alpine\n" +
			"  minifleet open source/fleet -n hpc",
		Args:              openArgs,
		ValidArgsFunction: f.completePages,
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
	path, err := f.path(args)
	if err != nil {
		return err
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

// path of the page that an argument names; none for that of the fleet.
func (f *openFlags) path(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	if name, ok := cutPrefix(args[0], memberPrefixes); ok {
		return []string{"members", name}, nil
	}
	namespace, _, err := f.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, invalid{err}
	}
	if name, ok := cutPrefix(args[0], sourcePrefixes); ok {
		return []string{"sources", namespace, name}, nil
	}
	return []string{"miniclusters", namespace, miniClusterName(args[0])}, nil
}

// openArgs takes the name of a page, if any.
func openArgs(cmd *cobra.Command, args []string) error {
	plain := slices.Clone(args)
	for i := range plain {
		for _, prefixes := range [][]string{memberPrefixes, sourcePrefixes} {
			plain[i], _ = cutPrefix(plain[i], prefixes)
		}
	}
	return names(0, 1, "a FleetMiniCluster")(cmd, plain)
}

// completePages offers FleetMiniClusters, and members and GitSources once their prefix is there.
func (f *openFlags) completePages(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	offer, prefix := f.completeMiniClusters(1), ""
	switch {
	case strings.HasPrefix(text, "member/"):
		offer, prefix = f.completeMembers(1), "member/"
	case strings.HasPrefix(text, "source/"):
		offer, prefix = f.completeSources(), "source/"
	}
	found, directive := offer(cmd, args, text)
	for i := range found {
		found[i] = prefix + found[i]
	}
	return found, directive
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
