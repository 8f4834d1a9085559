package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// turn is one turn of a peer. All that it makes is in one namespace of that name, on the hub and on each member.
type turn struct {
	*servers
	peer      *peer
	namespace string

	jobs      *jobs
	processes []*lab.Process
	// atEnd undo what the peer's turn has made outside of its namespace, once its processes have ended.
	atEnd []func(context.Context) error
	// memory is a directory in memory for temporary files; empty where the system has none.
	memory string
}

// measure gives a peer a turn: it starts its processes, warms up, pushes, and removes all of it.
func (s *servers) measure(ctx context.Context, p *peer, run int) (m *Measurement, err error) {
	t := &turn{servers: s, peer: p, namespace: fmt.Sprintf("%s-%d", p.name, run)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() { err = errors.Join(err, t.end(context.WithoutCancel(ctx), err)) }()
	if err := t.open(ctx); err != nil {
		return nil, err
	}
	d := p.driver(t)
	if err := d.start(ctx); err != nil {
		return nil, fmt.Errorf("starting: %w", err)
	}
	if _, err := t.push(ctx, d, namesOf("w", s.options.WarmUp)); err != nil {
		return nil, fmt.Errorf("warming up: %w", err)
	}
	return t.push(ctx, d, namesOf("m", s.options.MiniClusters))
}

func namesOf(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%04d", prefix, i)
	}
	return names
}

// open makes the namespaces, and watches the members' Jobs.
func (t *turn) open(ctx context.Context) error {
	// The label lets MiniFleet use a member's namespace that it has not made itself.
	labels := map[string]string{v1alpha1.LabelHubNamespace: t.namespace}
	for _, c := range t.clients {
		if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.namespace, Labels: labels}}); err != nil {
			return err
		}
	}
	t.memory, _ = os.MkdirTemp("/dev/shm", "minifleet-peers-") // where there is none, temporary files are on a disk
	t.jobs = newJobs()
	for _, member := range memberNames {
		if err := t.jobs.follow(ctx, t.bare[member], t.namespace); err != nil {
			return err
		}
	}
	return nil
}

// push declares MiniClusters, tells the peer, and waits for their Jobs.
func (t *turn) push(ctx context.Context, d driver, names []string) (*Measurement, error) {
	if err := d.declare(ctx, names); err != nil {
		return nil, err
	}
	if err := t.quiet(ctx, func(request) {}); err != nil {
		return nil, err
	}
	before, err := t.usage()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := d.tell(ctx); err != nil {
		return nil, err
	}
	if err := t.jobs.wait(ctx, names, t.options.Nodes > 0, t.options.Limit); err != nil {
		return nil, err
	}
	last, err := t.usage()
	if err != nil {
		return nil, err
	}
	requests := newTally(t.user())
	if err := t.quiet(ctx, requests.add); err != nil {
		return nil, err
	}
	after, err := t.usage()
	if err != nil {
		return nil, err
	}
	return measurement(t.jobs.of(names, start), before, last, after, requests, len(names)), nil
}

// end stops the processes and removes what the turn has made. Where the turn has failed, it says what its processes did.
func (t *turn) end(ctx context.Context, failed error) error {
	var errs []error
	for _, process := range slices.Backward(t.processes) {
		if failed != nil {
			errs = append(errs, errors.New(process.LogTail()))
		}
		errs = append(errs, process.Kill())
	}
	for _, undo := range slices.Backward(t.atEnd) {
		errs = append(errs, undo(ctx))
	}
	if t.memory != "" {
		errs = append(errs, os.RemoveAll(t.memory))
	}
	return errors.Join(append(errs, t.remove(ctx))...)
}

// remove deletes the namespaces and waits until they are deleted.
func (t *turn) remove(ctx context.Context) error {
	if err := t.finalize(ctx); err != nil {
		return err
	}
	for _, c := range t.clients {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.namespace}}
		if err := c.Delete(ctx, ns); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return eventually(ctx, "the namespaces to be deleted", func(ctx context.Context) (bool, error) {
		for _, c := range t.clients {
			err := c.Get(ctx, client.ObjectKey{Name: t.namespace}, &corev1.Namespace{})
			if !apierrors.IsNotFound(err) {
				return false, err
			}
		}
		return true, nil
	})
}

// finalize removes the finalizers of the peer's objects, as its processes, which have ended, would once they are deleted.
func (t *turn) finalize(ctx context.Context) error {
	for name, c := range t.clients {
		for _, kind := range t.peer.finalized {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind)
			err := c.List(ctx, list, client.InNamespace(t.namespace))
			if meta.IsNoMatchError(err) {
				continue // kinds are not on all clusters
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := inParallel(len(list.Items), func(i int) error { return removeFinalizers(ctx, c, &list.Items[i]) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func removeFinalizers(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	patch := client.MergeFrom(object.DeepCopy())
	object.SetFinalizers(nil)
	return client.IgnoreNotFound(c.Patch(ctx, object, patch))
}

// inFlight is how many requests the harness sends at once.
const inFlight = 32

// inParallel does n things, inFlight at once.
func inParallel(n int, do func(int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	free := make(chan struct{}, inFlight)
	for i := range n {
		free <- struct{}{}
		group.Go(func() {
			errs[i] = do(i)
			<-free
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// user is who the peer is on all API servers.
func (t *turn) user() string { return "peer:" + t.peer.name }

// kubeconfig is one for the peer, which may do anything.
func (t *turn) kubeconfig(cluster string) ([]byte, error) {
	return t.lab.Cluster(cluster).KubeconfigFor(t.user(), "system:masters")
}

// kubeconfigFile writes the kubeconfig for a cluster and returns its path.
func (t *turn) kubeconfigFile(cluster string) (string, error) {
	data, err := t.kubeconfig(cluster)
	if err != nil {
		return "", err
	}
	path := t.path(cluster + ".kubeconfig")
	return path, os.WriteFile(path, data, 0o600)
}

// path is one in the turn's own directory, which it makes.
func (t *turn) path(elements ...string) string {
	dir := filepath.Join(t.dir, "turns", t.namespace)
	_ = os.MkdirAll(dir, 0o755) // whoever uses the path is told
	return filepath.Join(append([]string{dir}, elements...)...)
}

// program is the path of one of the peer's files.
func (t *turn) program(name string) string {
	return filepath.Join(t.options.Dir, t.peer.dir, name)
}

// run starts a process of the peer.
func (t *turn) run(name, path string, env []string, args ...string) error {
	p := &lab.Process{Name: name, Path: path, Args: args, Env: env, PidsDir: t.path("pids"), LogsDir: t.path("logs")}
	if err := p.Start(); err != nil {
		return err
	}
	t.processes = append(t.processes, p)
	return nil
}

// running fails when a process of the peer has ended.
func (t *turn) running() error {
	for _, p := range t.processes {
		if !p.Running() {
			return fmt.Errorf("%s ended: %s", p.Name, p.LogTail())
		}
	}
	return nil
}

// create creates the objects of a text with YAML documents, a template, on a cluster.
func (t *turn) create(ctx context.Context, cluster, text string, data any) error {
	objects, err := decode(text, data)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := t.clients[cluster].Create(ctx, object); err != nil {
			return fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// decode fills in a template of YAML documents and reads them.
func decode(text string, data any) ([]*unstructured.Unstructured, error) {
	filled, err := fill(text, data)
	if err != nil {
		return nil, err
	}
	return documents(filled)
}

// documents reads YAML documents.
func documents(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

func fill(text string, data any) ([]byte, error) {
	parsed, err := template.New("").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, err
	}
	var filled bytes.Buffer
	err = parsed.Execute(&filled, data)
	return filled.Bytes(), err
}

// ready waits until an object of the hub has a condition Ready that is True.
func (t *turn) ready(ctx context.Context, object *unstructured.Unstructured) error {
	return t.condition(ctx, hubName, object, "Ready")
}

// condition waits until an object has a condition that is True.
func (t *turn) condition(ctx context.Context, cluster string, object *unstructured.Unstructured, kind string) error {
	what := fmt.Sprintf("%s %s to have the condition %s", object.GetKind(), object.GetName(), kind)
	return eventually(ctx, what, func(ctx context.Context) (bool, error) {
		if err := t.clients[cluster].Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(item any) bool {
			condition, _ := item.(map[string]any)
			return condition["type"] == kind && condition["status"] == "True"
		}), t.running()
	})
}
