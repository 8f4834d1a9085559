package helmtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/chart"
	"github.com/minifleet/minifleet/hack/lab"
	"github.com/minifleet/minifleet/hack/lab/podrun"
	"github.com/minifleet/minifleet/internal/scripttest"
)

// patience is more than anything here takes on a busy machine.
const patience = 2 * time.Minute

// site is a hub with a release of the chart, and a member.
type site struct {
	t           *testing.T
	helm        helm
	hub, member *lab.Cluster
	// onHub and onMember have the rights of administrators.
	onHub, onMember client.Client
	// namespace is the release's.
	namespace string
	// work is the namespace of the runs, on both.
	work   string
	rootfs string
	// older and current are packages.
	older, current string
	pod            *podrun.Pod
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func clientOf(t *testing.T, c *lab.Cluster) client.Client {
	t.Helper()
	config, err := c.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.UserAgent = -1, "chart-test"
	out, err := client.New(config, client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *site) must(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

// await asks until the answer is empty, which says what is missing.
func (s *site) await(what string, missing func(context.Context) string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last := ""
	for {
		answer := missing(ctx)
		if answer == "" {
			return
		}
		if ctx.Err() == nil {
			last = answer
		}
		var exited <-chan struct{}
		if s.pod != nil {
			exited = s.pod.Exited()
		}
		select {
		case <-exited:
			log, _ := s.pod.Logs()
			s.t.Fatalf("%s: the controller has ended: %s", what, log[max(0, len(log)-3000):])
		case <-ctx.Done():
			log := ""
			if s.pod != nil {
				log, _ = s.pod.Logs()
			}
			s.t.Fatalf("%s: %s\n%s", what, last, log[max(0, len(log)-3000):])
		case <-tick.C:
		}
	}
}

// start runs what the Deployment on the hub says, as the kubelet would, and waits until it is ready.
func (s *site) start() {
	s.t.Helper()
	var d appsv1.Deployment
	s.must("the Deployment", s.onHub.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "minifleet-controller-manager"}, &d))
	config, err := s.hub.RESTConfig()
	s.must("the hub", err)
	pod, err := podrun.Start(s.t.Context(), podrun.Options{
		Dir: s.t.TempDir(), Rootfs: s.rootfs, Hub: config, Namespace: s.namespace, Template: d.Spec.Template,
		Image: podrun.Image{Entrypoint: []string{"/minifleet"}, Cmd: []string{"controller"}, User: "65532:65532"},
		Ports: map[string]string{"metrics": "--metrics-bind-address", "health": "--health-probe-bind-address"},
		Say:   func(line string) { s.t.Log(line) },
	})
	s.must("starting the container of the Deployment", err)
	s.pod = pod
	s.t.Cleanup(func() { _ = pod.Kill() })
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	s.must("the container of the Deployment", pod.Ready(ctx))
}

// stop ends it, as the kubelet does when the Deployment is away or has changed.
func (s *site) stop() {
	s.t.Helper()
	pod := s.pod
	s.pod = nil
	s.must("stopping the container", pod.Stop())
}

// prepare makes the namespaces, as the document says, and what the runs need.
func (s *site) prepare(ctx context.Context) {
	s.t.Helper()
	s.documented("kubectl create namespace minifleet-system")
	s.documented("kubectl label namespace minifleet-system minifleet.dev/reserved=true pod-security.kubernetes.io/enforce=restricted")
	s.must("namespace", s.onHub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.work}}))
}

// documented runs a command of docs/helm.md, with the namespace and the packages of this release, and more arguments.
func (s *site) documented(command string, more ...string) string {
	s.t.Helper()
	document, err := os.ReadFile(filepath.Join(root(s.t), "docs", "helm.md"))
	s.must("docs/helm.md", err)
	if !slices.Contains(strings.Split(string(document), "\n"), command) {
		s.t.Fatalf("docs/helm.md does not have the line %q", command)
	}
	replace := strings.NewReplacer("minifleet-system", s.namespace, "dist/minifleet-0.1.0.tgz", s.older, "dist/minifleet-0.2.0.tgz", s.current)
	args := append(strings.Fields(replace.Replace(command)), more...)
	switch args[0] {
	case "helm":
		return s.helm.run(s.t, args[1:]...)
	case "kubectl":
		return s.kubectl(args[1:]...)
	default:
		s.t.Fatalf("%q cannot be run here", command)
		return ""
	}
}

func (s *site) kubectl(args ...string) string {
	s.t.Helper()
	path, before, err := lab.Binary("kubectl")
	s.must("kubectl", err)
	out, err := exec.CommandContext(s.t.Context(), path, slices.Concat(before, []string{"--kubeconfig", s.hub.KubeconfigPath()}, args)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("kubectl %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// register makes the member, a placement on it, and a MiniCluster whose pods run until they are released.
func (s *site) register(ctx context.Context) {
	s.t.Helper()
	for _, o := range []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "one"},
			Data:       map[string][]byte{v1alpha1.KubeconfigKey: s.member.Kubeconfig()},
		},
		&v1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "one"},
			Spec:       v1alpha1.MemberClusterSpec{Namespaces: v1alpha1.AllNamespaces(), KubeconfigSecretRef: v1alpha1.LocalReference{Name: "one"}},
		},
	} {
		s.must("creating the member", s.onHub.Create(ctx, o))
	}
	// As who uses the namespace does: the chart gives no right to its Secrets.
	s.kubectl("-n", s.work, "create", "rolebinding", "minifleet-secrets",
		"--clusterrole=minifleet-secret-reader", "--serviceaccount="+s.namespace+":minifleet-controller-manager")
	s.miniCluster(held, map[string]string{lab.AskHold: "true"})
}

func (s *site) miniCluster(name string, annotations map[string]string) {
	s.t.Helper()
	manifest := `{spec: {placement: {clusterNames: [one]}, miniCluster: {size: 1, containers: [{image: "example.org/lammps:latest", command: lmp}]}}}`
	var f v1alpha1.FleetMiniCluster
	s.must("the manifest", yaml.UnmarshalStrict([]byte(manifest), &f))
	f.Namespace, f.Name = s.work, name
	if len(annotations) > 0 {
		f.Spec.MiniCluster.Pod.Annotations = annotations
	}
	s.must("creating "+name, s.onHub.Create(s.t.Context(), &f))
}

// held is the MiniCluster that is live all the time.
const held = "held"

// running waits until the Job of it has a ready pod, and returns its UID.
func (s *site) running() types.UID {
	s.t.Helper()
	var job batchv1.Job
	s.await("Job "+held, func(ctx context.Context) string {
		if err := s.onMember.Get(ctx, client.ObjectKey{Namespace: s.work, Name: held}, &job); err != nil {
			var f v1alpha1.FleetMiniCluster
			_ = s.onHub.Get(ctx, client.ObjectKey{Namespace: s.work, Name: held}, &f)
			return fmt.Sprintf("%v; %v", err, f.Status.Conditions)
		}
		if job.Status.Ready == nil || *job.Status.Ready == 0 {
			return fmt.Sprintf("no pod of it is ready: %+v", job.Status)
		}
		return ""
	})
	return job.UID
}

// completed waits until the hub says that a MiniCluster has run.
func (s *site) completed(name string) {
	s.t.Helper()
	s.await(name+" on the hub", func(ctx context.Context) string {
		var f v1alpha1.FleetMiniCluster
		if err := s.onHub.Get(ctx, client.ObjectKey{Namespace: s.work, Name: name}, &f); err != nil {
			return err.Error()
		}
		if !meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.ConditionReady) || f.Status.Health != v1alpha1.Healthy || f.Status.Sync != v1alpha1.Synced {
			return fmt.Sprintf("%s %s %v", f.Status.Sync, f.Status.Health, f.Status.Conditions)
		}
		var job batchv1.Job
		if err := s.onMember.Get(ctx, client.ObjectKey{Namespace: s.work, Name: name}, &job); err != nil || job.Status.CompletionTime == nil {
			return fmt.Sprintf("the Job has not completed: %v", err)
		}
		return ""
	})
}

// has says whether an object is on the hub.
func (s *site) has(o client.Object, namespace, name string) bool {
	s.t.Helper()
	err := s.onHub.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
	return err == nil
}

// definitions are the names and UIDs of our CustomResourceDefinitions.
func (s *site) definitions() map[string]types.UID {
	s.t.Helper()
	var all apiextensionsv1.CustomResourceDefinitionList
	s.must("the definitions", s.onHub.List(s.t.Context(), &all))
	out := map[string]types.UID{}
	for _, d := range all.Items {
		if d.Spec.Group == v1alpha1.GroupVersion.Group {
			out[d.Name] = d.UID
		}
	}
	return out
}

// packages are the chart as it is, and an older one: with an object that is no more, without one that is new, and with a
// definition that lacks a field.
func packages(t *testing.T) (older, current string) {
	t.Helper()
	dir := t.TempDir()
	files, err := chart.ReadFolder(folder(t))
	if err != nil {
		t.Fatal(err)
	}
	reviewer := "templates/clusterrole-reviewer.yaml"
	files["templates/clusterrole-former.yaml"] = []byte(strings.ReplaceAll(string(files[reviewer]), "minifleet-reviewer", "minifleet-former"))
	delete(files, reviewer)
	definition := "templates/crds/placements.minifleet.dev.yaml"
	without := strings.Replace(string(files[definition]), "description: Placement ", "description: Former placement ", 1)
	if without == string(files[definition]) || files["templates/clusterrole-former.yaml"] == nil {
		t.Fatal("the older chart is as the current one")
	}
	files[definition] = []byte(without)
	for name, data := range files {
		path := filepath.Join(dir, "older", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	older, err = chart.Package(filepath.Join(dir, "older"), "v0.1.0", "", dir)
	if err != nil {
		t.Fatal(err)
	}
	current, err = chart.Package(folder(t), "v0.2.0", "", dir)
	if err != nil {
		t.Fatal(err)
	}
	return older, current
}

// TestLifecycle installs, upgrades, uninstalls and installs again, with a run that is live all the time. The controller is what
// the chart's own Deployment says, with the rights that the chart gives it.
func TestLifecycle(t *testing.T) {
	if err := podrun.Available(); err != nil {
		t.Skipf("NOT TESTED: installing, upgrading and uninstalling the chart with a controller that runs: %v", err)
	}
	rootfs := t.TempDir()
	scripttest.Copy(t, filepath.Join(root(t), "bin", "minifleet"), filepath.Join(rootfs, "minifleet")) // `make build` builds it
	specs := []lab.ClusterSpec{{Name: "one", PodSeconds: 1, Nodes: []lab.Node{{Name: "one-0", CPU: "64", Memory: "256Gi"}}}}
	programs := helms(t)
	for _, h := range programs {
		specs = append(specs, lab.ClusterSpec{Name: h.name, Controllers: true})
	}
	running, err := lab.Start(t.Context(), lab.Options{Dir: t.TempDir(), Clusters: specs, Env: lab.Hasty})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Kill() })
	older, current := packages(t)
	for _, h := range programs {
		t.Run(h.name, func(t *testing.T) {
			s := &site{
				t: t, hub: running.Cluster(h.name), member: running.Cluster("one"), work: "work-" + h.name, rootfs: rootfs,
				older: older, current: current,
				namespace: map[string]string{"helm3": "minifleet-system", "helm4": "fleet"}[h.name],
			}
			s.helm = h.on(s.hub.KubeconfigPath())
			s.onHub, s.onMember = clientOf(t, s.hub), clientOf(t, s.member)
			s.lifecycle()
		})
	}
}

func (s *site) lifecycle() {
	ctx := s.t.Context()
	s.prepare(ctx)
	install := "helm install minifleet dist/minifleet-0.1.0.tgz --namespace minifleet-system --set image.repository=registry.example.org/minifleet"
	faster := []string{"--set", "extraArgs={--interval-scale=0.2}"}
	notes := s.documented(install, faster...)
	s.contains(notes, "MiniFleet v0.1.0 is installed in namespace "+s.namespace)
	before := s.definitions()
	s.start()
	s.register(ctx)
	uid := s.running()

	notes = s.documented("helm upgrade minifleet dist/minifleet-0.2.0.tgz --namespace minifleet-system --reset-then-reuse-values",
		"--set", "podLabels.team=hpc,replicas=2,networkPolicy.enabled=false")
	s.contains(notes, "The NetworkPolicies (networkPolicy.enabled is false)")
	s.upgraded(before)
	s.stop()
	s.start()
	s.same("after the upgrade", uid, s.running())

	s.documented("helm uninstall minifleet --namespace minifleet-system")
	s.stop()
	s.uninstalled(before)
	s.same("after the release was uninstalled", uid, s.running())

	s.helm.run(s.t, append([]string{"install", "minifleet", s.current, "--namespace", s.namespace}, faster...)...)
	s.start()
	if diff := cmp.Diff(before, s.definitions()); diff != "" {
		s.t.Errorf("the definitions are others: %s", diff)
	}
	s.miniCluster("after", nil)
	s.completed("after")
	s.same("after another installation", uid, s.running())
	if _, err := s.member.Release(ctx, s.work, "job-name="+held, 0); err != nil {
		s.t.Fatal(err)
	}
	s.completed(held)
	s.once(held, "after")
	s.withoutDefinitions()
	s.allowed()
	s.removed()
}

func (s *site) contains(out, want string) {
	s.t.Helper()
	if !strings.Contains(out, want) {
		s.t.Errorf("%q is not in\n%s", want, out)
	}
}

func (s *site) same(when string, want, have types.UID) {
	s.t.Helper()
	if want != have {
		s.t.Errorf("%s the Job is another: %s, not %s", when, have, want)
	}
}

// upgraded checks that what is new is there, what is old is not, and that definitions are upgraded in place.
func (s *site) upgraded(before map[string]types.UID) {
	s.t.Helper()
	var d appsv1.Deployment
	if !s.has(&d, s.namespace, "minifleet-controller-manager") || *d.Spec.Replicas != 2 || d.Spec.Template.Labels["team"] != "hpc" {
		s.t.Errorf("the Deployment does not have the new values: %+v", d.Spec)
	}
	if !s.has(&rbacv1.ClusterRole{}, "", "minifleet-reviewer") || s.has(&rbacv1.ClusterRole{}, "", "minifleet-former") {
		s.t.Error("the roles are not those of the new chart")
	}
	if diff := cmp.Diff(before, s.definitions()); diff != "" {
		s.t.Errorf("the definitions are others: %s", diff)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if !s.has(&crd, "", "placements.minifleet.dev") || !strings.HasPrefix(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description, "Placement ") {
		s.t.Error("the definition is not upgraded")
	}
}

// uninstalled checks that the controller is away, with all its rights, and that nothing else is.
func (s *site) uninstalled(definitions map[string]types.UID) {
	s.t.Helper()
	ctx := s.t.Context()
	selector := client.MatchingLabels{"app.kubernetes.io/part-of": "minifleet"}
	for name, list := range map[string]client.ObjectList{
		"Deployments": &appsv1.DeploymentList{}, "ServiceAccounts": &corev1.ServiceAccountList{}, "ClusterRoles": &rbacv1.ClusterRoleList{},
		"ClusterRoleBindings": &rbacv1.ClusterRoleBindingList{}, "Roles": &rbacv1.RoleList{}, "RoleBindings": &rbacv1.RoleBindingList{},
	} {
		s.must(name, s.onHub.List(ctx, list, selector))
		if n := meta.LenList(list); n > 0 {
			s.t.Errorf("%d %s are still there", n, name)
		}
	}
	if diff := cmp.Diff(definitions, s.definitions()); diff != "" {
		s.t.Errorf("the definitions are others: %s", diff)
	}
	if !s.has(&v1alpha1.FleetMiniCluster{}, s.work, held) || !s.has(&v1alpha1.MemberCluster{}, "", "one") {
		s.t.Error("objects are deleted")
	}
	if !s.has(&corev1.Secret{}, s.namespace, "one") || !s.has(&corev1.ConfigMap{}, s.namespace, v1alpha1.FleetConfigMap) {
		s.t.Error("the kubeconfig of the member, or the identity of the fleet, is deleted")
	}
}

// withoutDefinitions switches the definitions off in an upgrade, which deletes none.
func (s *site) withoutDefinitions() {
	s.t.Helper()
	before := s.definitions()
	notes := s.helm.run(s.t, "upgrade", "minifleet", s.current, "--namespace", s.namespace, "--reset-then-reuse-values", "--set", "crds.enabled=false")
	s.contains(notes, "The CustomResourceDefinitions (crds.enabled is false)")
	if diff := cmp.Diff(before, s.definitions()); diff != "" {
		s.t.Errorf("the definitions are others: %s", diff)
	}
	if !s.has(&v1alpha1.FleetMiniCluster{}, s.work, held) {
		s.t.Error("the MiniCluster is deleted")
	}
}

// once checks by the member's audit log that the Jobs of MiniClusters were created once.
func (s *site) once(names ...string) {
	s.t.Helper()
	events, err := lab.ReadAudit(s.member.AuditLog())
	s.must("the audit log", err)
	created := map[string]int{}
	for _, e := range events {
		if o := e.Object; o != nil && e.Verb == "create" && o.Resource == "jobs" && o.Namespace == s.work && e.Response.Code == 201 && !strings.Contains(e.RequestURI, "dryRun") {
			created[o.Name]++
		}
	}
	want := map[string]int{}
	for _, name := range names {
		want[name] = 1
	}
	if diff := cmp.Diff(want, created); diff != "" {
		s.t.Errorf("Jobs, and how often they were created: %s", diff)
	}
}

// allowed checks by the hub's audit log that the controller has asked for nothing that the chart does not let it.
func (s *site) allowed() {
	s.t.Helper()
	events, err := lab.ReadAudit(s.hub.AuditLog())
	s.must("the audit log", err)
	account := "system:serviceaccount:" + s.namespace + ":minifleet-controller-manager"
	events = slices.DeleteFunc(events, func(e lab.AuditEvent) bool { return e.User.Username != account })
	if len(events) == 0 {
		s.t.Errorf("%s has asked for nothing", account)
	}
	never, err := s.hub.NeverAllowed(s.t.Context(), events)
	s.must("what it may do", err)
	for _, request := range never {
		s.t.Error(request)
	}
}

// removed follows the document until nothing of MiniFleet is on the hub.
func (s *site) removed() {
	s.t.Helper()
	for _, command := range []string{
		"kubectl delete gitsources --all --all-namespaces",
		"kubectl delete fleetminiclusters --all --all-namespaces",
		"kubectl delete memberclusters --all",
		"helm uninstall minifleet --namespace minifleet-system",
	} {
		s.documented(command)
	}
	s.stop()
	s.documented("kubectl delete customresourcedefinitions --selector app.kubernetes.io/part-of=minifleet")
	s.documented("kubectl delete namespace minifleet-system")
	if left := s.definitions(); len(left) > 0 {
		s.t.Errorf("definitions are still there: %v", left)
	}
	if s.has(&corev1.Namespace{}, "", s.namespace) {
		s.t.Error("the namespace is still there")
	}
	var jobs batchv1.JobList
	s.must("the Jobs", s.onMember.List(s.t.Context(), &jobs, client.InNamespace(s.work)))
	if len(jobs.Items) > 0 {
		s.t.Errorf("%d Jobs are still on the member", len(jobs.Items))
	}
}
