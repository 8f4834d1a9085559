package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/hack/lab"
	"github.com/minifleet/minifleet/hack/lab/podrun"
	"github.com/minifleet/minifleet/internal/scripttest"
)

const account = "minifleet-controller-manager"

// TestInstallFromBundle installs what OLM would, runs the Deployment's container with its own arguments and rights, and sees
// that the admission policy, which OLM leaves out, is missed until a person has installed it.
func TestInstallFromBundle(t *testing.T) {
	cluster := startHub(t)
	bundle := committed(t)
	i := installBundle(t, cluster, bundle)

	t.Run("every example is one that the hub takes", func(t *testing.T) {
		var examples []map[string]any
		if err := json.Unmarshal([]byte(bundle.CSV.Annotations["alm-examples"]), &examples); err != nil || len(examples) < len(bundle.V1CRDs) {
			t.Fatal(len(examples), err)
		}
		for _, example := range examples {
			object := &unstructured.Unstructured{Object: example}
			object.SetNamespace("default")
			if err := i.hub.Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
	})
	t.Run("Secrets are read in its own namespace alone", func(t *testing.T) {
		for namespace, want := range map[string]bool{i.namespace: true, "default": false, "": false} {
			if got := i.may(t, "get", "", "secrets", namespace); got != want {
				t.Errorf("get secrets in %q: %v", namespace, got)
			}
		}
		if i.may(t, "create", "admissionregistration.k8s.io", "validatingadmissionpolicies", "") {
			t.Error("it may write admission policies")
		}
	})
	t.Run("it runs, and says whether the policy is there", func(t *testing.T) { i.runs(t, cluster) })
}

func startHub(t *testing.T) *lab.Cluster {
	t.Helper()
	started, err := lab.Start(context.WithoutCancel(t.Context()), lab.Options{
		Dir: t.TempDir(), Env: lab.Hasty, Clusters: []lab.ClusterSpec{{Name: "hub", Controllers: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = started.Kill() })
	return started.Cluster("hub")
}

// may says whether the operator's service account may do something.
func (i *installer) may(t *testing.T, verb, group, resource, namespace string) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + i.namespace + ":" + account,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Namespace: namespace},
	}}
	if err := i.hub.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

func (i *installer) runs(t *testing.T, cluster *lab.Cluster) {
	if err := podrun.Available(); err != nil {
		t.Skip("NOT TESTED: the container of the bundle's Deployment:", err)
	}
	pod := i.start(t, cluster)
	scraper := i.scraper(t)
	metric := func() string { return scrape(t, "https://"+pod.Address("metrics")+"/metrics", scraper) }
	logged := func() string {
		text, err := pod.Logs()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}

	eventually(t, "the metric to be 0", func() (bool, string) { m := metric(); return m == "minifleet_admission_policy_installed 0", m })
	eventually(t, "an event", func() (bool, string) { return i.event(t, "AdmissionPolicyMissing") })
	if log := logged(); strings.Count(log, "the admission policy is not in force") != 1 || !strings.Contains(log, "kubectl apply -k config/policy") {
		t.Errorf("the log does not say once that the policy is missing, and what to do:\n%s", log)
	}
	if out, err := check(t, cluster); err == nil || !strings.Contains(out, "install it with `kubectl apply -k config/policy`") {
		t.Errorf("minifleet check: %v\n%s", err, out)
	}

	// OLM gives namespaces' administrators the verb that config/policy asks for.
	i.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hpc"}})
	// The hub's controllers here do not add roles to admin and edit, so that the roles which would be added are bound themselves.
	tenant, editor := i.person(t, cluster, "tenant", "gitsources.minifleet.dev-v1alpha1-admin"), i.person(t, cluster, "editor", "minifleet-editor")
	allower := i.person(t, cluster, "allower", "minifleet-source-allower")
	kubectl(t, cluster, "apply", "-k", filepath.Join(root, "config", "policy"))
	eventually(t, "the policy to be in force", func() (bool, string) {
		err := editor.Create(t.Context(), allowing("of-editor"), client.DryRunAll)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "verb allow on gitsources"), fmt.Sprint(err)
	})
	if err := tenant.Create(t.Context(), allowing("of-tenant"), client.DryRunAll); err != nil {
		t.Errorf("config/policy keeps an administrator of the namespace from it here, so that config/olm/policy is not needed: %v", err)
	}
	eventually(t, "the check to ask for config/olm/policy", func() (bool, string) {
		out, err := check(t, cluster)
		return err != nil && strings.Contains(out, "kubectl apply -k config/olm/policy"), out
	})
	eventually(t, "the controller to say so", func() (bool, string) {
		return strings.Contains(logged(), "kubectl apply -k config/olm/policy"), logged()
	})
	if m := metric(); m != "minifleet_admission_policy_installed 0" {
		t.Errorf("it counts as installed: %s", m)
	}

	kubectl(t, cluster, "apply", "-k", filepath.Join(root, "config", "olm", "policy"))
	eventually(t, "the policy for OLM to be in force", func() (bool, string) {
		err := tenant.Create(t.Context(), allowing("of-tenant"), client.DryRunAll)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "gitsources/permissions"), fmt.Sprint(err)
	})
	if err := allower.Create(t.Context(), allowing("of-allower"), client.DryRunAll); err != nil {
		t.Errorf("who has the ClusterRole minifleet-source-allower: %v", err)
	}
	eventually(t, "the metric to be 1", func() (bool, string) { m := metric(); return m == "minifleet_admission_policy_installed 1", m })
	eventually(t, "an event", func() (bool, string) { return i.event(t, "AdmissionPolicyInstalled") })
	if log := logged(); !strings.Contains(log, "the admission policy for spec.allow of GitSources is in force") {
		t.Errorf("the log does not say that the policy is there:\n%s", log)
	}
	if out, _ := check(t, cluster); !strings.Contains(out, "says who may write spec.allow of GitSources") {
		t.Errorf("minifleet check:\n%s", out)
	}
	if err := pod.Stop(); err != nil {
		t.Error(err)
	}
}

// start runs the container of the Deployment, and waits until it is ready.
func (i *installer) start(t *testing.T, cluster *lab.Cluster) *podrun.Pod {
	t.Helper()
	rootfs := t.TempDir()
	scripttest.Copy(t, filepath.Join(root, "bin", "minifleet"), filepath.Join(rootfs, "minifleet")) // make test-bundle builds it
	config, err := cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	pod, err := podrun.Start(t.Context(), podrun.Options{
		Dir: t.TempDir(), Rootfs: rootfs, Image: podrun.Image{Entrypoint: []string{"/minifleet"}, User: "65532:65532"},
		Hub: config, Namespace: i.namespace, Template: i.template(t.Context(), t),
		Ports: map[string]string{"metrics": "--metrics-bind-address", "health": "--health-probe-bind-address"},
		Flags: map[string]string{"--interval-scale": "0.02"},
		Say:   func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pod.Kill() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := pod.Ready(ctx); err != nil {
		log, _ := pod.Logs()
		t.Fatalf("%v\n%s", err, log)
	}
	return pod
}

// eventually waits for something that the hub or the controller does in its own time.
func eventually(t *testing.T, what string, reached func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		ok, state := reached()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s: %s", what, state)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// event says whether there is one of a reason.
func (i *installer) event(t *testing.T, reason string) (bool, string) {
	t.Helper()
	var list eventsv1.EventList
	if err := i.hub.List(t.Context(), &list, client.InNamespace(i.namespace)); err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, e := range list.Items {
		if e.Reason == reason && e.Regarding.Name == "minifleet-fleet" {
			return true, ""
		}
		reasons = append(reasons, e.Reason)
	}
	return false, strings.Join(reasons, ",")
}

// person is somebody who has a ClusterRole in namespace hpc.
func (i *installer) person(t *testing.T, cluster *lab.Cluster, name, role string) client.Client {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	}
	if err := i.hub.Create(t.Context(), binding); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	kubeconfig, err := cluster.KubeconfigFor(name)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// allowing is a source that lets what it declares use a permission.
func allowing(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "minifleet.dev/v1alpha1", "kind": "GitSource",
		"metadata": map[string]any{"namespace": "hpc", "name": name},
		"spec": map[string]any{
			"url": "https://git.example.org/hpc/fleet.git", "ref": map[string]any{"branch": "main"}, "allow": []any{"HostPath"},
		},
	}}
}

// scraper is the token of an account that may get metrics.
func (i *installer) scraper(t *testing.T) string {
	t.Helper()
	scraper := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "scraper"}}
	i.create(t, scraper)
	i.create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "minifleet-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "scraper"}},
	})
	request := &authenticationv1.TokenRequest{}
	if err := i.hub.SubResource("token").Create(t.Context(), scraper, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// scrape is the line of the metric.
func scrape(t *testing.T, url, token string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	web := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // its certificate is self-signed
	response, err := web.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Sprint(response.Status, err)
	}
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "minifleet_admission_policy_installed") {
			return strings.TrimSpace(line)
		}
	}
	return "there is no such metric"
}

func check(t *testing.T, cluster *lab.Cluster) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "minifleet"), "check", "--kubeconfig", cluster.KubeconfigPath()).CombinedOutput()
	return string(out), err
}

func kubectl(t *testing.T, cluster *lab.Cluster, args ...string) {
	t.Helper()
	path, before, err := lab.Binary("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), path, append(before, append([]string{"--kubeconfig", cluster.KubeconfigPath()}, args...)...)...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
}
