// Command demo shows MiniFleet at work on one machine: a hub, three members and a Git repository, all
// real but for the nodes, which KWOK plays. Everything it makes is in .demo at the root of the repository.
//
//	demo up          start everything, push MiniClusters, and show how they are placed and run
//	demo status      show the MiniClusters once
//	demo start NAME  start a process again that has ended, named as in .demo/pids
//	demo down        stop everything and remove .demo
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/go-logr/logr"

	"github.com/minifleet/minifleet/hack/lab"
)

const usage = "usage: demo up [--timeout DURATION] | status | start NAME ... | down"

var errUsage = errors.New(usage)

func main() {
	// The signal is taken for as long as the program runs: a second Ctrl-C must not break off the
	// clean-up that the first one asked for.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctrl.SetLogger(logr.Discard()) // the client's warnings are not for this audience
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(exitCode(err))
	}
}

func exitCode(err error) int {
	switch {
	case errors.Is(err, errUsage):
		return 2
	case errors.Is(err, errInterrupted):
		return 130 // as a shell reports SIGINT
	default:
		return 1
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	// Clusters that are not the demo's own must never be written to.
	if err := os.Unsetenv(lab.StandInEnv); err != nil {
		return err
	}
	root, err := lab.RepositoryRoot()
	if err != nil {
		return err
	}
	at := layout{root: root}
	switch command, rest := args[0], args[1:]; command {
	case "up":
		return runUp(ctx, at, rest, out)
	case "status":
		return runStatus(ctx, at, out)
	case "start":
		return runStart(at, rest, out)
	case superviseCommand:
		return runSupervise(ctx, at, rest, out)
	case "down":
		return runDown(at, out)
	default:
		return errUsage
	}
}
