package cli

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/minifleet/minifleet/internal/sanitize"
	"github.com/minifleet/minifleet/internal/tracing"
	"github.com/minifleet/minifleet/internal/version"
)

const (
	// tracingEnd is how long a controller that ends goes on sending spans.
	tracingEnd = 2 * time.Second
	// tracingReport is how often it is told that spans cannot be sent.
	tracingReport = time.Minute
)

type tracingFlags struct {
	settings    tracing.Settings
	headersFile string
}

func (f *tracingFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.settings.Endpoint, "tracing-endpoint", "",
		"URL of an OpenTelemetry collector that takes OTLP over HTTP, such as http://collector:4318; empty: no traces (docs/tracing.md)")
	flags.StringVar(&f.headersFile, "tracing-headers-file", "", "file with headers for the collector, one Name: value a line, read once")
	flags.Float64Var(&f.settings.Ratio, "tracing-sampling-ratio", 1, "which part of all commits is traced, from 0 to 1")
}

func (f *tracingFlags) on() bool { return f.settings.Endpoint != "" }

func (f *tracingFlags) check() error {
	if !f.on() {
		if f.headersFile != "" {
			return invalid{fmt.Errorf("--tracing-headers-file is for --tracing-endpoint, which is not set")}
		}
		return nil
	}
	if err := f.settings.Validate(); err != nil {
		return invalid{fmt.Errorf("--tracing-endpoint, --tracing-sampling-ratio: %w", err)}
	}
	if f.headersFile == "" {
		return nil
	}
	file, err := os.ReadFile(f.headersFile)
	if err != nil {
		return invalid{fmt.Errorf("--tracing-headers-file: %w", err)}
	}
	if f.settings.Headers, err = tracing.ParseHeaders(file); err != nil {
		return invalid{fmt.Errorf("--tracing-headers-file: %w", err)}
	}
	return nil
}

// start has the process traced, if it is to be. What it returns ends that, within seconds.
func (f *tracingFlags) start(ctx context.Context, log logr.Logger) (end func(), err error) {
	if !f.on() {
		return func() {}, nil
	}
	off, err := tracing.Switch(ctx, f.settings, version.String(), seldom(log, time.Now))
	if err != nil {
		return nil, fmt.Errorf("--tracing-endpoint: %w", err)
	}
	return func() {
		// The controller's own context has ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tracingEnd)
		defer cancel()
		if err := off(ctx); err != nil {
			log.Info("some spans were not sent", "cause", sanitize.Text(err.Error(), sanitize.MaxNote))
		}
	}, nil
}

// seldom logs errors of the exporter, and not more than one a minute.
func seldom(log logr.Logger, now func() time.Time) func(error) {
	var mu sync.Mutex
	var last time.Time
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if at := now(); last.IsZero() || at.Sub(last) >= tracingReport {
			last = at
			log.Info("traces cannot be sent, and are lost meanwhile", "cause", sanitize.Text(err.Error(), sanitize.MaxNote))
		}
	}
}
