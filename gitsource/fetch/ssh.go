package fetch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"
)

const (
	// maxHandshakeBytes is what a server may send before it is known who it is, and who one is.
	maxHandshakeBytes = 1 << 20
	// maxStderrBytes is what is kept of what a server says besides its answer.
	maxStderrBytes = 2 << 10
)

// sshSession is one connection with an SSH server, over which git-upload-pack is run. It ends with its context.
type sshSession struct {
	guard   *guard
	conn    *boundedConn
	client  *ssh.Client
	forget  func() bool // of the context
	command string
	// run is the git-upload-pack that waits for wants, nil for none; runs are all of them.
	run  *uploadRun
	runs []*uploadRun
}

// openSSH connects, checks the host key and shows the private key.
func openSSH(ctx context.Context, req Request, u *url.URL, g *guard, network *Network) (transport.UploadPackSession, error) {
	signer, err := parseIdentity(req.Auth.Identity, req.Auth.Passphrase)
	if err != nil {
		return nil, err
	}
	known, err := parseKnownHosts(req.Auth.KnownHosts)
	if err != nil {
		return nil, err
	}
	raw, err := dialSSH(ctx, u, req.Auth, network)
	if err != nil {
		return nil, err
	}
	conn := &boundedConn{Conn: raw, guard: g}
	conn.remaining.Store(maxHandshakeBytes)
	forget := context.AfterFunc(ctx, func() { _ = raw.Close() }) // whoever reads or writes sees that
	client, err := handshake(conn, u, signer, known)
	if err != nil {
		forget()
		_ = raw.Close() // closed already where the handshake has failed
		if failure := contextError(ctx); failure != nil {
			return nil, failure
		}
		if first := g.take(); first != nil {
			return nil, first
		}
		return nil, asError(err, "the SSH server cannot be used", req.Auth)
	}
	limits := g.budget.Limits()
	// Two answers with references, and two with a pack, with what SSH and Git frame them in.
	conn.remaining.Store(2 * (maxAdvertBytes + maxPreludeBytes + limits.MaxPackBytes + limits.MaxPackBytes/4))
	return &sshSession{guard: g, conn: conn, client: client, forget: forget, command: uploadCommand(uploadPath(req.URL, u))}, nil
}

// dialSSH connects to the server of u, through the proxy of auth where it has one.
func dialSSH(ctx context.Context, u *url.URL, auth *Auth, network *Network) (net.Conn, error) {
	address := net.JoinHostPort(u.Hostname(), port(u))
	dial := dialer(network.control)
	if auth.proxy() != nil {
		if failure := network.checkHost(ctx, u.Hostname()); failure != nil {
			return nil, failure
		}
		return dialThrough(ctx, dial, auth, address)
	}
	conn, err := dial.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, dialError(ctx, "cannot reach the Git server", err, auth)
	}
	return conn, nil
}

func dialError(ctx context.Context, doing string, err error, auth *Auth) *Error {
	var refused *Error
	if failure := contextError(ctx); failure != nil {
		return failure
	} else if errors.As(err, &refused) {
		return refused
	}
	return fail(ReasonUnreachable, doing+": "+scrub(err.Error(), auth))
}

// handshake makes a client of a connection. It ends when the connection is closed.
func handshake(conn *boundedConn, u *url.URL, signer ssh.Signer, known *knownHosts) (*ssh.Client, error) {
	host, at := u.Hostname(), port(u)
	var refused *Error
	trusted, asked := false, false
	config := &ssh.ClientConfig{
		User:              userOf(u),
		ClientVersion:     "SSH-2.0-MiniFleet",
		HostKeyAlgorithms: hostKeyAlgorithms(known.of(hostName(host, at))),
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if refused = known.check(host, at, key, nil); refused != nil {
				return refused
			}
			trusted = true
			return nil
		},
		Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			asked = true
			return []ssh.Signer{signer}, nil
		})},
	}
	c, channels, requests, err := ssh.NewClientConn(conn, net.JoinHostPort(host, at), config)
	if err == nil {
		return ssh.NewClient(c, channels, requests), nil
	}
	var negotiation *ssh.AlgorithmNegotiationError
	var network net.Error
	switch {
	case refused != nil:
		return nil, refused
	case errors.As(err, &negotiation):
		return nil, fail(ReasonUnreachable, "the SSH server has no "+negotiation.What+" algorithm that MiniFleet supports; whoever runs it has to enable a current one")
	case errors.Is(err, io.EOF), errors.As(err, &network):
		return nil, fail(ReasonUnreachable, "the SSH server ended the connection before a repository could be asked for"+map[bool]string{
			true: ", when it was shown the private key: check that it knows that key", false: "; check host and port of the URL"}[asked])
	case trusted && !asked:
		return nil, fail(ReasonAuthFailed, "the SSH server takes no private key for user "+shownName(userOf(u))+"; check the user in the URL, and the server")
	case asked:
		return nil, fail(ReasonAuthFailed, "the SSH server refused the private key in identity ("+signer.PublicKey().Type()+" "+
			ssh.FingerprintSHA256(signer.PublicKey())+") for user "+shownName(userOf(u))+"; add its public key to the repository's keys for reading, or correct the Secret that spec.secretRef names")
	}
	return nil, err
}

// boundedConn counts what a server sends, whatever of SSH it is.
type boundedConn struct {
	net.Conn
	guard     *guard
	remaining atomic.Int64
}

func (c *boundedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.remaining.Add(-int64(n)) < 0 {
		return 0, errors.Join(c.guard.fail(fail(ReasonLimitExceeded, "the SSH server sends more than it was asked for; use another one")), c.Close())
	}
	return n, err
}

// uploadCommand is the one command that is ever run. Within single quotes a shell reads nothing but the quote itself, and
// some read an exclamation mark.
func uploadCommand(path string) string {
	return "git-upload-pack '" + strings.NewReplacer(`'`, `'\''`, `!`, `'\!'`).Replace(path) + "'"
}

// uploadRun is one run of git-upload-pack.
type uploadRun struct {
	ssh.Channel
	stderr bytes.Buffer
	// told is closed when all of stderr was read.
	told chan struct{}
}

// start runs git-upload-pack.
func (s *sshSession) start() (*uploadRun, error) {
	channel, requests, err := s.client.OpenChannel("session", nil)
	if err != nil {
		return nil, s.guard.fail(fail(ReasonFetchFailed, "the SSH server opens no session: "+scrub(err.Error(), s.guard.auth)))
	}
	go ssh.DiscardRequests(requests)
	run := &uploadRun{Channel: channel, told: make(chan struct{})}
	s.runs = append(s.runs, run)
	go run.listen()
	ok, err := channel.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{s.command}))
	if err != nil {
		return nil, errors.Join(err, run.Close())
	}
	if !ok {
		_ = run.Close() // nothing runs
		return nil, s.guard.fail(fail(ReasonAuthFailed, "the SSH server lets this key not run git-upload-pack; grant it read access to the repository"))
	}
	return run, nil
}

// listen keeps the beginning of stderr. It ends with the channel.
func (r *uploadRun) listen() {
	defer close(r.told)
	_, _ = io.CopyN(&r.stderr, r.Stderr(), maxStderrBytes) // the rest tells nothing more
	_, _ = io.Copy(io.Discard, r.Stderr())
}

// AdvertisedReferences implements transport.Session.
func (s *sshSession) AdvertisedReferences() (*packp.AdvRefs, error) {
	return s.AdvertisedReferencesContext(context.Background())
}

// AdvertisedReferencesContext implements transport.Session. The context is that of the connection.
func (s *sshSession) AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error) {
	run, err := s.start()
	if err != nil {
		return nil, err
	}
	s.run = run
	adv := packp.NewAdvRefs()
	if err := adv.Decode(s.guard.refsBody(io.NopCloser(run))); err != nil {
		return nil, s.advertisedError(run, err)
	}
	if adv.IsEmpty() {
		return nil, transport.ErrEmptyRemoteRepository
	}
	transport.FilterUnsupportedCapabilities(adv.Capabilities)
	return adv, nil
}

// advertisedError is what a server says that lists no references: on stderr, or in their place.
func (s *sshSession) advertisedError(run *uploadRun, err error) error {
	var line *pktline.ErrorLine
	switch {
	case errors.Is(err, packp.ErrEmptyAdvRefs):
		return transport.ErrEmptyRemoteRepository
	case errors.As(err, &line):
		return s.guard.fail(serverSays(line.Text, s.guard.auth))
	case errors.Is(err, packp.ErrEmptyInput):
		// Nothing came but the end, after which there is no more on stderr either.
		<-run.told
		return s.guard.fail(serverSays(run.stderr.String(), s.guard.auth))
	}
	return err
}

// serverSays makes an error of what a server says, which nobody has to believe: only the reason is derived from it.
func serverSays(text string, auth *Auth) *Error {
	said := scrub(strings.TrimSpace(text), auth)
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(strings.ToLower(said), part) {
				return true
			}
		}
		return false
	}
	switch {
	case said == "":
		return fail(ReasonFetchFailed, "the SSH server ended git-upload-pack without an answer; check that it is a Git server")
	case has("denied", "not authorized", "unauthorized", "forbidden", "not allowed", "permission", "dubious ownership"):
		return fail(ReasonAuthFailed, "the SSH server gives the private key in identity no access to this repository; it says: "+said)
	case has("not found", "could not be found", "does not appear to be a git repository", "does not exist", "no such"):
		return fail(ReasonNotFound, "the SSH server has no such repository, or hides it from the private key in identity; check the URL and secretRef; it says: "+said)
	}
	return fail(ReasonFetchFailed, "the SSH server does not answer with Git; it says: "+said)
}

// UploadPack implements transport.UploadPackSession. A server that has refused one request has ended, and is run again for the
// next one.
func (s *sshSession) UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if s.run == nil {
		if _, err := s.AdvertisedReferencesContext(ctx); err != nil {
			return nil, err
		}
	}
	run := s.run
	s.run = nil
	if err := sendRequest(run, req); err != nil {
		return nil, errors.Join(s.refusal(run, err), run.Close())
	}
	res := packp.NewUploadPackResponse(req)
	if err := res.Decode(packReader{s.guard.packBody(io.NopCloser(run)), run}); err != nil {
		return nil, errors.Join(s.refusal(run, err), run.Close())
	}
	return res, nil
}

// packReader is an answer whose end is that of its run.
type packReader struct {
	io.Reader
	run *uploadRun
}

func (r packReader) Close() error { return r.run.Close() }

func sendRequest(run *uploadRun, req *packp.UploadPackRequest) error {
	var out bytes.Buffer
	if err := req.UploadRequest.Encode(&out); err != nil {
		return err
	}
	if err := req.UploadHaves.Encode(&out, false); err != nil {
		return err
	}
	if err := pktline.NewEncoder(&out).EncodeString("done\n"); err != nil {
		return err
	}
	if _, err := out.WriteTo(run); err != nil {
		return err
	}
	// A server that has answered already, and ended, is told no more: that is its right, and its answer is still to be read.
	if err := run.CloseWrite(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// refusal is err with what the server has said until now.
func (s *sshSession) refusal(run *uploadRun, err error) error {
	select {
	case <-run.told:
		if said := strings.TrimSpace(run.stderr.String()); said != "" {
			return errors.New(scrub(said, s.guard.auth))
		}
	default:
	}
	return err
}

// Close ends the connection, and with it what runs at the server. It returns when nothing of it is left here.
func (s *sshSession) Close() error {
	if s.run != nil {
		_, _ = io.WriteString(s.run, "0000") // nothing is wanted, which ends git-upload-pack in order
		_ = s.run.CloseWrite()               // whether it was told does not matter
	}
	s.forget()
	err := s.client.Close()
	_ = s.client.Wait() // says why it has ended, which is known
	for _, run := range s.runs {
		<-run.told
	}
	return err
}
