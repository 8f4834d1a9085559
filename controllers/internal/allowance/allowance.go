// Package allowance reads what namespaces of the hub allow. What comes in is a namespace's name or a change of
// it; what goes out is its grant, or whether the change is one of its grant.
package allowance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/grant"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// OfNamespace reads what a namespace allows: nothing if it is not there.
func OfNamespace(ctx context.Context, reader client.Reader, name string) (grant.Namespace, error) {
	var ns corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, &ns); client.IgnoreNotFound(err) != nil {
		return grant.Namespace{}, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return grant.OfNamespace(name, ns.Annotations), nil
}

// Changed accepts changes of what namespaces allow, and no other changes of them.
func Changed() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return of(e.Object) != "" },
		UpdateFunc: func(e event.UpdateEvent) bool { return of(e.ObjectOld) != of(e.ObjectNew) },
		DeleteFunc: func(event.DeleteEvent) bool { return false }, // what was in it is deleted with it
	}
}

func of(namespace client.Object) string { return namespace.GetAnnotations()[v1alpha1.AnnotationAllow] }
