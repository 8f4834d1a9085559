// Minifleet is a multi-cluster GitOps controller for Flux Framework MiniClusters.
package main

import (
	"os"

	"github.com/minifleet/minifleet/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
