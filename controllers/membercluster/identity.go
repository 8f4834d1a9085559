package membercluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/tenant"
)

// Admit says whether a member may be the cluster with a UID, before it is used. The error is a *clusters.Error. A member
// that was never used is compared with what the hub itself has on record, where the cache may be behind.
func (r *Reconciler) Admit(ctx context.Context, name, uid string) error {
	unknown := func(err error) error {
		return &clusters.Error{Reason: v1alpha1.ReasonUnreachable, Err: fmt.Errorf("the hub could not find out whether another member is the same cluster: %w", err)}
	}
	var member v1alpha1.MemberCluster
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &member); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return unknown(err)
	}
	from := client.Reader(r.Client)
	if member.Status.ClusterUID == "" {
		from = r.APIReader
	}
	refused, err := r.refuse(ctx, from, &member, uid)
	if err != nil {
		return unknown(err)
	}
	if refused != nil {
		return refused
	}
	return nil
}

// refuse says why a member may not be the cluster with a UID, nil where it may.
func (r *Reconciler) refuse(ctx context.Context, from client.Reader, member *v1alpha1.MemberCluster, uid string) (*clusters.Error, error) {
	all, err := r.registered(ctx, from)
	if err != nil {
		return nil, err
	}
	other := duplicateOf(member, uid, all)
	if other == nil {
		r.claims.Delete(member.Name)
		return nil, nil //nolint:nilnil // it is not refused
	}
	here, err := r.addressOf(ctx, member)
	if err != nil {
		return nil, err
	}
	there, err := r.addressOf(ctx, other)
	if err != nil {
		return nil, err
	}
	if here == there {
		return &clusters.Error{Reason: v1alpha1.ReasonDuplicateCluster, Err: fmt.Errorf(
			"this is the same cluster as MemberCluster %s, where runs would collide: give each a spec.namespace of its own, or delete the one that has no live run", other.Name)}, nil
	}
	r.claims.Store(member.Name, other.Name)
	return &clusters.Error{Reason: v1alpha1.ReasonIdentityClaimed, Err: fmt.Errorf(
		"%s answers with the cluster UID of MemberCluster %s, which was recorded first and is used on: it has another address or CA (%s), so it claims that identity, or is a copy of that cluster, or the same one by another way; find out which, and delete the MemberCluster that is wrong",
		here, other.Name, there)}, nil
}

// address is what a kubeconfig or a ClusterProfile says of a cluster.
type address struct{ server, ca string }

func (a address) String() string {
	if a.ca == "" {
		return a.server + ", CAs of the system"
	}
	return fmt.Sprintf("%s, CA %.12s", a.server, a.ca)
}

// addressOf is what the administrator of the hub says of a member, now.
func (r *Reconciler) addressOf(ctx context.Context, member *v1alpha1.MemberCluster) (address, error) {
	target, without, err := r.target(ctx, member)
	if err != nil || without != nil {
		return address{}, err
	}
	server, ca := target.Address()
	return address{server, ca}, nil
}

// duplicateOf finds a member that was recorded earlier for the same namespaces of the cluster with a UID, or nil.
func duplicateOf(member *v1alpha1.MemberCluster, uid string, all []v1alpha1.MemberCluster) *v1alpha1.MemberCluster {
	for i := range all {
		other := &all[i]
		if other.Name == member.Name || other.Status.ClusterUID != uid || apart(&member.Spec, &other.Spec) {
			continue
		}
		if member.Status.ClusterUID != uid || recordedEarlier(other, member) {
			return other
		}
	}
	return nil
}

// recordedEarlier says which of two members on record with the same cluster UID was first. Since when one has its
// MemberCluster says nothing of that: it may have waited, to claim the identity of another.
func recordedEarlier(a, b *v1alpha1.MemberCluster) bool {
	since, than := recordedAt(a), recordedAt(b)
	switch {
	case !since.Equal(&than):
		return since.Before(&than)
	case !a.CreationTimestamp.Equal(&b.CreationTimestamp):
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	default:
		return a.Name < b.Name
	}
}

// recordedAt is when a cluster UID was recorded. Of one that was before that time was, it is when the member was registered.
func recordedAt(m *v1alpha1.MemberCluster) metav1.Time {
	if m.Status.Identity != nil {
		return m.Status.Identity.Since
	}
	return m.CreationTimestamp
}

// setIdentity records the identity of a member that is used, and what its kubeconfig or ClusterProfile says of it: whoever changes that, and
// reaches the same cluster, is its administrator.
func setIdentity(member *v1alpha1.MemberCluster, state clusters.State, now time.Time) {
	s := &member.Status
	if !state.Ready || state.UID == "" || s.ClusterUID != "" && s.ClusterUID != state.UID {
		return
	}
	since := metav1.NewTime(now).Rfc3339Copy()
	switch {
	case s.Identity != nil:
		since = s.Identity.Since
	case s.ClusterUID != "":
		since = member.CreationTimestamp
	}
	s.ClusterUID = state.UID
	s.Identity = &v1alpha1.MemberIdentity{Since: since, Server: state.Server, CA: state.CA}
}

// tellClaimed tells the member whose identity another one claims.
func (r *Reconciler) tellClaimed(ctx context.Context, claimant *v1alpha1.MemberCluster) {
	name, _ := r.claims.Load(claimant.Name)
	key, ok := name.(string)
	if !ok {
		return
	}
	first := &v1alpha1.MemberCluster{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: key}, first); err != nil {
		if first, err = r.Elsewhere.Find(ctx, key); err != nil || first == nil {
			return // it is being deleted
		}
	}
	r.Recorder.Eventf(first, claimant, corev1.EventTypeWarning, v1alpha1.ReasonIdentityClaimed, "Connect",
		"MemberCluster %s answers with the cluster UID of this one, from another address or with another CA: it is refused, and this one is used on", claimant.Name)
}

// quarantine is that of a member, as the hub has recorded it or as its connection has found it; nil where there is none or a
// person has lifted it. The error is what is wrong with the annotation that is to lift it.
func (r *Reconciler) quarantine(member *v1alpha1.MemberCluster, found *v1alpha1.Quarantine) (*v1alpha1.Quarantine, error) {
	q := member.Status.Quarantine
	if found != nil && (q == nil || q.Since.Before(&found.Since)) {
		q = found
	}
	if q == nil {
		return nil, nil
	}
	is, err := lifted(member.Annotations[v1alpha1.AnnotationLiftQuarantine], q.Since.Time, r.Now())
	if is {
		return nil, nil
	}
	return q, err
}

// lifted says whether the value of the annotation lifts a quarantine that began at some time.
func lifted(value string, since, now time.Time) (bool, error) {
	if value == "" {
		return false, nil
	}
	at, err := time.Parse(time.RFC3339, value)
	switch {
	case err != nil:
		return false, errors.New("annotation " + v1alpha1.AnnotationLiftQuarantine + " is no time (RFC 3339, as 2026-01-31T12:00:00Z), and lifts nothing")
	case at.After(now.Add(clockSkew)):
		return false, errors.New("annotation " + v1alpha1.AnnotationLiftQuarantine + " is a time to come, and lifts nothing: give that of now")
	default:
		return at.After(since), nil
	}
}

// apart says whether two members are confined to namespaces that they do not share.
func apart(a, b *v1alpha1.MemberClusterSpec) bool {
	of, others := tenant.Confined(a), tenant.Confined(b)
	return of != nil && others != nil && !slices.ContainsFunc(of, func(namespace string) bool { return slices.Contains(others, namespace) })
}
