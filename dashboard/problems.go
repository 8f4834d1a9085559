package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/minifleet/minifleet/internal/actions"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// maxDetail is of the text of an answer, in bytes.
const maxDetail = 2000

// refusal is how it is told that an action was not done. It is for persons who may see the object: what the hub's API
// server says is repeated. Where says which part of the request a field of the object comes from.
func (s *Server) refusal(err error, where func(field string) string) error {
	if own := actions.AsError(err); own != nil {
		return refused(own, where)
	}
	switch status := statusOf(err); {
	case status == http.StatusUnauthorized:
		return huma.Error401Unauthorized("the hub's API server does not take your token any more: log in again")
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
	case status >= http.StatusBadRequest && status < http.StatusInternalServerError:
		return huma.NewError(orUnprocessable(status), sanitize.Text(err.Error(), maxDetail))
	}
	if !errors.Is(err, context.Canceled) {
		s.o.Log.Info("the hub's API server did not answer a person's request", "error", sanitize.Text(err.Error(), maxDetail))
	}
	return huma.ErrorWithHeaders(
		unavailable("the hub's API server did not answer; what was asked for may have been done or not: see what is shown, and try again"),
		http.Header{"Retry-After": {"1"}},
	)
}

func refused(err *actions.Error, where func(string) string) error {
	text := sanitize.Text(err.Error(), maxDetail)
	switch {
	case err.Kind == actions.Conflict:
		return huma.Error409Conflict(text)
	case err.Kind == actions.NotFound && err.Field == "":
		return notFound()
	}
	return invalidRequest(text, &huma.ErrorDetail{Location: where(err.Field), Message: sanitize.Text(join(err.Message, err.Remedy), maxDetail)})
}

func invalidRequest(text string, details ...error) error {
	return huma.Error422UnprocessableEntity(text, details...)
}

func join(message, remedy string) string {
	if remedy == "" {
		return message
	}
	return message + ": " + remedy
}

// statusOf is the status that the API server has answered with, 0 for none.
func statusOf(err error) int {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return int(status.Status().Code)
	}
	return 0
}

// orUnprocessable is a status of the API server's, or of a webhook of it, as one of this API.
func orUnprocessable(status int) int {
	switch status {
	case http.StatusForbidden, http.StatusConflict, http.StatusRequestEntityTooLarge:
		return status
	}
	return http.StatusUnprocessableEntity
}

// sentence makes one of a clause. What begins with the path of a field is left so.
func sentence(clause string) string {
	if clause == "" {
		return ""
	}
	if word, _, _ := strings.Cut(clause, " "); strings.Contains(word, ".") {
		return strings.TrimSuffix(clause, ".") + "."
	}
	first, size := utf8.DecodeRuneInString(clause)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(clause[size:], ".") + "."
}
