// Package enforcement finds out whether a hub keeps those from editing spec.allow of GitSources who may not: whether the
// admission policy of config/policy is installed there, as it is there, and denies. What comes in are the hub's policies
// and bindings; what goes out is why what sources allow does not count.
package enforcement

import (
	"context"
	"fmt"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/config/policy"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=minifleet-gitsource-allow;gitsource-allow,verbs=get

// Interval is how old an answer may be.
const Interval = 30 * time.Second

// remedy ends every answer.
const remedy = "install it with `kubectl apply -k config/policy` (Kubernetes 1.30 or later), or start the controller with " +
	"--allow-without-admission-policy where only those may write GitSources who may let them use anything"

// Checker answers for one hub. The zero value but for Waived asks nobody.
type Checker struct {
	// Reader reads the hub itself, and no cache of it.
	Reader client.Reader
	// Waived says that what sources allow counts without the policy.
	Waived bool
	// Interval is how old an answer may be.
	Interval time.Duration
	Now      func() time.Time
	// Changed is called when the answer has, nil for nobody.
	Changed func()

	mu     sync.Mutex
	at     time.Time
	answer string
}

// Missing is why what sources allow does not count, empty if it does. The error is one of the hub's, after which it is not
// known.
func (c *Checker) Missing(ctx context.Context) (string, error) {
	if c.Waived {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.Now(); c.at.IsZero() || now.Sub(c.at) >= c.Interval {
		answer, err := missing(ctx, c.Reader)
		if err != nil {
			return "", err
		}
		c.at, c.answer = now, answer
	}
	return c.answer, nil
}

// Start asks again and again, and tells of changes, until the context ends.
func (c *Checker) Start(ctx context.Context) error {
	if c.Waived {
		return nil
	}
	before, asked := "", false
	ticker := time.NewTicker(c.Interval)
	defer ticker.Stop()
	for {
		if answer, err := c.Missing(ctx); err == nil {
			if asked && answer != before && c.Changed != nil {
				c.Changed()
			}
			before, asked = answer, true
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func missing(ctx context.Context, reader client.Reader) (string, error) {
	why := ""
	for _, name := range policy.Names() {
		problem, err := problemOf(ctx, reader, name)
		if err != nil {
			return "", err
		}
		if problem == "" {
			return "", nil
		}
		if why == "" || problem != absent+policyKind+" "+name {
			why = problem // that of a policy which is there
		}
	}
	return why + ": " + remedy, nil
}

const (
	absent     = "the hub has no "
	policyKind = "ValidatingAdmissionPolicy"
)

// problemOf says what is wrong with the policy of a name, or with its binding.
func problemOf(ctx context.Context, reader client.Reader, name string) (string, error) {
	want, err := manifest()
	if err != nil {
		return "", err
	}
	var have admissionregistrationv1.ValidatingAdmissionPolicy
	if problem, err := read(ctx, reader, name, policyKind, &have); problem != "" || err != nil {
		return problem, err
	}
	var binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
	if problem, err := read(ctx, reader, name, policyKind+"Binding", &binding); problem != "" || err != nil {
		return problem, err
	}
	if !have.DeletionTimestamp.IsZero() || !binding.DeletionTimestamp.IsZero() {
		return fmt.Sprintf("the ValidatingAdmissionPolicy %s of the hub, or its binding, is being deleted", name), nil
	}
	if field := differs(&want.Spec, &have.Spec); field != "" {
		return fmt.Sprintf("the ValidatingAdmissionPolicy %s of the hub is not that of this version of MiniFleet: %s differs", name, field), nil
	}
	if problem := unbound(&binding.Spec, name); problem != "" {
		return fmt.Sprintf("the ValidatingAdmissionPolicyBinding %s of the hub %s", name, problem), nil
	}
	return "", nil
}

// read says what is wrong where an object cannot be had. A hub that is too old does not know its kind.
func read(ctx context.Context, reader client.Reader, name, kind string, into client.Object) (string, error) {
	err := reader.Get(ctx, client.ObjectKey{Name: name}, into)
	switch {
	case err == nil:
		return "", nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return absent + kind + " " + name, nil
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("the controller may not read the %s %s of the hub", kind, name), nil
	default:
		return "", fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
}
