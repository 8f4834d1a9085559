// Package condition sets the conditions of statuses. What comes in are an object and a condition, whose message
// may hold text of members or of files in Git; what goes out is in the object's status, and is safe to show.
package condition

import (
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/internal/sanitize"
)

// Set sets a condition for the object's generation.
//
// The time of its last transition changes with its status alone, as the Kubernetes API has it; conditions.Set
// takes another message for a transition as well. It tells since when a member has been away, whose errors differ.
func Set(object conditions.Setter, now time.Time, c *metav1.Condition) {
	before := conditions.Get(object, c.Type)
	set := *c
	set.Message = sanitize.Text(c.Message, sanitize.MaxMessage)
	conditions.Set(object, &set)
	transition := metav1.NewTime(now)
	if before != nil && before.Status == c.Status {
		transition = before.LastTransitionTime
	}
	all := object.GetConditions()
	for i := range all {
		if all[i].Type == c.Type {
			all[i].LastTransitionTime = transition
		}
	}
	object.SetConditions(all)
}
