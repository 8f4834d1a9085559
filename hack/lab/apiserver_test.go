package lab_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/minifleet/minifleet/hack/lab"
)

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

func TestServerVersionIsTheModules(t *testing.T) {
	t.Parallel()
	needsOwned(t)
	version, err := clientFor(t, shared.Cluster("hub")).ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.Major != "1" || version.Minor == "" || version.GitVersion[:2] != "v1" {
		t.Errorf("version %+v", version)
	}
}

func TestAPIServerComesBackWithItsData(t *testing.T) {
	needsOwned(t)
	hub := shared.Cluster("hub")
	client := clientFor(t, hub)
	stops := map[string]func() error{"stopped": hub.StopAPIServer, "killed": hub.KillAPIServer}
	for name, stop := range stops {
		t.Run(name, func(t *testing.T) {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}
			object, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if _, err := client.ServerVersion(); err == nil {
				t.Fatal("the stopped server answers")
			}
			if err := hub.StartAPIServer(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), object.Name, metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPausedAPIServerHangs(t *testing.T) {
	needsOwned(t)
	hub := shared.Cluster("hub")
	config, err := hub.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.Timeout = 500 * time.Millisecond
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := hub.PauseAPIServer(); err != nil {
		t.Fatal(err)
	}
	var pausedErr error
	for range 5 { // on a busy machine it may stop a moment after the signal
		if _, pausedErr = client.ServerVersion(); pausedErr != nil {
			break
		}
	}
	if err := hub.ResumeAPIServer(); err != nil {
		t.Fatal(err)
	}
	if pausedErr == nil {
		t.Error("the paused server answers on")
	}
	eventually(t, func(context.Context) string {
		if _, err := client.ServerVersion(); err != nil {
			return err.Error()
		}
		return ""
	})
}

// clientWith returns a client of the cluster that a kubeconfig leads to.
func clientWith(t *testing.T, kubeconfig []byte) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestKubeconfigForAUserWithoutRights(t *testing.T) {
	t.Parallel()
	needsOwned(t)
	kubeconfig, err := shared.Cluster("member").KubeconfigFor("jane", "researchers")
	if err != nil {
		t.Fatal(err)
	}
	client := clientWith(t, kubeconfig)
	_, err = client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("listing Secrets: %v, want forbidden", err)
	}
}

func TestCredentialsOfOneClusterAreWorthNothingAtAnother(t *testing.T) {
	needsOwned(t)
	kubeconfig, err := lab.WithServer(shared.Cluster("member").Kubeconfig(), shared.Cluster("hub").Address())
	if err != nil {
		t.Fatal(err)
	}
	client := clientWith(t, kubeconfig)
	if _, err := client.ServerVersion(); err == nil {
		t.Error("the hub took the member's credentials")
	}
}

func TestAuditLogHasEachWriteAtOnce(t *testing.T) {
	needsOwned(t)
	hub := shared.Cluster("hub")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "audited"}}
	client := clientFor(t, hub)
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().ConfigMaps("default").Delete(t.Context(), "audited", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	events, err := lab.ReadAudit(hub.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"create", "delete"} {
		found := slices.ContainsFunc(events, func(event lab.AuditEvent) bool {
			return event.Verb == verb && event.Write() && event.Object != nil && event.Object.Name == "audited" &&
				event.User.Username == "admin" && event.Response.Code/100 == http.StatusOK/100
		})
		if !found {
			t.Errorf("no %s of the ConfigMap in the audit log", verb)
		}
	}
}
