// Command cmd writes the Helm chart, and packages it:
//
//	cmd generate CONFIG CHART
//	cmd package CHART VERSION DIRECTORY [IMAGE]
package main

import (
	"fmt"
	"os"

	"github.com/minifleet/minifleet/hack/chart"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "generate":
		return chart.Generate(args[1], args[2])
	case (len(args) == 4 || len(args) == 5) && args[0] == "package":
		image := ""
		if len(args) == 5 {
			image = args[4]
		}
		path, err := chart.Package(args[1], args[2], image, args[3])
		if err != nil {
			return err
		}
		fmt.Println(path)
		return nil
	default:
		return fmt.Errorf("usage: cmd generate CONFIG CHART | cmd package CHART VERSION DIRECTORY [IMAGE]")
	}
}
