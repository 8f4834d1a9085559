// Package cli holds the commands of the minifleet binary: flags, files and standard input come in; out go what a command
// prints and its exit code.
package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/minifleet/minifleet/internal/version"
)

// Exit codes.
const (
	exitOK = 0
	// exitFailed: the command could not do its work.
	exitFailed = 1
	// exitInvalid: the input, a flag or a manifest, is wrong.
	exitInvalid = 2
)

// invalid marks an error as one of the input.
type invalid struct{ error }

// Run executes one command line and returns its exit code: 0, 1 for a failure, 2 for input that is wrong. What
// validate finds is a failure, for its input is the command line.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	var wrong invalid
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &wrong):
		_, _ = fmt.Fprintln(stderr, "minifleet:", err)
		return exitInvalid
	default:
		_, _ = fmt.Fprintln(stderr, "minifleet:", err)
		return exitFailed
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "minifleet",
		Short: "Run Flux Framework MiniClusters on many Kubernetes clusters from Git",
		Long: "MiniFleet takes MiniCluster manifests from Git, picks member clusters by label, runs each MiniCluster\n" +
			"there as an indexed Job, and reports every run on one object of the hub cluster.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return invalid{fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())}
	})
	root.AddCommand(newController(), newCluster(), newRender(), newValidate(), newVersion())
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.String())
			return err
		},
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return invalid{fmt.Errorf("%s takes no argument %q; see `%s --help`", cmd.CommandPath(), args[0], cmd.CommandPath())}
	}
	return nil
}
