package clusters

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters/credentialplugin"
	"github.com/minifleet/minifleet/internal/scripttest"
)

// plugin is a credential plugin that prints what is in a file, and hangs while there is none.
type plugin struct{ dir string }

func newPlugin(t *testing.T, p *Provider) *plugin {
	t.Helper()
	p.SetPlugins(&credentialplugin.Runner{Environment: []string{"PATH=" + os.Getenv("PATH")}, Now: time.Now, Timeout: 2 * time.Second})
	out := &plugin{dir: t.TempDir()}
	scripttest.Write(t, filepath.Join(out.dir, "plugin"), "#!/bin/sh\n[ -e \"$1\" ] || exec sleep 600\nexec cat \"$1\"\n")
	return out
}

// prints has the plugin print a credential for a member.
func (p *plugin) prints(t *testing.T, name string, s clientauthenticationv1.ExecCredentialStatus) {
	t.Helper()
	body, err := json.Marshal(clientauthenticationv1.ExecCredential{
		TypeMeta: metav1.TypeMeta{APIVersion: credentialplugin.Versions[0], Kind: "ExecCredential"}, Status: &s,
	})
	if err != nil {
		t.Fatal(err)
	}
	draft := filepath.Join(p.dir, name+".draft")
	if err := os.WriteFile(draft, body, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(draft, filepath.Join(p.dir, name)); err != nil {
		t.Fatal(err)
	}
}

func (p *plugin) target(h *hostile, name string) Target {
	return Target{Access: &Access{
		Profile: name, Server: h.URL, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}),
		Plugin: credentialplugin.Command{Provider: "test", APIVersion: credentialplugin.Versions[0], Path: filepath.Join(p.dir, "plugin"), Args: []string{filepath.Join(p.dir, name)}},
	}}
}

// expires is a token that expires after some time.
func expires(token string, after time.Duration) clientauthenticationv1.ExecCredentialStatus {
	return clientauthenticationv1.ExecCredentialStatus{Token: token, ExpirationTimestamp: &metav1.Time{Time: time.Now().Add(after)}}
}

func TestTokensOfAPluginAreRenewedWithoutANewConnection(t *testing.T) {
	var mu sync.Mutex
	accepted, seen := "Bearer first", map[string]bool{}
	h := newHostile(t, true, emptyCluster(func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Header.Get("Authorization")] = true
		if accepted != "" && accepted != r.Header.Get("Authorization") {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		return false
	}))
	accept := func(token string) {
		mu.Lock()
		defer mu.Unlock()
		accepted = token
	}
	p, changed := newTestProvider(t)
	plugin := newPlugin(t, p)
	plugin.prints(t, "a", expires("first", 4*time.Second))
	p.Ensure("a", plugin.target(h, "a"))
	first := await(t, p, changed, "ready", isReady)
	if !strings.Contains(first.Message, "provider test for ClusterProfile a") || first.Server != h.URL {
		t.Errorf("%+v", first)
	}
	m, err := p.Member("a")
	if err != nil {
		t.Fatal(err)
	}

	accept("")
	plugin.prints(t, "a", expires("second", time.Hour))
	for asked := false; !asked; {
		if _, err := m.identify(t.Context()); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		asked = seen["Bearer second"]
		mu.Unlock()
		time.Sleep(20 * time.Millisecond)
	}
	if again, _ := p.State("a"); !again.Ready || again.Since != first.Since {
		t.Errorf("it was connected anew: %+v", again)
	}

	accept("Bearer third")
	h.CloseClientConnections()
	if s := await(t, p, changed, "refused", hasReason(v1alpha1.ReasonAuthFailed)); !strings.HasPrefix(s.Message, "the member refuses the credentials of provider test") {
		t.Error(s.Message)
	}
	plugin.prints(t, "a", expires("third", time.Hour))
	await(t, p, changed, "ready again", isReady)
}

// certificate is a client certificate and its key, PEM data.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}))
}

func TestAnotherCertificateOfAPluginConnectsAnew(t *testing.T) {
	h := newHostile(t, true, emptyCluster(func(http.ResponseWriter, *http.Request) bool { return false }))
	p, changed := newTestProvider(t)
	plugin := newPlugin(t, p)
	status := func(after time.Duration) clientauthenticationv1.ExecCredentialStatus {
		s := expires("", after)
		s.ClientCertificateData, s.ClientKeyData = certificate(t)
		return s
	}
	plugin.prints(t, "a", status(4*time.Second))
	p.Ensure("a", plugin.target(h, "a"))
	first := await(t, p, changed, "ready", isReady)
	plugin.prints(t, "a", status(time.Hour))
	await(t, p, changed, "ready anew", func(s State) bool { return s.Ready && s.Since.After(first.Since) })
}

// A plugin that hangs is nobody's but its member's, which is connected when it no longer does.
func TestAPluginThatHangsDelaysNoOtherMember(t *testing.T) {
	var asked atomic.Int64
	h := newHostile(t, true, emptyCluster(func(http.ResponseWriter, *http.Request) bool { asked.Add(1); return false }))
	p, changed := newTestProvider(t)
	plugin := newPlugin(t, p)
	p.Ensure("a", plugin.target(h, "a"))
	if asked.Load() > 0 {
		t.Error("the member is asked without credentials")
	}
	plugin.prints(t, "other", expires("token", time.Hour))
	p.Ensure("other", plugin.target(h, "other"))
	await(t, p, changed, "ready beside the other", func(State) bool {
		s, _ := p.State("other")
		return s.Ready
	})
	if s := await(t, p, changed, "killed", hasReason(v1alpha1.ReasonCredentialPluginFailed)); !strings.Contains(s.Message, "has not ended within 2s, and was killed") {
		t.Error(s.Message)
	}
	plugin.prints(t, "a", expires("token", time.Hour))
	await(t, p, changed, "ready", isReady)
	p.Remove("a")
	p.Remove("other")
}
