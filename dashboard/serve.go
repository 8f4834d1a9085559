package dashboard

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
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

// Listener serves a handler on an address, from when this manager leads until it ends: what is shown comes from the
// connections to members and from the queue, and only the leader has those.
type Listener struct {
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
	Log      logr.Logger

	answerTimeout time.Duration // another one than answerTimeout
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Listener) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (l *Listener) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.Address)
	if err != nil {
		return fmt.Errorf("dashboard: listening on %s: %w", l.Address, err)
	}
	scheme := "http"
	if l.CertFile != "" {
		watcher, err := certwatcher.New(l.CertFile, l.KeyFile)
		if err != nil {
			return errors.Join(fmt.Errorf("dashboard: certificate: %w", err), listener.Close())
		}
		go func() {
			if err := watcher.Start(ctx); err != nil {
				l.Log.Error(err, "the certificate is not read again when it changes")
			}
		}()
		listener = tls.NewListener(listener, &tls.Config{
			MinVersion: tls.VersionTLS12, GetCertificate: watcher.GetCertificate, NextProtos: []string{"h2", "http/1.1"},
		})
		scheme = "https"
	}
	if l.Announce != nil {
		go l.Announce(ctx)
	}
	l.Log.Info("serving the dashboard", "url", scheme+"://"+listener.Addr().String())
	return l.serve(ctx, listener)
}

func (l *Listener) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: l.Handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, IdleTimeout: idleTimeout,
		// Streams are open for longer, and have deadlines of their own.
		WriteTimeout: cmp.Or(l.answerTimeout, answerTimeout), MaxHeaderBytes: maxHeaderBytes,
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
