package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/dashboard"
	"github.com/minifleet/minifleet/dashboard/auth"
	"github.com/minifleet/minifleet/dashboard/web"
	"github.com/minifleet/minifleet/internal/serving"
	"github.com/minifleet/minifleet/internal/version"
)

// serve has a manager serve the dashboard for as long as it leads.
func (f *servingFlags) serve(mgr *controllers.Manager, cfg *rest.Config, namespace string) error {
	local := mgr.GetLocalManager()
	log := local.GetLogger().WithName("dashboard")
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // a review that waits here would be denied
	cfg.UserAgent = "minifleet"
	hub, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	issuer, err := f.oidc.options(f.url)
	if err != nil {
		return invalid{err}
	}
	proxies, err := f.proxies()
	if err != nil {
		return invalid{err}
	}
	who, err := auth.New(auth.Options{Reviews: auth.ReviewsOf(hub), Now: time.Now, Log: log, OIDC: issuer, TrustedProxies: proxies})
	if err != nil {
		return err
	}
	server := dashboard.New(dashboard.Options{
		Hub: local.GetClient(), Cache: local.GetCache(), Config: cfg, Members: mgr.Members, Queue: mgr.Queue, FleetID: mgr.FleetID,
		Auth: who, Writes: f.writes, Version: version.String(), Now: time.Now, Log: log,
	})
	listener := &serving.Listener{
		Name: "dashboard", Address: f.address, CertFile: f.certFile, KeyFile: f.keyFile, Handler: server.Site(web.Handler()), Log: log,
	}
	if f.endpointSlice != "" {
		a := announced{Name: "dashboard", Address: f.address, Slice: client.ObjectKey{Namespace: namespace, Name: f.endpointSlice}, IP: f.podIP}
		if listener.Announce, err = a.run(local.GetHTTPClient(), cfg, log); err != nil {
			return err
		}
	}
	return errors.Join(local.Add(server), local.Add(listener))
}

// announced says which EndpointSlice is to lead to an address of this replica.
type announced struct {
	// Name is that of the port, and what the flags begin with.
	Name    string
	Address string
	Slice   client.ObjectKey
	IP      string
}

// run returns what publishes the address.
func (a announced) run(http *http.Client, cfg *rest.Config, log logr.Logger) (func(context.Context), error) {
	_, port, err := net.SplitHostPort(a.Address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, invalid{fmt.Errorf("--%s-endpoint-slice: --%s-bind-address %q has no port number", a.Name, a.Name, a.Address)}
	}
	scheme, err := controllers.NewScheme()
	if err != nil {
		return nil, err
	}
	direct, err := client.New(cfg, client.Options{HTTPClient: http, Scheme: scheme})
	if err != nil {
		return nil, err
	}
	out := &serving.Announcement{Name: a.Name, Client: direct, Slice: a.Slice, IP: a.IP, Port: int32(number), Log: log}
	return out.Run, nil
}

// options are those of the issuer, nil for none. The files that they name are read.
func (f *oidcFlags) options(origin string) (*auth.OIDCOptions, error) {
	if f.issuer == "" {
		return nil, nil
	}
	o := &auth.OIDCOptions{
		Name: f.name, IssuerURL: f.issuer, ClientID: f.clientID, Scopes: f.scopes,
		RedirectURL: strings.TrimSuffix(origin, "/") + "/auth/callback",
	}
	if f.clientSecretFile != "" {
		secret, err := os.ReadFile(f.clientSecretFile)
		if err != nil {
			return nil, fmt.Errorf("--dashboard-oidc-client-secret-file: %w", err)
		}
		o.ClientSecret = strings.TrimSpace(string(secret))
	}
	if f.caFile != "" {
		pem, err := os.ReadFile(f.caFile)
		if err != nil {
			return nil, fmt.Errorf("--dashboard-oidc-ca-file: %w", err)
		}
		o.RootCAs = x509.NewCertPool()
		if !o.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--dashboard-oidc-ca-file: %s holds no certificate", f.caFile)
		}
	}
	return o, nil
}
