package members

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// Candidate is a cluster that another system knows, with what that has to administer it. It is used once, to make credentials
// that allow less, and never given to the hub.
type Candidate struct {
	// Name of the cluster in that system, which may be none of an object.
	Name string
	// Secret is the one that says so.
	Secret client.ObjectKey
	// Labels of the cluster there, without those of Kubernetes and of that system.
	Labels map[string]string
	// Server is its address; empty where it is not known.
	Server string
	// Config reaches it. It is nil where Refused says why it cannot be used, and what to do.
	Config  *rest.Config
	Refused error
	// Note is what else to know of it; empty for nothing.
	Note string
}

// MemberName is the name of the cluster, if a member can be called so.
func (c *Candidate) MemberName() (string, bool) {
	return c.Name, len(validation.IsDNS1123Subdomain(c.Name)) == 0
}

// Address is that of the cluster as the status of a member has it; empty where it cannot be used.
func (c *Candidate) Address() string {
	if c.Config == nil {
		return ""
	}
	target := clusters.Target{Access: &clusters.Access{Server: c.Config.Host}}
	server, _ := target.Address()
	return server
}

// Inventory is a system that knows clusters.
type Inventory struct {
	// Title is its name for people, and Namespace where its Secrets are by default; empty for that of the kubeconfig.
	Title, Namespace string
	// labels are those by which its Secrets are found.
	labels client.ListOption
	read   func(*corev1.Secret) *Candidate
}

// Inventories by the names that people give them.
var Inventories = map[string]*Inventory{
	"capi":   {Title: "Cluster API", labels: client.HasLabels{capiClusterName}, read: readCAPI},
	"argocd": {Title: "Argo CD", Namespace: "argocd", labels: client.MatchingLabels{argoSecretType: "cluster"}, read: readArgoCD},
}

// maxCandidate is how much a Secret may hold, in bytes: a CA, a certificate and a key are less than 20 KiB.
const maxCandidate = 256 << 10

// maxQuoted is how much of a text of others is in a message.
const maxQuoted = 200

// List reads the clusters that a system knows, by name.
func (i *Inventory) List(ctx context.Context, from client.Reader, namespace string) ([]*Candidate, error) {
	var secrets corev1.SecretList
	if err := from.List(ctx, &secrets, client.InNamespace(namespace), i.labels); err != nil {
		return nil, fmt.Errorf("listing the Secrets of %s in namespace %s: %w", i.Title, namespace, err)
	}
	var out []*Candidate
	for n := range secrets.Items {
		if c := i.read(&secrets.Items[n]); c != nil {
			out = append(out, bounded(c, &secrets.Items[n]))
		}
	}
	slices.SortFunc(out, func(a, b *Candidate) int {
		return strings.Compare(a.Name+"\x00"+a.Secret.String(), b.Name+"\x00"+b.Secret.String())
	})
	return out, nil
}

// bounded refuses a Secret that holds more than a cluster needs.
func bounded(c *Candidate, s *corev1.Secret) *Candidate {
	size := 0
	for _, value := range s.Data {
		size += len(value)
	}
	if size > maxCandidate {
		c.Config, c.Refused = nil, fmt.Errorf("the Secret holds %d KiB, and more than %d are refused: a cluster needs a few", size>>10, maxCandidate>>10)
	}
	return c
}

// Find is the one cluster of that name. The error says which there are.
func (i *Inventory) Find(ctx context.Context, from client.Reader, namespace, name string) (*Candidate, error) {
	all, err := i.List(ctx, from, namespace)
	if err != nil {
		return nil, err
	}
	var found []*Candidate
	var names []string
	for _, c := range all {
		if c.Name == name {
			found = append(found, c)
		}
		names = append(names, sanitize.Text(c.Name, maxQuoted))
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, inputf("%s has two clusters %s in namespace %s, of the Secrets %s and %s: delete the one that is wrong", i.Title, sanitize.Text(name, maxQuoted), namespace, found[0].Secret.Name, found[1].Secret.Name)
	case len(names) == 0:
		return nil, inputf("%s knows no clusters in namespace %s: name the namespace of its Secrets with --from-namespace, or the cluster that it runs in with --from-context", i.Title, namespace)
	}
	return nil, inputf("%s has no cluster %s in namespace %s: it has %s; name the one with --from-name", i.Title, sanitize.Text(name, maxQuoted), namespace, sanitize.List(names, maxQuoted))
}

// foreign are domains of labels that say something of an object, and nothing of its cluster.
var foreign = []string{"kubernetes.io", "k8s.io", "argoproj.io", "helm.sh", "minifleet.dev", "fluxcd.io"}

// ownLabels are labels of a cluster that are somebody's own: those of systems are left out, but for regions and zones.
func ownLabels(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	maps.DeleteFunc(out, func(key, _ string) bool {
		domain, _, prefixed := strings.Cut(key, "/")
		return prefixed && domain != "topology.kubernetes.io" && slices.ContainsFunc(foreign, func(f string) bool {
			return domain == f || strings.HasSuffix(domain, "."+f) || f == "k8s.io" && strings.HasSuffix(domain, "x-k8s.io")
		})
	})
	return out
}

const (
	// capiClusterName is the label with the name of the Cluster that an object is of.
	capiClusterName = "cluster.x-k8s.io/cluster-name"
	capiSecretType  = corev1.SecretType("cluster.x-k8s.io/secret")
	capiKey         = "value"
	capiSuffix      = "-kubeconfig"
)

// readCAPI reads a Secret of Cluster API; nil for one that is not the kubeconfig of a cluster, such as its CA.
func readCAPI(s *corev1.Secret) *Candidate {
	cluster := s.Labels[capiClusterName]
	if s.Name != cluster+capiSuffix {
		return nil
	}
	c := &Candidate{Name: cluster, Secret: client.ObjectKeyFromObject(s)}
	switch {
	case s.Type != capiSecretType:
		c.Refused = fmt.Errorf("the Secret has type %s, and those of Cluster API have %s: somebody else has made it", sanitize.Text(string(s.Type), maxQuoted), capiSecretType)
	case len(s.Data[capiKey]) == 0:
		c.Refused = fmt.Errorf("the Secret has no key %q: wait until the control plane of the Cluster is initialized", capiKey)
	default:
		c.Server, _ = clusters.Address(s.Data[capiKey])
		var err error
		if c.Config, err = clusters.RESTConfig(s.Data[capiKey]); err != nil {
			c.Config, c.Refused = nil, fmt.Errorf("key %s: %s; make a kubeconfig with the tool of your cloud, and %s", capiKey, strings.ReplaceAll(err.Error(), "\n", "; "), byKubeconfig)
		}
	}
	return c
}

// CAPILabels are those of the Cluster object of a candidate, without those of systems.
func CAPILabels(ctx context.Context, from client.Client, c *Candidate) (map[string]string, error) {
	for _, version := range []string{"v1beta2", "v1beta1"} {
		cluster := &metav1.PartialObjectMetadata{}
		cluster.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: version, Kind: "Cluster"})
		err := from.Get(ctx, client.ObjectKey{Namespace: c.Secret.Namespace, Name: c.Name}, cluster)
		switch {
		case meta.IsNoMatchError(err):
			continue
		case apierrors.IsNotFound(err):
			return nil, inputf("there is no Cluster %s/%s, whose labels are to be copied: do without --copy-labels", c.Secret.Namespace, c.Name)
		case err != nil:
			return nil, fmt.Errorf("reading the labels of Cluster %s/%s: %w", c.Secret.Namespace, c.Name, err)
		}
		return ownLabels(cluster.Labels), nil
	}
	return nil, inputf("there are no Clusters of Cluster API (cluster.x-k8s.io/v1beta2 or v1beta1), whose labels are to be copied: do without --copy-labels")
}
