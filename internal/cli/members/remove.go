package members

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// Remove takes a member out of a hub.
type Remove struct {
	Hub  Hub
	Name string
	// Policy is what becomes of what runs on the member; empty for that of the MemberCluster.
	Policy v1alpha1.DeletionPolicy
	// Confined is the one namespace of the member that a join was for, where the MemberCluster does not say it any more.
	Confined string
	// Timeout is how long the deletion is waited for.
	Timeout time.Duration
	// Member is a client of the member, from which what a join has made is deleted; nil to keep that.
	Member client.Client
}

// Effect says what Run does to a member with these live runs: one sentence without a capital letter and a full stop.
func (r *Remove) Effect(m *v1alpha1.MemberCluster, live []string) string {
	const most = 3
	runs := "what runs there (" + sanitize.Names(live, most) + ")"
	text := "starts nothing new there, and deletes it"
	switch policy := cmp.Or(r.Policy, m.Spec.DeletionPolicy, v1alpha1.DeletionBlock); {
	case len(live) == 0:
		text += "; nothing runs there"
	case policy == v1alpha1.DeletionDrain:
		text = "starts nothing new there, stops " + runs + ", which starts from the beginning on another member where its placement allows that, and deletes it"
	case policy == v1alpha1.DeletionOrphan:
		text += "; " + runs + " goes on, and is Unknown on the hub from then on"
	default:
		text += " once " + runs + " has ended"
	}
	return text
}

// Run deletes the MemberCluster, waits until that is done, and deletes what a join has made. It may be repeated.
func (r *Remove) Run(ctx context.Context) error {
	joined, err := r.Hub.joined(ctx, r.Name)
	if err != nil {
		return err
	}
	m, err := r.Hub.get(ctx, r.Name)
	var absent *NotFoundError
	switch {
	case errors.As(err, &absent):
		if found, err := r.cleanHub(ctx, joined); err != nil || !found && r.Member == nil {
			return errors.Join(err, absentUnless(found, absent))
		}
	case err != nil:
		return err
	default:
		r.Confined = cmp.Or(m.Spec.Namespace, r.Confined)
		if err := r.checkMember(ctx, m); err != nil {
			return err
		}
		if err := r.Hub.delete(ctx, m, r.Policy, r.Timeout); err != nil {
			return err
		}
		if _, err := r.cleanHub(ctx, joined); err != nil {
			return err
		}
	}
	if r.Member == nil {
		more := ""
		if r.Confined != "" {
			more = " --namespace-only " + r.Confined
		}
		r.Hub.Tell("what a join has made on the member stays there: `%s cluster remove %s --member-context CONTEXT%s` deletes it", r.Hub.Program, r.Name, more)
		return nil
	}
	return r.cleanMember(ctx, joined)
}

func absentUnless(found bool, absent *NotFoundError) error {
	if found {
		return nil
	}
	return absent
}

// checkMember makes sure that it is the member from which something is to be deleted.
func (r *Remove) checkMember(ctx context.Context, m *v1alpha1.MemberCluster) error {
	if r.Member == nil || m.Status.ClusterUID == "" || m.Spec.Namespace != "" {
		return nil
	}
	uid, err := clusterUID(ctx, r.Member)
	if err != nil {
		return fmt.Errorf("asking the member who it is: %w", err)
	}
	if uid != m.Status.ClusterUID {
		return inputf("the cluster of --member-context is not member %s (its UID is %s, and that of the member %s)", r.Name, uid, m.Status.ClusterUID)
	}
	return nil
}

// delete deletes a MemberCluster and waits until it is deleted.
func (h *Hub) delete(ctx context.Context, m *v1alpha1.MemberCluster, policy v1alpha1.DeletionPolicy, timeout time.Duration) error {
	if policy != "" && m.Spec.DeletionPolicy != policy {
		before := m.DeepCopy()
		m.Spec.DeletionPolicy = policy
		if err := h.Client.Patch(ctx, m, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("setting the deletion policy of member %s: %w", m.Name, err)
		}
	}
	if err := h.Client.Delete(ctx, m, ours(m)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting MemberCluster %s: %w", m.Name, err)
	}
	told := ""
	now := &v1alpha1.MemberCluster{}
	err := await(ctx, timeout, func() string {
		return fmt.Sprintf("member %s is being deleted, and still there: %s", m.Name, messageOf(now, v1alpha1.ConditionDrained))
	}, func(ctx context.Context) (bool, error) {
		err := h.Client.Get(ctx, client.ObjectKey{Name: m.Name}, now)
		if apierrors.IsNotFound(err) || err == nil && now.UID != m.UID {
			return true, nil
		}
		h.tellDrained(now, &told)
		return false, err
	})
	if err != nil {
		return err
	}
	h.Tell("MemberCluster %s on the hub: deleted", m.Name)
	return nil
}

// tellDrained tells what the hub says of a member that is drained or deleted, when that is another thing than before.
func (h *Hub) tellDrained(m *v1alpha1.MemberCluster, told *string) {
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionDrained)
	if c == nil || c.Message == *told {
		return
	}
	*told = c.Message
	h.Tell("member %s: %s", m.Name, messageOf(m, v1alpha1.ConditionDrained))
}

// cleanHub deletes the Secret that a join has made, and says whether there was one.
func (r *Remove) cleanHub(ctx context.Context, joined string) (found bool, err error) {
	s := &corev1.Secret{}
	s.Namespace, s.Name = r.Hub.Namespace, r.Name
	return r.clean(ctx, r.Hub.Client, onHub, s, joined)
}

// cleanMember deletes what a join has made on the member, the latest first.
func (r *Remove) cleanMember(ctx context.Context, joined string) error {
	objects, err := r.made(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, obj := range slices.Backward(objects) {
		if n, ok := obj.(*corev1.Namespace); ok {
			used, err := r.inUse(ctx, n.Name)
			if err != nil || used != "" {
				errs = append(errs, err)
				r.Hub.Tell("Namespace %s on the member: stays, since it holds %s", n.Name, used)
				continue
			}
		}
		_, err := r.clean(ctx, r.Member, onMember, obj, joined)
		if isPolicy(obj) && cannotInstall(err) {
			continue // whoever may not read it has not installed it
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// made are the objects that a join may have made on the member, in the order in which they are made.
func (r *Remove) made(ctx context.Context) ([]client.Object, error) {
	out, err := policy()
	if err != nil {
		return nil, err
	}
	if r.Confined != "" {
		objects, err := access(r.Confined)
		return append(out, objects...), err
	}
	// It is not known which namespaces the join was for.
	var bindings rbacv1.RoleBindingList
	if err := r.Member.List(ctx, &bindings); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("listing the RoleBindings of the member: %w", err)
	}
	for _, build := range []func() ([]client.Object, error){
		func() ([]client.Object, error) { return access("") },
		func() ([]client.Object, error) { return access("", boundBy(bindings.Items)...) },
	} {
		objects, err := build()
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			if !slices.ContainsFunc(out, func(o client.Object) bool {
				return about(o, r.Member.Scheme()) == about(obj, r.Member.Scheme())
			}) {
				out = append(out, obj)
			}
		}
	}
	return out, nil
}

// boundBy are the namespaces in which a join has bound rights, and at least one, of which nothing may be there.
func boundBy(bindings []rbacv1.RoleBinding) []string {
	var out []string
	for i := range bindings {
		if b := &bindings[i]; b.Annotations[AnnotationJoined] != "" && b.RoleRef.Kind == "ClusterRole" {
			out = append(out, b.Namespace)
		}
	}
	if len(out) == 0 {
		return []string{metav1.NamespaceDefault}
	}
	return out
}

// clean deletes an object if a join has made it, and says whether it was there.
func (r *Remove) clean(ctx context.Context, c client.Client, side string, obj client.Object, joined string) (found bool, err error) {
	what := about(obj, c.Scheme())
	err = c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s %s: %w", what, side, err)
	case obj.GetAnnotations()[AnnotationJoined] != joined:
		r.Hub.Tell("%s %s: stays, since no join of this hub has made it", what, side)
		return false, nil
	}
	if err := c.Delete(ctx, obj, ours(obj)); client.IgnoreNotFound(err) != nil {
		return true, fmt.Errorf("deleting %s %s: %w", what, side, err)
	}
	r.Hub.Tell("%s %s: deleted", what, side)
	return true, nil
}

// rootCA is the ConfigMap that a cluster puts into every namespace.
const rootCA = "kube-root-ca.crt"

// inUse names something in a namespace that no join has made; empty if there is nothing.
func (r *Remove) inUse(ctx context.Context, namespace string) (string, error) {
	lists := []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{}, &corev1.PersistentVolumeClaimList{}}
	for _, list := range lists {
		if err := r.Member.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return "", fmt.Errorf("listing what is in namespace %s of the member: %w", namespace, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return "", err
		}
		for _, item := range items {
			obj, ok := item.(client.Object)
			if ok && obj.GetName() != rootCA && obj.GetAnnotations()[AnnotationJoined] == "" {
				return about(obj, r.Member.Scheme()), nil
			}
		}
	}
	return "", nil
}
