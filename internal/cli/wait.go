package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Exit codes of wait, beside exitVerdictError.
const (
	exitWaitFailed  = 1
	exitWaitTimeout = 3
)

type waitFlags struct {
	hubFlags
	timeout time.Duration
}

func newWait(env *environment) *cobra.Command {
	f := waitFlags{hubFlags: newHubFlags(env)}
	cmd := &cobra.Command{
		Use:   "wait NAME...",
		Short: "Wait until the runs of FleetMiniClusters have ended",
		Long: "Waits until what is asked for now has been run on every chosen member: an edit or a request to run again that the\n" +
			"hub has not seen yet counts.\n\n" +
			"The exit code is 0 when all have succeeded, 1 when one has failed, was cancelled or cannot run as it is, 2 for\n" +
			"an error, and 3 when the time is up.",
		Example:           "  minifleet wait lammps --timeout 2h\n  minifleet wait lammps relax && echo done",
		Args:              names(1, -1, "a FleetMiniCluster"),
		ValidArgsFunction: f.completeMiniClusters(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := f.run(cmd, func(ctx context.Context, hub *hubClient) error { return f.waitForEnd(ctx, hub, args, f.timeout) })
			return verdictError(err)
		},
	}
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "how long at most; 0: as long as it takes")
	f.add(cmd)
	return cmd
}

// waitForEnd waits for all, and says how each has ended. The error has the exit code of wait.
func (h *hubFlags) waitForEnd(ctx context.Context, hub *hubClient, args []string, timeout time.Duration) error {
	if timeout < 0 {
		return invalid{errors.New("--timeout must not be negative")}
	}
	if timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer stop()
	}
	failed := false
	for _, arg := range args {
		item, err := h.followToEnd(ctx, hub, miniClusterName(arg))
		if errors.Is(context.Cause(ctx), errTimeout) {
			return exit{exitWaitTimeout, fmt.Errorf("FleetMiniCluster %s/%s: %w after %s%s", hub.namespace, miniClusterName(arg), errTimeout, timeout, lastKnown(item))}
		}
		if err != nil {
			return err
		}
		s, sum := h.env.screen(), briefOf(item)
		verdict := ended(item)
		h.env.printf("%s/%s  %s  %s\n", item.Namespace, item.Name, s.Paint(s.State(string(verdict))), sum.why)
		failed = failed || verdict != v1alpha1.StateSucceeded
	}
	if failed {
		return quietExit(exitWaitFailed)
	}
	return nil
}

var errTimeout = errors.New("not done")

func lastKnown(item *v1alpha1.FleetMiniCluster) string {
	if item == nil {
		return ""
	}
	return ": " + briefOf(item).why
}

// followToEnd returns a FleetMiniCluster once its runs have ended, or what was last seen of it with an error.
func (h *hubFlags) followToEnd(ctx context.Context, hub *hubClient, name string) (*v1alpha1.FleetMiniCluster, error) {
	progress := h.env.progress()
	defer progress.Clear()
	var last *v1alpha1.FleetMiniCluster
	s := h.env.screen()
	err := h.follow(ctx, hub, &v1alpha1.FleetMiniCluster{}, name, func(object client.Object) (bool, error) {
		item, ok := object.(*v1alpha1.FleetMiniCluster)
		if !ok {
			return false, nil
		}
		last = item
		sum := briefOf(item)
		progress.Show(fmt.Sprintf("%s  %s  pods %s  %s", item.Name, s.State(sum.state).Text, sum.pods, sum.why))
		return ended(item) != "", nil
	})
	return last, err
}

// ended is how a FleetMiniCluster has ended, of what it asks for now; empty while it has not.
func ended(f *v1alpha1.FleetMiniCluster) v1alpha1.State {
	st := &f.Status
	switch {
	case !f.DeletionTimestamp.IsZero(), st.ObservedGeneration < f.Generation, rerunPending(f):
		return ""
	case meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionComplete):
		return v1alpha1.StateSucceeded
	case meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionFailed):
		if st.State == v1alpha1.StateCancelled {
			return v1alpha1.StateCancelled
		}
		return v1alpha1.StateFailed
	case meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionStalled):
		return v1alpha1.StateInvalid
	}
	return ""
}

// rerunPending says whether the hub has still to act on a request to run again.
func rerunPending(f *v1alpha1.FleetMiniCluster) bool {
	token := f.Annotations[v1alpha1.AnnotationRerunAt]
	return token != "" && token != f.Status.LastHandledRerunAt
}

// againDelay is how long it takes to watch again after a watch has ended.
const againDelay = time.Second

// follow shows an object as it is and whenever it changes, until done says so. It is an error if the object is not
// there, or is deleted.
func (h *hubFlags) follow(ctx context.Context, hub *hubClient, object client.Object, name string, done func(client.Object) (bool, error)) error {
	key := hub.key(name)
	for {
		current, _ := object.DeepCopyObject().(client.Object)
		if err := hub.client.Get(ctx, key, current); err != nil {
			return h.missing(err, current, key)
		}
		if finished, err := done(current); finished || err != nil {
			return err
		}
		finished, err := h.watch(ctx, hub, current, done)
		if finished || err != nil {
			return err
		}
		if err := h.env.wait(ctx, againDelay); err != nil {
			return err
		}
	}
}

// watch sees one watch to its end.
func (h *hubFlags) watch(ctx context.Context, hub *hubClient, from client.Object, done func(client.Object) (bool, error)) (finished bool, err error) {
	list := listFor(from)
	watching, err := hub.client.Watch(ctx, list, client.InNamespace(from.GetNamespace()), &client.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", from.GetName()),
	})
	if apierrors.IsForbidden(err) {
		return false, nil // it can be read again and again
	}
	if err != nil {
		return false, err
	}
	defer watching.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case event, open := <-watching.ResultChan():
			if !open || event.Type == watch.Error {
				return false, nil
			}
			object, ok := event.Object.(client.Object)
			if !ok || object.GetName() != from.GetName() {
				continue
			}
			if event.Type == watch.Deleted {
				return false, fmt.Errorf("%s %s/%s was deleted", hub.kindOf(object).Kind, object.GetNamespace(), object.GetName())
			}
			if finished, err := done(object); finished || err != nil {
				return finished, err
			}
		}
	}
}

func listFor(object client.Object) client.ObjectList {
	if _, ok := object.(*v1alpha1.GitSource); ok {
		return &v1alpha1.GitSourceList{}
	}
	return &v1alpha1.FleetMiniClusterList{}
}
