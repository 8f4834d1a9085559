package clusters

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

const goodKubeconfig = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters:
- name: k
  cluster:
    server: https://10.0.0.1:6443
users:
- name: u
  user:
    token: hunter2
`

func TestRESTConfig(t *testing.T) {
	cfg, err := RESTConfig([]byte(goodKubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://10.0.0.1:6443" || cfg.BearerToken != "hunter2" || cfg.QPS != -1 || cfg.UserAgent != "minifleet" {
		t.Errorf("got host %s, QPS %v, user agent %s", cfg.Host, cfg.QPS, cfg.UserAgent)
	}
}

// The token hunter2 is in each of these; no error may tell it.
func TestRESTConfigRefuses(t *testing.T) {
	edit := func(old, replacement string) string {
		if !strings.Contains(goodKubeconfig, old) {
			t.Fatalf("the kubeconfig has no %q", old)
		}
		return strings.Replace(goodKubeconfig, old, replacement, 1)
	}
	user := func(field string) string { return edit("    token: hunter2", "    token: hunter2\n    "+field) }
	cluster := func(field string) string { return edit("    server:", "    "+field+"\n    server:") }
	const refused, invalid = v1alpha1.ReasonKubeconfigRefused, v1alpha1.ReasonKubeconfigInvalid
	cases := map[string]struct{ kubeconfig, reason, says string }{
		"exec":                 {user("exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [hunter2], interactiveMode: Never}"), refused, "user.exec"},
		"auth provider":        {user("auth-provider: {name: gcp, config: {access-token: hunter2}}"), refused, "user.auth-provider"},
		"token file":           {user("tokenFile: /var/run/secrets/hunter2"), refused, "user.tokenFile"},
		"certificate path":     {user("client-certificate: /hunter2.crt"), refused, "client-certificate-data"},
		"key path":             {user("client-key: /hunter2.key"), refused, "client-key-data"},
		"user name":            {user("username: root"), refused, "user.username"},
		"password":             {user("password: hunter2"), refused, "user.username and password"},
		"impersonation":        {user("as: admin"), refused, "user.as is refused"},
		"impersonated UID":     {user("as-uid: '1'"), refused, "user.as-uid"},
		"impersonated groups":  {user("as-groups: ['system:masters']"), refused, "user.as-groups"},
		"impersonated extra":   {user("as-user-extra: {a: [b]}"), refused, "user.as-user-extra"},
		"proxy":                {cluster("proxy-url: http://10.0.0.2"), refused, "cluster.proxy-url"},
		"credentials in a URL": {edit("https://", "https://user:hunter2@"), refused, "holds credentials"},
		"CA path":              {cluster("certificate-authority: /etc/hunter2.crt"), refused, "certificate-authority-data"},
		"insecure":             {cluster("insecure-skip-tls-verify: true"), refused, "insecure-skip-tls-verify"},
		"http":                 {edit("https://", "http://"), refused, "https://"},
		"no scheme":            {edit("https://", ""), refused, "https://"},
		"no host":              {edit("https://10.0.0.1:6443", "https://"), refused, "https://"},
		"no server":            {edit("https://10.0.0.1:6443", `""`), refused, "https://"},
		"no context":           {edit("current-context: c", ""), invalid, `no context ""`},
		"unknown context":      {edit("current-context: c", "current-context: d"), invalid, `no context "d"`},
		"unknown cluster":      {edit("cluster: k", "cluster: z"), invalid, `no cluster "z"`},
		"unknown user":         {edit("user: u", "user: z"), invalid, `no user "z"`},
		"empty":                {"", invalid, "current-context"},
		"not YAML":             {"token: hunter2\n\t- x: [", invalid, "not valid YAML"},
		"another kind":         {edit("kind: Config", "kind: Secret"), invalid, "not valid YAML"},
		"text for a list":      {edit("users:\n- name: u\n  user:\n    token: hunter2", "users: hunter2"), invalid, "not valid YAML"},
		"half a key pair":      {user("client-certificate-data: aHVudGVyMg=="), invalid, ""},
		"CA is not base 64":    {cluster("certificate-authority-data: '*hunter2*'"), invalid, "not valid YAML"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := RESTConfig([]byte(c.kubeconfig))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if e.Reason != c.reason || !strings.Contains(e.Error(), c.says) {
				t.Errorf("got %s: %v, want %s: %s", e.Reason, err, c.reason, c.says)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
	_, err := RESTConfig([]byte(strings.Replace(user("tokenFile: /x"), "https://", "http://", 1)))
	if err == nil || !strings.Contains(err.Error(), "tokenFile") || !strings.Contains(err.Error(), "https://") {
		t.Errorf("not all that is wrong is told at once: %v", err)
	}
}

// What is not current does not matter.
func TestRESTConfigReadsTheCurrentContextOnly(t *testing.T) {
	other := goodKubeconfig + "- name: v\n  user:\n    exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}\n"
	if _, err := RESTConfig([]byte(other)); err != nil {
		t.Error(err)
	}
}

// These do not weaken what the hub checks: the certificate is verified for that name, and answers are bounded anyway.
func TestRESTConfigAllows(t *testing.T) {
	for _, field := range []string{"tls-server-name: kubernetes.default", "disable-compression: true"} {
		if _, err := RESTConfig([]byte(strings.Replace(goodKubeconfig, "    server:", "    "+field+"\n    server:", 1))); err != nil {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestAddress(t *testing.T) {
	pem := func(content ...string) string {
		var out strings.Builder
		for _, c := range content {
			out.WriteString("-----BEGIN CERTIFICATE-----\n" + base64.StdEncoding.EncodeToString([]byte(c)) + "\n-----END CERTIFICATE-----\n")
		}
		return out.String()
	}
	of := func(server, ca string) [2]string {
		field := "    server: " + server
		if ca != "" {
			field += "\n    certificate-authority-data: " + base64.StdEncoding.EncodeToString([]byte(ca))
		}
		s, hash := Address([]byte(strings.Replace(goodKubeconfig, "    server: https://10.0.0.1:6443", field, 1)))
		return [2]string{s, hash}
	}
	one := of("https://a.example.org:443", pem("x", "y"))
	if one[0] != "https://a.example.org:443" || len(one[1]) != 64 {
		t.Errorf("got %v", one)
	}
	for name, tc := range map[string]struct {
		is   [2]string
		same bool
	}{
		"the default port":      {of("https://a.example.org", pem("x", "y")), true},
		"upper case, and slash": {of("https://A.example.ORG/", pem("x", "y")), true},
		"another order":         {of("https://a.example.org", "# comment\n"+pem("y", "x", "x")), true},
		"another port":          {of("https://a.example.org:6443", pem("x", "y")), false},
		"another host":          {of("https://b.example.org", pem("x", "y")), false},
		"a path":                {of("https://a.example.org/k8s/c-1", pem("x", "y")), false},
		"fewer CAs":             {of("https://a.example.org", pem("x")), false},
		"parts moved":           {of("https://a.example.org", pem("xy")), false},
		"no CA":                 {of("https://a.example.org", ""), false},
	} {
		if (tc.is == one) != tc.same {
			t.Errorf("%s: %v and %v", name, tc.is, one)
		}
	}
	if server, ca := Address([]byte("no: kubeconfig")); server != "" || ca != "" {
		t.Errorf("of no kubeconfig: %q %q", server, ca)
	}
}
