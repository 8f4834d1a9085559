package main

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func listFleet(ctx context.Context, hub client.Client) ([]v1alpha1.FleetMiniCluster, error) {
	var list v1alpha1.FleetMiniClusterList
	if err := hub.List(ctx, &list, client.InNamespace(fleetNamespace)); err != nil {
		return nil, fmt.Errorf("asking the hub: %w", err)
	}
	return list.Items, nil
}

// show shows the table until all MiniClusters of these names have completed or failed. The error is a
// *notComplete where they have not completed in time. Processes may end meanwhile, for people try things
// out: the controller's end is reported, and does not end the demo.
func (u *up) show(ctx context.Context, names []string, timeout time.Duration) error {
	u.say("")
	view := newDisplay(u.out, u.started)
	deadline := time.Now().Add(timeout)
	supervised := true
	for {
		fleet, err := listFleet(ctx, u.hub)
		timedOut := time.Now().After(deadline)
		if err != nil && (timedOut || ctx.Err() != nil) {
			return err
		}
		if err == nil {
			view.draw(newTable(fleet, names))
			if over, short := outcome(fleet, names); over || timedOut {
				view.end()
				return u.verdict(short, over)
			}
		}
		if supervised && !u.supervisor.Running() {
			supervised = false
			u.say("")
			u.step("%v\nStart it again with `go run ./hack/demo start %s`.", ended(u.supervisor), supervisorName)
			u.say("")
			view = newDisplay(u.out, u.started) // the next table begins below
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func (u *up) verdict(short *notComplete, over bool) error {
	if short == nil {
		u.say("")
		u.step("all have completed")
		return nil // not short, which as an error would not be nil
	}
	if !over {
		u.say("")
		u.step("time is up")
	}
	return short
}
