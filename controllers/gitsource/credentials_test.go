package gitsource

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource/fetch"
)

// secretData are those of a Secret.
func secretData(pairs ...string) map[string][]byte {
	out := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = []byte(pairs[i+1])
	}
	return out
}

// The keys are those that Flux CD documents, or that the types of Secrets of Kubernetes want.
func TestSecretsOfFluxCD(t *testing.T) {
	const https, ssh = "https://git.example.org/x", "ssh://git@git.example.org/x"
	for name, tc := range map[string]struct {
		url  string
		data map[string][]byte
		want fetch.Auth
	}{
		"username and password":         {https, secretData("username", "ada", "password", "p"), fetch.Auth{Username: "ada", Password: "p"}},
		"bearer token":                  {https, secretData("bearerToken", "t"), fetch.Auth{BearerToken: "t"}},
		"bearer token before password":  {https, secretData("bearerToken", "t", "username", "ada", "password", "p"), fetch.Auth{BearerToken: "t"}},
		"authority":                     {https, secretData("ca.crt", "c"), fetch.Auth{CABundle: []byte("c")}},
		"authority, old key":            {https, secretData("caFile", "c"), fetch.Auth{CABundle: []byte("c")}},
		"authority, both keys":          {https, secretData("ca.crt", "c", "caFile", "old"), fetch.Auth{CABundle: []byte("c")}},
		"password and authority":        {https, secretData("username", "ada", "password", "p", "ca.crt", "c"), fetch.Auth{Username: "ada", Password: "p", CABundle: []byte("c")}},
		"kubernetes.io/basic-auth":      {https, secretData("username", "ada", "password", "p"), fetch.Auth{Username: "ada", Password: "p"}},
		"kubernetes.io/tls":             {https, secretData("tls.crt", "c", "tls.key", "k"), fetch.Auth{ClientCert: []byte("c"), ClientKey: []byte("k")}},
		"client certificate, old keys":  {https, secretData("certFile", "c", "keyFile", "k", "caFile", "a"), fetch.Auth{ClientCert: []byte("c"), ClientKey: []byte("k"), CABundle: []byte("a")}},
		"client certificate and token":  {https, secretData("tls.crt", "c", "tls.key", "k", "bearerToken", "t"), fetch.Auth{ClientCert: []byte("c"), ClientKey: []byte("k"), BearerToken: "t"}},
		"nothing":                       {https, nil, fetch.Auth{}},
		"keys of SSH for HTTPS":         {https, secretData("identity", "i", "known_hosts", "h"), fetch.Auth{}},
		"SSH":                           {ssh, secretData("identity", "i", "identity.pub", "p", "known_hosts", "h"), fetch.Auth{Identity: []byte("i"), KnownHosts: []byte("h")}},
		"SSH, encrypted":                {ssh, secretData("identity", "i", "known_hosts", "h", "password", "p"), fetch.Auth{Identity: []byte("i"), KnownHosts: []byte("h"), Passphrase: "p"}},
		"SSH, scp-like":                 {"git@git.example.org:x", secretData("identity", "i", "known_hosts", "h"), fetch.Auth{Identity: []byte("i"), KnownHosts: []byte("h")}},
		"SSH, a username is not needed": {ssh, secretData("identity", "i", "known_hosts", "h", "username", "ada"), fetch.Auth{Identity: []byte("i"), KnownHosts: []byte("h")}},
		"kubernetes.io/ssh-auth":        {ssh, secretData("ssh-privatekey", "i", "known_hosts", "h"), fetch.Auth{Identity: []byte("i"), KnownHosts: []byte("h")}},
		"SSH, both names of the key":    {ssh, secretData("identity", "i", "ssh-privatekey", "old", "known_hosts", "h"), fetch.Auth{Identity: []byte("i"), KnownHosts: []byte("h")}},
	} {
		t.Run(name, func(t *testing.T) {
			got, problem := serverAuth(tc.url, tc.data)
			if problem != "" {
				t.Fatal(problem)
			}
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSecretsThatLackSomething(t *testing.T) {
	const https, ssh = "https://git.example.org/x", "ssh://git@git.example.org:2222/x"
	for name, tc := range map[string]struct {
		url  string
		data map[string][]byte
		says []string
	}{
		"no private key of the certificate": {https, secretData("tls.crt", "c"), []string{"add the key tls.key"}},
		"no certificate":                    {https, secretData("tls.key", "c"), []string{"add the key tls.crt"}},
		"a GitHub App":                      {https, secretData("githubAppID", "1", "githubAppPrivateKey", "s3cr3t"), []string{"GitHub App", "password"}},
		"SSH, nothing":                      {ssh, nil, []string{"under the key identity", "ssh-keygen"}},
		"SSH, no key":                       {ssh, secretData("known_hosts", "h"), []string{"under the key identity", "ssh-keygen"}},
		"SSH, a password":                   {ssh, secretData("username", "ada", "password", "s3cr3t"), []string{"password is not supported", "https://"}},
		"SSH, no host keys":                 {ssh, secretData("identity", "s3cr3t"), []string{"under the key known_hosts", "ssh-keyscan -p 2222 git.example.org"}},
		"SSH, no host keys, usual port":     {"git@git.example.org:x", secretData("identity", "s3cr3t"), []string{"what ssh-keyscan git.example.org prints"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, problem := serverAuth(tc.url, tc.data)
			for _, says := range tc.says {
				if !strings.Contains(problem, says) {
					t.Errorf("%q does not say %q", problem, says)
				}
			}
			if strings.Contains(problem, "s3cr3t") {
				t.Errorf("a secret is in %q", problem)
			}
		})
	}
}

func TestProxySecrets(t *testing.T) {
	got, problem := proxyOf(secretData("address", "http://proxy.example.org:3128", "username", "ada", "password", "p"))
	want := &fetch.Proxy{Address: "http://proxy.example.org:3128", Username: "ada", Password: "p"}
	if diff := cmp.Diff(want, got); problem != "" || diff != "" {
		t.Errorf("%s (-want +got):\n%s", problem, diff)
	}
	if _, problem := proxyOf(secretData("username", "ada")); !strings.Contains(problem, "add the key address") {
		t.Errorf("%q does not say what to add", problem)
	}
}
