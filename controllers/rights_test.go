package controllers_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/hack/lab"
)

// rights reads the role in config/member/KIND/role.yaml and binds it to a user: a ClusterRole where kind
// is "cluster", a Role in the namespace where it is "namespaced".
func rights(kind, namespace, user string) []client.Object {
	GinkgoHelper()
	root, err := lab.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(root, "config", "member", kind, "role.yaml")
	body, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		Skip("there is no " + path)
	}
	Expect(err).NotTo(HaveOccurred())
	role, _, _ := strings.Cut(string(body), "\n---\n") // the binding to a ServiceAccount follows
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	named := metav1.ObjectMeta{Name: user, Namespace: namespace}
	if kind == "cluster" {
		var r rbacv1.ClusterRole
		Expect(yaml.UnmarshalStrict([]byte(role), &r)).To(Succeed())
		r.ObjectMeta = named
		return []client.Object{&r, &rbacv1.ClusterRoleBinding{
			ObjectMeta: named, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		}}
	}
	var r rbacv1.Role
	Expect(yaml.UnmarshalStrict([]byte(role), &r)).To(Succeed())
	r.ObjectMeta = named
	return []client.Object{&r, &rbacv1.RoleBinding{
		ObjectMeta: named, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	}}
}
