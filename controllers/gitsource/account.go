package gitsource

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// maxAccounts is how many clients of service accounts are remembered.
const maxAccounts = 256

// Accounts makes clients that write to the hub as service accounts, by impersonation.
type Accounts struct {
	// Config is that of the hub; whoever it is needs the verb impersonate on these service accounts.
	Config *rest.Config
	// Options of the clients, with what they share.
	Options client.Options

	mu      sync.Mutex
	writers map[types.NamespacedName]client.Writer
}

// Writer returns what writes as a service account.
func (a *Accounts) Writer(account types.NamespacedName) (client.Writer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w, ok := a.writers[account]; ok {
		return w, nil
	}
	cfg := rest.CopyConfig(a.Config)
	// The API server adds the groups of a service account itself.
	cfg.Impersonate = rest.ImpersonationConfig{UserName: userOf(account)}
	w, err := client.New(cfg, a.Options)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", userOf(account), err)
	}
	if a.writers == nil || len(a.writers) >= maxAccounts {
		a.writers = map[types.NamespacedName]client.Writer{}
	}
	a.writers[account] = w
	return w, nil
}

const accountPrefix = "system:serviceaccount:"

// userOf is the name of a service account as a user.
func userOf(account types.NamespacedName) string {
	return accountPrefix + account.Namespace + ":" + account.Name
}

// writer writes what a source declares, as the service account that it names, or as the hub itself.
func (r *Reconciler) writer(source *v1alpha1.GitSource) (client.Writer, error) {
	name := source.Spec.ServiceAccountName
	if name == "" {
		name = r.Settings.DefaultServiceAccount
	}
	if name == "" || r.Accounts == nil {
		return r.Client, nil
	}
	return r.Accounts.Writer(types.NamespacedName{Namespace: source.Namespace, Name: name})
}

// forbidden is how the API server says that RBAC lacks something.
var forbidden = regexp.MustCompile(`User "([^"]*)" cannot (\S+) resource "([^"]*)"`)

// explained is an error of a write, with what to do about it where an account lacks a right.
func explained(err error, namespace string) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	m := forbidden.FindStringSubmatch(err.Error())
	if m == nil {
		return err // a quota, or an admission policy
	}
	user, verb, resource := m[1], m[2], m[3]
	if strings.HasPrefix(verb, "impersonate") { // or impersonate:serviceaccount, since Kubernetes 1.35
		return &sourceError{v1alpha1.ReasonImpersonationForbidden, fmt.Sprintf(
			"spec.serviceAccountName: the hub may not act as a service account of namespace %s, so nothing was applied, and nothing is deleted: "+
				"kubectl -n %s create rolebinding minifleet-impersonator --clusterrole=minifleet-impersonator %s",
			namespace, namespace, subject(user))}
	}
	return &lacking{fmt.Sprintf("%s lacks the verb %s on %s in namespace %s, so this stays as it is on the hub: kubectl -n %s create rolebinding %s --clusterrole=minifleet-editor %s",
		sanitize.Text(user, sanitize.MaxNote/4), verb, resource, namespace, namespace, "minifleet-"+nameOf(user), subject(user))}
}

// lacking says that an account lacks a right. It is about the objects of one source, and tried again at its interval.
type lacking struct{ message string }

func (e *lacking) Error() string { return e.message }

func isLacking(err error) bool {
	var l *lacking
	return errors.As(err, &l)
}

// cannotAct says that no object of a source can be applied, since the hub may not act as its account.
func cannotAct(err error) error {
	var own *sourceError
	if errors.As(err, &own) && own.reason == v1alpha1.ReasonImpersonationForbidden {
		return own
	}
	return nil
}

// subject is a user as `kubectl create rolebinding` takes it.
func subject(user string) string {
	if account, ok := strings.CutPrefix(user, accountPrefix); ok {
		return "--serviceaccount=" + account
	}
	return "--user=" + user
}

func nameOf(user string) string { return user[strings.LastIndexByte(user, ':')+1:] }
