package cli

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/minifleet/minifleet/clusters/clusterprofile"
	"github.com/minifleet/minifleet/clusters/credentialplugin"
	"github.com/minifleet/minifleet/controllers"
)

// clusterProfileFlags say how members are reached that have a ClusterProfile.
type clusterProfileFlags struct {
	providers, namespace string
	timeout              time.Duration
}

func (f *clusterProfileFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.providers, "cluster-profile-providers", "",
		"file of the credential plugins that ClusterProfiles may name, in the format of SIG Multicluster's cluster-inventory-api (docs/members.md); empty: MemberClusters cannot have a clusterProfileRef")
	flags.StringVar(&f.namespace, "cluster-profile-namespace", "", "namespace of the ClusterProfiles; empty: that of the members' kubeconfig Secrets")
	flags.DurationVar(&f.timeout, "credential-plugin-timeout", credentialplugin.DefaultTimeout, "how long a credential plugin may take before it is killed")
}

// inherited are the variables of the controller that credential plugins get. None of them is secret.
var inherited = []string{
	"PATH", "HOME", "TMPDIR", "TZ", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT",
	"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy",
}

// options are what the flags say; nil without a file of providers.
func (f *clusterProfileFlags) options() (*controllers.ClusterProfileOptions, error) {
	if f.providers == "" {
		return nil, nil
	}
	if f.timeout < time.Second || f.timeout > 10*time.Minute {
		return nil, errors.New("--credential-plugin-timeout must be from 1s to 10m")
	}
	if f.namespace != "" && len(validation.IsDNS1123Label(f.namespace)) > 0 {
		return nil, fmt.Errorf("--cluster-profile-namespace: %q is no name of a namespace", f.namespace)
	}
	data, err := os.ReadFile(f.providers)
	if err != nil {
		return nil, fmt.Errorf("--cluster-profile-providers: %w", err)
	}
	providers, err := clusterprofile.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("--cluster-profile-providers: %s %w", f.providers, err)
	}
	out := &controllers.ClusterProfileOptions{Namespace: f.namespace, Providers: providers, Timeout: f.timeout}
	for _, name := range inherited {
		if value, is := os.LookupEnv(name); is {
			out.Environment = append(out.Environment, name+"="+value)
		}
	}
	return out, nil
}
