package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// schedule is a fixed list of steps, for what random ones come upon too seldom. It waits for what it needs, so
// that it means the same on any machine, and a step that cannot be done is a failure.
type schedule struct {
	name  string
	steps []step
}

// moment is how long something that is wrong is given to happen.
const moment = 1500 * time.Millisecond

// Many steps are about one of these.
const (
	alpine, basalt = "alpine", "basalt"
	running        = string(v1alpha1.RunRunning)
	succeeded      = string(v1alpha1.RunSucceeded)
	failed         = string(v1alpha1.RunFailed)
)

var directed = []schedule{
	// The hub's cache says that a run is to be started, for ever: its Job has been there, and was deleted. The hub
	// has to know what it has written itself.
	{"the hub's cache is behind", []step{
		{do: "break", on: alpine, arg: "deny"},
		{do: "create", on: "red", name: "ant", arg: traitOne, n: 60},
		{do: "await", on: alpine, arg: "failures", n: 2},
		{do: "break", on: hubName, arg: "stale"},
		{do: "restore", on: alpine},
		{do: "await", on: alpine, name: "ant", arg: running},
		{do: "delete-job", on: alpine, name: "ant", arg: "Background"},
		{do: "await", on: alpine, name: "ant", arg: "no job"},
		{do: "await", on: alpine, name: "ant", arg: "no pods", wait: 2 * moment}, // which it looks for every two seconds
		{do: "expect", on: alpine, name: "ant", arg: "no job"},
		{do: "restore", on: hubName},
		{do: "await", on: alpine, name: "ant", arg: failed},
	}},
	// As before, and it is another hub that has run it and removed it, while the first one could do nothing.
	{"one of two hubs is behind", []step{
		{do: "break", on: alpine, arg: "deny"},
		{do: "create", on: "red", name: "ant", arg: traitOne + "," + traitTidy},
		{do: "await", on: alpine, arg: "failures", n: 2},
		{do: "stop-hub"},
		{do: "break", on: hubName, arg: "rival"},
		{do: "restore", on: alpine},
		{do: "await", on: alpine, name: "ant", arg: succeeded},
		{do: "await", on: alpine, name: "ant", arg: "no job"},
		{do: "resume-hub", wait: moment},
		{do: "expect", on: alpine, name: "ant", arg: "no job"},
		{do: "restore", on: hubName},
	}},
	// One hub has removed all of a run that has ended. What another one puts there for the next run, whose Job
	// the member does not take yet, is no remains of the first.
	{"one of two hubs tidies", []step{
		{do: "create", on: "red", name: "ant", arg: traitOne + "," + traitTidy},
		{do: "await", on: alpine, name: "ant", arg: succeeded},
		{do: "await", on: alpine, name: "ant", arg: "no scripts"},
		{do: "break", on: alpine, arg: "deny-jobs"},
		{do: "break", on: hubName, arg: "rival"},
		{do: "rerun", name: "ant", arg: "again"},
		{do: "await", on: alpine, arg: "failures", n: 1},
		{do: "edit-object", on: alpine, name: "ant", arg: "ConfigMap", wait: moment},
		{do: "expect", on: alpine, name: "ant", arg: "edited scripts"},
		{do: "restore", on: alpine},
		{do: "await", name: "ant", arg: "run again"},
		{do: "restore", on: hubName},
	}},
	// One hub has replaced a run, and is gone. What the other one, which does not know of that, would put back of it
	// would have the new run do what the old one did.
	{"one of two hubs repairs", []step{
		{do: "create", on: "red", name: "ant", arg: traitOne + "," + traitReplace, n: 60},
		{do: "await", on: alpine, name: "ant", arg: "pods"},
		{do: "break", on: hubName, arg: "rival"},
		{do: "command", name: "ant", arg: "work-1"},
		{do: "await", on: alpine, name: "ant", arg: "scripts of work-1"},
		{do: "await", name: "ant", arg: "seen"},
		{do: "await", on: alpine, name: "ant", arg: "pods"},
		{do: "kill-rival"},
		{do: "delete-object", on: alpine, name: "ant", arg: "ConfigMap", wait: 4 * moment}, // it is given five seconds after the start
		{do: "expect", on: alpine, name: "ant", arg: "no scripts"},
		{do: "restore", on: hubName},
		{do: "touch", name: "ant", arg: "1"},
		{do: "await", on: alpine, name: "ant", arg: "scripts of work-1"},
		{do: "end-pods", on: alpine, name: "ant"},
		{do: "await", on: alpine, name: "ant", arg: succeeded},
	}},
	// The hub has created a Job that its cache of the member does not show, and looks for it: first it is there,
	// then the member cannot be asked, each time in another way. It is suspended, so that no pod gives it away.
	{"a member's cache is behind", []step{
		{do: "break", on: alpine, arg: "stale"},
		{do: "create", on: "red", name: "ant", arg: traitOne, n: 60},
		{do: "await", on: alpine, name: "ant", arg: running},
		{do: "await", on: alpine, name: "ant", arg: "pods"},
		{do: "suspend", name: "ant", arg: "true"},
		{do: "await", on: alpine, name: "ant", arg: "no pods"},
		{do: "await", name: "ant", arg: "seen"},
		{do: "break", on: alpine, arg: "deaf-jobs"},
		{do: "touch", name: "ant", arg: "1"},
		{do: "await", on: alpine, arg: "failures", n: 1},
		{do: "touch", name: "ant", arg: "2"},
		{do: "await", on: alpine, arg: "failures", n: 2},
		{do: "touch", name: "ant", arg: "3"},
		{do: "await", on: alpine, arg: "failures", n: 3},
		{do: "retries", name: "ant", n: 1},
		{do: "await", name: "ant", arg: "seen"},
		{do: "expect", on: alpine, name: "ant", arg: running},
		{do: "restore", on: alpine},
		{do: "suspend", name: "ant", arg: "false"},
		{do: "await", on: alpine, name: "ant", arg: "pods"},
		{do: "end-pods", on: alpine, name: "ant"},
		{do: "await", on: alpine, name: "ant", arg: succeeded},
	}},
	// What moves waits for what is live, also when the hub is restarted.
	{"moved while it is live", []step{
		{do: "create", on: "red", name: "ant", arg: traitOne, n: 60},
		{do: "await", on: alpine, name: "ant", arg: running},
		{do: "move", on: "blue", name: "ant", arg: "work-1"},
		{do: "await", name: "ant", arg: "seen"},
		{do: "kill-hub"},
		{do: "retries", name: "ant", n: 1},
		{do: "await", name: "ant", arg: "seen", wait: moment},
		{do: "expect", on: basalt, name: "ant", arg: "no job"},
		{do: "await", on: alpine, name: "ant", arg: "pods"},
		{do: "end-pods", on: alpine, name: "ant"},
		{do: "await", on: basalt, name: "ant", arg: "pods"},
		{do: "end-pods", on: basalt, name: "ant"},
		{do: "await", on: basalt, name: "ant", arg: succeeded},
	}},
	// What is drained goes elsewhere, when nothing of it is left.
	{"a member is drained", []step{
		{do: "create", on: "red", name: "ant", arg: traitOne, n: 60},
		{do: "await", on: alpine, name: "ant", arg: "pods"},
		{do: "place", name: "ant"},
		{do: "await", name: "ant", arg: "seen"},
		{do: "drain", on: alpine, arg: "true"},
		{do: "kill-hub"},
		{do: "await", on: basalt, name: "ant", arg: "pods"},
		{do: "expect", on: alpine, name: "ant", arg: "no job"},
		{do: "drain", on: alpine, arg: "false", wait: moment},
		{do: "expect", on: alpine, name: "ant", arg: "no job"},
		{do: "end-pods", on: basalt, name: "ant"},
		{do: "await", on: basalt, name: "ant", arg: succeeded},
	}},
	// The member is away, the hub is restarted, and asked for another run: all of that has to wait until the
	// member is back.
	{"a member is away", []step{
		{do: "create", on: "red", name: "ant", arg: traitOne, n: 60},
		{do: "await", on: alpine, name: "ant", arg: running},
		{do: "place", name: "ant"},
		{do: "await", name: "ant", arg: "seen"},
		{do: "break", on: alpine, arg: "refuse"},
		{do: "await", on: alpine, name: "ant", arg: "lost"},
		{do: "kill-hub"},
		{do: "retries", name: "ant", n: 1},
		{do: "await", name: "ant", arg: "seen"},
		{do: "command", name: "ant", arg: "work-1"},
		{do: "await", name: "ant", arg: "seen", wait: moment},
		{do: "expect", on: basalt, name: "ant", arg: "no job"},
		{do: "expect", on: alpine, name: "ant", arg: running},
		{do: "restore", on: alpine},
		{do: "await", on: alpine, name: "ant", arg: "heard"},
		{do: "end-pods", on: alpine, name: "ant"},
		{do: "await", name: "ant", arg: "begun again"},
		{do: "delete", name: "ant"},
	}},
	// The hub is put back to what it was before a run began, and to nothing at all: members tell what has run, and what
	// has not ended goes on.
	{"a hub is restored and rebuilt", []step{
		{do: "create", on: "red", name: "ant", arg: traitOne, n: 60},
		{do: "back-up"},
		{do: "create", on: "red", name: "bee", arg: traitOne + "," + traitTidy},
		{do: "await", on: alpine, name: "ant", arg: "pods"},
		{do: "await", on: alpine, name: "bee", arg: succeeded},
		{do: "await", on: alpine, name: "bee", arg: "no job"},
		{do: "place", name: "ant"},
		{do: "place", name: "bee"},
		{do: "unmark-job", on: alpine, name: "ant"},
		{do: "restore-backup", arg: oldHubStopped, wait: moment},
		{do: "await", on: alpine, name: "ant", arg: running},
		{do: "await", on: alpine, name: "bee", arg: succeeded},
		{do: "rebuild-hub", arg: oldHubStopped, wait: moment},
		{do: "await", on: alpine, name: "ant", arg: running},
		{do: "await", on: alpine, name: "bee", arg: succeeded},
		{do: "empty-status", n: len(undivided[0].names), arg: podsEnd},
		{do: "await", on: alpine, name: "ant", arg: succeeded},
		{do: "await", on: alpine, name: "bee", arg: succeeded},
		{do: "expect", on: basalt, name: "ant", arg: "no job"},
		{do: "expect", on: basalt, name: "bee", arg: "no job"},
		{do: "delete", name: "ant"},
		{do: "delete", name: "bee"},
	}},
	// Somebody else has the room, the hub is restarted, and then there is room.
	{"a member is full", []step{
		{do: "fill", on: alpine},
		{do: "create", on: "red", name: "ant", arg: traitOne + "," + traitBig},
		{do: "await", name: "ant", arg: v1alpha1.ReasonInsufficientCapacity},
		{do: "kill-hub"},
		{do: "create", on: "red", name: "bee", arg: traitOne},
		{do: "await", on: alpine, name: "bee", arg: succeeded},
		{do: "expect", on: alpine, name: "ant", arg: "no job"},
		{do: "free", on: alpine},
		{do: "await", on: alpine, name: "ant", arg: succeeded},
	}},
}

// follow plays a directed schedule in a new namespace, and checks what has happened.
func (f *fleet) follow(t *testing.T, d schedule) {
	f.enter(t, strings.NewReplacer(" ", "-", "'", "").Replace(d.name))
	story := newTrace(t, d.name)
	for _, err := range f.perform(t, story, d.steps) {
		t.Error(err)
	}
	f.judge(t, story)
}

// awaitLimit is how long a state is awaited. Whatever is awaited takes a second or two.
const awaitLimit = 30 * time.Second

// awaitState waits until something is so; see isSo.
func awaitState(ctx context.Context, f *fleet, s step) error {
	var err error
	for end := time.Now().Add(awaitLimit); time.Now().Before(end); pause(50) {
		if err = isSo(ctx, f, s); err == nil {
			return nil
		}
	}
	return fmt.Errorf("waited %s: %w", awaitLimit, err)
}

// expectState wants something to be so now.
func expectState(ctx context.Context, f *fleet, s step) error { return isSo(ctx, f, s) }

// isSo says why something is not so: a state of a run, the reason of Ready, or one of those below.
func isSo(ctx context.Context, f *fleet, s step) error {
	if s.arg == "failures" {
		return failures(f, s)
	}
	if state, ok := onMember[s.arg]; ok {
		return state(ctx, f, s)
	}
	obj, err := f.get(ctx, s.name)
	if err != nil {
		return err
	}
	now := readyReason(obj)
	switch run := lastRun(obj, s.on); {
	case s.arg == "seen":
		now = fmt.Sprintf("generation %d, of which the status is about %d", obj.Generation, obj.Status.ObservedGeneration)
		if obj.Generation == obj.Status.ObservedGeneration {
			return nil
		}
	case s.arg == "lost" || s.arg == "heard":
		i := slices.IndexFunc(obj.Status.Clusters, func(c v1alpha1.ClusterStatus) bool { return c.Name == s.on })
		if i >= 0 && (obj.Status.Clusters[i].Sync == v1alpha1.SyncUnknown) == (s.arg == "lost") {
			return nil
		}
	case s.arg == "begun again" || s.arg == "run again":
		ended := 0
		for _, r := range obj.Status.Runs {
			if r.State == v1alpha1.RunSucceeded {
				ended++
			}
		}
		now = fmt.Sprintf("%d of %d runs have succeeded", ended, len(obj.Status.Runs))
		if len(obj.Status.Runs) == 2 && (ended == 2 || ended == 1 && s.arg == "begun again") {
			return nil
		}
	case s.on != "" && run != nil:
		now = string(run.State)
	}
	if now != s.arg {
		return fmt.Errorf("it is %q", now)
	}
	return nil
}

func lastRun(obj *v1alpha1.FleetMiniCluster, member string) *v1alpha1.Run {
	var last *v1alpha1.Run
	for i := range obj.Status.Runs {
		if obj.Status.Runs[i].Cluster == member {
			last = &obj.Status.Runs[i]
		}
	}
	return last
}

// failures are requests that a member's gateway has failed since it began to.
func failures(f *fleet, s step) error {
	if n := f.gateways[s.on].Failed() - f.failed[s.on]; n < s.n {
		return fmt.Errorf("%d requests have failed", n)
	}
	return nil
}

// onMember are states of what a member has.
var onMember = map[string]func(context.Context, *fleet, step) error{
	"no job": func(ctx context.Context, f *fleet, s step) error {
		err := f.clients[s.on].Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: s.name}, &batchv1.Job{})
		if err == nil {
			return fmt.Errorf("there is a Job")
		}
		return client.IgnoreNotFound(err)
	},
	"no scripts": func(ctx context.Context, f *fleet, s step) error {
		obj, err := f.object(ctx, step{on: s.on, name: s.name, arg: "ConfigMap"})
		if err == nil {
			return fmt.Errorf("there is %s", obj.GetName())
		}
		if errors.Is(err, errNothing) {
			return nil
		}
		return err
	},
	"scripts of work-1": func(ctx context.Context, f *fleet, s step) error {
		obj, err := f.object(ctx, step{on: s.on, name: s.name, arg: "ConfigMap"})
		if err != nil {
			return err
		}
		for _, script := range obj.(*corev1.ConfigMap).Data {
			if strings.Contains(script, "work-1") {
				return nil
			}
		}
		return errors.New("they are others")
	},
	// Those that somebody has edited: they were not deleted since.
	"edited scripts": func(ctx context.Context, f *fleet, s step) error {
		obj, err := f.object(ctx, step{on: s.on, name: s.name, arg: "ConfigMap"})
		if err == nil && obj.GetUID() != f.edited {
			return errors.New("there are others")
		}
		return err
	},
	"pods": func(ctx context.Context, f *fleet, s step) error {
		if n, err := f.livePods(ctx, s); err != nil || n > 0 {
			return err
		}
		return errNothing
	},
	"no pods": func(ctx context.Context, f *fleet, s step) error {
		n, err := f.livePods(ctx, s)
		if n > 0 {
			return fmt.Errorf("%d pods run", n)
		}
		return err
	},
}

// livePods is how many pods of a MiniCluster run on a member.
func (f *fleet) livePods(ctx context.Context, s step) (int, error) {
	var list corev1.PodList
	err := f.clients[s.on].List(ctx, &list, client.InNamespace(f.namespace), client.MatchingLabels{v1alpha1.LabelOwner: s.name})
	n := 0
	for i := range list.Items {
		if list.Items[i].Status.Phase == corev1.PodRunning {
			n++
		}
	}
	return n, err
}
