package cli_test

import (
	"os"
	"testing"

	"github.com/minifleet/minifleet/internal/cli"
)

// The test program is minifleet where that starts itself, to build an overlay.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "build-overlay" {
		os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}
