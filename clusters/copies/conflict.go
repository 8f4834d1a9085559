package copies

import (
	"cmp"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// Conflict says that the name of a copy is in use on a member. What has it is never overwritten.
type Conflict struct {
	Kind, Namespace, Name string
	// Source is NAMESPACE/NAME of another object of the hub that this is the copy of, or empty.
	Source string
	// Owner is NAMESPACE/NAME of the FleetMiniCluster whose run it is part of, or empty.
	Owner string
	// OtherNamespace says that it is of another namespace of the hub, which is not named.
	OtherNamespace bool
}

func (c *Conflict) Error() string {
	what := fmt.Sprintf("%s %s/%s on the member ", c.Kind, c.Namespace, c.Name)
	switch {
	case c.OtherNamespace:
		return what + "is what another namespace of the hub has there: give the hub's object another name, or register a member for each namespace of the hub (spec.namespace)"
	case c.Source != "":
		return what + "is the copy of " + c.Source + " of the hub: give one of the two another name, or register a member for each namespace of the hub (spec.namespace)"
	case c.Owner != "":
		return what + "is part of FleetMiniCluster " + c.Owner + ": give the hub's object another name"
	default:
		return what + "is not MiniFleet's, and is not overwritten: take the label " + v1alpha1.LabelPropagate +
			" off the hub's to use the member's own, or, when nothing uses that any more, remove it to have the hub's copied"
	}
}

func conflictOf(want, have client.Object, user fleet.Origin) *Conflict {
	c := &Conflict{Kind: Kind(want), Namespace: have.GetNamespace(), Name: have.GetName()}
	a := have.GetAnnotations()
	if a[v1alpha1.AnnotationFleetID] != user.FleetID {
		return c
	}
	source, owner := a[v1alpha1.AnnotationCopyOf], a[v1alpha1.AnnotationOwner]
	if of := cmp.Or(source, owner); of != "" && (fleet.Origin{Owner: of}).Namespace() != user.Namespace() {
		c.OtherNamespace = true
		return c
	}
	c.Source, c.Owner = source, owner
	return c
}
