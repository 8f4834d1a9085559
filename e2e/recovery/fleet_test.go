package recovery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/e2e/fleettest"
	"github.com/minifleet/minifleet/hack/lab"
)

const (
	managerNamespace = fleettest.ManagerNamespace
	oldHub, newHub   = "hub", "other"
)

var check, await = fleettest.Check, fleettest.Await

var memberNames = []string{"alpine", "basalt"}

// fleet is two hubs, of which one leads at a time, and their members.
type fleet struct {
	*fleettest.Fleet
	audits map[string]*lab.AuditReader // of members
}

// startFleet starts all clusters. MiniFleet is started by tests.
func startFleet(t *testing.T) *fleet {
	t.Helper()
	specs := []lab.ClusterSpec{{Name: oldHub, Controllers: true}, {Name: newHub, Controllers: true}}
	for _, name := range memberNames {
		specs = append(specs, fleettest.Member(name))
	}
	f := &fleet{Fleet: fleettest.Start(t, specs), audits: map[string]*lab.AuditReader{}}
	for _, name := range memberNames {
		f.audits[name] = &lab.AuditReader{Path: f.Lab.Cluster(name).AuditLog()}
	}
	for _, hub := range []string{oldHub, newHub} {
		check(t, f.Lab.Cluster(hub).ApplyCRDs(t.Context(), filepath.Join(f.Root, "config", "crd", "bases")))
		check(t, f.Lab.Cluster(hub).ApplyPolicies(t.Context(), filepath.Join(f.Root, "config", "policy")))
	}
	return f
}

// start starts the controller of a hub; it is alone there, so that no lease of a former one has to end first.
func (f *fleet) start(t *testing.T, hub string, args ...string) *lab.Process {
	t.Helper()
	if !slices.Contains(args, "--leader-elect") {
		args = append(args, "--leader-elect=false")
	}
	return f.StartController(t, hub, hub, args...)
}

func (f *fleet) kill(t *testing.T, hub string) {
	t.Helper()
	if p := f.Controllers[hub]; p != nil {
		check(t, p.Kill())
	}
}

// cli runs the command line as an administrator of a hub.
func (f *fleet) cli(hub string, args ...string) (code int, out string) {
	cmd := exec.Command(f.Binary(), append(args, "--kubeconfig", f.Lab.Cluster(hub).KubeconfigPath())...)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), b.String()
	}
	if err != nil {
		return -1, err.Error()
	}
	return 0, b.String()
}

func (f *fleet) mustCLI(t *testing.T, hub string, args ...string) string {
	t.Helper()
	code, out := f.cli(hub, args...)
	if code != 0 {
		t.Fatalf("minifleet %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// wipe has a hub have nothing of MiniFleet but its kinds.
func (f *fleet) wipe(t *testing.T, hub string) {
	t.Helper()
	f.kill(t, hub)
	c, ctx := f.Clients[hub], t.Context()
	for _, list := range []client.ObjectList{&v1alpha1.GitSourceList{}, &v1alpha1.FleetMiniClusterList{}, &v1alpha1.PlacementList{}, &v1alpha1.MemberClusterList{}} {
		check(t, c.List(ctx, list))
		objects, err := meta.ExtractList(list)
		check(t, err)
		for _, o := range objects {
			obj := o.(client.Object)
			if len(obj.GetFinalizers()) > 0 {
				check(t, client.IgnoreNotFound(c.Patch(ctx, obj, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))))
			}
			check(t, client.IgnoreNotFound(c.Delete(ctx, obj)))
		}
	}
	var namespaces corev1.NamespaceList
	check(t, c.List(ctx, &namespaces))
	for i := range namespaces.Items {
		if ns := &namespaces.Items[i]; ns.Name == managerNamespace || strings.HasPrefix(ns.Name, "team-") {
			check(t, client.IgnoreNotFound(c.Delete(ctx, ns)))
			await(t, "namespace "+ns.Name+" of "+hub+" is deleted", func() error {
				if err := c.Get(ctx, client.ObjectKeyFromObject(ns), &corev1.Namespace{}); !apierrors.IsNotFound(err) {
					return errors.Join(err, errors.New("it is there"))
				}
				return nil
			})
		}
	}
}

// clear removes what a team has on members.
func (f *fleet) clear(t *testing.T, namespace string) {
	t.Helper()
	for _, name := range memberNames {
		c := f.Clients[name]
		check(t, client.IgnoreNotFound(c.Delete(context.WithoutCancel(t.Context()), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})))
	}
}

// found makes a new fleet on a hub: its namespaces, members and a placement. The namespace says something to MiniFleet.
func (f *fleet) found(t *testing.T, hub, namespace string) {
	t.Helper()
	c, ctx := f.Clients[hub], t.Context()
	check(t, c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}}))
	check(t, c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"team": "md"}, Annotations: map[string]string{v1alpha1.AnnotationMaxPriority: "7"},
	}}))
	for _, name := range memberNames {
		check(t, c.Create(ctx, f.kubeconfigOf(name)))
		check(t, c.Create(ctx, &v1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"site": "here"}},
			Spec: v1alpha1.MemberClusterSpec{
				Namespaces:          &v1alpha1.NamespaceAccess{From: v1alpha1.NamespacesFromSelector, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "md"}}},
				KubeconfigSecretRef: v1alpha1.LocalReference{Name: name},
			},
		}))
	}
	check(t, c.Create(ctx, &v1alpha1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "any"},
		Spec:       v1alpha1.PlacementSpec{ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"site": "here"}}, NumberOfClusters: ptr.To[int32](1)},
	}))
}

func (f *fleet) kubeconfigOf(member string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: member},
		Data:       map[string][]byte{v1alpha1.KubeconfigKey: f.Lab.Cluster(member).Kubeconfig()},
	}
}

// source makes a repository and a GitSource that reads it.
func (f *fleet) source(t *testing.T, hub, namespace string) {
	t.Helper()
	check(t, f.Git.CreateRepo(namespace))
	clone := filepath.Join(f.Dir, "clones", namespace)
	f.gitDo(t, "", "clone", "-q", f.Git.URL(namespace), clone)
	check(t, f.Clients[hub].Create(t.Context(), &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleet"},
		Spec: v1alpha1.GitSourceSpec{
			URL: f.Git.URL(namespace), Interval: metav1.Duration{Duration: time.Second}, Timeout: metav1.Duration{Duration: 30 * time.Second},
			DefaultPlacement: &v1alpha1.LocalReference{Name: "any"},
		},
	}))
}

// push commits files, each a MiniCluster whose pods are asked for something.
func (f *fleet) push(t *testing.T, namespace string, files map[string]map[string]string) {
	t.Helper()
	clone := filepath.Join(f.Dir, "clones", namespace)
	for name, asks := range files {
		check(t, os.WriteFile(filepath.Join(clone, name+".yaml"), []byte(manifest(name, asks)), 0o600))
	}
	f.gitDo(t, clone, "add", "-A")
	f.gitDo(t, clone, "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "-q", "-m", "more")
	f.gitDo(t, clone, "push", "-q", "origin", "HEAD")
}

func manifest(name string, asks map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {name: %s}\nspec:\n  size: 1\n  pod:\n    annotations: {", name)
	for key, value := range asks {
		fmt.Fprintf(&b, "%s: %q, ", key, value)
	}
	b.WriteString("}\n  containers:\n    - image: example.org/app\n      command: \"true\"\n      resources: {requests: {cpu: 2}}\n")
	return b.String()
}

func (f *fleet) gitDo(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v %s", args, err, out)
	}
}

// states are those of all FleetMiniClusters of a namespace, by name.
func (f *fleet) states(ctx context.Context, hub, namespace string) (map[string]v1alpha1.State, error) {
	var list v1alpha1.FleetMiniClusterList
	if err := f.Clients[hub].List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	out := map[string]v1alpha1.State{}
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].Status.State
	}
	return out, nil
}

// awaitStates waits until a hub has exactly these FleetMiniClusters, in these states.
func (f *fleet) awaitStates(t *testing.T, hub, namespace string, want map[string]v1alpha1.State) {
	t.Helper()
	await(t, "states on "+hub, func() error {
		have, err := f.states(t.Context(), hub, namespace)
		if err != nil {
			return err
		}
		var wrong []string
		for name, state := range want {
			if have[name] != state {
				wrong = append(wrong, fmt.Sprintf("%s is %q and not %s", name, have[name], state))
			}
		}
		for name := range have {
			if _, known := want[name]; !known {
				wrong = append(wrong, name+" is there")
			}
		}
		slices.Sort(wrong)
		if len(wrong) > 0 {
			return fmt.Errorf("%d of %d: %s", len(wrong), len(want), strings.Join(wrong[:min(len(wrong), 6)], ", "))
		}
		return nil
	})
}

// awaitMembers waits until a hub says this of all its members.
func (f *fleet) awaitMembers(t *testing.T, hub, reason string) {
	t.Helper()
	await(t, "members of "+hub+" are "+reason, func() error {
		var list v1alpha1.MemberClusterList
		if err := f.Clients[hub].List(t.Context(), &list); err != nil {
			return err
		}
		for i := range list.Items {
			c := meta.FindStatusCondition(list.Items[i].Status.Conditions, v1alpha1.ConditionReady)
			if c == nil || c.Reason != reason {
				return fmt.Errorf("%s: %+v", list.Items[i].Name, c)
			}
		}
		return nil
	})
}

// ran are the UIDs of the Jobs that have made pods on members, by the name of the Job: what has really run.
func (f *fleet) ran(t *testing.T, namespace string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, member := range memberNames {
		events, err := f.audits[member].Read()
		check(t, err)
		for i := range events {
			e := &events[i]
			if e.Verb != "create" || e.Object == nil || e.Object.Resource != "pods" || e.Object.Subresource != "" || e.Object.Namespace != namespace || e.Response.Code != 201 {
				continue
			}
			var pod corev1.Pod
			check(t, json.Unmarshal(e.ResponseObject, &pod))
			job := metav1.GetControllerOf(&pod)
			if job == nil {
				t.Fatalf("a pod without a Job on %s: %s", member, pod.Name)
			}
			if uids := out[job.Name]; !slices.Contains(uids, string(job.UID)) {
				out[job.Name] = append(uids, string(job.UID))
			}
		}
	}
	return out
}

// onlyOnce fails where anything ran on more than one Job.
func onlyOnce(t *testing.T, ran map[string][]string, names ...string) {
	t.Helper()
	for name, uids := range ran {
		if len(uids) > 1 {
			t.Errorf("%s ran %d times: Jobs %v", name, len(uids), uids)
		}
	}
	for _, name := range names {
		if len(ran[name]) == 0 {
			t.Errorf("%s never ran", name)
		}
	}
}

// identity is the data of the ConfigMap of a hub.
func (f *fleet) identity(t *testing.T, hub string) map[string]string {
	t.Helper()
	var cm corev1.ConfigMap
	check(t, f.Clients[hub].Get(t.Context(), client.ObjectKey{Namespace: managerNamespace, Name: v1alpha1.FleetConfigMap}, &cm))
	return cm.Data
}
