package fetch_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minifleet/minifleet/gitsource/fetch"
)

// clientCert makes a certificate of a client, which is its own authority, and its key, in PEM.
func clientCert(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fleet"}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// serveTLS serves a repository over TLS, to those only who have a certificate that trusted signed, unless that is nil. ca is the
// server's own.
func serveTLS(t *testing.T, repo *repository, trusted []byte) (srv *server, ca []byte) {
	t.Helper()
	srv = newServer(t, repo, nil)
	if trusted != nil {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(trusted)
		srv.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	srv.URL = srv.Server.URL + "/.git"
	return srv, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
}

func TestClientCertificates(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	certificate, key := clientCert(t)
	otherCertificate, otherKey := clientCert(t)
	srv, ca := serveTLS(t, repo, certificate)
	fetcher := &fetch.Fetcher{} // one for all: connections of one are never used by another
	defer fetcher.CloseIdleConnections()
	for _, tc := range []struct {
		name         string
		url          string
		auth         *fetch.Auth
		reason, says string
	}{
		{"right", srv.URL, &fetch.Auth{CABundle: ca, ClientCert: certificate, ClientKey: key}, "", ""},
		{"none, after one that was right", srv.URL, &fetch.Auth{CABundle: ca}, fetch.ReasonUnreachable, "certificate"},
		{"foreign", srv.URL, &fetch.Auth{CABundle: ca, ClientCert: otherCertificate, ClientKey: otherKey}, fetch.ReasonUnreachable, ""},
		{"right, and a token", srv.URL, &fetch.Auth{CABundle: ca, ClientCert: certificate, ClientKey: key, BearerToken: canary}, "", ""},
		{"not a pair", srv.URL, &fetch.Auth{CABundle: ca, ClientCert: certificate, ClientKey: otherKey}, fetch.ReasonSecretInvalid, "tls.key"},
		{"no key", srv.URL, &fetch.Auth{CABundle: ca, ClientCert: certificate}, fetch.ReasonSecretInvalid, "tls.key"},
		{"text", srv.URL, &fetch.Auth{CABundle: ca, ClientCert: []byte(canary), ClientKey: []byte("-----BEGIN " + canary + "-----\n")}, fetch.ReasonSecretInvalid, "tls.crt"},
		{"without TLS", "http://127.0.0.1/x", &fetch.Auth{ClientCert: certificate, ClientKey: key}, fetch.ReasonURLRefused, "use https"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := fetcher.Fetch(t.Context(), fetch.Request{URL: tc.url, Auth: tc.auth})
			if tc.reason == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if message := wantReason(t, err, tc.reason); !strings.Contains(message, tc.says) {
				t.Errorf("%q does not say %q", message, tc.says)
			}
			wantNoCanary(t, err)
			wantNoKey(t, err, tc.auth.ClientKey)
		})
	}
}

// proxyServer is a proxy that connects to target, whatever it is asked for, and notes what it is told.
type proxyServer struct {
	target string
	user   string // USERNAME:PASSWORD, or empty
	status int    // instead of 200

	mu      sync.Mutex
	asked   []string // what it was asked to connect to
	told    string   // everything in the head of requests
	shown   int      // certificates of clients
	address string
}

// startProxy starts a proxy for one of the schemes. ca is the certificate of one for https.
func startProxy(t *testing.T, scheme string, p *proxyServer) (ca []byte) {
	t.Helper()
	if scheme == "socks5" {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		p.address = "socks5://" + listener.Addr().String()
		go func() {
			for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
				go p.socks(conn)
			}
		}()
		return nil
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(p.connect))
	if scheme == "http" {
		srv.Start()
	} else {
		srv.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}
		srv.StartTLS()
		ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	}
	t.Cleanup(srv.Close)
	p.address = srv.URL
	return ca
}

func (p *proxyServer) note(target, told string, certificates int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, target)
	p.told += told
	p.shown += certificates
}

func (p *proxyServer) seen() (asked []string, told string, shown int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked, p.told, p.shown
}

func (p *proxyServer) connect(w http.ResponseWriter, req *http.Request) {
	certificates := 0
	if req.TLS != nil {
		certificates = len(req.TLS.PeerCertificates)
	}
	p.note(req.Host, fmt.Sprint(req.Method, req.URL, req.Header), certificates)
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(p.user))
	switch {
	case p.user != "" && req.Header.Get("Proxy-Authorization") != want:
		http.Error(w, canary, http.StatusProxyAuthRequired)
		return
	case p.status != 0:
		http.Error(w, canary, p.status)
		return
	}
	to, err := net.Dial("tcp", p.target)
	if err != nil {
		http.Error(w, "", http.StatusBadGateway)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = to.Close()
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	splice(conn, buffered.Reader, to)
}

// splice copies both ways until one side ends.
func splice(conn net.Conn, from io.Reader, to net.Conn) {
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
		_ = conn.Close()
	}()
	go func() {
		_, _ = io.Copy(conn, to)
		_ = to.Close()
		_ = conn.Close()
	}()
}

// socks speaks as much of RFC 1928 and 1929 as is needed.
func (p *proxyServer) socks(conn net.Conn) {
	from := bufio.NewReader(conn)
	read := func(n int) []byte {
		out := make([]byte, n)
		_, _ = io.ReadFull(from, out)
		return out
	}
	text := func() string { return string(read(int(read(1)[0]))) }
	_ = read(1) // of the version
	_ = text()  // of the methods
	if p.user != "" {
		_, _ = conn.Write([]byte{5, 2})
		_ = read(1) // of the version
		if text()+":"+text() != p.user {
			p.note("", "", 0)
			_, _ = conn.Write([]byte{1, 1})
			_ = conn.Close()
			return
		}
		_, _ = conn.Write([]byte{1, 0})
	} else {
		_, _ = conn.Write([]byte{5, 0})
	}
	var host string
	switch head := read(4); head[3] {
	case 1:
		host = net.IP(read(net.IPv4len)).String()
	case 3:
		host = text()
	default:
		host = net.IP(read(net.IPv6len)).String()
	}
	port := binary.BigEndian.Uint16(read(2))
	p.note(fmt.Sprint(host, ":", port), "", 0)
	refuse := func() {
		_, _ = conn.Write([]byte{5, 2, 0, 1, 0, 0, 0, 0, 0, 0})
		_ = conn.Close()
	}
	if p.status != 0 {
		refuse()
		return
	}
	to, err := net.Dial("tcp", p.target)
	if err != nil {
		refuse()
		return
	}
	_, _ = conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	splice(conn, from, to)
}

// The proxy of a source is used for HTTPS and for SSH. What is for the server is not told to it, nor the other way.
func TestProxyOfASource(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	certificate, key := clientCert(t)
	git, gitCA := serveTLS(t, repo, certificate)
	odd := (&oddServer{run: uploadPack(repo, func() {})}).start(t)
	const forProxy = "pr0xy-s3cr3t"
	for _, scheme := range []string{"http", "https", "socks5"} {
		for _, overSSH := range []bool{false, true} {
			for name, tc := range map[string]struct {
				user, password string
				status         int
				reason         string
			}{
				"open":             {},
				"with a password":  {user: "ada", password: forProxy},
				"a wrong password": {user: "ada", password: "other", reason: "refused"},
				"a refusal":        {status: http.StatusForbidden, reason: "refused"},
			} {
				t.Run(fmt.Sprintf("%s, SSH %v, %s", scheme, overSSH, name), func(t *testing.T) {
					p := &proxyServer{target: git.Listener.Addr().String(), status: tc.status}
					req := fetch.Request{URL: git.URL, Auth: &fetch.Auth{Username: "ada", Password: canary, ClientCert: certificate, ClientKey: key}}
					if overSSH {
						p.target = odd.listener.Addr().String()
						req = odd.request(t)
					}
					if tc.user != "" {
						p.user = tc.user + ":" + forProxy
					}
					req.Auth.CABundle = append(startProxy(t, scheme, p), gitCA...)
					req.Auth.Proxy = &fetch.Proxy{Address: p.address, Username: tc.user, Password: tc.password}
					git.forget()
					fetcher := &fetch.Fetcher{}
					defer fetcher.CloseIdleConnections() // or the server waits for them
					_, err := fetcher.Fetch(t.Context(), req)
					asked, told, shown := p.seen()
					if len(asked) == 0 || shown != 0 || strings.Contains(told, canary) || strings.Contains(told, base64.StdEncoding.EncodeToString([]byte("ada:"+canary))) {
						t.Errorf("the proxy was asked for %v with %d certificates: %s", asked, shown, told)
					}
					for _, header := range git.seenAuth() {
						if header != "Basic "+base64.StdEncoding.EncodeToString([]byte("ada:"+canary)) {
							t.Errorf("the server was told %s", header)
						}
					}
					if (err != nil) != (tc.reason != "") {
						t.Fatal(err)
					}
					wantNoCanary(t, err)
					if err != nil && (strings.Contains(err.Error(), forProxy) || !strings.Contains(err.Error(), "proxy")) {
						t.Error(err)
					}
				})
			}
		}
	}
}

// A proxy that a source names is at no address that is refused, and asks for none.
func TestProxyOfASourceIsChecked(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	git, ca := serveTLS(t, repo, nil)
	target, err := url.Parse(git.Server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxyServer{target: target.Host}
	startProxy(t, "http", p)
	for name, tc := range map[string]struct {
		url      string
		refused  []string
		prefixes []string
		reason   string
	}{
		"the proxy is at a refused address":  {"https://192.0.2.1/x", []string{"127.0.0.0/8"}, nil, fetch.ReasonURLRefused},
		"the server is at a refused address": {"https://192.0.2.1/x", []string{"192.0.2.0/24"}, nil, fetch.ReasonURLRefused},
		"the server is, over SSH":            {"git@192.0.2.1:x", []string{"192.0.2.0/24"}, nil, fetch.ReasonURLRefused},
		"the proxy is, over SSH":             {"git@192.0.2.1:x", []string{"127.0.0.0/8"}, nil, fetch.ReasonURLRefused},
		"the proxy has no allowed URL":       {git.URL, nil, []string{git.Server.URL}, fetch.ReasonURLRefused},
		"both have an allowed URL":           {git.URL, nil, []string{git.Server.URL, p.address}, ""},
		"a password without TLS":             {strings.Replace(git.URL, "https", "http", 1), nil, nil, fetch.ReasonURLRefused},
	} {
		t.Run(name, func(t *testing.T) {
			allowed, err := fetch.ParseURLPrefixes(tc.prefixes)
			if err != nil {
				t.Fatal(err)
			}
			before, _, _ := p.seen()
			auth := &fetch.Auth{
				Username: "ada", Password: canary, CABundle: ca, Proxy: &fetch.Proxy{Address: p.address},
				Identity: privateKey(t), KnownHosts: []byte("* ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGbM1CrJRZ5VqYPi5Kt2lJ2gzyYwT0hTTbT3vCBJBPzG"),
			}
			fetcher := &fetch.Fetcher{Network: fetch.Network{URLPrefixes: allowed, Refused: prefixes(t, tc.refused...)}}
			defer fetcher.CloseIdleConnections()
			_, err = fetcher.Fetch(t.Context(), fetch.Request{URL: tc.url, Auth: auth})
			if tc.reason == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantReason(t, err, tc.reason)
			if after, _, _ := p.seen(); len(after) != len(before) {
				t.Errorf("the proxy was asked for %v", after)
			}
		})
	}
}

func TestProxiesThatCannotBeUsed(t *testing.T) {
	for name, tc := range map[string]struct {
		proxy fetch.Proxy
		says  string
	}{
		"empty":                     {fetch.Proxy{}, "address is empty"},
		"a name":                    {fetch.Proxy{Address: "proxy.example.org"}, "not that of a proxy"},
		"a name and a port":         {fetch.Proxy{Address: "proxy.example.org:3128"}, "write http://HOST:PORT"},
		"another scheme":            {fetch.Proxy{Address: "ftp://proxy.example.org"}, "not supported"},
		"a path":                    {fetch.Proxy{Address: "http://proxy.example.org/" + canary}, "more than a host"},
		"a query":                   {fetch.Proxy{Address: "http://proxy.example.org?" + canary}, "more than a host"},
		"a port that is none":       {fetch.Proxy{Address: "http://proxy.example.org:99999"}, "not that of a proxy"},
		"no host":                   {fetch.Proxy{Address: "http://:3128"}, "not that of a proxy"},
		"a line end in the address": {fetch.Proxy{Address: "http://proxy.example.org\r\nX: " + canary}, "not that of a proxy"},
		"a line end":                {fetch.Proxy{Address: "http://proxy.example.org", Username: "a", Password: canary + "\n"}, "line end"},
		"no username":               {fetch.Proxy{Address: "http://proxy.example.org", Password: canary}, "no username"},
		"long":                      {fetch.Proxy{Address: "http://" + strings.Repeat("a", 3000)}, "not that of a proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, to := range []string{"https://git.example.org/x", "git@git.example.org:x"} {
				_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: to, Auth: &fetch.Auth{Proxy: &tc.proxy}})
				message := wantReason(t, err, fetch.ReasonSecretInvalid)
				if !strings.Contains(message, tc.says) || !strings.Contains(message, "spec.proxySecretRef") {
					t.Errorf("%q does not say %q", message, tc.says)
				}
				wantNoCanary(t, err)
			}
		})
	}
	// The password of a URL is no less secret.
	auth := &fetch.Auth{Proxy: &fetch.Proxy{Address: "http://ada:" + canary + "@127.0.0.1:1"}}
	_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: "https://git.example.org/x", Auth: auth})
	wantReason(t, err, fetch.ReasonUnreachable)
	wantNoCanary(t, err)
	wantNoCanary(t, auth)
}
