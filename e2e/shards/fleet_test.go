package shards

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/e2e/fleettest"
	"github.com/minifleet/minifleet/hack/lab"
)

const (
	managerNamespace = fleettest.ManagerNamespace
	hubName          = "hub"
	team             = "team"
)

var check, await = fleettest.Check, fleettest.Await

// memberOf is the member of each shard.
var memberOf = map[string]string{"east": "alpine", "west": "basalt"}

// fleet is a hub with two shards, and their members.
type fleet struct{ *fleettest.Fleet }

func startFleet(t *testing.T) *fleet {
	t.Helper()
	specs := []lab.ClusterSpec{{Name: hubName, Controllers: true, AuditLevel: "Metadata"}}
	for _, name := range memberOf {
		specs = append(specs, fleettest.Member(name))
	}
	f := &fleet{fleettest.Start(t, specs)}
	for _, c := range f.Lab.Clusters() {
		if !c.Owned() {
			t.Skip("NOT TESTED with clusters that are not the lab's: their audit logs cannot be read")
		}
	}
	check(t, f.Lab.Cluster(hubName).ApplyCRDs(t.Context(), filepath.Join(f.Root, "config", "crd", "bases")))
	return f
}

// start starts the controller of a shard, which goes on when the part that has started it has ended.
func (f *fleet) start(shard string) {
	f.T.Helper()
	f.StartController(f.T, shard, hubName, "--shard", shard)
}

func (f *fleet) hub() client.Client { return f.Clients[hubName] }

func labelled(shard string) map[string]string { return map[string]string{v1alpha1.LabelShard: shard} }

// found makes what both shards need: namespaces, members, and of each shard a Placement and a GitSource of its name.
func (f *fleet) found(t *testing.T) {
	t.Helper()
	for _, name := range []string{managerNamespace, team} {
		check(t, f.hub().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	for shard, member := range memberOf {
		check(t, f.hub().Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: member},
			Data:       map[string][]byte{v1alpha1.KubeconfigKey: f.Lab.Cluster(member).Kubeconfig()},
		}))
		check(t, f.hub().Create(t.Context(), memberCluster(member, member, shard)))
		check(t, f.hub().Create(t.Context(), placement(shard)))
		f.source(t, shard)
	}
}

func memberCluster(name, secret, shard string) *v1alpha1.MemberCluster {
	return &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelled(shard)},
		Spec:       v1alpha1.MemberClusterSpec{Namespaces: v1alpha1.AllNamespaces(), KubeconfigSecretRef: v1alpha1.LocalReference{Name: secret}},
	}
}

func placement(shard string) *v1alpha1.Placement {
	return &v1alpha1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: shard, Labels: labelled(shard)},
		Spec:       v1alpha1.PlacementSpec{NumberOfClusters: ptr.To[int32](1)},
	}
}

func (f *fleet) clone(shard string) string { return filepath.Join(f.Dir, "clones", shard) }

func (f *fleet) source(t *testing.T, shard string) {
	t.Helper()
	check(t, f.Git.CreateRepo(shard))
	f.gitDo(t, "", "clone", "-q", f.Git.URL(shard), f.clone(shard))
	check(t, f.hub().Create(t.Context(), &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: shard, Labels: labelled(shard)},
		Spec: v1alpha1.GitSourceSpec{
			URL: f.Git.URL(shard), Interval: metav1.Duration{Duration: time.Second}, Timeout: metav1.Duration{Duration: 30 * time.Second},
			DefaultPlacement: &v1alpha1.LocalReference{Name: shard},
		},
	}))
}

// What pods are asked for.
var (
	held  = map[string]string{lab.AskHold: "true"}
	brief = map[string]string{lab.AskSeconds: "0"}
)

// push commits MiniClusters to the repository of a shard, by name, each with what its pods are asked for.
func (f *fleet) push(t *testing.T, shard string, files map[string]map[string]string, labels string) {
	t.Helper()
	for name, asks := range files {
		check(t, os.WriteFile(filepath.Join(f.clone(shard), name+".yaml"), []byte(manifest(name, asks, labels)), 0o600))
	}
	f.commit(t, shard)
}

func (f *fleet) commit(t *testing.T, shard string) {
	t.Helper()
	f.gitDo(t, f.clone(shard), "add", "-A")
	f.gitDo(t, f.clone(shard), "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "-q", "-m", "more")
	f.gitDo(t, f.clone(shard), "push", "-q", "origin", "HEAD")
}

func manifest(name string, asks map[string]string, labels string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {name: %s, labels: {%s}}\nspec:\n  size: 1\n  pod:\n    annotations: {", name, labels)
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

// label changes the label of an object, as a person does.
func (f *fleet) label(t *testing.T, obj client.Object, name, shard string) {
	t.Helper()
	check(t, f.tryLabel(t, obj, name, shard))
}

func (f *fleet) tryLabel(t *testing.T, obj client.Object, name, shard string) error {
	t.Helper()
	obj.SetName(name)
	if _, ok := obj.(*v1alpha1.MemberCluster); !ok {
		obj.SetNamespace(team)
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, v1alpha1.LabelShard, shard)
	return f.hub().Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// awaitStates waits until FleetMiniClusters are in these states.
func (f *fleet) awaitStates(t *testing.T, want map[string]v1alpha1.State) {
	t.Helper()
	await(t, "states", func() error {
		var wrong []string
		for name, state := range want {
			fmc, err := f.get(t, name)
			if err != nil {
				return err
			}
			if fmc.Status.State != state {
				wrong = append(wrong, fmt.Sprintf("%s is %q and not %s (%s)", name, fmc.Status.State, state, messageOf(fmc, v1alpha1.ConditionReady)))
			}
		}
		if len(wrong) > 0 {
			return errors.New(strings.Join(wrong, ", "))
		}
		return nil
	})
}

func (f *fleet) get(t *testing.T, name string) (*v1alpha1.FleetMiniCluster, error) {
	t.Helper()
	var fmc v1alpha1.FleetMiniCluster
	err := f.hub().Get(t.Context(), client.ObjectKey{Namespace: team, Name: name}, &fmc)
	return &fmc, err
}

func messageOf(obj interface{ GetConditions() []metav1.Condition }, kind string) string {
	if c := meta.FindStatusCondition(obj.GetConditions(), kind); c != nil {
		return c.Reason + ": " + c.Message
	}
	return ""
}

// awaitMember waits until a MemberCluster has this reason.
func (f *fleet) awaitMember(t *testing.T, name, reason string) {
	t.Helper()
	await(t, "MemberCluster "+name, func() error {
		var m v1alpha1.MemberCluster
		if err := f.hub().Get(t.Context(), client.ObjectKey{Name: name}, &m); err != nil {
			return err
		}
		if message := messageOf(&m, v1alpha1.ConditionReady); !strings.HasPrefix(message, reason+":") {
			return fmt.Errorf("it is %q", message)
		}
		return nil
	})
}

// jobs are the UIDs of the Jobs that have a name, by member.
func (f *fleet) jobs(t *testing.T, name string) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	for _, member := range memberOf {
		var job batchv1.Job
		err := f.Clients[member].Get(t.Context(), client.ObjectKey{Namespace: team, Name: name}, &job)
		if apierrors.IsNotFound(err) {
			continue
		}
		check(t, err)
		out[member] = job.UID
	}
	return out
}

// audit is what was asked of a cluster.
func (f *fleet) audit(t *testing.T, cluster string) []lab.AuditEvent {
	t.Helper()
	events, err := lab.ReadAudit(f.Lab.Cluster(cluster).AuditLog())
	check(t, err)
	return events
}

// asked is how many requests the controller of a shard has sent to a cluster.
func (f *fleet) asked(t *testing.T, cluster, shard string) int {
	t.Helper()
	n := 0
	for _, e := range f.audit(t, cluster) {
		if e.UserAgent == "minifleet/"+shard {
			n++
		}
	}
	return n
}

// created is how many Jobs of a name were created on all members, and released or not.
func (f *fleet) created(t *testing.T, name string) int {
	t.Helper()
	n := 0
	for _, member := range memberOf {
		for _, e := range f.audit(t, member) {
			if e.Verb == "create" && e.Object != nil && e.Object.Resource == "jobs" && e.Object.Name == name && e.Response.Code < 300 {
				n++
			}
		}
	}
	return n
}
