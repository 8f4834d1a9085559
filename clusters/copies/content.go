package copies

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// Empty returns an empty Secret or ConfigMap.
func Empty(kind string) client.Object {
	if kind == fluxv1alpha2.KindSecret {
		return &corev1.Secret{}
	}
	return &corev1.ConfigMap{}
}

// Kind is the kind of a Secret or ConfigMap; objects from an API server do not say it themselves.
func Kind(obj client.Object) string {
	if _, ok := obj.(*corev1.Secret); ok {
		return fluxv1alpha2.KindSecret
	}
	return fluxv1alpha2.KindConfigMap
}

// copyOf is a hub's object as a member is to have it: its content, and none of its labels and annotations,
// of which one may hold the content as kubectl was given it.
func copyOf(source client.Object, namespace string, user fleet.Origin) client.Object {
	out := Empty(Kind(source))
	setContent(out, source)
	out.SetNamespace(namespace)
	out.SetName(source.GetName())
	out.SetLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelCopy: "true"})
	out.SetAnnotations(map[string]string{
		v1alpha1.AnnotationFleetID:                    user.FleetID,
		v1alpha1.AnnotationCopyOf:                     source.GetNamespace() + "/" + source.GetName(),
		v1alpha1.AnnotationCopyOfUID:                  string(source.GetUID()),
		v1alpha1.AnnotationCopyOfVersion:              source.GetResourceVersion(),
		v1alpha1.AnnotationUserPrefix + user.OwnerUID: user.Owner,
	})
	return out
}

// setContent takes data, type and immutability of another object of the kind.
func setContent(to, from client.Object) {
	switch from := from.DeepCopyObject().(type) {
	case *corev1.Secret:
		to := to.(*corev1.Secret) //nolint:forcetypeassert // both are of one kind
		to.Data, to.Type, to.Immutable = from.Data, from.Type, from.Immutable
	case *corev1.ConfigMap:
		to := to.(*corev1.ConfigMap) //nolint:forcetypeassert // both are of one kind
		to.Data, to.BinaryData, to.Immutable = from.Data, from.BinaryData, from.Immutable
	}
}

func sameContent(want, have client.Object) bool {
	if immutable(want) != immutable(have) || typeOf(want) != typeOf(have) {
		return false
	}
	switch want := want.(type) {
	case *corev1.Secret:
		return equality.Semantic.DeepEqual(want.Data, have.(*corev1.Secret).Data) //nolint:forcetypeassert // both are of one kind
	case *corev1.ConfigMap:
		have := have.(*corev1.ConfigMap) //nolint:forcetypeassert // both are of one kind
		return equality.Semantic.DeepEqual(want.Data, have.Data) && equality.Semantic.DeepEqual(want.BinaryData, have.BinaryData)
	}
	return false
}

// marked says whether a copy carries all that makes it one. What version it was made from does not matter
// as long as its content is right, nor do its users.
func marked(want, have client.Object) bool {
	for k, v := range want.GetAnnotations() {
		if k != v1alpha1.AnnotationCopyOfVersion && !strings.HasPrefix(k, v1alpha1.AnnotationUserPrefix) && have.GetAnnotations()[k] != v {
			return false
		}
	}
	return includes(have.GetLabels(), want.GetLabels())
}

func typeOf(obj client.Object) corev1.SecretType {
	if s, ok := obj.(*corev1.Secret); ok {
		return s.Type
	}
	return ""
}

func immutable(obj client.Object) bool {
	var set *bool
	switch obj := obj.(type) {
	case *corev1.Secret:
		set = obj.Immutable
	case *corev1.ConfigMap:
		set = obj.Immutable
	}
	return set != nil && *set
}

func merged(base, over map[string]string) map[string]string {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, over)
	return out
}

// includes says whether a map has all that another has.
func includes(all, some map[string]string) bool {
	for k, v := range some {
		if got, ok := all[k]; !ok || got != v {
			return false
		}
	}
	return true
}
