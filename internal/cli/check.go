package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/internal/cli/screen"
	"github.com/minifleet/minifleet/internal/sanitize"
)

type checkFlags struct {
	hubFlags
	controllerNamespace string
}

func newCheck(env *environment) *cobra.Command {
	f := checkFlags{hubFlags: newHubFlags(env)}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that the hub is in order, and what you may do there",
		Long: "Checks that the hub has MiniFleet's kinds, that the admission policy is installed, that a controller is\n" +
			"active, that members are reachable, and what you may do in the namespace. What you may not\n" +
			"read is Unknown, and no failure.\n\n" +
			"The exit code is 0 when nothing is wrong, and 1 when something is.",
		Example: "  minifleet check -n hpc",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd, f.check) },
	}
	cmd.Flags().StringVar(&f.controllerNamespace, "controller-namespace", "minifleet-system", "namespace of the controller")
	f.add(cmd)
	return cmd
}

// finding of a check: OK, Failed, Unknown, or another word for a state.
type checked struct{ state, what, text string }

const (
	stateOK     = "OK"
	stateFailed = string(v1alpha1.StateFailed)
	// stateMissing is of what a hub does without.
	stateMissing = "Missing"
	stateNone    = string(v1alpha1.StateUnknown)
)

func (f *checkFlags) check(ctx context.Context, hub *hubClient) error {
	progress := f.env.progress()
	var all []checked
	for _, part := range []struct {
		what  string
		check func(context.Context, *hubClient) ([]checked, error)
	}{{"kinds", f.kinds}, {"admission policy", f.policy}, {"controller", f.controller}, {"members", f.members}, {"rights", f.rights}} {
		progress.Show("checking " + part.what)
		found, err := part.check(ctx, hub)
		progress.Clear()
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	s := f.env.screen()
	table := screen.NewTable("STATE", "WHAT", "WHY")
	table.Whole = true
	failed := 0
	for _, c := range all {
		table.Add(s.State(c.state), screen.Text(c.what), screen.Text(c.text))
		if c.state == stateFailed {
			failed++
		}
	}
	if err := table.Print(s); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%s failed", count(failed, "check"))
	}
	return nil
}

// unreadable is what is said of an object that could not be read; the error is one that ends the whole check.
func unreadable(err error, what, missing string) (checked, error) {
	switch {
	case apierrors.IsNotFound(err):
		return checked{stateFailed, what, missing}, nil
	case apierrors.IsForbidden(err):
		return checked{stateNone, what, "you may not read it"}, nil
	}
	return checked{}, err
}

// kinds are the resources that the hub has to know.
var kinds = []string{"fleetminiclusters", "gitsources", "memberclusters", "notifications", "placements"}

// kindOptional is one that a hub does without: those of before it do.
const kindOptional = "notifications"

func (f *checkFlags) kinds(ctx context.Context, hub *hubClient) ([]checked, error) {
	var out []checked
	for _, kind := range kinds {
		name := kind + "." + v1alpha1.GroupVersion.Group
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := hub.client.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			c, err := unreadable(err, "kind "+name, "is missing: install MiniFleet (kubectl apply -k config/default)")
			if err != nil {
				return nil, err
			}
			if kind == kindOptional && c.state == stateFailed {
				c = checked{stateMissing, c.what, "is not known to this hub, which sends no notifications: kubectl apply -k config/default installs it"}
			}
			out = append(out, c)
			continue
		}
		out = append(out, kindState(name, crd))
	}
	return out, nil
}

func kindState(name string, crd *apiextensionsv1.CustomResourceDefinition) checked {
	what := "kind " + name
	served := slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == v1alpha1.GroupVersion.Version && v.Served
	})
	if !served {
		return checked{stateFailed, what, "is not served as " + v1alpha1.GroupVersion.Version + ": this program and the hub differ in version"}
	}
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
			return checked{stateOK, what, "served as " + v1alpha1.GroupVersion.Version}
		}
	}
	return checked{stateFailed, what, "is not established: see kubectl describe crd " + name}
}

// policy is the one that says who may write spec.allow of GitSources. OLM installs none.
func (f *checkFlags) policy(ctx context.Context, hub *hubClient) ([]checked, error) {
	const what = "admission policy"
	found, err := controllers.ExamineAdmissionPolicy(ctx, hub.client)
	switch {
	case err != nil:
		return nil, err
	case found.Unreadable:
		return []checked{{stateNone, what, "you may not read it"}}, nil
	case found.Problem != "":
		return []checked{{stateFailed, what, found.Problem}}, nil
	}
	return []checked{{stateOK, what, "says who may write spec.allow of GitSources"}}, nil
}

// leaseTolerance is how far the clocks of this machine and of the hub may differ.
const leaseTolerance = 30 * time.Second

// controller says of each shard that has members whether a controller is active, and of that of no shard.
func (f *checkFlags) controller(ctx context.Context, hub *hubClient) ([]checked, error) {
	used := map[string]bool{}
	var members v1alpha1.MemberClusterList
	if err := hub.client.List(ctx, &members); err != nil && !apierrors.IsForbidden(err) && !meta.IsNoMatchError(err) {
		return nil, err
	}
	for i := range members.Items {
		used[members.Items[i].Labels[v1alpha1.LabelShard]] = true
	}
	if len(used) == 0 {
		used[""] = true
	}
	var out []checked
	for _, shard := range slices.Sorted(maps.Keys(used)) {
		c, err := f.controllerOf(ctx, hub, shard)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// controllerOf says whether the controller of a shard is active.
func (f *checkFlags) controllerOf(ctx context.Context, hub *hubClient, shard string) (checked, error) {
	what, missing, lease := "controller", "", &coordinationv1.Lease{}
	if shard != "" {
		what, missing = "controller of shard "+sanitize.Text(shard, sanitize.MaxNote), " with --shard="+sanitize.Text(shard, sanitize.MaxNote)
	}
	key := client.ObjectKey{Namespace: f.controllerNamespace, Name: v1alpha1.ControllerLease(shard)}
	if err := hub.client.Get(ctx, key, lease); err != nil {
		return unreadable(err, what, "has never been active in namespace "+f.controllerNamespace+": is it deployed there"+missing+" (--controller-namespace)?")
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.RenewTime == nil {
		return checked{stateFailed, what, "none is active: see kubectl -n " + f.controllerNamespace + " get pods"}, nil
	}
	holder, silent := sanitize.Text(*lease.Spec.HolderIdentity, sanitize.MaxNote), f.env.now().Sub(lease.Spec.RenewTime.Time)
	most := leaseTolerance
	if lease.Spec.LeaseDurationSeconds != nil {
		most += time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	}
	if silent > most {
		return checked{stateFailed, what, fmt.Sprintf("%s was active last %s ago: see kubectl -n %s get pods", holder, age(f.env.now(), lease.Spec.RenewTime.Time), f.controllerNamespace)}, nil
	}
	return checked{stateOK, what, holder + " is active"}, nil
}

func (f *checkFlags) members(ctx context.Context, hub *hubClient) ([]checked, error) {
	var list v1alpha1.MemberClusterList
	if err := hub.client.List(ctx, &list); err != nil {
		c, err := unreadable(err, "members", "")
		return []checked{c}, err
	}
	if len(list.Items) == 0 {
		return []checked{{stateFailed, "members", "there are none, so that nothing runs: register a cluster"}}, nil
	}
	var out []checked
	for i := range list.Items {
		out = append(out, f.member(&list.Items[i]))
	}
	return out, nil
}

func (f *checkFlags) member(m *v1alpha1.MemberCluster) checked {
	what := "member " + m.Name
	state, message := ready(m.Status.Conditions)
	if heard := m.Status.LastHeardTime; heard != nil {
		message = "last heard of " + age(f.env.now(), heard.Time) + " ago; " + message
	}
	if from := credentialsOf(m); from != "" {
		message += " (credentials: " + from + ")"
	}
	draining, _ := m.Draining()
	switch {
	case state == "NotReady" || state == stateNone && m.Status.LastHeardTime != nil:
		return checked{stateFailed, what, message}
	case state == stateNone:
		return checked{stateNone, what, message}
	case draining != "":
		return checked{"Drained", what, draining}
	case m.Closed() != "":
		return checked{"Cordoned", what, m.Closed()}
	}
	return checked{stateOK, what, message}
}

// credentialsOf says where the credentials for a member come from.
func credentialsOf(m *v1alpha1.MemberCluster) string {
	switch {
	case m.Spec.ClusterProfileRef.Name != "":
		return "ClusterProfile " + m.Spec.ClusterProfileRef.Name
	case m.Spec.KubeconfigSecretRef.Name != "":
		return "Secret " + m.Spec.KubeconfigSecretRef.Name
	}
	return ""
}

// right is something that a person may want to do.
type right struct{ verb, resource, subresource, what string }

var rights = []right{
	{"list", "fleetminiclusters", "", "see MiniClusters"},
	{"get", "fleetminiclusters", "logs", "read logs"},
	{"create", "fleetminiclusters", "", "start runs"},
	{"patch", "fleetminiclusters", "", "run again, cancel and suspend"},
	{"patch", "gitsources", "", "have Git read, and approve"},
	{"list", "memberclusters", "", "see members"},
	{"patch", "memberclusters", "", "drain members"},
}

// rights says what the person may do. Less than all is no failure.
func (f *checkFlags) rights(ctx context.Context, hub *hubClient) ([]checked, error) {
	var may, mayNot []string
	for _, r := range rights {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: hub.namespace, Verb: r.verb, Group: v1alpha1.GroupVersion.Group, Resource: r.resource, Subresource: r.subresource,
			},
		}}
		if err := hub.client.Create(ctx, review); err != nil {
			if apierrors.IsForbidden(err) {
				return []checked{{stateNone, "rights", "the hub does not tell you"}}, nil
			}
			return nil, err
		}
		if review.Status.Allowed {
			may = append(may, r.what)
		} else {
			mayNot = append(mayNot, fmt.Sprintf("%s (%s %s)", r.what, r.verb, strings.TrimSuffix(r.resource+"/"+r.subresource, "/")))
		}
	}
	if len(may) == 0 {
		return []checked{{stateFailed, "rights", "you may do nothing in namespace " + hub.namespace + ": ask whoever administers the hub"}}, nil
	}
	out := []checked{{stateOK, "rights", "in namespace " + hub.namespace + " you may " + strings.Join(may, ", ")}}
	if len(mayNot) > 0 {
		out = append(out, checked{"Denied", "rights", "you may not " + strings.Join(mayNot, ", ")})
	}
	return out, nil
}
