package controllers_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/hack/lab"
)

// everybodys are rules that each account has, of resources and of paths.
var everybodys = []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}

// rulesIn are what an account may do in a namespace, as `kubectl auth can-i --list` has it: RESOURCE [NAMES]: VERBS.
func rulesIn(ctx context.Context, cluster, account, namespace string) []string {
	GinkgoHelper()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	Expect(clientFor(cluster, account).Create(ctx, review)).To(Succeed())
	Expect(review.Status.Incomplete).To(BeFalse())
	verbs := map[string][]string{}
	for _, rule := range review.Status.ResourceRules {
		for _, resource := range rule.Resources {
			if slices.Contains(everybodys, resource) {
				continue
			}
			key := resource
			if len(rule.ResourceNames) > 0 {
				key += " [" + strings.Join(rule.ResourceNames, ",") + "]"
			}
			if slices.Contains(rule.APIGroups, "events.k8s.io") {
				key += ".events.k8s.io"
			}
			verbs[key] = append(verbs[key], rule.Verbs...)
		}
	}
	for _, rule := range review.Status.NonResourceRules {
		Expect(rule.Verbs).To(Equal([]string{"get"}), "%v", rule.NonResourceURLs)
	}
	var out []string
	for key, all := range verbs {
		out = append(out, key+": "+strings.Join(slices.Compact(slices.Sorted(slices.Values(all))), " "))
	}
	return out
}

// onHubEverywhere is what the manager may do in any namespace of the hub, and of what has none.
var onHubEverywhere = []string{
	"clusterroles [gitsources.minifleet.dev-v1alpha1-admin]: get",
	"events.events.k8s.io: create patch",
	"fleetminiclusters/finalizers: update",
	"fleetminiclusters/status: update",
	"fleetminiclusters: create delete get list update watch",
	"gitsources/status: declare update",
	"gitsources: get list update watch",
	"memberclusters/finalizers: update",
	"memberclusters/status: update",
	"memberclusters: get list update watch",
	"namespaces: get list watch",
	"notifications/status: update",
	"notifications: get list watch",
	"placements: create delete get list update watch",
	"servicecidrs: list",
	"subjectaccessreviews: create",
	"tokenreviews: create",
	"validatingadmissionpolicies [gitsource-allow,minifleet-gitsource-allow]: get",
	"validatingadmissionpolicybindings [gitsource-allow,minifleet-gitsource-allow]: get",
}

// ofRuns is what MiniFleet may do in a namespace of a member that it may use.
var ofRuns = []string{
	"configmaps: create delete get list patch watch",
	"events: list",
	"jobs: create delete get list patch watch",
	"pods/log: get",
	"pods: create delete get list watch",
	"secrets: create delete get list patch watch",
	"services: create delete get list patch watch",
}

var _ = Describe("The rights that are installed", func() {
	It("are on the hub those that are listed, with no Secrets but in the manager's namespace", func(ctx SpecContext) {
		w := newWorld(ctx)
		installRights()
		Eventually(rulesIn).WithArguments(ctx, "hub", managerAccount, w.name).Should(ConsistOf(onHubEverywhere))
		Expect(rulesIn(ctx, "hub", managerAccount, "kube-system")).To(ConsistOf(onHubEverywhere))
		Expect(rulesIn(ctx, "hub", managerAccount, managerNamespace)).To(ConsistOf(slices.Concat(onHubEverywhere, []string{
			"configmaps: create",
			"configmaps [minifleet-fleet]: get update",
			"events: create patch",
			"leases: create get update",
			"secrets: create delete get list watch",
		})))
		follow("to bind it: kubectl -n " + w.name + " create rolebinding minifleet-secrets --clusterrole=minifleet-secret-reader --serviceaccount=minifleet-system:minifleet-controller-manager")
		Eventually(rulesIn).WithArguments(ctx, "hub", managerAccount, w.name).Should(ConsistOf(append([]string{"secrets: get", "configmaps: get"}, onHubEverywhere...)))
	})

	It("are on a member those of the form that was chosen", func(ctx SpecContext) {
		w := newWorld(ctx)
		other := w.name + "-other"
		put(ctx, admins["basalt"], &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}})

		By("for some namespaces")
		applied("basalt", "config/member/namespaces")
		root, err := lab.RepositoryRoot()
		Expect(err).NotTo(HaveOccurred())
		kubectlOn("basalt", "-n", w.name, "apply", "-f", root+"/config/member/namespaces/binding.yaml")
		kubectlOn("basalt", "apply", "-f", root+"/config/member/namespaces/leader.yaml")
		identity := "namespaces [kube-system]: get"
		Eventually(rulesIn).WithArguments(ctx, "basalt", memberAccount, w.name).Should(ConsistOf(append([]string{"namespaces: get", identity}, ofRuns...)))
		for _, namespace := range []string{other, "kube-system", "minifleet-member"} {
			Expect(rulesIn(ctx, "basalt", memberAccount, namespace)).To(ConsistOf(identity))
		}
		Expect(rulesIn(ctx, "basalt", memberAccount, "default")).To(ConsistOf(identity, "configmaps: create delete get list patch watch"))
		c := clientFor("basalt", memberAccount)
		Expect(c.Get(ctx, client.ObjectKey{Name: w.name}, &corev1.Namespace{})).To(Succeed(), "its labels")
		Expect(c.Get(ctx, client.ObjectKey{Name: other}, &corev1.Namespace{})).NotTo(Succeed())
		kubectlOn("basalt", "-n", w.name, "delete", "rolebinding", "minifleet-member")
		Eventually(rulesIn).WithArguments(ctx, "basalt", memberAccount, w.name).Should(ConsistOf(identity))

		By("for the whole cluster")
		applied("basalt", "config/member/cluster")
		Eventually(rulesIn).WithArguments(ctx, "basalt", memberAccount, other).Should(ConsistOf(append([]string{"namespaces: create get", "nodes: list watch"}, ofRuns...)))
	})

	It("are those of a pod that is restricted, in a network that is bounded", func(ctx SpecContext) {
		w := newWorld(ctx)
		restricted := w.name + "-restricted"
		put(ctx, hub, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: restricted, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}})
		for _, config := range []string{"config/default", "config/with-dashboard", "config/with-receiver"} {
			kubectl(rendered(config, "NetworkPolicy"), "apply", "--server-side", "--dry-run=server", "-f", "-")
			var deployment appsv1.Deployment
			Expect(yaml.Unmarshal([]byte(rendered(config, "Deployment")), &deployment)).To(Succeed())
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: restricted, Name: "a"}, Spec: deployment.Spec.Template.Spec}
			pod.Spec.ServiceAccountName = ""
			Eventually(func() error { return hub.Create(ctx, pod, client.DryRunAll) }).Should(Succeed()) // the cluster makes the service account
			Expect(pod.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem).To(HaveValue(BeTrue()))
			pod.ResourceVersion, pod.Spec.SecurityContext = "", nil
			Expect(hub.Create(ctx, pod, client.DryRunAll)).To(MatchError(ContainSubstring("PodSecurity")))
		}
	})

	It("are needed to read metrics, where these are not on a loopback address alone", func(ctx SpecContext) {
		installRights()
		address, err := lab.FreeAddress()
		Expect(err).NotTo(HaveOccurred())
		before := slices.Clone(minifleet.Args)
		Expect(minifleet.Kill()).To(Succeed())
		minifleet.Args = append(slices.Clone(before), "--metrics-bind-address", address, "--metrics-secure")
		DeferCleanup(func() {
			Expect(minifleet.Kill()).To(Succeed())
			minifleet.Args = before
			startMinifleet(labs.Cluster("hub").Kubeconfig())
		})
		startDeployed()
		w := newWorld(ctx)
		token := func(name string) string {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
			put(ctx, hub, account)
			request := &authenticationv1.TokenRequest{}
			Expect(hub.SubResource("token").Create(ctx, account, request)).To(Succeed())
			return request.Status.Token
		}
		anybody, collector := token("anybody"), token("collector")
		kubectl("", "create", "clusterrolebinding", w.name, "--clusterrole=minifleet-metrics-reader", "--serviceaccount="+w.name+":collector")
		DeferCleanup(func() { kubectl("", "delete", "clusterrolebinding", w.name) })
		https := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // the certificate is self-signed
		get := func(url, token string) (int, string) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return 0, err.Error()
			}
			if token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
			resp, err := https.Do(req)
			if err != nil {
				return 0, err.Error()
			}
			defer func() { _ = resp.Body.Close() }()
			body, _ := io.ReadAll(resp.Body)
			return resp.StatusCode, string(body)
		}
		status := func(token string) func() int {
			return func() int { code, _ := get("https://"+address+"/metrics", token); return code }
		}
		Eventually(status(collector)).Should(Equal(http.StatusOK))
		Expect(status(anybody)()).To(Equal(http.StatusForbidden))
		Expect(status("")()).To(Equal(http.StatusUnauthorized))
		Expect(status("forged")()).To(Equal(http.StatusUnauthorized))
		_, body := get("https://"+address+"/metrics", collector)
		Expect(body).To(ContainSubstring("controller_runtime_reconcile_total"))
		Expect(body).To(ContainSubstring("\nminifleet_leader 1\n"))
		_, body = get("http://"+address+"/metrics", collector)
		Expect(body).NotTo(ContainSubstring("controller_runtime_reconcile_total"))
	})
})
