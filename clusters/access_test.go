package clusters

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters/credentialplugin"
)

func profileTarget() *Target {
	return &Target{Access: &Access{Profile: "granite", Server: "https://10.0.0.1:6443", Plugin: credentialplugin.Command{Provider: "cloud"}}}
}

// The token that was issued last is sent, without a new connection, and all of them are known in Secrets.
func TestTokensThatAreIssuedInTurn(t *testing.T) {
	i := &issued{}
	i.add(credentialplugin.Credential{Token: "first-token-0123456789"})
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get("Authorization"))
	}))
	defer server.Close()
	client := &http.Client{Transport: &bearer{issued: i, next: http.DefaultTransport}}
	ask := func() {
		t.Helper()
		resp, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	ask()
	i.add(credentialplugin.Credential{Token: "second-token-0123456789"})
	ask()
	if got := strings.Join(sent, ", "); got != "Bearer first-token-0123456789, Bearer second-token-0123456789" {
		t.Error(got)
	}
	m := &Member{issued: i}
	for _, token := range []string{"first-token-0123456789", "second-token-0123456789"} {
		if !m.HoldsToken(&corev1.Secret{Data: map[string][]byte{"x": []byte(token)}}) {
			t.Errorf("%s is not known", token)
		}
	}
	for n := range 2 * maxIssued {
		i.add(credentialplugin.Credential{Token: fmt.Sprint("token-0123456789-", n)})
	}
	if n := len(i.all()); n != maxIssued {
		t.Errorf("%d credentials are remembered", n)
	}
}

func TestUntilRenewal(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		time.Hour: 59 * time.Minute, 5 * time.Minute: 270 * time.Second, 10 * time.Second: 9 * time.Second,
		time.Second: renewMin, 0: renewMin, -time.Hour: renewMin,
	} {
		if got := untilRenewal(left); got != want {
			t.Errorf("with %s left it is renewed after %s, not %s", left, got, want)
		}
	}
}

// The first attempts after a failure come before the credential expires.
func TestUntilAnother(t *testing.T) {
	var waited []time.Duration
	for last, n := time.Duration(0), 0; n < 7; n++ {
		last = untilAnother(last)
		waited = append(waited, last)
	}
	s := time.Second
	if diff := cmp.Diff([]time.Duration{2 * s, 4 * s, 8 * s, 16 * s, 32 * s, renewMargin, renewMargin}, waited); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is wrong with a member that has a ClusterProfile is not told of a kubeconfig that it does not have.
func TestExplainWithoutAKubeconfig(t *testing.T) {
	cause := errors.New("the cause")
	target := profileTarget()
	for _, reason := range []string{
		v1alpha1.ReasonAuthFailed, v1alpha1.ReasonForbidden, v1alpha1.ReasonCertificateUntrusted, v1alpha1.ReasonWrongCluster, v1alpha1.ReasonRedirectRefused,
	} {
		got := target.explain(&Error{reason, fmt.Errorf("correct the kubeconfig: %w", cause)})
		text := got.Error()
		if got.Reason != reason || strings.Contains(text, "kubeconfig") || !strings.Contains(text, "cloud") || !strings.Contains(text, "granite") || !strings.Contains(text, "the cause") {
			t.Errorf("%s: %s", got.Reason, text)
		}
	}
	if got := target.explain(&Error{v1alpha1.ReasonKubeconfigInvalid, cause}); got.Reason != v1alpha1.ReasonClusterProfileRefused {
		t.Errorf("%s: %s", got.Reason, got)
	}
	unreachable := &Error{v1alpha1.ReasonUnreachable, cause}
	if got := target.explain(unreachable); got != unreachable {
		t.Error(got)
	}
	if got := (&Target{}).explain(wrongCluster("a", "b")); !strings.Contains(got.Error(), "kubeconfig") {
		t.Error(got)
	}
}

func TestAddressOfAnAccess(t *testing.T) {
	kubeconfig := []byte(goodKubeconfig)
	server, ca := profileTarget().Address()
	if s, c := Address(kubeconfig); s != server || c != ca {
		t.Errorf("%s %s, and with a kubeconfig %s %s", server, ca, s, c)
	}
}
