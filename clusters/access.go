package clusters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters/credentialplugin"
)

const (
	// renewMargin is how long before a credential expires the next one is asked for: this, or a tenth of the time that is
	// left where that is shorter.
	renewMargin = time.Minute
	// renewMin is the shortest time between two runs of a plugin for one member that is connected.
	renewMin = 2 * time.Second
)

// Access is how to reach a member with credentials that a plugin has.
type Access struct {
	// Profile is the name of the ClusterProfile that says so.
	Profile string
	// Server is an https:// URL, and ServerName the name in its certificate where that is another one. CA is PEM data.
	Server, ServerName string
	CA                 []byte
	// Plugin is a program that the administrator of the hub has named.
	Plugin credentialplugin.Command
}

// Address is what Address returns of a kubeconfig, of whatever the member is reached by.
func (t *Target) Address() (server, ca string) {
	if t.Access != nil {
		return addressOf(t.Access.Server, t.Access.CA)
	}
	return Address(t.Kubeconfig)
}

// restConfig is how to reach a member; with an Access, without credentials.
func (t *Target) restConfig() (*rest.Config, error) {
	if t.Access == nil {
		return RESTConfig(t.Kubeconfig)
	}
	return &rest.Config{
		Host: t.Access.Server, QPS: -1, UserAgent: userAgent,
		TLSClientConfig: rest.TLSClientConfig{ServerName: t.Access.ServerName, CAData: t.Access.CA},
	}, nil
}

// connected is what is said of a member that is.
func (t *Target) connected() string {
	if t.Access == nil {
		return "connected"
	}
	return fmt.Sprintf("connected, with credentials of provider %s for ClusterProfile %s", t.Access.Plugin.Provider, t.Access.Profile)
}

// explain says what to do about a member that has no kubeconfig, where an error is about that.
func (t *Target) explain(e *Error) *Error {
	if t.Access == nil {
		return e
	}
	about := map[string]string{
		v1alpha1.ReasonAuthFailed:           "the member refuses the credentials of provider %s for ClusterProfile %s: have its plugin print others",
		v1alpha1.ReasonForbidden:            "the credentials of provider %s for ClusterProfile %s lack a right that is needed: give them what config/member describes",
		v1alpha1.ReasonCertificateUntrusted: "the server's certificate is not trusted with what provider %s has in ClusterProfile %s: correct its cluster.certificate-authority-data, or the certificate",
		v1alpha1.ReasonWrongCluster:         "what provider %s has in ClusterProfile %s leads to another cluster than the one registered under this name: correct it, or register the new cluster under a name of its own",
		v1alpha1.ReasonRedirectRefused:      "what answers redirects, which is refused: have provider %s in ClusterProfile %s name the address of the API server itself",
		v1alpha1.ReasonKubeconfigInvalid:    "what provider %s has in ClusterProfile %s cannot be used: correct its cluster.server and cluster.certificate-authority-data",
	}[e.Reason]
	if about == "" {
		return e
	}
	text := fmt.Sprintf(about, t.Access.Plugin.Provider, t.Access.Profile)
	reason := e.Reason
	if reason == v1alpha1.ReasonKubeconfigInvalid {
		return &Error{v1alpha1.ReasonClusterProfileRefused, errors.New(text)}
	}
	if cause := errors.Unwrap(e.Err); cause != nil {
		return &Error{reason, fmt.Errorf("%s (%w)", text, cause)}
	}
	return &Error{reason, errors.New(text)}
}

// credentials is the configuration of a session, and what a plugin has issued for it; nil where there is none.
func (c *connection) credentials(ctx context.Context) (*rest.Config, *issued, error) {
	if c.target.Access == nil {
		return c.cfg, nil, nil
	}
	credential, err := c.runPlugin(ctx)
	if err != nil {
		return nil, nil, err
	}
	i := &issued{}
	i.add(credential)
	cfg := rest.CopyConfig(c.cfg)
	cfg.CertData, cfg.KeyData = credential.Certificate, credential.Key
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bearer{issued: i, next: next} })
	return cfg, i, nil
}

func (c *connection) runPlugin(ctx context.Context) (credentialplugin.Credential, error) {
	credential, err := c.provider.plugins.Run(ctx, c.target.Access.Plugin)
	if err != nil {
		return credential, &Error{v1alpha1.ReasonCredentialPluginFailed, err}
	}
	return credential, nil
}

// renew runs the plugin again before a credential expires, until the session ends. A new token takes the place of the old one;
// with another certificate the member is connected anew. Where the plugin fails, the old credential is used on: the member
// says when it is worth nothing any more.
func (c *connection) renew(ctx context.Context, end context.CancelCauseFunc, i *issued) {
	wait, failed := time.Duration(0), time.Duration(0)
	for i != nil && !i.latest().Expires.IsZero() {
		if wait == 0 {
			wait = untilRenewal(i.latest().Expires.Sub(c.provider.now()))
		}
		sleep(ctx, wait)
		if ctx.Err() != nil {
			return
		}
		credential, err := c.runPlugin(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.provider.log.Error(err, "renewing credentials", "member", c.name)
			failed = untilAnother(failed)
			wait = failed
		case string(credential.Certificate) != string(i.latest().Certificate):
			end(errReconnect)
			return
		default:
			i.add(credential)
			wait, failed = 0, 0
		}
	}
}

// untilAnother is how long to wait after a plugin has failed, which was waited for last time; 0 for the first.
func untilAnother(last time.Duration) time.Duration { return min(max(2*last, renewMin), renewMargin) }

// untilRenewal is how long a credential is used that expires after some time.
func untilRenewal(left time.Duration) time.Duration {
	return max(left-min(renewMargin, left/10), renewMin)
}

// issued is what a plugin has printed during a session, the latest last.
type issued struct {
	mu          sync.RWMutex
	credentials []credentialplugin.Credential
}

// maxIssued is how many credentials are remembered, to be known in Secrets of the member: earlier ones have expired.
const maxIssued = 8

func (i *issued) add(c credentialplugin.Credential) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.credentials = append(i.credentials, c)
	if n := len(i.credentials); n > maxIssued {
		i.credentials = i.credentials[n-maxIssued:]
	}
}

func (i *issued) latest() credentialplugin.Credential {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.credentials[len(i.credentials)-1]
}

// all are what whoever has one of them is MiniFleet on a member.
func (i *issued) all() [][]byte {
	if i == nil {
		return nil
	}
	i.mu.RLock()
	defer i.mu.RUnlock()
	var out [][]byte
	for _, c := range i.credentials {
		out = append(out, credentialsOf(&rest.Config{BearerToken: c.Token, TLSClientConfig: rest.TLSClientConfig{KeyData: c.Key}})...)
	}
	return out
}

// bearer sends the latest token that a plugin has issued.
type bearer struct {
	issued *issued
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	if token := b.issued.latest().Token; token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return b.next.RoundTrip(req)
}

// WrappedRoundTripper lets the line find the transport below.
func (b *bearer) WrappedRoundTripper() http.RoundTripper { return b.next }
