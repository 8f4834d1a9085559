package peers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// peer is somebody who is measured.
type peer struct {
	// name is its turns' namespace and its user on the API servers, title what people call it.
	name, title string
	// dir holds its files, below Options.Dir; empty where it takes none.
	dir string
	// files have to be there, by their paths below dir. A file that ends in / is a directory of CustomResourceDefinitions.
	files []string
	// recipe is the commands that make the files, for a POSIX shell; $DIR is where they are to be.
	recipe string
	// how says how it is told of a push, settings which ones differ from its defaults.
	how, settings string
	// notComparable says what it does not do that MiniFleet does, or the other way round.
	notComparable string
	// finalized are kinds on the hub whose objects have finalizers that nobody removes once its processes have ended.
	finalized []schema.GroupVersionKind
	// notMeasured says why nobody drives it, and published what others have measured; for those without a driver.
	notMeasured, published string
	// driver makes what drives it in one turn.
	driver func(*turn) driver
}

// driver drives a peer in one turn.
type driver interface {
	// start starts its processes and declares all that is there before the first push.
	start(context.Context) error
	// declare puts MiniClusters where the peer finds them once it is told, on top of those declared before.
	declare(ctx context.Context, names []string) error
	// tell tells it. The clock is started right before.
	tell(context.Context) error
}

var all = []*peer{miniFleet, bareLoop, fluxBulk, fluxEach, argoBulk, argoEach, multiKueue, fluxOperator}

// missing returns those of the peer's files that are not below dir.
func (p *peer) missing(dir string) ([]string, error) {
	var missing []string
	for _, file := range p.files {
		path := filepath.Join(dir, p.dir, file)
		_, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, filepath.Join(p.dir, file))
		case err != nil:
			return nil, err
		}
	}
	return missing, nil
}

// commands returns the lines that make its files below dir.
func (p *peer) commands(dir string) []string {
	text := strings.ReplaceAll(strings.TrimSpace(p.recipe), "$DIR", filepath.Join(dir, p.dir))
	return strings.Split(text, "\n")
}

// version returns what the file VERSION beside its programs says, and for MiniFleet what the program says.
func (p *peer) version(options Options) (string, error) {
	if p == miniFleet {
		output, err := exec.Command(options.MiniFleet, "version").Output()
		if err != nil {
			return "", fmt.Errorf("build it first, with `make build`: %w", err)
		}
		return strings.TrimSpace(string(output)), nil
	}
	if p.dir == "" {
		return "", nil
	}
	text, err := os.ReadFile(filepath.Join(options.Dir, p.dir, "VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return "unknown: there is no " + filepath.Join(p.dir, "VERSION"), nil
	}
	return strings.TrimSpace(string(text)), err
}
