package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// world is a namespace, a repository and a GitSource of one test.
type world struct {
	name string // of the namespace, the repository and the GitSource
	dir  string // of a clone of the repository
}

var worlds int

// newWorld makes a world with two Placements: gpu-one (one member with gpu=true) and south (all members
// with site=south). What is pushed is applied within a second or so.
func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	worlds++
	w := &world{name: fmt.Sprintf("world-%d", worlds)}
	Expect(hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})).To(Succeed())
	Expect(hub.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "minifleet-secrets"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "minifleet-secret-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: managerNamespace, Name: "minifleet-controller-manager"}},
	})).To(Succeed())
	w.place(ctx, "gpu-one", map[string]string{"gpu": "true"}, ptr.To[int32](1))
	w.place(ctx, "south", map[string]string{"site": "south"}, nil)
	w.place(ctx, "north", map[string]string{"site": "north"}, nil)

	Expect(git.CreateRepo(w.name)).To(Succeed())
	w.dir = filepath.Join(workDir, "clones", w.name)
	run("", "git", "clone", "-q", git.URL(w.name), w.dir)
	w.commit("start", map[string]string{"README.md": "fleet\n"})
	Expect(hub.Create(ctx, &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: w.name},
		Spec: v1alpha1.GitSourceSpec{
			URL: git.URL(w.name), Interval: metav1.Duration{Duration: second}, Timeout: metav1.Duration{Duration: 10 * second},
			DefaultPlacement: &v1alpha1.LocalReference{Name: "gpu-one"},
		},
	})).To(Succeed())
	return w
}

func (w *world) place(ctx context.Context, name string, labels map[string]string, number *int32) {
	GinkgoHelper()
	Expect(hub.Create(ctx, &v1alpha1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name},
		Spec:       v1alpha1.PlacementSpec{ClusterSelector: metav1.LabelSelector{MatchLabels: labels}, NumberOfClusters: number},
	})).To(Succeed())
}

// commit writes files, or removes those that are given as empty, and pushes.
func (w *world) commit(message string, files map[string]string) {
	GinkgoHelper()
	for path, content := range files {
		full := filepath.Join(w.dir, path)
		if content == "" {
			Expect(os.Remove(full)).To(Succeed())
			continue
		}
		Expect(os.MkdirAll(filepath.Dir(full), 0o755)).To(Succeed())
		Expect(os.WriteFile(full, []byte(content), 0o600)).To(Succeed())
	}
	run(w.dir, "git", "add", "-A")
	run(w.dir, "git", "-c", "user.name=e2e", "-c", "user.email=e2e@example.org", "commit", "-q", "--allow-empty", "-m", message)
	run(w.dir, "git", "push", "-q", "origin", "HEAD")
}

// run executes a command, which must succeed, and returns what it printed.
func run(dir, name string, args ...string) string {
	GinkgoHelper()
	out, err := try(dir, name, args...)
	Expect(err).NotTo(HaveOccurred(), "%s %s: %s", name, strings.Join(args, " "), out)
	return out
}

func try(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// kubectl talks to the hub as a user does.
func (w *world) kubectl(args ...string) string {
	GinkgoHelper()
	path, args := w.kubectlCommand(args)
	return run("", path, args...)
}

// kubectlFails expects kubectl to fail and returns what it printed.
func (w *world) kubectlFails(args ...string) string {
	GinkgoHelper()
	path, args := w.kubectlCommand(args)
	out, err := try("", path, args...)
	Expect(err).To(HaveOccurred())
	return out
}

func (w *world) kubectlCommand(args []string) (string, []string) {
	GinkgoHelper()
	path, before, err := lab.Binary("kubectl")
	Expect(err).NotTo(HaveOccurred())
	return path, slices.Concat(before, []string{"--kubeconfig", fleet.Cluster("hub").KubeconfigPath(), "-n", w.name}, args)
}

func (w *world) fmc(ctx context.Context, name string) *v1alpha1.FleetMiniCluster {
	var f v1alpha1.FleetMiniCluster
	if err := hub.Get(ctx, client.ObjectKey{Namespace: w.name, Name: name}, &f); err != nil {
		return &v1alpha1.FleetMiniCluster{}
	}
	return &f
}

// line is READY SYNC HEALTH CLUSTERS PODS, as `kubectl get fmc` shows it.
func (w *world) line(ctx context.Context, name string) string {
	f := w.fmc(ctx, name)
	summary := v1alpha1.Summary{}
	if f.Status.Summary != nil {
		summary = *f.Status.Summary
	}
	return strings.Join([]string{condition(f.Status.Conditions, v1alpha1.ConditionReady), string(f.Status.Sync),
		string(f.Status.Health), summary.Clusters, summary.Pods}, " ")
}

// ready is STATUS REASON of the Ready condition.
func (w *world) ready(ctx context.Context, name string) string {
	f := w.fmc(ctx, name)
	c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func condition(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return "-"
	}
	return string(c.Status)
}

func (w *world) sourceReady(ctx context.Context) *metav1.Condition {
	var s v1alpha1.GitSource
	if err := hub.Get(ctx, client.ObjectKey{Namespace: w.name, Name: w.name}, &s); err != nil {
		return &metav1.Condition{}
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c
	}
	return &metav1.Condition{}
}

func memberCondition(ctx context.Context, name string) string {
	var m v1alpha1.MemberCluster
	if err := hub.Get(ctx, client.ObjectKey{Name: name}, &m); err != nil {
		return err.Error()
	}
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// job returns a Job on a member, or nil.
func (w *world) job(ctx context.Context, member, name string) *batchv1.Job {
	var j batchv1.Job
	if err := members[member].Get(ctx, client.ObjectKey{Namespace: w.name, Name: name}, &j); err != nil {
		return nil
	}
	return &j
}

// where lists the members that have a Job of this name.
func (w *world) where(ctx context.Context, name string) []string {
	var out []string
	for member := range memberLabels {
		if w.job(ctx, member, name) != nil {
			out = append(out, member)
		}
	}
	slices.Sort(out)
	return out
}

// events are the reasons of a hub object's events, each once.
func (w *world) events(ctx context.Context, name string) []string {
	var list eventsv1.EventList
	if err := hub.List(ctx, &list, client.InNamespace(w.name)); err != nil {
		return nil
	}
	var out []string
	for _, e := range list.Items {
		if e.Regarding.Name == name && !slices.Contains(out, e.Reason) {
			out = append(out, e.Reason)
		}
	}
	return out
}

// jobsMade is how often a Job of this name, or of any where it is empty, was created in the world's
// namespace on any member, from the members' audit logs.
func (w *world) jobsMade(name string) int {
	GinkgoHelper()
	n := 0
	for member := range memberLabels {
		for _, e := range requests(member) {
			if e.Verb == "create" && e.Object != nil && e.Object.Resource == "jobs" && e.Object.Namespace == w.name && e.Response.Code == 201 {
				if name == "" || e.Object.Name == name {
					n++
				}
			}
		}
	}
	return n
}

// jobsDeleted is how often MiniFleet asked a member to delete a Job in the world's namespace.
func (w *world) jobsDeleted() int {
	GinkgoHelper()
	n := 0
	for member := range memberLabels {
		for _, e := range requests(member) {
			if e.UserAgent == "minifleet" && e.Verb == "delete" && e.Object != nil && e.Object.Resource == "jobs" && e.Object.Namespace == w.name {
				n++
			}
		}
	}
	return n
}

// requests are the answered requests in a cluster's audit log.
func requests(cluster string) []lab.AuditEvent {
	GinkgoHelper()
	events, err := audits[cluster].Read()
	Expect(err).NotTo(HaveOccurred())
	return events
}

// ownWrites are MiniFleet's writes to a cluster.
func ownWrites(cluster string) []string {
	GinkgoHelper()
	var out []string
	for _, e := range requests(cluster) {
		if e.UserAgent == "minifleet" && e.Write() {
			out = append(out, e.Verb+" "+e.RequestURI)
		}
	}
	return out
}
