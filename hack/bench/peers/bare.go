package peers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/minifleet/minifleet/internal/render"
)

// bareLoop is the floor: the fewest requests that make the same objects.
var bareLoop = &peer{
	name: "bare", title: "bare create loop",
	how:           "a loop in this program creates what is rendered before: protobuf, no limit of requests, 32 MiniClusters in flight",
	notComparable: "it is a floor: no Git, no status, nothing is compared, kept or deleted",
	driver:        func(t *turn) driver { return &bareDriver{turn: t} },
}

type bareDriver struct {
	*turn
	members map[string]*kubernetes.Clientset
	bundles []*render.Bundle
}

func (d *bareDriver) start(context.Context) error {
	d.members = map[string]*kubernetes.Clientset{}
	for _, member := range memberNames {
		kubeconfig, err := d.kubeconfig(member)
		if err != nil {
			return err
		}
		cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		if err != nil {
			return err
		}
		cfg.QPS, cfg.ContentType = -1, "application/vnd.kubernetes.protobuf"
		if d.members[member], err = kubernetes.NewForConfig(cfg); err != nil {
			return err
		}
	}
	return nil
}

func (d *bareDriver) declare(_ context.Context, names []string) error {
	d.bundles = nil
	for _, name := range names {
		b, err := bundle(name, d.namespace)
		if err != nil {
			return err
		}
		d.bundles = append(d.bundles, b)
	}
	return nil
}

func (d *bareDriver) tell(ctx context.Context) error {
	return inParallel(len(d.bundles), func(i int) error { return createAll(ctx, d.members[memberOf(i)], d.bundles[i]) })
}

// createAll creates the objects of a MiniCluster one after the other, the Job last.
func createAll(ctx context.Context, to *kubernetes.Clientset, b *render.Bundle) error {
	if err := createAround(ctx, to, b); err != nil {
		return err
	}
	_, err := to.BatchV1().Jobs(b.Job.Namespace).Create(ctx, b.Job, metav1.CreateOptions{})
	return err
}

// createAround creates what the pods of a Job need.
func createAround(ctx context.Context, to *kubernetes.Clientset, b *render.Bundle) error {
	core, o := to.CoreV1(), metav1.CreateOptions{}
	if _, err := core.Secrets(b.Secret.Namespace).Create(ctx, b.Secret, o); err != nil {
		return err
	}
	if _, err := core.ConfigMaps(b.ConfigMap.Namespace).Create(ctx, b.ConfigMap, o); err != nil {
		return err
	}
	for _, service := range b.Services {
		if _, err := core.Services(service.Namespace).Create(ctx, service, o); err != nil {
			return err
		}
	}
	return nil
}
