package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/hack/lab"
)

const (
	argoVersion = "v3.2.11"
	// argoRecipe fills in the directory. A module's replace directives hold only in its own build, so the build here takes them over.
	argoRecipe = `
mkdir -p $DIR/crds && echo 'Argo CD ` + argoVersion + `' > $DIR/VERSION
m=github.com/argoproj/argo-cd/v3; src=$(go mod download -json $m@` + argoVersion + ` | sed -nE 's/.*"Dir": "(.*)".*/\1/p')
tmp=$(mktemp -d) && { echo 'module peer'; echo "require $m ` + argoVersion + `"; sed -n '/^go /p;/^replace/,$p' $src/go.mod; } > $tmp/go.mod
CGO_ENABLED=0 GOWORK=off go build -C $tmp -mod=mod -trimpath -ldflags "-s -w -X $m/common.version=` + argoVersion + `" -o $DIR/argocd $m/cmd
cp $src/manifests/crds/application-crd.yaml $src/manifests/crds/appproject-crd.yaml $DIR/crds/ && cp $src/manifests/base/config/argocd-cm.yaml $DIR/`
	argoSettings = "--status-processors=50 and --operation-processors=25, as its documentation advises for 1,000 Applications; ARGOCD_K8S_CLIENT_QPS=1000, so that " +
		"no client-side limit of requests counts; its own ConfigMap argocd-cm with what it does not watch; Git asked unprompted once an hour; no TLS between its " +
		"processes, no GnuPG; temporary files in memory; its Redis is miniredis, a process of its own"
	argoTold = "right after the push by the annotation argocd.argoproj.io/refresh, as `argocd app get --refresh` does"
)

var argoFiles = []string{"argocd", "argocd-cm.yaml", "crds/"}

var argoBulk = &peer{
	name: "argocd", title: "Argo CD, one Application per member",
	dir: "argocd", files: argoFiles, recipe: argoRecipe, settings: argoSettings,
	how: "an Application for each member and its directory, with automated sync; each is told " + argoTold,
	notComparable: "no status for each MiniCluster, only for each object in one Application of hundreds; a person chooses the member, by the directory; nothing that is " +
		"removed from Git is deleted, by its default; it keeps all objects of all kinds on members in memory, for its UI",
	driver: func(t *turn) driver { return &argoDriver{turn: t} },
}

var argoEach = &peer{
	name: "argocd-each", title: "Argo CD, one Application per MiniCluster",
	dir: "argocd", files: argoFiles, recipe: argoRecipe, settings: argoSettings,
	how: "an Application on the hub that makes one with a destination of each MiniCluster, all of the same push; it is told " + argoTold,
	notComparable: "a person chooses the member, by the destination in the Application that has to be committed for each; its status is whether the objects are " +
		"as in Git, and a health that follows its Job; nothing that is removed from Git is deleted, by its default",
	driver: func(t *turn) driver { return &argoDriver{turn: t, each: true} },
}

var (
	applicationKind = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}
	refresh         = []byte(`{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"normal"}}}`)
)

// argoObjects are what is on the hub before a push, beside argocd-cm. argocd-server would make the Secret's key and the AppProject.
const argoObjects = `
apiVersion: v1
kind: Secret
metadata: {name: argocd-secret, namespace: {{.Namespace}}, labels: {app.kubernetes.io/part-of: argocd}}
stringData: {server.secretkey: nobody-signs-in-here}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: {{.Namespace}}}
spec:
  sourceRepos: ['*']
  destinations: [{namespace: '*', server: '*'}]
  clusterResourceWhitelist: [{group: '*', kind: '*'}]
`

// application applies a directory of the repository to a member, or to the hub.
const application = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: {{.Name}}, namespace: {{.Namespace}}}
spec:
  project: default
  source: {repoURL: {{.URL}}, targetRevision: main, path: {{.Path}}}
  destination: {name: {{or .Member "` + hubName + `"}}, namespace: {{.Namespace}}}
  syncPolicy: {automated: {}}
`

// argoDriver drives both forms.
type argoDriver struct {
	*turn
	each bool

	directories *directories
	repository  *repository
	// roots are the Applications that are told of a push.
	roots []*unstructured.Unstructured
}

func (d *argoDriver) start(ctx context.Context) error {
	if err := d.lab.Cluster(hubName).ApplyCRDs(ctx, d.program("crds")); err != nil {
		return err
	}
	d.directories = &directories{namespace: d.namespace, url: d.git.URL(d.namespace), each: d.each, apply: application}
	files, applications, err := d.directories.roots()
	if err != nil {
		return err
	}
	if d.repository, err = d.turn.repository(ctx, files); err != nil {
		return err
	}
	if err := d.configure(ctx); err != nil {
		return err
	}
	if err := d.startProcesses(); err != nil {
		return err
	}
	for _, text := range applications {
		objects, err := decode(text, nil)
		if err != nil {
			return err
		}
		d.roots = append(d.roots, objects...)
	}
	for _, root := range d.roots {
		if err := d.hub().Create(ctx, root.DeepCopy()); err != nil {
			return err
		}
	}
	return d.synced(ctx)
}

// configure makes what its processes read: its ConfigMap, a Secret for each cluster, and the default AppProject.
func (d *argoDriver) configure(ctx context.Context) error {
	text, err := os.ReadFile(d.program("argocd-cm.yaml"))
	if err != nil {
		return err
	}
	var settings corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &settings); err != nil {
		return fmt.Errorf("argocd-cm.yaml: %w", err)
	}
	settings.Namespace = d.namespace
	if settings.Data == nil {
		settings.Data = map[string]string{}
	}
	settings.Data["cluster.inClusterEnabled"] = "false" // it runs in no cluster
	if err := d.hub().Create(ctx, &settings); err != nil {
		return err
	}
	for _, cluster := range append([]string{hubName}, memberNames...) {
		kubeconfig, err := d.kubeconfig(cluster)
		if err != nil {
			return err
		}
		secret, err := clusterSecret(cluster, d.namespace, kubeconfig)
		if err != nil {
			return err
		}
		if err := d.hub().Create(ctx, secret); err != nil {
			return err
		}
	}
	return d.create(ctx, hubName, argoObjects, map[string]string{"Namespace": d.namespace})
}

// clusterSecret is what Argo CD connects to a cluster with.
func clusterSecret(cluster, namespace string, kubeconfig []byte) (*corev1.Secret, error) {
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{"tlsClientConfig": map[string][]byte{
		"caData": cfg.CAData, "certData": cfg.CertData, "keyData": cfg.KeyData,
	}})
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "cluster-" + cluster, Namespace: namespace, Labels: map[string]string{"argocd.argoproj.io/secret-type": "cluster"},
		},
		StringData: map[string]string{"name": cluster, "server": cfg.Host, "config": string(config)},
	}, nil
}

// startProcesses starts Redis, repo-server and application-controller as their Deployments do, but on free ports.
func (d *argoDriver) startProcesses() error {
	hub, err := d.kubeconfigFile(hubName)
	if err != nil {
		return err
	}
	addresses, ports := make([]string, 4), make([]string, 4)
	for i := range addresses {
		if addresses[i], err = lab.FreeAddress(); err != nil {
			return err
		}
		if _, ports[i], err = net.SplitHostPort(addresses[i]); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := d.run("redis", self, nil, "redis", addresses[0]); err != nil {
		return err
	}
	temporary := d.memory
	if temporary == "" {
		temporary = d.path()
	}
	env := []string{
		"NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1", "HOME=" + temporary, "TMPDIR=" + temporary,
		"ARGOCD_GPG_ENABLED=false", "ARGOCD_ASK_PASS_SOCK=" + filepath.Join(temporary, "ask-pass.sock"), "ARGOCD_K8S_CLIENT_QPS=1000",
	}
	common := []string{"--redis=" + addresses[0], "--loglevel=error"}
	err = d.run("repo-server", d.program("argocd"), append([]string{"ARGOCD_BINARY_NAME=argocd-repo-server"}, env...),
		append([]string{
			"--address=127.0.0.1", "--port=" + ports[1], "--metrics-address=127.0.0.1", "--metrics-port=" + ports[2], "--disable-tls",
		}, common...)...)
	if err != nil {
		return err
	}
	return d.run("application-controller", d.program("argocd"), append([]string{"ARGOCD_BINARY_NAME=argocd-application-controller"}, env...),
		append([]string{
			"--kubeconfig=" + hub, "--namespace=" + d.namespace, "--repo-server=" + addresses[1], "--repo-server-plaintext", "--metrics-port=" + ports[3],
			"--status-processors=50", "--operation-processors=25", "--app-resync=3600", "--app-resync-jitter=0",
		}, common...)...)
}

// synced waits until the first commit is applied.
func (d *argoDriver) synced(ctx context.Context) error {
	for _, root := range d.roots {
		err := eventually(ctx, "Application "+root.GetName()+" to be synced", func(ctx context.Context) (bool, error) {
			current := &unstructured.Unstructured{}
			current.SetGroupVersionKind(applicationKind)
			if err := d.hub().Get(ctx, client.ObjectKeyFromObject(root), current); err != nil {
				return false, err
			}
			status, _, _ := unstructured.NestedString(current.Object, "status", "sync", "status")
			return status == "Synced", d.running()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *argoDriver) declare(ctx context.Context, names []string) error {
	files, err := d.directories.files(names)
	if err != nil {
		return err
	}
	return d.repository.push(ctx, files)
}

func (d *argoDriver) tell(ctx context.Context) error {
	return inParallel(len(d.roots), func(i int) error {
		return d.hub().Patch(ctx, d.roots[i].DeepCopy(), client.RawPatch(types.MergePatchType, refresh))
	})
}
