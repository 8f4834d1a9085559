// Package serving serves HTTP from the replica that leads. What comes in are a handler and an address; what goes out are
// answers, and the address in an EndpointSlice, by which a Service leads to that replica.
package serving

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Times that a connection may take.
const (
	headerTimeout   = 10 * time.Second
	bodyTimeout     = 30 * time.Second
	answerTimeout   = time.Minute
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 5 * time.Second
	maxHeaderBytes  = 64 << 10
)

// Listener serves a handler on an address, from when this manager leads until it ends: what is served comes from memory that
// only the leader has.
type Listener struct {
	// Name says what is served, for people.
	Name string
	// Address is HOST:PORT.
	Address string
	// CertFile and KeyFile hold the certificate of the server; they are read again when they change. Without them it
	// speaks plain HTTP.
	CertFile, KeyFile string
	Handler           http.Handler
	// Stopping is called before connections are closed, so that open streams can say goodbye.
	Stopping func()
	// Announce has the leader's address published, until the context ends. It is nil where there is nobody to tell.
	Announce func(context.Context)
	// AnswerTimeout is how long an answer may take; 0 is a minute.
	AnswerTimeout time.Duration
	// MaxConnections is how many connections there may be; 0 is any number.
	MaxConnections int
	// OnlyHTTP1 is for handlers that have no use for streams within a connection, which cost more when they are opened and
	// reset.
	OnlyHTTP1 bool
	Log       logr.Logger
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Listener) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (l *Listener) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.Address)
	if err != nil {
		return fmt.Errorf("%s: listening on %s: %w", l.Name, l.Address, err)
	}
	if l.MaxConnections > 0 {
		listener = netutil.LimitListener(listener, l.MaxConnections)
	}
	scheme := "http"
	if l.CertFile != "" {
		watcher, err := certwatcher.New(l.CertFile, l.KeyFile)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: certificate: %w", l.Name, err), listener.Close())
		}
		go func() {
			if err := watcher.Start(ctx); err != nil {
				l.Log.Error(err, "the certificate is not read again when it changes")
			}
		}()
		protocols := []string{"h2", "http/1.1"}
		if l.OnlyHTTP1 {
			protocols = protocols[1:]
		}
		listener = tls.NewListener(listener, &tls.Config{
			MinVersion: tls.VersionTLS12, GetCertificate: watcher.GetCertificate, NextProtos: protocols,
		})
		scheme = "https"
	}
	if l.Announce != nil {
		// It ends first, so that the address is taken away before this process ends.
		var announcing sync.WaitGroup
		announced, end := context.WithCancel(ctx)
		defer announcing.Wait()
		defer end()
		announcing.Go(func() { l.Announce(announced) })
	}
	l.Log.Info("serving the "+l.Name, "url", scheme+"://"+listener.Addr().String())
	return l.Serve(ctx, listener)
}

// Serve serves on a listener until the context ends.
func (l *Listener) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: l.Handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, IdleTimeout: idleTimeout,
		// Streams are open for longer, and have deadlines of their own.
		WriteTimeout: cmp.Or(l.AnswerTimeout, answerTimeout), MaxHeaderBytes: maxHeaderBytes,
	}
	if l.Stopping != nil {
		server.RegisterOnShutdown(l.Stopping)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		return server.Close()
	}
	return nil
}
