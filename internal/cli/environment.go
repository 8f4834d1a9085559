package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/internal/cli/recovery"
	"github.com/minifleet/minifleet/internal/cli/screen"
)

// environment is what the commands have from outside. Tests have one of their own.
type environment struct {
	// program is how it is called: minifleet, or "kubectl minifleet".
	program string
	streams genericiooptions.IOStreams
	getenv  func(string) string
	now     func() time.Time
	// wait waits, or until the context ends.
	wait func(context.Context, time.Duration) error
	// connect makes the connection to the hub that flags ask for.
	connect func(*genericclioptions.ConfigFlags) (*hubClient, error)
	// connectMember makes the connection to a member that flags ask for.
	connectMember func(memberFlags) (client.Client, *rest.Config, error)
	// askMember asks a member for the latest epoch that it has on record.
	askMember recovery.AskMember
	// useMember makes the connection to a member with what another system has to administer it.
	useMember func(*rest.Config) (client.Client, error)
	// browse shows an address in a browser.
	browse func(ctx context.Context, address string) error
}

// pluginName is what kubectl looks for to run `kubectl minifleet`.
const pluginName = "kubectl-minifleet"

// programName is how usage names a program that was started by this path.
func programName(path string) string {
	if strings.TrimSuffix(filepath.Base(path), ".exe") == pluginName {
		return "kubectl minifleet"
	}
	return "minifleet"
}

func newEnvironment(program string, stdin io.Reader, stdout, stderr io.Writer) *environment {
	env := &environment{
		program: program,
		streams: genericiooptions.IOStreams{In: stdin, Out: stdout, ErrOut: stderr},
		getenv:  os.Getenv, now: time.Now, wait: sleep,
		connect: connect, connectMember: connectMember, useMember: useMember, askMember: recovery.Ask,
	}
	env.browse = env.startBrowser
	return env
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (e *environment) screen() screen.Screen { return screen.New(e.streams.Out, e.getenv) }

func (e *environment) progress() *screen.Progress {
	return screen.NewProgress(e.streams.ErrOut, e.getenv)
}

// printf prints a result. What cannot be printed is seen by whoever does not get it.
func (e *environment) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(e.streams.Out, format, args...)
}

// notef tells people something that is no result.
func (e *environment) notef(format string, args ...any) {
	_, _ = fmt.Fprintf(e.streams.ErrOut, format+"\n", args...)
}

// interruptible runs a command until it ends or somebody interrupts it.
func interruptible(cmd *cobra.Command, run func(context.Context) error) error {
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx)
}
