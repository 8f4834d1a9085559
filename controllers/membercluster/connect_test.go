package membercluster

import (
	"strings"
	"testing"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// What says nothing about the connection is no reason to connect again.
func TestTargetOf(t *testing.T) {
	member := newMember()
	before := targetOf(member, []byte("kubeconfig"))
	member.Spec.Suspend, member.Spec.DeletionPolicy = true, v1alpha1.DeletionDrain
	member.Spec.Taints = []v1alpha1.Taint{{Key: "a"}}
	if diff := cmp.Diff(before, targetOf(member, []byte("kubeconfig"))); diff != "" {
		t.Errorf("the target is another one:\n%s", diff)
	}
	if !member.Spec.Suspend || len(member.Spec.Taints) != 1 {
		t.Error("the member has changed")
	}
}

func TestConnectWithoutAKubeconfig(t *testing.T) {
	hub := newHub(t)
	state, err := newReconciler(hub, hub).connect(t.Context(), newMember())
	if err != nil || state.Reason != v1alpha1.ReasonKubeconfigMissing || state.Ready {
		t.Errorf("%+v, %v", state, err)
	}
}

// Without the flag a member that has a ClusterProfile says what to do, and is what it was: nothing else.
func TestConnectWithoutCredentialPlugins(t *testing.T) {
	hub := newHub(t)
	member := newMember(byProfile("granite"))
	state, err := newReconciler(hub, hub).connect(t.Context(), member)
	if err != nil || state.Reason != v1alpha1.ReasonClusterProfilesOff || state.Ready ||
		!strings.Contains(state.Message, "spec.clusterProfileRef") || !strings.Contains(state.Message, "--cluster-profile-providers") {
		t.Errorf("%+v, %v", state, err)
	}
	setReady(member, state, noon)
	if c := conditions.Get(member, v1alpha1.ConditionReady); c.Status != metav1.ConditionFalse {
		t.Errorf("%+v", c)
	}
}

// byProfile has a member reached by a ClusterProfile.
func byProfile(name string) func(*v1alpha1.MemberCluster) {
	return func(m *v1alpha1.MemberCluster) {
		m.Spec.KubeconfigSecretRef, m.Spec.ClusterProfileRef = v1alpha1.LocalReference{}, v1alpha1.LocalReference{Name: name}
	}
}

func TestWatches(t *testing.T) {
	refused := newMember(func(m *v1alpha1.MemberCluster) { m.Name = "refused"; setReady(m, stateDuplicate, noon) })
	drained := newMember(draining("true"))
	other := newMember(func(m *v1alpha1.MemberCluster) { m.Name = "other"; m.Spec.KubeconfigSecretRef.Name = "shared" })
	profiled := newMember(byProfile("granite"), func(m *v1alpha1.MemberCluster) { m.Name = "profiled" })
	hub := newHub(t, refused, drained, other, profiled)
	r := newReconciler(hub, hub)
	fmc := withRun("m", "alpine", v1alpha1.RunSucceeded)
	fmc.Status.Runs = append(fmc.Status.Runs, v1alpha1.Run{Cluster: "other"}, v1alpha1.Run{Cluster: "alpine"}, v1alpha1.Run{Cluster: "not-registered"})
	for name, tc := range map[string]struct {
		got  []string
		want []string
	}{
		"a kubeconfig":             {names(r.usersOf(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "shared"}})), []string{"other"}},
		"a profile":                {names(r.usersOfProfile(t.Context(), "granite")), []string{"profiled"}},
		"another profile":          {names(r.usersOfProfile(t.Context(), "shared")), nil},
		"all profiles":             {names(r.usersOfProfile(t.Context(), anyProfile)), []string{"profiled"}},
		"a deleted registration":   {names(r.refusedDuplicates(t.Context(), other)), []string{"refused"}},
		"runs of a drained member": {names(r.drainedMembersOf(t.Context(), fmc)), []string{"alpine"}},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func names(requests []reconcile.Request) []string {
	var out []string
	for _, r := range requests {
		out = append(out, r.Name)
	}
	return out
}
