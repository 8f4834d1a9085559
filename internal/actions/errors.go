package actions

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// ErrorKind says what a caller can do about an Error.
type ErrorKind string

const (
	// NotFound says that there is no such object, or no such run of it.
	NotFound ErrorKind = "NotFound"
	// Invalid says that what was asked for is wrong, or means nothing for the object as it is.
	Invalid ErrorKind = "Invalid"
	// Conflict says that it does not fit what others have done.
	Conflict ErrorKind = "Conflict"
)

// Error is why an action was not done.
type Error struct {
	Kind ErrorKind
	// Object is KIND NAMESPACE/NAME, or KIND NAME.
	Object string
	// Field of the object or of what was asked for that it is about, or empty.
	Field string
	// Message says what is wrong, in a clause that follows the object and the field.
	Message string
	// Remedy says what to do about it.
	Remedy string
	// Cause is what the API server has answered, if it was asked.
	Cause error
}

// Error names the object, the field, what is wrong and what to do.
func (e *Error) Error() string {
	text := e.Message
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.Object != "" {
		between := ": "
		if e.Field == "" {
			between = " "
		}
		text = e.Object + between + text
	}
	if e.Remedy != "" {
		text += ": " + e.Remedy
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// AsError returns the Error in an error, or nil.
func AsError(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	return nil
}

// IsKind says whether an error is an Error of this kind.
func IsKind(err error, kind ErrorKind) bool {
	own := AsError(err)
	return own != nil && own.Kind == kind
}

// Describe names an object as errors do: KIND NAMESPACE/NAME, or KIND NAME where it has no namespace.
func Describe(object client.Object, key client.ObjectKey) string {
	kind, name := "object", key.Name
	switch object.(type) {
	case *v1alpha1.FleetMiniCluster:
		kind = "FleetMiniCluster"
	case *v1alpha1.GitSource:
		kind = "GitSource"
	case *v1alpha1.MemberCluster:
		kind = "MemberCluster"
	case *v1alpha1.Placement:
		kind = "Placement"
	}
	if key.Namespace != "" {
		name = key.Namespace + "/" + key.Name
	}
	return kind + " " + name
}

// firstCause is what an API server says first of an object that it does not take.
func firstCause(err error) (field, message string) {
	message = err.Error()
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil && len(status.Status().Details.Causes) > 0 {
		cause := status.Status().Details.Causes[0]
		field, message = cause.Field, cause.Message
	}
	return strings.TrimSpace(field), sanitize.Text(message, sanitize.MaxNote)
}
