package allowance_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/allowance"
	"github.com/minifleet/minifleet/internal/grant"
)

func namespace(allow string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hpc"}}
	if allow != "" {
		ns.Annotations = map[string]string{v1alpha1.AnnotationAllow: allow}
	}
	return ns
}

func TestOfNamespace(t *testing.T) {
	hub := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(namespace("HostPath")).Build()
	for name, tc := range map[string]struct {
		namespace string
		want      grant.Namespace
	}{
		"there":     {"hpc", grant.Namespace{Name: "hpc", Permissions: []v1alpha1.Permission{"HostPath"}}},
		"not there": {"other", grant.Namespace{Name: "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := allowance.OfNamespace(t.Context(), hub, tc.namespace)
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

type unreadable struct{ client.Reader }

var errDown = errors.New("down")

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errDown
}

func TestANamespaceThatCannotBeReadIsAnError(t *testing.T) {
	if _, err := allowance.OfNamespace(t.Context(), unreadable{}, "hpc"); !errors.Is(err, errDown) {
		t.Errorf("error %v, want %v", err, errDown)
	}
}

func TestChanged(t *testing.T) {
	changed := allowance.Changed()
	for name, tc := range map[string]struct{ got, want bool }{
		"created, allows something": {changed.Create(event.CreateEvent{Object: namespace("HostPath")}), true},
		"created, allows nothing":   {changed.Create(event.CreateEvent{Object: namespace("")}), false},
		"allows another thing":      {changed.Update(event.UpdateEvent{ObjectOld: namespace("HostPath"), ObjectNew: namespace("RunAsRoot")}), true},
		"allows nothing any more":   {changed.Update(event.UpdateEvent{ObjectOld: namespace("HostPath"), ObjectNew: namespace("")}), true},
		"allows the same":           {changed.Update(event.UpdateEvent{ObjectOld: namespace("HostPath"), ObjectNew: namespace("HostPath")}), false},
		"deleted":                   {changed.Delete(event.DeleteEvent{Object: namespace("HostPath")}), false},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %v, want %v", name, tc.got, tc.want)
		}
	}
}
