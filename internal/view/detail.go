package view

import (
	"maps"
	"slices"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
)

// maxImages is how many images are told of.
const maxImages = 20

// Detail is all that is known of a FleetMiniCluster, but for what only the server can tell: place, actions, logs, cursor.
func Detail(e *Entry, c Context) MiniCluster {
	f := e.Object
	spec := &f.Spec.MiniCluster
	out := MiniCluster{
		Row: e.For(c.Sees, 0), Size: sizeOf(f), MaxSize: spec.MaxSize, Images: imagesOf(spec, &c), Command: commandOf(spec, &c),
		Priority: f.Spec.Priority, OnChange: string(f.Spec.OnChange), Retries: f.Spec.Retries,
		SourcePath: c.text(f.Annotations[v1alpha1.AnnotationSourcePath], maxText), Labels: labelsOf(f.Labels),
		Conditions: conditionsOf(f.Status.Conditions, &c), OnMembers: OnMembers(f, c),
		Rejected: []Rejected{}, WaitingFor: []Rejected{}, Runs: RunsOf(f, &c), Actions: []Action{},
	}
	if spec.Tasks != nil {
		out.Tasks = *spec.Tasks
	}
	if p := f.Status.Placement; p != nil {
		out.Wanted, out.Rejected, out.WaitingFor = p.Wanted, rejectedOf(p.Rejected, &c), rejectedOf(p.Waiting, &c)
	}
	slices.Reverse(out.Runs)
	return out
}

func labelsOf(labels map[string]string) map[string]string {
	if labels == nil {
		return map[string]string{}
	}
	return maps.Clone(labels)
}

func imagesOf(spec *fluxv1alpha2.MiniClusterSpec, c *Context) []string {
	out := []string{}
	add := func(image string) {
		if image = c.text(image, maxText); image != "" && !slices.Contains(out, image) && len(out) < maxImages {
			out = append(out, image)
		}
	}
	for i := range spec.Containers {
		add(spec.Containers[i].Image)
	}
	for i := range spec.Services {
		add(spec.Services[i].Image)
	}
	return out
}

// commandOf is the command that runs under Flux.
func commandOf(spec *fluxv1alpha2.MiniClusterSpec, c *Context) string {
	for i := range spec.Containers {
		if spec.Containers[i].RunFlux || len(spec.Containers) == 1 {
			return c.text(spec.Containers[i].Command, maxText)
		}
	}
	return ""
}

func rejectedOf(list []v1alpha1.RejectedCluster, c *Context) []Rejected {
	out := make([]Rejected, 0, len(list))
	for _, r := range list {
		out = append(out, Rejected{Member: r.Name, Reason: c.text(r.Reason, maxText)})
	}
	return out
}

// OnMembers is a FleetMiniCluster on each member that has, or is to have, something of it.
func OnMembers(f *v1alpha1.FleetMiniCluster, c Context) []OnMember {
	out := make([]OnMember, 0, len(f.Status.Clusters))
	for i := range f.Status.Clusters {
		out = append(out, onMember(f, &f.Status.Clusters[i], &c))
	}
	for _, name := range membersOf(f) {
		if isChosen(f, name) && clusterOf(f, name) == nil {
			out = append(out, onMember(f, &v1alpha1.ClusterStatus{Name: name, Sync: v1alpha1.OutOfSync, Health: v1alpha1.Missing}, &c))
		}
	}
	return out
}

func onMember(f *v1alpha1.FleetMiniCluster, line *v1alpha1.ClusterStatus, c *Context) OnMember {
	out := OnMember{
		Member: line.Name, Chosen: isChosen(f, line.Name), Sync: orUnknown(string(line.Sync)), Health: string(line.Health), Run: line.Run,
		Pods:   Pods{Desired: line.Pods.Desired, Ready: line.Pods.Ready, Succeeded: line.Pods.Succeeded, Failed: line.Pods.Failed},
		Reason: line.Reason, Message: c.text(line.Message, maxText), Overrides: []string{}, StaleSince: staleMember(f, line.Name, c),
	}
	out.State = stateOnMember(f, line, c)
	if isStale(f, line.Name, c) {
		out.Sync = string(v1alpha1.SyncUnknown)
		if out.State == string(v1alpha1.StateUnknown) {
			out.Health = string(v1alpha1.HealthUnknown)
		}
	}
	if p := f.Status.Placement; p != nil {
		for _, d := range p.Decisions {
			if d.Name == line.Name {
				out.Score, out.Because, out.Overrides = d.Score, c.text(d.Reason, maxText), append(out.Overrides, d.Overrides...)
			}
		}
	}
	return out
}

func stateOnMember(f *v1alpha1.FleetMiniCluster, line *v1alpha1.ClusterStatus, c *Context) string {
	r := latestRun(f, line)
	switch {
	case r == nil && isStale(f, line.Name, c):
		return string(v1alpha1.StateUnknown)
	case r == nil && f.Suspended():
		return string(v1alpha1.StateSuspended)
	case r == nil, r.State == v1alpha1.RunReplaced:
		return string(v1alpha1.StateWaiting)
	case r.State.Ended():
		return string(r.State) // Succeeded, Failed and Cancelled are states of a MiniCluster, too
	case isStale(f, line.Name, c):
		return string(v1alpha1.StateUnknown)
	default:
		return string(liveState(r))
	}
}
