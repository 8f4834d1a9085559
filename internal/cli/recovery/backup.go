package recovery

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/backup"
)

// Backup is one that is asked for.
type Backup struct {
	Hub client.Reader
	// Namespace is that of the hub's controller.
	Namespace string
	// Secrets has kubeconfigs and the Secrets of sources be in the file.
	Secrets bool
	// Program is the version of this program, Now the time.
	Program string
	Now     time.Time
}

// Run writes the backup of a hub. FleetMiniClusters, of which there are many, are kept in a file beside until all else is
// read: they are read first, so that whatever they speak of is in what is read later. An error names what could not be read.
func (b *Backup) Run(ctx context.Context, out io.Writer, spool *os.File) (backup.Header, error) {
	kinds, err := ownKinds(ctx, b.Hub)
	if err != nil {
		return backup.Header{}, err
	}
	c := collection{Backup: b, namespaces: map[string]bool{b.Namespace: true}}
	runs, err := c.readRuns(ctx, kinds, spool)
	if err != nil {
		return backup.Header{}, err
	}
	if err := c.readAll(ctx, kinds); err != nil {
		return backup.Header{}, err
	}
	header := c.header
	header.Lists = append(header.Lists, runs...)
	w, err := backup.NewWriter(out, header)
	if err != nil {
		return header, err
	}
	for _, obj := range c.objects {
		if err := w.Add(obj); err != nil {
			return header, err
		}
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return header, err
	}
	n := 0
	for _, list := range runs {
		n += list.Objects
	}
	if err := w.Copy(spool, n); err != nil {
		return header, err
	}
	return header, w.Close()
}

// collection is what a backup has read so far.
type collection struct {
	*Backup
	header     backup.Header
	objects    []*unstructured.Unstructured
	namespaces map[string]bool // which have something of MiniFleet
	secrets    []backup.SecretRef
}

// readRuns writes all FleetMiniClusters to a file.
func (c *collection) readRuns(ctx context.Context, kinds []schema.GroupVersionKind, spool io.Writer) ([]backup.List, error) {
	var out []backup.List
	for _, kind := range kinds {
		if kind.Kind != kindFleetMiniCluster {
			continue
		}
		n := 0
		version, err := eachOf(ctx, c.Hub, kind, func(obj *unstructured.Unstructured) error {
			c.namespaces[obj.GetNamespace()] = true
			n++
			return backup.WriteObject(spool, backup.Keep(obj))
		})
		if err != nil {
			return nil, err
		}
		out = append(out, backup.List{Kind: kind.Kind, Objects: n, ResourceVersion: version})
	}
	return out, nil
}

// readAll reads all else: what refers to something before what it refers to, and the identity last.
func (c *collection) readAll(ctx context.Context, kinds []schema.GroupVersionKind) error {
	parts := make([][]*unstructured.Unstructured, len(kinds))
	lists := make([]backup.List, len(kinds))
	for i, kind := range slices.Backward(kinds) {
		if kind.Kind == kindFleetMiniCluster {
			continue
		}
		version, err := eachOf(ctx, c.Hub, kind, func(obj *unstructured.Unstructured) error {
			if obj.GetNamespace() != "" {
				c.namespaces[obj.GetNamespace()] = true
			}
			parts[i] = append(parts[i], backup.Keep(obj))
			c.secrets = append(c.secrets, backup.SecretRefs(obj, c.Namespace)...)
			return nil
		})
		if err != nil {
			return err
		}
		lists[i] = backup.List{Kind: kind.Kind, Objects: len(parts[i]), ResourceVersion: version}
	}
	for _, read := range []func(context.Context) error{c.readBindings, c.readNamespaces, c.readSecrets} {
		if err := read(ctx); err != nil {
			return err
		}
	}
	for i := range parts {
		if lists[i].Kind != "" {
			c.add(lists[i], parts[i])
		}
	}
	return c.readIdentity(ctx)
}

func (c *collection) add(list backup.List, objects []*unstructured.Unstructured) {
	list.Objects = len(objects)
	c.header.Lists = append(c.header.Lists, list)
	c.objects = append(c.objects, objects...)
}

// readNamespaces reads those that have something of MiniFleet, or on which something is said to it.
func (c *collection) readNamespaces(ctx context.Context) error {
	var found []*unstructured.Unstructured
	version, err := eachOf(ctx, c.Hub, namespaceKind, func(obj *unstructured.Unstructured) error {
		kept := backup.KeepNamespace(obj)
		if c.namespaces[obj.GetName()] || len(kept.GetAnnotations()) > 0 {
			found = append(found, kept)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.add(backup.List{Kind: namespaceKind.Kind, ResourceVersion: version}, found)
	return nil
}

// readBindings reads who has been given MiniFleet's roles. What is installed with it is installed again.
func (c *collection) readBindings(ctx context.Context) error {
	for _, kind := range []schema.GroupVersionKind{clusterRoleBindingKind, roleBindingKind} {
		var found []*unstructured.Unstructured
		version, err := eachOf(ctx, c.Hub, kind, func(obj *unstructured.Unstructured) error {
			role, _, _ := unstructured.NestedString(obj.Object, "roleRef", "name") // every binding has that
			if strings.HasPrefix(role, rolePrefix) && obj.GetLabels()[labelPartOf] != v1alpha1.ManagedBy && obj.GetDeletionTimestamp() == nil {
				found = append(found, backup.Keep(obj))
				if obj.GetNamespace() != "" {
					c.namespaces[obj.GetNamespace()] = true
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		c.add(backup.List{Kind: kind.Kind, ResourceVersion: version}, found)
	}
	return nil
}

const (
	// labelPartOf is on everything that is installed with MiniFleet.
	labelPartOf = "app.kubernetes.io/part-of"
	// rolePrefix begins the names of MiniFleet's roles.
	rolePrefix = "minifleet-"
)

// readSecrets reads the Secrets that what was read needs, or only names them.
func (c *collection) readSecrets(ctx context.Context) error {
	slices.SortFunc(c.secrets, func(a, b backup.SecretRef) int {
		return strings.Compare(a.Namespace+"/"+a.Name+" "+a.For, b.Namespace+"/"+b.Name+" "+b.For)
	})
	var found []*unstructured.Unstructured
	last := client.ObjectKey{}
	for _, ref := range c.secrets {
		key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
		if !c.Secrets {
			c.header.KeepSeparately = append(c.header.KeepSeparately, fmt.Sprintf("Secret %s: %s", nameOf(key), ref.For))
			continue
		}
		if key == last {
			continue
		}
		last = key
		obj, err := read(ctx, c.Hub, secretKind, key)
		if err != nil {
			return err
		}
		if obj != nil {
			found = append(found, backup.Keep(obj))
		}
	}
	if c.Secrets {
		c.add(backup.List{Kind: secretKind.Kind}, found)
	}
	return nil
}

// readIdentity reads the identity, the latest of what is read: members are noted in it before anything is done there.
func (c *collection) readIdentity(ctx context.Context) error {
	key := client.ObjectKey{Namespace: c.Namespace, Name: v1alpha1.FleetConfigMap}
	obj, err := read(ctx, c.Hub, configMapKind, key)
	if err != nil {
		return err
	}
	if obj == nil {
		return fmt.Errorf("%w, in namespace %s of the hub: name that of its controller with --manager-namespace, or another hub with --context", errNoIdentity, c.Namespace)
	}
	system, err := read(ctx, c.Hub, namespaceKind, client.ObjectKey{Name: metav1.NamespaceSystem})
	if err != nil {
		return err
	}
	identity := identityOf(obj)
	epoch, err := identity.Epoch()
	if err != nil {
		return err
	}
	h := &c.header
	h.Created, h.Program = c.Now.UTC().Format(time.RFC3339), c.Program
	h.FleetID, h.Epoch, h.ManagerNamespace, h.Secrets = identity.ID(), epoch, c.Namespace, c.Secrets
	if system != nil {
		h.HubUID = string(system.GetUID())
	}
	c.objects = slices.Insert(c.objects, 0, backup.Keep(obj))
	h.Lists = slices.Insert(h.Lists, 0, backup.List{Kind: configMapKind.Kind, Objects: 1})
	return nil
}

func identityOf(configMap *unstructured.Unstructured) backup.Identity {
	data, _, _ := unstructured.NestedStringMap(configMap.Object, "data") // the API takes no other
	return data
}
