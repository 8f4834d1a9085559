package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/minifleet/minifleet/hack/lab"
)

// superviseCommand is for the demo itself: demo supervise NAME PROGRAM [ARGUMENT ...]
const superviseCommand = "supervise"

// backOff is how long to wait before a process that has ended is started again: first at least, twice as long each time
// that it ended within calm of its start, at most most.
type backOff struct{ first, most, calm time.Duration }

// demoBackOff is that of a Deployment's pods in kind; its times are for people who watch.
var demoBackOff = backOff{first: time.Second, most: 30 * time.Second, calm: time.Minute}

// next is the wait after a process has run for so long, given the wait before that; 0 before the first.
func (b backOff) next(before, ran time.Duration) time.Duration {
	if before == 0 || ran >= b.calm {
		return b.first
	}
	return min(2*before, b.most)
}

// runSupervise keeps a process running for as long as the demo does. The controller ends when its hub does not answer
// for long enough that another one may lead, and a Deployment would start it again.
func runSupervise(ctx context.Context, at layout, args []string, out io.Writer) error {
	if len(args) < 2 {
		return errUsage
	}
	p := process(at, args[0], args[1], args[2:]...)
	p.Detach = false // it is not to outlive its supervisor
	return supervise(ctx, p, demoBackOff, out)
}

// supervise starts a process, and starts it again whenever it has ended, until the context is done. Then it stops it.
func supervise(ctx context.Context, p *lab.Process, b backOff, out io.Writer) error {
	var wait time.Duration
	for {
		started := time.Now()
		if err := p.Start(); err != nil {
			fmt.Fprintln(out, err)
		}
		select {
		case <-p.Exited():
		case <-ctx.Done():
			return p.Stop()
		}
		wait = b.next(wait, time.Since(started))
		fmt.Fprintf(out, "%s has ended, and is started again in %s\n", p.Name, wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return p.Stop() // removes its pid file
		}
	}
}
