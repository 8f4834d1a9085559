package cli

import (
	"context"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/overlay"
	"github.com/minifleet/minifleet/gitsource/overlay/build"
)

// buildOverlayName is the command by which this program builds overlays in a process of its own.
const buildOverlayName = "build-overlay"

func newBuildOverlay() *cobra.Command {
	return &cobra.Command{
		Use:    buildOverlayName,
		Short:  "Build an overlay that is handed over on standard input, for minifleet itself",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return build.Child(args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// buildCommand is how this program starts that command.
func buildCommand() ([]string, error) {
	self, err := os.Executable()
	return []string{self, buildOverlayName}, err
}

// buildFolder builds a folder of this machine, as a GitSource builds it in a commit: from the files of the repository that
// the folder lies in, or, where it lies in none, of the folder alone. Without a kustomization it is not ok.
func buildFolder(ctx context.Context, folder string) (built gitsource.File, ok bool, err error) {
	at, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return built, false, err
	}
	if at, err = filepath.Abs(at); err != nil {
		return built, false, err
	}
	top := repositoryOf(at)
	in, err := filepath.Rel(top, at)
	if err != nil {
		return built, false, err
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return built, false, err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	dir := filepath.ToSlash(in)
	if file, err := overlay.Find(root.FS(), dir); err != nil || file == "" {
		return built, false, err
	}
	closure, err := overlay.Follow(root.FS(), dir, overlay.Limits{})
	if err != nil {
		return built, false, err
	}
	command, err := buildCommand()
	if err != nil {
		return built, false, err
	}
	files, _, err := (&build.Builder{Command: command}).Files(ctx, nil, []*overlay.Closure{closure})
	if err != nil {
		return built, false, err
	}
	built = files[0]
	built.Path = path.Join(filepath.ToSlash(folder), path.Base(closure.File))
	for i, from := range built.Origins {
		built.Origins[i] = asNamed(folder, dir, from)
	}
	return built, true, nil
}

// asNamed is how somebody who names a folder names a file of its repository. dir is the folder in the repository.
func asNamed(folder, dir, file string) string {
	if file == "" {
		return ""
	}
	from, err := filepath.Rel(filepath.FromSlash(dir), filepath.FromSlash(file))
	if err != nil {
		return file
	}
	return filepath.ToSlash(filepath.Join(folder, from))
}

// repositoryOf is the root of the repository that a folder lies in, or the folder itself.
func repositoryOf(folder string) string {
	for at := folder; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return folder
		}
	}
}
