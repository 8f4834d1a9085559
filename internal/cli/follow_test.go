package cli

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// story has a watch show an object as it becomes, step by step; a nil step ends the watch.
func story(steps ...func(client.Object)) interceptor.Funcs {
	var current client.Object
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := c.Get(ctx, key, o, opts...); err != nil || current == nil {
				return err
			}
			switch into := o.(type) {
			case *v1alpha1.FleetMiniCluster:
				if from, ok := current.(*v1alpha1.FleetMiniCluster); ok {
					from.DeepCopyInto(into)
				}
			case *v1alpha1.GitSource:
				if from, ok := current.(*v1alpha1.GitSource); ok {
					from.DeepCopyInto(into)
				}
			}
			return nil
		},
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
			if current == nil {
				current = first(ctx, c, list)
			}
			events := watch.NewRaceFreeFake()
			go func() {
				defer events.Stop()
				for len(steps) > 0 {
					step := steps[0]
					steps = steps[1:]
					if step == nil {
						return
					}
					next, _ := current.DeepCopyObject().(client.Object)
					step(next)
					current = next
					if !next.GetDeletionTimestamp().IsZero() {
						events.Delete(next)
						return
					}
					events.Modify(next)
				}
				<-ctx.Done()
			}()
			return events, nil
		},
	}
}

func first(ctx context.Context, c client.Client, list client.ObjectList) client.Object {
	if _, ok := list.(*v1alpha1.GitSourceList); ok {
		s := &v1alpha1.GitSource{}
		_ = c.Get(ctx, client.ObjectKey{Namespace: "hpc", Name: "fleet"}, s)
		return s
	}
	var all v1alpha1.FleetMiniClusterList
	_ = c.List(ctx, &all, client.InNamespace("hpc"))
	i := slices.IndexFunc(all.Items, func(f v1alpha1.FleetMiniCluster) bool { return f.Name == "new" })
	return &all.Items[max(i, 0)]
}

func becomes(state v1alpha1.State, message string, conditions ...string) func(client.Object) {
	return func(o client.Object) {
		f := o.(*v1alpha1.FleetMiniCluster)
		f.Status = v1alpha1.FleetMiniClusterStatus{State: state, ObservedGeneration: f.Generation, LastHandledRerunAt: f.Annotations[v1alpha1.AnnotationRerunAt]}
		why(metav1.ConditionTrue, v1alpha1.ReasonSynced, message)(f)
		for _, kind := range conditions {
			holds(kind)(f)
		}
		f.Status.Summary = &v1alpha1.Summary{Pods: "4/4"}
	}
}

func deleted(o client.Object) { o.SetDeletionTimestamp(ago(0)) }

// stale has succeeded at what was asked for before the latest edit.
func stale(o client.Object) {
	becomes(v1alpha1.StateSucceeded, "succeeded", v1alpha1.ConditionComplete)(o)
	f := o.(*v1alpha1.FleetMiniCluster)
	f.Status.ObservedGeneration--
}

func TestFollow(t *testing.T) {
	waiting := becomes(v1alpha1.StateWaiting, "waits for room")
	running := becomes(v1alpha1.StateRunning, "4 of 4 pods ready")
	succeeded := becomes(v1alpha1.StateSucceeded, "succeeded on alpine", v1alpha1.ConditionComplete)
	failed := becomes(v1alpha1.StateFailed, "exit code 42", v1alpha1.ConditionFailed)
	invalid := becomes(v1alpha1.StateInvalid, "spec.size: must be at least 1", v1alpha1.ConditionStalled)
	handled := func(o client.Object) {
		o.(*v1alpha1.GitSource).Status.LastHandledReconcileAt = "2026-05-04T12:00:00.000000000Z"
	}
	handledLater := func(o client.Object) { // somebody has asked in the way of Flux CD
		metav1.SetMetaDataAnnotation(&o.(*v1alpha1.GitSource).ObjectMeta, v1alpha1.AnnotationRequestedAt, "2026-05-04T12:00:01Z")
		o.(*v1alpha1.GitSource).Status.LastHandledReconcileAt = "2026-05-04T12:00:01Z"
	}
	healthy := func(o client.Object) {
		o.(*v1alpha1.GitSource).Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "applied")}
	}
	never := func(client.Object) {}
	cases := map[string]struct {
		args  []string
		steps []func(client.Object)
		code  int
	}{
		"wait until it has succeeded":                    {[]string{"wait", "new"}, []func(client.Object){waiting, running, nil, running, stale, succeeded}, 0},
		"wait until it has failed":                       {[]string{"wait", "new"}, []func(client.Object){running, failed}, 1},
		"wait for what cannot run":                       {[]string{"wait", "new"}, []func(client.Object){invalid}, 1},
		"wait for what is deleted":                       {[]string{"wait", "new"}, []func(client.Object){running, deleted}, 2},
		"wait for what does not end":                     {[]string{"wait", "new", "--timeout", "300ms"}, []func(client.Object){running}, 3},
		"rerun and wait":                                 {[]string{"rerun", "new", "--wait"}, []func(client.Object){running, succeeded}, 0},
		"rerun and wait, failed":                         {[]string{"rerun", "new", "--wait"}, []func(client.Object){failed}, 1},
		"run to its end":                                 {[]string{"run", "new2", "--image", "a"}, []func(client.Object){waiting, waiting, running, nil, succeeded}, 0},
		"run to failure":                                 {[]string{"run", "new2", "--image", "a"}, []func(client.Object){running, failed}, 1},
		"run too long":                                   {[]string{"run", "new2", "--image", "a", "--timeout", "300ms"}, []func(client.Object){running}, 3},
		"reconcile until it was read":                    {[]string{"reconcile", "lammps"}, []func(client.Object){never, handled}, 1},
		"reconcile and print":                            {[]string{"source", "reconcile", "fleet", "-o", "name"}, []func(client.Object){healthy, handled}, 0},
		"reconcile, and it was read for a later request": {[]string{"source", "reconcile", "fleet", "-o", "name"}, []func(client.Object){healthy, handledLater}, 0},
		"reconcile what is not read":                     {[]string{"source", "reconcile", "fleet", "--timeout", "300ms"}, []func(client.Object){never}, 1},
		"reconcile what gets deleted":                    {[]string{"source", "reconcile", "fleet"}, []func(client.Object){deleted}, 1},
		"rerun and wait for too short":                   {[]string{"rerun", "new", "--wait", "--timeout", "300ms"}, []func(client.Object){running}, 3},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := scene{objects: fleet(), funcs: story(c.steps...)}
			if c.args[0] == "run" {
				s.objects = nil
			}
			code, stdout, stderr, _ := play(t, s, c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			golden(t, strings.ReplaceAll(name, ",", ""), transcript(c.args, code, stdout, stderr))
		})
	}
}

func TestInterrupted(t *testing.T) {
	s := scene{funcs: story(becomes(v1alpha1.StateRunning, "4 of 4 pods ready"))}
	s.funcs.Watch = func(_ context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
		return watch.NewEmptyWatch(), nil
	}
	s.edit = func(env *environment) {
		env.wait = func(context.Context, time.Duration) error { return context.Canceled }
	}
	code, _, stderr, _ := play(t, s, "run", "new", "--image", "a")
	if code != 2 || !strings.Contains(stderr, "interrupted") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
