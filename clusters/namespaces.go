package clusters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/tenant"
)

// ownerIndex is the index of Jobs, and of records of runs, by the NAMESPACE/NAME of their FleetMiniCluster.
const ownerIndex = "minifleet.owner"

// Index makes the caches of members find Jobs and records by their owners, in whatever namespace they are.
func Index(ctx context.Context, members client.FieldIndexer) error {
	owner := func(obj client.Object) []string {
		if of := obj.GetAnnotations()[v1alpha1.AnnotationOwner]; of != "" {
			return []string{of}
		}
		return nil
	}
	record := func(obj client.Object) []string {
		if obj.GetLabels()[v1alpha1.LabelRecord] == "" {
			return nil
		}
		return owner(obj)
	}
	return errors.Join(members.IndexField(ctx, &batchv1.Job{}, ownerIndex, owner), members.IndexField(ctx, &corev1.ConfigMap{}, ownerIndex, record))
}

// KeyOf is where the Job of a FleetMiniCluster is on the member, or is to be: in the namespace, if it is trusted, in which the cache shows
// one, else in that of the ledger, else in the one that the MemberCluster says. Its namespace is empty where there is none
// for that of the hub.
func (m *Member) KeyOf(ctx context.Context, f *v1alpha1.FleetMiniCluster, origin fleet.Origin) types.NamespacedName {
	namespace := tenant.NamespaceOf(f, m.Name, &m.Spec)
	in := m.jobsIn(ctx, origin, f.Name)
	if !slices.Contains(in, namespace) {
		for _, other := range in {
			if m.trusts(ctx, origin, other) {
				namespace = other
				break
			}
		}
	}
	return types.NamespacedName{Namespace: namespace, Name: f.Name}
}

// trusts says whether what a namespace of the member holds counts as a FleetMiniCluster's, whose ledger does not say that
// it has run there: in the one that is for its namespace of the hub, now or before there was a choice, and in any other that
// may be used for it. Whoever may create Jobs in a namespace can make up one that bears any name. A member that does not
// answer is believed, so that nothing runs twice.
func (m *Member) trusts(ctx context.Context, origin fleet.Origin, namespace string) bool {
	hub := origin.Namespace()
	if namespace == tenant.Target(&m.Spec, hub) || namespace == tenant.Original(&m.Spec, hub) {
		return true
	}
	asked := "denied " + hub + " " + namespace
	if at, ok := m.permitted.Load(asked); ok && m.line.now().Sub(at.(time.Time)) < permittedFor { //nolint:forcetypeassert // nothing else is stored
		return false
	}
	err := m.Permit(ctx, hub, origin.FleetID, nil, namespace, false)
	var denied *NamespaceDenied
	if !errors.As(err, &denied) {
		return true
	}
	m.permitted.Store(asked, m.line.now())
	return false
}

// jobsIn are the namespaces, sorted, in which the cache shows a Job of an origin.
func (m *Member) jobsIn(ctx context.Context, origin fleet.Origin, name string) []string {
	var out []string
	jobs, _ := m.jobsOf(ctx, origin.Owner)
	for _, job := range jobs {
		if job.Name == name && origin.Owns(job) {
			out = append(out, job.Namespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// KeysOf are all places where a FleetMiniCluster may have something on the member: that of KeyOf, and those where the cache
// shows a Job or a record of it.
func (m *Member) KeysOf(ctx context.Context, f *v1alpha1.FleetMiniCluster, origin fleet.Origin) []types.NamespacedName {
	namespaces := m.PlacesOf(ctx, origin, f.Name)
	if first := m.KeyOf(ctx, f, origin).Namespace; first != "" {
		namespaces = append(namespaces, first)
	}
	slices.Sort(namespaces)
	var out []types.NamespacedName
	for _, namespace := range slices.Compact(namespaces) {
		out = append(out, types.NamespacedName{Namespace: namespace, Name: f.Name})
	}
	return out
}

// PlacesOf are the namespaces in which the cache shows a Job or a record of an origin whose name this is.
func (m *Member) PlacesOf(ctx context.Context, origin fleet.Origin, name string) []string {
	out := m.jobsIn(ctx, origin, name)
	for _, cm := range m.records(ctx, origin) {
		out = append(out, cm.Namespace)
	}
	return out
}

// records are the records of an origin that the cache shows, in whatever namespace. They are not to be changed.
func (m *Member) records(ctx context.Context, origin fleet.Origin) []*corev1.ConfigMap {
	var out []*corev1.ConfigMap
	for _, cm := range m.recordsOf(ctx, origin.Owner) {
		if origin.Owns(cm) {
			out = append(out, cm)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.ConfigMap) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return out
}

// covers says why nothing can be known of what an origin has in a namespace of the member: there is none for that of the
// hub, or MiniFleet is confined to others by now. The error is a *NamespaceDenied.
func (m *Member) covers(namespace string, origin fleet.Origin) error {
	only := tenant.Confined(&m.Spec)
	switch {
	case namespace == "":
		return &NamespaceDenied{tenant.Claim{Hub: origin.Namespace(), Member: m.Name, Spec: &m.Spec}.Named()}
	case only == nil || slices.Contains(only, namespace):
		return nil
	default:
		return &NamespaceDenied{fmt.Sprintf(
			"the latest run here is in namespace %s of the member, and spec of MemberCluster %s confines MiniFleet to others by now, so that it is not known what is there: let a line of spec.targetNamespaces.names have that target until it is removed",
			namespace, m.Name)}
	}
}

// permittedFor is for how long the answer of a member that a namespace may be used is used again.
const permittedFor = 10 * time.Second

// NamespaceDenied says that a namespace of the member may not be used for one of the hub, and what to do.
type NamespaceDenied struct{ Message string }

func (e *NamespaceDenied) Error() string { return e.Message }

// Permit makes sure that a namespace of the member may be used for one of the hub; the error is a *NamespaceDenied where it
// may not. With make set, one that is missing is created, if the MemberCluster allows that.
func (m *Member) Permit(ctx context.Context, hub, fleetID string, reserved tenant.Reserved, target string, makeIt bool) error {
	c := tenant.Claim{Hub: hub, Target: target, Member: m.Name, FleetID: fleetID, Spec: &m.Spec, Reserved: reserved}
	if why := c.Named(); why != "" {
		return &NamespaceDenied{why}
	}
	if tenant.Listed(&m.Spec, hub, target) && !m.mayCreateNamespaces() {
		return nil // there is nothing to ask
	}
	asked := hub + " " + target
	if at, ok := m.permitted.Load(asked); ok && m.line.now().Sub(at.(time.Time)) < permittedFor { //nolint:forcetypeassert // nothing else is stored
		return nil
	}
	found, err := m.namespace(ctx, target)
	if err != nil {
		return err
	}
	if why := c.Denied(found); why != "" {
		return &NamespaceDenied{why}
	}
	if found.Missing {
		if !m.mayCreateNamespaces() {
			return &NamespaceDenied{fmt.Sprintf("namespace %s does not exist on member %s, and its MemberCluster does not let MiniFleet create it: create the namespace there", target, m.Name)}
		}
		if !makeIt {
			return nil
		}
		if err := m.makeNamespace(ctx, &c); err != nil {
			return err
		}
	}
	m.permitted.Store(asked, m.line.now())
	return nil
}

// makeNamespace creates a namespace; one that somebody else has created meanwhile has to be permitted as it is.
func (m *Member) makeNamespace(ctx context.Context, c *tenant.Claim) error {
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	labels, annotations := c.Marks()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Target, Labels: labels, Annotations: annotations}}
	err := m.GetClient().Create(ctx, ns, client.FieldOwner(v1alpha1.FieldManager))
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	found, err := m.namespace(ctx, c.Target)
	if err != nil {
		return err
	}
	if why := c.Denied(found); why != "" {
		return &NamespaceDenied{why}
	}
	return nil
}

// namespace asks the member what a namespace says of itself.
func (m *Member) namespace(ctx context.Context, name string) (tenant.Namespace, error) {
	var ns corev1.Namespace
	err := m.GetLive(ctx, client.ObjectKey{Name: name}, &ns)
	switch {
	case apierrors.IsNotFound(err):
		return tenant.Namespace{Name: name, Missing: true}, nil
	case apierrors.IsForbidden(err):
		return tenant.Namespace{}, &NamespaceDenied{fmt.Sprintf(
			"the credentials of member %s may not read namespace %s there, so that it is not known whether it may be used: apply config/member there again, or list the namespace in spec.targetNamespaces.names of the MemberCluster", m.Name, name)}
	case err != nil:
		return tenant.Namespace{}, err
	}
	return tenant.Namespace{Name: name, Labels: ns.Labels, Annotations: ns.Annotations, Terminating: ns.Status.Phase == corev1.NamespaceTerminating}, nil
}
