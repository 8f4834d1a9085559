package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// confined is a member that is one namespace of a cluster: one API server can so stand for many members. To the controller
// each is a member as any other, with connections and caches of its own.
type confined struct{ name, cluster string }

// namespace is the one that it is, or that of all where a member is a cluster.
func (c confined) namespace() string {
	if c.name == c.cluster {
		return metav1.NamespaceAll
	}
	return c.name
}

// membersOf are all members.
func (f *fleet) membersOf() []confined {
	if len(f.confined) > 0 {
		return f.confined
	}
	var all []confined
	for _, name := range memberNames {
		all = append(all, confined{name: name, cluster: name})
	}
	return all
}

// registerConfined registers confined members, on all clusters in turns, until there are n, and waits until they are
// connected. The kubeconfigs are made by of, or are the clusters' own.
func (f *fleet) registerConfined(ctx context.Context, n int, of func(c confined) ([]byte, error)) error {
	from := len(f.confined)
	for i := from; i < n; i++ {
		f.confined = append(f.confined, confined{name: fmt.Sprintf("member-%04d", i), cluster: memberNames[i%len(memberNames)]})
	}
	err := many(n-from, func(i int) error { return f.registerNamespace(ctx, f.confined[from+i], of) })
	if err != nil {
		return err
	}
	return f.connected(ctx, n)
}

func (f *fleet) registerNamespace(ctx context.Context, c confined, of func(c confined) ([]byte, error)) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
	if _, err := f.bare[c.cluster].CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	kubeconfig := f.lab.Cluster(c.cluster).Kubeconfig()
	if of != nil {
		var err error
		if kubeconfig, err = of(c); err != nil {
			return err
		}
	}
	return f.create(ctx,
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: c.name},
			Data:       map[string][]byte{v1alpha1.KubeconfigKey: kubeconfig},
		},
		&v1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: c.name},
			Spec: v1alpha1.MemberClusterSpec{
				Namespaces: v1alpha1.AllNamespaces(), KubeconfigSecretRef: v1alpha1.LocalReference{Name: c.name},
				Namespace: c.name, Capacity: v1alpha1.CapacityObserve,
			},
		})
}
