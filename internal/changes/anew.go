package changes

import (
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// WouldStartAnew says whether an update of a hub object would have it run again: it is a FleetMiniCluster that has run,
// and is to run for a digest or a rerun token that its latest run was not for. What has succeeded before for a digest
// is not repeated for that digest.
func WouldStartAnew(have, want Object) bool {
	before, ok := have.(*v1alpha1.FleetMiniCluster)
	if !ok || len(before.Status.Runs) == 0 {
		return false
	}
	after, ok := want.(*v1alpha1.FleetMiniCluster)
	if !ok {
		return false // not reachable: both have the kind of the key
	}
	was, is := wantedRun(before), wantedRun(after)
	if was == is {
		return false
	}
	wanted := runs.Wanted{Digest: is.digest, RerunAt: is.token}
	if wanted.IsCurrent(&before.Status.Runs[len(before.Status.Runs)-1]) {
		return false
	}
	return is.token != was.token || !hasSucceeded(&before.Status, is.digest)
}

// runIdentity says which runs are for what a FleetMiniCluster asks for.
type runIdentity struct{ digest, token string }

func wantedRun(f *v1alpha1.FleetMiniCluster) runIdentity {
	spec := f.Spec.MiniCluster.DeepCopy()
	spec.Default()
	return runIdentity{runs.Digest(f.Name, spec), sanitize.Text(f.Annotations[v1alpha1.AnnotationRerunAt], 253)}
}

// hasSucceeded says whether a run for a digest is in the ledger, or remembered beside it, that has succeeded.
func hasSucceeded(status *v1alpha1.FleetMiniClusterStatus, digest string) bool {
	for i := range status.Runs {
		if r := &status.Runs[i]; r.Digest == digest && r.State == v1alpha1.RunSucceeded {
			return true
		}
	}
	return slices.ContainsFunc(status.Succeeded, func(e v1alpha1.EndedRun) bool { return e.Digest == digest })
}
