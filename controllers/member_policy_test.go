package controllers_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/controllers/internal/curvesecret"
	"github.com/minifleet/minifleet/hack/lab"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/miniclustertest"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/render"
)

// memberAccount is who MiniFleet is on a member.
const memberAccount = "system:serviceaccount:minifleet-member:minifleet-member"

// kubectlOn runs kubectl as the administrator of a cluster.
func kubectlOn(cluster string, args ...string) {
	GinkgoHelper()
	path, before, err := lab.Binary("kubectl")
	Expect(err).NotTo(HaveOccurred())
	out, err := exec.Command(path, slices.Concat(before, []string{"--kubeconfig", labs.Cluster(cluster).KubeconfigPath()}, args)...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
}

// applied applies directories of this repository to a cluster until the end of the test.
func applied(cluster string, directories ...string) {
	GinkgoHelper()
	root, err := lab.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	for _, directory := range directories {
		path := filepath.Join(root, directory)
		kubectlOn(cluster, "apply", "--server-side", "--force-conflicts", "-k", path)
		DeferCleanup(func() { kubectlOn(cluster, "delete", "--ignore-not-found", "-k", path) })
	}
}

// clientFor is a cluster as a user sees it.
func clientFor(cluster, user string) client.Client {
	GinkgoHelper()
	kubeconfig, err := labs.Cluster(cluster).KubeconfigFor(user)
	Expect(err).NotTo(HaveOccurred())
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	cfg.QPS = -1
	scheme, err := controllers.NewScheme()
	Expect(err).NotTo(HaveOccurred())
	out, err := client.New(cfg, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return out
}

// ours are the labels of what MiniFleet makes.
var ours = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}

// podSpec is what the policy has nothing against, changed.
func podSpec(change func(*corev1.PodSpec)) corev1.PodSpec {
	spec := corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false), RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "app", Image: "example.org/app"}},
	}
	if change != nil {
		change(&spec)
	}
	return spec
}

func context0(s *corev1.PodSpec) *corev1.SecurityContext {
	s.Containers[0].SecurityContext = &corev1.SecurityContext{}
	return s.Containers[0].SecurityContext
}

const (
	beyondBaseline = "beyond the Pod Security level baseline"
	notTheToken    = "no pod may have the token that MiniFleet itself uses"
	noToken        = "spec.pod.automountServiceAccountToken"
)

// badPods are changes of a pod that the policy refuses, unless the namespace has a label that allows it.
var badPods = map[string]struct {
	change func(*corev1.PodSpec)
	says   string
}{
	"privileged": {func(s *corev1.PodSpec) { context0(s).Privileged = ptr.To(true) }, beyondBaseline},
	"capability": {func(s *corev1.PodSpec) {
		context0(s).Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}
	}, beyondBaseline},
	"host network":   {func(s *corev1.PodSpec) { s.HostNetwork = true }, beyondBaseline},
	"host processes": {func(s *corev1.PodSpec) { s.HostPID = true }, beyondBaseline},
	"host memory":    {func(s *corev1.PodSpec) { s.HostIPC = true }, beyondBaseline},
	"host port": {func(s *corev1.PodSpec) {
		s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	}, beyondBaseline},
	"no seccomp": {func(s *corev1.PodSpec) {
		context0(s).SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	}, beyondBaseline},
	"no AppArmor": {func(s *corev1.PodSpec) {
		context0(s).AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}, beyondBaseline},
	"SELinux": {func(s *corev1.PodSpec) { context0(s).SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"} }, beyondBaseline},
	"sysctl": {func(s *corev1.PodSpec) {
		s.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.shmmax", Value: "1"}}}
	}, beyondBaseline},
	"path of a node": {func(s *corev1.PodSpec) {
		s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
	}, beyondBaseline},
	"in an init container": {func(s *corev1.PodSpec) {
		s.InitContainers = []corev1.Container{{Name: "init", Image: "example.org/app", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}}}
	}, beyondBaseline},
	"service account":  {func(s *corev1.PodSpec) { s.ServiceAccountName = "admin" }, "spec.pod.serviceAccountName"},
	"token":            {func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = ptr.To(true) }, noToken},
	"token by default": {func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = nil }, noToken},
	"projected token": {func(s *corev1.PodSpec) {
		s.Volumes = projecting(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}})
	}, noToken},
	"own token, projected": {func(s *corev1.PodSpec) {
		s.Volumes = projecting(corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: ownToken}})
	}, notTheToken},
	"own token, mounted": {func(s *corev1.PodSpec) {
		s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: ownToken.Name}}}}
	}, notTheToken},
	"own token, a variable": {func(s *corev1.PodSpec) {
		s.Containers[0].Env = []corev1.EnvVar{{Name: "T", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ownToken, Key: "token"}}}}
	}, notTheToken},
	"own token, variables": {func(s *corev1.PodSpec) {
		s.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ownToken}}}
	}, notTheToken},
	"own token, to pull": {func(s *corev1.PodSpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{ownToken} }, notTheToken},
}

var ownToken = corev1.LocalObjectReference{Name: "minifleet-member-token"}

func projecting(what corev1.VolumeProjection) []corev1.Volume {
	return []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{what}}}}}
}

var _ = Describe("The policy for MiniFleet's own user on a member", func() {
	// place makes a namespace on alpine.
	place := func(ctx context.Context, name string, labels map[string]string) string {
		GinkgoHelper()
		put(ctx, admins["alpine"], &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
		return name
	}

	It("refuses what it has no need of, and what the member's administrator has not allowed", func(ctx SpecContext) {
		w := newWorld(ctx)
		applied("alpine", "config/member/cluster", "config/member/policy")
		c := clientFor("alpine", memberAccount)
		usual, reserved := place(ctx, w.name, nil), place(ctx, w.name+"-reserved", map[string]string{"minifleet.dev/reserved": "true"})
		privileged := place(ctx, w.name+"-privileged", map[string]string{"minifleet.dev/allow-privileged": "true"})
		accounts := place(ctx, w.name+"-accounts", map[string]string{"minifleet.dev/allow-service-accounts": "true"})
		try := func(obj client.Object) error { return c.Create(ctx, obj, client.DryRunAll) }
		refused := func(says string) OmegaMatcher { return MatchError(ContainSubstring(says)) }
		named := func(namespace string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: namespace, Name: "a", Labels: ours}
		}
		jobOf := func(namespace string, change func(*corev1.PodSpec)) *batchv1.Job {
			return &batchv1.Job{ObjectMeta: named(namespace), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: podSpec(change)}}}
		}
		podOf := func(namespace string, change func(*corev1.PodSpec)) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: named(namespace), Spec: podSpec(change)}
		}

		By("taking effect, some time after it was installed")
		Eventually(func() error { return try(jobOf("kube-system", nil)) }).Should(refused("namespace kube-system is not for MiniFleet"))
		Expect(try(jobOf(usual, nil))).To(Succeed())
		for _, namespace := range []string{reserved, "minifleet-member"} {
			Expect(try(jobOf(namespace, nil))).To(refused("namespace " + namespace + " is not for MiniFleet"))
			Expect(try(&corev1.Secret{ObjectMeta: named(namespace)})).To(refused("is not for MiniFleet"))
		}

		By("judging pods and what makes them")
		for name, bad := range badPods {
			Expect(try(jobOf(usual, bad.change))).To(refused(bad.says), name)
			if name != "token by default" && name != "service account" { // the API server has something to say of these, too
				Expect(try(podOf(usual, bad.change))).To(refused(bad.says), name)
			}
			in := map[string]string{beyondBaseline: privileged, noToken: accounts, "spec.pod.serviceAccountName": accounts, notTheToken: ""}[bad.says]
			if in != "" {
				Expect(try(jobOf(in, bad.change))).To(Succeed(), name)
			}
		}
		annotated := jobOf(usual, nil)
		annotated.Spec.Template.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/app": "unconfined"}
		Expect(try(annotated)).To(refused(beyondBaseline))

		By("judging everything else that it writes")
		for _, t := range []corev1.SecretType{corev1.SecretTypeServiceAccountToken, corev1.SecretTypeBootstrapToken} {
			s := &corev1.Secret{ObjectMeta: named(usual), Type: t}
			s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
			Expect(try(s)).To(refused("MiniFleet may not make Secrets that the cluster puts credentials into"))
		}
		Expect(try(&corev1.Secret{ObjectMeta: named(usual)})).To(Succeed())
		Expect(try(&corev1.Service{ObjectMeta: named(usual), Spec: corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.1"}, Ports: []corev1.ServicePort{{Port: 80}}}})).To(refused("spec.externalIPs"))
		for name, labels := range map[string]map[string]string{
			w.name + "-new": {"pod-security.kubernetes.io/enforce": "privileged"}, w.name + "-own": {"minifleet.dev/allow-privileged": "true"},
		} {
			Expect(try(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})).To(refused("may not create a namespace that allows more"))
		}
		Expect(try(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-mine"}})).To(refused("namespace kube-mine is not for MiniFleet"))
		Expect(try(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-new", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}}})).To(Succeed())

		By("refusing changes of what others have made")
		theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: usual, Name: "theirs"}}
		put(ctx, admins["alpine"], theirs)
		Expect(c.Delete(ctx, theirs)).To(refused("MiniFleet may change and delete only what it has made"))
		Expect(c.Patch(ctx, theirs, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"a":"b"}}`)))).To(refused("only what it has made"))
		mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: usual, Name: "mine", Labels: ours}}
		Expect(c.Create(ctx, mine)).To(Succeed())
		Expect(c.Delete(ctx, mine)).To(Succeed())

		By("judging nobody else")
		Expect(admins["alpine"].Create(ctx, jobOf("kube-system", badPods["privileged"].change), client.DryRunAll)).To(Succeed())
	})

	It("lets every MiniCluster run that takes no permission, and the others where the namespace allows it", func(ctx SpecContext) {
		w := newWorld(ctx)
		applied("alpine", "config/member/cluster", "config/member/policy")
		c := clientFor("alpine", memberAccount)
		place(ctx, w.name, nil)
		allowing := place(ctx, w.name+"-allowing", map[string]string{"minifleet.dev/allow-privileged": "true", "minifleet.dev/allow-service-accounts": "true"})
		Eventually(func() error {
			return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "a"}}, client.DryRunAll)
		}).Should(MatchError(ContainSubstring("is not for MiniFleet")))
		// denied is what the policy says of the objects of a MiniCluster in a namespace.
		denied := func(namespace string, m *fluxv1alpha2.MiniCluster) string {
			bundle, err := render.Render(render.Input{
				Name: m.Name, Namespace: namespace, Spec: m.Spec, CurveCert: curvesecret.Placeholder(), RunID: "0123456789",
				Origin: fleet.Origin{FleetID: "f", Owner: "n/" + m.Name, OwnerUID: "u"},
			})
			Expect(err).NotTo(HaveOccurred())
			objects := []client.Object{bundle.Secret, bundle.ConfigMap, bundle.Job}
			for _, service := range bundle.Services {
				objects = append(objects, service)
			}
			if bundle.ServicesPod != nil {
				objects = append(objects, bundle.ServicesPod)
			}
			for _, obj := range objects {
				if err := c.Create(ctx, obj, client.DryRunAll); err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
					return err.Error()
				}
			}
			return ""
		}
		refused := 0
		for _, m := range slices.Concat(miniclustertest.Own(), sharedManifests()) {
			decoded, err := m.MiniCluster()
			Expect(err).NotTo(HaveOccurred())
			if denied(w.name, &decoded) != "" {
				refused++
				Expect(policy.Rules{}.Needs(&decoded.Spec, nil)).NotTo(BeEmpty(), "%s takes no permission: %s", m.Path, denied(w.name, &decoded))
			}
			Expect(denied(allowing, &decoded)).To(BeEmpty(), m.Path)
		}
		Expect(refused).To(BeNumerically(">", 0))
	})

	It("hinders nothing that MiniFleet does", func(ctx SpecContext) {
		w := newWorld(ctx)
		applied("alpine", "config/member/cluster", "config/member/policy")
		c := clientFor("alpine", memberAccount)
		Eventually(func() error {
			return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "a"}}, client.DryRunAll)
		}).Should(MatchError(ContainSubstring("is not for MiniFleet")))
		kubeconfig, err := labs.Cluster("alpine").KubeconfigFor(memberAccount)
		Expect(err).NotTo(HaveOccurred())
		w.register(ctx, "a", kubeconfig)
		put(ctx, hub, secretIn(w.name, "token", travels), w.using("names", "token"))
		Eventually(w.line).WithArguments(ctx, "names").Should(Equal(runsOn1))
		w.runEverything(ctx, "all")
		w.run(ctx, "resized", held)
		Eventually(w.line).WithArguments(ctx, "resized").Should(Equal(runsOn1))
		suspended := func() *bool { return job(ctx, "alpine", w.name, "resized").Spec.Suspend }
		w.change(ctx, "resized", func(f *v1alpha1.FleetMiniCluster) { f.Spec.Suspend = true })
		Eventually(suspended).Should(HaveValue(BeTrue()))
		w.change(ctx, "resized", func(f *v1alpha1.FleetMiniCluster) { f.Spec.Suspend = false })
		Eventually(suspended).Should(HaveValue(BeFalse()))

		for _, name := range []string{"names", "all", "resized"} {
			Expect(hub.Delete(ctx, w.get(ctx, name))).To(Succeed())
			Eventually(w.exists).WithArguments(ctx, name).Should(BeFalse())
		}
		var denied []string
		for _, e := range audit("alpine", func(e *lab.AuditEvent) bool {
			return e.User.Username == memberAccount && e.UserAgent == "minifleet" && e.Response.Code >= 400
		}) {
			if e.Response.Code == 403 || e.Response.Code == 422 {
				denied = append(denied, e.Verb+" "+e.RequestURI)
			}
		}
		Expect(strings.Join(denied, "\n")).To(BeEmpty())
	})
})
