package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/internal/version"
)

func newVersion() *cobra.Command {
	var output outputFlag
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: "Prints the version of this program, the commit that it was built from, and the version of Go. With -o also the\n" +
			"time of that commit (buildDate), and whether files had been changed without a commit (dirty).",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.check(); err != nil {
				return err
			}
			return printVersion(cmd.OutOrStdout(), version.Get(), output.format)
		},
	}
	output.add(cmd, formatJSON, formatYAML)
	return cmd
}

func printVersion(out io.Writer, info version.Info, format string) error {
	text := info.String() + "\n"
	switch format {
	case formatJSON:
		body, err := json.MarshalIndent(info, "", "  ")
		if err != nil {
			return err
		}
		text = string(body) + "\n"
	case formatYAML:
		body, err := yaml.Marshal(info)
		if err != nil {
			return err
		}
		text = string(body)
	}
	_, err := fmt.Fprint(out, text)
	return err
}
