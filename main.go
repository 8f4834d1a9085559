// Minifleet is a multi-cluster GitOps controller for Flux Framework MiniClusters.
package main

import (
	"os"
	// Time zones and CA certificates for systems without: an image needs nothing but this program. Those of the system are
	// used where it has them.
	_ "time/tzdata"

	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/minifleet/minifleet/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
