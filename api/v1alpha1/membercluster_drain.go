package v1alpha1

import (
	"fmt"
	"strconv"
)

// Draining says why the live runs on a member are to be stopped, in a sentence that follows "its member"; empty
// if they are not. The error is about AnnotationDrain.
func (m *MemberCluster) Draining() (why string, err error) {
	if !m.DeletionTimestamp.IsZero() && m.Spec.DeletionPolicy == DeletionDrain {
		return "is being deleted (deletionPolicy: Drain)", nil
	}
	value, ok := m.Annotations[AnnotationDrain]
	if !ok || value == "" {
		return "", nil
	}
	drain, err := strconv.ParseBool(value)
	if err != nil {
		return "", fmt.Errorf("annotation %s: %q is neither true nor false: nothing is drained until it is one of them", AnnotationDrain, value)
	}
	if drain {
		return "is drained (annotation " + AnnotationDrain + ")", nil
	}
	return "", nil
}

// Closed says why no new run begins on a member, in a sentence that follows its name; empty if one may.
func (m *MemberCluster) Closed() string {
	why, _ := m.Draining()
	switch {
	case why != "":
		return why
	case !m.DeletionTimestamp.IsZero():
		return "is being deleted"
	case m.Spec.Suspend:
		return "is suspended (spec.suspend)"
	default:
		return ""
	}
}
