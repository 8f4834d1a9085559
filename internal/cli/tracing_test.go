package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/internal/tracing"
)

func TestTracingFlags(t *testing.T) {
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "headers")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const endpoint = "https://collector.example.org"
	for name, c := range map[string]struct {
		flags       tracingFlags
		want        string
		wantHeaders map[string]string
	}{
		"off":                        {flags: tracingFlags{}},
		"on":                         {flags: tracingFlags{settings: tracing.Settings{Endpoint: endpoint, Ratio: 1}}},
		"with headers":               {tracingFlags{settings: tracing.Settings{Endpoint: endpoint, Ratio: 1}, headersFile: file("Authorization: Bearer x\n")}, "", map[string]string{"Authorization": "Bearer x"}},
		"headers that are none":      {flags: tracingFlags{settings: tracing.Settings{Endpoint: endpoint, Ratio: 1}, headersFile: file("my-secret-token\n")}, want: "--tracing-headers-file: line 1 is not Name: value"},
		"headers that are not there": {flags: tracingFlags{settings: tracing.Settings{Endpoint: endpoint, Ratio: 1}, headersFile: "/nowhere"}, want: "--tracing-headers-file: open /nowhere"},
		"headers for nobody":         {flags: tracingFlags{headersFile: "/nowhere"}, want: "which is not set"},
		"no URL":                     {flags: tracingFlags{settings: tracing.Settings{Endpoint: "collector", Ratio: 1}}, want: "--tracing-endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.flags.check()
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "my-secret-token")) {
				t.Errorf("%v", err)
			}
			if diff := cmp.Diff(c.wantHeaders, c.flags.settings.Headers); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLostSpansAreToldSeldom(t *testing.T) {
	lines, now := 0, noon
	report := seldom(funcr.New(func(string, string) { lines++ }, funcr.Options{}), func() time.Time { return now })
	for range 90 {
		report(errors.New("connection refused"))
		now = now.Add(time.Second)
	}
	if lines != 2 {
		t.Errorf("%d lines in 90 seconds", lines)
	}
}
