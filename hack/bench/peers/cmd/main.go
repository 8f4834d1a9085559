// Command cmd measures MiniFleet side by side with what people would pick instead, and writes a table. It exits with 0 also
// when peers are not there, since the table says how to make them; with 1 when a turn or all of it has failed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/minifleet/minifleet/hack/bench/peers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 3 && os.Args[1] == "redis" { // what a turn of Argo CD starts
		exit(peers.ServeRedis(ctx, os.Args[2]))
		return
	}
	var o peers.Options
	names := strings.Join(peers.Names(), ",")
	chosen := flag.String("peers", names, "whom to measure, in this order")
	output := flag.String("o", "markdown", "output: markdown or json")
	raw := flag.String("json", "", "a file that all figures are put into besides, as JSON")
	flag.IntVar(&o.MiniClusters, "n", 100, "how many MiniClusters are pushed at once")
	flag.IntVar(&o.WarmUp, "warm-up", 10, "how many are pushed before, which do not count")
	flag.IntVar(&o.Runs, "runs", 3, "how many turns each has")
	flag.IntVar(&o.Nodes, "nodes", 0, "how many nodes each member has; with nodes, the last Job has to run, and pods run for an hour")
	flag.StringVar(&o.Dir, "dir", os.Getenv("PEERS"), "where the peers' programs are; default: $PEERS, or bin/peers")
	flag.StringVar(&o.MiniFleet, "binary", "", "MiniFleet's program; default: bin/minifleet")
	flag.StringVar(&o.Keep, "keep", "", "a directory to work in, which is kept, e.g. to read logs")
	flag.DurationVar(&o.Limit, "limit", 10*time.Minute, "how long a push may take")
	flag.Parse()
	if flag.NArg() > 0 || *output != "markdown" && *output != "json" {
		flag.Usage()
		os.Exit(2)
	}
	o.Peers = strings.Split(*chosen, ",")
	started := time.Now()
	o.Progress = func(text string) { fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(started).Seconds(), text) }
	ctrl.SetLogger(logr.Discard())
	exit(run(ctx, o, *output, *raw))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o peers.Options, output, raw string) error {
	table, err := peers.Run(ctx, o)
	if table == nil {
		return err
	}
	write := table.Markdown
	if output == "json" {
		write = func(w io.Writer) error { return writeJSON(w, table) }
	}
	if writeErr := write(os.Stdout); writeErr != nil {
		return writeErr
	}
	if raw != "" {
		file, createErr := os.Create(raw)
		if createErr != nil {
			return createErr
		}
		defer func() { _ = file.Close() }()
		if writeErr := writeJSON(file, table); writeErr != nil {
			return writeErr
		}
	}
	if err != nil {
		return err
	}
	return table.Failed()
}

func writeJSON(w io.Writer, table *peers.Table) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(table)
}
