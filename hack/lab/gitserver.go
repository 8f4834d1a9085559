package lab

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// GitServer serves bare repositories over smart HTTP on 127.0.0.1, for reading and pushing, through
// git's own http-backend.
type GitServer struct {
	dir     string
	backend string
	address string

	mu       sync.Mutex
	username string
	password string
	token    string
	servers  []*http.Server
	requests []GitRequest

	// With TLS as well, if there is a certificate.
	certificate *tls.Certificate
	tlsAddress  string
}

// GitRequest is one request that a GitServer got.
type GitRequest struct {
	// Repository is the name as given to CreateRepo.
	Repository string
	// Service is what was asked for: refs (an ls-remote is this and nothing more), fetch, push, or
	// other.
	Service string
	// Authorized says whether the request was let through.
	Authorized bool
}

// NewGitServer serves the repositories in dir, which is made when missing, on a free port.
func NewGitServer(dir string) (*GitServer, error) {
	listener, err := listenLocal()
	if err != nil {
		return nil, err
	}
	server, err := newGitServer(dir, listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	server.serve(listener)
	return server, nil
}

// NewGitServerAt serves the repositories in dir at HOST:PORT.
func NewGitServerAt(dir, address string) (*GitServer, error) {
	server, err := newGitServer(dir, address)
	if err != nil {
		return nil, err
	}
	return server, server.Start()
}

func newGitServer(dir, address string) (*GitServer, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	output, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("looking for git: %w", err)
	}
	backend := filepath.Join(strings.TrimSpace(string(output)), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		return nil, fmt.Errorf("git has no http-backend: %w", err)
	}
	return &GitServer{dir: dir, backend: backend, address: address}, nil
}

// CreateRepo makes an empty bare repository, whose HEAD is the branch main. It may be pushed to.
func (g *GitServer) CreateRepo(name string) error {
	path := g.RepoPath(name)
	commands := [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", path},
		{"-C", path, "config", "http.receivepack", "true"},
		// A client may ask for a commit by its id, as the larger hosts allow it.
		{"-C", path, "config", "uploadpack.allowAnySHA1InWant", "true"},
	}
	for _, args := range commands {
		command := exec.Command("git", args...)
		command.Env = gitEnv()
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, output)
		}
	}
	return nil
}

// Address returns the HOST:PORT that is served at.
func (g *GitServer) Address() string { return g.address }

// RepoPath returns where the bare repository is on disk.
func (g *GitServer) RepoPath(name string) string { return filepath.Join(g.dir, name+".git") }

// URL returns the address to clone and push to. It stays the same when the server is restarted.
func (g *GitServer) URL(name string) string { return "http://" + g.address + "/" + name + ".git" }

// TLSURL is URL with TLS, which StartTLS has begun to serve.
func (g *GitServer) TLSURL(name string) string {
	return "https://" + g.tlsAddress + "/" + name + ".git"
}

// RequireLogin lets only those through who show the username and password (unless the username is
// empty) or the bearer token (unless it is empty). Three empty strings let everybody through again.
func (g *GitServer) RequireLogin(username, password, token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.username, g.password, g.token = username, password, token
}

// Requests returns the requests since the start or the last ResetRequests, in the order they came in.
func (g *GitServer) Requests() []GitRequest {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.requests)
}

// ResetRequests forgets the requests so far.
func (g *GitServer) ResetRequests() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests = nil
}

// Stop closes the port and all connections. Repositories stay.
func (g *GitServer) Stop() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for _, server := range g.servers {
		errs = append(errs, server.Close())
	}
	g.servers = nil
	return errors.Join(errs...)
}

// Start serves again at the same address.
func (g *GitServer) Start() error {
	g.mu.Lock()
	running := len(g.servers) > 0
	g.mu.Unlock()
	if running {
		return errors.New("the Git server runs already")
	}
	listener, err := net.Listen("tcp", g.address)
	if err != nil {
		return err
	}
	g.serve(listener)
	if g.certificate == nil {
		return nil
	}
	if listener, err = net.Listen("tcp", g.tlsAddress); err != nil {
		return err
	}
	g.serve(g.withTLS(listener))
	return nil
}

// StartTLS serves with TLS as well, at a free port, and returns the certificate to trust, in PEM. It is called once.
func (g *GitServer) StartTLS() ([]byte, error) {
	certificate, trust, err := selfSigned()
	if err != nil {
		return nil, err
	}
	listener, err := listenLocal()
	if err != nil {
		return nil, err
	}
	g.certificate, g.tlsAddress = certificate, listener.Addr().String()
	g.serve(g.withTLS(listener))
	return trust, nil
}

func (g *GitServer) withTLS(listener net.Listener) net.Listener {
	return tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*g.certificate}})
}

// selfSigned makes a certificate of 127.0.0.1.
func selfSigned() (*tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "git"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func (g *GitServer) serve(listener net.Listener) {
	server := &http.Server{Handler: g} //nolint:gosec // serves this machine only, for tests
	g.mu.Lock()
	g.servers = append(g.servers, server)
	g.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // ends with Stop
}

// ServeHTTP answers one request of the smart HTTP protocol.
func (g *GitServer) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	repository, _, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/"), ".git/")
	start, err := bodyStart(request)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	authorized := g.authorized(request)
	g.mu.Lock()
	g.requests = append(g.requests, GitRequest{
		Repository: repository, Service: gitService(request.URL.Path, start), Authorized: authorized,
	})
	g.mu.Unlock()
	if !authorized {
		response.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(response, "who are you?", http.StatusUnauthorized)
		return
	}
	backend := cgi.Handler{
		Path: g.backend,
		Dir:  g.dir,
		Env: append(gitEnv(),
			"GIT_PROJECT_ROOT="+g.dir,
			"GIT_HTTP_EXPORT_ALL=1",
			"REMOTE_USER=git",
			"GIT_PROTOCOL="+request.Header.Get("Git-Protocol"),
		),
	}
	backend.ServeHTTP(response, request)
}

func (g *GitServer) authorized(request *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.username == "" && g.token == "" {
		return true
	}
	username, password, basic := request.BasicAuth()
	if g.username != "" && basic && same(username, g.username) && same(password, g.password) {
		return true
	}
	token, bearer := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	return g.token != "" && bearer && same(token, g.token)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// gitService tells what a request asks for. In version 2 of the protocol refs are listed by a post to
// where objects are fetched from, and only the start of the body tells the two apart.
func gitService(path string, bodyStart []byte) string {
	switch {
	case strings.HasSuffix(path, "/info/refs"), bytes.Contains(bodyStart, []byte("command=ls-refs")):
		return "refs"
	case strings.HasSuffix(path, "/git-upload-pack"):
		return "fetch"
	case strings.HasSuffix(path, "/git-receive-pack"):
		return "push"
	default:
		return "other"
	}
}

// readable is a body of which the start has been read.
type readable struct {
	io.Reader
	io.Closer
}

// bodyStart returns the first bytes of the body, and puts them back. A body of unknown length, which a
// CGI program cannot be given, is read whole.
func bodyStart(request *http.Request) ([]byte, error) {
	if request.ContentLength < 0 {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
		request.ContentLength = int64(len(body))
		request.TransferEncoding = nil
	}
	const enough = 64
	reader := bufio.NewReader(request.Body)
	start, err := reader.Peek(enough)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	request.Body = readable{Reader: reader, Closer: request.Body}
	return start, nil
}

// gitEnv keeps the machine's and the user's Git configuration out.
func gitEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull}
}
