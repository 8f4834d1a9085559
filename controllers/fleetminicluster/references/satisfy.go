package references

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/clusters/copies"
	"github.com/minifleet/minifleet/controllers/internal/hubobjects"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// Error says what of a MiniCluster's Secrets and ConfigMaps a member cannot be given.
type Error struct{ Reason, Message string }

func (e *Error) Error() string { return e.Message }

// Bring is what is done with an object of the hub that a member is to have a copy of.
type Bring func(ctx context.Context, m *clusters.Member, source client.Object, namespace string, user fleet.Origin) error

// Check is a Bring that finds out whether it could be copied. Nothing is changed.
func Check(ctx context.Context, m *clusters.Member, source client.Object, namespace string, user fleet.Origin) error {
	return copies.Check(ctx, m, source, namespace, user)
}

// Copy is a Bring that copies it. The ledger must speak of the run already, so that no copy is on a member that the hub
// does not know to have something.
func Copy(ctx context.Context, m *clusters.Member, source client.Object, namespace string, user fleet.Origin) error {
	_, err := copies.Ensure(ctx, m, source, namespace, user)
	return err
}

// Grants says whether a MiniCluster may read tokens for the API server of a member. Where it may not, remedy says how to
// allow it. It is asked only where there is such a Secret.
type Grants func(ctx context.Context) (remedy string, err error)

// Satisfy goes through references of a MiniCluster. What the hub offers, as it was at some time since, is brought; of
// everything else the member must have its own. The error is an *Error that names all that is missing, what is not allowed,
// or what MiniFleet may not read on the hub: nothing is concluded from that.
func (k *Keeper) Satisfy(ctx context.Context, m *clusters.Member, user User, refs []fluxv1alpha2.Reference, since time.Time, bring Bring, grants Grants) error {
	var missing, conflicts, tokens []string
	var denied denials
	for _, ref := range refs {
		lack, token, err := k.satisfyOne(ctx, m, user, ref, since, bring)
		if token != "" {
			tokens = append(tokens, token)
		}
		var conflict *copies.Conflict
		switch {
		case denied.add(ref, err):
		case errors.As(err, &conflict):
			conflicts = append(conflicts, conflict.Error())
		case err != nil:
			return err
		case lack != "":
			missing = append(missing, lack)
		}
	}
	if refused, err := deniedTokens(ctx, tokens, grants); refused != nil || err != nil {
		return errors.Join(refused, err)
	}
	switch {
	case len(denied.refs) > 0:
		return &Error{v1alpha1.ReasonBindingMissing, strings.Join(append(append(missing, conflicts...), denied.String()), "; ")}
	case len(missing) > 0:
		return &Error{v1alpha1.ReasonReferenceMissing, strings.Join(append(missing, conflicts...), "; ")}
	case len(conflicts) > 0:
		return &Error{v1alpha1.ReasonConflict, strings.Join(conflicts, "; ")}
	default:
		return nil
	}
}

// deniedTokens is why Secrets that hold tokens are not allowed; nil if they are, or if there are none.
func deniedTokens(ctx context.Context, tokens []string, grants Grants) (denied, err error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	remedy, err := grants(ctx)
	if err != nil || remedy == "" {
		return nil, err
	}
	return &Error{v1alpha1.ReasonPolicyDenied, "not allowed: " + strings.Join(tokens, "; ") + ". " + remedy}, nil
}

// tokenIn says, where what a reference names holds a token for the API server, that it does; empty where it does not. The
// Secret may be another one by the time that pods read it: that is for the member's own admission to prevent.
func tokenIn(ctx context.Context, m *clusters.Member, user User, ref fluxv1alpha2.Reference, found client.Object) string {
	secret, ok := found.(*corev1.Secret)
	if !ok || secret == nil || !m.HoldsToken(secret) {
		return ""
	}
	return fmt.Sprintf("%s: reads the token for an API server that Secret %s in namespace %s of the member holds, which takes the permission %s",
		namedBy(ref), ref.Name, user.On(ctx, m), v1alpha1.PermissionServiceAccountToken)
}

// satisfyOne says what a member lacks of one reference, if anything, or that it is a token.
func (k *Keeper) satisfyOne(ctx context.Context, m *clusters.Member, user User, ref fluxv1alpha2.Reference, since time.Time, bring Bring) (lack, token string, err error) {
	var source client.Object // nothing is copied from a namespace to itself
	if !k.IsHub(ctx, m, user) {
		if source, err = k.Hub.Get(ctx, user.key(ref.Kind, ref.Name), since); err != nil {
			return "", "", err
		}
	}
	var found client.Object
	if source != nil && hubobjects.OfferOf(user.key(ref.Kind, ref.Name), source).OK() {
		found, err = source, bring(ctx, m, source, user.On(ctx, m), user.Origin)
	} else {
		found, err = membersOwn(ctx, m, user, ref)
	}
	switch {
	case err != nil:
		return "", "", err
	case found == nil:
		return k.missing(ctx, m, user, ref, source), "", nil
	}
	if keys := hubobjects.MissingKeys(found, ref.Keys); len(keys) > 0 {
		return missingKeys(ctx, m, user, ref, found == source, keys), tokenIn(ctx, m, user, ref, found), nil
	}
	return "", tokenIn(ctx, m, user, ref, found), nil
}

func (u User) key(kind, name string) hubobjects.Key {
	return hubobjects.Key{Kind: kind, NamespacedName: types.NamespacedName{Namespace: u.Namespace, Name: name}}
}

// IsHub says whether a member is the hub itself, and the namespace there the object's own: what is referenced is
// there as the member's own, or is not, and nothing is copied or deleted. It is read as on any other member, with the
// member's credentials.
func (k *Keeper) IsHub(ctx context.Context, m *clusters.Member, user User) bool {
	return m.UID == k.HubUID && user.On(ctx, m) == user.Namespace
}

// membersOwn is what a member has of its own under the name of a reference, or nil. What MiniFleet has put
// there is for others, and is deleted without notice.
func membersOwn(ctx context.Context, m *clusters.Member, user User, ref fluxv1alpha2.Reference) (client.Object, error) {
	obj, err := copies.Find(ctx, m, ref.Kind, types.NamespacedName{Namespace: user.On(ctx, m), Name: ref.Name})
	if err != nil || obj == nil || obj.GetAnnotations()[v1alpha1.AnnotationFleetID] != "" {
		return nil, err
	}
	return obj, nil
}

// denials are references that MiniFleet may not read on the hub.
type denials struct {
	refs    []string
	command string
}

// add takes note of an error if it is such a one.
func (d *denials) add(ref fluxv1alpha2.Reference, err error) bool {
	var denied *hubobjects.Denied
	if !errors.As(err, &denied) {
		return false
	}
	d.refs, d.command = append(d.refs, fmt.Sprintf("%s %s, named by %s", ref.Kind, ref.Name, namedBy(ref))), denied.Command
	return true
}

func (d *denials) String() string {
	return fmt.Sprintf("MiniFleet may not read on the hub: %s; to let it read Secrets and ConfigMaps of this namespace: %s", sanitize.Names(d.refs, 3), d.command)
}

// missing says what is missing, what names it, and what to do.
func (k *Keeper) missing(ctx context.Context, m *clusters.Member, user User, ref fluxv1alpha2.Reference, source client.Object) string {
	text := fmt.Sprintf("%s %s, named by %s, is missing: ", ref.Kind, ref.Name, namedBy(ref))
	if k.IsHub(ctx, m, user) {
		return text + "namespace " + user.Namespace + " of the hub has none of its own: create it there"
	}
	offer := hubobjects.OfferOf(user.key(ref.Kind, ref.Name), source)
	text += offer.Refused
	return fmt.Sprintf("%s, and namespace %s of the member none of its own: %s, or create one on the member", text, user.On(ctx, m), offer.Remedy)
}

func missingKeys(ctx context.Context, m *clusters.Member, user User, ref fluxv1alpha2.Reference, ofHub bool, keys []string) string {
	where := fmt.Sprintf("namespace %s of the hub", user.Namespace)
	if !ofHub {
		where = fmt.Sprintf("namespace %s of the member", user.On(ctx, m))
	}
	return fmt.Sprintf("%s %s in %s, named by %s, has no key %s: add it there, or correct the field",
		ref.Kind, ref.Name, where, namedBy(ref), strings.Join(keys, ", "))
}

// namedBy are the first fields that name a reference.
func namedBy(ref fluxv1alpha2.Reference) string { return sanitize.Names(ref.Fields, 3) }
