package fetch_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/minifleet/minifleet/gitsource/fetch"
)

// oddServer is an SSH server that does what no good one does. Each of its parts has a default, which lets everybody run
// nothing.
type oddServer struct {
	// connected has the connection before SSH does; false ends that.
	connected func(net.Conn) bool
	// asked is called when somebody shows a key.
	asked func()
	// opened is called for a session that somebody wants; false refuses it.
	opened func(*ssh.ServerConn) bool
	// wanted is called for a command; false refuses it.
	wanted func() bool
	// run has the channel of a command.
	run func(command string, channel ssh.Channel)

	listener net.Listener
	hostKey  ssh.Signer
	running  sync.WaitGroup
}

func (s *oddServer) start(t *testing.T) *oddServer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if s.hostKey, err = ssh.NewSignerFromKey(private); err != nil {
		t.Fatal(err)
	}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			s.running.Add(1)
			go func() {
				defer s.running.Done()
				defer conn.Close() //nolint:errcheck // the other side may have closed it
				s.serve(conn)
			}()
		}
	}()
	t.Cleanup(func() {
		_ = s.listener.Close() // or it was before
		s.running.Wait()
	})
	return s
}

func (s *oddServer) serve(conn net.Conn) {
	if s.connected != nil && !s.connected(conn) {
		return
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
		if s.asked != nil {
			s.asked()
		}
		return nil, nil
	}}
	config.AddHostKey(s.hostKey)
	server, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for wanted := range channels {
		if s.opened != nil && !s.opened(server) {
			_ = wanted.Reject(ssh.Prohibited, canary)
			continue
		}
		channel, requests, err := wanted.Accept()
		if err != nil {
			return
		}
		s.running.Add(1)
		go func() {
			defer s.running.Done()
			s.session(channel, requests)
		}()
	}
}

func (s *oddServer) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close() //nolint:errcheck // the other side may have closed it
	for request := range requests {
		if request.Type != "exec" || s.wanted != nil && !s.wanted() {
			_ = request.Reply(false, nil)
			continue
		}
		_ = request.Reply(true, nil)
		if s.run != nil {
			s.run(string(request.Payload[4:]), channel)
		}
		return
	}
}

func (s *oddServer) request(t *testing.T) fetch.Request {
	t.Helper()
	key := s.hostKey.PublicKey()
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return fetch.Request{URL: "ssh://" + s.listener.Addr().String() + "/x", Auth: &fetch.Auth{
		Identity:   privateKey(t),
		KnownHosts: []byte("[" + host + "]:" + port + " " + key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal())),
	}}
}

// privateKey is one that needs no program to make.
var privateKey = func() func(t testing.TB) []byte {
	var once sync.Once
	var text []byte
	return func(t testing.TB) []byte {
		t.Helper()
		once.Do(func() { text = newPrivateKey(t) })
		return text
	}
}()

// drain reads until the other side ends.
func drain(from io.Reader) { _, _ = io.Copy(io.Discard, from) }

// fetchUntil fetches until reached is closed, and cancels then.
func fetchUntil(t *testing.T, reached <-chan struct{}, req fetch.Request) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		select {
		case <-reached:
		case <-ctx.Done():
		}
		cancel()
	}()
	_, err := (&fetch.Fetcher{}).Fetch(ctx, req)
	return err
}
