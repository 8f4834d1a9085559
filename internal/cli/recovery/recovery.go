// Package recovery backs a hub up and restores it: what `minifleet backup` and `minifleet restore` do. A client of the hub
// comes in, with the rights of a person who administers it; out go a file, or objects on the hub, and a line for each.
//
//	backup.go   the hub into a file
//	restore.go  a file onto a hub: what is checked, and in which order it is put back
//	write.go    an object of a file, compared with the hub's and put back
//	hub.go      what is on the hub, and who runs there
//	members.go  the latest epoch that members have on record
package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// InputError is one of what was asked for: a file or a flag.
type InputError struct{ Message string }

// Error implements error.
func (e *InputError) Error() string { return e.Message }

func inputf(format string, args ...any) error { return &InputError{fmt.Sprintf(format, args...)} }

const (
	// pageSize is how many objects a request lists.
	pageSize = 500
	// maxNamed is how many objects an error names.
	maxNamed = 10
)

// Kinds of MiniFleet in the order in which they are put back. Others are in between, before what runs: they are found by
// their definitions.
const (
	kindMemberCluster    = "MemberCluster"
	kindGitSource        = "GitSource"
	kindPlacement        = "Placement"
	kindFleetMiniCluster = "FleetMiniCluster"
)

var firstKinds = []string{kindMemberCluster, kindGitSource, kindPlacement}

var (
	namespaceKind          = corev1.SchemeGroupVersion.WithKind("Namespace")
	secretKind             = corev1.SchemeGroupVersion.WithKind("Secret")
	configMapKind          = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	roleBindingKind        = rbacv1.SchemeGroupVersion.WithKind("RoleBinding")
	clusterRoleBindingKind = rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding")
)

// ownKinds are the kinds of MiniFleet that the hub has, in the order in which they are put back.
func ownKinds(ctx context.Context, hub client.Reader) ([]schema.GroupVersionKind, error) {
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := hub.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("reading CustomResourceDefinitions, for the kinds of MiniFleet: %w", err)
	}
	var out []schema.GroupVersionKind
	for i := range list.Items {
		spec := &list.Items[i].Spec
		if spec.Group == v1alpha1.GroupVersion.Group {
			out = append(out, schema.GroupVersionKind{Group: spec.Group, Version: storedVersion(spec), Kind: spec.Names.Kind})
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionKind) int {
		if d := rank(a.Kind) - rank(b.Kind); d != 0 {
			return d
		}
		return strings.Compare(a.Kind, b.Kind)
	})
	var missing []string
	for _, kind := range append(slices.Clone(firstKinds), kindFleetMiniCluster) {
		if !slices.ContainsFunc(out, func(k schema.GroupVersionKind) bool { return k.Kind == kind }) {
			missing = append(missing, kind)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the hub does not know MiniFleet's kinds %s: is it the right --context? `make install`, the Helm chart or install.yaml of a release installs them", strings.Join(missing, ", "))
	}
	return out, nil
}

func rank(kind string) int {
	if kind == kindFleetMiniCluster {
		return len(firstKinds) + 1
	}
	if i := slices.Index(firstKinds, kind); i >= 0 {
		return i
	}
	return len(firstKinds)
}

func storedVersion(spec *apiextensionsv1.CustomResourceDefinitionSpec) string {
	for i := range spec.Versions {
		if spec.Versions[i].Storage {
			return spec.Versions[i].Name
		}
	}
	return v1alpha1.GroupVersion.Version
}

// eachOf calls with every object of a kind, page after page, and returns the resource version of the first page.
func eachOf(ctx context.Context, hub client.Reader, kind schema.GroupVersionKind, each func(*unstructured.Unstructured) error) (version string, err error) {
	next := ""
	for {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := hub.List(ctx, &list, client.Limit(pageSize), client.Continue(next)); err != nil {
			return "", fmt.Errorf("reading %ss: %w", kind.Kind, err)
		}
		if version == "" {
			version = list.GetResourceVersion()
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(kind)
			if err := each(&list.Items[i]); err != nil {
				return "", err
			}
		}
		if next = list.GetContinue(); next == "" {
			return version, nil
		}
	}
}

// read reads an object, nil where there is none.
func read(ctx context.Context, hub client.Reader, kind schema.GroupVersionKind, key client.ObjectKey) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	err := hub.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, nameOf(key), err)
	}
	return obj, nil
}

// about is how an object is told of: KIND NAME, or KIND NAMESPACE/NAME.
func about(obj client.Object) string {
	return obj.GetObjectKind().GroupVersionKind().Kind + " " + nameOf(client.ObjectKeyFromObject(obj))
}

func nameOf(key client.ObjectKey) string {
	return strings.TrimPrefix(key.Namespace+"/"+key.Name, "/")
}

// some names the first of several.
func some(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}

// shown is an error without what could steer a terminal.
func shown(err error) string { return sanitize.Text(err.Error(), sanitize.MaxMessage) }

var errNoIdentity = errors.New("there is no ConfigMap " + v1alpha1.FleetConfigMap + ", the identity of the fleet")
