package peers

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func newTestServing(t *testing.T) *serving {
	t.Helper()
	s, err := newServing(kueueNamespace)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Kueue makes certificates of its own where those that it finds are not good for its Service, or not for 90 days.
func TestKueueIsGivenCertificatesThatItKeeps(t *testing.T) {
	s := newTestServing(t)
	if _, err := tls.X509KeyPair(s.files["ca.crt"], s.files["ca.key"]); err != nil {
		t.Errorf("the authority: %v", err)
	}
	if _, err := tls.X509KeyPair(s.files["tls.crt"], s.files["tls.key"]); err != nil {
		t.Errorf("the server: %v", err)
	}
	if block, _ := pem.Decode(s.files["ca.key"]); block == nil {
		t.Error("the authority's key is no PEM")
	} else if _, err := x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
		t.Errorf("the authority's key, as Kueue reads it: %v", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(s.files["ca.crt"]) {
		t.Fatal("the authority is no certificate")
	}
	soon := time.Now().Add(91 * 24 * time.Hour)
	for _, test := range []struct{ file, name string }{
		{"ca.crt", "kueue-ca"}, {"tls.crt", "kueue-webhook-service.kueue-system.svc"}, {"tls.crt", "127.0.0.1"},
	} {
		block, _ := pem.Decode(s.files[test.file])
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: test.name, CurrentTime: soon}); err != nil {
			t.Errorf("%s for %s: %v", test.file, test.name, err)
		}
	}
}

const someWebhooks = `---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: mutating-webhook-configuration}
webhooks:
- {name: mpod.kb.io, clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate--v1-pod}}}
- {name: mjob.kb.io, failurePolicy: Fail, clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate-batch-v1-job}}}
- {name: mjobset.kb.io, clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate-jobset-x-k8s-io-v1alpha2-jobset}}}
- {name: mworkload.kb.io, clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate-kueue-x-k8s-io-v1beta2-workload}}}
`

func TestKueueHasWebhooksForJobsAndItsOwnKinds(t *testing.T) {
	s := newTestServing(t)
	configurations, err := kueueWebhooks([]byte(someWebhooks), s, "127.0.0.1:1")
	if err != nil || len(configurations) != 1 {
		t.Fatalf("%v, %v", configurations, err)
	}
	if name := configurations[0].GetName(); name != "kueue-mutating-webhook-configuration" {
		t.Errorf("its name is %s", name)
	}
	bundle := base64.StdEncoding.EncodeToString(s.files["ca.crt"])
	want := []any{
		map[string]any{
			"name": "mjob.kb.io", "failurePolicy": "Fail",
			"clientConfig": map[string]any{"url": "https://127.0.0.1:1/mutate-batch-v1-job", "caBundle": bundle},
		},
		map[string]any{
			"name":         "mworkload.kb.io",
			"clientConfig": map[string]any{"url": "https://127.0.0.1:1/mutate-kueue-x-k8s-io-v1beta2-workload", "caBundle": bundle},
		},
	}
	if diff := cmp.Diff(want, configurations[0].Object["webhooks"]); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
	if _, err := kueueWebhooks([]byte("kind: MutatingWebhookConfiguration\nwebhooks: []\n"), s, "127.0.0.1:1"); err == nil {
		t.Error("a manifest without a webhook for Jobs is no error")
	}
}

func TestKueueConvertsWhatItsKustomizationSays(t *testing.T) {
	s := newTestServing(t)
	for name, converted := range map[string]bool{"workloads.kueue.x-k8s.io": true, "resourceflavors.kueue.x-k8s.io": false} {
		definition := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
		definition.SetName(name)
		if err := convertedAt(definition, s, "127.0.0.1:1"); err != nil {
			t.Fatal(err)
		}
		url, _, _ := unstructured.NestedString(definition.Object, "spec", "conversion", "webhook", "clientConfig", "url")
		if (url == "https://127.0.0.1:1/convert") != converted {
			t.Errorf("%s is converted at %q", name, url)
		}
	}
}

func TestKueueConfigIsYAML(t *testing.T) {
	text, err := fill(kueueConfig, map[string]string{
		"Namespace": "a", "Health": "127.0.0.1:1", "Host": "127.0.0.1", "Port": "2", "Certificates": "/b",
	})
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Health  struct{ HealthProbeBindAddress string }
		Webhook struct{ Port int }
	}
	if err := yaml.Unmarshal(text, &config); err != nil || config.Health.HealthProbeBindAddress != "127.0.0.1:1" || config.Webhook.Port != 2 {
		t.Errorf("%+v, %v, of\n%s", config, err, text)
	}
}

// The hub has an AdmissionCheck for all members, and no member has one.
func TestKueueObjects(t *testing.T) {
	common := []string{"ResourceFlavor", "ClusterQueue", "LocalQueue"}
	for name, test := range map[string]struct {
		members map[string]string
		want    []string
	}{
		"a member": {nil, common},
		"the hub": {
			map[string]string{"alpine": "YQ==", "basalt": "Yg=="},
			append(common[:3:3], "AdmissionCheck", "MultiKueueConfig", "Secret", "MultiKueueCluster", "Secret", "MultiKueueCluster"),
		},
	} {
		objects, err := decode(kueueObjects, map[string]any{
			"Name": kueueName, "Namespace": "space", "SystemNamespace": kueueNamespace, "Controller": multiKueueController, "Members": test.members,
		})
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, object := range objects {
			kinds = append(kinds, object.GetKind())
			checks, found, _ := unstructured.NestedSlice(object.Object, "spec", "admissionChecksStrategy", "admissionChecks")
			if want := object.GetKind() == "ClusterQueue" && test.members != nil; found != want || found && len(checks) != 1 {
				t.Errorf("%s: %s %s has the checks %v", name, object.GetKind(), object.GetName(), checks)
			}
			if clusters, found, _ := unstructured.NestedSlice(object.Object, "spec", "clusters"); found && !cmp.Equal(clusters, []any{"alpine", "basalt"}) {
				t.Errorf("%s: the MultiKueueConfig has %v", name, clusters)
			}
		}
		if diff := cmp.Diff(test.want, kinds); diff != "" {
			t.Errorf("%s: kinds (-want +got):\n%s", name, diff)
		}
	}
}
