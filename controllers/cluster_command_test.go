package controllers_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/internal/cli"
)

var _ = Describe("The command cluster", func() {
	It("joins a cluster, uses it, and removes it again", func(ctx SpecContext) {
		w := newWorld(ctx)
		name := w.member("a")
		kubeconfig := filepath.Join(GinkgoT().TempDir(), "member.kubeconfig")
		Expect(os.WriteFile(kubeconfig, labs.Cluster("alpine").Kubeconfig(), 0o600)).To(Succeed())
		command := func(args ...string) (code int, out string) {
			var b bytes.Buffer
			code = cli.Run(append([]string{"cluster", "--kubeconfig", hubKubeconfig}, args...), strings.NewReader(""), &b, &b)
			GinkgoWriter.Println(b.String())
			return code, b.String()
		}
		join := func(more ...string) (int, string) {
			return command(append([]string{"join", name, "--member-kubeconfig", kubeconfig, "--hub-namespaces", "*", "--labels", "world=" + w.name}, more...)...)
		}
		absent := func(c client.Client, obj client.Object) func() bool {
			return func() bool { return apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(obj), obj)) }
		}
		role, namespace, secret := &rbacv1.ClusterRole{}, &corev1.Namespace{}, &corev1.Secret{}
		role.Name, namespace.Name, secret.Namespace, secret.Name = "minifleet-member", "minifleet-member", managerNamespace, name

		By("failing half way, which is undone")
		code, out := join("--server", "https://127.0.0.1:1", "--timeout", "2s")
		Expect(code).NotTo(BeZero())
		Expect(out).To(And(ContainSubstring("is not ready"), ContainSubstring("MemberCluster "+name+" on the hub: deleted")))
		Eventually(absent(admins["alpine"], namespace)).Should(BeTrue())
		Expect(absent(admins["alpine"], role)()).To(BeTrue())
		Expect(absent(hub, secret)()).To(BeTrue())

		By("printing what would be done")
		code, out = join("--dry-run")
		Expect(code).To(BeZero())
		Expect(out).To(And(ContainSubstring("kind: ClusterRole"), ContainSubstring("kind: MemberCluster"), ContainSubstring("token: REDACTED")))
		Expect(absent(admins["alpine"], role)()).To(BeTrue())

		By("joining twice")
		code, out = join()
		Expect(code).To(BeZero())
		Expect(out).To(ContainSubstring("member " + name + ": ready"))
		code, out = join()
		Expect(code).To(BeZero())
		Expect(out).To(And(ContainSubstring("unchanged"), Not(ContainSubstring("created")), Not(ContainSubstring("updated"))))
		code, out = command("list")
		Expect(code).To(BeZero())
		Expect(out).To(ContainSubstring(name))

		By("running something with the credentials that it made")
		w.runEverything(ctx, "joined")

		By("draining it and taking that back")
		code, _ = command("drain", name, "--timeout", "30s")
		Expect(code).To(BeZero())
		_, out = command("list")
		Expect(out).To(MatchRegexp(name + ` .* Drained `))
		code, _ = command("uncordon", name)
		Expect(code).To(BeZero())

		By("removing it")
		code, _ = command("remove", name, "--policy", "Block", "--timeout", "60s", "--member-kubeconfig", kubeconfig)
		Expect(code).To(BeZero())
		Expect(w.memberCluster(ctx, "a").UID).To(BeEmpty())
		Expect(absent(hub, secret)()).To(BeTrue())
		Expect(absent(admins["alpine"], role)()).To(BeTrue())
		Eventually(absent(admins["alpine"], namespace)).Should(BeTrue())
		Expect(job(ctx, "alpine", w.name, "joined")).To(BeNil())
	})
})
