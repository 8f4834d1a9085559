package notification

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// attemptTimeout is of one request with its answer.
	attemptTimeout = 10 * time.Second
	// maxAnswer is how much is read of an answer, in bytes. It is not kept.
	maxAnswer       = 4 << 10
	maxAnswerHeader = 16 << 10
	// maxRetryAfter bounds how long a server may have a message wait.
	maxRetryAfter = 5 * time.Minute
)

// Network says which addresses no connection is made to.
type Network interface {
	// Refuses returns the range that an address is in.
	Refuses(addr netip.Addr) (netip.Prefix, bool)
}

// failure is why a message was not accepted. Its text has nothing of the address, of a key, or of an answer.
type failure struct {
	message string
	// final says that another attempt would change nothing.
	final bool
	// after is how long the server wants to be left alone.
	after time.Duration
}

func (f *failure) Error() string { return f.message }

// refused is the error of a connection that is not made.
type refused struct{ in netip.Prefix }

func (r *refused) Error() string {
	return "the host of the address is in " + r.in.String() +
		", to which this hub does not connect; use one elsewhere, or have an administrator of the hub add its range to --notification-allowed-cidrs"
}

// httpClient has connections that are made for one request each, to addresses that are not refused. Redirects are not followed.
func httpClient(network Network, authorities []byte) (*http.Client, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if len(authorities) > 0 && !pool.AppendCertsFromPEM(authorities) {
		return nil, errors.New("has no certificate in PEM under the key ca.crt")
	}
	direct := transport(pool)
	direct.DialContext = (&net.Dialer{Timeout: attemptTimeout, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return checkAddress(network, address)
	}}).DialContext
	proxied := transport(pool)
	proxied.Proxy = http.ProxyFromEnvironment
	return &http.Client{
		Transport:     &confined{network, direct, proxied},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

func transport(pool *x509.CertPool) *http.Transport {
	return &http.Transport{
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool},
		TLSHandshakeTimeout: attemptTimeout, ResponseHeaderTimeout: attemptTimeout, MaxResponseHeaderBytes: maxAnswerHeader,
		DisableKeepAlives: true, // nobody gets a connection of somebody else, and none is left
	}
}

func checkAddress(network Network, address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if in, is := network.Refuses(to.Addr()); is {
		return &refused{in}
	}
	return nil
}

// confined chooses between connections that are made here, and those through the proxy of the environment, which is the
// administrator's choice.
type confined struct {
	network         Network
	direct, proxied http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c *confined) RoundTrip(req *http.Request) (*http.Response, error) {
	proxy, err := http.ProxyFromEnvironment(req)
	if err != nil || proxy == nil {
		return c.direct.RoundTrip(req)
	}
	// The proxy connects, so that this is all that can be checked here.
	if err := checkHost(req.Context(), c.network, req.URL.Hostname()); err != nil {
		return nil, err
	}
	return c.proxied.RoundTrip(req)
}

func checkHost(ctx context.Context, network Network, host string) error {
	addrs := []netip.Addr{}
	if addr, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, addr)
	} else {
		addrs, _ = net.DefaultResolver.LookupNetIP(ctx, "ip", host) // what is not known here may be known to the proxy
	}
	for _, addr := range addrs {
		if in, is := network.Refuses(addr); is {
			return &refused{in}
		}
	}
	return nil
}

// post sends a body, and returns why it was not accepted.
func post(ctx context.Context, client *http.Client, to *url.URL, header http.Header, body []byte) *failure {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return &failure{message: "the address is no URL", final: true}
	}
	req.Header = header.Clone()
	res, err := client.Do(req)
	if err != nil {
		return &failure{message: plainError(err)}
	}
	defer func() { _ = res.Body.Close() }() // nothing is lost with it
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer)
	return judge(res)
}

// judge is what the status of an answer means. What the server says is not repeated: it may say back what it was told.
func judge(res *http.Response) *failure {
	code := res.StatusCode
	switch {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return &failure{message: fmt.Sprintf("the server redirects (%d), which is not followed: set the address to where it is now", code)}
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return &failure{message: fmt.Sprintf("the server refuses the sender (%d): renew the token or the address in the Secret", code)}
	case code == http.StatusNotFound:
		return &failure{message: "there is nothing at the address (404)"}
	case code == http.StatusGone, code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge, code == http.StatusUnprocessableEntity:
		return &failure{message: fmt.Sprintf("the server does not take the message (%d)", code), final: true}
	}
	return &failure{message: fmt.Sprintf("the server answers %d", code), after: retryAfter(res.Header.Get("Retry-After"))}
}

func retryAfter(value string) time.Duration {
	seconds, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(min(seconds, 1<<20))*time.Second, maxRetryAfter)
}

// plainError says what has failed, with nothing of the address.
func plainError(err error) string {
	var (
		forbidden *refused
		dns       *net.DNSError
		unknown   x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		timeout   net.Error
	)
	switch {
	case errors.As(err, &forbidden):
		return forbidden.Error()
	case errors.As(err, &unknown), errors.As(err, &invalid):
		return "the certificate of the server is not trusted: put that of its authority into the Secret under the key ca.crt"
	case errors.As(err, &hostname):
		return "the certificate of the server is for another host"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "the server has not answered within " + attemptTimeout.String()
	case errors.As(err, &dns):
		return "the host of the address is not known"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at the address"
	}
	return "the connection has failed"
}
