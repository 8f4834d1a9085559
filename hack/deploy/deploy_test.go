package deploy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
	"github.com/minifleet/minifleet/hack/lab/podrun"
)

// lammps is the MiniCluster of config/samples; live is one that goes on while the controller is away.
var (
	lammps = client.ObjectKey{Namespace: "default", Name: "lammps"}
	live   = client.ObjectKey{Namespace: "default", Name: "live"}
)

// An administrator's life with the Makefile, from a hub that has nothing to one that has nothing again.
func TestTargets(t *testing.T) {
	if err := podrun.Available(); err != nil {
		t.Skip("NOT TESTED: the container of what make deploy installs:", err)
	}
	f := newFleet(t)
	f.makeImage(t)
	for _, step := range []struct {
		name string
		do   func(*testing.T, *fleet)
	}{
		{"install has the CRDs and nothing else", installs},
		{"run runs a controller on this machine", runsHere},
		{"deploy installs a controller that runs by its own pod spec", deploys},
		{"a member joins by another address than that of its kubeconfig", joins},
		{"the samples are applied and run", appliesSamples},
		{"undeploy keeps objects and live Jobs", undeploys},
		{"deployed again, nothing runs twice", deploysAgain},
		{"with the dashboard", withDashboard},
		{"with the receiver of webhooks", withReceiver},
		{"uninstall deletes everything, with what runs on members", uninstalls},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(t, f) }) {
			t.FailNow()
		}
	}
}

func installs(t *testing.T, f *fleet) {
	f.make(t, "install")
	want := []string{"fleetminiclusters.minifleet.dev", "gitsources.minifleet.dev", "memberclusters.minifleet.dev", "notifications.minifleet.dev", "placements.minifleet.dev"}
	if diff := cmp.Diff(want, f.definitions(t)); diff != "" {
		t.Error(diff)
	}
	if err := f.onHub.Get(t.Context(), client.ObjectKey{Name: managerNamespace}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Errorf("namespace %s: %v", managerNamespace, err)
	}
}

// definitions are the names of the CRDs of MiniFleet on the hub.
func (f *fleet) definitions(t *testing.T) []string {
	t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	if err := f.onHub.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, item := range list.Items {
		if strings.HasSuffix(item.Name, ".minifleet.dev") {
			names = append(names, item.Name)
		}
	}
	return names
}

func runsHere(t *testing.T, f *fleet) {
	address, err := lab.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	cmd := f.makeCommand(t, "run", "ARGS=--metrics-bind-address=0 --health-probe-bind-address="+address)
	log, err := os.Create(filepath.Join(f.work, "run.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	f.eventually(t, func(ctx context.Context) error {
		if err := answers(ctx, http.DefaultClient, "http://"+address+"/readyz", http.StatusOK); err != nil {
			output, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%w\n%s", err, output)
		}
		// It leads, so it does something.
		return f.onHub.Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: "minifleet-fleet"}, &corev1.ConfigMap{})
	})
	// As Ctrl-C in a terminal: make and the controller get it.
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // make reports the interrupt
	if err := answers(t.Context(), http.DefaultClient, "http://"+address+"/readyz", http.StatusOK); err == nil {
		t.Error("the controller still runs")
	}
}

func deploys(t *testing.T, f *fleet) {
	f.make(t, "deploy", "IMG="+image)
	f.start(t)
	var account string
	f.eventually(t, func(context.Context) error {
		requests, err := lab.ReadAudit(f.hub.AuditLog())
		if err != nil {
			return err
		}
		for _, request := range requests {
			if strings.HasPrefix(request.User.Username, "system:serviceaccount:"+managerNamespace) {
				account = request.User.Username
			}
		}
		return errorIf(account != "system:serviceaccount:"+managerNamespace+":"+deploymentName, "the controller is %q", account)
	})
}

// joins registers the member by an address that its kubeconfig does not have, nor its certificate.
func joins(t *testing.T, f *fleet) {
	other := forward(t, f.alpine.Address())
	join := []string{
		"cluster", "join", "alpine", "--member-kubeconfig", f.alpine.KubeconfigPath(), "--server", "https://" + other.address,
		"--hub-namespaces", "*", "--labels", "site=north,gpu=true",
	}
	if output, err := f.minifleetCommand(t, append(join, "--timeout", "20s")...).CombinedOutput(); err == nil || !strings.Contains(string(output), "certificate") {
		t.Errorf("with a certificate for another name: %v\n%s", err, output)
	}
	if err := f.onHub.Get(t.Context(), client.ObjectKey{Name: "alpine"}, &v1alpha1.MemberCluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("what failed has left a MemberCluster: %v", err)
	}
	// What it has made is being deleted.
	f.eventually(t, func(ctx context.Context) error {
		err := f.onAlpine.Get(ctx, client.ObjectKey{Name: "minifleet-member"}, &corev1.Namespace{})
		return errorIf(!apierrors.IsNotFound(err), "namespace minifleet-member on the member: %v", err)
	})
	f.minifleet(t, append(join, "--server-name", "kubernetes", "--timeout", patience.String())...)
	member := &v1alpha1.MemberCluster{}
	f.get(t, client.ObjectKey{Name: "alpine"}, member)
	if !meta.IsStatusConditionTrue(member.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("%+v", member.Status.Conditions)
	}
	if other.connections.Load() == 0 {
		t.Error("the hub reaches the member by another address than --server")
	}
}

// forwarder leads to an API server from another address, as the network of a cluster's pods does.
type forwarder struct {
	address     string
	connections atomic.Int32
}

// forward listens on 127.0.0.2, which the certificates of the lab do not name. It forwards as long as this process runs.
func forward(t *testing.T, to string) *forwarder {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forwarder{address: listener.Addr().String()}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			f.connections.Add(1)
			go connect(from, to)
		}
	}()
	return f
}

func connect(from net.Conn, to string) {
	defer func() { _ = from.Close() }()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() { _, _ = io.Copy(server, from); _ = server.Close() }()
	_, _ = io.Copy(from, server)
}

func appliesSamples(t *testing.T, f *fleet) {
	// A namespace that MiniFleet has not made is used once the member's administrator says so.
	namespace := &corev1.Namespace{}
	if err := f.onAlpine.Get(t.Context(), client.ObjectKey{Name: "default"}, namespace); err != nil {
		t.Fatal(err)
	}
	namespace.Labels["minifleet.dev/hub-namespace"] = "default"
	if err := f.onAlpine.Update(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	f.make(t, "samples")
	f.finish(t, lammps)
	f.minifleet(t, "wait", lammps.Name, "--namespace", lammps.Namespace, "--timeout", patience.String())
	mini := &v1alpha1.FleetMiniCluster{}
	f.get(t, lammps, mini)
	if mini.Status.State != v1alpha1.StateSucceeded {
		t.Errorf("it is %s", mini.Status.State)
	}
}

// finish ends the pods of a run, which there is or will be.
func (f *fleet) finish(t *testing.T, run client.ObjectKey) {
	t.Helper()
	f.eventually(t, func(ctx context.Context) error {
		pods, err := f.alpine.Tell(ctx, run.Namespace, "batch.kubernetes.io/job-name="+run.Name, map[string]string{lab.AskSeconds: "0"})
		if err != nil {
			return err
		}
		return errorIf(pods < 2, "%d pods of %s", pods, run)
	})
}

// job is the one Job of a run.
func (f *fleet) job(ctx context.Context, run client.ObjectKey) (*batchv1.Job, error) {
	job := &batchv1.Job{}
	return job, f.onAlpine.Get(ctx, run, job)
}

func undeploys(t *testing.T, f *fleet) {
	f.apply(t, live)
	f.eventually(t, func(ctx context.Context) error {
		job, err := f.job(ctx, live)
		return errors.Join(err, errorIf(job.Status.Active == 0, "Job %s is not active", live))
	})
	before := f.objects(t)
	f.make(t, "undeploy")
	f.stop(t)
	if err := f.onHub.Get(t.Context(), client.ObjectKey{Namespace: managerNamespace, Name: deploymentName}, &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Deployment: %v", err)
	}
	roles := &rbacv1.ClusterRoleList{}
	if err := f.onHub.List(t.Context(), roles, client.MatchingLabels{"app.kubernetes.io/part-of": "minifleet"}); err != nil || len(roles.Items) > 0 {
		t.Errorf("%d cluster roles, %v", len(roles.Items), err)
	}
	if diff := cmp.Diff(before, f.objects(t)); diff != "" {
		t.Error(diff)
	}
	if job, err := f.job(t.Context(), live); err != nil || job.Status.Active == 0 || job.DeletionTimestamp != nil {
		t.Errorf("Job %s: %v, %+v", live, err, job.Status)
	}
}

// apply puts a MiniCluster of two pods on the hub, on the member with a GPU.
func (f *fleet) apply(t *testing.T, key client.ObjectKey) {
	t.Helper()
	sample := &v1alpha1.FleetMiniCluster{}
	f.get(t, lammps, sample)
	mini := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: sample.Spec}
	if err := f.onHub.Create(t.Context(), mini); err != nil {
		t.Fatal(err)
	}
}

// objects are the UIDs of what an administrator has made, and of the Secrets that go with it.
func (f *fleet) objects(t *testing.T) map[string]types.UID {
	t.Helper()
	found := map[string]types.UID{}
	for _, list := range []client.ObjectList{
		&v1alpha1.FleetMiniClusterList{}, &v1alpha1.GitSourceList{}, &v1alpha1.PlacementList{}, &v1alpha1.MemberClusterList{}, &corev1.SecretList{},
	} {
		if err := f.onHub.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		err := meta.EachListItem(list, func(object runtime.Object) error {
			accessor, err := meta.Accessor(object)
			if err == nil {
				found[fmt.Sprintf("%T %s/%s", object, accessor.GetNamespace(), accessor.GetName())] = accessor.GetUID()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func deploysAgain(t *testing.T, f *fleet) {
	before, err := f.job(t.Context(), live)
	if err != nil {
		t.Fatal(err)
	}
	done, err := f.job(t.Context(), lammps)
	if err != nil {
		t.Fatal(err)
	}
	f.make(t, "deploy", "IMG="+image)
	f.start(t)
	f.finish(t, live)
	f.minifleet(t, "wait", live.Name, lammps.Name, "--namespace", live.Namespace, "--timeout", patience.String())
	for key, uid := range map[client.ObjectKey]types.UID{live: before.UID, lammps: done.UID} {
		if job, err := f.job(t.Context(), key); err != nil || job.UID != uid {
			t.Errorf("Job %s was %s and is %s: %v", key, uid, job.UID, err)
		}
	}
	jobs := &batchv1.JobList{}
	if err := f.onAlpine.List(t.Context(), jobs); err != nil || len(jobs.Items) != 2 {
		t.Errorf("%d Jobs, %v", len(jobs.Items), err)
	}
	f.stop(t)
}

func withDashboard(t *testing.T, f *fleet) {
	trust := f.secret(t, "minifleet-dashboard-tls")
	f.make(t, "deploy", "CONFIG=config/with-dashboard", "IMG="+image)
	f.start(t)
	f.eventually(t, func(ctx context.Context) error {
		if err := f.led(ctx, "minifleet-dashboard"); err != nil {
			return err
		}
		if err := answers(ctx, trust, "https://"+f.pod.Address("dashboard")+"/", http.StatusOK); err != nil {
			return err
		}
		return answers(ctx, trust, "https://"+f.pod.Address("dashboard")+"/api/v1/clusters", http.StatusUnauthorized)
	})
	f.stop(t)
}

func withReceiver(t *testing.T, f *fleet) {
	trust := f.secret(t, "minifleet-receiver-tls")
	f.make(t, "undeploy")
	f.make(t, "deploy", "CONFIG=config/with-receiver", "IMG="+image)
	f.start(t)
	f.eventually(t, func(ctx context.Context) error {
		if err := f.led(ctx, "minifleet-receiver"); err != nil {
			return err
		}
		return answers(ctx, trust, "https://"+f.pod.Address("receiver")+"/hook/unknown", http.StatusMethodNotAllowed)
	})
}

// secret makes a certificate as cert-manager would, and returns a client that trusts it.
func (f *fleet) secret(t *testing.T, name string) *http.Client {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: name}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}}
	if err := f.onHub.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
}

// led checks that a Service without a selector leads to the pod.
func (f *fleet) led(ctx context.Context, name string) error {
	key := client.ObjectKey{Namespace: managerNamespace, Name: name}
	service, slice := &corev1.Service{}, &discoveryv1.EndpointSlice{}
	if err := errors.Join(f.onHub.Get(ctx, key, service), f.onHub.Get(ctx, key, slice)); err != nil {
		return err
	}
	if len(service.Spec.Selector) > 0 {
		return fmt.Errorf("Service %s selects pods", name)
	}
	return errorIf(len(slice.Endpoints) != 1 || slice.Labels[discoveryv1.LabelServiceName] != name, "EndpointSlice %s: %+v", name, slice)
}

func answers(ctx context.Context, client *http.Client, url string, status int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
	return errorIf(response.StatusCode != status, "%s: %s, not %d: %s", url, response.Status, status, body)
}

func uninstalls(t *testing.T, f *fleet) {
	f.make(t, "uninstall")
	if left := f.definitions(t); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}} {
		if err := f.onAlpine.List(t.Context(), list); err != nil || meta.LenList(list) > 0 {
			t.Errorf("%d %T on the member: %v", meta.LenList(list), list, err)
		}
	}
	f.stop(t)
}
