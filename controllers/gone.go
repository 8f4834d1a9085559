package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// declareGone gives up live runs of which a person says that they are gone, on members that cannot be asked.
// It comes before the placement, which would keep them where they are. A member that returns with such a run
// still live is told to stop it (runs.Next). A person may also say of a whole member when it was gone.
func (p *pass) declareGone(members []v1alpha1.MemberCluster) {
	declared := runIDs(p.fmc.Annotations[v1alpha1.AnnotationRunGone])
	for i := range p.ledger {
		run := &p.ledger[i]
		if run.State.Ended() {
			continue
		}
		how := "annotation " + v1alpha1.AnnotationRunGone
		if !slices.Contains(declared, run.ID) {
			if how = goneWith(run, members, p.r.Now()); how == "" {
				continue
			}
		}
		if p.mayAnswer(run.Cluster, members) {
			continue // it knows better
		}
		run.State, run.Stop, run.CompletionTime = v1alpha1.RunReplaced, v1alpha1.StopDeclaredGone, p.now()
		run.Message = "declared gone (" + how + ") while its member could not be asked"
		p.note("Warning", v1alpha1.ReasonRunReplaced, "Finish", run.Cluster, run.ID, fmt.Sprintf("%s: run %s %s", run.Cluster, run.ID, run.Message))
	}
}

// mayAnswer says whether a member can be asked, or may be about to: the hub has just started, say, and the first
// attempt to connect it has not ended yet.
func (p *pass) mayAnswer(name string, members []v1alpha1.MemberCluster) bool {
	if _, err := p.r.Provider.Member(name); err == nil {
		return true
	}
	i := slices.IndexFunc(members, func(m v1alpha1.MemberCluster) bool { return m.Name == name })
	return i >= 0 && p.connecting(&members[i])
}

// goneWith says how a person has declared that a run's member is gone with all that ran there; empty if nobody
// has. That holds for a member that has not been heard of since the time that is said: once it returns, the
// annotation means nothing for the next time that it is lost. Nor does a time that has not come yet, but for clocks
// that differ.
func goneWith(run *v1alpha1.Run, members []v1alpha1.MemberCluster, now time.Time) string {
	i := slices.IndexFunc(members, func(m v1alpha1.MemberCluster) bool { return m.Name == run.Cluster })
	if i < 0 {
		return ""
	}
	m := &members[i]
	at, err := time.Parse(time.RFC3339, m.Annotations[v1alpha1.AnnotationMemberGone])
	ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	if err != nil || at.After(now.Add(time.Minute)) || ready == nil || ready.Status == metav1.ConditionTrue || m.Status.LastHeardTime == nil || m.Status.LastHeardTime.After(at) ||
		run.StartTime == nil || run.StartTime.After(at) {
		return ""
	}
	return "annotation " + v1alpha1.AnnotationMemberGone + " of MemberCluster " + m.Name
}

// returned are members that are not known to have anything of a FleetMiniCluster, and on which the caches show a Job
// of it: each was registered anew, with a run that was given up meanwhile, or a request that was sent long ago has made
// it after everything was removed there. They are in the ledger.
func (r *FleetMiniClusterReconciler) returned(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, known []string) []string {
	var names []string
	for i := range fmc.Status.Runs {
		m, err := r.Provider.Member(fmc.Status.Runs[i].Cluster)
		if err != nil || slices.Contains(known, m.Name) {
			continue // it is looked at when it is connected
		}
		key := types.NamespacedName{Namespace: m.TargetNamespace(fmc.Namespace), Name: fmc.Name}
		if job, err := m.Job(ctx, key, r.origin(fmc), false); err == nil && job != nil {
			names = append(names, m.Name)
		}
	}
	return names
}

// runIDs are the ids in an annotation.
func runIDs(list string) []string { return strings.FieldsFunc(list, isSeparator) }
