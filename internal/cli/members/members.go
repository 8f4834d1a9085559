// Package members registers members at a hub and takes them out again: what `minifleet cluster` does. Clients of both
// clusters come in, with the rights of a person who administers them; out go objects on both, and a line for each step.
package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// AnnotationJoined is on everything that a join has made: UID/NAME, the UID of the manager's namespace on the hub and the
// name of the member. Nothing without it is changed or deleted.
const AnnotationJoined = "minifleet.dev/joined"

// DefaultManagerNamespace is where the hub's controller runs.
const DefaultManagerNamespace = "minifleet-system"

const (
	// pollInterval is how often an object is read that is waited for.
	pollInterval = 250 * time.Millisecond
	// undoTimeout bounds taking back what was made.
	undoTimeout = 30 * time.Second
)

// InputError is one of what was asked for.
type InputError struct{ Message string }

// Error implements error.
func (e *InputError) Error() string { return e.Message }

func inputf(format string, args ...any) error { return &InputError{fmt.Sprintf(format, args...)} }

// TimeoutError says that what was waited for has not come in time.
type TimeoutError struct{ Message string }

// Error implements error.
func (e *TimeoutError) Error() string { return e.Message }

// NotFoundError says that the hub has no such member.
type NotFoundError struct{ Message string }

// Error implements error.
func (e *NotFoundError) Error() string { return e.Message }

// Hub is a hub, as a person who administers it sees it.
type Hub struct {
	Client client.Client
	// Namespace is that of the hub's controller.
	Namespace string
	// Program is how texts name the program, such as "kubectl minifleet".
	Program string
	// Tell prints a line of progress.
	Tell func(format string, args ...any)
}

// get reads a MemberCluster; the error is a NotFoundError where there is none.
func (h *Hub) get(ctx context.Context, name string) (*v1alpha1.MemberCluster, error) {
	m := &v1alpha1.MemberCluster{}
	err := h.Client.Get(ctx, client.ObjectKey{Name: name}, m)
	if apierrors.IsNotFound(err) {
		return nil, &NotFoundError{fmt.Sprintf("MemberCluster %s not found: check the name; `%s cluster list` lists what there is", name, h.Program)}
	}
	return m, err
}

// Find reads a MemberCluster; nil where there is none.
func (h *Hub) Find(ctx context.Context, name string) (*v1alpha1.MemberCluster, error) {
	m, err := h.get(ctx, name)
	var absent *NotFoundError
	if errors.As(err, &absent) {
		return nil, nil
	}
	return m, err
}

// joined is the value of AnnotationJoined for a member of this hub.
func (h *Hub) joined(ctx context.Context, name string) (string, error) {
	system := &metav1.PartialObjectMetadata{}
	system.SetGroupVersionKind(namespaceKind)
	err := h.Client.Get(ctx, client.ObjectKey{Name: h.Namespace}, system)
	switch {
	case apierrors.IsNotFound(err):
		return "", inputf("the hub has no namespace %s: is MiniFleet installed there? Name the namespace of its controller with --manager-namespace, or another hub with --context", h.Namespace)
	case err != nil:
		return "", fmt.Errorf("reading namespace %s of the hub: %w", h.Namespace, err)
	}
	return string(system.UID) + "/" + name, nil
}

// await reads an object until done says so, or what is waited for can not come any more. Where the time is over first,
// the error is a TimeoutError that ends with what pending says.
func await(ctx context.Context, timeout time.Duration, pending func() string, done func(context.Context) (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, done)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if wait.Interrupted(err) {
		return &TimeoutError{fmt.Sprintf("not within %s: %s", timeout, pending())}
	}
	return err
}

// about is how an object is told of: KIND NAME, or KIND NAMESPACE/NAME.
func about(obj client.Object, scheme *runtime.Scheme) string {
	kind := "object"
	if gvk, err := apiutil.GVKForObject(obj, scheme); err == nil {
		kind = gvk.Kind
	}
	if obj.GetNamespace() == "" {
		return kind + " " + obj.GetName()
	}
	return kind + " " + obj.GetNamespace() + "/" + obj.GetName()
}

// messageOf is REASON: MESSAGE of a condition, as the hub tells it.
func messageOf(m *v1alpha1.MemberCluster, kind string) string {
	c := meta.FindStatusCondition(m.Status.Conditions, kind)
	if c == nil {
		return "the hub has said nothing yet: does its controller run?"
	}
	return c.Reason + ": " + sanitize.Text(c.Message, sanitize.MaxMessage)
}
