package peers

import (
	"bytes"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/hack/bench/workload"
	"github.com/minifleet/minifleet/internal/render"
)

// bundle is what MiniFleet makes of a MiniCluster on a member, for a peer that applies plain objects.
func bundle(name, namespace string) (*render.Bundle, error) {
	return workload.Render(render.Input{Name: name, Namespace: namespace})
}

// plain is the same as YAML documents.
func plain(name, namespace string) (string, error) {
	b, err := bundle(name, namespace)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	for _, object := range b.Objects() {
		document, err := document(object)
		if err != nil {
			return "", err
		}
		text.WriteString("---\n")
		text.Write(document)
	}
	return text.String(), nil
}

// document is an object as people keep it in Git: with its kind, and without status.
func document(object runtime.Object) ([]byte, error) {
	gvk, err := apiutil.GVKForObject(object, scheme.Scheme)
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(gvk)
	for _, path := range [][]string{{"status"}, {"metadata", "creationTimestamp"}, {"spec", "template", "metadata", "creationTimestamp"}} {
		unstructured.RemoveNestedField(u.Object, path...)
	}
	return yaml.Marshal(u.Object)
}

// memberOf is the member of the i-th MiniCluster, where the peer does not choose.
func memberOf(i int) string { return memberNames[i%len(memberNames)] }
