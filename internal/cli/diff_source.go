package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/changes"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// sourceFlags are those of a comparison of a commit with the hub.
type sourceFlags struct {
	commitFlags
	name     string
	exitCode bool
	rules    policy.Rules
}

// sourceOnly are the flags that mean nothing where a FleetMiniCluster is named.
var sourceOnly = []string{"source", "filename", "revision", "repository", "ref", "exit-code", "allowed-pod-annotations"}

func (f *sourceFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.name, "source", "", "GitSource to compare a commit for; empty: the only one in the namespace")
	flags.StringVarP(&f.folder, "filename", "f", "", "root of the working tree to compare, not spec.path in it; empty: that of the repository which the current directory is in")
	flags.StringVar(&f.revision, "revision", "", "commit, branch or tag of a clone to compare, in the place of a working tree")
	flags.StringVarP(&f.repository, "repository", "C", "", "clone that --revision is of; empty: the one that the current directory is in")
	flags.StringVar(&f.ref, "ref", "", "full name of a ref to fetch from the source's own URL and to compare, such as refs/pull/7/merge")
	flags.BoolVar(&f.exitCode, "exit-code", true, "exit with 1 where something would change; false: with 0")
	flags.StringSliceVar(&f.rules.PodAnnotations, "allowed-pod-annotations", policy.DefaultPodAnnotations(), "annotations of pods that take no permission on the hub, as its controller is given them")
}

func (f *sourceFlags) check() error {
	given := 0
	for _, flag := range []string{f.folder, f.revision, f.ref} {
		if flag != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return invalid{errors.New("-f, --revision and --ref: give one of them")}
	case f.repository != "" && f.revision == "":
		return invalid{errors.New("-C: say with --revision what is to be compared of that clone")}
	case f.ref != "" && !strings.HasPrefix(f.ref, "refs/"):
		return invalid{fmt.Errorf("--ref: %q is no full name of a ref: write it as refs/heads/NAME, refs/pull/7/merge or refs/merge-requests/7/head", sanitize.Text(f.ref, sanitize.MaxNote))}
	case f.name != "" && len(validation.IsDNS1123Subdomain(f.sourceName())) > 0:
		return invalid{fmt.Errorf("--source: %q is no name", sanitize.Text(f.name, sanitize.MaxNote))}
	}
	if err := policy.CheckPodAnnotations(f.rules.PodAnnotations); err != nil {
		return invalid{fmt.Errorf("--allowed-pod-annotations: %w", err)}
	}
	return nil
}

func (f *sourceFlags) sourceName() string {
	name, _ := cutPrefix(f.name, sourcePrefixes)
	return name
}

// sourceOf reads the GitSource that is meant.
func (f *diffFlags) sourceOf(ctx context.Context, hub *hubClient) (*v1alpha1.GitSource, error) {
	if f.of.name != "" {
		return f.source(ctx, hub, f.of.sourceName())
	}
	var list v1alpha1.GitSourceList
	if err := hub.client.List(ctx, &list, client.InNamespace(hub.namespace)); err != nil {
		return nil, err
	}
	switch len(list.Items) {
	case 1:
		return &list.Items[0], nil
	case 0:
		return nil, invalid{fmt.Errorf("namespace %s has no GitSource: name a FleetMiniCluster to compare it with its members, or another namespace (-n)", hub.namespace)}
	}
	names := namesOf(list.Items, func(s *v1alpha1.GitSource) string { return s.Name })
	return nil, invalid{fmt.Errorf("namespace %s has several GitSources, %s: name one with --source", hub.namespace, sanitize.Names(names, maxNames))}
}

// maxNames is how many sources an error names.
const maxNames = 10

// runSource compares a commit with the hub.
func (f *diffFlags) runSource(cmd *cobra.Command) error {
	if err := f.of.check(); err != nil {
		return err
	}
	err := f.hubFlags.run(cmd, func(ctx context.Context, hub *hubClient) error {
		source, err := f.sourceOf(ctx, hub)
		if err != nil {
			return err
		}
		comparison, err := f.compare(ctx, hub, source)
		if err != nil {
			return err
		}
		return f.tell(ctx, comparison)
	})
	return verdictError(err)
}

// comparison is a commit and what is on the hub.
type comparison struct {
	source *v1alpha1.GitSource
	// namespace is nil where it may not be read.
	namespace *corev1.Namespace
	read      *commitRead
	parsed    parse.Result
	hub       changes.Hub
	plan      changes.Plan
	program   string
	rules     policy.Rules
	foresee   forecaster
	// refused are those, by KIND/NAME, that need permissions which they do not have.
	refused map[string]bool
}

func (f *diffFlags) compare(ctx context.Context, hub *hubClient, source *v1alpha1.GitSource) (*comparison, error) {
	c := &comparison{source: source, program: f.env.program, rules: f.of.rules}
	var err error
	if c.hub, err = readHub(ctx, hub); err != nil {
		return nil, err
	}
	if c.namespace, err = readNamespace(ctx, hub); err != nil {
		return nil, err
	}
	if c.read, err = f.of.read(ctx, f.env, hub, source); err != nil {
		return nil, safeError(err)
	}
	fetched := c.read.fetched
	c.parsed = parse.Tree(fetched.Files, parse.Options{Namespace: source.Namespace, Owners: c.hub.FilesOf(source.Name), Lines: true, AllProblems: true})
	in := changes.Input{
		Source: source, Parsed: c.parsed, Hub: c.hub,
		Commit: v1alpha1.Commit{Hash: fetched.Commit, Revision: fetched.Revision, Subject: fetched.About.Subject, Author: fetched.About.Author},
	}
	if fetched.PathMissing {
		in.PathProblem = fetched.PathProblem
	}
	c.plan = changes.Compare(in)
	c.foresee, err = f.forecaster(ctx, hub, c)
	return c, err
}

// safeError is an error of reading a repository, whose text may be a server's or a file's, as it can be shown.
func safeError(err error) error {
	var exceeded *budget.Exceeded
	if failed := (*fetch.Error)(nil); errors.As(err, &failed) || errors.As(err, &exceeded) {
		return errors.New(said(err))
	}
	return err
}

// forecaster is the best that there is: the dashboard, or else what MemberClusters say, if they may be read.
func (f *diffFlags) forecaster(ctx context.Context, hub *hubClient, c *comparison) (forecaster, error) {
	if f.dashboard.given(f.env) {
		dashboard, err := f.dashboard.client(&f.hubFlags, hub)
		if err != nil {
			return nil, err
		}
		return askDashboard(dashboard, hub.namespace), nil
	}
	var members v1alpha1.MemberClusterList
	err := hub.client.List(ctx, &members)
	if apierrors.IsForbidden(err) {
		return unforeseeable("you may not list MemberClusters; with --server, the dashboard says it to who may create FleetMiniClusters"), nil
	}
	return fromMembers(members.Items, c.namespace, f.env.now()), err
}

// readHub reads the FleetMiniClusters and Placements of the namespace.
func readHub(ctx context.Context, hub *hubClient) (changes.Hub, error) {
	out := changes.Hub{}
	var all v1alpha1.FleetMiniClusterList
	if err := hub.client.List(ctx, &all, client.InNamespace(hub.namespace)); err != nil {
		return nil, err
	}
	for i := range all.Items {
		out[changes.Key(parse.KindFleetMiniCluster, all.Items[i].Name)] = &all.Items[i]
	}
	var placements v1alpha1.PlacementList
	if err := hub.client.List(ctx, &placements, client.InNamespace(hub.namespace)); err != nil {
		return nil, err
	}
	for i := range placements.Items {
		out[changes.Key(parse.KindPlacement, placements.Items[i].Name)] = &placements.Items[i]
	}
	return out, nil
}

// readNamespace reads the namespace, nil where that is not allowed.
func readNamespace(ctx context.Context, hub *hubClient) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	err := hub.client.Get(ctx, client.ObjectKey{Name: hub.namespace}, namespace)
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, client.IgnoreNotFound(err)
	}
	return namespace, nil
}

// tell prints the report.
func (f *diffFlags) tell(ctx context.Context, c *comparison) error {
	report, err := c.report(ctx)
	if err != nil {
		return err
	}
	text, err := report.JSON()
	if err != nil {
		return err
	}
	switch f.output.format {
	case formatJSON:
		f.env.printf("%s", plainJSON(text))
	case formatYAML:
		body, err := yaml.JSONToYAML([]byte(text))
		if err != nil {
			return err
		}
		f.env.printf("%s", body)
	case formatMarkdown:
		f.env.printf("%s", report.Markdown())
	default:
		f.env.printf("%s", report.Text())
	}
	switch {
	case report.Failed:
		return quietExit(exitVerdictError)
	case report.Differs && f.of.exitCode:
		return quietExit(exitDifferent)
	}
	return nil
}

// given says whether somebody has said where the dashboard is.
func (d *dashboardFlags) given(env *environment) bool {
	return d.address != "" || env.getenv("MINIFLEET_SERVER") != ""
}

// needless are the flags that were set and mean nothing for a FleetMiniCluster.
func needless(cmd *cobra.Command) []string {
	return slices.DeleteFunc(slices.Clone(sourceOnly), func(name string) bool { return !cmd.Flags().Changed(name) })
}
