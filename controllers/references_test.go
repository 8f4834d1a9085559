package controllers_test

import (
	"context"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

const (
	runsOn1 = "True Synced Synced Progressing 1/1"
	canary  = "the-canary-in-the-secret"
)

var travels = map[string]string{v1alpha1.LabelPropagate: "true"}

// secretIn returns a Secret with one key, token.
func secretIn(namespace, name string, labels map[string]string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Data:       map[string][]byte{"token": []byte(canary)},
	}
}

// using is a FleetMiniCluster, not created yet, whose container takes a variable from key token of a Secret.
func (w *world) using(name, secret string) *v1alpha1.FleetMiniCluster {
	f := w.fmc(name, held)
	f.Spec.MiniCluster.Containers[0].Secrets = map[string]fluxv1alpha2.Secret{"TOKEN": {Name: secret, Key: "token"}}
	return f
}

func put(ctx context.Context, c client.Client, objects ...client.Object) {
	GinkgoHelper()
	for _, obj := range objects {
		Expect(c.Create(ctx, obj)).To(Succeed())
	}
}

// secretOn returns a Secret of a cluster, or nil.
func secretOn(ctx context.Context, c client.Client, namespace, name string) *corev1.Secret {
	var s corev1.Secret
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &s); err != nil {
		return nil
	}
	return &s
}

func tokenOn(ctx context.Context, c client.Client, namespace, name string) string {
	if s := secretOn(ctx, c, namespace, name); s != nil {
		return string(s.Data["token"])
	}
	return ""
}

// entry is what the status says of a member: REASON, and the message.
func (w *world) entry(ctx context.Context, name, member string) (reason, message string) {
	for _, c := range w.get(ctx, name).Status.Clusters {
		if c.Name == w.member(member) {
			return c.Reason, c.Message
		}
	}
	return "", ""
}

// expectHeldBack expects that a member waits, saying all of the parts, in its entry, the Ready condition and an
// event, and that no run of it is in the ledger.
func (w *world) expectHeldBack(ctx context.Context, name, member, reason string, parts ...string) {
	GinkgoHelper()
	Eventually(func() string { r, _ := w.entry(ctx, name, member); return r }).Should(Equal(reason))
	_, message := w.entry(ctx, name, member)
	f := w.get(ctx, name)
	ready := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady)
	Expect(string(ready.Status) + " " + ready.Reason).To(Equal("False " + reason))
	for _, word := range parts {
		Expect(message).To(ContainSubstring(word))
		Expect(ready.Message).To(ContainSubstring(word))
	}
	Eventually(w.events).WithArguments(ctx, name).Should(ContainElement(reason))
	Expect(f.Status.Runs).NotTo(ContainElement(HaveField("Cluster", w.member(member))))
}

var _ = Describe("Secrets and ConfigMaps that a MiniCluster names", func() {
	var w *world
	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
	})
	alpine := func() client.Client { return admins["alpine"] }

	It("are copied with type and content alone, follow the hub, and are put back", func(ctx SpecContext) {
		pull := secretIn(w.name, "pull", travels)
		pull.Type, pull.Data = corev1.SecretTypeDockerConfigJson, map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`)}
		token := secretIn(w.name, "token", map[string]string{v1alpha1.LabelPropagate: "true", "theirs": "x"})
		token.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": canary}
		input := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "input", Labels: travels},
			Data:       map[string]string{"in": "1"}, BinaryData: map[string][]byte{"bin": {0xff}}, Immutable: ptr.To(true),
		}
		put(ctx, hub, pull, token, input)
		f := w.using("travel", "token")
		f.Spec.MiniCluster.Containers[0].ImagePullSecret = "pull"
		f.Spec.MiniCluster.Containers[0].Volumes = map[string]fluxv1alpha2.ContainerVolume{
			"input": {Path: "/in", ConfigMapName: "input", Items: map[string]string{"in": "in", "bin": "bin"}},
		}
		put(ctx, hub, f)
		Eventually(w.line).WithArguments(ctx, "travel").Should(Equal(runsOn1))

		Expect(secretOn(ctx, alpine(), w.name, "pull").Type).To(Equal(corev1.SecretTypeDockerConfigJson))
		Expect(secretOn(ctx, alpine(), w.name, "pull").Data).To(Equal(pull.Data))
		copied := secretOn(ctx, alpine(), w.name, "token")
		Expect(copied.Data).To(Equal(token.Data))
		Expect(copied.Labels).NotTo(Or(HaveKey("theirs"), HaveKey(v1alpha1.LabelPropagate)))
		for _, value := range copied.Annotations {
			Expect(value).NotTo(ContainSubstring(canary))
		}
		var config corev1.ConfigMap
		Expect(alpine().Get(ctx, client.ObjectKeyFromObject(input), &config)).To(Succeed())
		Expect(config.Data).To(Equal(input.Data))
		Expect(config.BinaryData).To(Equal(input.BinaryData))
		Expect(config.Immutable).To(HaveValue(BeTrue()))

		By("changing what can be changed, and what has to be replaced")
		token.Data = map[string][]byte{"token": []byte("second")}
		Expect(hub.Update(ctx, token)).To(Succeed())
		Expect(hub.Delete(ctx, input)).To(Succeed())
		input.ObjectMeta = metav1.ObjectMeta{Namespace: w.name, Name: "input", Labels: travels}
		input.Data, input.Immutable = map[string]string{"in": "2"}, nil
		put(ctx, hub, input)
		Eventually(tokenOn).WithArguments(ctx, alpine(), w.name, "token").Should(Equal("second"))
		Eventually(func() map[string]string {
			_ = alpine().Get(ctx, client.ObjectKeyFromObject(input), &config)
			return config.Data
		}).Should(Equal(input.Data))
		Eventually(w.events).WithArguments(ctx, "travel").Should(ContainElement("ReferenceUpdated"))

		By("editing and deleting it on the member")
		copied = secretOn(ctx, alpine(), w.name, "token")
		copied.Data["token"], copied.Data["more"] = []byte("edited"), []byte("x")
		Expect(alpine().Update(ctx, copied)).To(Succeed())
		Eventually(func() map[string][]byte { return secretOn(ctx, alpine(), w.name, "token").Data }).Should(Equal(token.Data))
		Eventually(w.events).WithArguments(ctx, "travel").Should(ContainElement("DriftRepaired"))
		uid := copied.UID
		Expect(alpine().Delete(ctx, copied)).To(Succeed())
		Eventually(func() bool {
			s := secretOn(ctx, alpine(), w.name, "token")
			return s != nil && s.UID != uid && string(s.Data["token"]) == "second"
		}).Should(BeTrue())
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
		expectNoCanary()
	})

	It("stay until the last one that uses them is deleted", func(ctx SpecContext) {
		put(ctx, hub, secretIn(w.name, "token", travels))
		passing := []string{"p1", "p2", "p3", "p4", "p5", "p6"}
		all := append([]string{"two", "three"}, passing...)
		for _, name := range all {
			put(ctx, hub, w.using(name, "token"))
		}
		for _, name := range all {
			Eventually(w.line).WithArguments(ctx, name).Should(Equal(runsOn1))
		}
		users := func() []string {
			var out []string
			for key, name := range secretOn(ctx, alpine(), w.name, "token").Annotations {
				if strings.HasPrefix(key, v1alpha1.AnnotationUserPrefix) {
					out = append(out, strings.TrimPrefix(name, w.name+"/"))
				}
			}
			return out
		}
		Expect(users()).To(ConsistOf(all))
		uid := secretOn(ctx, alpine(), w.name, "token").UID
		for _, name := range passing {
			Expect(hub.Delete(ctx, w.get(ctx, name))).To(Succeed())
		}
		for _, name := range passing {
			Eventually(w.exists).WithArguments(ctx, name).Should(BeFalse())
		}
		Expect(users()).To(ConsistOf("two", "three"))
		Expect(secretOn(ctx, alpine(), w.name, "token").UID).To(Equal(uid))

		By("not naming it any more, while the run that needs it is live, and then ending that")
		two := w.get(ctx, "two")
		two.Spec.MiniCluster.Containers[0].Secrets = nil
		Expect(hub.Update(ctx, two)).To(Succeed())
		Eventually(func() string { r, _ := w.entry(ctx, "two", "a"); return r }).Should(Equal("WaitingForCompletion"))
		Expect(users()).To(ConsistOf("two", "three"))
		two = w.get(ctx, "two")
		two.Spec.OnChange = v1alpha1.Replace
		Expect(hub.Update(ctx, two)).To(Succeed())
		Eventually(users).Should(ConsistOf("three"))
		Eventually(w.line).WithArguments(ctx, "two").Should(Equal(runsOn1))

		Expect(hub.Delete(ctx, w.get(ctx, "three"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "three").Should(BeFalse())
		Expect(secretOn(ctx, alpine(), w.name, "token")).To(BeNil())
	})

	It("are waited for where they are missing, and told, and the run then starts once", func(ctx SpecContext) {
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
		put(ctx, admins["basalt"], w.onMember(), secretIn(w.name, "token", nil))
		put(ctx, hub, w.using("waits", "token"))
		w.expectHeldBack(ctx, "waits", "a", "ReferenceMissing",
			"Secret token", "spec.miniCluster.containers[0].secrets[TOKEN]", w.name, v1alpha1.LabelPropagate+"=true")
		By("running where the member has its own")
		Eventually(w.on).WithArguments(ctx, "waits", "b").Should(Equal("Synced Progressing"))
		Expect(secretOn(ctx, admins["basalt"], w.name, "token").Annotations).To(BeEmpty())

		By("creating it without the label")
		offered := secretIn(w.name, "token", nil)
		put(ctx, hub, offered)
		Eventually(func() string { _, m := w.entry(ctx, "waits", "a"); return m }).Should(ContainSubstring("label secret token"))
		Expect(secretOn(ctx, alpine(), w.name, "token")).To(BeNil())
		Expect(jobsMade("alpine", w.name)).To(BeZero())
		offered.Labels = travels
		Expect(hub.Update(ctx, offered)).To(Succeed())
		Eventually(w.on).WithArguments(ctx, "waits", "a").Should(Equal("Synced Progressing"))
		Expect(tokenOn(ctx, alpine(), w.name, "token")).To(Equal(canary))
		Expect(jobsMade("alpine", w.name)).To(Equal(1))
		Expect(jobsMade("basalt", w.name)).To(Equal(1))

		By("finding the member's own untouched when all is over")
		Expect(hub.Delete(ctx, w.get(ctx, "waits"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "waits").Should(BeFalse())
		Expect(secretOn(ctx, alpine(), w.name, "token")).To(BeNil())
		Expect(tokenOn(ctx, admins["basalt"], w.name, "token")).To(Equal(canary))
		expectNoCanary()
	})

	It("are told by the key that they lack, and by a type that does not travel", func(ctx SpecContext) {
		put(ctx, hub, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "token", Labels: travels}})
		put(ctx, hub, w.using("keyless", "token"))
		w.expectHeldBack(ctx, "keyless", "a", "ReferenceMissing", "has no key token", "spec.miniCluster.containers[0].secrets[TOKEN]")

		account := secretIn(w.name, "account", travels)
		account.Type = corev1.SecretTypeServiceAccountToken
		account.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
		put(ctx, hub, account)
		put(ctx, hub, w.using("tokens", "account"))
		w.expectHeldBack(ctx, "tokens", "a", "ReferenceMissing", "kubernetes.io/service-account-token")
		Expect(secretOn(ctx, alpine(), w.name, "account")).To(BeNil())
	})

	It("are not written over what the member has of others", func(ctx SpecContext) {
		theirs := secretIn(w.name, "token", nil)
		theirs.Data = map[string][]byte{"token": []byte("theirs")}
		put(ctx, alpine(), w.onMember(), theirs)
		put(ctx, hub, secretIn(w.name, "token", travels), w.using("clash", "token"))
		w.expectHeldBack(ctx, "clash", "a", "NameConflict", "Secret "+w.name+"/token", "remove it", v1alpha1.LabelPropagate)
		Expect(tokenOn(ctx, alpine(), w.name, "token")).To(Equal("theirs"))
		Expect(jobsMade("alpine", w.name)).To(BeZero())
		Expect(alpine().Delete(ctx, theirs)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "clash").Should(Equal(runsOn1))
		Expect(tokenOn(ctx, alpine(), w.name, "token")).To(Equal(canary))
	})

	It("stay for a live run when the hub takes them back, and go with it", func(ctx SpecContext) {
		offered := secretIn(w.name, "token", travels)
		put(ctx, hub, offered, w.using("live", "token"))
		Eventually(w.line).WithArguments(ctx, "live").Should(Equal(runsOn1))
		offered.Labels = nil
		Expect(hub.Update(ctx, offered)).To(Succeed())
		Eventually(func() string { r, _ := w.entry(ctx, "live", "a"); return r }).Should(Equal("ReferenceWithdrawn"))
		Expect(w.line(ctx, "live")).To(Equal(runsOn1))
		Expect(tokenOn(ctx, alpine(), w.name, "token")).To(Equal(canary))

		By("not giving it to another one")
		put(ctx, hub, w.using("unlabelled", "token"))
		w.expectHeldBack(ctx, "unlabelled", "a", "ReferenceMissing", "lacks the label")

		By("ending the run")
		Eventually(func() error {
			f := w.get(ctx, "live")
			f.Spec.MiniCluster.Containers[0].Command = "false"
			f.Spec.OnChange = v1alpha1.Replace
			return hub.Update(ctx, f)
		}).Should(Succeed())
		Eventually(secretOn).WithArguments(ctx, alpine(), w.name, "token").Should(BeNil())
		Eventually(func() string { r, _ := w.entry(ctx, "live", "a"); return r }).Should(Equal("ReferenceMissing"))
	})

	It("are released by those that are deleted, whatever came in between", func(ctx SpecContext) {
		put(ctx, hub, secretIn(w.name, "token", travels), w.using("stays", "token"))
		Eventually(w.line).WithArguments(ctx, "stays").Should(Equal(runsOn1))
		By("finding users of a copy that are no more, as after a member was away when they were deleted")
		fleetID := secretOn(ctx, alpine(), w.name, "token").Annotations[v1alpha1.AnnotationFleetID]
		left := secretIn(w.name, "left", map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelCopy: "true"})
		left.Annotations = map[string]string{
			v1alpha1.AnnotationFleetID: fleetID, v1alpha1.AnnotationCopyOf: w.name + "/left", v1alpha1.AnnotationCopyOfUID: "x",
			v1alpha1.AnnotationUserPrefix + "1": w.name + "/deleted", v1alpha1.AnnotationUserPrefix + "2": w.name + "/stays",
		}
		other := left.DeepCopy()
		other.Name, other.Annotations[v1alpha1.AnnotationFleetID] = "other", "another hub"
		put(ctx, alpine(), left, other)
		Eventually(secretOn).WithArguments(ctx, alpine(), w.name, "left").Should(BeNil())
		Consistently(secretOn).WithArguments(ctx, alpine(), w.name, "other").ShouldNot(BeNil())
		Expect(tokenOn(ctx, alpine(), w.name, "token")).To(Equal(canary))
	})
})

var _ = Describe("Secrets and ConfigMaps that a MiniCluster names, on a member", func() {
	It("that is the hub, are in place, and stay", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "h", labs.Cluster("hub").Kubeconfig(), targeting(v1alpha1.TargetNamespaces{
			Names: []v1alpha1.TargetNamespace{{Namespace: w.name, Target: w.name}},
		}))
		put(ctx, hub, w.using("home", "token"))
		w.expectHeldBack(ctx, "home", "h", "ReferenceMissing", "create it there")
		offered := secretIn(w.name, "token", travels)
		put(ctx, hub, offered)
		Eventually(w.line).WithArguments(ctx, "home").Should(Equal(runsOn1))
		Expect(hub.Delete(ctx, w.get(ctx, "home"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "home").Should(BeFalse())
		after := secretOn(ctx, hub, w.name, "token")
		Expect(after).NotTo(BeNil())
		Expect(after.ResourceVersion).To(Equal(offered.ResourceVersion))
	})

	It("that gives one namespace, with no more rights than config/member gives, are kept apart", func(ctx SpecContext) {
		w := newWorld(ctx)
		user, site, second := w.name+"-user", w.name+"-site", w.name+"-second"
		put(ctx, admins["basalt"], &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: site}})
		w.makeNamespace(ctx, second)
		grant(ctx, "basalt", "namespaced", site, user)
		kubeconfig, err := labs.Cluster("basalt").KubeconfigFor(user)
		Expect(err).NotTo(HaveOccurred())
		w.register(ctx, "b", kubeconfig, confinedTo(site))
		put(ctx, hub, secretIn(w.name, "token", travels), w.using("first", "token"))
		Eventually(w.line).WithArguments(ctx, "first").Should(Equal(runsOn1))
		Expect(tokenOn(ctx, admins["basalt"], site, "token")).To(Equal(canary))
		before := len(refusals("basalt", user)) // what it asks for once to learn its limits

		By("not mixing two of a name from two namespaces")
		mine := secretIn(second, "token", travels)
		mine.Data = map[string][]byte{"token": []byte("second")}
		f := w.using("second", "token")
		f.Namespace = second
		put(ctx, hub, mine, f)
		Eventually(func() string { return statusReason(fmcIn(ctx, second, "second").Status.Conditions) }).Should(Equal("False NameConflict"))
		Expect(fmcIn(ctx, second, "second").Status.Conditions).To(ContainElement(HaveField("Message", And(
			ContainSubstring("is what another namespace of the hub has there"), Not(ContainSubstring(w.name+"/token"))))))
		Expect(tokenOn(ctx, admins["basalt"], site, "token")).To(Equal(canary))
		By("not lending one to a namespace that has none")
		mine.Labels = nil
		Expect(hub.Update(ctx, mine)).To(Succeed())
		Eventually(func() string { return statusReason(fmcIn(ctx, second, "second").Status.Conditions) }).Should(Equal("False ReferenceMissing"))

		mine.Labels = travels
		Expect(hub.Update(ctx, mine)).To(Succeed())
		Expect(hub.Delete(ctx, w.get(ctx, "first"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "first").Should(BeFalse())
		Eventually(func() string { return statusReason(fmcIn(ctx, second, "second").Status.Conditions) }).Should(Equal("True Synced"))
		Expect(tokenOn(ctx, admins["basalt"], site, "token")).To(Equal("second"))
		Expect(refusals("basalt", user)).To(HaveLen(before))
	})

	It("that is taken away and comes back, are released there", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		put(ctx, hub, secretIn(w.name, "token", travels), w.using("orphan", "token"))
		Eventually(w.line).WithArguments(ctx, "orphan").Should(Equal(runsOn1))
		Expect(hub.Delete(ctx, w.memberCluster(ctx, "a"))).To(Succeed())
		Eventually(w.on).WithArguments(ctx, "orphan", "a").Should(Equal("Unknown Unknown"))
		Expect(hub.Delete(ctx, w.get(ctx, "orphan"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "orphan").Should(BeFalse())
		Expect(tokenOn(ctx, admins["alpine"], w.name, "token")).To(Equal(canary))
		w.enroll(ctx, "a")
		Eventually(secretOn).WithArguments(ctx, admins["alpine"], w.name, "token").Should(BeNil())
	})

	It("are not written when MiniFleet restarts, nor read more often than is due", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		put(ctx, hub, secretIn(w.name, "token", travels), w.using("calm", "token"))
		Eventually(w.line).WithArguments(ctx, "calm").Should(Equal(runsOn1))
		Consistently(w.line).WithArguments(ctx, "calm").Should(Equal(runsOn1))
		onMember, onHub := writesAbout("alpine", w.name), about(writesAbout("hub", w.name), "/calm")
		Expect(minifleet.Kill()).To(Succeed())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		reads := func() []lab.AuditEvent {
			return audit("hub", func(e *lab.AuditEvent) bool {
				return e.UserAgent == "minifleet" && e.Object != nil && e.Object.Namespace == w.name && e.Object.Name == "token"
			})
		}
		before := len(reads())
		Eventually(func() int { return len(reads()) }).Should(BeNumerically(">", before), "it reads again")
		Expect(writesAbout("alpine", w.name)).To(Equal(onMember))
		Expect(about(writesAbout("hub", w.name), "/calm")).To(Equal(onHub))
		for _, e := range reads() {
			Expect(e.Verb).To(Equal("get"))
		}
	})
})

// expectNoCanary expects that the content of a Secret is in no object that MiniFleet writes, nor in its log.
func expectNoCanary() {
	GinkgoHelper()
	Expect(kubectl("", "get", "fmc,events.events.k8s.io", "--all-namespaces", "-o", "yaml")).NotTo(ContainSubstring(canary))
	log, err := os.ReadFile(minifleet.LogPath())
	Expect(err).NotTo(HaveOccurred())
	Expect(strings.Contains(string(log), canary)).To(BeFalse(), "it is in the log")
}
