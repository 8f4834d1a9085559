package lab

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Trouble is what a Gateway does to some requests, and not to others. More than one may be set.
type Trouble struct {
	// StallWatches holds back all that watches deliver, also those that are open already: a cache that is filled
	// by one grows old, and nothing says so. What was held back is delivered afterwards.
	StallWatches bool
	// StallKind does so with whatever is read of a resource in all namespaces, watches included, such as "nodes".
	StallKind string
	// FailReads answers reads in namespaces with errors, such as a balancer has them that finds no API server:
	// 500, 503, and a 404 that is no API server's. Watches are not affected, nor are probes whether the cluster
	// answers.
	FailReads bool
	// FailWrites answers writes in namespaces with 503. They do nothing.
	FailWrites bool
	// Only limits failures to objects of a resource, such as "jobs"; empty: of any.
	Only string
}

// Gateway stands between clients and one API server, as balancers do that end TLS, with certificates of its
// own. It can tell requests apart, which a Proxy cannot. Whoever comes is the user of the kubeconfig that it was
// made with. A client loses its connection with that to the API server.
type Gateway struct {
	kubeconfig []byte
	ca         []byte
	upstream   http.RoundTripper
	target     string
	address    string
	server     *http.Server

	mu      sync.Mutex
	trouble Trouble
	changed chan struct{} // closed and replaced when the trouble changes
	failed  int
}

type connectionKey struct{}

// NewGateway starts a gateway to the server of a kubeconfig.
func NewGateway(kubeconfig []byte) (*Gateway, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.DisableCompression = true // what clients ask for is forwarded, and so is the answer
	upstream, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	ca, err := newAuthority("gateway")
	if err != nil {
		return nil, err
	}
	pair, err := ca.server("gateway")
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.cert, pair.key)
	if err != nil {
		return nil, err
	}
	listener, err := listenLocal()
	if err != nil {
		return nil, err
	}
	g := &Gateway{
		kubeconfig: kubeconfig, ca: ca.pem, upstream: upstream, target: strings.TrimPrefix(config.Host, "https://"),
		address: listener.Addr().String(), changed: make(chan struct{}),
	}
	g.server = &http.Server{
		Handler: g, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		ErrorLog:  log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, c)
		},
	}
	go func() { _ = g.server.ServeTLS(listener, "", "") }() // until it is closed
	return g, nil
}

// Address returns the gateway's HOST:PORT.
func (g *Gateway) Address() string { return g.address }

// Kubeconfig returns the kubeconfig for clients that come by way of an address: the gateway's own, or that of a
// Proxy to it.
func (g *Gateway) Kubeconfig(address string) ([]byte, error) {
	config, err := clientcmd.Load(g.kubeconfig)
	if err != nil {
		return nil, err
	}
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.CertificateAuthorityData = "https://"+address, g.ca
	}
	return clientcmd.Write(*config)
}

// SetTrouble sets what is done to requests from now on, and to open watches.
func (g *Gateway) SetTrouble(t Trouble) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trouble = t
	close(g.changed)
	g.changed = make(chan struct{})
}

// Failed returns how many requests were answered with errors so far.
func (g *Gateway) Failed() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

// Close stops the gateway for good, and closes all connections.
func (g *Gateway) Close() { _ = g.server.Close() }

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if code := g.failure(r); code != 0 {
		http.Error(w, http.StatusText(code)+", says the gateway", code)
		return
	}
	out := r.Clone(r.Context())
	out.RequestURI, out.Host = "", g.target
	out.URL.Scheme, out.URL.Host = "https", g.target
	resp, err := g.upstream.RoundTrip(out)
	if err != nil {
		hangUp(r)
	}
	defer func() { _ = resp.Body.Close() }()
	for key, values := range resp.Header {
		w.Header()[key] = values
	}
	w.WriteHeader(resp.StatusCode)
	_ = http.NewResponseController(w).Flush() // a client that has disconnected is noticed when it is written to
	g.forward(w, r, resp.Body)
}

// forward copies an answer as it comes, and only while it is not stalled.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request, body io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, readErr := body.Read(buffer)
		if !g.await(r) {
			return
		}
		if _, err := w.Write(buffer[:n]); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		if readErr == io.EOF {
			return
		}
		if readErr != nil {
			hangUp(r)
		}
	}
}

// hangUp closes the client's connection: the API server has done that to the gateway.
func hangUp(r *http.Request) {
	if conn, ok := r.Context().Value(connectionKey{}).(net.Conn); ok && r.Context().Err() == nil {
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}

func isWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// await waits until a request is not stalled. It says whether there is still somebody to tell.
func (g *Gateway) await(r *http.Request) bool {
	ctx := r.Context()
	for {
		g.mu.Lock()
		t, changed := g.trouble, g.changed
		g.mu.Unlock()
		stalled := t.StallWatches && isWatch(r) || t.StallKind != "" && strings.HasSuffix(r.URL.Path, "/v1/"+t.StallKind)
		if !stalled {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

var readFailures = []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusNotFound}

// failure is the status code that a request fails with, or 0 if it is forwarded.
func (g *Gateway) failure(r *http.Request) int {
	_, inside, _ := strings.Cut(r.URL.Path, "/namespaces/")
	parts := strings.Split(inside, "/") // NAMESPACE/RESOURCE/NAME
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(parts) < 2 || g.trouble.Only != "" && g.trouble.Only != parts[1] {
		return 0
	}
	var code int
	switch read := r.Method == http.MethodGet; {
	case read && g.trouble.FailReads && !isWatch(r):
		code = readFailures[g.failed%len(readFailures)]
	case !read && g.trouble.FailWrites:
		code = http.StatusServiceUnavailable
	default:
		return 0
	}
	g.failed++
	return code
}
