package e2e

import (
	"context"
	"regexp"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

var secretLine = regexp.MustCompile(`secret-key *= *"([^"]+)"`)

// secretKey is the secret key in a certificate file.
func secretKey(cert string) string {
	if m := secretLine.FindStringSubmatch(cert); m != nil {
		return m[1]
	}
	return ""
}

var _ = Describe("Faults", func() {
	It("runs nothing twice when the controller is killed in the middle", func(ctx SpecContext) {
		w := newWorld(ctx)
		files := map[string]string{}
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			files[name+".yaml"] = miniCluster("kill-" + name).on("south").lasting(4).yaml()
		}
		w.commit("add six", files)
		// Killed while it is at work: as soon as the first Jobs are there.
		Eventually(func() int { return w.jobsMade("") }).WithPolling(second / 100).Should(BeNumerically(">", 0))
		Expect(controller.Kill()).To(Succeed())
		Expect(controller.Start()).To(Succeed())
		Eventually(func() int { return w.jobsMade("") }).WithPolling(second / 100).Should(BeNumerically(">=", 6))
		Expect(controller.Kill()).To(Succeed())
		Expect(controller.Start()).To(Succeed())
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			Eventually(w.line).WithArguments(ctx, "kill-"+name).Should(Equal("True Synced Healthy 2/2 4/4"))
			runs := w.fmc(ctx, "kill-"+name).Status.Runs
			Expect(runs).To(HaveLen(2))
			for _, r := range runs {
				// The Job that ran is the only one that ever was: its UID is the one that was seen first.
				Expect(w.job(ctx, r.Cluster, "kill-"+name).UID).To(Equal(r.JobUID))
				Expect(w.job(ctx, r.Cluster, "kill-"+name).Status.Succeeded).To(BeNumerically(">=", 1)) // the lead's end is the run's
			}
		}
		Expect(w.jobsMade("")).To(BeNumerically("<=", 12))
		Expect(w.jobsDeleted()).To(BeZero())
	})

	It("says Unknown of a member that stops, keeps the others going, and recovers", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add", map[string]string{"a.yaml": miniCluster("split").on("south").held().yaml()})
		Eventually(w.line).WithArguments(ctx, "split").Should(Equal("True Synced Progressing 2/2 4/4"))

		Expect(fleet.Cluster("basalt").StopAPIServer()).To(Succeed())
		stopped := true
		DeferCleanup(func(ctx SpecContext) {
			if stopped {
				Expect(fleet.Cluster("basalt").StartAPIServer(ctx)).To(Succeed())
			}
		})
		Eventually(w.cluster).WithArguments(ctx, "split", "basalt").Should(Equal("Unknown Unknown"))
		Expect(w.cluster(ctx, "split", "cinder")).To(Equal("Synced Progressing"))
		Expect(w.ready(ctx, "split")).To(Equal("Unknown MemberUnreachable"))
		Expect(memberCondition(ctx, "basalt")).To(Equal("Unknown Unreachable"))
		Expect(w.fmc(ctx, "split").Status.Clusters).To(ContainElement(HaveField("LastHeardTime", Not(BeNil()))))

		w.commit("add one more", map[string]string{"b.yaml": miniCluster("other").yaml()})
		Eventually(w.line).WithArguments(ctx, "other").Should(HavePrefix("True Synced Healthy 1/1"))
		Expect(w.fmc(ctx, "other").Status.Placement.Clusters).To(Equal([]string{"alpine"}), "nothing new goes to a member that cannot be reached")
		_, err := fleet.Cluster("cinder").Release(ctx, w.name, "", 0)
		Expect(err).NotTo(HaveOccurred())
		Eventually(w.cluster).WithArguments(ctx, "split", "cinder").Should(Equal("Synced Healthy"))

		Expect(fleet.Cluster("basalt").StartAPIServer(ctx)).To(Succeed())
		stopped = false
		Eventually(w.cluster).WithArguments(ctx, "split", "basalt").Should(Equal("Synced Progressing"))
		_, err = fleet.Cluster("basalt").Release(ctx, w.name, "", 0)
		Expect(err).NotTo(HaveOccurred())
		Eventually(w.line).WithArguments(ctx, "split").Should(Equal("True Synced Healthy 2/2 4/4"))
		Expect(w.jobsMade("")).To(Equal(3))
	})

	It("notices a member that hangs", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add", map[string]string{"a.yaml": miniCluster("hung").on("south").held().yaml()})
		Eventually(w.line).WithArguments(ctx, "hung").Should(HavePrefix("True Synced Progressing 2/2"))
		Expect(fleet.Cluster("cinder").PauseAPIServer()).To(Succeed())
		DeferCleanup(func() { _ = fleet.Cluster("cinder").ResumeAPIServer() })
		Eventually(w.cluster).WithArguments(ctx, "hung", "cinder").Should(Equal("Unknown Unknown"))
		Expect(fleet.Cluster("cinder").ResumeAPIServer()).To(Succeed())
		Eventually(w.cluster).WithArguments(ctx, "hung", "cinder").Should(Equal("Synced Progressing"))
		Expect(w.jobsMade("")).To(Equal(2))
	})

	It("does not repeat a run whose finished Job was deleted, not even after a restart", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add", map[string]string{"a.yaml": miniCluster("once").on("north").yaml()})
		Eventually(w.line).WithArguments(ctx, "once").Should(Equal("True Synced Healthy 1/1 2/2"))
		Expect(members["alpine"].Delete(ctx, w.job(ctx, "alpine", "once"), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Consistently(w.line, 3*second).WithArguments(ctx, "once").Should(Equal("True Synced Healthy 1/1 2/2"))
		Expect(controller.Kill()).To(Succeed())
		Expect(controller.Start()).To(Succeed())
		w.commit("add another, to see that it is at work", map[string]string{"b.yaml": miniCluster("witness").on("north").yaml()})
		Eventually(w.line).WithArguments(ctx, "witness").Should(HavePrefix("True Synced Healthy"))
		Expect(w.line(ctx, "once")).To(Equal("True Synced Healthy 1/1 2/2"))
		Expect(w.jobsMade("")).To(Equal(2))
	})

	It("calls a live Job that somebody deletes a failure, and runs it again only when asked to", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add", map[string]string{"a.yaml": miniCluster("cut").on("north").held().yaml()})
		Eventually(w.line).WithArguments(ctx, "cut").Should(HavePrefix("True Synced Progressing"))
		Expect(members["alpine"].Delete(ctx, w.job(ctx, "alpine", "cut"), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "cut").Should(HavePrefix("False Synced Degraded 1/1"))
		Expect(w.ready(ctx, "cut")).To(Equal("False RunFailed"))
		Consistently(func() int { return w.jobsMade("") }, 3*second).Should(Equal(1))
		w.kubectl("annotate", "fmc", "cut", "minifleet.dev/rerun-at=again")
		Eventually(func() int { return w.jobsMade("") }).Should(Equal(2))
		Eventually(func() string { return w.fmc(ctx, "cut").Status.LastHandledRerunAt }).Should(Equal("again"))
	})

	It("never takes over somebody else's Job", func(ctx SpecContext) {
		w := newWorld(ctx)
		Expect(members["alpine"].Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name, Labels: map[string]string{v1alpha1.LabelHubNamespace: w.name}}})).To(Succeed())
		theirs := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "taken"}}
		theirs.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "x", Image: "example.org/x"}}}
		Expect(members["alpine"].Create(ctx, theirs)).To(Succeed())
		w.commit("add", map[string]string{"a.yaml": miniCluster("taken").on("north").yaml()})
		Eventually(w.ready).WithArguments(ctx, "taken").Should(Equal("False NameConflict"))
		Eventually(w.events).WithArguments(ctx, "taken").Should(ContainElement("NameConflict"))
		Expect(w.job(ctx, "alpine", "taken").UID).To(Equal(theirs.UID))

		w.kubectl("delete", "fmc", "taken", "--wait=false")
		w.commit("remove", map[string]string{"a.yaml": "", "b.yaml": miniCluster("another").yaml()})
		Eventually(func() string { return w.sourceReady(ctx).Reason }).Should(Equal("Succeeded"))
		Expect(w.job(ctx, "alpine", "taken").UID).To(Equal(theirs.UID), "and never deletes it")
	})

	It("puts back what somebody edits or deletes beside a run", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add", map[string]string{"a.yaml": miniCluster("drift").on("north").held().yaml()})
		Eventually(w.line).WithArguments(ctx, "drift").Should(HavePrefix("True Synced Progressing"))
		var maps corev1.ConfigMapList
		Expect(members["alpine"].List(ctx, &maps, client.InNamespace(w.name), client.MatchingLabels{v1alpha1.LabelOwner: "drift"})).To(Succeed())
		Expect(maps.Items).To(HaveLen(1))
		original := maps.Items[0].DeepCopy()
		edited := original.DeepCopy()
		for k := range edited.Data {
			edited.Data[k] = "overwritten"
		}
		Expect(members["alpine"].Update(ctx, edited)).To(Succeed())
		Eventually(func() map[string]string { return configMap(ctx, original).Data }).Should(Equal(original.Data))
		Expect(members["alpine"].Delete(ctx, original)).To(Succeed())
		Eventually(func() map[string]string { return configMap(ctx, original).Data }).Should(Equal(original.Data))
		Eventually(func() []string { return w.events(ctx, "drift") }).Should(ContainElement("DriftRepaired"))
		Expect(w.jobsMade("")).To(Equal(1))
	})

	It("sends no write and no request while nothing changes", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.commit("add", map[string]string{"a.yaml": miniCluster("idle").on("south").yaml(), "b.yaml": miniCluster("idle-live").on("north").held().yaml()})
		Eventually(w.line).WithArguments(ctx, "idle").Should(HavePrefix("True Synced Healthy"))
		Eventually(w.line).WithArguments(ctx, "idle-live").Should(HavePrefix("True Synced Progressing 1/1 2/2"))
		before := map[string][]string{}
		everything := []string{"hub", "alpine", "basalt", "cinder"}
		// What is still settling ends first: the capacity reports follow the last pods by seconds.
		Eventually(func(g Gomega) {
			for _, c := range everything {
				now := ownWrites(c)
				same := slices.Equal(before[c], now)
				before[c] = now
				g.Expect(same).To(BeTrue())
			}
		}).WithPolling(3 * second).Should(Succeed())
		Consistently(func(g Gomega) {
			for _, c := range everything {
				g.Expect(ownWrites(c)).To(Equal(before[c]), c)
			}
		}, 15*second, second).Should(Succeed())
	})
})

// cluster is SYNC HEALTH of one member's line.
func (w *world) cluster(ctx context.Context, name, member string) string {
	for _, c := range w.fmc(ctx, name).Status.Clusters {
		if c.Name == member {
			return string(c.Sync) + " " + string(c.Health)
		}
	}
	return ""
}

func configMap(ctx context.Context, like *corev1.ConfigMap) *corev1.ConfigMap {
	var m corev1.ConfigMap
	_ = members["alpine"].Get(ctx, client.ObjectKeyFromObject(like), &m)
	return &m
}
