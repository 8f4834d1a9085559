package controllers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// bePlugin makes this test program be a credential plugin: `PROGRAM be-credential-plugin DIR` prints what is in the file of DIR
// that the variable CLUSTER names, and hangs where there is none. It notes each run in NAME.runs.
const bePlugin = "be-credential-plugin"

func runPlugin(dir string) {
	cluster := os.Getenv("CLUSTER")
	runs, err := os.OpenFile(filepath.Join(dir, cluster+".runs"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(3)
	}
	var names []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		names = append(names, name)
	}
	if _, err := fmt.Fprintln(runs, strings.Join(names, " ")); err != nil {
		os.Exit(3)
	}
	body, err := os.ReadFile(filepath.Join(dir, cluster))
	if err != nil {
		time.Sleep(time.Hour)
	}
	_, _ = os.Stdout.Write(body)
}

var clusterProfileKind = schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "ClusterProfile"}

// installClusterProfiles installs the CustomResourceDefinition of ClusterProfiles on the hub, as SIG Multicluster has it.
func installClusterProfiles(ctx context.Context) {
	GinkgoHelper()
	root, err := lab.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	const module = "sigs.k8s.io/cluster-inventory-api"
	directory := func() string {
		cmd := exec.CommandContext(ctx, "go", "list", "-C", filepath.Join(root, "hack", "clusterprofile"), "-m", "-f", "{{.Dir}}", module)
		cmd.Env = append(os.Environ(), "GOWORK=off")
		out, err := cmd.Output()
		Expect(err).NotTo(HaveOccurred())
		return strings.TrimSpace(string(out))
	}
	dir := directory()
	if dir == "" {
		cmd := exec.CommandContext(ctx, "go", "mod", "download", "-C", filepath.Join(root, "hack", "clusterprofile"), module)
		out, err := cmd.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		dir = directory()
	}
	Expect(labs.Cluster("hub").ApplyCRDs(ctx, filepath.Join(dir, "config", "crd", "bases"))).To(Succeed())
}

func removeClusterProfiles(ctx context.Context) {
	GinkgoHelper()
	kubectl("", "delete", "crd", "--ignore-not-found", "clusterprofiles.multicluster.x-k8s.io")
	Eventually(func() error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(clusterProfileKind)
		return hub.List(ctx, list)
	}).Should(Satisfy(func(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }))
}

// plugins is a hub whose controller knows two providers: one that the file lets ClusterProfiles add variables to, and "fixed".
type plugins struct {
	*world
	dir string
}

func newPlugins(ctx context.Context) *plugins {
	GinkgoHelper()
	w := newWorld(ctx)
	p := &plugins{world: w, dir: GinkgoT().TempDir()}
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	command := map[string]any{"apiVersion": "client.authentication.k8s.io/v1", "command": self, "args": []string{bePlugin, p.dir}}
	fixed := map[string]any{"apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such/plugin"}
	body, err := json.Marshal(map[string]any{"providers": []map[string]any{
		{"name": "test", "execConfig": command, "profileSourcedEnvVarsPolicy": "AppendIfNotExists"},
		{"name": "fixed", "execConfig": fixed},
	}})
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(p.dir, "providers.json")
	Expect(os.WriteFile(file, body, 0o600)).To(Succeed())
	restart := func(args []string) {
		GinkgoHelper()
		Expect(minifleet.Kill()).To(Succeed())
		minifleet.Args = args
		startMinifleet(labs.Cluster("hub").Kubeconfig())
	}
	before := minifleet.Args
	restart(append(slices.Clone(before), "--cluster-profile-providers", file, "--credential-plugin-timeout", "4s"))
	DeferCleanup(func() { restart(before) })
	return p
}

// account makes a service account on a member that may do everything there, in a namespace of this world.
func (p *plugins) account(ctx context.Context, cluster, name string) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.name + "-accounts"}}
	if err := admins[cluster].Create(ctx, namespace); !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.name + "-accounts", Name: name}}
	put(ctx, admins[cluster], account, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: p.name + "-" + name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: name}},
	})
	return "system:serviceaccount:" + account.Namespace + ":" + name
}

// prints has the plugin print a token of that account for a cluster, which it says to expire after some time; 0: it does not say.
func (p *plugins) prints(ctx context.Context, name, cluster, account string, after time.Duration) (token string) {
	GinkgoHelper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	holder := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.name + "-accounts", Name: account}}
	Expect(admins[cluster].SubResource("token").Create(ctx, holder, request)).To(Succeed())
	answer := clientauthenticationv1.ExecCredential{
		TypeMeta: metav1.TypeMeta{APIVersion: "client.authentication.k8s.io/v1", Kind: "ExecCredential"},
		Status:   &clientauthenticationv1.ExecCredentialStatus{Token: request.Status.Token},
	}
	if after > 0 {
		answer.Status.ExpirationTimestamp = &metav1.Time{Time: time.Now().Add(after)}
	}
	body, err := json.Marshal(answer)
	Expect(err).NotTo(HaveOccurred())
	draft := filepath.Join(p.dir, name+".draft")
	Expect(os.WriteFile(draft, body, 0o600)).To(Succeed())
	Expect(os.Rename(draft, filepath.Join(p.dir, name))).To(Succeed())
	return request.Status.Token
}

// isRefused says whether a member refuses a token, which it does only some time after its account was deleted.
func isRefused(ctx context.Context, cluster, token string) bool {
	cfg, err := labs.Cluster(cluster).RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	cfg.CertData, cfg.KeyData, cfg.BearerToken = nil, nil, token
	c, err := client.New(cfg, client.Options{Scheme: hub.Scheme()})
	if err != nil {
		return apierrors.IsUnauthorized(err)
	}
	return apierrors.IsUnauthorized(c.List(ctx, &corev1.NamespaceList{}))
}

// runs are the environments of the plugin's runs for a cluster.
func (p *plugins) runs(name string) []string {
	body, err := os.ReadFile(filepath.Join(p.dir, name+".runs"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(body)), "\n")
}

// profile writes a ClusterProfile with one access provider, changed.
func (p *plugins) profile(ctx context.Context, name, cluster, provider string, change ...func(cluster map[string]any)) {
	GinkgoHelper()
	cfg, err := labs.Cluster(cluster).RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	access := map[string]any{
		"server": cfg.Host, "certificate-authority-data": cfg.CAData,
		"extensions": []any{extension(envExtension, map[string]any{"CLUSTER": name})},
	}
	for _, f := range change {
		f(access)
	}
	body, err := json.Marshal(map[string]any{
		"spec":   map[string]any{"clusterManager": map[string]any{"name": "test"}},
		"status": map[string]any{"accessProviders": []any{map[string]any{"name": provider, "cluster": access}}},
	})
	Expect(err).NotTo(HaveOccurred())
	want := &unstructured.Unstructured{}
	Expect(json.Unmarshal(body, &want.Object)).To(Succeed())
	want.SetGroupVersionKind(clusterProfileKind)
	want.SetNamespace(managerNamespace)
	want.SetName(p.member(name))
	status := want.Object["status"]
	err = hub.Create(ctx, want)
	if apierrors.IsAlreadyExists(err) {
		err = hub.Get(ctx, client.ObjectKeyFromObject(want), want)
	} else {
		DeferCleanup(func(ctx SpecContext) error { return client.IgnoreNotFound(hub.Delete(ctx, want)) })
	}
	Expect(err).NotTo(HaveOccurred())
	want.Object["status"] = status
	Expect(hub.Status().Update(ctx, want)).To(Succeed())
}

const envExtension = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs"

func extension(name string, value any) map[string]any {
	return map[string]any{"name": name, "extension": value}
}

// byProfile has a member reached by the ClusterProfile of a name in this world.
func (w *world) byProfile(name string) func(*v1alpha1.MemberCluster) {
	return func(m *v1alpha1.MemberCluster) {
		m.Spec.KubeconfigSecretRef, m.Spec.ClusterProfileRef = v1alpha1.LocalReference{}, v1alpha1.LocalReference{Name: w.member(name)}
	}
}

// edit changes MemberCluster a.
func (w *world) edit(ctx context.Context, change func(*v1alpha1.MemberCluster)) {
	GinkgoHelper()
	Eventually(func() error {
		m := w.memberCluster(ctx, "a")
		change(m)
		return hub.Update(ctx, m)
	}).Should(Succeed())
}

// createsJobs says whether an account has created a Job of this world on a cluster.
func (w *world) createsJobs(cluster, account string) (bool, error) {
	all, err := audits[cluster].Read()
	return slices.ContainsFunc(all, func(e lab.AuditEvent) bool {
		return e.Verb == "create" && e.User.Username == account && e.Object != nil && e.Object.Resource == "jobs" && e.Object.Namespace == w.name && e.Response.Code == 201
	}), err
}

var _ = Describe("A member that has a ClusterProfile", func() {
	It("says what to do while the hub has no such kind, and is reached when it has", func(ctx SpecContext) {
		removeClusterProfiles(ctx)
		p := newPlugins(ctx)
		p.account(ctx, "alpine", "first")
		p.prints(ctx, "a", "alpine", "first", 0)
		p.enroll(ctx, "a", p.byProfile("a"))
		Eventually(p.reason).WithArguments(ctx, "a").Should(Equal("False ClusterProfileMissing"))
		Expect(p.message(ctx, "a")).To(And(ContainSubstring("spec.clusterProfileRef"), ContainSubstring("install its CustomResourceDefinition")))
		p.register(ctx, "b", labs.Cluster("basalt").Kubeconfig()) // who has a kubeconfig notices nothing

		installClusterProfiles(ctx)
		Eventually(p.message).WithArguments(ctx, "a").Should(ContainSubstring("there is no ClusterProfile " + managerNamespace + "/" + p.member("a")))
		p.profile(ctx, "a", "alpine", "test")
		Eventually(p.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))
	})

	It("is used with what the plugin prints, which is renewed without a new connection and refused aloud", func(ctx SpecContext) {
		installClusterProfiles(ctx)
		p := newPlugins(ctx)
		first, second := p.account(ctx, "alpine", "first"), p.account(ctx, "alpine", "second")
		p.account(ctx, "alpine", "third")
		p.prints(ctx, "a", "alpine", "first", 20*time.Second)
		p.profile(ctx, "a", "alpine", "test")
		p.enroll(ctx, "a", p.byProfile("a"))
		Eventually(p.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))
		Expect(p.message(ctx, "a")).To(Equal("connected, with credentials of provider test for ClusterProfile " + p.member("a")))
		Expect(p.memberCluster(ctx, "a").Status.Identity.Server).To(Equal("https://" + labs.Cluster("alpine").Address()))

		By("giving the plugin no more of the environment than it may have")
		for _, name := range strings.Fields(p.runs("a")[0]) {
			Expect(name).To(BeElementOf("PATH", "HOME", "TMPDIR", "TZ", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY",
				"https_proxy", "http_proxy", "no_proxy", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "CLUSTER", "KUBERNETES_EXEC_INFO"))
		}

		By("running with the first token, and with the second when that is there")
		p.run(ctx, "early", brief)
		Eventually(p.line).WithArguments(ctx, "early").Should(HavePrefix("True Succeeded"))
		Expect(p.createsJobs("alpine", first)).To(BeTrue())
		connected := meta.FindStatusCondition(p.memberCluster(ctx, "a").Status.Conditions, v1alpha1.ConditionReady).LastTransitionTime
		token := p.prints(ctx, "a", "alpine", "second", 0)
		Eventually(func() int { return len(p.runs("a")) }).Should(BeNumerically(">", 1))
		p.run(ctx, "late", brief)
		Eventually(p.line).WithArguments(ctx, "late").Should(HavePrefix("True Succeeded"))
		Expect(p.createsJobs("alpine", second)).To(BeTrue())
		ready := meta.FindStatusCondition(p.memberCluster(ctx, "a").Status.Conditions, v1alpha1.ConditionReady)
		Expect(ready.LastTransitionTime).To(Equal(connected), "it was never disconnected")

		By("saying that the member refuses what the plugin prints, and coming back with another token")
		Expect(admins["alpine"].Delete(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.name + "-accounts", Name: "second"}})).To(Succeed())
		Eventually(isRefused).WithArguments(ctx, "alpine", token).Should(BeTrue())
		p.run(ctx, "refused", brief) // something has to be asked of the member
		Eventually(p.reason).WithArguments(ctx, "a").Should(Equal("False AuthFailed"))
		Expect(p.message(ctx, "a")).To(HavePrefix("the member refuses the credentials of provider test for ClusterProfile " + p.member("a")))
		p.prints(ctx, "a", "alpine", "third", 0)
		Eventually(p.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))
		Eventually(p.line).WithArguments(ctx, "refused").Should(HavePrefix("True Succeeded"))
		Expect(p.get(ctx, "refused").Status.Runs).To(HaveLen(1))
	})

	It("cannot have anything run or asked that the administrator has not named", func(ctx SpecContext) {
		installClusterProfiles(ctx)
		p := newPlugins(ctx)
		p.account(ctx, "alpine", "first")
		p.prints(ctx, "a", "alpine", "first", 0)
		p.enroll(ctx, "a", p.byProfile("a"))
		Eventually(p.reason).WithArguments(ctx, "a").Should(Equal("False ClusterProfileMissing"))
		refused := func(says, provider string, change ...func(map[string]any)) {
			GinkgoHelper()
			p.profile(ctx, "a", "alpine", provider, change...)
			Eventually(p.message).WithArguments(ctx, "a").Should(ContainSubstring(says))
			Expect(p.reason(ctx, "a")).To(Equal("False ClusterProfileRefused"))
		}
		set := func(field string, value any) func(map[string]any) {
			return func(cluster map[string]any) { cluster[field] = value }
		}
		refused("names sh, and the controller's --cluster-profile-providers has test, fixed", "sh")
		refused("status.accessProviders[test].cluster.proxy-url is refused", "test", set("proxy-url", "http://127.0.0.1:1"))
		refused("cluster.server must be an https:// URL", "test", set("server", "http://127.0.0.1:1"))
		refused("insecure-skip-tls-verify is refused", "test", set("insecure-skip-tls-verify", true))
		refused("certificate-authority is a path", "test", set("certificate-authority", "/etc/passwd"))
		refused("LD_PRELOAD is refused", "test", set("extensions", []any{extension(envExtension, map[string]any{"LD_PRELOAD": "/tmp/x.so"})}))
		Expect(p.runs("a")).To(BeEmpty(), "no plugin was run")

		By("naming what cannot be run")
		p.profile(ctx, "a", "alpine", "fixed")
		Eventually(p.reason).WithArguments(ctx, "a").Should(Equal("False CredentialPluginFailed"))
		Expect(p.message(ctx, "a")).To(ContainSubstring("provider fixed (/no/such/plugin) cannot be started"))
		p.profile(ctx, "a", "alpine", "test")
		Eventually(p.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))
	})

	It("delays no other one when its plugin hangs", func(ctx SpecContext) {
		installClusterProfiles(ctx)
		p := newPlugins(ctx)
		p.profile(ctx, "hung", "basalt", "test")
		p.enroll(ctx, "hung", p.byProfile("hung"))
		Eventually(p.runs).WithArguments("hung").ShouldNot(BeEmpty())

		p.account(ctx, "alpine", "first")
		p.prints(ctx, "a", "alpine", "first", 0)
		p.profile(ctx, "a", "alpine", "test")
		p.enroll(ctx, "a", p.byProfile("a"))
		Eventually(p.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))
		Eventually(p.reason).WithArguments(ctx, "hung").Should(Equal("False CredentialPluginFailed"))
		Expect(p.message(ctx, "hung")).To(ContainSubstring("has not ended within 4s, and was killed"))

		p.account(ctx, "basalt", "first")
		p.prints(ctx, "hung", "basalt", "first", 0)
		Eventually(p.reason).WithArguments(ctx, "hung").Should(Equal("True Connected"))
	})

	It("may have a kubeconfig instead and again, and stays the cluster that it is", func(ctx SpecContext) {
		installClusterProfiles(ctx)
		p := newPlugins(ctx)
		p.account(ctx, "alpine", "first")
		p.account(ctx, "basalt", "first")
		p.prints(ctx, "a", "alpine", "first", 0)
		p.prints(ctx, "b", "basalt", "first", time.Hour)
		p.profile(ctx, "a", "alpine", "test")
		p.profile(ctx, "b", "basalt", "test")
		p.register(ctx, "a", labs.Cluster("alpine").Kubeconfig())
		uid := p.memberCluster(ctx, "a").Status.ClusterUID

		p.edit(ctx, p.byProfile("a"))
		Eventually(p.message).WithArguments(ctx, "a").Should(HavePrefix("connected, with credentials of provider test"))
		Expect(p.memberCluster(ctx, "a").Status.ClusterUID).To(Equal(uid))

		By("refusing another cluster under its name, and the same one under another name")
		p.edit(ctx, p.byProfile("b"))
		Eventually(p.reason).WithArguments(ctx, "a").Should(Equal("False WrongCluster"))
		Expect(p.message(ctx, "a")).To(ContainSubstring("ClusterProfile " + p.member("b") + " leads to another cluster"))
		p.edit(ctx, p.byProfile("a"))
		Eventually(p.reason).WithArguments(ctx, "a").Should(Equal("True Connected"))
		p.secret(ctx, "again", labs.Cluster("alpine").Kubeconfig())
		p.enroll(ctx, "again")
		Eventually(p.reason).WithArguments(ctx, "again").Should(Equal("False DuplicateCluster"))

		By("following what the ClusterProfile says, and its end")
		p.profile(ctx, "a", "basalt", "test", func(cluster map[string]any) {
			cluster["extensions"] = []any{extension(envExtension, map[string]any{"CLUSTER": "b"})}
		})
		Eventually(p.reason).WithArguments(ctx, "a").Should(Equal("False WrongCluster"))
		profile := &unstructured.Unstructured{}
		profile.SetGroupVersionKind(clusterProfileKind)
		profile.SetNamespace(managerNamespace)
		profile.SetName(p.member("a"))
		Expect(hub.Delete(ctx, profile)).To(Succeed())
		Eventually(p.reason).WithArguments(ctx, "a").Should(Equal("False ClusterProfileMissing"))
		p.edit(ctx, func(m *v1alpha1.MemberCluster) {
			m.Spec.ClusterProfileRef, m.Spec.KubeconfigSecretRef = v1alpha1.LocalReference{}, v1alpha1.LocalReference{Name: p.member("a")}
		})
		Eventually(p.message).WithArguments(ctx, "a").Should(Equal("connected"))
		Expect(p.memberCluster(ctx, "a").Status.ClusterUID).To(Equal(uid))
	})

	It("says that the controller knows no plugins, where it does not", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.enroll(ctx, "a", w.byProfile("a"))
		Eventually(w.reason).WithArguments(ctx, "a").Should(Equal("False ClusterProfilesOff"))
		Expect(w.message(ctx, "a")).To(And(ContainSubstring("spec.clusterProfileRef"), ContainSubstring("--cluster-profile-providers")))
		w.register(ctx, "b", labs.Cluster("basalt").Kubeconfig())
	})
})
