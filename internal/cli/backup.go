package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/minifleet/minifleet/internal/backup"
	"github.com/minifleet/minifleet/internal/cli/members"
	"github.com/minifleet/minifleet/internal/cli/recovery"
	"github.com/minifleet/minifleet/internal/version"
)

// standardStream stands for standard input or output in place of a file.
const standardStream = "-"

type backupFlags struct {
	hubFlags
	namespace string
	output    string
	secrets   bool
}

func newBackup(env *environment) *cobra.Command {
	f := backupFlags{hubFlags: withoutNamespace(newHubFlags(env))}
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Write what the hub is into one file, from which restore makes it again",
		Long: "Writes the identity of the fleet, members, sources, placements, MiniClusters with their runs, and who may use\n" +
			"what, into one file of YAML documents. Whatever cannot be read is an error, and no file is left then. Secrets are\n" +
			"named only, unless --include-secrets is given.\n\n" +
			"It reads with your rights, and changes nothing.",
		Example: "  minifleet backup -o fleet.backup.yaml\n  minifleet backup --include-secrets | age -r RECIPIENT > fleet.backup.age",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, func(ctx context.Context, hub *hubClient) error { return asInput(f.write(ctx, hub)) })
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", standardStream, "file to write, which nobody else can read; - is standard output")
	flags.BoolVar(&f.secrets, "include-secrets", false, "have the members' kubeconfigs and the Secrets of sources be in the file, in the clear")
	flags.StringVar(&f.namespace, "manager-namespace", members.DefaultManagerNamespace, "namespace of the hub in which its controller runs")
	f.add(cmd)
	return cmd
}

// asInput marks errors of what was asked for.
func asInput(err error) error {
	var input *recovery.InputError
	if errors.As(err, &input) {
		return invalid{err}
	}
	return err
}

// write writes a backup beside its place, and moves it there when it is whole.
func (f *backupFlags) write(ctx context.Context, hub *hubClient) (err error) {
	directory := "" // that for temporary files
	if f.output != standardStream {
		// A rename would put a file in the place of a device, such as /dev/null, or of a link.
		if info, err := os.Lstat(f.output); err == nil && !info.Mode().IsRegular() {
			return invalid{fmt.Errorf("--output: %s is there, and is no regular file: name another, or - for standard output", f.output)}
		}
		directory = filepath.Dir(f.output)
	}
	spool, err := os.CreateTemp(directory, ".minifleet-backup-*")
	if err != nil {
		return err
	}
	defer removeTemporary(spool)
	out, err := os.CreateTemp(directory, ".minifleet-backup-*")
	if err != nil {
		return err
	}
	defer removeTemporary(out)
	b := recovery.Backup{Hub: hub.client, Namespace: f.namespace, Secrets: f.secrets, Program: version.String(), Now: f.env.now()}
	header, err := b.Run(ctx, out, spool)
	if err != nil {
		return err
	}
	if err := f.hand(out); err != nil {
		return err
	}
	f.tell(header)
	return nil
}

func removeTemporary(file *os.File) {
	_ = file.Close()
	_ = os.Remove(file.Name()) // it is not there where it was moved to its place
}

// hand moves a file to where it is asked for, or prints it.
func (f *backupFlags) hand(file *os.File) error {
	if f.output == standardStream {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err := io.Copy(f.env.streams.Out, file)
		return err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), f.output)
}

func (f *backupFlags) tell(h backup.Header) {
	to := f.output
	if to == standardStream {
		to = "standard output"
	}
	counts := ""
	for _, list := range h.Lists {
		if list.Objects == 0 {
			continue
		}
		counts += fmt.Sprintf(", %d %s", list.Objects, list.Kind)
	}
	f.env.notef("backed up fleet %s in epoch %d to %s%s", h.FleetID, h.Epoch, to, counts)
	if h.Secrets {
		f.env.notef("warning: the file has the members' credentials in the clear: keep it as you keep these")
		return
	}
	for _, secret := range h.KeepSeparately {
		f.env.notef("not in the file, keep it separately: %s", secret)
	}
}
