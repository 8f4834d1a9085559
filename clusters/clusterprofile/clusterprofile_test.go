package clusterprofile

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/clusters/credentialplugin"
)

const twoProviders = `{"providers": [
  {"name": "cloud", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/plugins/cloud", "args": ["token"],
    "env": [{"name": "REGION", "value": "north"}], "provideClusterInfo": true},
    "profileSourcedCLIArgsPolicy": "Append", "profileSourcedEnvVarsPolicy": "AppendIfNotExists"},
  {"name": "vault", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "vault-token"}}
]}`

func parsed(t *testing.T, file string) *Providers {
	t.Helper()
	p, err := Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func profileOf(providers ...AccessProvider) *Profile {
	return &Profile{ObjectMeta: metav1.ObjectMeta{Name: "granite"}, Status: Status{AccessProviders: providers}}
}

func by(name string, change ...func(*clientcmdv1.Cluster)) AccessProvider {
	c := clientcmdv1.Cluster{Server: "https://10.0.0.1:6443", CertificateAuthorityData: []byte("CA")}
	for _, f := range change {
		f(&c)
	}
	return AccessProvider{Name: name, Cluster: c}
}

func extended(name, raw string) func(*clientcmdv1.Cluster) {
	return func(c *clientcmdv1.Cluster) {
		c.Extensions = append(c.Extensions, clientcmdv1.NamedExtension{Name: name, Extension: runtime.RawExtension{Raw: []byte(raw)}})
	}
}

func TestParseRefuses(t *testing.T) {
	provider := func(fields string) string { return `{"providers": [{"name": "p", ` + fields + `}]}` }
	exec := func(fields string) string {
		return provider(`"execConfig": {"apiVersion": "client.authentication.k8s.io/v1", ` + fields + `}`)
	}
	for name, c := range map[string]struct{ file, says string }{
		"nothing":           {"", "has no providers"},
		"no JSON":           {"[", "is no list of providers"},
		"an unknown field":  {exec(`"command": "a", "shell": true`), `unknown field "shell"`},
		"no name":           {`{"providers": [{}]}`, "name is empty"},
		"no program":        {provider(`"execConfig": null`), "execConfig is missing"},
		"no command":        {exec(`"args": []`), "execConfig.command"},
		"a relative path":   {exec(`"command": "../plugin"`), "absolute path"},
		"a version":         {provider(`"execConfig": {"apiVersion": "v2", "command": "a"}`), "execConfig.apiVersion"},
		"interactive":       {exec(`"command": "a", "interactiveMode": "Always"`), "interactiveMode"},
		"a variable":        {exec(`"command": "a", "env": [{"name": "A=B", "value": "c"}]`), "no name of a variable"},
		"a policy of args":  {provider(`"execConfig": {"apiVersion": "client.authentication.k8s.io/v1", "command": "a"}, "profileSourcedCLIArgsPolicy": "Replace"`), "profileSourcedCLIArgsPolicy"},
		"a policy of env":   {provider(`"execConfig": {"apiVersion": "client.authentication.k8s.io/v1", "command": "a"}, "profileSourcedEnvVarsPolicy": "Append"`), "profileSourcedEnvVarsPolicy"},
		"a name twice":      {strings.Replace(twoProviders, "vault", "cloud", 1), `"cloud" is there twice`},
		"a list of strings": {`{"providers": ["a"]}`, "is no list of providers"},
	} {
		if _, err := Parse([]byte(c.file)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAccess(t *testing.T) {
	cloud := credentialplugin.Command{
		Provider: "cloud", APIVersion: "client.authentication.k8s.io/v1", Path: "/plugins/cloud", Args: []string{"token"}, Env: []string{"REGION=north"},
		Cluster: &clientauthenticationv1.Cluster{Server: "https://10.0.0.1:6443", CertificateAuthorityData: []byte("CA")},
	}
	vault := credentialplugin.Command{Provider: "vault", APIVersion: "client.authentication.k8s.io/v1beta1", Path: "vault-token"}
	of := func(c credentialplugin.Command, change ...func(*clusters.Access)) *clusters.Access {
		a := &clusters.Access{Profile: "granite", Server: "https://10.0.0.1:6443", CA: []byte("CA"), Plugin: c}
		for _, f := range change {
			f(a)
		}
		return a
	}
	for name, c := range map[string]struct {
		profile *Profile
		want    *clusters.Access
	}{
		"the file's order":        {profileOf(by("vault"), by("unknown"), by("cloud")), of(cloud)},
		"what is there":           {profileOf(by("vault")), of(vault)},
		"the former field":        {&Profile{ObjectMeta: metav1.ObjectMeta{Name: "granite"}, Status: Status{CredentialProviders: []AccessProvider{by("vault")}}}, of(vault)},
		"both fields":             {&Profile{ObjectMeta: metav1.ObjectMeta{Name: "granite"}, Status: Status{CredentialProviders: []AccessProvider{by("vault", extended("x", "1"), func(c *clientcmdv1.Cluster) { c.Server = "https://old" })}, AccessProviders: []AccessProvider{by("vault")}}}, of(vault)},
		"a server name":           {profileOf(by("vault", func(c *clientcmdv1.Cluster) { c.TLSServerName = "member" })), of(vault, func(a *clusters.Access) { a.ServerName = "member" })},
		"arguments":               {profileOf(by("cloud", extended(extensionArgs, `["--cluster", "granite"]`))), of(cloud, func(a *clusters.Access) { a.Plugin.Args = []string{"token", "--cluster", "granite"} })},
		"variables":               {profileOf(by("cloud", extended(extensionEnv, `{"ZONE": "b", "CLIENT": "a", "REGION": "south"}`))), of(cloud, func(a *clusters.Access) { a.Plugin.Env = []string{"REGION=north", "CLIENT=a", "ZONE=b"} })},
		"variables that are null": {profileOf(by("cloud", extended(extensionEnv, `null`))), of(cloud)},
		"not allowed to add":      {profileOf(by("vault", extended(extensionEnv, `{"PATH": "/tmp"}`), extended(extensionArgs, `["--cluster"]`))), of(vault)},
		"configuration": {profileOf(by("cloud", extended(extensionConfig, `{"id": 1}`))), of(cloud, func(a *clusters.Access) {
			info := *a.Plugin.Cluster
			info.Config.Raw = []byte(`{"id": 1}`)
			a.Plugin.Cluster = &info
		})},
	} {
		got, err := parsed(t, twoProviders).Access(c.profile)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReplacedVariables(t *testing.T) {
	p := parsed(t, strings.Replace(twoProviders, "AppendIfNotExists", "Replace", 1))
	got, err := p.Access(profileOf(by("cloud", extended(extensionEnv, `{"REGION": "south", "ZONE": "b"}`))))
	if err != nil || !slices.Equal(got.Plugin.Env, []string{"REGION=south", "ZONE=b"}) {
		t.Errorf("%v, %v", got, err)
	}
}

// What one ClusterProfile adds to a plugin reaches no other one, whatever has been asked before.
func TestNothingIsSharedBetweenClusters(t *testing.T) {
	p := parsed(t, twoProviders)
	plain := profileOf(by("cloud"))
	before, err := p.Access(plain)
	if err != nil {
		t.Fatal(err)
	}
	first, err := p.Access(profileOf(by("cloud", extended(extensionArgs, `["--cluster", "first"]`), extended(extensionEnv, `{"CLUSTER": "first"}`))))
	if err != nil {
		t.Fatal(err)
	}
	first.Plugin.Args[0], first.Plugin.Env[0], first.CA[0] = "overwritten", "overwritten", 'x'
	first.Plugin.Args = append(first.Plugin.Args, "more")
	after, err := p.Access(plain)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the second cluster has what is the first one's (-before +after):\n%s", diff)
	}
}

// The status of a ClusterProfile may be anybody's.
func TestAccessRefuses(t *testing.T) {
	server := func(url string) func(*clientcmdv1.Cluster) { return func(c *clientcmdv1.Cluster) { c.Server = url } }
	env := func(pairs ...string) func(*clientcmdv1.Cluster) {
		all := map[string]string{}
		for _, name := range pairs {
			all[name] = "x"
		}
		body, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return extended(extensionEnv, string(body))
	}
	long := strings.Repeat("x", maxExtension)
	for name, c := range map[string]struct {
		profile *Profile
		says    string
	}{
		"no provider":       {profileOf(), "names no provider"},
		"an unknown one":    {profileOf(by("sh -c 'reboot'\x1b[2J")), "has cloud, vault"},
		"http":              {profileOf(by("vault", server("http://10.0.0.1"))), "https://"},
		"no server":         {profileOf(by("vault", server(""))), "https://"},
		"credentials":       {profileOf(by("vault", server("https://a:b@10.0.0.1"))), "holds credentials"},
		"a long server":     {profileOf(by("vault", server("https://"+long))), "cluster.server is longer"},
		"a long name":       {profileOf(by("vault", func(c *clientcmdv1.Cluster) { c.TLSServerName = long })), "tls-server-name is longer"},
		"a long CA":         {profileOf(by("vault", func(c *clientcmdv1.Cluster) { c.CertificateAuthorityData = make([]byte, maxCA+1) })), "certificate-authority-data is longer"},
		"a proxy":           {profileOf(by("vault", func(c *clientcmdv1.Cluster) { c.ProxyURL = "http://10.0.0.2" })), "cluster.proxy-url"},
		"insecure":          {profileOf(by("vault", func(c *clientcmdv1.Cluster) { c.InsecureSkipTLSVerify = true })), "insecure-skip-tls-verify"},
		"a file of the hub": {profileOf(by("vault", func(c *clientcmdv1.Cluster) { c.CertificateAuthority = "/etc/passwd" })), "is a path"},
		"no list":           {profileOf(by("cloud", extended(extensionArgs, `{"a": 1}`))), "list of texts"},
		"many arguments":    {profileOf(by("cloud", extended(extensionArgs, "["+strings.TrimSuffix(strings.Repeat(`"a",`, maxArgs+1), ",")+"]"))), "more than 64 arguments"},
		"a long argument":   {profileOf(by("cloud", extended(extensionArgs, `["`+long[:maxArg+1]+`"]`))), "more than 4096 bytes"},
		"a zero byte":       {profileOf(by("cloud", extended(extensionArgs, `["a\u0000b"]`))), "zero byte"},
		"no map":            {profileOf(by("cloud", extended(extensionEnv, `["a"]`))), "map of texts"},
		"much":              {profileOf(by("cloud", extended(extensionEnv, `{"a": "`+long+`"}`))), "32 KiB"},
		"no variable":       {profileOf(by("cloud", env("A=B"))), "no name of a variable"},
		"the path":          {profileOf(by("cloud", env("PATH"))), "PATH is refused"},
		"the loader":        {profileOf(by("cloud", env("LD_PRELOAD"))), "LD_PRELOAD is refused"},
		"Python":            {profileOf(by("cloud", env("PYTHONPATH"))), "PYTHONPATH is refused"},
		"a proxy by name":   {profileOf(by("cloud", env("https_proxy"))), "https_proxy is refused"},
		"an address of AWS": {profileOf(by("cloud", env("AWS_ENDPOINT_URL_STS"))), "AWS_ENDPOINT_URL_STS is refused"},
		"a file for AWS":    {profileOf(by("cloud", env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"))), "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE is refused"},
		"gcloud's Python":   {profileOf(by("cloud", env("CLOUDSDK_PYTHON"))), "CLOUDSDK_PYTHON is refused"},
		"an issuer":         {profileOf(by("cloud", env("AZURE_AUTHORITY_HOST"))), "AZURE_AUTHORITY_HOST is refused"},
		"client-go's own":   {profileOf(by("cloud", env("KUBERNETES_EXEC_INFO"))), "KUBERNETES_EXEC_INFO is refused"},
		"a long config":     {profileOf(by("cloud", extended(extensionConfig, `"`+long+`"`))), "32 KiB"},
	} {
		_, err := parsed(t, twoProviders).Access(c.profile)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		} else if len(err.Error()) > 1000 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: what is foreign is not cut or cleaned: %q", name, err)
		}
	}
}

// FuzzAccess reads ClusterProfiles that anybody may have made.
func FuzzAccess(f *testing.F) {
	f.Add([]byte(`{"status": {"accessProviders": [{"name": "cloud", "cluster": {"server": "https://a", "extensions": [{"name": "` + extensionEnv + `", "extension": {"A": "b"}}]}}]}}`))
	f.Add([]byte(`{"status": {"credentialProviders": [{"name": "vault", "cluster": {"server": "https://a:1/b", "certificate-authority-data": "YQ=="}}]}}`))
	f.Add([]byte(`{"status": {"accessProviders": [{"name": "cloud", "cluster": {"server": "https://a", "extensions": [{"name": "` + extensionArgs + `", "extension": ["a"]}, {"name": "` + extensionConfig + `", "extension": null}]}}]}}`))
	p, err := Parse([]byte(twoProviders))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var profile Profile
		if json.Unmarshal(body, &profile) != nil {
			return
		}
		a, err := p.Access(&profile)
		if err != nil {
			return
		}
		if a.Plugin.Path != "/plugins/cloud" && a.Plugin.Path != "vault-token" || len(a.Plugin.Args) > maxArgs+1 || !strings.HasPrefix(strings.ToLower(a.Server), "https://") {
			t.Errorf("%+v", a)
		}
		for _, e := range a.Plugin.Env {
			if name, _, _ := strings.Cut(e, "="); !isVariable(name) || steers(name) || strings.ContainsRune(e, 0) {
				t.Errorf("variable %q", e)
			}
		}
	})
}
