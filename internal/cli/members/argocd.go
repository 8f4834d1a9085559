package members

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// argoSecretType is the label of the Secrets that Argo CD reads.
const argoSecretType = "argocd.argoproj.io/secret-type"

// argoConfig is the JSON in the key config of a cluster Secret.
type argoConfig struct {
	Username        string `json:"username"`
	Password        string `json:"password"`
	BearerToken     string `json:"bearerToken"`
	TLSClientConfig struct {
		Insecure   bool   `json:"insecure"`
		ServerName string `json:"serverName"`
		CertData   []byte `json:"certData"`
		KeyData    []byte `json:"keyData"`
		CAData     []byte `json:"caData"`
	} `json:"tlsClientConfig"`
	AWSAuthConfig      map[string]any `json:"awsAuthConfig"`
	ExecProviderConfig map[string]any `json:"execProviderConfig"`
	DisableCompression bool           `json:"disableCompression"`
	ProxyURL           string         `json:"proxyUrl"`
}

// byKubeconfig is what to do about a cluster that cannot be taken from Argo CD.
const byKubeconfig = "join it with --from kubeconfig and --member-context"

// readArgoCD reads a cluster Secret of Argo CD. Whoever may write Secrets in its namespace may have made it: nothing of it is run,
// no file is read, and no error quotes what may be secret.
func readArgoCD(s *corev1.Secret) *Candidate {
	c := &Candidate{Name: string(s.Data["name"]), Secret: client.ObjectKeyFromObject(s), Labels: ownLabels(s.Labels)}
	server := strings.TrimSpace(string(s.Data["server"]))
	c.Server = sanitize.Text(withoutUser(server), maxQuoted)
	if c.Name == "" {
		c.Name = c.Server
	}
	if len(c.Name) > maxQuoted {
		c.Name, c.Refused = sanitize.Text(c.Name, maxQuoted), errors.New("name is longer than that of any object")
		return c
	}
	if isInCluster(server) {
		c.Refused = errors.New("server is the cluster that Argo CD runs in, which has no address and no credentials here: " + byKubeconfig)
		return c
	}
	config, err := parseArgoConfig(s.Data["config"])
	if err == nil {
		err = errors.Join(checkArgoCluster(server, config), checkArgoUser(config))
	}
	if err != nil {
		c.Refused = errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
		return c
	}
	tls := config.TLSClientConfig
	c.Config = &rest.Config{
		Host: server, BearerToken: config.BearerToken, DisableCompression: config.DisableCompression,
		TLSClientConfig: rest.TLSClientConfig{ServerName: tls.ServerName, CertData: tls.CertData, KeyData: tls.KeyData, CAData: tls.CAData},
	}
	if _, err := rest.TLSConfigFor(c.Config); err != nil {
		c.Config, c.Refused = nil, errors.New("config.tlsClientConfig has certificates or a key that are no PEM data, or do not belong together")
	}
	if namespaces := strings.TrimSpace(string(s.Data["namespaces"])); namespaces != "" {
		c.Note = "Argo CD uses only namespaces " + sanitize.Text(namespaces, maxQuoted) + " there: its credentials may not allow more, which --namespace-only and --member-namespace are for"
	}
	return c
}

// parseArgoConfig reads the JSON strictly: what is not known may be what matters.
func parseArgoConfig(data []byte) (*argoConfig, error) {
	if len(data) == 0 {
		return nil, errors.New("config is empty: it holds the credentials")
	}
	if len(data) > maxCandidate {
		return nil, fmt.Errorf("config is longer than %d KiB", maxCandidate>>10)
	}
	var out argoConfig
	strict, err := kjson.UnmarshalStrict(data, &out)
	if err != nil {
		// The library's message may quote what is secret.
		return nil, errors.New("config is no JSON of a cluster of Argo CD: compare it with `argocd admin cluster generate-spec`")
	}
	if len(strict) > 0 {
		var all []string
		for _, e := range strict {
			all = append(all, sanitize.Text(e.Error(), maxQuoted))
		}
		return nil, fmt.Errorf("config has what is not known here (%s): %s", sanitize.List(all, 2*maxQuoted), byKubeconfig)
	}
	return &out, nil
}

// isInCluster says whether an address is the one that every cluster has for itself.
func isInCluster(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return host == "kubernetes" || slices.ContainsFunc([]string{"kubernetes.default", "kubernetes.default.svc"}, func(name string) bool {
		return host == name || strings.HasPrefix(host, name+".")
	})
}

// withoutUser is an address without credentials that somebody has put into it.
func withoutUser(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}

// checkArgoCluster refuses what a kubeconfig is refused for.
func checkArgoCluster(server string, c *argoConfig) error {
	var errs []error
	if c.TLSClientConfig.Insecure {
		errs = append(errs, errors.New("config.tlsClientConfig.insecure is refused, since whoever is in between would get the credentials: put the CA of the cluster into caData"))
	}
	if c.ProxyURL != "" {
		errs = append(errs, errors.New("config.proxyUrl is refused: hubs connect to members directly; where only you need the proxy, "+byKubeconfig))
	}
	if clusters.CheckCluster(&clientcmdapi.Cluster{Server: server}) != nil {
		errs = append(errs, errors.New("server is to be an https:// URL without credentials in it"))
	}
	return errors.Join(errs...)
}

// checkArgoUser refuses credentials that are none that can be used.
func checkArgoUser(c *argoConfig) error {
	tls := c.TLSClientConfig
	switch {
	case c.ExecProviderConfig != nil:
		return errors.New("config.execProviderConfig names a program, and none is run for what a Secret says: make a kubeconfig with the tool of your cloud, and " + byKubeconfig)
	case c.AWSAuthConfig != nil:
		return errors.New("config.awsAuthConfig has Argo CD make the credentials, and no Secret has them: make a kubeconfig with `aws eks update-kubeconfig`, and " + byKubeconfig)
	case c.Username != "" || c.Password != "":
		return errors.New("config.username and password are refused: no API server takes them any more")
	case (len(tls.CertData) > 0) != (len(tls.KeyData) > 0):
		return errors.New("config.tlsClientConfig has a certificate without its key, or a key without its certificate")
	case c.BearerToken == "" && len(tls.CertData) == 0:
		return errors.New("config has neither a bearerToken nor certData and keyData: " + byKubeconfig)
	case strings.ContainsFunc(c.BearerToken, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return errors.New("config.bearerToken has characters that no token has")
	}
	return nil
}
