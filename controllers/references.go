package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/clusters/copies"
	"github.com/minifleet/minifleet/internal/fleet"
)

const (
	// restFactor is how many times as long a run that has ended waits for another look at what it has copies
	// of as a live one does.
	restFactor = 10
	// behindInterval is how long the cache of the hub is given to catch up.
	behindInterval = 100 * time.Millisecond
)

// referenceError says what of a MiniCluster's Secrets and ConfigMaps a member cannot be given.
type referenceError struct{ reason, message string }

func (e *referenceError) Error() string { return e.message }

// references are those of a FleetMiniCluster.
func references(fmc *v1alpha1.FleetMiniCluster) []fluxv1alpha2.Reference {
	return fluxv1alpha2.References(&fmc.Spec.MiniCluster, field.NewPath("spec", "miniCluster"))
}

// awaitReferences lets a run begin on a member only when everything that it references is there or can be
// brought. Nothing is written.
func (p *pass) awaitReferences(ctx context.Context, s *site) {
	if err := p.satisfy(ctx, s, func(ctx context.Context, source client.Object, namespace string, user fleet.Origin) error {
		return copies.Check(ctx, s.member, source, namespace, user)
	}); err != nil {
		p.fail(s, err)
		s.awaits = s.lost == nil
		s.lookAgain(p.r.sources.interval)
	}
}

// bringReferences copies what a run references to its member. The ledger speaks of the run already, so that
// no copy is on a member that the hub does not know to have something.
func (p *pass) bringReferences(ctx context.Context, s *site) error {
	return p.satisfy(ctx, s, func(ctx context.Context, source client.Object, namespace string, user fleet.Origin) error {
		_, err := copies.Ensure(ctx, s.member, source, namespace, user)
		return err
	})
}

// satisfy looks at each reference of the MiniCluster. What the hub offers is given to bring; of everything
// else the member must have its own. The error is a *referenceError that names all that is missing.
func (p *pass) satisfy(ctx context.Context, s *site, bring func(context.Context, client.Object, string, fleet.Origin) error) error {
	var missing, conflicts []string
	for _, ref := range p.referencesOn(s) {
		source, err := p.r.sources.get(ctx, p.sourceKey(ref.Kind, ref.Name), p.began)
		if err != nil {
			return err
		}
		var found client.Object
		if why, _ := offer(p.sourceKey(ref.Kind, ref.Name), source); why == "" || p.inPlace(s) {
			if found = source; !p.inPlace(s) {
				err = bring(ctx, source, p.key(s).Namespace, p.origin)
			}
		} else {
			found, err = p.membersOwn(ctx, s, ref)
		}
		var conflict *copies.Conflict
		switch {
		case errors.As(err, &conflict):
			conflicts = append(conflicts, conflict.Error())
		case err != nil:
			return err
		case found == nil:
			missing = append(missing, p.missing(s, ref, source))
		default:
			if keys := missingKeys(found, ref.Keys); len(keys) > 0 {
				missing = append(missing, p.missingKeys(s, ref, found == source, keys))
			}
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

func (p *pass) sourceKey(kind, name string) sourceKey {
	return sourceKey{kind, types.NamespacedName{Namespace: p.fmc.Namespace, Name: name}}
}

// inPlace says whether a site is the hub itself, and the namespace the object's own: what is referenced is
// there, or is not, and nothing is copied or deleted.
func (p *pass) inPlace(s *site) bool { return p.r.isHome(s.member, p.fmc.Namespace) }

func (r *FleetMiniClusterReconciler) isHome(m *clusters.Member, namespace string) bool {
	return m.UID == r.HubUID && m.TargetNamespace(namespace) == namespace
}

// membersOwn is what a member has of its own under the name of a reference, or nil. What MiniFleet has put
// there is for others, and goes without notice.
func (p *pass) membersOwn(ctx context.Context, s *site, ref fluxv1alpha2.Reference) (client.Object, error) {
	obj, err := copies.Find(ctx, s.member, ref.Kind, types.NamespacedName{Namespace: p.key(s).Namespace, Name: ref.Name})
	if err != nil || obj == nil || obj.GetAnnotations()[v1alpha1.AnnotationHubUID] != "" {
		return nil, err
	}
	return obj, nil
}

// missing says what is missing, what names it, and what mends it.
func (p *pass) missing(s *site, ref fluxv1alpha2.Reference, source client.Object) string {
	why, mend := offer(p.sourceKey(ref.Kind, ref.Name), source)
	text := fmt.Sprintf("%s %s, named by %s, is missing: %s", ref.Kind, ref.Name, named(ref), why)
	if p.inPlace(s) {
		return text + ": create it there"
	}
	return fmt.Sprintf("%s, and namespace %s of the member none of its own: %s, or create one on the member", text, p.key(s).Namespace, mend)
}

func (p *pass) missingKeys(s *site, ref fluxv1alpha2.Reference, ofHub bool, keys []string) string {
	where := fmt.Sprintf("namespace %s of the hub", p.fmc.Namespace)
	if !ofHub {
		where = fmt.Sprintf("namespace %s of the member", p.key(s).Namespace)
	}
	return fmt.Sprintf("%s %s in %s, named by %s, has no key %s: add it there, or correct the field",
		ref.Kind, ref.Name, where, named(ref), strings.Join(keys, ", "))
}

// named are the first fields that name a reference.
func named(ref fluxv1alpha2.Reference) string {
	const most = 3
	text := strings.Join(ref.Fields[:min(most, len(ref.Fields))], ", ")
	if more := len(ref.Fields) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// followReferences keeps the copies on a member as the hub has them, for as long as they are needed there,
// and lets go of those that are not.
func (p *pass) followReferences(ctx context.Context, s *site) {
	if (s.still || s.failed != nil) && !s.awaits || p.inPlace(s) {
		return
	}
	existing, err := copies.UsedBy(ctx, s.member, p.key(s).Namespace, p.origin.Owner, p.r.HubUID)
	if err == nil && len(existing) > 0 {
		err = p.tend(ctx, s, existing)
	}
	if err == nil && p.runs(s) && p.wanted.IsCurrent(p.ledger.Last(s.name)) {
		err = p.restore(ctx, s, existing)
	}
	p.failOrCatchUp(s, err)
}

// failOrCatchUp notes an error, if there is any. That the cache is behind is none: it is looked at again.
func (p *pass) failOrCatchUp(s *site, err error) {
	switch {
	case err == nil:
	case errors.Is(err, errBehind):
		s.lookAgain(behindInterval)
	default:
		p.fail(s, err)
	}
}

// runs says whether a run on a member has got everything that it needs, and has not ended.
func (p *pass) runs(s *site) bool {
	last := p.ledger.Last(s.name)
	return last != nil && !last.State.Ended() && last.State != v1alpha1.RunStarting
}

// tend sees to the copies that this object, or an earlier one of its name, is noted as a user of.
func (p *pass) tend(ctx context.Context, s *site, existing []client.Object) error {
	last := p.ledger.Last(s.name)
	live := last != nil && !last.State.Ended()
	interval := p.r.sources.interval
	if !live {
		interval *= restFactor
	}
	s.lookAgain(interval)
	for _, have := range existing {
		key := p.sourceKey(copies.Kind(have), have.GetName())
		source, err := p.r.sources.recent(ctx, key)
		if err != nil {
			return err
		}
		why, _ := offer(key, source)
		switch p.needOf(s, have, why == "") {
		case needed:
			if why == "" {
				err = p.follow(ctx, s, source)
			} else {
				s.remark(v1alpha1.ReasonReferenceWithdrawn, fmt.Sprintf(
					"%s %s is no longer offered: %s; the copy stays as it is until the run ends", key.kind, key.Name, why))
			}
		case unneeded:
			err = p.release(ctx, s.member, have)
		case kept:
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// need says what a copy is to this object.
type need int

const (
	unneeded need = iota
	kept          // the next run may need it
	needed        // by a live run
)

// needOf says what a copy on a member is to this object. What an outdated run references is not known any
// more, so it needs all that it has.
func (p *pass) needOf(s *site, have client.Object, offered bool) need {
	last := p.ledger.Last(s.name)
	live, named := last != nil && !last.State.Ended(), p.refersTo(s, copies.Kind(have), have.GetName())
	switch {
	case !slices.Contains(copies.Users(have), p.origin):
		return unneeded
	case live && (named || !p.wanted.IsCurrent(last)):
		return needed
	case p.problem != nil, s.chosen && named && offered:
		return kept
	default:
		return unneeded
	}
}

// restore brings back copies that a run needs and that the cache does not show.
func (p *pass) restore(ctx context.Context, s *site, existing []client.Object) error {
	for _, ref := range p.referencesOn(s) {
		if slices.ContainsFunc(existing, func(c client.Object) bool {
			return copies.Kind(c) == ref.Kind && c.GetName() == ref.Name && slices.Contains(copies.Users(c), p.origin)
		}) {
			continue
		}
		source, err := p.r.sources.recent(ctx, p.sourceKey(ref.Kind, ref.Name))
		if err != nil {
			return err
		}
		if why, _ := offer(p.sourceKey(ref.Kind, ref.Name), source); why != "" {
			continue // it began with the member's own
		}
		s.lookAgain(p.r.sources.interval)
		if err := p.follow(ctx, s, source); err != nil {
			return err
		}
	}
	return nil
}

// follow makes a copy that a live run uses what the hub's object is. A run that began with the member's own
// is not disturbed by what the hub offers since.
func (p *pass) follow(ctx context.Context, s *site, source client.Object) error {
	change, err := copies.Ensure(ctx, s.member, source, p.key(s).Namespace, p.origin)
	var conflict *copies.Conflict
	if errors.As(err, &conflict) {
		s.remark(v1alpha1.ReasonConflict, conflict.Error())
		return nil
	}
	if err != nil {
		return err
	}
	said := map[copies.Change][2]string{
		copies.Created:  {v1alpha1.ReasonDriftRepaired, "had been deleted; put back"},
		copies.Repaired: {v1alpha1.ReasonDriftRepaired, "had been edited; put back"},
		copies.Updated:  {v1alpha1.ReasonReferenceUpdated, "has changed on the hub; copied"},
	}[change]
	if said[0] != "" {
		n := note{"Normal", said[0], "Propagate", s.name, "", fmt.Sprintf("%s: %s %s %s", s.name, copies.Kind(source), source.GetName(), said[1])}
		p.r.Recorder.Eventf(p.fmc, n.about(), n.kind, n.reason, n.action, "%s", n.message)
	}
	return nil
}

// refersTo says whether the MiniCluster as it is wanted on a member now names an object.
func (p *pass) refersTo(s *site, kind, name string) bool {
	return slices.ContainsFunc(p.referencesOn(s), func(r fluxv1alpha2.Reference) bool { return r.Kind == kind && r.Name == name })
}

// release takes this object off a copy, and with it those that are gone.
func (p *pass) release(ctx context.Context, m *clusters.Member, have client.Object) error {
	if err := p.askHub(ctx); err != nil {
		return err
	}
	return copies.Release(ctx, m, have, p.r.HubUID, func(user fleet.Origin) bool { return user == p.origin || p.r.gone(ctx, user) })
}

// askHub makes sure that what is taken away, or put back, is not that of a run which has begun since the cache was
// filled.
func (p *pass) askHub(ctx context.Context) error {
	err := p.fresh(ctx)
	if err == nil || errors.Is(err, errBehind) {
		return err
	}
	return &hubError{"reading the FleetMiniCluster on the hub: " + err.Error()}
}

// gone says whether a user of a copy is known to exist no more. The hub itself is asked, for its cache may
// not know a new object yet.
func (r *FleetMiniClusterReconciler) gone(ctx context.Context, user fleet.Origin) bool {
	key, ok := parseKey(user.Owner)
	if !ok {
		return true // nothing of ours
	}
	var fmc v1alpha1.FleetMiniCluster
	if err := r.Client.Get(ctx, key, &fmc); err == nil && string(fmc.UID) == user.OwnerUID {
		return false
	}
	err := r.APIReader.Get(ctx, key, &fmc)
	return apierrors.IsNotFound(err) || err == nil && string(fmc.UID) != user.OwnerUID
}

// cleanup removes everything of a FleetMiniCluster from a member, copies last, and says whether nothing is
// left. Where over is given, runs that it does not call over are left alone.
func (r *FleetMiniClusterReconciler) cleanup(ctx context.Context, m *clusters.Member, fmc *v1alpha1.FleetMiniCluster, over func(string) bool) (gone bool, err error) {
	namespace, origin := m.TargetNamespace(fmc.Namespace), r.origin(fmc)
	gone, err = m.Cleanup(ctx, namespace, fmc.Name, origin, over)
	if err != nil || !gone || r.isHome(m, fmc.Namespace) {
		return gone, err
	}
	existing, err := copies.UsedBy(ctx, m, namespace, origin.Owner, r.HubUID)
	if err == nil && len(existing)+len(references(fmc)) > 0 {
		existing, err = copies.Live(ctx, m, namespace, r.HubUID) // the cache may not show the latest yet
	}
	if err != nil {
		return false, err
	}
	var errs []error
	for _, have := range existing {
		errs = append(errs, r.releaseFor(ctx, m, have, func(user fleet.Origin) bool { return user.OwnerUID == origin.OwnerUID }))
	}
	err = errors.Join(errs...)
	return err == nil, err
}

// releaseFor takes those who leave off a copy, if there are any, and with them users that are gone.
func (r *FleetMiniClusterReconciler) releaseFor(ctx context.Context, m *clusters.Member, have client.Object, leaves func(fleet.Origin) bool) error {
	if !slices.ContainsFunc(copies.Users(have), leaves) {
		return nil
	}
	return copies.Release(ctx, m, have, r.HubUID, func(user fleet.Origin) bool { return leaves(user) || r.gone(ctx, user) })
}

// releaseStrays looks for copies on members where nothing else of a FleetMiniCluster is: one that was
// deleted while the member was not registered, or whose run was ended by that. It is called for objects that
// a copy names as its user, when the cache comes to show it.
func (r *FleetMiniClusterReconciler) releaseStrays(ctx context.Context, key types.NamespacedName, except []string, leaves func(fleet.Origin) bool) error {
	var members v1alpha1.MemberClusterList
	if err := r.Client.List(ctx, &members, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing MemberClusters: %w", err)
	}
	var errs []error
	for i := range members.Items {
		m, err := r.Provider.Member(members.Items[i].Name)
		if err != nil || slices.Contains(except, m.Name) {
			continue // it is looked at when it is connected
		}
		existing, err := copies.UsedBy(ctx, m, "", key.String(), r.HubUID)
		errs = append(errs, err)
		for _, have := range existing {
			errs = append(errs, r.releaseFor(ctx, m, have, leaves))
		}
	}
	return errors.Join(errs...)
}

// lostOwner releases the copies of a FleetMiniCluster that is no more.
func (r *FleetMiniClusterReconciler) lostOwner(ctx context.Context, key types.NamespacedName) error {
	if _, seen := r.copiesSeen.LoadAndDelete(key); !seen {
		return nil
	}
	err := r.releaseStrays(ctx, key, nil, func(user fleet.Origin) bool { return user.Owner == key.String() && r.gone(ctx, user) })
	if err != nil {
		r.copiesSeen.Store(key, nil)
	}
	return err
}

// releaseElsewhere releases copies on members that this object has nothing to do with any more.
func (p *pass) releaseElsewhere(ctx context.Context) error {
	key := client.ObjectKeyFromObject(p.fmc)
	if _, seen := p.r.copiesSeen.LoadAndDelete(key); !seen {
		return nil
	}
	var except []string
	for _, s := range p.sites {
		if !s.unregistered {
			except = append(except, s.name)
		}
	}
	checked := false
	err := p.r.releaseStrays(ctx, key, except, func(user fleet.Origin) bool {
		if user.OwnerUID != p.origin.OwnerUID {
			return user.Owner == p.origin.Owner && p.r.gone(ctx, user)
		}
		checked = checked || p.fresh(ctx) == nil
		return checked
	})
	if err != nil {
		p.r.copiesSeen.Store(key, nil)
	}
	return err
}

// usersOfCopy are the FleetMiniClusters that a copy on a member says it is used by.
func (r *FleetMiniClusterReconciler) usersOfCopy(obj client.Object) []types.NamespacedName {
	if obj.GetAnnotations()[v1alpha1.AnnotationHubUID] != r.HubUID {
		return nil
	}
	var out []types.NamespacedName
	for _, user := range copies.Users(obj) {
		if key, ok := parseKey(user.Owner); ok {
			r.copiesSeen.Store(key, nil)
			out = append(out, key)
		}
	}
	return out
}

// remark says something of a member on which nothing is wrong otherwise.
func (s *site) remark(reason, message string) {
	if s.step.Message == "" {
		s.step.Reason, s.step.Message = reason, message
	}
}

// lookAgain asks for another look after d, or sooner; 0 asks for nothing.
func (s *site) lookAgain(d time.Duration) {
	if d > 0 && (s.again == 0 || d < s.again) {
		s.again = d
	}
}
