package membercluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/tenant"
)

// connect hands the member's kubeconfig to the provider. A kubeconfig that cannot be read for the moment
// changes nothing; one that is not there disconnects.
func (r *Reconciler) connect(ctx context.Context, member *v1alpha1.MemberCluster) (clusters.State, error) {
	key := types.NamespacedName{Namespace: r.Namespace, Name: member.Spec.KubeconfigSecretRef.Name}
	var secret corev1.Secret
	err := r.Cache.Get(ctx, key, &secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return clusters.State{}, fmt.Errorf("reading the kubeconfig of member %s: %w", member.Name, err)
	}
	kubeconfig := secret.Data[v1alpha1.KubeconfigKey]
	if len(kubeconfig) == 0 {
		if state, connected := r.Provider.State(member.Name); connected && !member.DeletionTimestamp.IsZero() {
			return state, nil // deleted together with the MemberCluster, which needs it to the end
		}
		r.Provider.Remove(member.Name)
		return kubeconfigMissing(key), nil
	}
	r.Provider.Ensure(member.Name, targetOf(member, kubeconfig))
	state, _ := r.Provider.State(member.Name)
	if state.UID == "" {
		return state, nil
	}
	var all v1alpha1.MemberClusterList
	if err := r.Client.List(ctx, &all); err != nil {
		return state, err
	}
	duplicate := duplicateOf(member, state.UID, all.Items)
	if duplicate == "" {
		return state, nil
	}
	r.Provider.Remove(member.Name)
	return clusters.State{Reason: v1alpha1.ReasonDuplicateCluster, Message: fmt.Sprintf(
		"this is the same cluster as MemberCluster %s, where runs would collide: give each a spec.namespace of its own, or delete the one that has no live run", duplicate)}, nil
}

func kubeconfigMissing(key types.NamespacedName) clusters.State {
	return clusters.State{Reason: v1alpha1.ReasonKubeconfigMissing, Message: fmt.Sprintf(
		"spec.kubeconfigSecretRef: there is no Secret %s with key %q: create it with `kubectl -n %s create secret generic %s --from-file=%s=FILE`",
		key, v1alpha1.KubeconfigKey, key.Namespace, key.Name, v1alpha1.KubeconfigKey)}
}

// targetOf is what to connect to, without what is no reason to connect again.
func targetOf(member *v1alpha1.MemberCluster, kubeconfig []byte) clusters.Target {
	spec := *member.Spec.DeepCopy()
	spec.Suspend, spec.Taints, spec.DeletionPolicy, spec.Namespaces = false, nil, "", nil
	return clusters.Target{Spec: spec, Kubeconfig: kubeconfig, ExpectedUID: member.Status.ClusterUID}
}

// duplicateOf finds a member that was registered earlier for the same namespaces of the cluster with a UID; empty
// if there is none.
func duplicateOf(member *v1alpha1.MemberCluster, uid string, all []v1alpha1.MemberCluster) string {
	for i := range all {
		other := &all[i]
		if other.Name == member.Name || other.Status.ClusterUID != uid || apart(&member.Spec, &other.Spec) {
			continue
		}
		if earlier(other, member) {
			return other.Name
		}
	}
	return ""
}

// apart says whether two members are confined to namespaces that they do not share.
func apart(a, b *v1alpha1.MemberClusterSpec) bool {
	of, others := tenant.Confined(a), tenant.Confined(b)
	return of != nil && others != nil && !slices.ContainsFunc(of, func(namespace string) bool { return slices.Contains(others, namespace) })
}

func earlier(a, b *v1alpha1.MemberCluster) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
