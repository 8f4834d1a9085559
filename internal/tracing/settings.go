package tracing

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Settings are those of an administrator.
type Settings struct {
	// Endpoint is the URL of a collector that speaks OTLP over HTTP; without a path, /v1/traces is meant.
	Endpoint string
	// Headers are sent with each request, such as Authorization.
	Headers map[string]string
	// Ratio is which part of all traces is sent, from 0 to 1.
	Ratio float64
}

// Validate says what is wrong, and shows neither a header nor what an endpoint may hold of a password.
func (s Settings) Validate() error {
	if s.Ratio < 0 || s.Ratio > 1 {
		return fmt.Errorf("the sampling ratio %g is not from 0 to 1", s.Ratio)
	}
	_, err := s.endpoint()
	return err
}

func (s Settings) endpoint() (string, error) {
	u, err := url.Parse(s.Endpoint)
	switch {
	case err != nil:
		return "", errors.New("the endpoint is no URL")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("the endpoint has a user, a query or a fragment: credentials go into the file of headers")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", errors.New("the endpoint is not http://HOST:PORT or https://HOST:PORT")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// ParseHeaders reads headers, one `Name: value` a line; empty lines and those that begin with # are skipped. The error names the
// line and shows nothing of it.
func ParseHeaders(file []byte) (map[string]string, error) {
	out := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(file))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("line %d is not Name: value", n)
		}
		out[name] = value
	}
	return out, lines.Err()
}
