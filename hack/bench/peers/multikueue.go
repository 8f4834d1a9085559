package peers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/hack/lab"
)

const (
	kueueVersion = "v0.16.1"
	// kueueRecipe fills in the directory. What kustomize would add to the manifests is added by the driver.
	kueueRecipe = `
mkdir -p $DIR/crds && echo 'Kueue ` + kueueVersion + `' > $DIR/VERSION
m=sigs.k8s.io/kueue; src=$(go mod download -json $m@` + kueueVersion + ` | sed -nE 's/.*"Dir": "(.*)".*/\1/p')
tmp=$(mktemp -d) && printf 'module scratch\n\ngo 1.25.0\n\nrequire %s ` + kueueVersion + `\n' $m > $tmp/go.mod
CGO_ENABLED=0 GOWORK=off go build -C $tmp -mod=mod -trimpath -ldflags '-s -w' -o $DIR/manager $m/cmd/kueue
cp -f $src/config/components/crd/bases/*.yaml $DIR/crds/ && cp -f $src/config/components/webhook/manifests.yaml $DIR/webhooks.yaml`

	// kueueNamespace is where each of its managers says to be, and where its Secrets are.
	kueueNamespace = "kueue-system"
	// kueueName names all that an administrator declares, LocalQueues included.
	kueueName = "bench"
	// multiKueueController is whom a Job on the hub names as the one that acts for it.
	multiKueueController = "kueue.x-k8s.io/multikueue"
	queueLabel           = "kueue.x-k8s.io/queue-name"
)

var multiKueue = &peer{
	name: "multikueue", title: "Kueue's MultiKueue",
	dir: "kueue", files: []string{"manager", "crds/", "webhooks.yaml"}, recipe: kueueRecipe,
	finalized: []schema.GroupVersionKind{kueueKind("Workload")},
	how: "a Kueue manager on the hub and one on each member, as it asks for: its CPU time, memory and requests are those of all four. A ClusterQueue and a LocalQueue " +
		"on each cluster, with quota for all; on the hub with an AdmissionCheck for the three members. Told by a loop that creates the Jobs on the hub, 32 at once; " +
		"those requests are not counted as its own",
	settings: "the integration batch/job alone; no client-side limit of requests (clientConnection.qps: -1), which does not reach its clients for the members: those have the default " +
		"of client-go, 5 requests a second for each kind and member, and no setting for it; concurrency as v0.19 ships it; leader election, metrics and the API of pending workloads off",
	notComparable: "it reads no Git, and takes Jobs alone along: Secret, ConfigMap and Service of each MiniCluster are created on every member before the clock starts. It has quotas and " +
		"queues on both sides, which admit each Job twice, and copies the status of each Job to the hub",
	driver: func(t *turn) driver { return &multiKueueDriver{turn: t} },
}

func kueueKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta2", Kind: kind}
}

// kueueConfig is a manager's configuration.
const kueueConfig = `
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: {{.Namespace}}
health: {healthProbeBindAddress: "{{.Health}}"}
metrics: {bindAddress: "0"}
webhook: {host: {{.Host}}, port: {{.Port}}, certDir: {{.Certificates}}}
leaderElection: {leaderElect: false}
clientConnection: {qps: -1}
controller:
  groupKindConcurrency:
    Job.batch: 5
    Workload.kueue.x-k8s.io: 10
    LocalQueue.kueue.x-k8s.io: 5
    ClusterQueue.kueue.x-k8s.io: 5
integrations: {frameworks: [batch/job]}
# The API of pending workloads is served at a fixed port, of which there is one for all four managers.
featureGates: {VisibilityOnDemand: false}
`

// kueueObjects are what is on a cluster before a push. Members are given on the hub alone.
const kueueObjects = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: {{.Name}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: {{.Name}}}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: {{.Name}}
      resources:
      - {name: cpu, nominalQuota: "1000000"}
      - {name: memory, nominalQuota: 1Pi}
{{- if .Members}}
  admissionChecksStrategy: {admissionChecks: [{name: {{.Name}}}]}
{{- end}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: {{.Name}}, namespace: {{.Namespace}}}
spec: {clusterQueue: {{.Name}}}
{{- if .Members}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: {{.Name}}}
spec:
  controllerName: {{.Controller}}
  parameters: {apiGroup: kueue.x-k8s.io, kind: MultiKueueConfig, name: {{.Name}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueConfig
metadata: {name: {{.Name}}}
spec:
  clusters:
{{- range $member, $kubeconfig := .Members}}
  - {{$member}}
{{- end}}
{{- end}}
{{- range $member, $kubeconfig := .Members}}
---
apiVersion: v1
kind: Secret
metadata: {name: {{$member}}, namespace: {{$.SystemNamespace}}}
data: {kubeconfig: {{$kubeconfig}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata: {name: {{$member}}}
spec: {clusterSource: {kubeConfig: {locationType: Secret, location: {{$member}}}}}
{{- end}}
`

type multiKueueDriver struct {
	*turn
	certificates *serving
	declared     []*batchv1.Job
}

func (d *multiKueueDriver) start(ctx context.Context) error {
	var err error
	if d.certificates, err = newServing(kueueNamespace); err != nil {
		return err
	}
	d.atEnd = append(d.atEnd, d.clean)
	health := map[string]string{}
	for _, cluster := range d.clusters() {
		if health[cluster], err = d.manager(ctx, cluster); err != nil {
			return fmt.Errorf("%s: %w", cluster, err)
		}
	}
	for _, cluster := range d.clusters() {
		if err := d.serves(ctx, cluster, health[cluster]); err != nil {
			return err
		}
	}
	return d.queues(ctx)
}

func (d *multiKueueDriver) clusters() []string { return append([]string{hubName}, memberNames...) }

// manager starts Kueue's manager for a cluster, with all that its installation has there, and returns where it says whether
// it is ready. It makes its certificates itself, so it is given some that it takes for its own: good for this machine, too.
func (d *multiKueueDriver) manager(ctx context.Context, cluster string) (health string, err error) {
	webhook, err := lab.FreeAddress()
	if err != nil {
		return "", err
	}
	if health, err = lab.FreeAddress(); err != nil {
		return "", err
	}
	if err := d.definitions(ctx, cluster, webhook); err != nil {
		return "", err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kueueNamespace}}
	if err := d.clients[cluster].Create(ctx, ns); client.IgnoreAlreadyExists(err) != nil {
		return "", err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: kueueNamespace, Name: "kueue-webhook-server-cert"}, Data: d.certificates.files,
	}
	if err := d.clients[cluster].Create(ctx, secret); err != nil {
		return "", err
	}
	if err := d.webhooks(ctx, cluster, webhook); err != nil {
		return "", err
	}
	certificates := d.path("certificates-" + cluster)
	if err := d.certificates.write(certificates); err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(webhook)
	if err != nil {
		return "", err
	}
	config, err := fill(kueueConfig, map[string]string{
		"Namespace": kueueNamespace, "Health": health, "Host": host, "Port": port, "Certificates": certificates,
	})
	if err != nil {
		return "", err
	}
	configPath := d.path("config-" + cluster + ".yaml")
	if err := os.WriteFile(configPath, config, 0o600); err != nil {
		return "", err
	}
	kubeconfig, err := d.kubeconfigFile(cluster)
	if err != nil {
		return "", err
	}
	return health, d.run("kueue-"+cluster, d.program("manager"), nil, "--config="+configPath, "--kubeconfig="+kubeconfig, "--zap-log-level=error")
}

// kueueConverted are the CustomResourceDefinitions that its manager converts, by what its kustomization adds.
var kueueConverted = []string{"clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads"}

// definitions applies its CustomResourceDefinitions, with its manager at an address as what converts them.
func (d *multiKueueDriver) definitions(ctx context.Context, cluster, address string) error {
	dir := d.path("crds-" + cluster)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(d.program("crds"), "*.yaml"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &definition.Object); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := convertedAt(definition, d.certificates, address); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if text, err = yaml.Marshal(definition.Object); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), text, 0o600); err != nil {
			return err
		}
	}
	return d.lab.Cluster(cluster).ApplyCRDs(ctx, dir)
}

// convertedAt has a manager at an address convert what a CustomResourceDefinition defines, if that is for it to do.
func convertedAt(definition *unstructured.Unstructured, certificates *serving, address string) error {
	plural, _, _ := strings.Cut(definition.GetName(), ".")
	if !slices.Contains(kueueConverted, plural) {
		return nil
	}
	return unstructured.SetNestedMap(definition.Object, map[string]any{
		"strategy": "Webhook",
		"webhook":  map[string]any{"clientConfig": certificates.at(address, "/convert"), "conversionReviewVersions": []any{"v1"}},
	}, "spec", "conversion")
}

// webhooks declares its webhooks for Jobs and its own kinds.
func (d *multiKueueDriver) webhooks(ctx context.Context, cluster, address string) error {
	text, err := os.ReadFile(d.program("webhooks.yaml"))
	if err != nil {
		return err
	}
	configurations, err := kueueWebhooks(text, d.certificates, address)
	if err != nil {
		return err
	}
	for _, configuration := range configurations {
		if err := d.clients[cluster].Create(ctx, configuration); err != nil {
			return err
		}
	}
	return nil
}

// kueueWebhooks are those of its manifest that it needs with the integration of Jobs alone, of a manager at an address.
func kueueWebhooks(text []byte, certificates *serving, address string) ([]*unstructured.Unstructured, error) {
	configurations, err := documents(text)
	if err != nil {
		return nil, err
	}
	for _, configuration := range configurations {
		all, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
		if err != nil {
			return nil, err
		}
		var some []any
		for _, item := range all {
			webhook, _ := item.(map[string]any)
			path, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "path")
			if strings.HasSuffix(path, "-batch-v1-job") || strings.Contains(path, "-kueue-x-k8s-io-") {
				webhook["clientConfig"] = certificates.at(address, path)
				some = append(some, webhook)
			}
		}
		if len(some) == 0 {
			return nil, fmt.Errorf("%s has no webhook for Jobs", configuration.GetName())
		}
		configuration.Object["webhooks"] = some
		configuration.SetName("kueue-" + configuration.GetName()) // as kustomize does, and as its manager looks for
	}
	return configurations, nil
}

// serves waits until the manager of a cluster answers webhooks.
func (d *multiKueueDriver) serves(ctx context.Context, cluster, address string) error {
	return eventually(ctx, "the manager of "+cluster+" to be ready", func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, d.running() // it may not listen yet
		}
		return response.StatusCode == http.StatusOK, errors.Join(response.Body.Close(), d.running())
	})
}

// queues declares what administrators do, members first, and waits until Kueue says that all of it is in use.
func (d *multiKueueDriver) queues(ctx context.Context) error {
	kubeconfigs := map[string]string{}
	for _, member := range memberNames {
		data, err := d.kubeconfig(member)
		if err != nil {
			return err
		}
		kubeconfigs[member] = base64.StdEncoding.EncodeToString(data)
	}
	for _, cluster := range append(memberNames[:len(memberNames):len(memberNames)], hubName) {
		values := map[string]any{
			"Name": kueueName, "Namespace": d.namespace, "SystemNamespace": kueueNamespace, "Controller": multiKueueController, "Members": map[string]string{},
		}
		kinds := map[string][]string{"ClusterQueue": {kueueName}, "LocalQueue": {kueueName}}
		if cluster == hubName {
			values["Members"] = kubeconfigs
			kinds["AdmissionCheck"], kinds["MultiKueueCluster"] = []string{kueueName}, memberNames
		}
		if err := d.create(ctx, cluster, kueueObjects, values); err != nil {
			return fmt.Errorf("%s: %w", cluster, err)
		}
		for kind, names := range kinds {
			for _, name := range names {
				if err := d.active(ctx, cluster, kind, name); err != nil {
					return fmt.Errorf("%s: %w", cluster, err)
				}
			}
		}
	}
	return nil
}

func (d *multiKueueDriver) active(ctx context.Context, cluster, kind, name string) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kueueKind(kind))
	object.SetName(name)
	if kind == "LocalQueue" {
		object.SetNamespace(d.namespace)
	}
	return d.condition(ctx, cluster, object, "Active")
}

// declare puts on every member what MultiKueue does not take along, since nobody knows where a Job will be.
func (d *multiKueueDriver) declare(ctx context.Context, names []string) error {
	managedBy := multiKueueController
	d.declared = nil
	for _, name := range names {
		b, err := bundle(name, d.namespace)
		if err != nil {
			return err
		}
		err = inParallel(len(memberNames), func(i int) error { return createAround(ctx, d.bare[memberNames[i]], b) })
		if err != nil {
			return err
		}
		job := b.Job.DeepCopy()
		if job.Labels == nil {
			job.Labels = map[string]string{}
		}
		job.Labels[queueLabel] = kueueName
		job.Spec.ManagedBy = &managedBy
		d.declared = append(d.declared, job)
	}
	return nil
}

func (d *multiKueueDriver) tell(ctx context.Context) error {
	jobs := d.bare[hubName].BatchV1().Jobs(d.namespace)
	return inParallel(len(d.declared), func(i int) error {
		_, err := jobs.Create(ctx, d.declared[i], metav1.CreateOptions{})
		return err
	})
}

// clean removes what would stand in the way of the others' turns, and of its own next one: webhooks that nobody answers
// any more, and what is outside of the turn's namespace.
func (d *multiKueueDriver) clean(ctx context.Context) error {
	var errs []error
	for _, cluster := range d.clusters() {
		c := d.clients[cluster]
		for _, kind := range []string{"Mutating", "Validating"} {
			configuration := &unstructured.Unstructured{}
			configuration.SetGroupVersionKind(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind + "WebhookConfiguration"})
			configuration.SetName("kueue-" + strings.ToLower(kind) + "-webhook-configuration")
			errs = append(errs, client.IgnoreNotFound(c.Delete(ctx, configuration)))
		}
		errs = append(errs, c.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(kueueNamespace)))
		for _, kind := range []string{"MultiKueueCluster", "MultiKueueConfig", "AdmissionCheck", "ClusterQueue", "ResourceFlavor"} {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kueueKind(kind))
			if err := c.List(ctx, list); err != nil {
				errs = append(errs, err)
				continue
			}
			for i := range list.Items {
				errs = append(errs, client.IgnoreNotFound(c.Delete(ctx, &list.Items[i])), removeFinalizers(ctx, c, &list.Items[i]))
			}
		}
	}
	return errors.Join(errs...)
}
