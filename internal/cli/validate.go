package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/overlay"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/sanitize"
)

type validateFlags struct {
	files             []string
	output, namespace string
	allow             string
	rules             policy.Rules
	strict            bool
}

func newValidate() *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate -f FILE|DIR",
		Short: "Check manifests as a GitSource would, without any cluster",
		Long: "Reads MiniClusters, FleetMiniClusters and Placements as a GitSource does, every .yaml, .yml and .json file of\n" +
			"a folder and of those in it, and prints all that is wrong with them. A folder that holds a kustomization is\n" +
			"built instead, from the files of the Git repository that it lies in. Other documents are ignored.\n\n" +
			"The exit code is 0 when everything is valid, 1 when there are problems, or warnings with --strict, and 2\n" +
			"when a flag is wrong or a file cannot be read.",
		Example: "  minifleet validate -f production/\n  minifleet validate -f a.yaml -f b.yaml -o json | jq -r '.problems[].message'\n" +
			"  helm template chart | minifleet validate -f - --strict",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "file or folder to check, - for standard input; may be given more than once")
	flags.StringVarP(&f.output, "output", "o", "text", "text or json")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the GitSource: a document of another one is a problem; empty: each may have its own")
	flags.StringVar(&f.allow, "allow", "", "permissions that the GitSource or its namespace allows, separated by commas: "+policy.Join(v1alpha1.Permissions()))
	flags.StringSliceVar(&f.rules.PodAnnotations, "allowed-pod-annotations", policy.DefaultPodAnnotations(), "annotations of pods that take no permission on the hub, as its controller is given them")
	flags.BoolVar(&f.strict, "strict", false, "take warnings for problems")
	return cmd
}

func (f *validateFlags) run(cmd *cobra.Command) error {
	if len(f.files) == 0 {
		return invalid{errors.New("name a file or folder with -f, or - for standard input")}
	}
	if f.output != "text" && f.output != "json" {
		return invalid{fmt.Errorf("-o: %q is neither text nor json", f.output)}
	}
	allowed, unknown := policy.Parse(f.allow)
	if len(unknown) > 0 {
		return invalid{fmt.Errorf("--allow: %q is no permission: there are %s", unknown[0], policy.Join(v1alpha1.Permissions()))}
	}
	if err := policy.CheckPodAnnotations(f.rules.PodAnnotations); err != nil {
		return invalid{fmt.Errorf("--allowed-pod-annotations: %w", err)}
	}
	files, err := readManifests(cmd.Context(), f.files, cmd.InOrStdin())
	if err != nil {
		return invalid{err}
	}
	r := check(files, parse.Options{Namespace: f.namespace, AnyNamespace: f.namespace == "", Lines: true, AllProblems: true}, f.rules, allowed)
	r.Valid = r.Summary.Problems == 0 && (!f.strict || r.Summary.Warnings == 0)
	write := r.text
	if f.output == "json" {
		write = r.json
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return err
	}
	if !r.Valid {
		return fmt.Errorf("%s and %s found", count(r.Summary.Problems, "problem"), count(r.Summary.Warnings, "warning"))
	}
	return nil
}

// report is what -o json prints. Its fields are documented, and stay.
type report struct {
	// Valid says whether the exit code is 0.
	Valid    bool      `json:"valid"`
	Summary  summary   `json:"summary"`
	Objects  []object  `json:"objects"`
	Problems []finding `json:"problems"`
	Warnings []finding `json:"warnings"`
	Notes    []finding `json:"notes"`
}

type summary struct {
	// Files were read, and Ignored documents in them are of no kind that MiniFleet reads.
	Files    int `json:"files"`
	Objects  int `json:"objects"`
	Ignored  int `json:"ignored"`
	Problems int `json:"problems"`
	Warnings int `json:"warnings"`
	Notes    int `json:"notes"`
}

// object is one that has no problem.
type object struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line"`
}

// finding is one thing to tell. What is not known is empty.
type finding struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Object is KIND/NAME.
	Object string `json:"object,omitempty"`
	Field  string `json:"field,omitempty"`
	// Message says what is wrong, and what to do about it.
	Message string `json:"message"`
}

// inspection checks one object that has no problem, and tells the report what it finds.
type inspection func(r *report, o *parse.Object)

// check parses files, and inspects what they hold.
func check(files []gitsource.File, options parse.Options, rules policy.Rules, allowed []v1alpha1.Permission) *report {
	parsed := parse.Tree(files, options)
	r := &report{
		Summary: summary{Files: len(files), Ignored: parsed.Ignored},
		Objects: []object{}, Problems: []finding{}, Warnings: []finding{}, Notes: []finding{},
	}
	for _, p := range parsed.Problems {
		found := finding{p.Path, p.Line, p.Object, p.Field, p.Message}
		if p.Warning {
			r.Warnings = append(r.Warnings, found)
		} else {
			r.Problems = append(r.Problems, found)
		}
	}
	inspections := []inspection{placementIsThere(parsed.Objects), permitted(rules, allowed)}
	for i := range parsed.Objects {
		o, before := &parsed.Objects[i], len(r.Problems)
		for _, inspect := range inspections {
			inspect(r, o)
		}
		if len(r.Problems) == before {
			r.Objects = append(r.Objects, object{o.Kind, o.Name, shownPath(o.Path), o.Line})
		}
	}
	r.Summary.Objects = len(r.Objects)
	if len(parsed.Objects) == 0 && len(r.Problems) == 0 {
		r.Warnings = append(r.Warnings, finding{Message: "there is no MiniCluster, FleetMiniCluster or Placement: is the path right?"})
	}
	for _, list := range [][]finding{r.Problems, r.Warnings, r.Notes} {
		finish(list)
	}
	r.Summary.Problems, r.Summary.Warnings, r.Summary.Notes = len(r.Problems), len(r.Warnings), len(r.Notes)
	return r
}

// placementIsThere notes a Placement that is named and is not among the objects. It may well be on the hub.
func placementIsThere(objects []parse.Object) inspection {
	there := map[string]bool{}
	for i := range objects {
		if objects[i].Kind == parse.KindPlacement {
			there[objects[i].Name] = true
		}
	}
	return func(r *report, o *parse.Object) {
		name, field := "", "metadata.labels["+v1alpha1.LabelPlacement+"]"
		switch {
		case o.MiniCluster != nil:
			name = o.MiniCluster.Labels[v1alpha1.LabelPlacement]
		case o.FleetMiniCluster != nil && o.FleetMiniCluster.Spec.PlacementRef != nil:
			name, field = o.FleetMiniCluster.Spec.PlacementRef.Name, "spec.placementRef.name"
		}
		if name != "" && !there[name] {
			r.Notes = append(r.Notes, finding{o.Path, o.LineOf(field), o.Kind + "/" + o.Name, field,
				"these files have no Placement " + name + ": it must be on the hub already"})
		}
	}
}

// permitted finds the fields that take permissions which nobody has allowed.
func permitted(rules policy.Rules, allowed []v1alpha1.Permission) inspection {
	return func(r *report, o *parse.Object) {
		var needs []policy.Need
		switch {
		case o.MiniCluster != nil:
			needs = rules.Needs(&o.MiniCluster.Spec, field.NewPath("spec"))
		case o.FleetMiniCluster != nil:
			needs = rules.Needs(&o.FleetMiniCluster.Spec.MiniCluster, field.NewPath("spec", "miniCluster"))
		}
		for _, need := range policy.Denied(needs, allowed) {
			r.Problems = append(r.Problems, finding{o.Path, o.LineOf(need.Field.String()), o.Kind + "/" + o.Name, need.Field.String(), fmt.Sprintf(
				"%s: remove it, or, if the GitSource (spec.allow) or its namespace allows that, check with --allow=%s",
				sanitize.Text(need.Says(), sanitize.MaxNote), policy.Join(policy.Permissions(needs)))})
		}
	}
}

// finish sorts findings by place, and sanitizes what parsing has not.
func finish(findings []finding) {
	for i := range findings {
		findings[i].File = shownPath(findings[i].File)
	}
	slices.SortStableFunc(findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}

// shownPath is a path that cannot steer a terminal.
func shownPath(path string) string {
	const most = 4096
	return sanitize.Text(path, most)
}

func (r *report) json(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

func (r *report) text(out io.Writer) error {
	var b strings.Builder
	for _, kind := range []struct {
		prefix   string
		findings []finding
	}{{"", r.Problems}, {"warning: ", r.Warnings}, {"note: ", r.Notes}} {
		for _, f := range kind.findings {
			fmt.Fprintf(&b, "%s%s%s\n", f.place(), kind.prefix, f.about())
		}
	}
	fmt.Fprintf(&b, "%s, %s, %s ignored: %s, %s, %s\n", count(r.Summary.Files, "file"), count(r.Summary.Objects, "valid object"),
		count(r.Summary.Ignored, "other document"), count(r.Summary.Problems, "problem"), count(r.Summary.Warnings, "warning"), count(r.Summary.Notes, "note"))
	_, err := io.WriteString(out, b.String())
	return err
}

// place is FILE:LINE, as editors and CI know it, with a colon behind it.
func (f finding) place() string {
	switch {
	case f.File == "":
		return ""
	case f.Line == 0:
		return f.File + ": "
	}
	return fmt.Sprintf("%s:%d: ", f.File, f.Line)
}

func (f finding) about() string {
	text := f.Message
	for _, before := range []string{f.Field, f.Object} {
		if before != "" {
			text = before + ": " + text
		}
	}
	return text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// readManifests reads files, the manifests in folders and, for -, standard input; each once. Folders that hold a
// kustomization are built.
func readManifests(ctx context.Context, paths []string, stdin io.Reader) ([]gitsource.File, error) {
	var files []gitsource.File
	seen := map[string]bool{}
	add := func(path string, read func() ([]byte, error)) error {
		path = filepath.ToSlash(filepath.Clean(path))
		if seen[path] {
			return nil
		}
		seen[path] = true
		data, err := read()
		file := gitsource.File{Path: path, Data: data}
		if overlay.IsKustomization(filepath.Base(path)) {
			file.Findings = append(file.Findings, overlay.NotBuilt(path))
		}
		files = append(files, file)
		return err
	}
	for _, path := range paths {
		if path == "-" {
			if err := add(path, func() ([]byte, error) { return io.ReadAll(stdin) }); err != nil {
				return nil, err
			}
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			if err := add(path, func() ([]byte, error) { return os.ReadFile(path) }); err != nil { //nolint:gosec // the user's own file
				return nil, err
			}
			continue
		}
		built, ok, err := buildFolder(ctx, path)
		if err != nil {
			return nil, err
		}
		if ok {
			files = append(files, built)
			continue
		}
		if err := walkManifests(path, func(at string, problem string) error {
			switch {
			case problem != "":
				files = append(files, gitsource.File{Path: filepath.ToSlash(at), Problem: problem})
				return nil
			case !isManifest(at): // a kustomization without an extension
				files = append(files, gitsource.File{Path: filepath.ToSlash(at), Findings: []gitsource.Finding{overlay.NotBuilt(filepath.ToSlash(at))}})
				return nil
			}
			return add(at, func() ([]byte, error) { return os.ReadFile(at) }) //nolint:gosec // the user's own file
		}); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// walkManifests visits the manifests of a folder, as a GitSource would find them in a commit, and tells why
// one is not read.
func walkManifests(root string, visit func(path, problem string) error) error {
	// With the slash a link to a folder, which the user has named, is followed.
	return filepath.WalkDir(root+string(filepath.Separator), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case entry.Type()&fs.ModeSymlink != 0 && hidesManifests(path):
			return visit(path, "is a symbolic link, which is not followed; commit the file itself")
		case entry.Type().IsRegular() && (isManifest(path) || overlay.IsKustomization(entry.Name())):
			return visit(path, "")
		}
		return nil
	})
}

// hidesManifests says whether somebody may expect manifests behind a link: by its name, or because it leads
// to a folder.
func hidesManifests(link string) bool {
	info, err := os.Stat(link)
	return isManifest(link) || err == nil && info.IsDir()
}

func isManifest(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path)))
}
