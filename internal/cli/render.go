package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/api/flux/curve"
	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/render"
)

const redacted = "REDACTED"

type renderFlags struct {
	file, namespace string
	showSecrets     bool
}

func newRender() *cobra.Command {
	var f renderFlags
	cmd := &cobra.Command{
		Use:   "render -f FILE|DIR",
		Short: "Print what a MiniCluster becomes on a member, without any cluster",
		Long: "Prints the objects that each MiniCluster or FleetMiniCluster in FILE becomes on a member, as YAML in the\n" +
			"order in which they are applied. A folder with a kustomization is built first. The\n" +
			"values of Secrets are redacted; the certificate in them is a new one, made for this output only.",
		Example: "  minifleet render -f minicluster.yaml\n  cat minicluster.yaml | minifleet render -f - -n hpc",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "filename", "f", "", "file to read, or folder with a kustomization to build; - for standard input")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the objects; empty: the manifest's own, or default")
	flags.BoolVar(&f.showSecrets, "show-secrets", false, "print the values of Secrets")
	return cmd
}

func (f *renderFlags) run(cmd *cobra.Command) error {
	if f.file == "" {
		return invalid{errors.New("name a file with -f, or - for standard input")}
	}
	file, err := f.read(cmd.Context(), cmd.InOrStdin())
	if err != nil {
		return err
	}
	result := parse.Tree([]gitsource.File{file}, parse.Options{AnyNamespace: true})
	if err := problemsError(result.Problems); err != nil {
		return err
	}
	var out bytes.Buffer
	n := 0
	for i := range result.Objects {
		name, namespace, spec := miniCluster(&result.Objects[i])
		if spec == nil {
			continue
		}
		n++
		if f.namespace != "" {
			namespace = f.namespace
		}
		if err := f.print(&out, name, namespace, *spec); err != nil {
			return err
		}
	}
	if n == 0 {
		return invalid{fmt.Errorf("%s holds no MiniCluster and no FleetMiniCluster", f.file)}
	}
	_, err = out.WriteTo(cmd.OutOrStdout())
	return err
}

func (f *renderFlags) read(ctx context.Context, stdin io.Reader) (file gitsource.File, err error) {
	file.Path = f.file
	if f.file == "-" {
		file.Data, err = io.ReadAll(stdin)
		return file, err
	}
	if info, err := os.Stat(f.file); err == nil && info.IsDir() {
		built, ok, err := buildFolder(ctx, f.file)
		if err != nil {
			return file, err
		}
		if !ok {
			return file, invalid{fmt.Errorf("%s is a folder without a kustomization; name a file", f.file)}
		}
		return built, nil
	}
	if file.Data, err = os.ReadFile(f.file); err != nil {
		return file, invalid{err}
	}
	return file, nil
}

func miniCluster(o *parse.Object) (name, namespace string, spec *fluxv1alpha2.MiniClusterSpec) {
	switch {
	case o.MiniCluster != nil:
		namespace, spec = o.MiniCluster.Namespace, &o.MiniCluster.Spec
	case o.FleetMiniCluster != nil:
		namespace, spec = o.FleetMiniCluster.Namespace, &o.FleetMiniCluster.Spec.MiniCluster
	}
	if namespace == "" {
		namespace = "default"
	}
	return o.Name, namespace, spec
}

func (f *renderFlags) print(out *bytes.Buffer, name, namespace string, spec fluxv1alpha2.MiniClusterSpec) error {
	cert, err := curve.New(rand.Reader)
	if err != nil {
		return err
	}
	bundle, err := render.Render(render.Input{Name: name, Namespace: namespace, Spec: spec, CurveCert: cert.Encode()})
	if err != nil {
		return invalid{fmt.Errorf("%s: %w", name, err)}
	}
	for _, obj := range bundle.Objects() {
		if secret, ok := obj.(*corev1.Secret); ok && !f.showSecrets {
			for k := range secret.Data {
				secret.Data[k] = nil
			}
			secret.Data, secret.StringData = nil, redactedKeys(secret.Data)
		}
		body, err := yaml.Marshal(obj)
		if err != nil {
			return err
		}
		out.WriteString("---\n")
		out.Write(body)
	}
	return nil
}

func redactedKeys(data map[string][]byte) map[string]string {
	out := map[string]string{}
	for k := range data {
		out[k] = redacted
	}
	return out
}

func problemsError(problems []parse.Problem) error {
	var errs []error
	for _, p := range problems {
		if p.Warning {
			continue
		}
		where := p.Path
		if p.Line > 0 {
			where = fmt.Sprintf("%s:%d", p.Path, p.Line)
		}
		for _, part := range []string{p.Object, p.Field} {
			if part != "" {
				where += ": " + part
			}
		}
		errs = append(errs, fmt.Errorf("%s: %s", where, p.Message))
	}
	if len(errs) == 0 {
		return nil
	}
	return invalid{errors.Join(errs...)}
}
