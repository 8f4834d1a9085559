package auth

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
)

// csp allows what the page brings itself, and no text to become script.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"font-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

var securityHeaders = map[string]string{
	"Content-Security-Policy":      csp,
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
	"Referrer-Policy":              "same-origin",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
}

// Protect is the outermost handler, of the page, the API and the login: it sets the headers of security, refuses unsafe
// requests of other origins, bodies that are large or not JSON, and too many requests of one address, and answers when a
// handler panics.
func (a *Auth) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSecurityHeaders(w.Header(), r.URL.Path)
		if refused := a.refuse(r); refused != nil {
			refused.write(w)
			return
		}
		if hasBody(r) {
			r.Body = http.MaxBytesReader(w, r.Body, a.options.MaxBody)
		}
		answer := &response{ResponseWriter: w}
		defer a.recovered(answer)
		next.ServeHTTP(answer, r)
	})
}

func setSecurityHeaders(h http.Header, requested string) {
	for name, value := range securityHeaders {
		h.Set(name, value)
	}
	if p := path.Clean("/" + requested); isBelow(p, "/api") || isBelow(p, "/auth") {
		h.Set("Cache-Control", "no-store")
	}
}

func isBelow(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func (a *Auth) refuse(r *http.Request) *problem {
	if wait := a.requests.wait(a.address(r)); wait > 0 {
		refused := tooMany(wait)
		return &refused
	}
	switch {
	case a.origins.Check(r) != nil:
		return &crossOrigin
	case r.ContentLength > a.options.MaxBody:
		return &tooLarge
	case !isSafe(r.Method) && !sendsJSON(r):
		return &notJSON
	}
	return nil
}

func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

func hasBody(r *http.Request) bool {
	return r.ContentLength != 0 && r.Body != nil && r.Body != http.NoBody
}

// sendsJSON says whether a body is JSON, or there is none and nothing says otherwise. A form of another origin cannot say
// so without being asked first.
func sendsJSON(r *http.Request) bool {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return !hasBody(r)
	}
	kind, params, err := mime.ParseMediaType(header)
	if err != nil || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return false
	}
	return kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

// recovered answers for a handler that has panicked, or cuts the answer off where it has begun.
func (a *Auth) recovered(w *response) {
	fault := recover()
	if fault == nil {
		return
	}
	if err, ok := fault.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	a.options.Log.Error(nil, "A handler has panicked", "fault", faultText(fault), "stack", string(debug.Stack()))
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	internalError.write(w)
}

// faultText has the text of the runtime's own errors alone: others may repeat what was sent.
func faultText(fault any) string {
	if err, ok := fault.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", fault)
}

// response knows whether an answer has begun. It flushes, and http.ResponseController finds what it wraps.
type response struct {
	http.ResponseWriter
	begun bool
}

func (w *response) WriteHeader(status int) {
	w.begun = w.begun || status >= http.StatusOK
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// ReadFrom lets files be sent without a copy in memory.
func (w *response) ReadFrom(r io.Reader) (int64, error) {
	w.begun = true
	return io.Copy(w.ResponseWriter, r)
}

func (w *response) Flush() {
	w.begun = true
	_ = http.NewResponseController(w.ResponseWriter).Flush() // what cannot flush has no buffer
}

func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
