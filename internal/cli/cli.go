// Package cli holds the commands of the minifleet binary: flags, files and standard input come in; out go what a command
// prints and its exit code.
package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
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

// Main runs a program with its arguments, the first of which is the path that it was started by, and returns its exit
// code.
func Main(argv []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return run(newEnvironment(programName(argv[0]), stdin, stdout, stderr), argv[1:])
}

// Run executes one command line and returns its exit code: 0, 1 for a failure, 2 for input that is wrong, or what the
// command has codes of its own for. What validate finds is a failure, for its input is the command line.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return run(newEnvironment("minifleet", stdin, stdout, stderr), args)
}

func run(env *environment, args []string) int {
	root := newRoot(env)
	root.SetArgs(args)
	root.SetIn(env.streams.In)
	root.SetOut(env.streams.Out)
	root.SetErr(env.streams.ErrOut)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	if text := err.Error(); text != "" {
		env.notef("%s: %s", env.program, text)
	}
	var wrong invalid
	var coded exit
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &wrong):
		return exitInvalid
	default:
		return exitFailed
	}
}

// Groups of commands in the help.
const (
	groupRead  = "read"
	groupAct   = "act"
	groupAdmin = "admin"
	groupFiles = "files"
)

func newRoot(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:         "minifleet",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: env.program},
		Short:       "Run Flux Framework MiniClusters on many Kubernetes clusters from Git",
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
	root.SetUsageFunc(usageOf)
	add := func(id, title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	add(groupRead, "See the fleet", newGet(env), newTree(env), newTrace(env), newWhy(env), newQueue(env),
		newLogs(env), newDiff(env), newEvents(env), newOpen(env))
	add(groupAct, "Run things", newRun(env), newWait(env), newReconcile(env), newRerun(env), newCancel(env),
		newSuspend(env), newResume(env), newScale(env))
	add(groupAdmin, "Administer the fleet", newSource(env), newCluster(env), newCheck(env), newBackup(env), newRestore(env), newController())
	add(groupFiles, "Check files", newValidate(), newRender())
	root.AddCommand(newVersion(), newBuildOverlay())
	return root
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return invalid{fmt.Errorf("%s takes no argument %q; see `%s --help`", cmd.CommandPath(), args[0], cmd.CommandPath())}
	}
	return nil
}
