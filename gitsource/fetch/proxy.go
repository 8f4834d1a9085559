package fetch

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/proxy"
)

// Proxy is what a source is read through, as its namespace names it: its address is checked as that of a server is.
type Proxy struct {
	// Address is http://HOST[:PORT], https://HOST[:PORT] or socks5://HOST[:PORT].
	Address string
	// Username and Password are for the proxy alone.
	Username, Password string
}

// maxProxyBytes is the longest address of a proxy.
const maxProxyBytes = 2048

const schemeSOCKS = "socks5"

var proxySchemes = []string{"http", "https", schemeSOCKS}

// String hides what is secret.
func (p Proxy) String() string { return "proxy " + redacted }

// GoString is String.
func (p Proxy) GoString() string { return "fetch.Proxy{" + p.String() + "}" }

// MarshalText is String, in JSON as well.
func (p Proxy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

const proxyForm = "; write http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT"

// url returns scheme, host and credentials of the proxy.
func (p *Proxy) url() (*url.URL, *Error) {
	u, err := url.Parse(strings.TrimSpace(p.Address))
	if err != nil || len(p.Address) > maxProxyBytes {
		return nil, proxyInvalid("address is not that of a proxy" + proxyForm)
	}
	problem := addressProblem(u)
	if problem == "" {
		problem = p.credentialsProblem()
	}
	if problem != "" {
		return nil, proxyInvalid(problem)
	}
	out := &url.URL{Scheme: u.Scheme, Host: u.Host, User: u.User}
	if p.Username != "" {
		out.User = url.UserPassword(p.Username, p.Password)
	}
	return out, nil
}

func addressProblem(u *url.URL) string {
	switch {
	case *u == (url.URL{}):
		return "address is empty" + proxyForm
	case u.Opaque != "" || u.Hostname() == "" || !validPort(u.Port()):
		return "address is not that of a proxy" + proxyForm
	case !slices.Contains(proxySchemes, u.Scheme):
		return "scheme " + strconv.Quote(clip(u.Scheme, 20)) + " of address is not supported" + proxyForm
	case u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return "address has more than a host and a port" + proxyForm
	}
	return ""
}

func (p *Proxy) credentialsProblem() string {
	switch {
	case strings.ContainsAny(p.Username, ":\r\n\x00") || strings.ContainsAny(p.Password, "\r\n\x00"):
		return "username or password hold a character that a proxy cannot be sent, such as a line end; write them without (printf, not echo)"
	case p.Username == "" && p.Password != "":
		return "there is a password and no username; add it"
	}
	return ""
}

func checkProxy(auth *Auth) *Error {
	if auth.proxy() == nil {
		return nil
	}
	_, failure := auth.Proxy.url()
	return failure
}

func proxyInvalid(problem string) *Error {
	return fail(ReasonSecretInvalid, "the Secret that spec.proxySecretRef names cannot be used: "+problem)
}

// proxyStatus is the failure of a proxy that does not connect, nil of one that does.
func proxyStatus(code int, auth *Auth) *Error {
	whose, remedy := "the proxy of the hub's environment", "; an administrator of the hub has to correct that"
	if auth.proxy() != nil {
		whose, remedy = "the proxy that spec.proxySecretRef names", "; let it connect to the Git server, or name another one"
	}
	switch {
	case code == http.StatusOK:
		return nil
	case code == http.StatusProxyAuthRequired && auth.proxy() != nil:
		return fail(ReasonAuthFailed, whose+" wants other credentials (407); correct username and password in that Secret")
	case code == http.StatusProxyAuthRequired:
		return fail(ReasonAuthFailed, whose+" wants other credentials (407)"+remedy)
	}
	return fail(ReasonUnreachable, whose+" does not connect to the Git server: it answered with status "+strconv.Itoa(code)+remedy)
}

// dialThrough connects to address by way of the proxy of auth, which is dialled with dial.
func dialThrough(ctx context.Context, dial *net.Dialer, auth *Auth, address string) (net.Conn, error) {
	const doing = "the proxy that spec.proxySecretRef names cannot be used"
	u, failure := auth.Proxy.url()
	if failure != nil {
		return nil, failure
	}
	limited, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var conn net.Conn
	var err error
	if u.Scheme == schemeSOCKS {
		conn, err = dialSOCKS(limited, dial, u, address)
	} else {
		conn, err = dialCONNECT(limited, dial, u, auth, address)
	}
	if err != nil {
		return nil, dialError(ctx, doing, err, auth)
	}
	return conn, nil
}

func dialSOCKS(ctx context.Context, dial *net.Dialer, u *url.URL, address string) (net.Conn, error) {
	var credentials *proxy.Auth
	if u.User != nil {
		password, _ := u.User.Password()
		credentials = &proxy.Auth{User: u.User.Username(), Password: password}
	}
	socks, err := proxy.SOCKS5("tcp", proxyAddress(u), credentials, dial)
	if err != nil {
		return nil, err
	}
	through, ok := socks.(proxy.ContextDialer)
	if !ok {
		return nil, errors.New("SOCKS5 takes no context")
	}
	return through.DialContext(ctx, "tcp", address)
}

func dialCONNECT(ctx context.Context, dial *net.Dialer, u *url.URL, auth *Auth, address string) (net.Conn, error) {
	conn, err := dial.DialContext(ctx, "tcp", proxyAddress(u))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // whoever reads or writes sees that
	defer stop()
	if u.Scheme == "https" {
		config, err := auth.tlsConfig()
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		config = withoutCertificate(config)
		config.ServerName = u.Hostname()
		conn = tls.Client(conn, config)
	}
	through, err := connect(conn, u, auth, address)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return through, nil
}

// connect asks a proxy for a connection to address.
func connect(conn net.Conn, u *url.URL, auth *Auth, address string) (net.Conn, error) {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if u.User != nil {
		password, _ := u.User.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	}
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	head := &io.LimitedReader{R: conn, N: maxResponseHead}
	from := bufio.NewReader(head)
	res, err := http.ReadResponse(from, req)
	if err != nil {
		return nil, err
	}
	_ = res.Body.Close() // of the answer to CONNECT, which is none
	if failure := proxyStatus(res.StatusCode, auth); failure != nil {
		return nil, failure
	}
	// What came behind the head is the server's.
	rest, err := from.Peek(from.Buffered())
	if err != nil {
		return nil, err
	}
	return &headedConn{Conn: conn, from: io.MultiReader(bytes.NewReader(bytes.Clone(rest)), conn)}, nil
}

// headedConn is a connection of which the beginning has been read.
type headedConn struct {
	net.Conn
	from io.Reader
}

func (c *headedConn) Read(p []byte) (int, error) { return c.from.Read(p) }

func proxyAddress(u *url.URL) string { return net.JoinHostPort(u.Hostname(), port(u)) }
