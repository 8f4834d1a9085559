package fleetminicluster

import (
	"errors"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/fleetminicluster/references"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// problemOf says what a member refused, or, in unreachable, that it did not answer.
func problemOf(err error) (failed, unreachable *rollup.Problem) {
	message := sanitize.Text(clusters.Explain(err), sanitize.MaxMessage)
	var conflict *clusters.Conflict
	var reference *references.Error
	var denied *clusters.NamespaceDenied
	switch {
	case errors.As(err, &denied):
		return &rollup.Problem{Reason: v1alpha1.ReasonNamespaceDenied, Message: message}, nil
	case errors.As(err, &reference):
		return &rollup.Problem{Reason: reference.Reason, Message: message}, nil
	case errors.As(err, &conflict):
		return &rollup.Problem{Reason: v1alpha1.ReasonConflict, Message: message}, nil
	case clusters.Unanswered(err):
		return nil, &rollup.Problem{Reason: v1alpha1.ReasonMemberUnreachable, Message: message}
	default:
		return &rollup.Problem{Reason: v1alpha1.ReasonApplyFailed, Message: message}, nil
	}
}

// onlyOthersCanFix says whether an error stays until somebody else removes its cause.
func onlyOthersCanFix(err error) bool {
	var conflict *clusters.Conflict
	var reference *references.Error
	var denied *clusters.NamespaceDenied
	return errors.As(err, &denied) || errors.As(err, &conflict) || errors.As(err, &reference)
}

// podLeftError says that a pod of an earlier run is still on the member.
type podLeftError struct{ pod string }

func (e *podLeftError) Error() string {
	return "pod " + sanitize.Text(e.pod, 253) + " of an earlier run is still on the member; waiting until it is gone"
}
