package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubeconfigs that log in by OpenID Connect
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// hubClient is a connection to the hub, with the credentials of a person.
type hubClient struct {
	client client.WithWatch
	// config is what the client was made of.
	config *rest.Config
	// namespace is that of the flags, or of the context.
	namespace string
}

// hubScheme has all kinds that the command line reads on a hub.
var hubScheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
})

// connect makes a client. It asks nothing of the hub yet.
func connect(flags *genericclioptions.ConfigFlags) (*hubClient, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, invalid{fmt.Errorf("no connection to a hub: give --kubeconfig or --context, or set KUBECONFIG: %w", err)}
	}
	if config.Host == clientcmd.ClusterDefaults.Server {
		// That is what client-go makes of no kubeconfig at all.
		return nil, invalid{errors.New("no connection to a hub: give --kubeconfig, or set KUBECONFIG")}
	}
	config.QPS = -1 // the server's own flow control is the limit
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, invalid{fmt.Errorf("no namespace: give one with -n: %w", err)}
	}
	config.WarningHandler = rest.NoWarnings{}
	c, err := client.NewWithWatch(config, client.Options{Scheme: hubScheme()})
	if err != nil {
		return nil, err
	}
	return &hubClient{client: c, config: config, namespace: namespace}, nil
}

// hubFlags are the flags by which a command finds the hub.
type hubFlags struct {
	env    *environment
	config *genericclioptions.ConfigFlags
}

// hubFlag marks the flags of the connection, which usage lists apart.
const hubFlag = "minifleet_hub_flag"

func newHubFlags(env *environment) hubFlags {
	config := genericclioptions.NewConfigFlags(true)
	// --server is the dashboard's; what else of the connection changes from call to call is in kubeconfigs.
	config.APIServer, config.CacheDir, config.DisableCompression = nil, nil, nil
	return hubFlags{env: env, config: config}
}

// add adds the flags to a command, and the completion of namespaces.
func (h *hubFlags) add(cmd *cobra.Command) {
	set := pflag.NewFlagSet("hub", pflag.ContinueOnError)
	h.config.AddFlags(set)
	set.VisitAll(func(f *pflag.Flag) {
		_ = set.SetAnnotation(f.Name, hubFlag, []string{"true"}) // fails for unknown names only
	})
	cmd.Flags().AddFlagSet(set)
	_ = cmd.RegisterFlagCompletionFunc("namespace", h.completeNamespaces) // the flag is there
}

// run connects and runs.
func (h *hubFlags) run(cmd *cobra.Command, do func(context.Context, *hubClient) error) error {
	return interruptible(cmd, func(ctx context.Context) error {
		hub, err := h.env.connect(h.config)
		if err != nil {
			return err
		}
		return explain(do(ctx, hub), h.env.program)
	})
}

// key of an object in the namespace that is asked for.
func (h *hubClient) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: h.namespace, Name: name}
}

// missing says of an object that is not there what to do.
func (h *hubFlags) missing(err error, object client.Object, key client.ObjectKey) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	list := h.env.program + " get -A"
	switch object.(type) {
	case *v1alpha1.GitSource:
		list = h.env.program + " source list -A"
	case *v1alpha1.MemberCluster:
		list = h.env.program + " cluster list"
	}
	where := " and the namespace (-n)"
	if key.Namespace == "" {
		where = ""
	}
	return notFound(object, key, "check the name"+where+"; `"+list+"` lists what there is")
}

// miniCluster reads the FleetMiniCluster that an argument names.
func (h *hubFlags) miniCluster(ctx context.Context, hub *hubClient, arg string) (*v1alpha1.FleetMiniCluster, error) {
	f, key := &v1alpha1.FleetMiniCluster{}, hub.key(miniClusterName(arg))
	if err := hub.client.Get(ctx, key, f); err != nil {
		return nil, h.missing(err, f, key)
	}
	return f, nil
}

// source reads a GitSource.
func (h *hubFlags) source(ctx context.Context, hub *hubClient, name string) (*v1alpha1.GitSource, error) {
	s, key := &v1alpha1.GitSource{}, hub.key(name)
	if err := hub.client.Get(ctx, key, s); err != nil {
		return nil, h.missing(err, s, key)
	}
	return s, nil
}
