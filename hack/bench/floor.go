package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/minifleet/minifleet/hack/bench/workload"
	values "github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/render"
)

// inFlight is how many MiniClusters the bare loop creates at once, as many as the controller does.
const inFlight = 32

// bareBundle renders a MiniCluster for a floor.
func bareBundle(name string) (*render.Bundle, error) {
	return workload.Render(render.Input{
		Name: name, Namespace: floorNamespace, RunID: "floor",
		Origin: values.Origin{FleetID: "floor", Owner: floorNamespace + "/" + name, OwnerUID: "floor"},
	})
}

// createBundle sends the creates of one MiniCluster, one after the other, the Job last.
func createBundle(ctx context.Context, to *kubernetes.Clientset, b *render.Bundle) error {
	o := metav1.CreateOptions{FieldManager: benchAgent}
	core := to.CoreV1()
	if _, err := core.Secrets(floorNamespace).Create(ctx, b.Secret, o); err != nil {
		return err
	}
	if _, err := core.ConfigMaps(floorNamespace).Create(ctx, b.ConfigMap, o); err != nil {
		return err
	}
	for _, service := range b.Services {
		if _, err := core.Services(floorNamespace).Create(ctx, service, o); err != nil {
			return err
		}
	}
	_, err := to.BatchV1().Jobs(floorNamespace).Create(ctx, b.Job, o)
	return err
}

// target is where one MiniCluster is created.
type target struct{ hub, member *kubernetes.Clientset }

// createBare sends the creates of one MiniCluster, and nothing to the hub.
func createBare(ctx context.Context, to target, b *render.Bundle) error {
	return createBundle(ctx, to.member, b)
}

// bareLoop creates n MiniClusters, spread over the members, and returns how long that took. They are rendered before.
func (f *fleet) bareLoop(ctx context.Context, n int, create func(context.Context, target, *render.Bundle) error) (time.Duration, error) {
	bundles := make([]*render.Bundle, n)
	for i := range bundles {
		var err error
		if bundles[i], err = bareBundle(fmt.Sprintf("m-%04d", i)); err != nil {
			return 0, err
		}
	}
	work := make(chan int)
	errs := make([]error, inFlight)
	var group sync.WaitGroup
	start := time.Now()
	for worker := range inFlight {
		group.Go(func() {
			for i := range work {
				to := target{hub: f.bare[hubName], member: f.bare[memberNames[i%len(memberNames)]]}
				errs[worker] = errors.Join(errs[worker], create(ctx, to, bundles[i]))
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	group.Wait()
	return time.Since(start), errors.Join(errs...)
}

// clearFloor deletes what the floors have created.
func (f *fleet) clearFloor(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	o, all := metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{LabelSelector: "minifleet.dev/fleetminicluster"}
	onHub := metav1.ListOptions{LabelSelector: "bench=hub"}
	for _, c := range f.bare {
		core := c.CoreV1()
		err := errors.Join(
			c.BatchV1().Jobs(floorNamespace).DeleteCollection(ctx, o, all),
			core.Secrets(floorNamespace).DeleteCollection(ctx, o, all),
			core.ConfigMaps(floorNamespace).DeleteCollection(ctx, o, all),
			core.RESTClient().Delete().Namespace(floorNamespace).Resource("services").VersionedParams(&all, scheme.ParameterCodec).Do(ctx).Error(),
			core.ConfigMaps(floorNamespace).DeleteCollection(ctx, o, onHub),
			core.Secrets(floorNamespace).DeleteCollection(ctx, o, onHub),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// bareSource is a clone in memory, to which only what is new is fetched: no process has to be started for it here.
type bareSource struct {
	repository *git.Repository
	head       plumbing.Hash
}

func cloneBare(ctx context.Context, url string) (*bareSource, error) {
	repository, err := git.CloneContext(ctx, memory.NewStorage(), nil, &git.CloneOptions{URL: url, SingleBranch: true, ReferenceName: "refs/heads/main", Tags: git.NoTags})
	if err != nil {
		return nil, err
	}
	head, err := repository.Head()
	if err != nil {
		return nil, err
	}
	return &bareSource{repository: repository, head: head.Hash()}, nil
}

// fetch fetches what is new and returns the files that were added or changed.
func (s *bareSource) fetch(ctx context.Context) ([]string, error) {
	const fetched = "refs/remotes/origin/main"
	err := s.repository.FetchContext(ctx, &git.FetchOptions{RefSpecs: []config.RefSpec{"+refs/heads/main:" + fetched}, Tags: git.NoTags})
	if err != nil {
		return nil, err
	}
	head, err := s.repository.Reference(fetched, true)
	if err != nil {
		return nil, err
	}
	from, err := s.tree(s.head)
	if err != nil {
		return nil, err
	}
	to, err := s.tree(head.Hash())
	if err != nil {
		return nil, err
	}
	changes, err := object.DiffTreeContext(ctx, from, to)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, change := range changes {
		_, file, err := change.Files()
		if err != nil {
			return nil, err
		}
		if file == nil {
			continue // deleted
		}
		text, err := file.Contents()
		if err != nil {
			return nil, err
		}
		files = append(files, text)
	}
	s.head = head.Hash()
	return files, nil
}

func (s *bareSource) tree(of plumbing.Hash) (*object.Tree, error) {
	commit, err := s.repository.CommitObject(of)
	if err != nil {
		return nil, err
	}
	return commit.Tree()
}

// applyBare is the floor of one push: fetch, diff, and five writes one after the other: one on the hub, of a
// ConfigMap with what Git holds, and four on a member.
func (f *fleet) applyBare(ctx context.Context, s *bareSource, name, member string) (time.Duration, error) {
	start := time.Now()
	files, err := s.fetch(ctx)
	if err != nil {
		return 0, err
	}
	if len(files) != 1 {
		return 0, fmt.Errorf("the push of %s changed %d files", name, len(files))
	}
	bundle, err := bareBundle(name)
	if err != nil {
		return 0, err
	}
	onHub := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"bench": "hub"}},
		Data:       map[string]string{"manifest": files[0]},
	}
	if _, err := f.bare[hubName].CoreV1().ConfigMaps(floorNamespace).Create(ctx, onHub, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	if err := createBundle(ctx, f.bare[member], bundle); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

// listRefs is one ls-remote, over a connection that is there already, whose answer nobody parses.
func listRefs(ctx context.Context, url string) (time.Duration, error) {
	start := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/info/refs?service=git-upload-pack", http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the Git server answers %s", response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return time.Since(start), err
}

// listCaches reads all that the controller's caches hold, with one LIST for each kind and cluster, all at
// once, over new connections.
func (f *fleet) listCaches(ctx context.Context) (time.Duration, error) {
	lists, err := f.cacheLists()
	if err != nil {
		return 0, err
	}
	errs := make([]error, len(lists))
	var group sync.WaitGroup
	start := time.Now()
	for i, list := range lists {
		group.Go(func() { errs[i] = list(ctx) })
	}
	group.Wait()
	return time.Since(start), errors.Join(errs...)
}

// cacheLists are the LISTs of all caches. Each member has a connection of its own.
func (f *fleet) cacheLists() ([]func(context.Context) error, error) {
	ours := metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=minifleet", ResourceVersion: "0"}
	lists := []func(context.Context) error{f.listHub}
	for _, m := range f.membersOf() {
		cfg, err := f.lab.Cluster(m.cluster).RESTConfig()
		if err != nil {
			return nil, err
		}
		cfg.UserAgent, cfg.ContentType, cfg.Dial = benchAgent, "application/vnd.kubernetes.protobuf", dialer()
		c, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return nil, err
		}
		in := m.namespace()
		lists = append(lists,
			func(ctx context.Context) error { _, err := c.BatchV1().Jobs(in).List(ctx, ours); return err },
			func(ctx context.Context) error { _, err := c.CoreV1().ConfigMaps(in).List(ctx, ours); return err },
			func(ctx context.Context) error { _, err := c.CoreV1().Secrets(in).List(ctx, ours); return err },
			func(ctx context.Context) error { _, err := c.CoreV1().Services(in).List(ctx, ours); return err },
		)
	}
	return lists, nil
}

func (f *fleet) listHub(ctx context.Context) error {
	body, err := f.bare[hubName].RESTClient().Get().AbsPath("/apis/minifleet.dev/v1alpha1/fleetminiclusters").
		SetHeader("Accept", "application/json").Param("resourceVersion", "0").Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	_, err = io.Copy(io.Discard, body)
	return err
}
