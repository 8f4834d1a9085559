package rollup

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// briefs say briefly what a reason of Ready means, for where the message is not repeated.
var briefs = map[string]string{
	v1alpha1.ReasonProgressing:          "the run is about to start",
	v1alpha1.ReasonInvalidSpec:          "the MiniCluster or its placement is not valid",
	v1alpha1.ReasonPolicyDenied:         "the MiniCluster needs permissions that it does not have",
	v1alpha1.ReasonPlacementNotFound:    "its Placement does not exist",
	v1alpha1.ReasonNoClusterMatches:     "no member may be chosen",
	v1alpha1.ReasonInvalidOverride:      "the overrides for it are not valid",
	v1alpha1.ReasonConflict:             "an object of the name is there already",
	v1alpha1.ReasonApplyFailed:          "the member has refused a request",
	v1alpha1.ReasonReferenceMissing:     "waits for a Secret or ConfigMap",
	v1alpha1.ReasonBindingMissing:       "MiniFleet may not read the Secrets and ConfigMaps that it names",
	v1alpha1.ReasonReferenceWithdrawn:   "a Secret or ConfigMap is offered no longer",
	v1alpha1.ReasonMemberUnreachable:    "nothing is known of it now",
	v1alpha1.ReasonInsufficientCapacity: "waits for room",
	v1alpha1.ReasonConnecting:           "what it has free is not known yet",
	v1alpha1.ReasonMemberClosed:         "no new run begins there",
	v1alpha1.ReasonMemberNotAsked:       "waits for a member that may hold a run of it",
	v1alpha1.ReasonWaitingForCompletion: "waits for a live run to end",
	v1alpha1.ReasonDeleting:             "waits until pods are deleted",
	v1alpha1.ReasonRunFailed:            "the last run has failed, and another one is about to start",
	v1alpha1.ReasonRetryWaiting:         "the last run has failed, and is to be tried again",
}

// briefly is what a reason means.
func briefly(reason string) string {
	if brief, ok := briefs[reason]; ok {
		return brief
	}
	return "not as it was asked for yet"
}

// ended says briefly how a run has ended, and is never empty. The whole is in the ledger.
func ended(r *v1alpha1.Run) string {
	switch {
	case r.State != v1alpha1.RunFailed:
		return cmp.Or(r.Message, strings.ToLower(string(r.State)))
	case r.Exit == nil || r.Exit.ExitCode == nil && r.Exit.Reason == "":
		return "failed"
	case r.Exit.ExitCode == nil:
		return "failed (" + r.Exit.Reason + ")"
	case r.Exit.Reason == "" || r.Exit.Reason == "Error":
		return fmt.Sprintf("failed with exit code %d", *r.Exit.ExitCode)
	default:
		return fmt.Sprintf("failed with exit code %d (%s)", *r.Exit.ExitCode, r.Exit.Reason)
	}
}
