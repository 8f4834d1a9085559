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

// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=gitsources.minifleet.dev-v1alpha1-admin,verbs=get
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=minifleet-gitsource-allow;gitsource-allow,verbs=get

// Interval is how old an answer may be.
const Interval = 30 * time.Second

// remedy ends every answer.
const remedy = "install it with `kubectl apply -k config/policy` (Kubernetes 1.30 or later), or start the controller with " +
	"--allow-without-admission-policy where only those may write GitSources who may let them use anything"

// Installed is what is known of the hub's admission policy.
type Installed struct {
	// Problem is what is wrong with it, and what to do; empty for nothing.
	Problem string
	// Unreadable says that whoever asks may not read it, so that Problem is not for certain.
	Unreadable bool
}

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
	// Announce is told, once after the start and whenever it has changed, what is wrong with the policy, empty for nothing; also
	// where that is waived. Nil is nobody.
	Announce func(problem string)

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
	return c.problem(ctx)
}

// problem is what is wrong with the policy, waived or not.
func (c *Checker) problem(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.Now(); c.at.IsZero() || now.Sub(c.at) >= c.Interval {
		found, err := Examine(ctx, c.Reader)
		if err != nil {
			return "", err
		}
		c.at, c.answer = now, found.Problem
	}
	return c.answer, nil
}

// Start asks again and again, and tells of changes, until the context ends.
func (c *Checker) Start(ctx context.Context) error {
	before, asked := "", false
	ticker := time.NewTicker(c.Interval)
	defer ticker.Stop()
	for {
		if answer, err := c.problem(ctx); err == nil {
			if asked && answer != before && c.Changed != nil && !c.Waived {
				c.Changed()
			}
			if (!asked || answer != before) && c.Announce != nil {
				c.Announce(answer)
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

// Examine finds out whether the policy is installed on a hub, as this version of MiniFleet has it.
func Examine(ctx context.Context, reader client.Reader) (Installed, error) {
	out := Installed{}
	for _, name := range policy.Names() {
		found, have, err := problemOf(ctx, reader, name)
		if err != nil {
			return Installed{}, err
		}
		if found.Problem == "" {
			return examineGrants(ctx, reader, have)
		}
		if out.Problem == "" || found.Problem != absent+policyKind+" "+name {
			out = found // that of a policy which is there
		}
	}
	out.Problem += ": " + remedy
	return out, nil
}

const (
	absent     = "the hub has no "
	policyKind = "ValidatingAdmissionPolicy"
)

// problemOf says what is wrong with the policy of a name, or with its binding, and else what the policy is.
func problemOf(ctx context.Context, reader client.Reader, name string) (Installed, *admissionregistrationv1.ValidatingAdmissionPolicySpec, error) {
	want, err := manifest()
	if err != nil {
		return Installed{}, nil, err
	}
	var have admissionregistrationv1.ValidatingAdmissionPolicy
	if problem, err := read(ctx, reader, name, policyKind, &have); problem.Problem != "" || err != nil {
		return problem, nil, err
	}
	var binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
	if problem, err := read(ctx, reader, name, policyKind+"Binding", &binding); problem.Problem != "" || err != nil {
		return problem, nil, err
	}
	problem := ""
	if !have.DeletionTimestamp.IsZero() || !binding.DeletionTimestamp.IsZero() {
		problem = fmt.Sprintf("the ValidatingAdmissionPolicy %s of the hub, or its binding, is being deleted", name)
	} else if field := differs(&want.Spec, &have.Spec); field != "" {
		problem = fmt.Sprintf("the ValidatingAdmissionPolicy %s of the hub is not that of this version of MiniFleet: %s differs", name, field)
	} else if why := unbound(&binding.Spec, name); why != "" {
		problem = fmt.Sprintf("the ValidatingAdmissionPolicyBinding %s of the hub %s", name, why)
	}
	return Installed{Problem: problem}, &have.Spec, nil
}

// read says what is wrong where an object cannot be had. A hub that is too old does not know its kind.
func read(ctx context.Context, reader client.Reader, name, kind string, into client.Object) (Installed, error) {
	err := reader.Get(ctx, client.ObjectKey{Name: name}, into)
	switch {
	case err == nil:
		return Installed{}, nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return Installed{Problem: absent + kind + " " + name}, nil
	case apierrors.IsForbidden(err):
		return Installed{Problem: fmt.Sprintf("the controller may not read the %s %s of the hub", kind, name), Unreadable: true}, nil
	default:
		return Installed{}, fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
}
