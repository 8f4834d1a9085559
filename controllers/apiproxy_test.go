package controllers_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/minifleet/minifleet/hack/lab"
)

// apiProxy is an HTTPS server in front of an API server that understands requests, where lab.Proxy sees only
// bytes: it can lose the reply to one write, or lead to another cluster from one request to the next.
type apiProxy struct {
	server *httptest.Server
	target atomic.Pointer[target]
	// acted is asked about every write that the API server has acted upon; true loses the reply. It may
	// be nil.
	acted atomic.Pointer[func(*http.Request) bool]
	// before is called with every request before it goes to the API server, for as long as it likes. It may be nil.
	before atomic.Pointer[func(*http.Request)]
	// instead answers requests in place of the API server, or returns nil. It may be nil.
	instead atomic.Pointer[func(*http.Request) *http.Response]
}

type target struct {
	host      string
	transport http.RoundTripper
}

var errReplyLost = errors.New("the reply is lost")

func newAPIProxy(c *lab.Cluster) *apiProxy {
	GinkgoHelper()
	g := &apiProxy{}
	g.forwardTo(c)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: g.target.Load().host})
			r.Out.Header.Del("Authorization") // requests go on as the administrator
		},
		Transport:      g,
		FlushInterval:  -1, // watches are streams
		ModifyResponse: g.modify,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	g.server = httptest.NewUnstartedServer(proxy)
	g.server.EnableHTTP2 = true
	g.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	g.server.StartTLS()
	DeferCleanup(func() {
		g.server.CloseClientConnections()
		g.server.Close()
	})
	return g
}

// forwardTo lets the next requests go to this cluster. Connections stay open, as they do behind a load balancer.
func (g *apiProxy) forwardTo(c *lab.Cluster) {
	GinkgoHelper()
	cfg, err := c.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(cfg)
	Expect(err).NotTo(HaveOccurred())
	g.target.Store(&target{host: c.Address(), transport: transport})
}

// RoundTrip implements http.RoundTripper.
func (g *apiProxy) RoundTrip(req *http.Request) (*http.Response, error) {
	if instead := g.instead.Load(); instead != nil {
		if resp := (*instead)(req); resp != nil {
			return resp, nil
		}
	}
	if before := g.before.Load(); before != nil {
		(*before)(req)
	}
	// One that was held for long may have been given up by its sender. It is on its way all the same.
	return g.target.Load().transport.RoundTrip(req.WithContext(context.WithoutCancel(req.Context())))
}

func (g *apiProxy) modify(resp *http.Response) error {
	if acted := g.acted.Load(); resp.Request.Method != http.MethodGet && acted != nil && (*acted)(resp.Request) {
		return errReplyLost
	}
	return nil
}

// onWrite sets what is asked about writes.
func (g *apiProxy) onWrite(acted func(*http.Request) bool) { g.acted.Store(&acted) }

// hold sets what is done before requests are passed on.
func (g *apiProxy) hold(before func(*http.Request)) { g.before.Store(&before) }

// answer sets what answers in place of the API server, or nothing.
func (g *apiProxy) answer(instead func(*http.Request) *http.Response) {
	if instead == nil {
		g.instead.Store(nil)
		return
	}
	g.instead.Store(&instead)
}

// kubeconfig leads through the proxy.
func (g *apiProxy) kubeconfig() []byte {
	GinkgoHelper()
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["proxy"] = &clientcmdapi.Cluster{
		Server:                   g.server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw}),
	}
	cfg.AuthInfos["proxy"] = &clientcmdapi.AuthInfo{Token: "anybody"}
	cfg.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy", AuthInfo: "proxy"}
	cfg.CurrentContext = "proxy"
	out, err := clientcmd.Write(*cfg)
	Expect(err).NotTo(HaveOccurred())
	return out
}
