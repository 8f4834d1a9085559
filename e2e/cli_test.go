package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/minifleet/minifleet/hack/lab"
)

// terminal is where a person types commands, with credentials of their own.
type terminal struct {
	binary, dir string
	env         []string
}

// newTerminal has a kubeconfig with the token of a person whose namespace is that of the world.
func (w *world) newTerminal(token string) *terminal {
	GinkgoHelper()
	root, err := lab.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	dir, err := os.MkdirTemp(workDir, "terminal-")
	Expect(err).NotTo(HaveOccurred())
	config, err := fleet.Cluster("hub").RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["hub"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	kubeconfig.AuthInfos["me"] = &clientcmdapi.AuthInfo{Token: token}
	kubeconfig.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "me", Namespace: w.name}
	kubeconfig.CurrentContext = "hub"
	path := filepath.Join(dir, "kubeconfig")
	Expect(clientcmd.WriteToFile(*kubeconfig, path)).To(Succeed())
	env := append(os.Environ(), "KUBECONFIG="+path, "MINIFLEET_SERVER="+dashboardURL, "LC_ALL=C.UTF-8")
	return &terminal{binary: filepath.Join(root, "bin", "minifleet"), dir: dir, env: env}
}

// try runs a command line, and returns its exit code and what it prints.
func (t *terminal) try(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	GinkgoHelper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, t.binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = t.dir, t.env, &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		Expect(err).NotTo(HaveOccurred())
	}
	GinkgoWriter.Printf("$ minifleet %s\n%s%s", strings.Join(args, " "), out.String(), errs.String())
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// expect runs a command line that ends with this exit code, and returns what it prints on standard output.
func (t *terminal) expect(ctx context.Context, code int, args ...string) string {
	GinkgoHelper()
	got, out, errs := t.try(ctx, args...)
	Expect(got).To(Equal(code), "minifleet %s\n%s%s", strings.Join(args, " "), out, errs)
	return out
}

// ok runs a command line, whose parts have no spaces in them, that succeeds.
func (t *terminal) ok(ctx context.Context, line string) string {
	GinkgoHelper()
	return t.expect(ctx, 0, strings.Fields(line)...)
}

func (t *terminal) file(name, content string) {
	GinkgoHelper()
	Expect(os.WriteFile(filepath.Join(t.dir, name), []byte(content), 0o600)).To(Succeed())
}

var _ = Describe("The command line", func() {
	var (
		w *world
		t *terminal
	)
	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		t = w.newTerminal(w.person(ctx, "me", "", adminRules))
	})

	It("starts a run, follows it, and runs it again", func(ctx SpecContext) {
		code, out, progress := t.try(ctx, strings.Fields("run lammps --image example.org/lammps:1 --size 2 --limits cpu=1 -l site=north --timeout 60s -- lmp -in in.melt")...)
		Expect(code).To(BeZero(), out+progress)
		Expect(out).To(ContainSubstring("creates FleetMiniCluster " + w.name + "/lammps"))
		Expect(progress).To(ContainSubstring("✓ Succeeded"))
		Expect(t.ok(ctx, "wait lammps")).To(ContainSubstring("lammps  ✓ Succeeded"))
		Expect(t.ok(ctx, "get")).To(MatchRegexp(`lammps +✓ Succeeded +2/2 +alpine`))
		// The run ends with its lead: on a busy member the other pod may not have ended by then, and is deleted.
		Expect(t.ok(ctx, "tree lammps")).To(And(ContainSubstring("member alpine  ✓ Succeeded"), MatchRegexp("(2 pods|1 pod)  ✓ Succeeded")))
		Expect(t.ok(ctx, "why lammps")).To(ContainSubstring("It succeeded on alpine at "))
		Eventually(func() string { return t.ok(ctx, "events lammps") }).Should(ContainSubstring("RunSucceeded"))
		Expect(t.ok(ctx, "rerun lammps --wait --timeout 60s")).To(ContainSubstring("✓ Succeeded"))
		Expect(w.jobsMade("lammps")).To(Equal(2))
		Expect(t.expect(ctx, 1, "get", "none")).To(BeEmpty())
	})

	It("follows what is live, holds it back, lets it go on and cancels it", func(ctx SpecContext) {
		t.file("held.yaml", miniCluster("held").held().yaml())
		t.ok(ctx, "run -f held.yaml --member basalt --detach")
		running := func() string { return t.ok(ctx, "get --state running -o name") }
		Eventually(running).Should(ContainSubstring("/held\n"))
		Expect(t.expect(ctx, 3, "wait", "held", "--timeout", "500ms")).To(BeEmpty())
		Expect(t.ok(ctx, "why held")).To(ContainSubstring("It runs on basalt since "))
		Expect(fleet.Cluster("basalt").WriteLog("step 1", "step 2")).To(Succeed())
		Expect(t.ok(ctx, "logs held --tail 2")).To(Equal("step 1\nstep 2\n"))
		t.ok(ctx, "diff held")

		Expect(t.ok(ctx, "suspend held")).To(ContainSubstring("starts nothing new and suspends run"))
		Eventually(func() string { return t.ok(ctx, "get --state suspended -o name") }).Should(ContainSubstring("/held\n"))
		t.ok(ctx, "resume held")
		Eventually(running).Should(ContainSubstring("/held\n"))

		t.ok(ctx, "cancel held")
		Expect(t.expect(ctx, 1, "wait", "held", "--timeout", "30s")).To(ContainSubstring("✗ Cancelled"))
		Expect(w.jobsMade("held")).To(Equal(1))
	})

	It("has Git read, and administers members", func(ctx SpecContext) {
		w.commit("add", map[string]string{"fromgit.yaml": miniCluster("fromgit").on("south").yaml()})
		Expect(t.ok(ctx, "source reconcile "+w.name)).To(ContainSubstring("✓ Ready"))
		Expect(t.ok(ctx, "source list")).To(MatchRegexp(w.name + ` +✓ Ready +m[a-z]+@[0-9a-f]{7} +1 `))
		Expect(t.ok(ctx, "reconcile fromgit")).To(ContainSubstring("✓ Ready"))
		Expect(t.ok(ctx, "tree fromgit")).To(And(HavePrefix("commit "), ContainSubstring("add · e2e"), ContainSubstring("fromgit.yaml")))

		Expect(t.ok(ctx, "cluster list")).To(MatchRegexp(`cinder +✓ Ready +✓ OK +2 `))
		DeferCleanup(func(ctx SpecContext) { t.ok(ctx, "cluster uncordon cinder") })
		Expect(t.ok(ctx, "cluster cordon cinder")).To(ContainSubstring("starts nothing new on cinder"))
		Expect(t.ok(ctx, "cluster list")).To(MatchRegexp(`cinder +✓ Ready +‖ Cordoned +2 `))
		Expect(t.ok(ctx, "cluster uncordon cinder")).To(ContainSubstring("starts new runs on cinder again"))

		t.file("good.yaml", miniCluster("good").yaml())
		t.file("bad.yaml", strings.Replace(miniCluster("bad").yaml(), "size: 2", "size: many", 1))
		t.ok(ctx, "validate -f good.yaml")
		Expect(t.expect(ctx, 1, "validate", "-f", "bad.yaml")).To(ContainSubstring("bad.yaml:6"))
	})
})
