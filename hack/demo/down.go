package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/minifleet/minifleet/hack/lab"
)

var errNone = errors.New("there is no demo: start one with `make demo`")

// runDown stops every process of the demo, whoever started it, and removes its files.
func runDown(at layout, out io.Writer) error {
	if _, err := os.Stat(at.dir()); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(out, "there is no demo")
		return nil
	}
	unlock, err := at.lock()
	if err != nil {
		return err
	}
	defer unlock()
	running, err := lab.Running(at.pids())
	if err != nil {
		return err
	}
	if err := remove(at); err != nil {
		return err
	}
	fmt.Fprintf(out, "stopped %d processes and removed .demo\n", len(running))
	return nil
}

// remove ends the processes first: whoever still runs may still write.
func remove(at layout) error {
	if err := lab.StopAll(at.pids()); err != nil {
		return err
	}
	return os.RemoveAll(at.dir())
}

// runStatus prints the table once.
func runStatus(ctx context.Context, at layout, out io.Writer) error {
	config, err := clientcmd.BuildConfigFromFlags("", at.hub())
	if errors.Is(err, fs.ErrNotExist) {
		return errNone
	}
	if err != nil {
		return err
	}
	hub, err := newClient(config)
	if err != nil {
		return err
	}
	list, err := listFleet(ctx, hub)
	if err != nil {
		return err
	}
	for _, line := range newTable(list, nil).lines() {
		fmt.Fprintln(out, line)
	}
	return nil
}

// runStart starts processes that have ended, with the arguments that they had.
func runStart(at layout, names []string, out io.Writer) error {
	if len(names) == 0 {
		return errUsage
	}
	commands, err := readCommands(at)
	if err != nil {
		return err
	}
	running, err := lab.Running(at.pids())
	if err != nil {
		return err
	}
	for _, name := range names {
		c, ok := commands[name]
		if !ok {
			return fmt.Errorf("the demo has no process %q: it has %v", name, sortedKeys(commands))
		}
		if pid, ok := running[name]; ok {
			return fmt.Errorf("%s runs already, as process %d", name, pid)
		}
		if err := process(at, name, c.Path, c.Args...).Start(); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s is started\n", name)
	}
	return nil
}

func sortedKeys(commands map[string]command) []string {
	names := make([]string, 0, len(commands))
	for name := range commands {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
