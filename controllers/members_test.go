package controllers_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

var _ = Describe("A member", func() {
	It("is refused for what its kubeconfig would have the hub do", func(ctx SpecContext) {
		w := newWorld(ctx)
		admin := labs.Cluster("alpine").Kubeconfig()
		kubeconfigs := map[string]struct {
			change  func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)
			message string
		}{
			"exec": {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
				u.Exec = &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "touch", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
			}, "user.exec"},
			"provider": {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
				u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "oidc"}
			}, "user.auth-provider"},
			"token-file": {func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.TokenFile = "/etc/hostname" }, "user.tokenFile"},
			"ca-path": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
				c.CertificateAuthorityData, c.CertificateAuthority = nil, "/etc/hostname"
			}, "certificate-authority"},
			"insecure": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
				c.CertificateAuthorityData, c.InsecureSkipTLSVerify = nil, true
			}, "insecure-skip-tls-verify"},
			"plain-http": {func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
				c.Server = "http://" + labs.Cluster("alpine").Address()
			}, "https://"},
		}
		for name, k := range kubeconfigs {
			w.secret(ctx, name, edited(admin, k.change))
			w.enroll(ctx, name)
		}
		for name, k := range kubeconfigs {
			Eventually(w.reason).WithArguments(ctx, name).Should(Equal("False KubeconfigRefused"), name)
			Expect(w.message(ctx, name)).To(ContainSubstring(k.message), name)
		}
	})

	It("that came back while the hub did not hear of its own last word on it is called connected", func(ctx SpecContext) {
		gateway, kubeconfig := stallable("hub")
		Expect(minifleet.Kill()).To(Succeed())
		startMinifleet(kubeconfig)
		DeferCleanup(func() {
			Expect(minifleet.Kill()).To(Succeed())
			startMinifleet(labs.Cluster("hub").Kubeconfig())
		})
		w := newWorld(ctx)
		proxy, throughProxy := through(labs.Cluster("alpine"))
		w.register(ctx, "a", throughProxy)
		w.roomKnown(ctx, "a")
		Consistently(w.reason, "2s").WithArguments(ctx, "a").Should(Equal("True Connected")) // and the hub has heard of it
		gateway.SetTrouble(lab.Trouble{StallWatches: true})
		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("Unknown Unreachable"))
		before := proxy.Accepted()
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		Eventually(proxy.Accepted).Should(BeNumerically(">", before))
		Consistently(w.reason, "2s").WithArguments(ctx, "a").Should(Equal("Unknown Unreachable"), "the cache knows no better")
		gateway.SetTrouble(lab.Trouble{})
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))
	})

	It("waits for its Secret and connects when that comes", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.enroll(ctx, "a")
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("False KubeconfigMissing"))
		Expect(w.message(ctx, "a")).To(ContainSubstring(w.member("a")))
		w.secret(ctx, "a", []byte("no: kubeconfig"))
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("False KubeconfigInvalid"))
		w.secret(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))
		m := w.memberCluster(ctx, "a")
		Expect(m.Status.Version).To(HavePrefix("v1."))
		Expect(m.Status.ClusterUID).NotTo(BeEmpty())
	})

	It("that refuses the credentials is used again soon after they were replaced", func(ctx SpecContext) {
		w := newWorld(ctx)
		good := labs.Cluster("alpine").Kubeconfig()
		bad := edited(good, func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			*u = clientcmdapi.AuthInfo{Token: "expired"}
		})
		w.secret(ctx, "a", bad)
		w.enroll(ctx, "a")
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("False AuthFailed"))
		w.secret(ctx, "a", good)
		Eventually(w.reason).WithArguments(ctx, "a").WithTimeout(30 * time.Second).Should(Equal("True Connected"))

		w.run(ctx, "kept", held)
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal("True Synced Synced Progressing 1/1"))
		before := job(ctx, "alpine", w.name, "kept")
		w.secret(ctx, "a", bad)
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("False AuthFailed"))
		Eventually(w.on).WithArguments(ctx, "kept", "a").Should(Equal("Unknown Unknown"))
		w.secret(ctx, "a", good)
		Eventually(w.on).WithArguments(ctx, "kept", "a").WithTimeout(30 * time.Second).Should(Equal("Synced Progressing"))
		Expect(job(ctx, "alpine", w.name, "kept").UID).To(Equal(before.UID))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})

	It("whose Secret comes to lead to another cluster is refused, and that cluster is left alone", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "kept", held)
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal("True Synced Synced Progressing 1/1"))
		before := writesTo("basalt")
		w.secret(ctx, "a", labs.Cluster("basalt").Kubeconfig())
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("False WrongCluster"))
		Eventually(w.on).WithArguments(ctx, "kept", "a").Should(Equal("Unknown Unknown"))
		Consistently(writesTo).WithArguments("basalt").Should(Equal(before))
		w.secret(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		Eventually(w.on).WithArguments(ctx, "kept", "a").WithTimeout(30 * time.Second).Should(Equal("Synced Progressing"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
	})

	It("whose address comes to lead to another cluster is refused at the next connection", func(ctx SpecContext) {
		w := newWorld(ctx)
		g := newAPIProxy(labs.Cluster("alpine"))
		w.register(ctx, "a", g.kubeconfig())
		w.run(ctx, "kept", held)
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal("True Synced Synced Progressing 1/1"))
		before := writesTo("basalt")
		g.forwardTo(labs.Cluster("basalt"))
		g.server.CloseClientConnections()
		w.run(ctx, "not-there", brief) // something to write, at the worst moment
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("False WrongCluster"))
		Consistently(writesTo).WithArguments("basalt").Should(Equal(before))
		g.forwardTo(labs.Cluster("alpine"))
		Eventually(w.on).WithArguments(ctx, "kept", "a").WithTimeout(30 * time.Second).Should(Equal("Synced Progressing"))
		Eventually(w.line).WithArguments(ctx, "not-there").Should(Equal("True Succeeded Synced Healthy 1/1"))
		Expect(jobsMade("alpine", w.name)).To(Equal(2))
		Expect(jobsMade("basalt", w.name)).To(BeZero())
	})

	It("that is registered twice is used once, and by the second registration when the first goes", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.secret(ctx, "b", labs.Cluster("alpine").Kubeconfig())
		w.enroll(ctx, "b")
		Eventually(w.reason).WithArguments(ctx, "b").Should(Equal("False DuplicateCluster"))
		Expect(w.message(ctx, "b")).To(ContainSubstring(w.member("a")))
		w.run(ctx, "once", brief)
		Eventually(w.line).WithArguments(ctx, "once").Should(Equal("False NotEnoughClusters Synced Healthy 1/2"))
		Expect(w.on(ctx, "once", "a")).To(Equal("Synced Healthy"))
		Expect(w.on(ctx, "once", "b")).To(BeEmpty())
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
		Expect(hub.Delete(ctx, w.memberCluster(ctx, "a"))).To(Succeed())
		Eventually(w.reason).WithArguments(ctx, "b").Should(Equal("True Connected"))
	})

	It("needs no more rights than config/member gives", func(ctx SpecContext) {
		w := newWorld(ctx)
		user := w.name + "-user"
		grant(ctx, "alpine", "cluster", "", user)
		kubeconfig, err := labs.Cluster("alpine").KubeconfigFor(user)
		Expect(err).NotTo(HaveOccurred())
		w.register(ctx, "a", kubeconfig)
		w.runEverything(ctx, "modest")
		Eventually(func() *v1alpha1.MemberCapacity { return w.memberCluster(ctx, "a").Status.Capacity }).ShouldNot(BeNil())
		Expect(hub.Delete(ctx, w.get(ctx, "modest"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "modest").Should(BeFalse())
		Expect(job(ctx, "alpine", w.name, "modest")).To(BeNil())
		Expect(refusals("alpine", user)).To(BeEmpty())
	})

	It("may give one namespace only, and is not asked for more again and again", func(ctx SpecContext) {
		w := newWorld(ctx)
		user, namespace := w.name+"-user", w.name+"-site"
		Expect(admins["alpine"].Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		grant(ctx, "alpine", "namespaced", namespace, user)
		kubeconfig, err := labs.Cluster("alpine").KubeconfigFor(user)
		Expect(err).NotTo(HaveOccurred())
		w.register(ctx, "a", kubeconfig, confinedTo(namespace))
		w.runEverything(ctx, "confined")
		Expect(job(ctx, "alpine", namespace, "confined")).NotTo(BeNil())
		before := refusals("alpine", user)
		// The identity is asked for once for each new connection, kube-system first.
		Expect(len(before)).To(BeNumerically("<=", 4), "%v", before)
		Expect(before).To(HaveEach("get /api/v1/namespaces/kube-system"))
		w.run(ctx, "again", brief)
		Eventually(w.line).WithArguments(ctx, "again").Should(Equal("True Succeeded Synced Healthy 1/1"))
		Consistently(func() int { return len(refusals("alpine", user)) }).Should(Equal(len(before)))
		Expect(hub.Delete(ctx, w.get(ctx, "confined"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "confined").Should(BeFalse())
		Expect(job(ctx, "alpine", namespace, "again")).NotTo(BeNil())
	})

	DescribeTable("that cannot be reached when MiniFleet starts delays no other", func(ctx SpecContext, mode lab.ProxyMode) {
		w := newWorld(ctx)
		proxy, kubeconfig := through(labs.Cluster("basalt"))
		Expect(proxy.SetMode(mode)).To(Succeed())
		Expect(minifleet.Kill()).To(Succeed())
		w.secret(ctx, "up", labs.Cluster("alpine").Kubeconfig())
		w.secret(ctx, "down", kubeconfig)
		w.enroll(ctx, "down")
		w.enroll(ctx, "up")
		w.run(ctx, "early", brief)
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(func() int { return jobsMade("alpine", w.name) }).WithTimeout(15 * time.Second).Should(Equal(1))
		Eventually(w.on).WithArguments(ctx, "early", "up").Should(Equal("Synced Healthy"))
		Expect(w.reason(ctx, "down")).NotTo(HavePrefix("True"))
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		Eventually(w.reason).WithArguments(ctx, "down").WithTimeout(30 * time.Second).Should(Equal("True Connected"))
		Eventually(w.line).WithArguments(ctx, "early").Should(Equal("True Succeeded Synced Healthy 2/2"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
		Expect(jobsMade("basalt", w.name)).To(Equal(1))
	},
		Entry("and refuses", lab.Refuse),
		Entry("and hangs", lab.Hang),
	)
})

// runEverything runs something that takes all the rights that there are: services beside it, a run that fails,
// and another after it.
func (w *world) runEverything(ctx context.Context, name string) {
	GinkgoHelper()
	f := w.fmc(name, map[string]string{lab.AskSeconds: "0", lab.AskExitCode: "3"})
	f.Spec.MiniCluster.Services = []fluxv1alpha2.MiniClusterContainer{{Name: "database", Image: "example.org/database"}}
	Expect(hub.Create(ctx, f)).To(Succeed())
	Eventually(w.line).WithArguments(ctx, name).Should(HavePrefix("False RunFailed Synced"))
	Expect(w.get(ctx, name).Status.Runs[0].Exit).NotTo(BeNil())
	Eventually(func() error {
		f := w.get(ctx, name)
		f.Spec.MiniCluster.Pod.Annotations = brief
		return hub.Update(ctx, f)
	}).Should(Succeed())
	Eventually(w.line).WithArguments(ctx, name).Should(Equal("True Succeeded Synced Healthy 1/1"))
}

// refusals are the requests of a user that a cluster has answered with 403.
func refusals(cluster, user string) []string {
	GinkgoHelper()
	var out []string
	for _, e := range audit(cluster, func(e *lab.AuditEvent) bool { return e.User.Username == user && e.Response.Code == 403 }) {
		out = append(out, e.Verb+" "+e.RequestURI)
	}
	return out
}

// grant gives a user on a cluster the rights that a directory of config/member describes.
func grant(ctx context.Context, cluster, kind, namespace, user string) {
	GinkgoHelper()
	for _, obj := range rights(kind, namespace, user) {
		Expect(admins[cluster].Create(ctx, obj)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(admins[cluster].Delete(ctx, obj)) })
	}
}
