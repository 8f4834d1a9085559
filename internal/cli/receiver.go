package cli

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/minifleet/minifleet/gitsource/receiver"
	"github.com/minifleet/minifleet/internal/serving"
)

const (
	// maxWebhooks is how many connections the receiver has at once. The controller needs files for others.
	maxWebhooks = 512
	// webhookTimeout is for the answer to one, with the time for its body.
	webhookTimeout = 40 * time.Second
)

// receiverFlags say whether and where the controller listens for webhooks.
type receiverFlags struct {
	address, certFile, keyFile string
	plainHTTP                  bool
	endpointSlice, podIP       string
}

func (f *receiverFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "receiver-bind-address", "0", "address at which forges tell of pushes to the repositories of GitSources; 0 turns it off")
	flags.StringVar(&f.certFile, "receiver-tls-cert-file", "", "certificate of the receiver; it is read again when it changes")
	flags.StringVar(&f.keyFile, "receiver-tls-key-file", "", "private key of that certificate")
	flags.BoolVar(&f.plainHTTP, "receiver-plain-http", false, "serve without TLS on other than loopback addresses; for behind a proxy that ends TLS")
	flags.StringVar(&f.endpointSlice, "receiver-endpoint-slice", "", "EndpointSlice, and Service that selects no pods, in the controller's namespace that are to lead to the leader")
	flags.StringVar(&f.podIP, "receiver-pod-ip", "", "address of this replica for --receiver-endpoint-slice")
}

func (f *receiverFlags) on() bool { return f.address != "" && f.address != "0" }

// check returns what is wrong with the flags.
func (f *receiverFlags) check() error {
	if !f.on() {
		return nil
	}
	host, _, err := net.SplitHostPort(f.address)
	if err != nil {
		return invalid{fmt.Errorf("--receiver-bind-address: %q is not HOST:PORT", f.address)}
	}
	switch {
	case (f.certFile == "") != (f.keyFile == ""):
		return invalid{errors.New("--receiver-tls-cert-file and --receiver-tls-key-file: give both or neither")}
	case f.certFile == "" && !f.plainHTTP && !loopback(host):
		return invalid{fmt.Errorf("--receiver-bind-address: %s can be reached from elsewhere, and the tokens of GitLab would cross the network unencrypted: "+
			"give --receiver-tls-cert-file and --receiver-tls-key-file, or --receiver-plain-http where a proxy ends TLS", f.address)}
	case f.endpointSlice != "" && !validIP(f.podIP):
		return invalid{fmt.Errorf("--receiver-endpoint-slice needs --receiver-pod-ip: %q is no IP address", f.podIP)}
	}
	return nil
}

// server is what has the hooks; nil where nothing is served.
func (f *receiverFlags) server() *receiver.Server {
	if !f.on() {
		return nil
	}
	return receiver.New(receiver.Options{Now: time.Now, Log: ctrl.Log.WithName("receiver")})
}

// serve has a manager serve webhooks for as long as it leads.
func (f *receiverFlags) serve(local manager.Manager, cfg *rest.Config, namespace string, server *receiver.Server) error {
	log := local.GetLogger().WithName("receiver")
	listener := &serving.Listener{
		Name: "receiver", Address: f.address, CertFile: f.certFile, KeyFile: f.keyFile, Handler: server,
		AnswerTimeout: webhookTimeout, MaxConnections: maxWebhooks, OnlyHTTP1: true, Log: log,
	}
	if f.endpointSlice != "" {
		a := announced{Name: "receiver", Address: f.address, Slice: client.ObjectKey{Namespace: namespace, Name: f.endpointSlice}, IP: f.podIP}
		var err error
		if listener.Announce, err = a.run(local.GetHTTPClient(), cfg, log); err != nil {
			return err
		}
	}
	return local.Add(listener)
}
