package changes

import (
	"fmt"
	"testing"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// running is what Git declares for a FleetMiniCluster that runs a command.
func running(name, command string) parse.Object {
	f := &v1alpha1.FleetMiniCluster{}
	f.Spec.MiniCluster.Containers = []fluxv1alpha2.MiniClusterContainer{{Image: "app", Command: command}}
	return parse.Object{Kind: parse.KindFleetMiniCluster, Name: name, Path: name + ".yaml", FleetMiniCluster: f}
}

// applyRunning is what the hub has of that.
func applyRunning(name, command string) *v1alpha1.FleetMiniCluster {
	o := running(name, command)
	obj, _ := Desired(newSource(), &o)
	f := obj.(*v1alpha1.FleetMiniCluster)
	f.UID, f.ResourceVersion = "uid", "7"
	return f
}

// ranFor adds a run for a command to the ledger of a FleetMiniCluster.
func ranFor(f *v1alpha1.FleetMiniCluster, command, token string, state v1alpha1.RunState) {
	digest := wantedRun(applyRunning(f.Name, command)).digest
	f.Status.Runs = append(f.Status.Runs, v1alpha1.Run{ID: fmt.Sprint(len(f.Status.Runs)), Cluster: "alpine", Digest: digest, RerunAt: token, State: state})
}

func TestWouldStartAnew(t *testing.T) {
	type object = v1alpha1.FleetMiniCluster
	succeeded := func(f *object) { ranFor(f, "one", "", v1alpha1.RunSucceeded) }
	failed := func(f *object) { ranFor(f, "one", "", v1alpha1.RunFailed) }
	live := func(f *object) { ranFor(f, "one", "", v1alpha1.RunRunning) }
	other := func(f *object) { ranFor(f, "two", "", v1alpha1.RunFailed) }
	otherSucceeded := func(f *object) { ranFor(f, "two", "", v1alpha1.RunSucceeded) }
	again := func(f *object) { ranFor(f, "one", "now", v1alpha1.RunSucceeded) }
	elastic := func(f *object) { f.Spec.MiniCluster.MaxSize = 9 }
	asked := func(f *object) { f.Annotations[v1alpha1.AnnotationRerunAt] = "now" }
	retrying := func(f *object) { f.Spec.Retries = 3 }
	suspended := func(f *object) { f.Spec.Suspend = true }
	resized := func(f *object) { f.Spec.MiniCluster.Size = 7 }
	placed := func(f *object) { f.Spec.PlacementRef = &v1alpha1.LocalReference{Name: "elsewhere"} }
	for name, tc := range map[string]struct {
		on     string // the command of what is on the hub
		have   []func(*object)
		in     string // the command of what Git declares
		change []func(*object)
		want   bool
	}{
		"it never ran":                         {on: "one", in: "two"},
		"it is as it was":                      {on: "one", have: []func(*object){succeeded}, in: "one"},
		"it succeeded, and changes":            {on: "one", have: []func(*object){succeeded}, in: "two", want: true},
		"it failed, and changes":               {on: "one", have: []func(*object){failed}, in: "two", want: true},
		"it is live, and changes":              {on: "one", have: []func(*object){live}, in: "two", want: true},
		"it is suspended, and changes":         {on: "one", have: []func(*object){live, suspended}, in: "two", want: true},
		"it succeeded as it comes to be":       {on: "two", have: []func(*object){succeeded, other}, in: "one"},
		"it failed as it comes to be":          {on: "two", have: []func(*object){failed, otherSucceeded}, in: "one", want: true},
		"it was edited, and has not run since": {on: "two", have: []func(*object){live}, in: "one"},
		"it moves elsewhere":                   {on: "one", have: []func(*object){succeeded}, in: "one", change: []func(*object){placed}},
		"it is to be retried":                  {on: "one", have: []func(*object){failed}, in: "one", change: []func(*object){retrying}},
		"it is suspended":                      {on: "one", have: []func(*object){live}, in: "one", change: []func(*object){suspended}},
		"it is resized":                        {on: "one", have: []func(*object){succeeded}, in: "one", change: []func(*object){resized}, want: true},
		"it becomes elastic":                   {on: "one", have: []func(*object){succeeded}, in: "one", change: []func(*object){elastic}, want: true},
		"Git asks for it again":                {on: "one", have: []func(*object){succeeded}, in: "one", change: []func(*object){asked}, want: true},
		"Git asks as a person has":             {on: "one", have: []func(*object){succeeded, asked}, in: "one", change: []func(*object){asked}},
		"Git asks for what has run":            {on: "one", have: []func(*object){succeeded, again}, in: "one", change: []func(*object){asked}},
	} {
		have, want := applyRunning("m", tc.on), applyRunning("m", tc.in)
		for _, change := range tc.have {
			change(have)
		}
		for _, change := range tc.change {
			change(want)
		}
		if got := WouldStartAnew(have, want); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
	if placement := (&v1alpha1.Placement{}); WouldStartAnew(placement, placement) {
		t.Error("a Placement runs")
	}
}
