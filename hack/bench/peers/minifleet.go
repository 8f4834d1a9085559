package peers

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/bench/workload"
	"github.com/minifleet/minifleet/hack/lab"
)

const (
	miniFleetName   = "minifleet"
	systemNamespace = "minifleet-system"
	placementName   = "one-of-all"
	// fetchAnnotation on a GitSource makes it fetch its repository at once, as any change of annotations does.
	fetchAnnotation = "bench.minifleet.dev/fetch"
)

var miniFleet = &peer{
	name: miniFleetName, title: "MiniFleet",
	how: "one GitSource, told by an annotation right after the push, as `kubectl annotate` does; it chooses each MiniCluster's member itself",
	notComparable: "it creates each Job suspended and releases it once its run is in the hub's ledger, which none of the others has, " +
		"and keeps a status for each MiniCluster",
	finalized: []schema.GroupVersionKind{v1alpha1.GroupVersion.WithKind("FleetMiniCluster"), v1alpha1.GroupVersion.WithKind("GitSource")},
	driver:    func(t *turn) driver { return &miniFleetDriver{turn: t} },
}

type miniFleetDriver struct {
	*turn
	repository *repository
}

func (d *miniFleetDriver) start(ctx context.Context) error {
	if err := d.register(ctx); err != nil {
		return err
	}
	kubeconfig, err := d.kubeconfigFile(hubName)
	if err != nil {
		return err
	}
	err = d.run("minifleet", d.options.MiniFleet, nil, "controller", "--kubeconfig", kubeconfig, "--namespace", systemNamespace,
		"--leader-elect=false", "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
		"--git-allowed-cidrs", "127.0.0.0/8,::1/128", "--git-max-objects", "100000")
	if err != nil {
		return err
	}
	if err := d.connected(ctx); err != nil {
		return err
	}
	return d.follow(ctx)
}

// register registers the members, once for all turns, with kubeconfigs of this peer.
func (d *miniFleetDriver) register(ctx context.Context) error {
	if d.registered {
		return nil
	}
	root, err := lab.RepositoryRoot()
	if err != nil {
		return err
	}
	if err := d.lab.Cluster(hubName).ApplyCRDs(ctx, filepath.Join(root, "config", "crd", "bases")); err != nil {
		return err
	}
	if err := d.hub().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}}); err != nil {
		return err
	}
	for _, name := range memberNames {
		kubeconfig, err := d.kubeconfig(name)
		if err != nil {
			return err
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: name},
			Data:       map[string][]byte{v1alpha1.KubeconfigKey: kubeconfig},
		}
		if err := d.hub().Create(ctx, secret); err != nil {
			return err
		}
		member := &v1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.MemberClusterSpec{Namespaces: v1alpha1.AllNamespaces(), KubeconfigSecretRef: v1alpha1.LocalReference{Name: name}},
		}
		if err := d.hub().Create(ctx, member); err != nil {
			return err
		}
	}
	d.registered = true
	return nil
}

// connected waits until this process has heard of all members.
func (d *miniFleetDriver) connected(ctx context.Context) error {
	return eventually(ctx, "the members to be connected", func(ctx context.Context) (bool, error) {
		var list v1alpha1.MemberClusterList
		if err := d.hub().List(ctx, &list); err != nil {
			return false, err
		}
		for i := range list.Items {
			if !meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
				return false, d.running()
			}
		}
		return true, nil
	})
}

// follow declares a Placement and a GitSource, and waits for its first fetch.
func (d *miniFleetDriver) follow(ctx context.Context) error {
	var err error
	if d.repository, err = d.turn.repository(ctx, map[string]string{"README.md": "MiniClusters to measure with.\n"}); err != nil {
		return err
	}
	one := int32(1)
	placement := &v1alpha1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: placementName},
		Spec:       v1alpha1.PlacementSpec{NumberOfClusters: &one},
	}
	if err := d.hub().Create(ctx, placement); err != nil {
		return err
	}
	source := &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: d.namespace},
		Spec: v1alpha1.GitSourceSpec{
			URL: d.repository.url, Interval: metav1.Duration{Duration: time.Hour}, Timeout: metav1.Duration{Duration: 10 * time.Minute},
			DefaultPlacement: &v1alpha1.LocalReference{Name: placementName},
		},
	}
	if err := d.hub().Create(ctx, source); err != nil {
		return err
	}
	return eventually(ctx, "the first fetch of the repository", func(ctx context.Context) (bool, error) {
		err := d.hub().Get(ctx, client.ObjectKeyFromObject(source), source)
		return source.Status.Commit != "", err
	})
}

func (d *miniFleetDriver) declare(ctx context.Context, names []string) error {
	files := map[string]string{}
	for _, name := range names {
		files[name+".yaml"] = fmt.Sprintf(workload.Manifest, name)
	}
	return d.repository.push(ctx, files)
}

func (d *miniFleetDriver) tell(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, fetchAnnotation, time.Now().UnixNano())
	source := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: d.namespace}}
	return d.hub().Patch(ctx, source, client.RawPatch(types.MergePatchType, patch))
}
