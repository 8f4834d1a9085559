package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/hack/lab"
)

// managerNamespace is where the kubeconfigs of the members are.
const managerNamespace = "minifleet-system"

// The fleet that all tests share. Each test works in a namespace and a repository of its own.
var (
	fleet      *lab.Lab
	hub        client.Client
	members    = map[string]client.Client{}
	audits     = map[string]*lab.AuditReader{}
	git        *lab.GitServer
	gitTrust   []byte // the certificate of git, with TLS
	controller *lab.Process
	// dashboardURL is where the controller serves the dashboard.
	dashboardURL string
	workDir      string
)

// memberLabels are the labels of the members.
var memberLabels = map[string]map[string]string{
	"alpine": {"site": "north", "gpu": "true"},
	"basalt": {"site": "south", "gpu": "true"},
	"cinder": {"site": "south"},
}

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(60 * time.Second)
	SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	RunSpecs(t, "MiniFleet")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	workDir, err = os.MkdirTemp("", "minifleet-e2e-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, workDir)

	specs := []lab.ClusterSpec{{Name: "hub", Controllers: true}}
	for _, name := range []string{"alpine", "basalt", "cinder"} {
		specs = append(specs, lab.ClusterSpec{Name: name, PodSeconds: 3, Logs: true, Nodes: []lab.Node{
			{Name: name + "-0", CPU: "64", Memory: "256Gi"}, {Name: name + "-1", CPU: "32", Memory: "128Gi"},
		}})
	}
	fleet, err = lab.Start(context.WithoutCancel(ctx), lab.Options{
		Dir: filepath.Join(workDir, "lab"), Clusters: specs, Env: lab.Hasty,
		Progress: func(s string) { GinkgoWriter.Println(s) },
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return fleet.Kill() })

	git, err = lab.NewGitServer(filepath.Join(workDir, "repositories"))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return git.Stop() })
	gitTrust, err = git.StartTLS()
	Expect(err).NotTo(HaveOccurred())

	for _, c := range fleet.Clusters() {
		audits[c.Name()] = &lab.AuditReader{Path: c.AuditLog()}
	}
	hub = clientOf(fleet.Cluster("hub"))
	root, err := lab.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	Expect(fleet.Cluster("hub").ApplyCRDs(ctx, filepath.Join(root, "config", "crd", "bases"))).To(Succeed())
	Expect(fleet.Cluster("hub").ApplyPolicies(ctx, filepath.Join(root, "config", "policy"))).To(Succeed())
	Expect(hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}})).To(Succeed())
	for name, labels := range memberLabels {
		members[name] = clientOf(fleet.Cluster(name))
		register(ctx, name, labels, restricted(fleet.Cluster(name), "", memberAccount,
			filepath.Join("config", "member", "policy"), filepath.Join("config", "member", "cluster")))
	}
	// With the rights that it is deployed with, and no others.
	config := filepath.Join(workDir, "hub.kubeconfig")
	Expect(os.WriteFile(config, restricted(fleet.Cluster("hub"), hubSettings, hubAccount,
		filepath.Join("config", "rbac"), filepath.Join("config", "dashboard", "rbac")), 0o600)).To(Succeed())
	startController(filepath.Join(root, "bin", "minifleet"), config)
	Eventually(func(g Gomega) {
		for name := range memberLabels {
			g.Expect(memberCondition(ctx, name)).To(Equal("True Connected"))
		}
	}).Should(Succeed())
}, NodeTimeout(8*time.Minute))

// What the manifests give is enough: MiniFleet has asked for nothing that it may not do.
var _ = AfterSuite(func(ctx SpecContext) {
	if fleet == nil {
		return // it did not start
	}
	for _, c := range fleet.Clusters() {
		if !c.Owned() {
			continue
		}
		events, err := lab.ReadAudit(c.AuditLog())
		Expect(err).NotTo(HaveOccurred())
		events = slices.DeleteFunc(events, func(e lab.AuditEvent) bool { return e.UserAgent != "minifleet" })
		Expect(events).NotTo(BeEmpty(), "nothing was asked of %s", c.Name())
		never, err := c.NeverAllowed(ctx, events)
		Expect(err).NotTo(HaveOccurred())
		Expect(never).To(BeEmpty())
	}
})

var _ = ReportAfterEach(func(report SpecReport) {
	if report.Failed() && controller != nil {
		if log, err := os.ReadFile(controller.LogPath()); err == nil {
			AddReportEntry("end of the controller's log", string(log[max(0, len(log)-6000):]))
		}
	}
})

// Accounts that the manifests give rights to.
const (
	hubAccount    = "system:serviceaccount:" + managerNamespace + ":minifleet-controller-manager"
	memberAccount = "system:serviceaccount:minifleet-member:minifleet-member"
	// hubSettings are those of config/default.
	hubSettings = "namespace: " + managerNamespace + "\nnamePrefix: minifleet-\n"
)

// restricted applies manifests of this repository to a cluster, all at once since they refer to each other, and returns the
// kubeconfig of an account that they give rights to. Of a cluster that is not the lab's own it returns the one that was given.
func restricted(c *lab.Cluster, settings, account string, dirs ...string) []byte {
	GinkgoHelper()
	if !c.Owned() {
		return c.Kubeconfig()
	}
	root, err := lab.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	overlay, err := os.MkdirTemp(workDir, "overlay-")
	Expect(err).NotTo(HaveOccurred())
	var bases []string
	for _, dir := range dirs {
		base, err := filepath.Rel(overlay, filepath.Join(root, dir))
		Expect(err).NotTo(HaveOccurred())
		bases = append(bases, base)
	}
	resources := "resources: [" + strings.Join(bases, ", ") + "]\n"
	Expect(os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(settings+resources), 0o600)).To(Succeed())
	path, before, err := lab.Binary("kubectl")
	Expect(err).NotTo(HaveOccurred())
	run("", path, slices.Concat(before, []string{"--kubeconfig", c.KubeconfigPath(), "apply", "-k", overlay})...)
	kubeconfig, err := c.KubeconfigFor(account)
	Expect(err).NotTo(HaveOccurred())
	return kubeconfig
}

func clientOf(c *lab.Cluster) client.Client {
	cfg, err := c.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	cfg.QPS = -1
	cfg.UserAgent = "e2e"
	scheme, err := controllers.NewScheme()
	Expect(err).NotTo(HaveOccurred())
	out, err := client.New(cfg, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return out
}

// register makes a MemberCluster and its kubeconfig Secret.
func register(ctx context.Context, name string, labels map[string]string, kubeconfig []byte) {
	GinkgoHelper()
	Expect(hub.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: name},
		Data:       map[string][]byte{v1alpha1.KubeconfigKey: kubeconfig},
	})).To(Succeed())
	Expect(hub.Create(ctx, &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       v1alpha1.MemberClusterSpec{Namespaces: v1alpha1.AllNamespaces(), KubeconfigSecretRef: v1alpha1.LocalReference{Name: name}},
	})).To(Succeed())
}

// startController starts the binary and leaves it running until the suite ends.
func startController(binary, kubeconfig string) {
	GinkgoHelper()
	Expect(binary).To(BeAnExistingFile(), "build it with `make build`")
	address, err := lab.FreeAddress()
	Expect(err).NotTo(HaveOccurred())
	dashboardURL = "http://" + address
	controller = &lab.Process{
		Name: "controller", Path: binary,
		Args: []string{"controller", "--kubeconfig", kubeconfig, "--namespace", managerNamespace,
			"--leader-elect=false", "--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--log-level", "debug",
			"--interval-scale", "0.2", "--dashboard-bind-address", address, "--dashboard-writes",
			"--git-allowed-cidrs", "127.0.0.0/8,::1/128"},
		// Silence is noticed within 4 seconds, not 15.
		Env:     []string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS=2", "HTTP2_PING_TIMEOUT_SECONDS=2"},
		PidsDir: filepath.Join(workDir, "pids"), LogsDir: filepath.Join(workDir, "logs"),
	}
	Expect(controller.Start()).To(Succeed())
	DeferCleanup(func() error { return controller.Kill() })
}
