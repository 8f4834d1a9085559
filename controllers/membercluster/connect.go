package membercluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

// connect hands what the member is reached by to the provider. What cannot be read for the moment changes nothing; what is
// not there, or must not be used, disconnects. Of a quarantined member nothing is asked.
func (r *Reconciler) connect(ctx context.Context, member *v1alpha1.MemberCluster) (clusters.State, error) {
	target, without, err := r.target(ctx, member)
	if err != nil {
		return clusters.State{}, err
	}
	before, connected := r.Provider.State(member.Name)
	quarantine, invalid := r.quarantine(member, before.Quarantine)
	if without != nil {
		if connected && (!member.DeletionTimestamp.IsZero() || without.Reason == v1alpha1.ReasonConnecting) {
			return before, nil // deleted together with the MemberCluster, which needs it to the end; or not read yet
		}
		r.Provider.Remove(member.Name)
		without.Quarantine = quarantine
		return *without, nil
	}
	held, err := r.heldElsewhere(ctx, member)
	if err != nil {
		return clusters.State{}, err
	}
	if held != nil {
		r.Provider.Remove(member.Name)
		return clusters.State{Reason: held.Reason, Message: held.Error(), Quarantine: quarantine}, nil
	}
	target.Quarantine = quarantine
	r.Provider.Ensure(member.Name, target)
	state, _ := r.Provider.State(member.Name)
	if state.Quarantine != nil && invalid != nil {
		state.Message += "; " + invalid.Error()
	}
	if state.UID == "" || quarantine != nil {
		return state, nil
	}
	refused, err := r.refuse(ctx, r.Client, member, state.UID)
	if err != nil || refused == nil {
		return state, err
	}
	r.Provider.Remove(member.Name)
	return clusters.State{Reason: refused.Reason, Message: refused.Error()}, nil
}

// target is what to connect a member to, or else the state of one that has nothing to be reached by.
func (r *Reconciler) target(ctx context.Context, member *v1alpha1.MemberCluster) (clusters.Target, *clusters.State, error) {
	if member.Spec.ClusterProfileRef.Name != "" {
		access, without := r.accessOf(member)
		target := targetOf(member, nil)
		target.Access = access
		return target, without, nil
	}
	kubeconfig, key, err := r.kubeconfigOf(ctx, member)
	if err != nil {
		return clusters.Target{}, nil, err
	}
	if len(kubeconfig) == 0 {
		without := kubeconfigMissing(key)
		return clusters.Target{}, &without, nil
	}
	return targetOf(member, kubeconfig), nil, nil
}

// accessOf is how to reach a member that has a ClusterProfile, or else its state.
func (r *Reconciler) accessOf(member *v1alpha1.MemberCluster) (*clusters.Access, *clusters.State) {
	if r.Profiles == nil {
		return nil, &clusters.State{Reason: v1alpha1.ReasonClusterProfilesOff, Message: "spec.clusterProfileRef: the controller knows no credential plugins, without which a ClusterProfile is no way to a cluster: " +
			"start it with --cluster-profile-providers, or set spec.kubeconfigSecretRef instead"}
	}
	access, err := r.Profiles.access(member.Spec.ClusterProfileRef.Name)
	if err != nil {
		return nil, &clusters.State{Reason: err.Reason, Message: "spec.clusterProfileRef: " + err.Error()}
	}
	return access, nil
}

// kubeconfigOf is the kubeconfig of a member, empty where there is none, and the name of its Secret.
func (r *Reconciler) kubeconfigOf(ctx context.Context, member *v1alpha1.MemberCluster) ([]byte, types.NamespacedName, error) {
	key := types.NamespacedName{Namespace: r.Namespace, Name: member.Spec.KubeconfigSecretRef.Name}
	var secret corev1.Secret
	if err := r.Cache.Get(ctx, key, &secret); client.IgnoreNotFound(err) != nil {
		return nil, key, fmt.Errorf("reading the kubeconfig of member %s: %w", member.Name, err)
	}
	return secret.Data[v1alpha1.KubeconfigKey], key, nil
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
