package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageOf prints the usage of a command, with the flags of the connection apart from its own.
func usageOf(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		b.WriteString("  " + cmd.UseLine() + "\n")
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("  " + cmd.CommandPath() + " [command]\n")
	}
	if cmd.HasExample() {
		b.WriteString("\nExamples:\n" + strings.ReplaceAll(cmd.Example, "minifleet ", cmd.Root().DisplayName()+" ") + "\n")
	}
	writeCommands(&b, cmd)
	own, connection := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Annotations[hubFlag]; ok {
			connection.AddFlag(f)
		} else {
			own.AddFlag(f)
		}
	})
	writeFlags(&b, "Flags", own)
	writeFlags(&b, "Flags for the connection to the hub", connection)
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n`" + cmd.CommandPath() + " [command] --help` says more about a command.\n")
	}
	_, err := cmd.OutOrStderr().Write([]byte(b.String()))
	return err
}

func writeFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if flags.HasAvailableFlags() {
		b.WriteString("\n" + title + ":\n" + flags.FlagUsages())
	}
}

func writeCommands(b *strings.Builder, cmd *cobra.Command) {
	write := func(title, group string) {
		var lines []string
		for _, sub := range cmd.Commands() {
			if sub.GroupID == group && (sub.IsAvailableCommand() || sub.Name() == "help") {
				lines = append(lines, "  "+sub.Name()+strings.Repeat(" ", max(sub.NamePadding()-len(sub.Name()), 0)+1)+sub.Short+"\n")
			}
		}
		if len(lines) > 0 {
			b.WriteString("\n" + title + ":\n" + strings.Join(lines, ""))
		}
	}
	for _, group := range cmd.Groups() {
		write(group.Title, group.ID)
	}
	title := "Commands"
	if len(cmd.Groups()) > 0 {
		title = "Other commands"
	}
	write(title, "")
}
