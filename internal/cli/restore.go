package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/minifleet/minifleet/internal/cli/members"
	"github.com/minifleet/minifleet/internal/cli/recovery"
)

type restoreFlags struct {
	hubFlags
	namespace string
	file      string
	existing  string
	members   []string
	dryRun    bool
}

func newRestore(env *environment) *cobra.Command {
	f := restoreFlags{hubFlags: withoutNamespace(newHubFlags(env))}
	cmd := &cobra.Command{
		Use:   "restore -f FILE",
		Short: "Make a hub again from a backup, on a new cluster or on the same",
		Long: "Puts back what a backup has, and raises the epoch of the fleet, so that members are asked what has run before\n" +
			"anything begins, and a hub that comes back is fenced. Nothing is started: that is yours to do, once this has ended.\n" +
			"A hub is refused on which a controller runs, which is of another fleet, or which has objects that may be newer\n" +
			"(--existing says what becomes of these). May be repeated: what is there is not changed.",
		Example: "  minifleet restore -f fleet.backup.yaml --dry-run\n  minifleet restore -f fleet.backup.yaml",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.file == "" {
				return invalid{errors.New("which backup? Name it with -f FILE")}
			}
			if f.existing != "" && f.existing != recovery.ExistingKeep && f.existing != recovery.ExistingReplace {
				return invalid{fmt.Errorf("--existing: %q is none of %s, %s", f.existing, recovery.ExistingKeep, recovery.ExistingReplace)}
			}
			for _, member := range f.members { // a line of the identity names it, which no controller starts with if it is wrong
				if problems := validation.IsDNS1123Subdomain(member); len(problems) > 0 {
					return invalid{fmt.Errorf("--member: %q is no name of a MemberCluster: %s", member, problems[0])}
				}
			}
			return f.run(cmd, func(ctx context.Context, hub *hubClient) error { return asInput(f.restore(ctx, hub)) })
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "filename", "f", "", "backup to restore; - is standard input")
	flags.StringVar(&f.existing, "existing", "", "what becomes of objects that the hub has and that are not as in the backup: keep, or replace; empty: refuse")
	flags.StringSliceVar(&f.members, "member", nil, "a member that was registered after the backup was made, and that is to be waited for; may be repeated")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check everything, say what would be done, and do nothing")
	flags.StringVar(&f.namespace, "manager-namespace", members.DefaultManagerNamespace, "namespace of the hub in which its controller runs")
	_ = cmd.RegisterFlagCompletionFunc("existing", cobra.FixedCompletions([]string{recovery.ExistingKeep, recovery.ExistingReplace}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	f.add(cmd)
	return cmd
}

func (f *restoreFlags) restore(ctx context.Context, hub *hubClient) error {
	path := f.file
	if path == standardStream {
		spool, err := os.CreateTemp("", ".minifleet-restore-*")
		if err != nil {
			return err
		}
		defer removeTemporary(spool)
		if _, err := io.Copy(spool, f.env.streams.In); err != nil {
			return err
		}
		path = spool.Name()
	}
	r := recovery.Restore{
		Hub: hub.client, Namespace: f.namespace, Existing: f.existing, Members: f.members, DryRun: f.dryRun,
		Ask: f.env.askMember, Now: f.env.now, Program: f.env.program,
		Tell: func(format string, args ...any) { f.env.printf(format+"\n", args...) }, Note: f.env.notef,
	}
	return r.Run(ctx, func() (io.ReadCloser, error) {
		file, err := os.Open(path) //nolint:gosec // the file that a person names
		if errors.Is(err, os.ErrNotExist) {
			return nil, &recovery.InputError{Message: "-f: " + err.Error()}
		}
		return file, err
	})
}
