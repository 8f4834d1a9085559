package fleetminicluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/clusters/copies"
	"github.com/minifleet/minifleet/controllers/internal/hubobjects"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// referenceError says what of a MiniCluster's Secrets and ConfigMaps a member cannot be given.
type referenceError struct{ reason, message string }

func (e *referenceError) Error() string { return e.message }

// references are those of a FleetMiniCluster.
func references(fmc *v1alpha1.FleetMiniCluster) []fluxv1alpha2.Reference {
	return fluxv1alpha2.References(&fmc.Spec.MiniCluster, field.NewPath("spec", "miniCluster"))
}

// bring is what is done with an object of the hub that a member is to have a copy of.
type bring func(ctx context.Context, m *clusters.Member, source client.Object, namespace string, user fleet.Origin) error

// checkCopy finds out whether it could be copied. Nothing is changed.
func checkCopy(ctx context.Context, m *clusters.Member, source client.Object, namespace string, user fleet.Origin) error {
	return copies.Check(ctx, m, source, namespace, user)
}

// ensureCopy copies it. The ledger speaks of the run already, so that no copy is on a member that the hub does not know
// to have something.
func ensureCopy(ctx context.Context, m *clusters.Member, source client.Object, namespace string, user fleet.Origin) error {
	_, err := copies.Ensure(ctx, m, source, namespace, user)
	return err
}

// satisfy goes through the references of the MiniCluster. What the hub offers is brought; of everything else the member
// must have its own. The error is a *referenceError that names all that is missing.
func (c *reconciliation) satisfy(ctx context.Context, m *clusters.Member, refs []fluxv1alpha2.Reference, bring bring) error {
	var missing, conflicts []string
	for _, ref := range refs {
		lack, err := c.satisfyOne(ctx, m, ref, bring)
		var conflict *copies.Conflict
		switch {
		case errors.As(err, &conflict):
			conflicts = append(conflicts, conflict.Error())
		case err != nil:
			return err
		case lack != "":
			missing = append(missing, lack)
		}
	}
	switch {
	case len(missing) > 0:
		return &referenceError{v1alpha1.ReasonReferenceMissing, strings.Join(append(missing, conflicts...), "; ")}
	case len(conflicts) > 0:
		return &referenceError{v1alpha1.ReasonConflict, strings.Join(conflicts, "; ")}
	default:
		return nil
	}
}

// satisfyOne says what a member lacks of one reference, if anything.
func (c *reconciliation) satisfyOne(ctx context.Context, m *clusters.Member, ref fluxv1alpha2.Reference, bring bring) (lack string, err error) {
	key, namespace := c.hubKey(ref.Kind, ref.Name), c.snapshot.Object.Namespace
	source, err := c.hubObjects.Get(ctx, key, c.snapshot.Now)
	if err != nil {
		return "", err
	}
	inPlace := c.isHub(m, namespace)
	var found client.Object
	if offer := hubobjects.OfferOf(key, source); offer.OK() || inPlace {
		if found = source; !inPlace {
			err = bring(ctx, m, source, m.TargetNamespace(namespace), c.origin(c.snapshot.Object))
		}
	} else {
		found, err = c.membersOwn(ctx, m, ref)
	}
	switch {
	case err != nil:
		return "", err
	case found == nil:
		return c.missing(m, ref, source), nil
	}
	if keys := hubobjects.MissingKeys(found, ref.Keys); len(keys) > 0 {
		return c.missingKeys(m, ref, found == source, keys), nil
	}
	return "", nil
}

func (c *reconciliation) hubKey(kind, name string) hubobjects.Key {
	return hubobjects.Key{Kind: kind, NamespacedName: types.NamespacedName{Namespace: c.snapshot.Object.Namespace, Name: name}}
}

// isHub says whether a member is the hub itself, and the namespace there the object's own: what is referenced is
// there, or is not, and nothing is copied or deleted.
func (r *Reconciler) isHub(m *clusters.Member, namespace string) bool {
	return m.UID == r.HubUID && m.TargetNamespace(namespace) == namespace
}

// membersOwn is what a member has of its own under the name of a reference, or nil. What MiniFleet has put
// there is for others, and is deleted without notice.
func (c *reconciliation) membersOwn(ctx context.Context, m *clusters.Member, ref fluxv1alpha2.Reference) (client.Object, error) {
	obj, err := copies.Find(ctx, m, ref.Kind, types.NamespacedName{Namespace: m.TargetNamespace(c.snapshot.Object.Namespace), Name: ref.Name})
	if err != nil || obj == nil || obj.GetAnnotations()[v1alpha1.AnnotationHubUID] != "" {
		return nil, err
	}
	return obj, nil
}

// missing says what is missing, what names it, and what to do.
func (c *reconciliation) missing(m *clusters.Member, ref fluxv1alpha2.Reference, source client.Object) string {
	namespace := c.snapshot.Object.Namespace
	offer := hubobjects.OfferOf(c.hubKey(ref.Kind, ref.Name), source)
	text := fmt.Sprintf("%s %s, named by %s, is missing: %s", ref.Kind, ref.Name, namedBy(ref), offer.Refused)
	if c.isHub(m, namespace) {
		return text + ": create it there"
	}
	return fmt.Sprintf("%s, and namespace %s of the member none of its own: %s, or create one on the member", text, m.TargetNamespace(namespace), offer.Remedy)
}

func (c *reconciliation) missingKeys(m *clusters.Member, ref fluxv1alpha2.Reference, ofHub bool, keys []string) string {
	where := fmt.Sprintf("namespace %s of the hub", c.snapshot.Object.Namespace)
	if !ofHub {
		where = fmt.Sprintf("namespace %s of the member", m.TargetNamespace(c.snapshot.Object.Namespace))
	}
	return fmt.Sprintf("%s %s in %s, named by %s, has no key %s: add it there, or correct the field",
		ref.Kind, ref.Name, where, namedBy(ref), strings.Join(keys, ", "))
}

// namedBy are the first fields that name a reference.
func namedBy(ref fluxv1alpha2.Reference) string { return sanitize.Names(ref.Fields, 3) }
