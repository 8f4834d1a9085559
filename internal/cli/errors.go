package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/internal/actions"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// exit is an error with an exit code of its own. One without a message is not printed.
type exit struct {
	code int
	error
}

// exitVerdictError is for commands whose exit code 1 is an answer, as of diff: it says that there is none.
const exitVerdictError = 2

// verdictError gives an error of such a command its exit code, unless it has one of its own.
func verdictError(err error) error {
	var own exit
	if err == nil || errors.As(err, &own) {
		return err
	}
	return exit{exitVerdictError, err}
}

// quietExit ends a command that has said everything already.
func quietExit(code int) error { return exit{code: code} }

// Error is the message, if there is one.
func (e exit) Error() string {
	if e.error == nil {
		return ""
	}
	return e.error.Error()
}

// Unwrap returns the cause.
func (e exit) Unwrap() error { return e.error }

// side is a cluster, as errors of requests to it name it, with the flags that lead there.
type side struct{ name, context, connection string }

var (
	hubSide    = side{"the hub", "--context", "--kubeconfig and --context"}
	memberSide = side{"the member", "--member-context", "--member-kubeconfig and --member-context"}
)

// explain says of errors of the hub what to do next.
func explain(err error, program string) error { return explainSide(err, program, hubSide) }

func explainSide(err error, program string, of side) error {
	var coded exit
	if errors.As(err, &coded) {
		if coded.error == nil {
			return err
		}
		return exit{coded.code, explainSide(coded.error, program, of)}
	}
	var connection *url.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case actions.AsError(err) != nil:
		return explainAction(actions.AsError(err), program)
	case meta.IsNoMatchError(err):
		return fmt.Errorf("the hub does not know MiniFleet's kinds: is it the right --context? `%s check` says what it lacks", program)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: ask whoever administers %s for that right", said(err), of.name)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s does not accept the credentials (%s): log in again, or choose another %s", of.name, said(err), of.context)
	case errors.As(err, &connection):
		return fmt.Errorf("%s does not answer: %s: check %s, and the network", of.name, sanitize.Text(connection.Err.Error(), sanitize.MaxMessage), of.connection)
	case apiStatus(err):
		return errors.New(said(err))
	}
	return err
}

func apiStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

func said(err error) string { return sanitize.Text(err.Error(), sanitize.MaxMessage) }

func explainAction(err *actions.Error, program string) error {
	shown := *err
	if shown.Kind == actions.NotFound && shown.Field == "" {
		shown.Remedy = fmt.Sprintf("check the name and the namespace (-n); `%s get -A` lists what there is", program)
	}
	return errors.New(sanitize.Text(shown.Error(), sanitize.MaxMessage))
}

// notFound is the error of an object that is not there.
func notFound(object client.Object, key client.ObjectKey, remedy string) error {
	return errors.New(actions.Describe(object, key) + " not found: " + remedy)
}
