package controllers_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/curvesecret"
	"github.com/minifleet/minifleet/hack/lab"
)

// managerAccount is who the manager is on the hub.
const managerAccount = "system:serviceaccount:" + managerNamespace + ":minifleet-controller-manager"

// certificateKey is where the certificate of a FleetMiniCluster is.
func certificateKey(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: managerNamespace, Name: curvesecret.Name(types.NamespacedName{Namespace: namespace, Name: name})}
}

// rendered are the documents of a kustomization of this repository that are of these kinds.
func rendered(directory string, kinds ...string) string {
	GinkgoHelper()
	root, err := lab.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	var out []string
	for _, document := range strings.Split(kubectl("", "kustomize", filepath.Join(root, directory)), "\n---\n") {
		for line := range strings.Lines(document) {
			if kind, is := strings.CutPrefix(strings.TrimSpace(line), "kind: "); is && !strings.HasPrefix(line, " ") && slices.Contains(kinds, kind) {
				out = append(out, document)
			}
		}
	}
	Expect(out).NotTo(BeEmpty())
	return strings.Join(out, "\n---\n")
}

// asDeployed restarts MiniFleet with the rights that config/default gives it, until the end of the test.
func asDeployed() {
	GinkgoHelper()
	installRights()
	Expect(minifleet.Kill()).To(Succeed())
	startDeployed()
	DeferCleanup(func(context.Context) {
		Expect(minifleet.Kill()).To(Succeed())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
	})
}

func installRights() {
	GinkgoHelper()
	manifests := rendered("config/default", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
	kubectl(manifests, "apply", "--server-side", "-f", "-")
}

// startDeployed starts MiniFleet as who it is deployed as.
func startDeployed() {
	GinkgoHelper()
	kubeconfig, err := labs.Cluster("hub").KubeconfigFor(managerAccount)
	Expect(err).NotTo(HaveOccurred())
	startMinifleet(kubeconfig)
}

// asEarlier puts the certificate of a FleetMiniCluster where an earlier version kept it, while MiniFleet is down, and has
// the hub forget that it ever was elsewhere.
func (w *world) asEarlier(ctx context.Context, name string) {
	GinkgoHelper()
	now := secretOn(ctx, hub, managerNamespace, certificateKey(w.name, name).Name)
	Expect(now).NotTo(BeNil())
	put(ctx, hub, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.name, Name: name + ".curve",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.get(ctx, name), v1alpha1.GroupVersion.WithKind("FleetMiniCluster"))},
		},
		Data: now.Data,
	})
	Expect(hub.Delete(ctx, now)).To(Succeed())
	begun := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: "curve-certificates"}}
	Expect(client.IgnoreNotFound(hub.Delete(ctx, begun))).To(Succeed())
}

// certificateOn is what a cluster has of the certificate of a MiniCluster.
func certificateOn(ctx context.Context, cluster, namespace, name string) string {
	if s := secretOn(ctx, admins[cluster], namespace, name+"-curve"); s != nil {
		return string(s.Data[curvesecret.DataKey])
	}
	return ""
}

// kept is the certificate of a FleetMiniCluster in the manager's namespace.
func (w *world) kept(ctx context.Context, name string) string {
	if s := secretOn(ctx, hub, managerNamespace, certificateKey(w.name, name).Name); s != nil {
		return string(s.Data[curvesecret.DataKey])
	}
	return ""
}

// bindingMessage is what the Ready condition says of a FleetMiniCluster whose Secrets MiniFleet may not read.
func (w *world) bindingMessage(ctx context.Context, name string) string {
	return says(w.get(ctx, name).Status.Conditions)
}

var _ = Describe("MiniFleet with the rights that it is deployed with", func() {
	It("reads Secrets of a namespace only where that is bound, waits for that, and touches nothing when it is taken back", func(ctx SpecContext) {
		asDeployed()
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())

		By("running what names no Secret, with its key where tenants have no rights")
		w.run(ctx, "plain", held)
		Eventually(w.line).WithArguments(ctx, "plain").Should(Equal(runsOn1))
		Expect(w.kept(ctx, "plain")).NotTo(BeEmpty())
		Expect(certificateOn(ctx, "alpine", w.name, "plain")).To(Equal(w.kept(ctx, "plain")))
		var own corev1.SecretList
		Expect(hub.List(ctx, &own, client.InNamespace(w.name))).To(Succeed())
		Expect(own.Items).To(BeEmpty())
		Expect(hub.Delete(ctx, w.get(ctx, "plain"))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "plain").Should(BeFalse())
		Expect(w.kept(ctx, "plain")).To(BeEmpty(), "the key is deleted with it")

		By("waiting where a Secret is named, though the member has one of its own")
		put(ctx, hub, secretIn(w.name, "token", travels))
		put(ctx, admins["alpine"], secretIn(w.name, "token", nil))
		put(ctx, hub, w.using("app", "token"))
		command := "kubectl -n " + w.name + " create rolebinding minifleet-secrets --clusterrole=minifleet-secret-reader --serviceaccount=minifleet-system:minifleet-controller-manager"
		w.expectHeldBack(ctx, "app", "a", "BindingMissing", "Secret token, named by spec.miniCluster.containers[0].secrets[TOKEN]", command)
		Expect(w.line(ctx, "app")).NotTo(ContainSubstring("Degraded"))
		Expect(admins["alpine"].Delete(ctx, secretIn(w.name, "token", nil))).To(Succeed())
		r := w.newRepository(ctx)
		r.commit(map[string]string{"harmless.yaml": harmlessFile})
		source := r.source(ctx)
		from := func(url string, secret *v1alpha1.LocalReference) {
			GinkgoHelper()
			Eventually(func() error {
				s := source()
				s.Spec.URL, s.Spec.SecretRef = url, secret
				return hub.Update(ctx, s)
			}).Should(Succeed())
		}
		from(r.server.URL("fleet"), nil)
		Eventually(w.exists).WithArguments(ctx, "harmless").Should(BeTrue())
		from(r.server.TLSURL("fleet"), &v1alpha1.LocalReference{Name: "git"})
		Eventually(func() string { return statusReason(source().Status.Conditions) }).Should(Equal("False BindingMissing"))
		Expect(says(source().Status.Conditions)).To(And(ContainSubstring("spec.secretRef: "), ContainSubstring(command)))
		Expect(w.exists(ctx, "harmless")).To(BeTrue())

		By("binding the role, as the message says")
		follow(w.bindingMessage(ctx, "app"))
		Eventually(w.line).WithArguments(ctx, "app").Should(Equal(runsOn1))
		Expect(tokenOn(ctx, admins["alpine"], w.name, "token")).To(Equal(canary))
		Eventually(func() string { return statusReason(source().Status.Conditions) }).ShouldNot(Equal("False BindingMissing"))

		By("taking it back while the run is live")
		first := job(ctx, "alpine", w.name, "app")
		kubectl("", "-n", w.name, "delete", "rolebinding", "minifleet-secrets")
		Expect(hub.Delete(ctx, secretIn(w.name, "token", nil))).To(Succeed())
		Eventually(func() string { reason, _ := w.entry(ctx, "app", "a"); return reason }).Should(Equal("BindingMissing"))
		_, message := w.entry(ctx, "app", "a")
		Expect(message).To(And(HavePrefix("the copy of Secret token stays as it is: "), ContainSubstring(command)))
		Consistently(tokenOn).WithArguments(ctx, admins["alpine"], w.name, "token").Should(Equal(canary))
		Expect(job(ctx, "alpine", w.name, "app")).To(And(HaveField("UID", first.UID), HaveField("DeletionTimestamp", BeNil())))
		Expect(w.on(ctx, "app", "a")).To(HaveSuffix("Progressing"))
	})

	It("keeps the keys of live runs that an earlier version has made, where it cannot read them any more", func(ctx SpecContext) {
		asDeployed()
		w := newWorld(ctx)
		for _, name := range []string{"alpine", "basalt"} {
			w.register(ctx, name, labs.Cluster(name).Kubeconfig())
		}
		w.run(ctx, "app", held)
		Eventually(w.line).WithArguments(ctx, "app").Should(Equal("True Synced Synced Progressing 2/2"))
		key, first := w.kept(ctx, "app"), job(ctx, "alpine", w.name, "app")
		Expect(minifleet.Kill()).To(Succeed())
		w.asEarlier(ctx, "app")
		startDeployed()
		Eventually(w.reason).WithArguments(ctx, "alpine").Should(Equal("True Connected"))
		Consistently(certificateOn).WithArguments(ctx, "alpine", w.name, "app").Should(Equal(key))

		By("having one member lose its copy, which is put back from the other")
		Expect(admins["alpine"].Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "app-curve"}})).To(Succeed())
		Eventually(certificateOn).WithArguments(ctx, "alpine", w.name, "app").Should(Equal(key))
		Expect(w.kept(ctx, "app")).To(Equal(key), "from now on it is kept on the hub, where MiniFleet may read it")
		Expect(job(ctx, "alpine", w.name, "app").UID).To(Equal(first.UID))
		Expect(w.made()).To(Equal(2))
	})

	It("takes over a key of an earlier version that it may read, and deletes it where it may", func(ctx SpecContext) {
		asDeployed()
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "app", held)
		Eventually(w.line).WithArguments(ctx, "app").Should(Equal(runsOn1))
		key := w.kept(ctx, "app")
		Expect(minifleet.Kill()).To(Succeed())
		w.asEarlier(ctx, "app")
		kubectl("", "-n", w.name, "create", "role", "keys", "--verb=get,delete", "--resource=secrets")
		kubectl("", "-n", w.name, "create", "rolebinding", "keys", "--role=keys", "--serviceaccount=minifleet-system:minifleet-controller-manager")
		startDeployed()
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))
		Expect(admins["alpine"].Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "app-curve"}})).To(Succeed())
		Eventually(certificateOn).WithArguments(ctx, "alpine", w.name, "app").Should(Equal(key))
		Expect(w.kept(ctx, "app")).To(Equal(key))
		Eventually(func() *corev1.Secret { return secretOn(ctx, hub, w.name, "app.curve") }).Should(BeNil())
	})

	It("asks the members about a ledger that an earlier version may have lost, and whose key it cannot read", func(ctx SpecContext) {
		asDeployed()
		w := newWorld(ctx)
		toAlpine := w.behindProxy(ctx)
		w.onOne(ctx, "app", held, onA)
		Eventually(w.line).WithArguments(ctx, "app").Should(Equal(runs))
		key, first := w.kept(ctx, "app"), job(ctx, "alpine", w.name, "app")
		w.change(ctx, "app", onAny)
		Expect(minifleet.Kill()).To(Succeed())
		w.asEarlier(ctx, "app")
		w.changeStatus(ctx, "app", emptied)
		Expect(toAlpine.SetMode(lab.Refuse)).To(Succeed())
		startDeployed()
		Eventually(func() []string { return w.get(ctx, "app").Status.Unasked }).Should(ContainElement(w.member("a")))
		Consistently(func() int { return jobsMade("basalt", w.name) }).Should(BeZero())
		Expect(toAlpine.SetMode(lab.Forward)).To(Succeed())
		Eventually(w.line).WithArguments(ctx, "app").Should(Equal(runs))
		Expect(job(ctx, "alpine", w.name, "app").UID).To(Equal(first.UID))
		Expect(w.made()).To(Equal(1))
		Expect(w.kept(ctx, "app")).To(Equal(key), "what the run has is what the hub keeps")
		Expect(certificateOn(ctx, "alpine", w.name, "app")).To(Equal(key))
	})

	It("deletes the key of a FleetMiniCluster whose finalizer was taken off", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		w.run(ctx, "app", brief)
		Eventually(w.line).WithArguments(ctx, "app").Should(Equal(ended1))
		Expect(minifleet.Kill()).To(Succeed())
		f := w.get(ctx, "app")
		w.change(ctx, "app", func(f *v1alpha1.FleetMiniCluster) { f.Finalizers = nil })
		Expect(client.IgnoreNotFound(hub.Delete(ctx, f))).To(Succeed())
		Eventually(w.exists).WithArguments(ctx, "app").Should(BeFalse())
		Expect(w.kept(ctx, "app")).NotTo(BeEmpty())
		startMinifleet(labs.Cluster("hub").Kubeconfig())
		Eventually(w.kept).WithArguments(ctx, "app").Should(BeEmpty())
	})
})

var _ = Describe("The hub as a member of itself", func() {
	It("lets a MiniCluster use nothing that it could not use on any member", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "h", labs.Cluster("hub").Kubeconfig(), targeting(v1alpha1.TargetNamespaces{
			Names: []v1alpha1.TargetNamespace{{Namespace: w.name, Target: w.name}},
		}))
		w.run(ctx, "other", held)
		Eventually(w.line).WithArguments(ctx, "other").Should(Equal(runsOn1))
		Expect(secretOn(ctx, hub, w.name, "other-curve")).NotTo(BeNil())
		token := secretIn(w.name, "token", travels)
		token.Type, token.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "default"}
		Eventually(func() error { // the cluster makes it
			return hub.Get(ctx, client.ObjectKey{Namespace: w.name, Name: "default"}, &corev1.ServiceAccount{})
		}).Should(Succeed())
		put(ctx, hub, token)
		for name, secret := range map[string]string{"spy": "other-curve", "thief": "token"} {
			f := w.using(name, secret)
			if name == "spy" {
				f.Spec.MiniCluster.Containers[0].Secrets["TOKEN"] = fluxv1alpha2.Secret{Name: secret, Key: curvesecret.DataKey}
			}
			put(ctx, hub, f)
		}
		w.expectHeldBack(ctx, "spy", "h", "ReferenceMissing", "has none of its own")
		w.expectHeldBack(ctx, "thief", "h", "PolicyDenied", "takes the permission ServiceAccountToken")
	})

	It("starts nothing in the namespace that holds the credentials of all members", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.register(ctx, "h", labs.Cluster("hub").Kubeconfig(), confinedTo(managerNamespace))
		w.run(ctx, "app", held)
		Eventually(func() string { _, message := w.entry(ctx, "app", "h"); return message }).Should(ContainSubstring("namespace " + managerNamespace + " of the member is reserved"))
		Consistently(func() int { return jobsMade("hub", managerNamespace) }).Should(BeZero())
		Expect(meta.IsStatusConditionTrue(w.get(ctx, "app").Status.Conditions, v1alpha1.ConditionReady)).To(BeFalse())
	})
})
