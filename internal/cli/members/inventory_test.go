package members

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// theirToken is in Secrets of other systems; no error may tell it.
const theirToken = "hunter2hunter2"

func argoSecret(name, server, config string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "argocd", Name: "cluster-" + name, Labels: map[string]string{
			argoSecretType: "cluster", "site": "north", "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "a", "minifleet.dev/x": "y",
		}},
		Data: map[string][]byte{"name": []byte(name), "server": []byte(server), "config": []byte(config)},
	}
}

// capiSecret is that of cluster alpine.
func capiSecret(kubeconfig string) *corev1.Secret {
	const name = "alpine"
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: name + "-kubeconfig", Labels: map[string]string{capiClusterName: name}},
		Type:       capiSecretType, Data: map[string][]byte{"value": []byte(kubeconfig)},
	}
}

// selfSigned is a certificate and its key, PEM data.
func selfSigned(t testing.TB) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

func TestReadArgoCD(t *testing.T) {
	cert, key := selfSigned(t)
	b64 := base64.StdEncoding.EncodeToString
	got := readArgoCD(argoSecret("alpine", "https://10.0.0.1:6443", `{"bearerToken": "`+theirToken+`", "tlsClientConfig": {"insecure": false, "serverName": "alpine", "caData": "`+b64(cert)+`"}}`))
	if got.Refused != nil || got.Config.Host != "https://10.0.0.1:6443" || got.Config.BearerToken != theirToken || got.Config.ServerName != "alpine" || string(got.Config.CAData) != string(cert) || got.Address() != "https://10.0.0.1:6443" {
		t.Fatalf("%+v", got)
	}
	if diff := cmp.Diff(map[string]string{"site": "north", "topology.kubernetes.io/zone": "a"}, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	got = readArgoCD(argoSecret("alpine", "https://alpine", `{"tlsClientConfig": {"certData": "`+b64(cert)+`", "keyData": "`+b64(key)+`"}}`))
	if got.Refused != nil || string(got.Config.KeyData) != string(key) || got.Note != "" {
		t.Fatalf("%+v", got)
	}
	confined := argoSecret("alpine", "https://alpine", `{"bearerToken": "a"}`)
	confined.Data["namespaces"] = []byte("hpc,ml")
	if got := readArgoCD(confined); got.Refused != nil || !strings.Contains(got.Note, "hpc,ml") {
		t.Errorf("%+v", got)
	}
	if name, ok := readArgoCD(argoSecret("Prod / EU", "https://alpine", `{"bearerToken": "a"}`)).MemberName(); ok {
		t.Errorf("%q is taken for a name", name)
	}
}

// Anybody may have made such a Secret.
func TestArgoCDClustersThatAreRefused(t *testing.T) {
	cert, key := selfSigned(t)
	b64 := base64.StdEncoding.EncodeToString
	const server = "https://10.0.0.1:6443"
	token := `"bearerToken": "` + theirToken + `"`
	for name, c := range map[string]struct{ server, config, says string }{
		"in the cluster":        {"https://kubernetes.default.svc", `{}`, "the cluster that Argo CD runs in"},
		"in the cluster, long":  {"https://Kubernetes.default.svc.cluster.local.:443/", "{" + token + "}", "the cluster that Argo CD runs in"},
		"in the cluster, short": {"https://kubernetes", "{" + token + "}", "the cluster that Argo CD runs in"},
		"no server":             {"", "{" + token + "}", "https:// URL"},
		"no TLS":                {"http://10.0.0.1", "{" + token + "}", "https:// URL"},
		"a user in the server":  {"https://admin:" + theirToken + "@10.0.0.1", "{" + token + "}", "https:// URL without credentials"},
		"no config":             {server, "", "config is empty"},
		"no JSON":               {server, "{" + token, "no JSON of a cluster"},
		"another type":          {server, `{"bearerToken": ["` + theirToken + `"]}`, "no JSON of a cluster"},
		"not base64":            {server, `{"tlsClientConfig": {"caData": "` + theirToken + `!"}}`, "no JSON of a cluster"},
		"an unknown field":      {server, "{" + token + `, "impersonate": "root"}`, `unknown field "impersonate"`},
		"a field twice":         {server, "{" + token + "," + token + "}", `duplicate field "bearerToken"`},
		"another spelling":      {server, `{"BearerToken": "` + theirToken + `"}`, `unknown field "BearerToken"`},
		"a file":                {server, "{" + token + `, "tlsClientConfig": {"caFile": "/etc/passwd"}}`, `unknown field "tlsClientConfig.caFile"`},
		"insecure":              {server, "{" + token + `, "tlsClientConfig": {"insecure": true}}`, "tlsClientConfig.insecure is refused"},
		"a proxy":               {server, "{" + token + `, "proxyUrl": "http://10.0.0.2"}`, "proxyUrl is refused"},
		"AWS":                   {server, `{"awsAuthConfig": {"clusterName": "a", "roleARN": "b"}}`, "aws eks update-kubeconfig"},
		"a program":             {server, `{"execProviderConfig": {"command": "sh", "args": ["-c", "reboot"]}}`, "execProviderConfig names a program"},
		"an empty program":      {server, "{" + token + `, "execProviderConfig": {}}`, "execProviderConfig names a program"},
		"a password":            {server, `{"username": "admin", "password": "` + theirToken + `"}`, "username and password are refused"},
		"nothing":               {server, `{"tlsClientConfig": {"insecure": false}}`, "neither a bearerToken nor certData"},
		"a certificate alone":   {server, `{"tlsClientConfig": {"certData": "` + b64(cert) + `"}}`, "without its key"},
		"no certificate":        {server, `{"tlsClientConfig": {"certData": "` + b64([]byte(theirToken)) + `", "keyData": "` + b64(key) + `"}}`, "no PEM data, or do not belong together"},
		"no CA":                 {server, "{" + token + `, "tlsClientConfig": {"caData": "` + b64([]byte("x")) + `"}}`, "no PEM data"},
		"a line in the token":   {server, `{"bearerToken": "` + theirToken + `\r\nX: y"}`, "characters that no token has"},
		"much":                  {server, "{" + token + `, "x": "` + strings.Repeat("x", maxCandidate) + `"}`, "is longer than 256 KiB"},
	} {
		got := readArgoCD(argoSecret("alpine", c.server, c.config))
		switch {
		case got.Refused == nil || got.Config != nil:
			t.Errorf("%s: is not refused", name)
		case !strings.Contains(got.Refused.Error(), c.says):
			t.Errorf("%s: %q does not say %q", name, got.Refused, c.says)
		case strings.Contains(got.Refused.Error()+got.Server+got.Name+got.Note, theirToken):
			t.Errorf("%s: tells what is secret: %+v", name, got)
		case strings.Contains(got.Refused.Error(), "\n"):
			t.Errorf("%s: %q has more than one line", name, got.Refused)
		}
	}
}

func TestReadCAPI(t *testing.T) {
	const good = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443"}}], users: [{name: u, user: {token: ` + theirToken + `}}]}`
	got := readCAPI(capiSecret(good))
	if got.Refused != nil || got.Config.BearerToken != theirToken || got.Server != "https://10.0.0.1:6443" || got.Name != "alpine" {
		t.Fatalf("%+v", got)
	}
	other := capiSecret(good)
	other.Name = "alpine-ca"
	if readCAPI(other) != nil {
		t.Error("the CA of a cluster is taken for its kubeconfig")
	}
	opaque := capiSecret(good)
	opaque.Type = corev1.SecretTypeOpaque
	for name, c := range map[string]struct {
		secret *corev1.Secret
		says   string
	}{
		"another type":  {opaque, "has type Opaque"},
		"not there yet": {capiSecret(""), `no key "value"`},
		"a program":     {capiSecret(strings.Replace(good, "token: ", "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never}, token: ", 1)), "user.exec is refused"},
		"a file":        {capiSecret(strings.Replace(good, "token: ", "tokenFile: /etc/passwd, token: ", 1)), "user.tokenFile is refused"},
		"no kubeconfig": {capiSecret(theirToken), "not valid YAML"},
	} {
		got := readCAPI(c.secret)
		if got.Config != nil || got.Refused == nil || !strings.Contains(got.Refused.Error(), c.says) || strings.Contains(got.Refused.Error(), theirToken) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestFind(t *testing.T) {
	twin := argoSecret("basalt", "https://b", `{"bearerToken": "a"}`)
	twin.Name = "another"
	large := argoSecret("dune", "https://d", `{"bearerToken": "a"}`)
	large.Data["annotations"] = make([]byte, maxCandidate)
	unlabelled := argoSecret("esker", "https://e", `{"bearerToken": "a"}`)
	unlabelled.Labels = nil
	from := fake.NewClientBuilder().WithObjects(
		argoSecret("alpine", "https://a", `{"bearerToken": "a"}`), argoSecret("basalt", "https://b", `{"bearerToken": "a"}`), twin, large, unlabelled,
	).Build()
	argo := Inventories["argocd"]
	all, err := argo.List(t.Context(), from, "argocd")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"alpine", "basalt", "basalt", "dune"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c, err := argo.Find(t.Context(), from, "argocd", "alpine"); err != nil || c.Secret != (client.ObjectKey{Namespace: "argocd", Name: "cluster-alpine"}) {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := argo.Find(t.Context(), from, "argocd", "dune"); err != nil || c.Config != nil || !strings.Contains(c.Refused.Error(), "more than 256 are refused") {
		t.Errorf("%+v, %v", c, err)
	}
	for name, says := range map[string]string{"basalt": "two clusters basalt", "esker": "it has alpine; basalt"} {
		if _, err := argo.Find(t.Context(), from, "argocd", name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := argo.Find(t.Context(), from, "default", "alpine"); err == nil || !strings.Contains(err.Error(), "--from-namespace") {
		t.Error(err)
	}
}

// FuzzArgoCD reads cluster Secrets that anybody may have made.
func FuzzArgoCD(f *testing.F) {
	cert, key := selfSigned(f)
	good, err := json.Marshal(map[string]any{"tlsClientConfig": map[string]any{"certData": cert, "keyData": key, "caData": cert}, "bearerToken": "a"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("alpine", "https://10.0.0.1:6443", string(good))
	f.Add("in-cluster", "https://kubernetes.default.svc", `{"tlsClientConfig":{"insecure":false}}`)
	f.Add("x", "https://a@b", `{"execProviderConfig": {"command": "sh"}, "awsAuthConfig": null}`)
	f.Fuzz(func(t *testing.T, name, server, config string) {
		c := readArgoCD(argoSecret(name, server, config))
		if (c.Config == nil) == (c.Refused == nil) {
			t.Fatalf("%+v", c)
		}
		if c.Refused != nil {
			if len(c.Refused.Error()) > 2000 {
				t.Errorf("an error of %d bytes", len(c.Refused.Error()))
			}
			return
		}
		rc := c.Config
		if rc.ExecProvider != nil || rc.AuthProvider != nil || rc.Insecure || rc.CAFile != "" || rc.CertFile != "" || rc.KeyFile != "" || rc.BearerTokenFile != "" ||
			rc.Proxy != nil || rc.Username != "" || rc.Impersonate.UserName != "" || !strings.HasPrefix(strings.ToLower(rc.Host), "https://") || isInCluster(rc.Host) {
			t.Errorf("%+v", rc)
		}
	})
}
