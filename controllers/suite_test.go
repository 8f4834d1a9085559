package controllers_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/hack/lab"
	"github.com/minifleet/minifleet/internal/cli"
	"github.com/minifleet/minifleet/internal/tracing/tracingtest"
)

const (
	// managerNamespace is where the kubeconfigs of the members are.
	managerNamespace = "minifleet-system"
	// beMinifleet makes this test program be minifleet, so that what is tested is what was compiled: a
	// process of its own can be killed in the middle of a write, and started again.
	beMinifleet = "MINIFLEET_TEST_BE_MINIFLEET"
)

// What all tests share: the clusters. Each test works in a namespace of its own and registers the members
// that it needs.
var (
	labs          *lab.Lab
	hub           client.Client
	admins        = map[string]client.Client{}
	audits        = map[string]*lab.AuditReader{}
	hubKubeconfig string
	receiverURL   string // where MiniFleet listens for webhooks
	collector     *tracingtest.Collector
	workDir       string
	minifleet     *lab.Process
)

func TestMain(m *testing.M) {
	// minifleet starts itself again, without an environment, to build overlays.
	if os.Getenv(beMinifleet) != "" || len(os.Args) > 1 && os.Args[1] == "build-overlay" {
		os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 2 && os.Args[1] == bePlugin {
		runPlugin(os.Args[2])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestWithAPIServers(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(60 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyDuration(2 * time.Second)
	ctrllog.SetLogger(GinkgoLogr)
	RunSpecs(t, "Controllers")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	workDir, err = os.MkdirTemp("", "minifleet-controllers-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, workDir)

	specs := []lab.ClusterSpec{{Name: "hub", Controllers: true}}
	for _, name := range []string{"alpine", "basalt"} {
		specs = append(specs, lab.ClusterSpec{Name: name, PodSeconds: 1, Nodes: []lab.Node{{Name: name, CPU: "64", Memory: "256Gi"}}})
	}
	labs, err = lab.Start(context.WithoutCancel(ctx), lab.Options{
		Dir: filepath.Join(workDir, "lab"), Clusters: specs, Env: lab.Hasty,
		Progress: func(s string) { GinkgoWriter.Println(s) },
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return labs.Kill() })

	hub = clientOf(labs.Cluster("hub"))
	for _, name := range []string{"alpine", "basalt"} {
		admins[name] = clientOf(labs.Cluster(name))
	}
	for _, name := range []string{"hub", "alpine", "basalt"} {
		audits[name] = &lab.AuditReader{Path: labs.Cluster(name).AuditLog()}
	}
	root, err := lab.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	Expect(labs.Cluster("hub").ApplyCRDs(ctx, filepath.Join(root, "config", "crd", "bases"))).To(Succeed())
	Expect(labs.Cluster("hub").ApplyPolicies(ctx, filepath.Join(root, "config", "policy"))).To(Succeed())
	Expect(hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}})).To(Succeed())

	hubKubeconfig = filepath.Join(workDir, "hub.kubeconfig")
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	receiverAddress, err := lab.FreeAddress()
	Expect(err).NotTo(HaveOccurred())
	receiverURL = "http://" + receiverAddress
	collector = tracingtest.Start()
	DeferCleanup(collector.Close)
	minifleet = &lab.Process{
		Name: "controller", Path: self,
		Args: []string{"controller", "--kubeconfig", hubKubeconfig, "--namespace", managerNamespace, "--leader-elect=false",
			"--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--workers", "8", "--follow-interval", "2s",
			"--interval-scale", "0.2", "--git-allowed-cidrs", "127.0.0.0/8,::1/128", "--notification-allowed-cidrs", "127.0.0.1/32",
			"--receiver-bind-address", receiverAddress, "--tracing-endpoint", collector.URL},
		// Silence is noticed within 4 seconds, not 15.
		Env:     []string{beMinifleet + "=1", "HTTP2_READ_IDLE_TIMEOUT_SECONDS=2", "HTTP2_PING_TIMEOUT_SECONDS=2"},
		PidsDir: filepath.Join(workDir, "pids"), LogsDir: filepath.Join(workDir, "logs"),
	}
	DeferCleanup(func() error { return minifleet.Kill() })
	startMinifleet(labs.Cluster("hub").Kubeconfig())
}, NodeTimeout(8*time.Minute))

// What the hub says of everything is the first thing to read when a test has failed.
var _ = JustAfterEach(func() {
	if CurrentSpecReport().Failed() && labs != nil {
		AddReportEntry("FleetMiniClusters", kubectl("", "describe", "fmc", "-A"))
	}
})

var _ = ReportAfterEach(func(report SpecReport) {
	if report.Failed() && minifleet != nil {
		if log, err := os.ReadFile(minifleet.LogPath()); err == nil {
			AddReportEntry("end of MiniFleet's log", string(log[max(0, len(log)-6000):]))
		}
	}
})

// startMinifleet starts MiniFleet with this kubeconfig of the hub.
func startMinifleet(kubeconfig []byte) {
	GinkgoHelper()
	Expect(os.WriteFile(hubKubeconfig, kubeconfig, 0o600)).To(Succeed())
	Expect(minifleet.Start()).To(Succeed())
}

// ensureMinifleet starts MiniFleet again where a test has failed between stopping and starting it.
func ensureMinifleet() {
	GinkgoHelper()
	if !minifleet.Running() {
		startMinifleet(labs.Cluster("hub").Kubeconfig())
	}
	Expect(minifleet.Resume()).To(Succeed()) // it may be paused
}

func clientOf(c *lab.Cluster) client.Client {
	GinkgoHelper()
	cfg, err := c.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	cfg.UserAgent = "test"
	scheme, err := controllers.NewScheme()
	Expect(err).NotTo(HaveOccurred())
	out, err := client.New(cfg, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return out
}
