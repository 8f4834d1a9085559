package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// ProxyMode is how a Proxy treats connections.
type ProxyMode int

const (
	// Forward forwards everything.
	Forward ProxyMode = iota
	// Refuse closes the listener and every connection: dialling is refused.
	Refuse
	// Hang accepts connections and forwards nothing in either direction.
	Hang
	// Slow waits SlowDelay before it forwards each chunk, at most 16 KiB.
	Slow
	// Trickle forwards one byte a second from the server.
	Trickle
	// DropReplies forwards what clients send and no reply, and closes a connection half a second after
	// the first reply that was lost: the server has acted on a request that the client takes for
	// failed. Use it on connections that are open already; on a new one the TLS handshake is lost.
	DropReplies
)

// SlowDelay is how long the mode Slow holds each chunk back.
const SlowDelay = 500 * time.Millisecond

// dropGrace is how long the mode DropReplies gives the server to act before the connection is closed.
const dropGrace = 500 * time.Millisecond

// trickleDelay is how long the mode Trickle holds each byte back.
const trickleDelay = time.Second

// Proxy forwards TCP connections from a port of 127.0.0.1 to a target, well or badly. Its mode can be
// changed at any time and applies to open connections too.
type Proxy struct {
	target  string
	address string

	mu       sync.Mutex
	mode     ProxyMode
	changed  chan struct{} // closed and replaced when the mode changes
	listener net.Listener  // nil while refusing
	conns    map[net.Conn]bool
	accepted int
	closed   bool
}

// NewProxy starts a proxy to HOST:PORT, in mode Forward.
func NewProxy(target string) (*Proxy, error) {
	listener, err := listenLocal()
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		target: target, address: listener.Addr().String(), listener: listener,
		changed: make(chan struct{}), conns: map[net.Conn]bool{},
	}
	go p.accept(listener)
	return p, nil
}

// Address returns the proxy's HOST:PORT, which never changes. See WithServer.
func (p *Proxy) Address() string { return p.address }

// Mode returns the present mode.
func (p *Proxy) Mode() ProxyMode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode
}

// Accepted returns how many connections were accepted so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// SetMode changes the mode. Leaving Refuse takes the same port again, which fails if another process
// has taken it.
func (p *Proxy) SetMode(mode ProxyMode) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("the proxy is closed")
	}
	if mode == Refuse {
		p.shutLocked()
	} else if p.listener == nil {
		listener, err := net.Listen("tcp", p.address)
		if err != nil {
			return fmt.Errorf("listening again: %w", err)
		}
		p.listener = listener
		go p.accept(listener)
	}
	p.mode = mode
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

// CloseConnections closes all open connections, in whatever mode.
func (p *Proxy) CloseConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// Close stops the proxy for good.
func (p *Proxy) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	p.shutLocked()
	close(p.changed)
}

func (p *Proxy) shutLocked() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// track counts an open connection, or closes it if the proxy refuses connections by now.
func (p *Proxy) track(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		_ = conn.Close()
		return false
	}
	p.conns[conn] = true
	return true
}

func (p *Proxy) forget(conn net.Conn) {
	_ = conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.accepted++
		p.mu.Unlock()
		if p.track(conn) {
			go p.serve(conn)
		}
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer p.forget(client)
	server, err := p.dial()
	if err != nil || !p.track(server) {
		return
	}
	defer p.forget(server)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.copy(server, client, false)
		_ = client.Close()
		_ = server.Close()
	}()
	p.copy(client, server, true)
	_ = client.Close()
	_ = server.Close()
	<-done
}

// dial waits until the mode lets anything through, so that a hanging proxy does not need its target.
func (p *Proxy) dial() (net.Conn, error) {
	if !p.admit(false) {
		return nil, net.ErrClosed
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return new(net.Dialer).DialContext(ctx, "tcp", p.target)
}

// copy forwards from one side to the other until either ends or the mode ends it. replies tells the
// direction: true from the server to the client.
func (p *Proxy) copy(to, from net.Conn, replies bool) {
	buffer := make([]byte, 16<<10)
	for {
		n, readErr := from.Read(buffer)
		for sent := 0; sent < n; {
			size := n - sent
			if replies && p.Mode() == Trickle {
				size = 1
			}
			if !p.admit(replies) {
				return
			}
			if replies && p.Mode() == DropReplies {
				discard(from)
				return
			}
			if _, err := to.Write(buffer[sent : sent+size]); err != nil {
				return
			}
			sent += size
		}
		if readErr != nil {
			return
		}
	}
}

// discard reads for dropGrace what goes nowhere. Only then may the connection be closed: what came
// first may be an acknowledgement, and a server gives up a request whose connection is closed.
func discard(from net.Conn) {
	if err := from.SetReadDeadline(time.Now().Add(dropGrace)); err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, from)
}

// admit holds a chunk back for as long as the mode wants it, and says whether it may be forwarded.
func (p *Proxy) admit(replies bool) bool {
	for {
		p.mu.Lock()
		mode, changed, shut := p.mode, p.changed, p.listener == nil
		p.mu.Unlock()
		var delay <-chan time.Time
		switch {
		case shut:
			return false
		case mode == Slow:
			delay = time.After(SlowDelay)
		case mode == Trickle && replies:
			delay = time.After(trickleDelay)
		case mode != Hang:
			return true
		}
		select {
		case <-delay:
			return true
		case <-changed:
		}
	}
}
