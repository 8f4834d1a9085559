package clusters

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// copyAttempts bounds how often a write of a copy is tried that somebody else came before.
const copyAttempts = 8

// Change says what was done to a copy on a member.
type Change string

// Values of Change.
const (
	// CopyKept means that it was as it should be, but for a note of its user.
	CopyKept Change = "Kept"
	// CopyCreated means that it was not there.
	CopyCreated Change = "Created"
	// CopyUpdated means that the hub's object has changed.
	CopyUpdated Change = "Updated"
	// CopyRepaired means that somebody had edited it on the member.
	CopyRepaired Change = "Repaired"
)

// CopyConflict says that the name of a copy is in use on a member. What has it is never overwritten.
type CopyConflict struct {
	Kind, Namespace, Name string
	// Source is NAMESPACE/NAME of another object of the hub that this is the copy of, or empty.
	Source string
	// Owner is NAMESPACE/NAME of the FleetMiniCluster whose run it is part of, or empty.
	Owner string
}

func (c *CopyConflict) Error() string {
	what := fmt.Sprintf("%s %s/%s on the member ", c.Kind, c.Namespace, c.Name)
	switch {
	case c.Source != "":
		return what + "is the copy of " + c.Source + " of the hub: give one of the two another name, or register a member for each namespace of the hub (spec.namespace)"
	case c.Owner != "":
		return what + "is part of FleetMiniCluster " + c.Owner + ": give the hub's object another name"
	default:
		return what + "is not MiniFleet's, and is not overwritten: remove it to have the hub's copied, or take the label " +
			v1alpha1.LabelPropagate + " off the hub's to use the member's own"
	}
}

// EmptyReference returns an empty Secret or ConfigMap.
func EmptyReference(kind string) client.Object {
	if kind == fluxv1alpha2.KindSecret {
		return &corev1.Secret{}
	}
	return &corev1.ConfigMap{}
}

// ReferenceKind is the kind of a Secret or ConfigMap; objects from an API server do not say it themselves.
func ReferenceKind(obj client.Object) string {
	if _, ok := obj.(*corev1.Secret); ok {
		return fluxv1alpha2.KindSecret
	}
	return fluxv1alpha2.KindConfigMap
}

// IsCopy says whether an object on a member was copied there by this hub.
func (m *Member) IsCopy(obj client.Object, hubUID string) bool {
	a := obj.GetAnnotations()
	of := a[v1alpha1.AnnotationCopyOf]
	original := m.UID == hubUID && of == obj.GetNamespace()+"/"+obj.GetName() || a[v1alpha1.AnnotationCopyOfUID] == string(obj.GetUID())
	return hubUID != "" && a[v1alpha1.AnnotationHubUID] == hubUID && of != "" && !original
}

// isCopyOf says whether an object is the copy of this one.
func (m *Member) isCopyOf(obj, source client.Object, hubUID string) bool {
	return m.IsCopy(obj, hubUID) && obj.GetAnnotations()[v1alpha1.AnnotationCopyOf] == source.GetNamespace()+"/"+source.GetName()
}

// Find returns the Secret or ConfigMap that a member has, or nil where it has none.
func (m *Member) Find(ctx context.Context, kind string, key types.NamespacedName) (client.Object, error) {
	obj := EmptyReference(kind)
	err := m.getLive(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return obj, nil
}

// CheckCopy says, without writing, whether an object of the hub could be copied to a namespace of the
// member. The error is a *CopyConflict where the name is in use there.
func (m *Member) CheckCopy(ctx context.Context, source client.Object, namespace string, user fleet.Origin) error {
	want := copyOf(source, namespace, user)
	have, err := m.cachedCopy(ctx, want)
	if err == nil && have == nil {
		have, err = m.Find(ctx, ReferenceKind(want), client.ObjectKeyFromObject(want))
	}
	if err != nil || have == nil || have.GetUID() == source.GetUID() || m.isCopyOf(have, source, user.HubUID) {
		return err
	}
	return copyConflict(want, have, user.HubUID)
}

// EnsureCopy makes a namespace of the member have a copy of a Secret or ConfigMap of the hub, with its
// content and type, and notes its user on it. Where the cache shows it so already, no request is sent. The
// error is a *CopyConflict where the name is in use there.
func (m *Member) EnsureCopy(ctx context.Context, source client.Object, namespace string, user fleet.Origin) (Change, error) {
	if err := m.Verify(ctx); err != nil {
		return "", err
	}
	want := copyOf(source, namespace, user)
	have, err := m.cachedCopy(ctx, want)
	if err != nil {
		return "", err
	}
	if have != nil && m.isCopyOf(have, source, user.HubUID) && sameContent(want, have) && marked(want, have) && isUser(have, user) {
		return CopyKept, nil
	}
	defer m.lockCopy(want)()
	for range copyAttempts {
		if have, err = m.Find(ctx, ReferenceKind(want), client.ObjectKeyFromObject(want)); err != nil {
			return "", err
		}
		change, err := m.bring(ctx, source, want, have, user)
		if !raced(err) {
			return change, discreet(err, source)
		}
	}
	return "", errContended(want)
}

// lockCopy lets those of this hub who write the same copy do so one after the other, and returns what ends
// the turn. Hundreds of MiniClusters may share a pull secret, and begin and end together.
func (m *Member) lockCopy(obj client.Object) (unlock func()) {
	v, _ := m.copying.LoadOrStore(ReferenceKind(obj)+"/"+obj.GetNamespace()+"/"+obj.GetName(), &sync.Mutex{})
	lock := v.(*sync.Mutex) //nolint:forcetypeassert // nothing else is stored
	lock.Lock()
	return lock.Unlock
}

func errContended(obj client.Object) error {
	return fmt.Errorf("%s %s/%s on the member is being changed by others again and again", ReferenceKind(obj), obj.GetNamespace(), obj.GetName())
}

// bring takes the one step from what the member has, nil for nothing, to what it is to have.
func (m *Member) bring(ctx context.Context, source, want, have client.Object, user fleet.Origin) (Change, error) {
	switch {
	case have == nil:
		return CopyCreated, m.create(ctx, want.DeepCopyObject().(client.Object)) //nolint:forcetypeassert // a copy has the type of its original
	case have.GetUID() == source.GetUID():
		return CopyKept, nil // the member is the hub, and this is the very object
	case !m.isCopyOf(have, source, user.HubUID):
		return "", copyConflict(want, have, user.HubUID)
	case !have.GetDeletionTimestamp().IsZero():
		return "", fmt.Errorf("%s %s/%s is being deleted on the member; it is copied anew when it is gone", ReferenceKind(want), have.GetNamespace(), have.GetName())
	}
	same, marked := sameContent(want, have), marked(want, have)
	switch {
	case same && marked && isUser(have, user):
		return CopyKept, nil
	case same && marked:
		return CopyKept, m.join(ctx, have, user)
	}
	change := CopyRepaired
	if !same && have.GetAnnotations()[v1alpha1.AnnotationCopyOfVersion] != source.GetResourceVersion() {
		change = CopyUpdated
	}
	if !same && (immutable(have) || typeOf(have) != typeOf(want)) {
		return change, m.replaceCopy(ctx, want, have)
	}
	return change, m.rewrite(ctx, want, have)
}

// join notes a user on a copy. It needs no resource version: whoever removes the copy meanwhile names the
// one that knows nothing of this user.
func (m *Member) join(ctx context.Context, have client.Object, user fleet.Origin) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, have.GetUID(), v1alpha1.AnnotationUserPrefix+user.OwnerUID, user.Owner)
	return m.patchCopy(ctx, have, client.RawPatch(types.MergePatchType, patch))
}

// rewrite makes a copy what it should be, unless somebody has written to it since it was read.
func (m *Member) rewrite(ctx context.Context, want, have client.Object) error {
	next := have.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the type of its original
	setContent(next, want)
	next.SetLabels(merged(have.GetLabels(), want.GetLabels()))
	next.SetAnnotations(merged(have.GetAnnotations(), want.GetAnnotations()))
	return m.patchCopy(ctx, next, client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{}))
}

// replaceCopy deletes a copy that cannot be changed and creates it anew, for the same users. Pods that run
// keep what they have mounted; one that starts in between waits for it.
func (m *Member) replaceCopy(ctx context.Context, want, have client.Object) error {
	if err := m.deleteCopy(ctx, have); err != nil {
		return err
	}
	next := want.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the type of its original
	annotations := next.GetAnnotations()
	for _, user := range CopyUsers(have) {
		annotations[v1alpha1.AnnotationUserPrefix+user.OwnerUID] = user.Owner
	}
	next.SetAnnotations(annotations)
	return m.create(ctx, next)
}

// ReleaseCopy takes the users who leave off a copy, and deletes the copy when none is left.
func (m *Member) ReleaseCopy(ctx context.Context, have client.Object, hubUID string, leaves func(fleet.Origin) bool) error {
	if err := m.Verify(ctx); err != nil {
		return err
	}
	defer m.lockCopy(have)()
	for range copyAttempts {
		now, err := m.Find(ctx, ReferenceKind(have), client.ObjectKeyFromObject(have))
		if err != nil {
			return err
		}
		if now == nil || !m.IsCopy(now, hubUID) || !now.GetDeletionTimestamp().IsZero() {
			return nil
		}
		if err := m.takeOff(ctx, now, leaves); !raced(err) {
			return discreet(err, now)
		}
	}
	return errContended(have)
}

// takeOff takes users off a copy as it was seen, and deletes it when none is left.
func (m *Member) takeOff(ctx context.Context, have client.Object, leaves func(fleet.Origin) bool) error {
	next := have.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the type of its original
	annotations, stay := next.GetAnnotations(), 0
	for _, user := range CopyUsers(have) {
		if leaves(user) {
			delete(annotations, v1alpha1.AnnotationUserPrefix+user.OwnerUID)
		} else {
			stay++
		}
	}
	switch {
	case stay == 0:
		return m.deleteCopy(ctx, have)
	case len(annotations) == len(have.GetAnnotations()):
		return nil
	}
	next.SetAnnotations(annotations)
	return m.patchCopy(ctx, next, client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{}))
}

func (m *Member) patchCopy(ctx context.Context, obj client.Object, patch client.Patch) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return m.GetClient().Patch(ctx, obj.DeepCopyObject().(client.Object), patch, client.FieldOwner(v1alpha1.FieldManager)) //nolint:forcetypeassert // a copy has the type of its original
}

// deleteCopy deletes a copy as it was seen: not one that has got another user since.
func (m *Member) deleteCopy(ctx context.Context, obj client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	err := m.GetClient().Delete(ctx, obj, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return client.IgnoreNotFound(err)
}

// raced says whether a write failed because of what somebody else wrote. The uid in a patch is such a reason,
// which the API server calls invalid.
func raced(err error) bool {
	var status apierrors.APIStatus
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return true
	}
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	d := status.Status().Details
	otherUID := apierrors.IsInvalid(err) && slices.ContainsFunc(d.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
	return otherUID || apierrors.IsNotFound(err) && d.Kind != "namespaces"
}

// discreet drops the words of a member that quote a Secret, as an admission webhook's may.
func discreet(err error, obj client.Object) error {
	secret, ok := obj.(*corev1.Secret)
	var status apierrors.APIStatus
	if !ok || !errors.As(err, &status) {
		return err
	}
	words := err.Error()
	for _, value := range secret.Data {
		text := strings.TrimSpace(string(value))
		if len(text) > 2 && strings.Contains(words, text) || len(text) > 0 && strings.Contains(words, base64.StdEncoding.EncodeToString(value)) {
			return fmt.Errorf("the member refused Secret %s (%s), in words that quote it and are left out", obj.GetName(), apierrors.ReasonForError(err))
		}
	}
	return err
}

// copyUsers is the index of copies by their users' NAMESPACE/NAME.
const copyUsers = "minifleet.copy.users"

// IndexCopies makes the caches find copies by their users.
func (p *Provider) IndexCopies(ctx context.Context) error {
	byUser := func(obj client.Object) []string {
		var keys []string
		for _, user := range CopyUsers(obj) {
			keys = append(keys, user.Owner)
		}
		slices.Sort(keys)
		return slices.Compact(keys)
	}
	return errors.Join(p.IndexField(ctx, &corev1.Secret{}, copyUsers, byUser), p.IndexField(ctx, &corev1.ConfigMap{}, copyUsers, byUser))
}

// Copies are the copies of this hub that the cache shows to be used by a FleetMiniCluster, NAMESPACE/NAME,
// or by one of that name before it. No namespace stands for all.
func (m *Member) Copies(ctx context.Context, namespace, user, hubUID string) ([]client.Object, error) {
	return m.copies(ctx, m.GetClient(), hubUID, client.InNamespace(namespace), client.MatchingFields{copyUsers: user})
}

// LiveCopies are all copies of this hub in a namespace, as the member itself has them.
func (m *Member) LiveCopies(ctx context.Context, namespace, hubUID string) ([]client.Object, error) {
	if err := m.Verify(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return m.copies(ctx, m.GetAPIReader(), hubUID, client.InNamespace(namespace),
		client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelCopy: "true"})
}

func (m *Member) copies(ctx context.Context, from client.Reader, hubUID string, options ...client.ListOption) ([]client.Object, error) {
	var out []client.Object
	for _, list := range []client.ObjectList{&corev1.SecretList{}, &corev1.ConfigMapList{}} {
		if err := from.List(ctx, list, options...); err != nil {
			return nil, err
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			if obj, ok := o.(client.Object); ok && m.IsCopy(obj, hubUID) {
				out = append(out, obj)
			}
			return nil
		})
	}
	return out, nil
}

// CopyUsers are the FleetMiniClusters that a copy is used by, sorted by UID; nothing else of a hub.
func CopyUsers(obj client.Object) []fleet.Origin {
	annotations := obj.GetAnnotations()
	if annotations[v1alpha1.AnnotationCopyOf] == "" {
		return nil
	}
	var users []fleet.Origin
	for key, owner := range annotations {
		if uid, ok := strings.CutPrefix(key, v1alpha1.AnnotationUserPrefix); ok {
			users = append(users, fleet.Origin{HubUID: annotations[v1alpha1.AnnotationHubUID], Owner: owner, OwnerUID: uid})
		}
	}
	slices.SortFunc(users, func(a, b fleet.Origin) int { return strings.Compare(a.OwnerUID, b.OwnerUID) })
	return users
}

// OnlyUsersChanged says whether a copy is as it was, but for its users. That is no news to them.
func OnlyUsersChanged(before, after client.Object) bool {
	if len(CopyUsers(before)) == 0 || len(CopyUsers(after)) == 0 {
		return false
	}
	rest := func(obj client.Object) map[string]string {
		annotations := maps.Clone(obj.GetAnnotations())
		maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, v1alpha1.AnnotationUserPrefix) })
		return annotations
	}
	return sameContent(before, after) && maps.Equal(before.GetLabels(), after.GetLabels()) && maps.Equal(rest(before), rest(after))
}

func isUser(obj client.Object, user fleet.Origin) bool {
	return obj.GetAnnotations()[v1alpha1.AnnotationUserPrefix+user.OwnerUID] == user.Owner
}

func copyConflict(want, have client.Object, hubUID string) *CopyConflict {
	c := &CopyConflict{Kind: ReferenceKind(want), Namespace: have.GetNamespace(), Name: have.GetName()}
	if a := have.GetAnnotations(); a[v1alpha1.AnnotationHubUID] == hubUID {
		c.Source, c.Owner = a[v1alpha1.AnnotationCopyOf], a[v1alpha1.AnnotationOwner]
	}
	return c
}

// cached returns what the cache has under the name of an object, or nil.
func (m *Member) cachedCopy(ctx context.Context, want client.Object) (client.Object, error) {
	have := EmptyReference(ReferenceKind(want))
	err := m.GetClient().Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return have, nil
}

// copyOf is a hub's object as a member is to have it: its content, and none of its labels and annotations,
// of which one may hold the content as kubectl was given it.
func copyOf(source client.Object, namespace string, user fleet.Origin) client.Object {
	out := EmptyReference(ReferenceKind(source))
	setContent(out, source)
	out.SetNamespace(namespace)
	out.SetName(source.GetName())
	out.SetLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelCopy: "true"})
	out.SetAnnotations(map[string]string{
		v1alpha1.AnnotationHubUID:                     user.HubUID,
		v1alpha1.AnnotationCopyOf:                     source.GetNamespace() + "/" + source.GetName(),
		v1alpha1.AnnotationCopyOfUID:                  string(source.GetUID()),
		v1alpha1.AnnotationCopyOfVersion:              source.GetResourceVersion(),
		v1alpha1.AnnotationUserPrefix + user.OwnerUID: user.Owner,
	})
	return out
}

// setContent takes data, type and immutability of another object of the kind.
func setContent(to, from client.Object) {
	switch from := from.DeepCopyObject().(type) {
	case *corev1.Secret:
		to := to.(*corev1.Secret) //nolint:forcetypeassert // both are of one kind
		to.Data, to.Type, to.Immutable = from.Data, from.Type, from.Immutable
	case *corev1.ConfigMap:
		to := to.(*corev1.ConfigMap) //nolint:forcetypeassert // both are of one kind
		to.Data, to.BinaryData, to.Immutable = from.Data, from.BinaryData, from.Immutable
	}
}

func sameContent(want, have client.Object) bool {
	if immutable(want) != immutable(have) || typeOf(want) != typeOf(have) {
		return false
	}
	switch want := want.(type) {
	case *corev1.Secret:
		return equality.Semantic.DeepEqual(want.Data, have.(*corev1.Secret).Data) //nolint:forcetypeassert // both are of one kind
	case *corev1.ConfigMap:
		have := have.(*corev1.ConfigMap) //nolint:forcetypeassert // both are of one kind
		return equality.Semantic.DeepEqual(want.Data, have.Data) && equality.Semantic.DeepEqual(want.BinaryData, have.BinaryData)
	}
	return false
}

// marked says whether a copy carries all that makes it one. What version it was made from does not matter
// as long as its content is right, nor do its users.
func marked(want, have client.Object) bool {
	for k, v := range want.GetAnnotations() {
		if k != v1alpha1.AnnotationCopyOfVersion && !strings.HasPrefix(k, v1alpha1.AnnotationUserPrefix) && have.GetAnnotations()[k] != v {
			return false
		}
	}
	return subset(want.GetLabels(), have.GetLabels())
}

func typeOf(obj client.Object) corev1.SecretType {
	if s, ok := obj.(*corev1.Secret); ok {
		return s.Type
	}
	return ""
}

func immutable(obj client.Object) bool {
	var set *bool
	switch obj := obj.(type) {
	case *corev1.Secret:
		set = obj.Immutable
	case *corev1.ConfigMap:
		set = obj.Immutable
	}
	return set != nil && *set
}

func merged(base, over map[string]string) map[string]string {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, over)
	return out
}
