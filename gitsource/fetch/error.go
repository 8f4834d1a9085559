package fetch

import (
	"context"
	"errors"
	"strings"
	"unicode"

	"github.com/minifleet/minifleet/gitsource/budget"
)

// Reasons of an Error, meant for the reason of a condition.
const (
	// ReasonInvalidRequest: the ref or path cannot be used as it is.
	ReasonInvalidRequest = "InvalidRequest"
	// ReasonSecretInvalid: the credentials, host keys, CA bundle or proxy cannot be used as they are.
	ReasonSecretInvalid = "SecretInvalid"
	// ReasonURLRefused: the URL, or a redirect of the server, is not one that MiniFleet follows.
	ReasonURLRefused = "URLRefused"
	// ReasonAuthFailed: the server or the proxy refused the credentials, or wants some.
	ReasonAuthFailed = "AuthFailed"
	// ReasonNotFound: the server answered 404; many servers do so for private repositories as well.
	ReasonNotFound = "NotFound"
	// ReasonRefNotFound: the repository has no such branch, tag, version or commit.
	ReasonRefNotFound = "RefNotFound"
	// ReasonUnreachable: no answer: name resolution, connection, TLS, or time.
	ReasonUnreachable = "Unreachable"
	// ReasonLimitExceeded: the repository is larger than the limits allow.
	ReasonLimitExceeded = "LimitExceeded"
	// ReasonWaitingForMemory: other repositories use the memory that there is for large ones.
	ReasonWaitingForMemory = "WaitingForMemory"
	// ReasonFetchFailed: anything else, for example an answer that is not Git.
	ReasonFetchFailed = "FetchFailed"
)

// Error is every error of Fetch. Neither it nor what it wraps holds credentials or text of a response
// body.
type Error struct {
	// Reason is one of the constants above.
	Reason string
	// Message says what happened and what to correct.
	Message string
	// Err is the cause when a caller may want to tell it apart: context.Canceled or
	// context.DeadlineExceeded; otherwise nil.
	Err error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

func fail(reason, message string) *Error { return &Error{Reason: reason, Message: message} }

// asError makes an Error of whatever a step returned; text of foreign errors is scrubbed.
func asError(err error, doing string, auth *Auth) *Error {
	var typed *Error
	var exceeded *budget.Exceeded
	switch {
	case errors.As(err, &typed):
		return typed
	case errors.As(err, &exceeded):
		return fail(ReasonLimitExceeded, exceeded.Error())
	}
	return fail(ReasonFetchFailed, doing+": "+scrub(err.Error(), auth))
}

func contextError(ctx context.Context) *Error {
	if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
		return &Error{Reason: ReasonUnreachable, Err: context.DeadlineExceeded,
			Message: "the repository could not be read in time; it is retried at the next interval, and spec.timeout may be longer"}
	} else if err != nil {
		return &Error{Reason: ReasonUnreachable, Err: context.Canceled, Message: "the fetch was canceled"}
	}
	return nil
}

// maxForeignText is the most characters of another program's error that are repeated.
const maxForeignText = 300

// scrub makes text of a library or a server fit for status and logs: one line, short, and without the
// credentials in any form in which they travel.
func scrub(text string, auth *Auth) string {
	for _, secret := range auth.secrets() {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, redacted)
		}
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	if runes := []rune(text); len(runes) > maxForeignText {
		text = string(runes[:maxForeignText]) + "…"
	}
	return text
}
