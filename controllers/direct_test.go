package controllers_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/hack/lab"
)

// manifest is what somebody without Git applies; WORLD and NAMESPACE are replaced.
const manifest = `
apiVersion: minifleet.dev/v1alpha1
kind: FleetMiniCluster
metadata:
  namespace: NAMESPACE
  name: direct
spec:
  placement:
    clusterSelector:
      matchLabels:
        world: WORLD
  miniCluster:
    size: 1
    pod:
      annotations:
        ` + lab.AskHold + `: "true"
    containers:
      - image: example.org/app
        command: "true"
`

var _ = Describe("kubectl apply, without any Git,", func() {
	It("runs a FleetMiniCluster, and two of a name are kept apart in one namespace of a member", func(ctx SpecContext) {
		w := newWorld(ctx)
		site, second := w.name+"-site", w.name+"-second"
		Expect(admins["alpine"].Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: site}})).To(Succeed())
		w.makeNamespace(ctx, second)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig(), confinedTo(site))
		fill := func(namespace string) string {
			return strings.NewReplacer("WORLD", w.name, "NAMESPACE", namespace).Replace(manifest)
		}
		kubectl(fill(w.name), "apply", "-f", "-")
		Eventually(w.line).WithArguments(ctx, "direct").Should(Equal("True Synced Synced Progressing 1/1"))
		first := job(ctx, "alpine", site, "direct")

		kubectl(fill(second), "apply", "-f", "-")
		Eventually(func() string { return statusReason(fmcIn(ctx, second, "direct").Status.Conditions) }).Should(Equal("False NameConflict"))
		Expect(fmcIn(ctx, second, "direct").Status.Conditions).To(ContainElement(HaveField("Message", And(
			ContainSubstring("belongs to a FleetMiniCluster of another namespace"), Not(ContainSubstring(w.name+"/direct"))))))
		Expect(w.line(ctx, "direct")).To(Equal("True Synced Synced Progressing 1/1"))

		Expect(hub.Delete(ctx, fmcIn(ctx, second, "direct"))).To(Succeed())
		Eventually(func() bool { return fmcIn(ctx, second, "direct").UID == "" }).Should(BeTrue())
		Expect(job(ctx, "alpine", site, "direct").UID).To(Equal(first.UID), "the second one takes nothing of the first with it")
		Expect(job(ctx, "alpine", site, "direct").DeletionTimestamp).To(BeNil())
		Expect(jobsMade("alpine", site)).To(Equal(1))
	})
})
