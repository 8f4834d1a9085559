package plan

import (
	"fmt"
	"strconv"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/render"
)

// Rendering is what the objects of a run on a member are made of.
type Rendering struct {
	Object *v1alpha1.FleetMiniCluster
	// Namespace is the one on the member.
	Namespace string
	// Spec is the MiniCluster as the member gets it. Valid says that it was found to be.
	Spec  *fluxv1alpha2.MiniClusterSpec
	Valid bool
	// Origin marks everything of the object.
	Origin    fleet.Origin
	CurveCert []byte
	// Keyless is that of render.Input.
	Keyless bool
	Suspend bool
	// Run is what the objects are for; nil for none.
	Run *v1alpha1.Run
}

// Objects are those of a run on a member. The Job is not held back yet.
func (r Rendering) Objects() (*render.Bundle, error) {
	bundle, err := render.Render(r.input())
	if err != nil {
		return nil, fmt.Errorf("rendering: %w", err)
	}
	if r.Run != nil {
		bundle.Job.Annotations[v1alpha1.AnnotationRunDigest] = r.Run.Digest
		bundle.Job.Annotations[v1alpha1.AnnotationSuspended] = strconv.FormatBool(r.Suspend)
		if r.Run.RerunAt != "" {
			bundle.Job.Annotations[v1alpha1.AnnotationRunToken] = r.Run.RerunAt
		}
	}
	return bundle, nil
}

// Support are those that the pods of a run need: the same as Objects, without the Job and the pod of services.
func (r Rendering) Support() (*render.Bundle, error) {
	bundle, err := render.Support(r.input())
	if err != nil {
		return nil, fmt.Errorf("rendering: %w", err)
	}
	return bundle, nil
}

func (r Rendering) input() render.Input {
	in := render.Input{
		Name: r.Object.Name, Namespace: r.Namespace, Spec: *r.Spec, Valid: r.Valid, CurveCert: r.CurveCert, Keyless: r.Keyless,
		Suspend: r.Suspend, Origin: r.Origin,
	}
	if r.Run != nil {
		in.RunID = r.Run.ID
	}
	return in
}

// VariantFor is the MiniCluster as a member with these labels gets it from a placement, provided that it is allowed.
func VariantFor(object *v1alpha1.FleetMiniCluster, placement *v1alpha1.PlacementSpec, labels map[string]string) *Variant {
	v := &Variants{object: object}
	if placement != nil {
		v.overrides = placement.Overrides
	}
	return v.make(labels)
}
