// Image makes the container image of MiniFleet without a container engine: `make image`, `make image-push`.
//
//	image build    writes an OCI layout with the image of each platform
//	image archive  writes the image of one platform as an archive that `docker load`, kind and k3d take
//	image push     pushes the layout to a registry, with the credentials of the user's docker login
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run does what the arguments say, and prints what it has made.
func run(ctx context.Context, args []string, out io.Writer) error {
	commands := map[string]func(context.Context, []string, io.Writer) error{"build": build, "archive": archive, "push": push}
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("usage: image build|archive|push: see image COMMAND -h")
	}
	return commands[args[0]](ctx, args[1:], out)
}

func build(_ context.Context, args []string, out io.Writer) error {
	var dir, reference string
	var created int64
	c := contents{Binaries: map[string]string{}}
	flags := flag.NewFlagSet("image build", flag.ContinueOnError)
	flags.StringVar(&dir, "dir", "", "directory of the layout")
	flags.StringVar(&reference, "name", "", "what the image is called where it is loaded: NAME:TAG")
	flags.StringVar(&c.License, "license", "", "path of the licence")
	flags.StringVar(&c.Version, "version", "", "version of the sources")
	flags.StringVar(&c.Revision, "revision", "", "commit of the sources")
	flags.Int64Var(&created, "created", 0, "time of the sources, in seconds since 1970: SOURCE_DATE_EPOCH")
	flags.Func("binary", "OS/ARCHITECTURE=PATH of the program; once a platform", c.binary)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if dir == "" || reference == "" || c.License == "" || c.Version == "" || len(c.Binaries) == 0 {
		return errors.New("build takes -dir, -name, -license, -version, and -binary once or more")
	}
	full, err := fullName(reference)
	if err != nil {
		return err
	}
	c.Created = time.Unix(created, 0).UTC()
	images, err := index(c)
	if err != nil {
		return err
	}
	if err := writeLayout(dir, images, full, c.Version); err != nil {
		return err
	}
	digest, err := images.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s holds %s for %s: %s\n", dir, full, strings.Join(sorted(c.Binaries), ", "), digest)
	return err
}

func (c contents) binary(text string) error {
	platform, path, found := strings.Cut(text, "=")
	if !found || path == "" || strings.Count(platform, "/") == 0 {
		return errors.New("want OS/ARCHITECTURE=PATH")
	}
	c.Binaries[platform] = path
	return nil
}

// fullName returns a name as container engines know it: minifleet:dev is docker.io/library/minifleet:dev. A name with a digest
// is refused: what is being made has its own.
func fullName(text string) (string, error) {
	tag, err := name.NewTag(text)
	if err != nil {
		return "", fmt.Errorf("the image is to be called %q: say NAME:TAG: %w", text, err)
	}
	return strings.Replace(tag.Name(), name.DefaultRegistry+"/", "docker.io/", 1), nil
}

func archive(_ context.Context, args []string, out io.Writer) error {
	var dir, reference, platform, to string
	flags := flag.NewFlagSet("image archive", flag.ContinueOnError)
	flags.StringVar(&dir, "dir", "", "directory of the layout")
	flags.StringVar(&reference, "name", "", "what the image is called where it is loaded: NAME:TAG")
	flags.StringVar(&platform, "platform", "", "OS/ARCHITECTURE")
	flags.StringVar(&to, "to", "", "file to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if dir == "" || reference == "" || platform == "" || to == "" {
		return errors.New("archive takes -dir, -name, -platform and -to")
	}
	images, err := readLayout(dir)
	if err != nil {
		return err
	}
	image, err := imageOf(images, platform)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	if err := tarball.WriteToFile(to, tag, image); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s holds %s for %s\n", to, reference, platform)
	return err
}

func push(ctx context.Context, args []string, out io.Writer) error {
	var dir, reference string
	flags := flag.NewFlagSet("image push", flag.ContinueOnError)
	flags.StringVar(&dir, "dir", "", "directory of the layout")
	flags.StringVar(&reference, "name", "", "REGISTRY/NAME:TAG")
	if err := flags.Parse(args); err != nil {
		return err
	}
	to, err := name.NewTag(reference, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("where to? Say REGISTRY/NAME:TAG: %w", err)
	}
	images, err := readLayout(dir)
	if err != nil {
		return fmt.Errorf("%w: make image writes it", err)
	}
	if err := remote.WriteIndex(to, images, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return err
	}
	digest, err := images.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "pushed %s: deploy it as %s@%s\n", to, to.Context(), digest)
	return err
}
