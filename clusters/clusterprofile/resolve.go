package clusterprofile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/clusters/credentialplugin"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// Resource is that of ClusterProfiles.
var Resource = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}

// Names of the extensions of a cluster. The first is client-go's, the others are those of KEP-5339.
const (
	extensionConfig = "client.authentication.k8s.io/exec"
	extensionArgs   = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args"
	extensionEnv    = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs"
)

// What is taken of a ClusterProfile at most: whoever writes its status is not the administrator of the hub.
const (
	maxServer    = 2048
	maxCA        = 128 << 10
	maxExtension = 32 << 10
	maxArgs      = 64
	maxArg       = 4096
	maxText      = 200 // of it in a message
)

// Profile is what is read of a ClusterProfile.
type Profile struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            Status `json:"status"`
}

// Status says how a cluster can be reached, by the name of a provider.
type Status struct {
	// CredentialProviders is the former name of AccessProviders, which are preferred.
	CredentialProviders []AccessProvider `json:"credentialProviders,omitempty"`
	AccessProviders     []AccessProvider `json:"accessProviders,omitempty"`
}

// AccessProvider is a cluster as one provider knows it.
type AccessProvider struct {
	Name    string              `json:"name"`
	Cluster clientcmdv1.Cluster `json:"cluster,omitempty"`
}

// Access is how to reach the cluster of a ClusterProfile: by the first provider of the file that the ClusterProfile names. The
// error names the field, and what to do. Nothing of the file is changed, or shared with what is returned.
func (p *Providers) Access(profile *Profile) (*clusters.Access, error) {
	use, cluster := p.first(&profile.Status)
	if use == nil {
		return nil, fmt.Errorf("status.accessProviders names %s, and the controller's --cluster-profile-providers has %s: add the provider there, or have the cluster's manager name one that is there",
			namesOf(profile), strings.Join(p.Names(), ", "))
	}
	if err := check(cluster); err != nil {
		return nil, fmt.Errorf("status.accessProviders[%s].%w", use.Name, err)
	}
	args, env, err := use.additions(cluster)
	if err != nil {
		return nil, fmt.Errorf("status.accessProviders[%s].cluster.extensions: %w", use.Name, err)
	}
	out := &clusters.Access{
		Profile: profile.Name, Server: cluster.Server, ServerName: cluster.TLSServerName, CA: bytes.Clone(cluster.CertificateAuthorityData),
		Plugin: credentialplugin.Command{
			Provider: use.Name, APIVersion: use.ExecConfig.APIVersion, Path: use.ExecConfig.Command, Args: args, Env: env,
		},
	}
	if use.ExecConfig.ProvideClusterInfo {
		out.Plugin.Cluster, err = clusterInfo(cluster)
	}
	if err != nil {
		return nil, fmt.Errorf("status.accessProviders[%s].cluster.extensions: %w", use.Name, err)
	}
	return out, nil
}

// first is the first provider of the file that a status names, and the cluster as that knows it; nil where it names none.
func (p *Providers) first(s *Status) (*provider, *clientcmdv1.Cluster) {
	for i := range p.providers {
		for _, list := range [][]AccessProvider{s.AccessProviders, s.CredentialProviders} {
			for j := range list {
				if list[j].Name == p.providers[i].Name {
					return &p.providers[i], &list[j].Cluster
				}
			}
		}
	}
	return nil, nil
}

func namesOf(profile *Profile) string {
	var names []string
	for _, a := range slices.Concat(profile.Status.AccessProviders, profile.Status.CredentialProviders) {
		names = append(names, sanitize.Text(a.Name, maxText))
	}
	if len(names) == 0 {
		return "no provider"
	}
	return sanitize.List(names, maxText)
}

// check refuses what a kubeconfig is refused for, and what is too long.
func check(c *clientcmdv1.Cluster) error {
	switch {
	case len(c.Server) > maxServer:
		return fmt.Errorf("cluster.server is longer than %d characters", maxServer)
	case len(c.TLSServerName) > maxServer:
		return fmt.Errorf("cluster.tls-server-name is longer than %d characters", maxServer)
	case len(c.CertificateAuthorityData) > maxCA:
		return fmt.Errorf("cluster.certificate-authority-data is longer than %d KiB", maxCA>>10)
	}
	return clusters.CheckCluster(&clientcmdapi.Cluster{
		Server: c.Server, TLSServerName: c.TLSServerName, InsecureSkipTLSVerify: c.InsecureSkipTLSVerify,
		CertificateAuthority: c.CertificateAuthority, CertificateAuthorityData: c.CertificateAuthorityData, ProxyURL: c.ProxyURL,
	})
}

// additions are the arguments and variables of a plugin: those of the file, with those of the cluster where the file allows it.
func (p *provider) additions(c *clientcmdv1.Cluster) (args, env []string, err error) {
	args = slices.Clone(p.ExecConfig.Args)
	if raw := extension(c, extensionArgs); raw != nil && p.ArgsPolicy == policyAppend {
		more, err := parseArgs(raw)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, more...)
	}
	theirs := map[string]string{}
	if raw := extension(c, extensionEnv); raw != nil && (p.EnvPolicy == policyAppendIfNotExists || p.EnvPolicy == policyReplace) {
		if theirs, err = parseEnv(raw); err != nil {
			return nil, nil, err
		}
	}
	return args, p.environment(theirs), nil
}

// environment is that of the file, in its order, and then what a cluster adds, by name.
func (p *provider) environment(theirs map[string]string) []string {
	var out []string
	own := map[string]bool{}
	for _, e := range p.ExecConfig.Env {
		own[e.Name] = true
		value, is := theirs[e.Name]
		if !is || p.EnvPolicy != policyReplace {
			value = e.Value
		}
		out = append(out, e.Name+"="+value)
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if !own[name] {
			out = append(out, name+"="+theirs[name])
		}
	}
	return out
}

// extension is the content of an extension; nil where there is none.
func extension(c *clientcmdv1.Cluster, name string) []byte {
	for i := range c.Extensions {
		if c.Extensions[i].Name == name {
			return c.Extensions[i].Extension.Raw
		}
	}
	return nil
}

func parseArgs(raw []byte) ([]string, error) {
	var out []string
	if len(raw) > maxExtension || json.Unmarshal(raw, &out) != nil {
		return nil, fmt.Errorf("%s is to be a list of texts, of at most %d KiB", extensionArgs, maxExtension>>10)
	}
	if len(out) > maxArgs || slices.ContainsFunc(out, func(arg string) bool { return len(arg) > maxArg || strings.ContainsRune(arg, 0) }) {
		return nil, fmt.Errorf("%s has more than %d arguments, or one of more than %d bytes, or with a zero byte", extensionArgs, maxArgs, maxArg)
	}
	return out, nil
}

func parseEnv(raw []byte) (map[string]string, error) {
	out := map[string]string{}
	if len(raw) > maxExtension || json.Unmarshal(raw, &out) != nil {
		return nil, fmt.Errorf("%s is to be a map of texts, of at most %d KiB", extensionEnv, maxExtension>>10)
	}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		switch {
		case !isVariable(name) || strings.ContainsRune(out[name], 0):
			return nil, fmt.Errorf("%s: %q is no name of a variable, or its value has a zero byte", extensionEnv, sanitize.Text(name, maxText))
		case steers(name):
			return nil, fmt.Errorf("%s: %s is refused, since it says which programs are run or where they connect: set it in the file of providers", extensionEnv, name)
		}
	}
	return out, nil
}

// steering are variables that change which code is run, or where to, in programs that know nothing of clusters; those that end
// in _ by their begin.
var steering = []string{
	"PATH", "HOME", "TMPDIR", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "EDITOR", "PAGER", "BROWSER",
	"LD_", "DYLD_", "GLIBC_", "MALLOC_", "GCONV_PATH", "LOCPATH", "NLSPATH", "HOSTALIASES", "RESOLV_HOST_CONF", "RES_OPTIONS",
	"PYTHON", "PERL", "RUBY", "GEM_", "NODE_", "NPM_", "JAVA_", "JDK_", "_JAVA_OPTIONS", "CLASSPATH", "LUA_", "PHP", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR", "DOTNET_", "OPENSSL_", "SSL_",
	"SSLKEYLOGFILE", "CURL_", "REQUESTS_CA_BUNDLE", "GIT_", "KUBECONFIG", "KUBERNETES_", "XDG_",
	// Of clouds: where tokens are sent to, files that name programs or endpoints, and files that are sent.
	"AWS_ENDPOINT_URL", "AWS_CA_BUNDLE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONTAINER_", "AWS_WEB_IDENTITY_TOKEN_FILE",
	"AWS_EC2_METADATA_SERVICE_ENDPOINT", "AZURE_AUTHORITY_HOST", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_CONFIG_DIR", "IDENTITY_ENDPOINT", "MSI_ENDPOINT",
	"CLOUDSDK_", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_EXTERNAL_ACCOUNT_", "GCE_METADATA_",
}

// prefixes are those of steering that are the begin of more names, though they do not end in _.
var prefixes = []string{"PYTHON", "PERL", "RUBY", "PHP", "AWS_ENDPOINT_URL"}

func steers(name string) bool {
	upper := strings.ToUpper(name)
	if strings.HasSuffix(upper, "_PROXY") {
		return true
	}
	return slices.ContainsFunc(steering, func(s string) bool {
		begin := strings.HasSuffix(s, "_") || slices.Contains(prefixes, s)
		return upper == s || begin && strings.HasPrefix(upper, s)
	})
}

// clusterInfo is what a plugin is told of the cluster.
func clusterInfo(c *clientcmdv1.Cluster) (*clientauthenticationv1.Cluster, error) {
	raw := extension(c, extensionConfig)
	if len(raw) > maxExtension {
		return nil, fmt.Errorf("%s is longer than %d KiB", extensionConfig, maxExtension>>10)
	}
	if raw != nil && !json.Valid(raw) {
		return nil, errors.New(extensionConfig + " is no JSON")
	}
	return &clientauthenticationv1.Cluster{
		Server: c.Server, TLSServerName: c.TLSServerName, CertificateAuthorityData: bytes.Clone(c.CertificateAuthorityData),
		DisableCompression: c.DisableCompression, Config: runtime.RawExtension{Raw: bytes.Clone(raw)},
	}, nil
}
