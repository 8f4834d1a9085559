package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const etcdName = "etcd"

// bindAttempts is how often something is started anew because another process took its port.
const bindAttempts = 5

// ErrRunning is returned by Start when processes of an earlier lab still run in the same directory.
var ErrRunning = errors.New("a lab runs already")

// Lab is a set of running clusters that share one etcd.
type Lab struct {
	options  Options
	clusters []*Cluster
	etcd     *Process
	etcdURL  string
	etcdDir  string

	progressMu sync.Mutex
	stopOnce   sync.Once
	stopErr    error
}

// Start starts all clusters and returns when they are ready for use: API servers ready, nodes Ready
// and schedulable. If anything fails, or ctx ends, what was started is stopped and an error that shows
// the end of the log at fault is returned. Unless Options.Detach is set, the lab also stops when ctx
// ends later.
//
// What an earlier lab left in Options.Dir is removed first; if it still runs, that is ErrRunning.
//
// With StandInEnv set, nothing is started: see Cluster.Owned.
func Start(ctx context.Context, options Options) (*Lab, error) {
	if err := options.setDefaults(); err != nil {
		return nil, err
	}
	lab := &Lab{options: options}
	if paths := filepath.SplitList(os.Getenv(StandInEnv)); len(paths) > 0 {
		return lab, lab.standIn(paths)
	}
	if err := clean(options); err != nil {
		return nil, err
	}
	if err := lab.start(ctx); err != nil {
		return nil, errors.Join(err, lab.Stop())
	}
	if !options.Detach {
		context.AfterFunc(ctx, func() { _ = lab.Stop() })
	}
	return lab, nil
}

// clean removes what an earlier lab left in the directory: its data is worth nothing without its keys.
func clean(options Options) error {
	running, err := Running(options.PidsDir)
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return fmt.Errorf("%w, according to %s", ErrRunning, options.PidsDir)
	}
	names := []string{etcdName}
	for _, spec := range options.Clusters {
		names = append(names, spec.Name)
	}
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(options.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) start(ctx context.Context) error {
	if err := l.startEtcd(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(l.options.Clusters))
	var group sync.WaitGroup
	for i, spec := range l.options.Clusters {
		cluster := &Cluster{lab: l, spec: spec, owned: true, dir: filepath.Join(l.options.Dir, spec.Name)}
		l.clusters = append(l.clusters, cluster)
		group.Go(func() {
			if errs[i] = cluster.start(ctx); errs[i] != nil {
				errs[i] = fmt.Errorf("cluster %s: %w", spec.Name, errs[i])
				cancel() // the others need not go on
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// Clusters returns the clusters in the order of Options.Clusters.
func (l *Lab) Clusters() []*Cluster { return l.clusters }

// Cluster returns the cluster of that name; it panics if there is none, since names are the caller's own.
func (l *Lab) Cluster(name string) *Cluster {
	for _, cluster := range l.clusters {
		if cluster.spec.Name == name {
			return cluster
		}
	}
	panic("lab: no cluster named " + name)
}

// Stop stops every process of the lab and waits until they have ended. It may be called more than once.
// The files stay. Clusters that stand in are left alone.
func (l *Lab) Stop() error { return l.end((*Process).Stop) }

// Kill is Stop for a lab whose files nobody needs any more: API servers take seconds to stop in good order.
func (l *Lab) Kill() error { return l.end((*Process).Kill) }

func (l *Lab) end(end func(*Process) error) error {
	l.stopOnce.Do(func() {
		// What depends on something ends first: clients of the API servers, API servers, etcd.
		var clients, servers []*Process
		for _, cluster := range l.clusters {
			for component, process := range cluster.processes() {
				if component == APIServer {
					servers = append(servers, process)
				} else {
					clients = append(clients, process)
				}
			}
		}
		l.stopErr = errors.Join(endProcesses(clients, end), endProcesses(servers, end))
		if l.etcd != nil {
			l.stopErr = errors.Join(l.stopErr, end(l.etcd))
		}
	})
	return l.stopErr
}

func (l *Lab) progress(format string, args ...any) {
	l.progressMu.Lock()
	defer l.progressMu.Unlock()
	l.options.Progress(fmt.Sprintf(format, args...))
}

// process returns a component's process, ready to be started.
func (l *Lab) process(component, name string, args, env []string) (*Process, error) {
	path, before, err := Binary(component)
	if err != nil {
		return nil, err
	}
	return &Process{
		Name: name, Path: path, Args: append(before, args...), Env: slices.Concat(l.options.Env, env),
		PidsDir: l.options.PidsDir, LogsDir: l.options.LogsDir, Detach: l.options.Detach,
	}, nil
}

// startEtcd starts the one etcd, in which each cluster has a prefix. It is spoken to with client
// certificates only, like a real one.
func (l *Lab) startEtcd(ctx context.Context) error {
	l.etcdDir = filepath.Join(l.options.Dir, etcdName)
	ca, err := newAuthority(etcdName)
	if err != nil {
		return err
	}
	server, err := ca.server(etcdName)
	if err != nil {
		return err
	}
	client, err := ca.client("apiserver")
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"ca.crt": ca.pem, "server.crt": server.cert, "server.key": server.key,
		"client.crt": client.cert, "client.key": client.key,
	}
	if err := writeFiles(l.etcdDir, files); err != nil {
		return err
	}
	httpClient, err := tlsClient(ca.pem, client)
	if err != nil {
		return err
	}
	for range bindAttempts {
		err = l.tryEtcd(ctx, httpClient)
		if err == nil {
			l.progress("etcd is ready")
			return nil
		}
		if !l.etcd.bindConflict() {
			return err
		}
	}
	return err
}

func (l *Lab) tryEtcd(ctx context.Context, client *http.Client) error {
	file := func(name string) string { return filepath.Join(l.etcdDir, name) }
	ports := make([]int, 3)
	for i := range ports {
		port, err := freePort()
		if err != nil {
			return err
		}
		ports[i] = port
	}
	l.etcdURL = "https://" + localAddress(ports[0])
	peerURL := "https://" + localAddress(ports[1])
	healthURL := "https://" + localAddress(ports[2])
	process, err := l.process("etcd", etcdName, []string{
		"--name=lab",
		"--data-dir=" + file("data"),
		"--listen-client-urls=" + l.etcdURL,
		"--advertise-client-urls=" + l.etcdURL,
		// Where HTTP has a port of its own, gRPC is answered by gRPC's own server, which takes less time of the processors.
		"--listen-client-http-urls=" + healthURL,
		"--listen-peer-urls=" + peerURL,
		"--initial-advertise-peer-urls=" + peerURL,
		"--initial-cluster=lab=" + peerURL,
		"--trusted-ca-file=" + file("ca.crt"), "--cert-file=" + file("server.crt"), "--key-file=" + file("server.key"),
		"--client-cert-auth",
		"--peer-trusted-ca-file=" + file("ca.crt"), "--peer-cert-file=" + file("server.crt"), "--peer-key-file=" + file("server.key"),
		"--peer-client-cert-auth",
		"--unsafe-no-fsync", // the data need not outlive the machine
		"--quota-backend-bytes=1073741824",
		"--auto-compaction-mode=periodic", "--auto-compaction-retention=30m",
		"--log-level=warn",
	}, nil)
	if err != nil {
		return err
	}
	l.etcd = process
	if err := process.Start(); err != nil {
		return err
	}
	return waitReady(ctx, process, client, healthURL+"/readyz", l.options.ReadyTimeout)
}

// waitReady waits until the URL answers 200. It fails early when the process ends.
func waitReady(ctx context.Context, process *Process, client *http.Client, url string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last := errors.New("no answer yet")
	for {
		err := get(ctx, client, url)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-process.Exited():
			return process.exitError()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %w; %s", process.Name, ctx.Err(), last, process.LogTail())
		case <-tick.C:
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// tlsClient returns an HTTP client that trusts one authority and shows one certificate.
func tlsClient(caPEM []byte, client keyPair) (*http.Client, error) {
	certificate, err := tls.X509KeyPair(client.cert, client.key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(caPEM) {
		return nil, errors.New("no CA certificate")
	}
	return &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}},
			DisableKeepAlives: true, // a connection to a paused or restarted server is worth nothing
		},
	}, nil
}
