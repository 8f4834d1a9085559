package cli

import (
	"cmp"
	"errors"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/minifleet/minifleet/internal/cli/server"
)

// dashboardFlags say where the dashboard is, for what only the hub's controller reaches.
type dashboardFlags struct {
	address, caFile string
}

func (d *dashboardFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.address, "server", "", "address of the dashboard, such as https://fleet.example.org, or of a forwarded port of Service minifleet-dashboard in minifleet-system (port 443, TLS); empty: $MINIFLEET_SERVER")
	cmd.Flags().StringVar(&d.caFile, "server-ca", "", "file with certificates, in PEM, that the dashboard's is trusted by; empty: those of the system")
}

// errNoServer says how to find a dashboard.
var errNoServer = errors.New("--server: give the address of the dashboard, or set MINIFLEET_SERVER; " +
	"without one, forward a port: kubectl -n minifleet-system port-forward deployment/minifleet-controller-manager 8443, " +
	"and --server https://localhost:8443 --server-ca FILE, with the certificate of the dashboard in FILE")

func (d *dashboardFlags) base(env *environment) (*url.URL, error) {
	address := cmp.Or(d.address, env.getenv("MINIFLEET_SERVER"))
	if address == "" {
		return nil, invalid{errNoServer}
	}
	base, err := server.ParseURL(address)
	if err != nil {
		return nil, invalid{err}
	}
	return base, nil
}

// client has the token of --token, $MINIFLEET_TOKEN or the kubeconfig.
func (d *dashboardFlags) client(h *hubFlags, hub *hubClient) (*server.Client, error) {
	base, err := d.base(h.env)
	if err != nil {
		return nil, err
	}
	c, err := server.New(server.Settings{
		URL: base.String(), CAFile: d.caFile, Config: hub.config,
		Token: cmp.Or(*h.config.BearerToken, h.env.getenv("MINIFLEET_TOKEN")),
	})
	if err != nil {
		return nil, invalid{err}
	}
	return c, nil
}
