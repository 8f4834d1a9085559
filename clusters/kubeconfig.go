package clusters

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// userAgent is how MiniFleet calls itself.
const userAgent = "minifleet"

// UserAgent is how the controller of a shard calls itself, on the hub and on members; an audit log tells them apart.
func UserAgent(shard string) string {
	if shard == "" {
		return userAgent
	}
	return userAgent + "/" + shard
}

// RESTConfig turns the kubeconfig of a member into a client configuration. Only what is embedded in the
// kubeconfig is used: whatever would run a program, read a file of the hub's, send credentials in the
// clear, trust an unknown server, go through a proxy of the member's choice or act as somebody else is refused. The error is an *Error with reason KubeconfigInvalid or
// KubeconfigRefused.
func RESTConfig(kubeconfig []byte) (*rest.Config, error) {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		// The parser's message may quote the file, and so a key.
		return nil, &Error{Reason: v1alpha1.ReasonKubeconfigInvalid, Err: errors.New("the kubeconfig is not valid YAML of kind Config: write it with `kubectl config view --raw --minify --flatten`")}
	}
	cluster, user, err := current(cfg)
	if err != nil {
		return nil, &Error{Reason: v1alpha1.ReasonKubeconfigInvalid, Err: err}
	}
	if err := errors.Join(CheckCluster(cluster), refuseUser(user)); err != nil {
		return nil, &Error{Reason: v1alpha1.ReasonKubeconfigRefused, Err: err}
	}
	rc, err := clientcmd.NewDefaultClientConfig(*cfg, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		// The library's message may quote what is secret.
		return nil, &Error{Reason: v1alpha1.ReasonKubeconfigInvalid, Err: errors.New("the kubeconfig cannot be used: check that its cluster and user are complete (`kubectl --kubeconfig FILE get --raw /version`)")}
	}
	// The server's own priority and fairness is the limit, not a client-side one.
	rc.QPS = -1
	rc.UserAgent = userAgent
	return rc, nil
}

// Address returns what a kubeconfig says of the cluster that its current context names, and no member can forge: the server,
// https://HOST:PORT with a path where there is one, and the SHA-256 hash of its certificate authorities in hexadecimal digits,
// in whatever order they are; empty where those of the hub's system are meant. Both are empty where the kubeconfig is none
// that is used.
func Address(kubeconfig []byte) (server, ca string) {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return "", ""
	}
	cluster, _, err := current(cfg)
	if err != nil || CheckCluster(cluster) != nil {
		return "", ""
	}
	return addressOf(cluster.Server, cluster.CertificateAuthorityData)
}

func addressOf(server string, cas []byte) (address, ca string) {
	u, err := url.Parse(server)
	if err != nil {
		return "", ""
	}
	host := strings.ToLower(u.Host)
	if u.Port() == "" {
		host += ":443"
	}
	return "https://" + host + strings.TrimRight(u.Path, "/"), hashOfCAs(cas)
}

func hashOfCAs(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	var all []string
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		all = append(all, string(block.Bytes))
	}
	slices.Sort(all)
	hash := sha256.New()
	for _, der := range slices.Compact(all) {
		sum := sha256.Sum256([]byte(der))
		hash.Write(sum[:])
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func current(cfg *clientcmdapi.Config) (*clientcmdapi.Cluster, *clientcmdapi.AuthInfo, error) {
	ctx, ok := cfg.Contexts[cfg.CurrentContext]
	if !ok {
		return nil, nil, fmt.Errorf("the kubeconfig has no context %q: set current-context to one of its contexts", cfg.CurrentContext)
	}
	cluster, ok := cfg.Clusters[ctx.Cluster]
	if !ok {
		return nil, nil, fmt.Errorf("the kubeconfig has no cluster %q, which its current context names", ctx.Cluster)
	}
	user, ok := cfg.AuthInfos[ctx.AuthInfo]
	if !ok {
		return nil, nil, fmt.Errorf("the kubeconfig has no user %q, which its current context names", ctx.AuthInfo)
	}
	return cluster, user, nil
}

// CheckCluster refuses what is said of a cluster if it would send credentials in the clear, trust an unknown server, read a
// file of the hub's or go through a proxy of the member's choice.
func CheckCluster(c *clientcmdapi.Cluster) error {
	var errs []error
	if u, err := url.Parse(c.Server); err != nil || u.Scheme != "https" || u.Host == "" {
		errs = append(errs, errors.New("cluster.server must be an https:// URL"))
	} else if u.User != nil {
		errs = append(errs, errors.New("cluster.server holds credentials, which is refused: use a token or an embedded client certificate"))
	}
	if c.ProxyURL != "" {
		errs = append(errs, errors.New("cluster.proxy-url is refused: the hub connects to members directly"))
	}
	if c.InsecureSkipTLSVerify {
		errs = append(errs, errors.New("insecure-skip-tls-verify is refused: embed the CA as certificate-authority-data"))
	}
	if c.CertificateAuthority != "" {
		errs = append(errs, errors.New("certificate-authority is a path, which is refused: embed the CA as certificate-authority-data"))
	}
	return errors.Join(errs...)
}

func refuseUser(u *clientcmdapi.AuthInfo) error {
	var errs []error
	refuse := func(is bool, what, instead string) {
		if is {
			errs = append(errs, fmt.Errorf("%s is refused: %s", what, instead))
		}
	}
	const static = "use a token or an embedded client certificate"
	refuse(u.Exec != nil, "user.exec", static)
	refuse(u.AuthProvider != nil, "user.auth-provider", static)
	refuse(u.TokenFile != "", "user.tokenFile", "embed the token as user.token")
	refuse(u.ClientCertificate != "", "user.client-certificate (a path)", "embed it as client-certificate-data")
	refuse(u.ClientKey != "", "user.client-key (a path)", "embed it as client-key-data")
	const own = "give the credentials the rights that are needed, which is what a member's API server knows them by"
	refuse(u.Impersonate != "", "user.as", own)
	refuse(u.ImpersonateUID != "", "user.as-uid", own)
	refuse(len(u.ImpersonateGroups) > 0, "user.as-groups", own)
	refuse(len(u.ImpersonateUserExtra) > 0, "user.as-user-extra", own)
	refuse(u.Username != "" || u.Password != "", "user.username and password", static)
	return errors.Join(errs...)
}
