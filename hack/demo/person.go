package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// person is the service account that people log in to the dashboard with.
const person = "you"

// tokenSeconds is how long its token is valid: for demos that are left running.
const tokenSeconds = 7 * 24 * 3600

// admitPerson creates the account, which may do everything with MiniFleet's objects and nothing else, and returns its token.
func admitPerson(ctx context.Context, hub client.Client) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: fleetNamespace, Name: person}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "demo-person"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"get", "list", "watch"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}
	for _, object := range []client.Object{account, role, binding} {
		if err := hub.Create(ctx, object); err != nil {
			return "", err
		}
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](tokenSeconds)}}
	if err := hub.SubResource("token").Create(ctx, account, request); err != nil {
		return "", err
	}
	return request.Status.Token, nil
}

// openDashboard writes the address of the dashboard and a token for it into files, once the page answers.
func (u *up) openDashboard(ctx context.Context) error {
	token, err := admitPerson(ctx, u.hub)
	if err != nil {
		return fmt.Errorf("creating an account for the dashboard: %w", err)
	}
	if err := os.WriteFile(u.at.token(), []byte(token+"\n"), 0o600); err != nil {
		return err
	}
	if err := await(ctx, u.supervisor, func() bool { return answers(ctx, u.dashboard+"/api/v1/login-methods") }); err != nil {
		return fmt.Errorf("%w\n%s", err, controllerLog(u.at))
	}
	if err := os.WriteFile(u.at.dashboard(), []byte(u.dashboard+"\n"), 0o600); err != nil {
		return err
	}
	u.step("the dashboard is at %s", u.dashboard)
	return nil
}

// pageMissing says why the dashboard has no page, where it has none.
func pageMissing(ctx context.Context, at string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") {
		return ""
	}
	return "  (its API alone: the page needs Node.js 20 or later when MiniFleet is built)"
}
