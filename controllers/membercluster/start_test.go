package membercluster

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func placed(name string, clusters, waiting []string) *v1alpha1.FleetMiniCluster {
	f := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: name}}
	f.Status.Placement = &v1alpha1.PlacementDecision{Clusters: clusters}
	for _, member := range waiting {
		f.Status.Placement.Waiting = append(f.Status.Placement.Waiting, v1alpha1.RejectedCluster{Name: member})
	}
	return f
}

func TestRanks(t *testing.T) {
	ended := withRun("ended", "done", v1alpha1.RunSucceeded)
	ended.Status.Placement = &v1alpha1.PlacementDecision{Clusters: []string{"done"}}
	again := withRun("again", "live", v1alpha1.RunFailed)
	again.Status.Runs = append(again.Status.Runs, v1alpha1.Run{ID: "r2", Cluster: "live", State: v1alpha1.RunStarting})
	fleet := []v1alpha1.FleetMiniCluster{
		*placed("chosen", []string{"next", "live", "released"}, nil), *placed("full", nil, []string{"full"}), *ended, *again,
		*withRun("released", "released", v1alpha1.RunRunning), {},
	}
	want := map[string]int{"live": rankLive, "released": rankLive, "next": rankAwaited, "full": rankAwaited}
	if diff := cmp.Diff(want, ranks(fleet)); diff != "" {
		t.Error(diff)
	}
	if got := rankAmong(ranks(fleet), "done"); got != rankIdle {
		t.Errorf("one without a run that goes on has rank %d", got)
	}
}

// No more than the provider is told; which of them are connected in which order is that of its turns.
func TestAllAreConnectedAtTheStart(t *testing.T) {
	member := func(name string, change func(*v1alpha1.MemberCluster)) *v1alpha1.MemberCluster {
		return newMember(func(m *v1alpha1.MemberCluster) { m.Name, m.Spec.KubeconfigSecretRef.Name = name, name }, change)
	}
	as := func(*v1alpha1.MemberCluster) {}
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "minifleet-system", Name: name}, Data: map[string][]byte{v1alpha1.KubeconfigKey: []byte("{}")},
		}
	}
	all := []v1alpha1.MemberCluster{
		*member("alpine", as), *member("basalt", as), *member("cinder", as), *member("deleted", deleted(v1alpha1.DeletionDrain)),
		*member("new", func(m *v1alpha1.MemberCluster) { m.Finalizers = nil }), *member("without", as),
	}
	hub := newHub(t, secret("alpine"), secret("basalt"), secret("cinder"), secret("deleted"), secret("new"))
	r := newReconciler(hub, hub)
	r.connectAll(t.Context(), all, map[string]int{"cinder": rankLive, "basalt": rankAwaited})
	var order, connected []string
	for i := range all {
		order = append(order, all[i].Name)
		if _, is := r.Provider.State(all[i].Name); is {
			connected = append(connected, all[i].Name)
		}
	}
	if diff := cmp.Diff([]string{"cinder", "basalt", "alpine", "deleted", "new", "without"}, order); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"cinder", "basalt", "alpine"}, connected); diff != "" {
		t.Error(diff)
	}
}

// Where all members are connected at once none of them waits for the FleetMiniClusters.
func TestFewMembersAreConnectedWithoutRanks(t *testing.T) {
	hub := newHub(t, withRun("a", "alpine", v1alpha1.RunRunning))
	for name, test := range map[string]struct {
		most, members int
		want          map[string]int
	}{
		"all at once":  {3, 3, nil},
		"no bound":     {0, 300, nil},
		"one by one":   {3, 4, map[string]int{"alpine": rankLive}},
		"not read yet": {3, 4, nil},
	} {
		r := newReconciler(hub, hub)
		r.Provider.SetConnects(test.most)
		cached := &informerCache{}
		if name == "not read yet" {
			cached.err = errors.New("it ends")
		}
		got, err := r.ranks(t.Context(), cached, test.members)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		if asked := test.members > test.most && test.most > 0; cached.asked != asked {
			t.Errorf("%s: the FleetMiniClusters are waited for: %t", name, cached.asked)
		}
	}
}

// informerCache has an informer of each kind, or an error.
type informerCache struct {
	cache.Cache
	err   error
	asked bool
}

func (c *informerCache) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	c.asked = true
	return nil, c.err
}
