package clusters

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Each member holds, for each fleet, a ConfigMap that says which hub leads the fleet and in which epoch, and which shard of
// it uses the member: a process of another shard does nothing there before it has taken the member over. A hub whose
// epoch is not the highest there is fenced: it does nothing on that member. The ConfigMap bears the label that caches
// select on, so that the check before every request costs none, and a change of it is an event.

// Hub is this hub as members know it.
type Hub interface {
	// FleetID is the identity of the fleet, UID that of this hub.
	FleetID() string
	UID() string
	// Epoch is the one in which this hub leads the fleet, from 1.
	Epoch() int64
	// Raise adopts a later epoch that a member has recorded for this very hub.
	Raise(ctx context.Context, epoch int64) error
	// Enroll notes that a member is of the fleet, which knows in this epoch what it holds if it never was before. Nothing
	// is done there before.
	Enroll(ctx context.Context, member, uid string, epoch int64) error
	// Connected notes that in this epoch all is read that a member holds.
	Connected(ctx context.Context, member, uid string, epoch int64) error
}

const (
	fencePrefix    = "minifleet-fleet-"
	fenceNamespace = metav1.NamespaceDefault

	fenceEpoch = "epoch"
	fenceHub   = "hub"
	fenceSince = "since"
	fenceShard = "shard"

	// claimAttempts is how often a race for a member is entered anew before the connection is.
	claimAttempts = 5
	// maxRaise is by how much an epoch that a member has recorded may be above the hub's own to be adopted. It is
	// raised by one by people; members are not trusted with more.
	maxRaise = 100
)

var (
	// errRecordChanged says that the record on a member has changed, or the epoch of this hub.
	errRecordChanged = errors.New("the record of the hub that leads the fleet has changed")
	// errReconnect says that a member has just come under this hub: caches are to be filled after that.
	errReconnect = errors.New("this hub has taken the member over")
)

// record is what a member holds of the hub that leads a fleet.
type record struct {
	hub   string
	epoch int64
	// since is when that hub took the member over, RFC 3339, as it said so.
	since string
	// shard is the one whose process of that hub uses the member; empty is none.
	shard string
}

// verdict is what a hub does about a record.
type verdict string

const (
	claimCreate   verdict = "create"
	claimKeep     verdict = "keep"
	claimTakeover verdict = "takeover"
	claimAdopt    verdict = "adoptHigher"
	claimFenced   verdict = "fenced"
	// claimOtherShard is of a member that another process of this hub uses, or has used.
	claimOtherShard verdict = "otherShard"
)

// decide compares this hub with the record on a member, nil where there is none. held says that this process has had
// the record before: whoever has raised its epoch since is another process, be it with the same data.
func decide(own record, found *record, held bool) verdict {
	switch {
	case found == nil:
		return claimCreate
	case found.epoch < own.epoch && (found.hub != own.hub || found.shard == own.shard):
		return claimTakeover
	case found.hub != own.hub:
		return claimFenced
	case found.epoch > own.epoch && (held || found.epoch-own.epoch > maxRaise):
		return claimFenced
	case found.epoch > own.epoch:
		return claimAdopt
	case found.shard != own.shard:
		return claimOtherShard
	default:
		return claimKeep
	}
}

// parseRecord reads the record of a ConfigMap.
func parseRecord(cm *corev1.ConfigMap) (*record, error) {
	epoch, err := strconv.ParseInt(cm.Data[fenceEpoch], 10, 64)
	if err != nil || epoch < 1 || cm.Data[fenceHub] == "" {
		return nil, &Error{v1alpha1.ReasonFenced, fmt.Errorf(
			"ConfigMap %s/%s on the member, which says which hub leads the fleet, cannot be read: data wants %s (an integer from 1) and %s (a UID); nothing is done there until it is corrected, or deleted because no other hub leads the fleet",
			cm.Namespace, cm.Name, fenceEpoch, fenceHub)}
	}
	return &record{hub: cm.Data[fenceHub], epoch: epoch, since: cm.Data[fenceSince], shard: cm.Data[fenceShard]}, nil
}

// fencedError says who leads the fleet, and what to do.
func fencedError(own record, found *record) error {
	who := "hub " + strconv.Quote(found.hub)
	if found.hub == own.hub {
		who = "another process with the UID of this hub, perhaps on a copy of its data,"
	}
	return &Error{v1alpha1.ReasonFenced, fmt.Errorf(
		"%s leads the fleet on this member in epoch %d since %s, and this hub (UID %s) is of epoch %d: nothing is done there; stop this hub, or, if it is the one that is to lead the fleet, set %s in ConfigMap %s of its own namespace to %d and restart it",
		who, found.epoch, strconv.Quote(found.since), own.hub, own.epoch, fenceEpoch, v1alpha1.FleetConfigMap, found.epoch+1)}
}

// otherShardError says which process uses the member.
func otherShardError(own record, found *record) error {
	return &Error{v1alpha1.ReasonOtherShard, fmt.Errorf("the controller of shard %q uses this member, and this one is of shard %q: nothing is done there", found.shard, own.shard)}
}

// isFenced says whether an error is that another hub leads the fleet on a member.
func isFenced(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == v1alpha1.ReasonFenced
}

// fenceKey is where the record of a fleet is. Namespace default is in every cluster and cannot be deleted, and which
// one it is does not depend on what a MemberCluster allows at a time. Fleets that share a member have a record each.
func fenceKey(spec v1alpha1.MemberClusterSpec, fleetID string) types.NamespacedName {
	sum := sha256.Sum256([]byte(fleetID))
	return types.NamespacedName{Namespace: fenceNamespaceOf(&spec), Name: fencePrefix + hex.EncodeToString(sum[:])[:10]}
}

// EpochOn is the epoch of a fleet that a member has on record, and the UID of the hub that leads it there; 0 where it has
// none. The reader is of the member itself.
func EpochOn(ctx context.Context, member client.Reader, spec v1alpha1.MemberClusterSpec, fleetID string) (epoch int64, hub string, err error) {
	var cm corev1.ConfigMap
	if err := member.Get(ctx, fenceKey(spec, fleetID), &cm); err != nil {
		return 0, "", client.IgnoreNotFound(err)
	}
	found, err := parseRecord(&cm)
	if err != nil {
		return 0, "", err
	}
	return found.epoch, found.hub, nil
}

func fenceNamespaceOf(spec *v1alpha1.MemberClusterSpec) string {
	return cmp.Or(spec.Namespace, fenceNamespace)
}

// fence keeps a member to the hub that leads the fleet. A nil one lets everything through.
type fence struct {
	hub    Hub
	member *Member
	key    types.NamespacedName
	// held has the records that this process has had, for as long as it runs: a set of cluster UID and key.
	held *sync.Map
	// changed has room for one note that the record or the own epoch has changed.
	changed chan struct{}
	// shard is that of this process. takeOver says why it may not have a member that another shard of this hub has on record.
	shard    string
	takeOver func(ctx context.Context, name, uid string) error
	// released says that the member is about to be taken out of the fleet, and its record is removed.
	released atomic.Bool
}

func newFence(p *Provider, m *Member) *fence {
	if p.hub == nil {
		return nil
	}
	return &fence{
		hub: p.hub, member: m, key: fenceKey(m.Spec, p.hub.FleetID()), held: &p.held, changed: make(chan struct{}, 1),
		shard: p.shard, takeOver: p.takeOver,
	}
}

func (f *fence) isHeld() bool {
	_, is := f.held.Load(f.member.UID + " " + f.key.String())
	return is
}

func (f *fence) hold() { f.held.Store(f.member.UID+" "+f.key.String(), struct{}{}) }

// epoch is that of this hub; 0 where there is no fence.
func (f *fence) epoch() int64 {
	if f == nil {
		return 0
	}
	return f.hub.Epoch()
}

func (f *fence) own() record { return record{hub: f.hub.UID(), epoch: f.hub.Epoch(), shard: f.shard} }

// check returns an error where the cache shows that this hub is fenced.
func (f *fence) check(ctx context.Context) error {
	if f == nil {
		return nil
	}
	have, err := f.cached(ctx)
	if err != nil || have == nil {
		return err
	}
	found, err := parseRecord(have)
	if err != nil {
		return err
	}
	own := f.own()
	switch decide(own, found, true) {
	case claimFenced:
		return fencedError(own, found)
	case claimOtherShard:
		return otherShardError(own, found)
	default:
		return nil
	}
}

// cached is the record's ConfigMap as the cache has it, or nil.
func (f *fence) cached(ctx context.Context) (*corev1.ConfigMap, error) {
	var cm corev1.ConfigMap
	if err := f.member.GetClient().Get(ctx, f.key, &cm); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return &cm, nil
}

// live is the record's ConfigMap as the member has it, or nil.
func (f *fence) live(ctx context.Context) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	var cm corev1.ConfigMap
	if err := f.member.GetAPIReader().Get(ctx, f.key, &cm); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return &cm, nil
}

// claim has the member record this hub, where none of a later epoch is recorded, and returns the epoch that is recorded
// then. It returns an error of reason Fenced where another hub leads, and says whether it has replaced a record.
func (f *fence) claim(ctx context.Context) (epoch int64, replaced bool, err error) {
	if f.released.Load() {
		return f.epoch(), false, nil
	}
	have, err := f.cached(ctx)
	if err != nil {
		return 0, false, err
	}
	for range claimAttempts {
		own, done, err := f.accept(ctx, have)
		if err != nil {
			return 0, false, err
		}
		if !done {
			err = f.write(ctx, own, have)
		}
		if err == nil {
			f.hold()
			return own.epoch, isAnother(own, have), nil
		}
		if !raced(err) {
			return 0, false, recordingError(f.key, err)
		}
		if have, err = f.live(ctx); err != nil {
			return 0, false, err
		}
	}
	return 0, false, &Error{v1alpha1.ReasonUnreachable, fmt.Errorf("ConfigMap %s on the member is changed by others again and again", f.key)}
}

// accept says whether a record may stay as it is, and as whom this hub is to be recorded. It adopts an epoch that was
// recorded for this very hub.
func (f *fence) accept(ctx context.Context, have *corev1.ConfigMap) (own record, done bool, err error) {
	own = f.own()
	if have == nil {
		return own, false, nil
	}
	found, err := parseRecord(have)
	if err != nil {
		return own, false, err
	}
	switch decide(own, found, f.isHeld()) {
	case claimFenced:
		return own, false, fencedError(own, found)
	case claimAdopt:
		if err := f.hub.Raise(ctx, found.epoch); err != nil {
			return own, false, &Error{v1alpha1.ReasonUnreachable, fmt.Errorf("the member is of epoch %d of this fleet, which the hub could not note: %w", found.epoch, err)}
		}
		own.epoch = found.epoch
		if found.shard != own.shard {
			return own, false, f.mayTakeOver(ctx)
		}
		return own, f.marked(have), nil
	case claimOtherShard:
		return own, false, f.mayTakeOver(ctx)
	case claimKeep:
		return own, f.marked(have), nil
	default:
		return own, false, nil
	}
}

// mayTakeOver says why this process may not have a member that is on record as another shard's; nil if it may.
func (f *fence) mayTakeOver(ctx context.Context) error {
	if f.takeOver == nil {
		return nil
	}
	return f.takeOver(ctx, f.member.Name, f.member.UID)
}

// marked says whether a record bears what caches select on.
func (f *fence) marked(have *corev1.ConfigMap) bool {
	return have.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy && have.Annotations[v1alpha1.AnnotationFleetID] == f.hub.FleetID()
}

// isAnother says whether a record was of another hub or epoch than this one's.
func isAnother(own record, have *corev1.ConfigMap) bool {
	if have == nil {
		return false
	}
	found, err := parseRecord(have)
	return err != nil || decide(own, found, true) != claimKeep
}

// write creates the record, or replaces the very one that was read.
func (f *fence) write(ctx context.Context, own record, have *corev1.ConfigMap) error {
	if err := f.member.verifyIdentity(ctx); err != nil {
		return err
	}
	want := f.want(own)
	if have == nil {
		return f.member.Create(ctx, want)
	}
	if _, is := have.Data[fenceShard]; is {
		want.Data[fenceShard] = own.shard // be it none
	}
	if !isAnother(own, have) {
		want.Data[fenceSince] = have.Data[fenceSince] // its marks alone are put back
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": have.ResourceVersion, "labels": want.Labels, "annotations": want.Annotations},
		"data":     want.Data,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	return f.member.GetClient().Patch(ctx, want, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1alpha1.FieldManager))
}

func (f *fence) want(own record) *corev1.ConfigMap {
	out := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.key.Namespace, Name: f.key.Name,
			Labels:      map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
			Annotations: map[string]string{v1alpha1.AnnotationFleetID: f.hub.FleetID()},
		},
		Data: map[string]string{
			fenceEpoch: strconv.FormatInt(own.epoch, 10), fenceHub: own.hub,
			fenceSince: f.member.line.now().UTC().Format(time.RFC3339),
		},
	}
	if own.shard != "" {
		out.Data[fenceShard] = own.shard
	}
	return out
}

// raced says whether somebody else has changed the record meanwhile.
func raced(err error) bool { return apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) }

// recordingError says what a member has answered instead of recording this hub.
func recordingError(key types.NamespacedName, err error) error {
	var status apierrors.APIStatus
	if Unanswered(err) || !errors.As(err, &status) {
		return err
	}
	if code := status.Status().Code; code == http.StatusUnauthorized || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError {
		return err
	}
	reason := v1alpha1.ReasonApplyFailed
	if apierrors.IsForbidden(err) {
		reason = v1alpha1.ReasonForbidden
	}
	return &Error{reason, fmt.Errorf("the member does not let its ConfigMap %s record which hub leads the fleet, and nothing is done there before that: %w", key, err)}
}

// follow notes changes of the record from the cache.
func (f *fence) follow(ctx context.Context) error {
	if f == nil {
		return nil
	}
	informer, err := f.member.GetCache().GetInformer(ctx, &corev1.ConfigMap{})
	if err != nil {
		return err
	}
	isRecord := func(obj any) bool {
		if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = unknown.Obj
		}
		cm, ok := obj.(*corev1.ConfigMap)
		return ok && cm.Name == f.key.Name && cm.Namespace == f.key.Namespace
	}
	_, err = informer.AddEventHandler(toolscache.FilteringResourceEventHandler{FilterFunc: isRecord, Handler: toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { f.note() }, UpdateFunc: func(any, any) { f.note() }, DeleteFunc: func(any) { f.note() },
	}})
	return err
}

func (f *fence) note() {
	if f == nil {
		return
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// Release removes what the member has recorded of this hub, which is about to forget it. Where the fleet has had more
// than one hub, it stays: it fences the others.
func (m *Member) Release(ctx context.Context) error {
	if m.fence == nil || m.fence.hub.Epoch() > 1 {
		return nil
	}
	m.fence.released.Store(true)
	return m.fence.release(ctx)
}

func (f *fence) release(ctx context.Context) error {
	if err := f.member.Verify(ctx); err != nil {
		return err
	}
	have, err := f.live(ctx)
	if err != nil || have == nil {
		return err
	}
	if isAnother(f.own(), have) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	err = f.member.GetClient().Delete(ctx, have, client.Preconditions{UID: ptr.To(have.UID), ResourceVersion: ptr.To(have.ResourceVersion)})
	return client.IgnoreNotFound(err)
}

// noteUnless notes a change unless the epoch of this hub is the one that was recorded.
func (f *fence) noteUnless(epoch int64) {
	if f.epoch() != epoch {
		f.note()
	}
}

// changes is the channel of fence.changed; nil where there is no fence.
func (f *fence) changes() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.changed
}

// enroll has the hub note that the member is of its fleet.
func (f *fence) enroll(ctx context.Context, epoch int64) error {
	if f == nil || f.released.Load() {
		return nil
	}
	return notingError(f.hub.Enroll(ctx, f.member.Name, f.member.UID, epoch))
}

// connected has the hub note that all is read of the member in an epoch.
func (f *fence) connected(ctx context.Context, epoch int64) error {
	if f == nil || f.released.Load() {
		return nil
	}
	return notingError(f.hub.Connected(ctx, f.member.Name, f.member.UID, epoch))
}

func notingError(err error) error {
	if err == nil {
		return nil
	}
	return &Error{v1alpha1.ReasonUnreachable, fmt.Errorf("the hub could not note that the member is of its fleet: %w", err)}
}
