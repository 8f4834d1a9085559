package podrun_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/hack/lab"
	"github.com/minifleet/minifleet/hack/lab/podrun"
)

const (
	namespace = "reports"
	tokens    = "/var/run/secrets/kubernetes.io/serviceaccount/"
)

// The pod that is run, as somebody writes it: what the hub adds to it on admission is not here.
const template = `
metadata:
  labels: {app: report}
spec:
  serviceAccountName: reporter
  terminationGracePeriodSeconds: 5
  securityContext: {runAsNonRoot: true, runAsUser: 4711, runAsGroup: 4712, supplementalGroups: [4713], seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: report
      image: report
      args: [report, --listen=:8080, "--ip=$(POD_IP)", "--kept=$(NOBODY)", "--escaped=$$(POD_IP)"]
      env:
        - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        - {name: APP, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
        - {name: PASSWORD, valueFrom: {secretKeyRef: {name: password, key: value}}}
        - {name: FROM_IMAGE, value: "over $(FROM_IMAGE)"}
      ports: [{name: http, containerPort: 8080}]
      readinessProbe: {httpGet: {path: /readyz, port: http}}
      livenessProbe: {httpGet: {path: /readyz, port: http}}
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
      volumeMounts:
        - {name: scratch, mountPath: /scratch}
        - {name: password, mountPath: /etc/password, readOnly: true}
        - {name: settings, mountPath: /etc/settings}
  volumes:
    - {name: scratch, emptyDir: {}}
    - {name: password, secret: {secretName: password}}
    - {name: settings, configMap: {name: settings, items: [{key: a, path: b/c}]}}
`

// report is what testdata/report answers.
type report struct {
	UID, GID, PID int
	Groups        []int
	Args          []string
	Env           map[string]string
	Status        map[string]string
	Files         map[string]string
	Writable      map[string]bool
	Hostname      string
}

func TestStart(t *testing.T) {
	if err := podrun.Available(); err != nil {
		t.Skip("NOT TESTED: running containers:", err)
	}
	hub := startHub(t)
	client, err := kubernetes.NewForConfig(hub)
	if err != nil {
		t.Fatal(err)
	}
	prepare(t, client)
	rootfs := t.TempDir()
	build(t, filepath.Join(rootfs, "report"))

	t.Run("a pod that Pod Security refuses", func(t *testing.T) {
		options := optionsFor(t, hub, rootfs)
		options.Template.Spec.SecurityContext = nil
		if pod, err := podrun.Start(t.Context(), options); err == nil {
			_ = pod.Kill()
			t.Error("it was started")
		} else if !strings.Contains(err.Error(), "PodSecurity") {
			t.Error(err)
		}
	})
	t.Run("root, where the pod must not be", func(t *testing.T) {
		options := optionsFor(t, hub, rootfs)
		options.Template.Spec.SecurityContext.RunAsUser = nil
		options.Image.User = ""
		if pod, err := podrun.Start(t.Context(), options); err == nil {
			_ = pod.Kill()
			t.Error("it was started")
		} else if !strings.Contains(err.Error(), "runAsNonRoot") {
			t.Error(err)
		}
	})
	t.Run("a program that ends", func(t *testing.T) {
		options := optionsFor(t, hub, rootfs)
		options.Template.Spec.Containers[0].Args = []string{"report", "--listen=nonsense"}
		options.Ports = nil
		pod, err := podrun.Start(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pod.Kill() })
		if err := pod.Ready(soon(t)); err == nil || !strings.Contains(err.Error(), "missing port") {
			t.Error(err)
		}
	})
	t.Run("a pod", func(t *testing.T) { runs(t, hub, client, rootfs) })
}

func runs(t *testing.T, hub *rest.Config, client kubernetes.Interface, rootfs string) {
	var said []string
	options := optionsFor(t, hub, rootfs)
	options.Say = func(line string) { said = append(said, line) }
	pod, err := podrun.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pod.Kill() })
	if err := pod.Ready(soon(t)); err != nil {
		t.Fatal(err)
	}
	if err := pod.Live(soon(t)); err != nil {
		t.Error(err)
	}
	got := ask(t, pod)
	if len(said) != 1 || !strings.Contains(said[0], "--listen=:") {
		t.Errorf("said %q", said)
	}
	checkIdentity(t, pod, got)
	checkFiles(t, client, hub, got)

	if err := pod.Stop(); err != nil {
		t.Error(err)
	}
	if err := pod.Live(soon(t)); err == nil {
		t.Error("it lives after it was stopped")
	}
	if logs, err := pod.Logs(); err != nil || !strings.Contains(logs, "asked to end") {
		t.Errorf("logs %q, %v", logs, err)
	}
	if entries, err := os.ReadDir(rootfs); err != nil || len(entries) != 1 {
		t.Errorf("the image's files have changed: %v, %v", entries, err)
	}
}

func checkIdentity(t *testing.T, pod *podrun.Pod, got report) {
	t.Helper()
	none := "0000000000000000"
	want := map[string]any{
		"uid": 4711, "gid": 4712, "groups": []int{4713}, "hostname": pod.ID(), "pid": 1,
		"CapEff": none, "CapPrm": none, "CapBnd": none, "CapInh": none, "NoNewPrivs": "1",
		"namespace": namespace, "app": "report", "password": "swordfish", "image": "over the image",
	}
	is := map[string]any{
		"uid": got.UID, "gid": got.GID, "groups": got.Groups, "hostname": got.Hostname, "pid": got.PID,
		"CapEff": got.Status["CapEff"], "CapPrm": got.Status["CapPrm"], "CapBnd": got.Status["CapBnd"], "CapInh": got.Status["CapInh"],
		"NoNewPrivs": got.Status["NoNewPrivs"],
		"namespace":  got.Env["POD_NAMESPACE"], "app": got.Env["APP"], "password": got.Env["PASSWORD"], "image": got.Env["FROM_IMAGE"],
	}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Error(diff)
	}
	_, port, _ := strings.Cut(pod.Address("http"), ":")
	args := []string{"/report", "report", "--listen=:" + port, "--ip=" + got.Env["POD_IP"], "--kept=$(NOBODY)", "--escaped=$(POD_IP)"}
	if diff := cmp.Diff(args, got.Args); diff != "" {
		t.Error(diff)
	}
}

func checkFiles(t *testing.T, client kubernetes.Interface, hub *rest.Config, got report) {
	t.Helper()
	if diff := cmp.Diff(map[string]bool{"": false, "/scratch": true, "/etc/password": false, strings.TrimSuffix(tokens, "/"): false}, got.Writable); diff != "" {
		t.Error(diff)
	}
	token := got.Files[tokens+"token"]
	delete(got.Files, tokens+"token")
	want := map[string]string{
		"/etc/password/value": "swordfish", "/etc/settings/b/c": "A", tokens + "namespace": namespace, tokens + "ca.crt": string(hub.CAData),
	}
	if diff := cmp.Diff(want, got.Files); diff != "" {
		t.Error(diff)
	}
	review, err := client.AuthenticationV1().TokenReviews().Create(t.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil || review.Status.User.Username != "system:serviceaccount:"+namespace+":reporter" {
		t.Errorf("the token is of %q: %v %s", review.Status.User.Username, err, review.Status.Error)
	}
	if hub.Host != "https://"+got.Env["KUBERNETES_SERVICE_HOST"]+":"+got.Env["KUBERNETES_SERVICE_PORT"] {
		t.Errorf("the hub is %s, the container has %s and %s", hub.Host, got.Env["KUBERNETES_SERVICE_HOST"], got.Env["KUBERNETES_SERVICE_PORT"])
	}
}

func optionsFor(t *testing.T, hub *rest.Config, rootfs string) podrun.Options {
	t.Helper()
	options := podrun.Options{
		Dir: t.TempDir(), Rootfs: rootfs, Hub: hub, Namespace: namespace, Ports: map[string]string{"http": "--listen"},
		Image: podrun.Image{Entrypoint: []string{"/report"}, Cmd: []string{"unused"}, User: "65532:65532", Env: []string{"FROM_IMAGE=the image"}},
		Say:   func(line string) { t.Log(line) },
	}
	if err := yaml.UnmarshalStrict([]byte(template), &options.Template); err != nil {
		t.Fatal(err)
	}
	return options
}

func startHub(t *testing.T) *rest.Config {
	t.Helper()
	running, err := lab.Start(t.Context(), lab.Options{Dir: t.TempDir(), Clusters: []lab.ClusterSpec{{Name: "hub"}}, Env: lab.Hasty})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Kill() })
	config, err := running.Cluster("hub").RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func prepare(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	core, ctx, options := client.CoreV1(), t.Context(), metav1.CreateOptions{}
	labels := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	_, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels}}, options)
	if err != nil {
		t.Fatal(err)
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	if _, err := core.ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta("reporter")}, options); err != nil {
		t.Fatal(err)
	}
	if _, err := core.Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: meta("password"), StringData: map[string]string{"value": "swordfish"}}, options); err != nil {
		t.Fatal(err)
	}
	if _, err := core.ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta("settings"), Data: map[string]string{"a": "A"}}, options); err != nil {
		t.Fatal(err)
	}
}

func build(t *testing.T, path string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, "./testdata/report")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

func ask(t *testing.T, pod *podrun.Pod) report {
	t.Helper()
	query := url.Values{
		"file": {"/etc/password/value", "/etc/settings/b/c", tokens + "namespace", tokens + "ca.crt", tokens + "token"},
		"dir":  {"", "/scratch", "/etc/password", strings.TrimSuffix(tokens, "/")},
	}
	response, err := http.Get("http://" + pod.Address("http") + "/report?" + query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var got report
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	return got
}

// soon ends when a busy machine should long have done what is waited for.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
