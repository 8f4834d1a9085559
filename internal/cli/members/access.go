package members

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/config/member"
)

// kustomization is as much of one as config/member uses.
type kustomization struct {
	metav1.TypeMeta `json:",inline"`
	Namespace       string   `json:"namespace"`
	Resources       []string `json:"resources"`
}

// access are the objects on a member that give MiniFleet its rights there, in the order in which they are made: for one
// namespace that exists, for some that exist, or for the whole cluster.
func access(confined string, namespaces ...string) ([]client.Object, error) {
	switch {
	case confined != "":
		return build("namespaced", confined)
	case len(namespaces) == 0:
		return build("cluster", "")
	}
	out, err := build("namespaces", "")
	if err != nil {
		return nil, err
	}
	leader, err := decode(path.Join("namespaces", "leader.yaml"))
	if err != nil {
		return nil, err
	}
	out = append(out, leader...)
	for _, namespace := range namespaces {
		bindings, err := decode(path.Join("namespaces", "binding.yaml"))
		if err != nil {
			return nil, err
		}
		for _, obj := range bindings {
			obj.SetNamespace(namespace)
		}
		out = append(out, bindings...)
	}
	return out, nil
}

// policy are the objects that bound what MiniFleet's credentials are worth, however they are given.
func policy() ([]client.Object, error) { return build("policy", "") }

// isPolicy says whether an object is one of policy's.
func isPolicy(obj client.Object) bool {
	switch obj.(type) {
	case *admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding:
		return true
	default:
		return false
	}
}

// build is what kustomize does with a directory, with another namespace than its own where one is given.
func build(directory, namespace string) ([]client.Object, error) {
	var k kustomization
	if err := readManifest(path.Join(directory, "kustomization.yaml"), &k); err != nil {
		return nil, err
	}
	if namespace != "" {
		k.Namespace = namespace
	}
	var out []client.Object
	for _, file := range k.Resources {
		objects, err := decode(path.Join(directory, file))
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			setNamespace(obj, k.Namespace)
		}
		out = append(out, objects...)
	}
	return out, nil
}

func readManifest(file string, into any) error {
	body, err := member.Manifests.ReadFile(file)
	if err != nil {
		return err
	}
	return yaml.UnmarshalStrict(body, into)
}

// decode reads the objects of a manifest.
func decode(file string) ([]client.Object, error) {
	body, err := member.Manifests.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []client.Object
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(body))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		decoded, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		obj, ok := decoded.(client.Object)
		if !ok {
			return nil, fmt.Errorf("%s holds a %T", file, decoded)
		}
		out = append(out, obj)
	}
}

// setNamespace is what kustomize does with the namespace of a kustomization.
func setNamespace(obj client.Object, namespace string) {
	switch o := obj.(type) {
	case *corev1.Namespace, *rbacv1.ClusterRole, *admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding:
		return
	case *rbacv1.ClusterRoleBinding:
		setSubjects(o.Subjects, namespace)
		return
	case *rbacv1.RoleBinding:
		setSubjects(o.Subjects, namespace)
	}
	obj.SetNamespace(namespace)
}

func setSubjects(subjects []rbacv1.Subject, namespace string) {
	for i := range subjects {
		if subjects[i].Kind == rbacv1.ServiceAccountKind {
			subjects[i].Namespace = namespace
		}
	}
}

// tokenOf is the Secret among objects that the cluster puts a token into.
func tokenOf(objects []client.Object) *corev1.Secret {
	for _, obj := range objects {
		if s, ok := obj.(*corev1.Secret); ok && s.Type == corev1.SecretTypeServiceAccountToken {
			return s
		}
	}
	return nil
}
