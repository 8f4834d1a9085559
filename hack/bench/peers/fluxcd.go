package peers

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/hack/lab"
)

const (
	fluxVersion = "v1.9.3"
	// fluxRecipe fills in the directory. The controllers' modules leave out the module of their API, which is below them.
	fluxRecipe = `
mkdir -p $DIR/crds && echo 'source-controller and kustomize-controller ` + fluxVersion + `' > $DIR/VERSION
for c in source-controller kustomize-controller; do
  m=github.com/fluxcd/$c; src=$(go mod download -json $m@` + fluxVersion + ` | sed -nE 's/.*"Dir": "(.*)".*/\1/p')
  tmp=$(mktemp -d) && cp -r $src/. $tmp && chmod -R u+w $tmp
  go mod edit -dropreplace=$m/api -require=$m/api@` + fluxVersion + ` $tmp/go.mod
  CGO_ENABLED=0 GOWORK=off go build -C $tmp -mod=mod -trimpath -ldflags '-s -w' -o $DIR/$c . && cp $src/config/crd/bases/*.yaml $DIR/crds/
done`
	fluxSettings = "--concurrent=10, --requeue-dependency=5s and temporary files in memory, as its documentation advises for scale; no client-side limit of " +
		"requests, which it drops by itself where API servers have priority and fairness; leader election off"
	fluxTold = "told by the annotation reconcile.fluxcd.io/requestedAt on the GitRepository right after the push, as `flux reconcile source git` does"
)

var (
	fluxFiles     = []string{"source-controller", "kustomize-controller", "crds/"}
	fluxFinalized = []schema.GroupVersionKind{
		{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"},
		{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "GitRepository"},
	}
)

var fluxBulk = &peer{
	name: "flux-bulk", title: "Flux CD, one Kustomization per member",
	dir: "fluxcd", files: fluxFiles, recipe: fluxRecipe, settings: fluxSettings, finalized: fluxFinalized,
	how: "one GitRepository, and a Kustomization with a kubeConfig for each member and its directory; " + fluxTold,
	notComparable: "no status for each MiniCluster, only one for each directory; a person chooses the member, by the directory; one object that " +
		"is invalid holds up all others of its member; an applied Job is never told from one that ran before",
	driver: func(t *turn) driver { return &fluxDriver{turn: t} },
}

var fluxEach = &peer{
	name: "flux-each", title: "Flux CD, one Kustomization per MiniCluster",
	dir: "fluxcd", files: fluxFiles, recipe: fluxRecipe, settings: fluxSettings, finalized: fluxFinalized,
	how: "one GitRepository, and a Kustomization on the hub that makes one with a kubeConfig of each MiniCluster, all of the same push; " + fluxTold,
	notComparable: "a person chooses the member, by the kubeConfig in the Kustomization that has to be committed for each; its status is that objects were " +
		"applied, not how the Job goes",
	driver: func(t *turn) driver { return &fluxDriver{turn: t, each: true} },
}

// fluxObjects are what is on the hub before a push. A Kustomization without a kubeConfig is for the hub itself.
const fluxObjects = `
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: fleet, namespace: {{.Namespace}}}
spec: {url: {{.URL}}, interval: 1h, timeout: 5m, ref: {branch: main}}
{{- range .Members}}
---
apiVersion: v1
kind: Secret
metadata: {name: {{.}}, namespace: {{$.Namespace}}}
data: {value: {{index $.Kubeconfigs .}}}
{{- end}}
{{- range .Kustomizations}}
---
{{.}}
{{- end}}
`

// kustomization applies a directory of the repository to a member, or to the hub.
const kustomization = `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: {{.Name}}, namespace: {{.Namespace}}}
spec:
  interval: 1h
  timeout: 5m
  prune: true
  path: ./{{.Path}}
  sourceRef: {kind: GitRepository, name: fleet}
{{- with .Member}}
  kubeConfig: {secretRef: {name: {{.}}}}
{{- end}}
`

// fluxDriver drives both forms.
type fluxDriver struct {
	*turn
	each bool

	directories *directories
	repository  *repository
}

func (d *fluxDriver) start(ctx context.Context) error {
	if err := d.lab.Cluster(hubName).ApplyCRDs(ctx, d.program("crds")); err != nil {
		return err
	}
	d.directories = &directories{namespace: d.namespace, each: d.each, apply: kustomization}
	files, kustomizations, err := d.directories.roots()
	if err != nil {
		return err
	}
	if d.repository, err = d.turn.repository(ctx, files); err != nil {
		return err
	}
	if err := d.startProcesses(); err != nil {
		return err
	}
	kubeconfigs := map[string]string{}
	for _, member := range memberNames {
		data, err := d.kubeconfig(member)
		if err != nil {
			return err
		}
		kubeconfigs[member] = base64.StdEncoding.EncodeToString(data)
	}
	err = d.create(ctx, hubName, fluxObjects, map[string]any{
		"Namespace": d.namespace, "URL": d.repository.url, "Members": memberNames, "Kubeconfigs": kubeconfigs, "Kustomizations": kustomizations,
	})
	if err != nil {
		return err
	}
	return d.allReady(ctx)
}

// startProcesses starts source-controller and kustomize-controller as their Deployments do, but on free ports.
func (d *fluxDriver) startProcesses() error {
	hub, err := d.kubeconfigFile(hubName)
	if err != nil {
		return err
	}
	addresses := make([]string, 5)
	for i := range addresses {
		if addresses[i], err = lab.FreeAddress(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(d.path("artifacts"), 0o755); err != nil {
		return err
	}
	env := []string{"KUBECONFIG=" + hub, "RUNTIME_NAMESPACE=" + d.namespace}
	if d.memory != "" {
		env = append(env, "TMPDIR="+d.memory)
	}
	common := []string{"--concurrent=10", "--requeue-dependency=5s", "--log-level=error", "--enable-leader-election=false"}
	source := append([]string{
		"--storage-path=" + d.path("artifacts"), "--storage-addr=" + addresses[0], "--storage-adv-addr=" + addresses[0],
		"--metrics-addr=" + addresses[1], "--health-addr=" + addresses[2],
	}, common...)
	if err := d.run("source-controller", d.program("source-controller"), env, source...); err != nil {
		return err
	}
	return d.run("kustomize-controller", d.program("kustomize-controller"), env,
		append([]string{"--metrics-addr=" + addresses[3], "--health-addr=" + addresses[4]}, common...)...)
}

func (d *fluxDriver) allReady(ctx context.Context) error {
	source := &unstructured.Unstructured{}
	source.SetGroupVersionKind(fluxFinalized[1])
	source.SetNamespace(d.namespace)
	source.SetName("fleet")
	if err := d.ready(ctx, source); err != nil {
		return err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(fluxFinalized[0])
	if err := d.hub().List(ctx, list, client.InNamespace(d.namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		if err := d.ready(ctx, &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *fluxDriver) declare(ctx context.Context, names []string) error {
	files, err := d.directories.files(names)
	if err != nil {
		return err
	}
	return d.repository.push(ctx, files)
}

func (d *fluxDriver) tell(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`, time.Now().Format(time.RFC3339Nano))
	source := &unstructured.Unstructured{}
	source.SetGroupVersionKind(fluxFinalized[1])
	source.SetNamespace(d.namespace)
	source.SetName("fleet")
	return d.hub().Patch(ctx, source, client.RawPatch(types.MergePatchType, patch))
}
