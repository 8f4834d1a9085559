package view_test

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/view"
)

func at(before time.Duration) *time.Time {
	t := noon.Add(-before)
	return &t
}

func stamp(before time.Duration) *metav1.Time {
	t := metav1.NewTime(noon.Add(-before))
	return &t
}

type edit func(*v1alpha1.FleetMiniCluster)

// miniCluster is hpc/lammps, created an hour ago, with 4 pods.
func miniCluster(edits ...edit) *v1alpha1.FleetMiniCluster {
	f := &v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "lammps", UID: "u", CreationTimestamp: *stamp(time.Hour), Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec:       v1alpha1.FleetMiniClusterSpec{MiniCluster: fluxv1alpha2.MiniClusterSpec{Size: 4}},
	}
	for _, e := range edits {
		e(f)
	}
	return f
}

func named(namespace, name string) edit {
	return func(f *v1alpha1.FleetMiniCluster) { f.Namespace, f.Name = namespace, name }
}

func labelled(key, value string) edit {
	return func(f *v1alpha1.FleetMiniCluster) { f.Labels[key] = value }
}

func state(s v1alpha1.State) edit {
	return func(f *v1alpha1.FleetMiniCluster) { f.Status.State = s }
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) edit {
	return func(f *v1alpha1.FleetMiniCluster) {
		f.Status.Conditions = append(f.Status.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: *stamp(5 * time.Minute),
		})
	}
}

// on adds the latest run on a chosen member, begun 20 minutes ago; it has run for 19, or ended 7 minutes ago.
func on(member, id string, s v1alpha1.RunState, edits ...func(*v1alpha1.Run)) edit {
	return func(f *v1alpha1.FleetMiniCluster) {
		r := v1alpha1.Run{ID: id, Cluster: member, Digest: "d", State: s, StartTime: stamp(20 * time.Minute), RunningTime: stamp(19 * time.Minute)}
		line := v1alpha1.ClusterStatus{Name: member, Run: id, State: s, Sync: v1alpha1.Synced, Health: v1alpha1.Progressing, Pods: v1alpha1.PodCounts{Desired: 4, Ready: 4}}
		if s.Ended() {
			r.CompletionTime = stamp(7 * time.Minute)
			line.Pods = v1alpha1.PodCounts{Desired: 4, Succeeded: 4}
		}
		for _, e := range edits {
			e(&r)
		}
		f.Status.Runs = append(f.Status.Runs, r)
		f.Status.Clusters = append(f.Status.Clusters, line)
		chosen(member)(f)
	}
}

func chosen(member string) edit {
	return func(f *v1alpha1.FleetMiniCluster) {
		if f.Status.Placement == nil {
			f.Status.Placement = &v1alpha1.PlacementDecision{}
		}
		f.Status.Placement.Clusters = append(f.Status.Placement.Clusters, member)
		f.Status.Placement.Wanted++
	}
}

func waitsFor(member, reason string) edit {
	return func(f *v1alpha1.FleetMiniCluster) {
		if f.Status.Placement == nil {
			f.Status.Placement = &v1alpha1.PlacementDecision{Wanted: 1}
		}
		f.Status.Placement.Waiting = append(f.Status.Placement.Waiting, v1alpha1.RejectedCluster{Name: member, Reason: reason})
	}
}

// line changes what the status says of a member.
func line(member string, change func(*v1alpha1.ClusterStatus)) edit {
	return func(f *v1alpha1.FleetMiniCluster) {
		for i := range f.Status.Clusters {
			if f.Status.Clusters[i].Name == member {
				change(&f.Status.Clusters[i])
			}
		}
	}
}

func losing(member string) view.Context {
	return view.Context{Stale: map[string]view.Stale{member: {Member: member, Since: at(10 * time.Minute)}}}
}

func entries(all ...*v1alpha1.FleetMiniCluster) []*view.Entry {
	out := make([]*view.Entry, len(all))
	for i, f := range all {
		out[i] = view.EntryOf(f, view.Context{})
	}
	return out
}

func noContext(*view.Entry) view.Context { return view.Context{} }
