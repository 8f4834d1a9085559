package recovery

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// withoutStatus puts all objects back as Velero does: without status, with new UIDs, marked; while a member is away on which
// something is live.
func (f *fleet) withoutStatus(t *testing.T) {
	const namespace = "team-velero"
	f.begin(t, namespace)
	f.atRest(t, oldHub)
	var was v1alpha1.FleetMiniCluster
	check(t, f.Clients[oldHub].Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "held"}, &was))
	away := was.Status.Placement.Clusters[0]
	objects := f.carried(t, oldHub)
	f.wipe(t, oldHub)
	check(t, f.Lab.Cluster(away).StopAPIServer())
	for _, obj := range objects {
		err := f.Clients[oldHub].Create(t.Context(), obj)
		if !apierrors.IsAlreadyExists(err) {
			check(t, err)
		}
	}
	p := f.start(t, oldHub)
	await(t, "the controller refuses an identity that was put back", func() error {
		if p.Running() || !strings.Contains(p.LogTail(), "velero.io/restore-name") {
			return errors.New("it runs")
		}
		return nil
	})

	// Somebody takes the mark off without raising the epoch: what was put back is asked about all the same.
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: v1alpha1.FleetConfigMap}}
	check(t, f.Clients[oldHub].Patch(t.Context(), cm, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"velero.io/restore-name":null}}}`))))
	f.start(t, oldHub)
	await(t, "what is put back waits for the member that is away", func() error {
		var now v1alpha1.FleetMiniCluster
		if err := f.Clients[oldHub].Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "held"}, &now); err != nil {
			return err
		}
		if !slices.Contains(now.Status.Unasked, away) {
			return fmt.Errorf("unasked %v, %s", now.Status.Unasked, now.Status.State)
		}
		return nil
	})
	onlyOnce(t, f.ran(t, namespace), "done", "held", "failed", "by-hand")
	f.kill(t, oldHub)
	check(t, f.Clients[oldHub].Patch(t.Context(), cm, client.RawPatch(types.MergePatchType, []byte(`{"data":{"epoch":"2"}}`))))
	check(t, f.Lab.Cluster(away).StartAPIServer(t.Context()))
	f.start(t, oldHub)
	f.awaitStates(t, oldHub, namespace, together(earlyStates, byHandStates))
	onlyOnce(t, f.ran(t, namespace), "done", "held", "failed", "by-hand")
}

// carried are all objects of a hub as Velero puts them back.
func (f *fleet) carried(t *testing.T, hub string) []client.Object {
	t.Helper()
	c, ctx := f.Clients[hub], t.Context()
	var out []client.Object
	add := func(obj client.Object) {
		obj.SetResourceVersion("")
		obj.SetUID("")
		obj.SetManagedFields(nil)
		labels := maps.Clone(obj.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels["velero.io/backup-name"], labels["velero.io/restore-name"] = "b", "b-1"
		obj.SetLabels(labels)
		out = append(out, obj)
	}
	var namespaces corev1.NamespaceList
	check(t, c.List(ctx, &namespaces))
	for i := range namespaces.Items {
		if ns := &namespaces.Items[i]; ns.Name == managerNamespace || strings.HasPrefix(ns.Name, "team-") {
			add(ns)
		}
	}
	var secrets corev1.SecretList
	check(t, c.List(ctx, &secrets, client.InNamespace(managerNamespace)))
	for i := range secrets.Items {
		add(&secrets.Items[i])
	}
	var cm corev1.ConfigMap
	check(t, c.Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: v1alpha1.FleetConfigMap}, &cm))
	add(&cm)
	var members v1alpha1.MemberClusterList
	var placements v1alpha1.PlacementList
	var runs v1alpha1.FleetMiniClusterList
	var sources v1alpha1.GitSourceList
	check(t, errors.Join(c.List(ctx, &members), c.List(ctx, &placements), c.List(ctx, &runs), c.List(ctx, &sources)))
	for i := range members.Items {
		add(&members.Items[i])
	}
	for i := range placements.Items {
		add(&placements.Items[i])
	}
	for i := range runs.Items {
		add(&runs.Items[i])
	}
	for i := range sources.Items {
		add(&sources.Items[i])
	}
	return out
}
