package lab_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/hack/lab"
)

func TestNeverAllowedForgivesARightThatComesLate(t *testing.T) {
	needsOwned(t)
	hub := shared.Cluster("hub")
	kubeconfig, err := hub.KubeconfigFor("late")
	if err != nil {
		t.Fatal(err)
	}
	late := clientWith(t, kubeconfig)
	for resource, ask := range map[string]func() error{
		"configmaps": func() error {
			_, err := late.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
			return err
		},
		"secrets": func() error {
			_, err := late.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
			return err
		},
		"/metrics": func() error { return late.RESTClient().Get().AbsPath("/metrics").Do(t.Context()).Error() },
	} {
		if ask() == nil {
			t.Fatalf("%s may be read", resource)
		}
	}
	never := func() []string {
		events, err := lab.ReadAudit(hub.AuditLog())
		if err != nil {
			t.Fatal(err)
		}
		events = slices.DeleteFunc(events, func(e lab.AuditEvent) bool { return e.User.Username != "late" })
		lines, err := hub.NeverAllowed(t.Context(), events)
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	if lines := never(); len(lines) != 3 {
		t.Errorf("got %q", lines)
	}

	rbac := clientFor(t, hub).RbacV1()
	rules := []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}
	if _, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "late"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "late"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "late"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(context.Context) string {
		lines := never()
		if len(lines) == 2 && strings.Contains(lines[0], "/metrics") && strings.Contains(lines[1], "secrets") {
			return ""
		}
		return strings.Join(lines, "\n")
	})
}
