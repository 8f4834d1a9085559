package controllers_test

import (
	"net/http"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/hack/lab"
)

var _ = Describe("Between hub and member", func() {
	It("the reply to the creation of a Job may be lost", func(ctx SpecContext) {
		w := newWorld(ctx)
		g := newAPIProxy(labs.Cluster("alpine"))
		var lost atomic.Int32
		g.onWrite(func(req *http.Request) bool {
			return req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/jobs") && lost.Add(1) == 1
		})
		w.register(ctx, "a", g.kubeconfig())
		w.run(ctx, "once", held)
		Eventually(w.line).WithArguments(ctx, "once").Should(Equal("True Synced Synced Progressing 1/1"))
		Expect(lost.Load()).To(BeNumerically(">=", 1))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
		runs := w.get(ctx, "once").Status.Runs
		Expect(runs).To(HaveLen(1))
		Expect(runs[0].JobUID).To(Equal(job(ctx, "alpine", w.name, "once").UID))
	})

	It("every reply may be lost, and connections with it", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxy, kubeconfig := through(labs.Cluster("alpine"))
		w.register(ctx, "a", kubeconfig)
		Expect(proxy.SetMode(lab.DropReplies)).To(Succeed())
		w.run(ctx, "once", held)
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("Unknown Unreachable"))
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "once").Should(Equal("True Synced Synced Progressing 1/1"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
		Expect(w.get(ctx, "once").Status.Runs).To(HaveLen(1))
	})

	It("silence is noticed within a minute, and nothing is repeated when it ends", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxies := map[string]*lab.Proxy{}
		for member, cluster := range map[string]string{"hangs": "alpine", "trickles": "basalt"} {
			proxy, kubeconfig := through(labs.Cluster(cluster))
			proxies[member] = proxy
			w.register(ctx, member, kubeconfig)
		}
		w.run(ctx, "kept", held)
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal("True Synced Synced Progressing 2/2"))
		Expect(proxies["hangs"].SetMode(lab.Hang)).To(Succeed())
		Expect(proxies["trickles"].SetMode(lab.Trickle)).To(Succeed())
		for member := range proxies {
			Eventually(w.on).WithArguments(ctx, "kept", member).Should(Equal("Unknown Unknown"), member)
			Expect(w.reason(ctx, member)).To(Equal("Unknown Unreachable"), member)
			Expect(w.memberCluster(ctx, member).Status.LastHeardTime).NotTo(BeNil(), member)
		}
		Expect(w.get(ctx, "kept").Status.Clusters).To(HaveEach(HaveField("LastHeardTime", Not(BeNil()))))
		for _, proxy := range proxies {
			Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		}
		Eventually(w.line).WithArguments(ctx, "kept").Should(Equal("True Synced Synced Progressing 2/2"))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
		Expect(jobsMade("basalt", w.name)).To(Equal(1))
	})

	It("a run that ends while nobody hears is not repeated, not even when its Job no longer exists by then", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxy, kubeconfig := through(labs.Cluster("alpine"))
		w.register(ctx, "a", kubeconfig)
		w.run(ctx, "ends", held)
		w.run(ctx, "vanishes", held)
		for _, name := range []string{"ends", "vanishes"} {
			Eventually(w.line).WithArguments(ctx, name).Should(Equal("True Synced Synced Progressing 1/1"))
		}
		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		Eventually(w.on).WithArguments(ctx, "ends", "a").Should(Equal("Unknown Unknown"))
		Eventually(w.on).WithArguments(ctx, "vanishes", "a").Should(Equal("Unknown Unknown"))
		_, err := labs.Cluster("alpine").Release(ctx, w.name, "", 0)
		Expect(err).NotTo(HaveOccurred())
		for _, name := range []string{"ends", "vanishes"} {
			Eventually(func() int32 { return job(ctx, "alpine", w.name, name).Status.Succeeded }).Should(BeEquivalentTo(1))
		}
		vanished := job(ctx, "alpine", w.name, "vanishes")
		Expect(admins["alpine"].Delete(ctx, vanished, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "ends").Should(Equal("True Succeeded Synced Healthy 1/1"))
		// Nobody can know how it ended: it counts as failed, and a person decides.
		Eventually(w.line).WithArguments(ctx, "vanishes").Should(Equal("False RunFailed Synced Degraded 1/1"))
		Expect(jobsMade("alpine", w.name)).To(Equal(2))
	})
})
