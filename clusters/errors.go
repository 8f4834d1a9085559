package clusters

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Error is why a member cannot be used, with the reason that its condition shows.
type Error struct {
	Reason string
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Conflict says that an object under our name on a member belongs to somebody else. It is never taken over.
type Conflict struct {
	Kind, Namespace, Name string
	// Owner is NAMESPACE/NAME of another FleetMiniCluster of the same namespace on the hub, or empty. OtherNamespace says that
	// it is one of another namespace, and OtherFleet of another fleet, which is told to nobody else by name. With none of these
	// it is a stranger.
	Owner                      string
	OtherNamespace, OtherFleet bool
}

func (c *Conflict) Error() string {
	whose := "is not MiniFleet's: rename the MiniCluster, or have that object removed by its owner"
	switch {
	case c.OtherFleet:
		whose = "belongs to a FleetMiniCluster of another fleet: rename the MiniCluster, or place it elsewhere"
	case c.OtherNamespace:
		whose = "belongs to a FleetMiniCluster of another namespace: rename the MiniCluster, or place it elsewhere"
	case c.Owner != "":
		whose = "belongs to FleetMiniCluster " + c.Owner + ": rename one of the two"
	}
	return fmt.Sprintf("%s %s/%s already exists on the member and %s", c.Kind, c.Namespace, c.Name, whose)
}

// ErrNotEngaged says that a member is not connected, and so nothing is known about it.
var ErrNotEngaged = errors.New("the member is not connected")

// connectionError puts a reason on an error from talking to a member.
func connectionError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var unknownCA x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case apierrors.IsUnauthorized(err):
		return &Error{v1alpha1.ReasonAuthFailed, fmt.Errorf("the member refuses the credentials of the kubeconfig: put fresh ones into its Secret (%w)", err)}
	case apierrors.IsForbidden(err):
		return &Error{v1alpha1.ReasonForbidden, fmt.Errorf("the credentials of the kubeconfig lack a right that is needed: %w", err)}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		// The library's message holds the time of the attempt.
		return &Error{v1alpha1.ReasonCertificateUntrusted, errors.New("the server's certificate has expired or is not valid yet: renew it, or set the clock right")}
	case errors.As(err, &unknownCA), errors.As(err, &hostname), errors.As(err, &invalid):
		return &Error{v1alpha1.ReasonCertificateUntrusted, fmt.Errorf("the server's certificate is not trusted: put its CA into certificate-authority-data of the kubeconfig (%w)", root(err))}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{v1alpha1.ReasonUnreachable, errors.New("the member did not answer in time")}
	default:
		return &Error{v1alpha1.ReasonUnreachable, fmt.Errorf("the member cannot be reached: %w", root(err))}
	}
}

// root takes off what differs from one attempt to the next, such as the port that was used, and what
// people cannot use, such as the URL that was asked: a condition's text must be stable.
func root(err error) error {
	var op *net.OpError
	var sys *os.SyscallError
	var asked *url.Error
	switch {
	case errors.As(err, &sys):
		return sys.Err
	case errors.As(err, &op):
		return op.Err
	case errors.As(err, &asked):
		return asked.Err
	default:
		return err
	}
}

// Explain says in a sentence for people why a member could not do what was asked.
func Explain(err error) string {
	if Unanswered(err) && !errors.Is(err, ErrNotEngaged) {
		return connectionError(err).Error()
	}
	return err.Error()
}

// Unanswered says whether an error means that the member gave no answer, so that nothing is known of what
// was asked of it.
func Unanswered(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, ErrNotEngaged) {
		return true
	}
	var e *Error
	if errors.As(err, &e) {
		return true
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		// What stands before a dead API server answers in its place.
		code := status.Status().Code
		return code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout
	}
	var netErr net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errHeaderTimeout) || errors.As(err, &netErr)
}
