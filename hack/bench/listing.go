package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// listRounds is how often each request is sent.
const listRounds = 120

// plain is a client that does not decompress answers.
var plain = &http.Client{Transport: &http.Transport{DisableCompression: true}}

// get asks the API as the first of the people, and returns the size of the answer in bytes and how long it took.
func (d *dashboards) get(ctx context.Context, path string, compressed bool) (int64, time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.served.url+"/api/v1"+path, http.NoBody)
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+d.tokens[0])
	if compressed {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	start := time.Now()
	res, err := plain.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return 0, 0, fmt.Errorf("GET %s: %s", path, res.Status)
	}
	size, err := io.Copy(io.Discard, res.Body)
	return size, time.Since(start), err
}

// list measures how long lists take, beside a request that is answered with who asks, and how large they are.
func (d *dashboards) list(ctx context.Context) error {
	asked := []struct{ what, path string }{
		{"", "/session"},
		{"list of 200", "/miniclusters?limit=200"},
		{"list of 200, sorted by member", "/miniclusters?limit=200&sort=member"},
		{"list of 200, searched", "/miniclusters?limit=200&q=lammps%20state:succeeded"},
		{"list of 200, searched and sorted", "/miniclusters?limit=200&q=a&sort=since&order=desc"},
		{"summary", "/summary"},
	}
	took := make([][]time.Duration, len(asked))
	for round := range listRounds + 10 {
		for i, a := range asked {
			_, t, err := d.get(ctx, a.path, true)
			if err != nil {
				return err
			}
			if round >= 10 { // the first ones warm everything up
				took[i] = append(took[i], t)
			}
		}
	}
	for i, a := range asked[1:] {
		for _, q := range quantiles {
			d.report.row(fmt.Sprintf("%s of %d MiniClusters", a.what, d.n), q.name, took[i+1], "who asks", took[0], quantile(q.share))
		}
	}
	d.say("%d MiniClusters: the first page takes %s", d.n, milliseconds(quantile(0.5)(took[1])))
	return d.sizes(ctx)
}

var quantiles = []struct {
	name  string
	share float64
}{{"p50", 0.5}, {"p95", 0.95}}

// sizes reports how large answers are.
func (d *dashboards) sizes(ctx context.Context) error {
	const kb, pages = 1000, 1000
	for _, a := range []struct {
		what string
		path string
		all  bool
	}{{"summary", "/summary", false}, {"first page", "/miniclusters?limit=200", false}, {"all rows", fmt.Sprintf("/miniclusters?limit=%d", pages), true}} {
		var sum [2]int64
		for offset := 0; offset == 0 || a.all && offset < d.n; offset += pages {
			path := a.path
			if a.all {
				path += fmt.Sprint("&offset=", offset)
			}
			for i := range sum {
				size, _, err := d.get(ctx, path, i == 0)
				if err != nil {
					return err
				}
				sum[i] += size
			}
		}
		d.report.figure(fmt.Sprintf("%s of %d MiniClusters, compressed", a.what, d.n), "KB", float64(sum[0])/kb, "as it is, KB", float64(sum[1])/kb)
	}
	return nil
}
