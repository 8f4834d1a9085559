package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/minifleet/minifleet/hack/bench/wait"
)

// tabs is how many streams are open at once.
const tabs = 100

// tabs measures what streams cost that nothing happens on: of one person and of many, beside a single one.
func (d *dashboards) tabs(ctx context.Context) error {
	one, _, err := d.idle(ctx, d.tokens[:1])
	if err != nil {
		return err
	}
	same := slices.Repeat(d.tokens[:1], tabs)
	bare, err := d.bareStreams(ctx)
	if err != nil {
		return err
	}
	for _, of := range []struct {
		who    string
		tokens []string
	}{{"one person", same}, {"as many people", d.tokens}} {
		requests, memory, err := d.idle(ctx, of.tokens)
		if err != nil {
			return err
		}
		for _, what := range slices.Sorted(maps.Keys(requests)) {
			d.report.figure(fmt.Sprintf("requests to the hub in a minute for %d idle tabs of %s: %s", tabs, of.who, what), "",
				requests[what], "for a single tab", one[what])
		}
		d.report.figure(fmt.Sprintf("memory for one of %d idle tabs of %s, with its client", tabs, of.who), "KiB", memory/tabs/1024, "a bare stream, KiB", bare/tabs/1024)
	}
	return nil
}

// idle opens a stream for each token, and returns the requests to the hub in a minute by kind, and the bytes of memory that
// the streams take.
func (d *dashboards) idle(ctx context.Context, tokens []string) (map[string]float64, float64, error) {
	before := live()
	closeAll, err := open(ctx, d.served.url+"/api/v1/stream", tokens)
	defer closeAll()
	if err != nil {
		return nil, 0, err
	}
	if err := wait.Pause(ctx, 15*time.Second); err != nil { // reviews of when they were opened are old by then
		return nil, 0, err
	}
	memory := live() - before
	if _, err := d.trail.read(); err != nil {
		return nil, 0, err
	}
	start := time.Now()
	if err := wait.Pause(ctx, d.options.tabsFor); err != nil {
		return nil, 0, err
	}
	events, err := d.trail.read()
	minutes := time.Since(start).Minutes()
	requests := map[string]float64{}
	for i := range events {
		if e := &events[i]; e.minifleet() {
			requests[e.what()] += 1 / minutes
		}
	}
	d.say("%d idle tabs: %.0f requests to the hub in a minute", len(tokens), sumOf(requests))
	return requests, memory, err
}

func sumOf(counts map[string]float64) float64 {
	sum := 0.0
	for _, n := range counts {
		sum += n
	}
	return sum
}

// open opens streams, and returns when each has said something.
func open(ctx context.Context, url string, tokens []string) (closeAll func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	client := &http.Client{Transport: &http.Transport{ReadBufferSize: 4096, WriteBufferSize: 4096}}
	var reading sync.WaitGroup
	said := make(chan error, 2*len(tokens))
	closeAll = func() {
		cancel()
		reading.Wait()
		client.CloseIdleConnections()
	}
	// One after the other, and again where the hub does not answer in time: so do people and their browsers.
	for _, token := range tokens {
		var err error
		for range 20 {
			reading.Go(func() { said <- follow(ctx, client, url, token, said) })
			if err = <-said; err == nil {
				break
			}
			if err := wait.Pause(ctx, time.Second); err != nil {
				return closeAll, err
			}
		}
		if err != nil {
			return closeAll, err
		}
	}
	return closeAll, nil
}

// follow reads a stream until the context ends. It reports the first line, or why there is none, once.
func follow(ctx context.Context, client *http.Client, url, token string, said chan<- error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	lines := bufio.NewReaderSize(res.Body, 4096)
	_, err = lines.ReadString('\n')
	said <- err
	for err == nil {
		_, err = lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			err = nil
		}
	}
	return nil
}

// bareStreams is the memory that as many streams take on which nothing is ever sent, in bytes.
func (d *dashboards) bareStreams(ctx context.Context) (float64, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("hello\n"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	before := live()
	closeAll, err := open(ctx, "http://"+listener.Addr().String(), d.tokens)
	defer closeAll()
	return live() - before, err
}
