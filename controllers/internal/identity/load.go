package identity

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Load reads the identity of the fleet, or makes one where there is none.
func Load(ctx context.Context, o Options) (*Identity, error) {
	var system corev1.Namespace
	if err := o.Reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return nil, fmt.Errorf("reading the UID of namespace %s, by which members know this hub: %w", metav1.NamespaceSystem, err)
	}
	i := &Identity{Options: o, hub: string(system.UID), declared: map[string]bool{}}
	cm, c, err := read(ctx, o.Reader, i.key())
	if apierrors.IsNotFound(err) {
		c, err = i.create(ctx)
		if apierrors.IsAlreadyExists(err) { // another replica was faster
			cm, c, err = read(ctx, o.Reader, i.key())
		}
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(refuseHalfRestored(cm, i.key()), refuseOldEpoch(cm, c, i.key())); err != nil {
		return nil, err
	}
	i.id, i.epoch, i.content, i.read = c.id, c.epoch, c, o.Now()
	if c.listed || c.epoch == 1 {
		return i, nil
	}
	return i, i.listRegistered(ctx)
}

// refuseHalfRestored keeps a hub from leading the fleet before all of a backup is on it.
func refuseHalfRestored(cm *corev1.ConfigMap, key types.NamespacedName) error {
	if cm == nil || cm.Data[v1alpha1.FleetRestoringKey] == "" {
		return nil
	}
	return fmt.Errorf("ConfigMap %s: data.%s: a backup is being restored on this hub, or that was interrupted: run `minifleet restore` with the same file to its end, or remove the key to lead the fleet with what is there",
		key, v1alpha1.FleetRestoringKey)
}

// refuseOldEpoch keeps a hub from leading the fleet in the epoch of a backup, where that can be known: Velero marks what it
// puts back. It is not raised here, for what was restored may be a copy, beside a hub that leads on.
func refuseOldEpoch(cm *corev1.ConfigMap, c content, key types.NamespacedName) error {
	if cm == nil || cm.Labels[v1alpha1.LabelVeleroRestore] == "" {
		return nil
	}
	return fmt.Errorf("ConfigMap %s: metadata.labels: %s=%s says that it was put back from a backup, so that its epoch may be one in which members were used since: raise it, and take the label off, with `kubectl -n %s patch configmap %s --type merge -p '{\"metadata\":{\"labels\":{\"%s\":null}},\"data\":{\"epoch\":\"%d\"}}'`, unless this is a copy of a hub that leads on",
		key, v1alpha1.LabelVeleroRestore, cm.Labels[v1alpha1.LabelVeleroRestore], key.Namespace, key.Name, v1alpha1.LabelVeleroRestore, c.epoch+1)
}

// create makes the ConfigMap.
func (i *Identity) create(ctx context.Context) (content, error) {
	members, err := registered(ctx, i.Reader)
	if err != nil {
		return content{}, err
	}
	c := initial(members, i.hub, uuid.NewString())
	cm := i.empty()
	cm.Data = c.data(nil)
	if err := i.Writer.Create(ctx, cm); err != nil {
		return content{}, fmt.Errorf("creating ConfigMap %s, the identity of the fleet: %w", i.key(), err)
	}
	i.Log.Info("made the identity of the fleet", "configmap", i.key().String(), "id", c.id)
	return c, nil
}

// initial is the identity of a fleet that has had none but the UID of its hub, so that what it has on members stays its
// own, or of a new one.
func initial(members []v1alpha1.MemberCluster, hub, random string) content {
	c := content{id: random, epoch: 1, members: map[string]membership{}, listed: true}
	for i := range members {
		if uid := members[i].Status.ClusterUID; uid != "" {
			c.id = hub
			c.members[members[i].Name] = membership{uid: uid, epoch: 1}
		}
	}
	return c
}

// listRegistered has all registered members count as unasked: this hub follows another, and who has made the ConfigMap
// did not say which members that has used.
func (i *Identity) listRegistered(ctx context.Context) error {
	members, err := registered(ctx, i.Reader)
	if err != nil {
		return err
	}
	return i.update(ctx, func(c *content) {
		for j := range members {
			uid := members[j].Status.ClusterUID
			if uid == "" {
				uid = unknownUID
			}
			if _, known := c.members[members[j].Name]; !known {
				c.members[members[j].Name] = membership{uid: uid}
			}
		}
	})
}

func registered(ctx context.Context, reader client.Reader) ([]v1alpha1.MemberCluster, error) {
	var list v1alpha1.MemberClusterList
	if err := reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing MemberClusters for the identity of the fleet: %w", err)
	}
	return list.Items, nil
}

// read reads the ConfigMap. An error about its content names the object, the key and the remedy.
func read(ctx context.Context, reader client.Reader, key types.NamespacedName) (*corev1.ConfigMap, content, error) {
	var cm corev1.ConfigMap
	if err := reader.Get(ctx, key, &cm); err != nil {
		return nil, content{}, fmt.Errorf("reading ConfigMap %s, the identity of the fleet: %w", key, err)
	}
	c, err := parse(cm.Data)
	if err != nil {
		return nil, content{}, fmt.Errorf("ConfigMap %s, the identity of the fleet: %w", key, err)
	}
	return &cm, c, nil
}
