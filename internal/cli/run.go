package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/actions"
)

type runFlags struct {
	actFlags
	file string

	image, workingDir, command string
	size, tasks                int32
	environment, limits        map[string]string

	placement, selector string
	members             []string
	clusters            int32

	key     string
	shard   string
	detach  bool
	timeout time.Duration
}

func newRun(env *environment) *cobra.Command {
	f := runFlags{actFlags: newActFlags(env)}
	cmd := &cobra.Command{
		Use:   "run [NAME] (--image IMAGE | -f FILE) [-- COMMAND...]",
		Short: "Start a MiniCluster without Git, and follow it",
		Long: "Creates a FleetMiniCluster from flags, or from a file with one MiniCluster or FleetMiniCluster, and follows it until\n" +
			"it has ended, with the exit codes of wait. Without a name it gets one that begins as the image does. Without a\n" +
			"placement it runs on one member.\n\n" +
			"With --idempotency-key, the same command again does not start it a second time.",
		Example: "  minifleet run --image ghcr.io/example/lammps:1 --size 4 --tasks 16 -- lmp -in in.melt\n" +
			"  minifleet run -f lammps.yaml --placement south --detach\n" +
			"  minifleet run nightly --image busybox --command 'echo done' --dry-run -o yaml",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.addFlags(cmd)
	f.addAct(cmd)
	return cmd
}

func (f *runFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "filename", "f", "", "file with one MiniCluster or FleetMiniCluster; - for standard input")
	flags.StringVar(&f.image, "image", "", "image of the container that runs Flux")
	flags.StringVar(&f.command, "command", "", "what Flux runs; or give it after --")
	flags.StringVar(&f.workingDir, "working-dir", "", "directory that it runs in")
	flags.StringToStringVarP(&f.environment, "env", "e", nil, "environment variables, as NAME=VALUE")
	flags.StringToStringVar(&f.limits, "limits", nil, "resources of each pod, e.g. cpu=4,memory=8Gi")
	flags.Int32Var(&f.size, "size", 1, "number of pods")
	flags.Int32Var(&f.tasks, "tasks", 1, "number of tasks in all")
	flags.StringVar(&f.placement, "placement", "", "name of a Placement")
	flags.StringVarP(&f.selector, "selector", "l", "", "labels of the members that may be chosen, e.g. gpu=true")
	flags.StringSliceVar(&f.members, "member", nil, "members that may be chosen")
	flags.Int32Var(&f.clusters, "clusters", 1, "how many members run it; 0: all that match")
	flags.StringVar(&f.shard, "shard", "", "shard whose members run it, and whose Placement is named (docs/sharding.md)")
	flags.StringVar(&f.key, "idempotency-key", "", "identity of the request: the same one again starts nothing")
	flags.BoolVarP(&f.detach, "detach", "d", false, "do not follow it")
	flags.DurationVar(&f.timeout, "timeout", 0, "how long to follow it at most; 0: as long as it takes")
	_ = cmd.RegisterFlagCompletionFunc("member", f.completeMembers(-1)) // the flag is there
}

func (f *runFlags) run(cmd *cobra.Command, args []string) error {
	name, err := f.arguments(cmd, args)
	if err != nil {
		return err
	}
	if err := f.output.check(); err != nil {
		return err
	}
	object, err := f.object(cmd, name)
	if err != nil {
		return err
	}
	if err := v1alpha1.CheckShard(f.shard); err != nil {
		return invalid{fmt.Errorf("--shard: %w", err)}
	}
	if f.shard != "" {
		metav1.SetMetaDataLabel(&object.ObjectMeta, v1alpha1.LabelShard, f.shard)
	}
	err = f.hubFlags.run(cmd, func(ctx context.Context, hub *hubClient) error { return f.start(ctx, hub, object) })
	if f.detach || f.dryRun {
		return err
	}
	return verdictError(err)
}

// arguments are the name, and behind -- the command.
func (f *runFlags) arguments(cmd *cobra.Command, args []string) (name string, err error) {
	before := args
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		before = args[:dash]
		if f.command != "" {
			return "", invalid{errors.New("--command: the command is given after -- already")}
		}
		f.command = quoted(args[dash:])
	}
	if err := names(0, 1, "")(cmd, before); err != nil {
		return "", err
	}
	if len(before) > 0 {
		name = miniClusterName(before[0])
	}
	return name, nil
}

// quoted is a command line that a shell takes apart into these arguments again.
func quoted(arguments []string) string {
	out := make([]string, len(arguments))
	for i, word := range arguments {
		out[i] = word
		if word == "" || strings.ContainsFunc(word, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%", r)
		}) {
			out[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

// fromFlags are the flags that a file says itself.
var fromFlags = []string{"image", "command", "working-dir", "env", "limits", "size", "tasks"}

func (f *runFlags) object(cmd *cobra.Command, name string) (*v1alpha1.FleetMiniCluster, error) {
	if f.file == "" {
		if f.image == "" {
			return nil, invalid{errors.New("--image: name the image that runs, or a file with -f")}
		}
		object, err := f.fromFlags(name)
		if err != nil {
			return nil, err
		}
		return f.place(cmd, object)
	}
	for _, flag := range fromFlags {
		if cmd.Flags().Changed(flag) || flag == "command" && f.command != "" {
			return nil, invalid{fmt.Errorf("--%s goes not with -f: say it in the file", flag)}
		}
	}
	object, err := f.fromFile(cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	if name != "" {
		object.Name = name
	}
	return f.place(cmd, object)
}

func (f *runFlags) fromFlags(name string) (*v1alpha1.FleetMiniCluster, error) {
	limits, err := f.parseLimits()
	if err != nil {
		return nil, err
	}
	container := fluxv1alpha2.MiniClusterContainer{
		Image: f.image, Command: f.command, WorkingDir: f.workingDir, Environment: f.environment, RunFlux: true,
	}
	container.Resources.Limits = limits
	object := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if name == "" {
		object.GenerateName = nameOf(f.image)
	}
	object.Spec.MiniCluster = fluxv1alpha2.MiniClusterSpec{
		Size: f.size, Tasks: &f.tasks, Containers: []fluxv1alpha2.MiniClusterContainer{container},
	}
	return object, nil
}

func (f *runFlags) parseLimits() (corev1.ResourceList, error) {
	var out corev1.ResourceList
	for key, value := range f.limits {
		quantity, err := resource.ParseQuantity(value)
		if err != nil {
			return nil, invalid{fmt.Errorf("--limits: %s=%s: %w", key, value, err)}
		}
		if out == nil {
			out = corev1.ResourceList{}
		}
		out[corev1.ResourceName(key)] = quantity
	}
	return out, nil
}

// nameOf is the beginning of a name, made from an image: lammps- from ghcr.io/example/lammps:1.
func nameOf(image string) string {
	base, _, _ := strings.Cut(path.Base(image), "@")
	base, _, _ = strings.Cut(base, ":")
	base = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(base))
	base = strings.Trim(strings.TrimLeft(base, "0123456789-"), "-")
	const most = 40 // the API server, or the key, adds up to ten to at most 58
	if len(base) > most {
		base = strings.TrimRight(base[:most], "-")
	}
	if base == "" {
		base = "run"
	}
	return base + "-"
}

func (f *runFlags) fromFile(stdin io.Reader) (*v1alpha1.FleetMiniCluster, error) {
	var body []byte
	var err error
	if f.file == "-" {
		body, err = io.ReadAll(stdin)
	} else {
		body, err = os.ReadFile(f.file)
	}
	if err != nil {
		return nil, invalid{err}
	}
	result := parse.Tree([]gitsource.File{{Path: f.file, Data: body}}, parse.Options{AnyNamespace: true})
	if err := problemsError(result.Problems); err != nil {
		return nil, err
	}
	objects := slices.DeleteFunc(result.Objects, func(o parse.Object) bool { return o.Kind == parse.KindPlacement })
	if len(objects) != 1 {
		return nil, invalid{fmt.Errorf("%s holds %d MiniClusters and FleetMiniClusters: one can be started at a time", f.file, len(objects))}
	}
	if o := &objects[0]; o.FleetMiniCluster != nil {
		return o.FleetMiniCluster.DeepCopy(), nil
	}
	return fromMiniCluster(f.file, objects[0].MiniCluster)
}

// fromMiniCluster makes of upstream's MiniCluster what a GitSource would.
func fromMiniCluster(file string, m *fluxv1alpha2.MiniCluster) (*v1alpha1.FleetMiniCluster, error) {
	object := &v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, Labels: maps.Clone(m.Labels), Annotations: maps.Clone(m.Annotations)},
		Spec:       v1alpha1.FleetMiniClusterSpec{MiniCluster: m.Spec},
	}
	if errs := object.Spec.Set(m.Annotations, field.NewPath("metadata", "annotations")); len(errs) > 0 {
		return nil, invalid{fmt.Errorf("%s: MiniCluster/%s: %w", file, m.Name, errs.ToAggregate())}
	}
	if placement := m.Labels[v1alpha1.LabelPlacement]; placement != "" {
		object.Spec.PlacementRef = &v1alpha1.LocalReference{Name: placement}
	}
	return object, nil
}

// place says where it runs: as the flags say, else as the file says, else on one member.
func (f *runFlags) place(cmd *cobra.Command, object *v1alpha1.FleetMiniCluster) (*v1alpha1.FleetMiniCluster, error) {
	chosen := f.selector != "" || len(f.members) > 0 || cmd.Flags().Changed("clusters")
	has := object.Spec.Placement != nil || object.Spec.PlacementRef != nil
	switch {
	case f.clusters < 0:
		return nil, invalid{errors.New("--clusters must be 0 or more")}
	case f.placement != "" && chosen:
		return nil, invalid{errors.New("--placement goes not with --selector, --member and --clusters: it says these itself")}
	case f.placement != "":
		object.Spec.Placement, object.Spec.PlacementRef = nil, &v1alpha1.LocalReference{Name: f.placement}
		return object, nil
	case has && !chosen:
		return object, nil
	}
	placement := &v1alpha1.PlacementSpec{ClusterNames: f.members}
	if f.clusters > 0 {
		placement.NumberOfClusters = &f.clusters
	}
	if f.selector != "" {
		selector, err := metav1.ParseToLabelSelector(f.selector)
		if err != nil {
			return nil, invalid{fmt.Errorf("-l: %w", err)}
		}
		placement.ClusterSelector = *selector
	}
	object.Spec.Placement, object.Spec.PlacementRef = placement, nil
	return object, nil
}

func (f *runFlags) start(ctx context.Context, hub *hubClient, object *v1alpha1.FleetMiniCluster) error {
	if object.Namespace == "" || *f.config.Namespace != "" {
		object.Namespace = hub.namespace
	}
	hub.namespace = object.Namespace
	effect, err := actions.EffectStart(object)
	if err != nil {
		return err
	}
	f.announce("", effect)
	out, err := actions.Start(ctx, hub.client, object, f.key, f.options())
	if err != nil {
		return err
	}
	if err := f.finish(hub, out.Object, out.Note); err != nil || f.dryRun {
		return err
	}
	if f.output.format == "" && out.Changed {
		f.env.printf("%s/%s started\n", out.Object.Namespace, out.Object.Name)
	}
	if f.detach {
		return nil
	}
	return f.followRun(ctx, hub, out.Object.Name)
}

// followRun tells of each new state, until it has ended.
func (f *runFlags) followRun(ctx context.Context, hub *hubClient, name string) error {
	told := ""
	s := f.env.screen()
	following := ctx
	if f.timeout > 0 {
		var stop context.CancelFunc
		following, stop = context.WithTimeoutCause(ctx, f.timeout, errTimeout)
		defer stop()
	}
	var last *v1alpha1.FleetMiniCluster
	err := f.follow(following, hub, &v1alpha1.FleetMiniCluster{}, name, func(object client.Object) (bool, error) {
		item, ok := object.(*v1alpha1.FleetMiniCluster)
		if !ok {
			return false, nil
		}
		last = item
		sum := briefOf(item)
		if line := sum.state + sum.why; line != told && (sum.state != "" || item.Status.ObservedGeneration > 0) {
			told = line
			f.env.notef("%s  pods %s  %s", s.State(sum.state).Text, sum.pods, sum.why)
		}
		return ended(item) != "", nil
	})
	switch {
	case errors.Is(context.Cause(following), errTimeout):
		return exit{exitWaitTimeout, fmt.Errorf("FleetMiniCluster %s/%s: %w after %s; it goes on: %s wait %s", hub.namespace, name, errTimeout, f.timeout, f.env.program, name)}
	case ctx.Err() != nil:
		return fmt.Errorf("not followed any more; it goes on: to follow it, %s wait %s; to stop it, %s cancel %s", f.env.program, name, f.env.program, name)
	case err != nil:
		return err
	}
	return f.verdict(last)
}

func (f *runFlags) verdict(item *v1alpha1.FleetMiniCluster) error {
	if ended(item) == v1alpha1.StateSucceeded {
		return nil
	}
	for _, run := range item.Status.Runs {
		if run.Exit != nil && run.Exit.ExitCode != nil {
			f.env.notef("run %s on %s: exit code %s", run.ID, run.Cluster, strconv.Itoa(int(*run.Exit.ExitCode)))
		}
	}
	return quietExit(exitWaitFailed)
}
