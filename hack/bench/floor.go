package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/api/flux/curve"
	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	values "github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/render"
)

// inFlight is how many MiniClusters the bare loop creates at once, as many as the controller does.
const inFlight = 32

// bareCert is the certificate of all that the floors create.
var bareCert = sync.OnceValues(func() ([]byte, error) {
	cert, err := curve.New(rand.Reader)
	if err != nil {
		return nil, err
	}
	return cert.Encode(), nil
})

// bareBundle renders a MiniCluster for a floor.
func bareBundle(name string) (*render.Bundle, error) {
	var mc fluxv1alpha2.MiniCluster
	if err := yaml.UnmarshalStrict(fmt.Appendf(nil, manifest, name), &mc); err != nil {
		return nil, err
	}
	cert, err := bareCert()
	if err != nil {
		return nil, err
	}
	return render.Render(render.Input{
		Name: name, Namespace: floorNamespace, Spec: mc.Spec, CurveCert: cert, RunID: "floor",
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

// createBare creates n MiniClusters in a bare loop, spread over the members, and returns how long that took.
// They are rendered before.
func (f *fleet) createBare(ctx context.Context, n int) (time.Duration, error) {
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
				to := f.bare[memberNames[i%len(memberNames)]]
				errs[worker] = errors.Join(errs[worker], createBundle(ctx, to, bundles[i]))
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
	for _, c := range f.bare {
		core := c.CoreV1()
		err := errors.Join(
			c.BatchV1().Jobs(floorNamespace).DeleteCollection(ctx, o, all),
			core.Secrets(floorNamespace).DeleteCollection(ctx, o, all),
			core.ConfigMaps(floorNamespace).DeleteCollection(ctx, o, all),
			core.RESTClient().Delete().Namespace(floorNamespace).Resource("services").VersionedParams(&all, scheme.ParameterCodec).Do(ctx).Error(),
			core.ConfigMaps(floorNamespace).DeleteCollection(ctx, o, metav1.ListOptions{LabelSelector: "bench=hub"}),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// bareSource is a bare clone that git itself keeps, and fetches only what is new to.
type bareSource struct {
	dir string
}

func cloneBare(ctx context.Context, dir, url string) (*bareSource, error) {
	s := &bareSource{dir: dir}
	_, err := runGit(ctx, ".", "clone", "--quiet", "--bare", url, dir)
	return s, err
}

// fetch fetches what is new and returns how it differs from what was there.
func (s *bareSource) fetch(ctx context.Context) (string, error) {
	if _, err := runGit(ctx, s.dir, "-c", "gc.auto=0", "fetch", "--quiet", "--no-tags", "origin", "main"); err != nil {
		return "", err
	}
	return runGit(ctx, s.dir, "diff", "--no-renames", "main", "FETCH_HEAD")
}

// advance makes the last fetch what the next one is compared with.
func (s *bareSource) advance(ctx context.Context) error {
	_, err := runGit(ctx, s.dir, "update-ref", "refs/heads/main", "FETCH_HEAD")
	return err
}

// applyBare is the floor of one push: fetch, diff, and five writes one after the other: one on the hub, of a
// ConfigMap with what Git holds, and four on a member.
func (f *fleet) applyBare(ctx context.Context, s *bareSource, name, member string) (time.Duration, error) {
	start := time.Now()
	diff, err := s.fetch(ctx)
	if err != nil {
		return 0, err
	}
	if n := strings.Count(diff, "\ndiff ") + 1; diff == "" || n != 1 {
		return 0, fmt.Errorf("the push of %s changed something else than one file:\n%s", name, diff)
	}
	bundle, err := bareBundle(name)
	if err != nil {
		return 0, err
	}
	onHub := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"bench": "hub"}},
		Data:       map[string]string{"manifest": diff},
	}
	if _, err := f.bare[hubName].CoreV1().ConfigMaps(floorNamespace).Create(ctx, onHub, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	if err := createBundle(ctx, f.bare[member], bundle); err != nil {
		return 0, err
	}
	took := time.Since(start)
	return took, s.advance(ctx)
}

// listRefs is one ls-remote, over a connection that is there already.
func listRefs(ctx context.Context, url string) (time.Duration, error) {
	endpoint, err := transport.NewEndpoint(url)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	session, err := githttp.DefaultClient.NewUploadPackSession(endpoint, nil)
	if err != nil {
		return 0, err
	}
	if _, err := session.AdvertisedReferencesContext(ctx); err != nil {
		return 0, err
	}
	took := time.Since(start)
	return took, session.Close()
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

func (f *fleet) cacheLists() ([]func(context.Context) error, error) {
	ours := metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=minifleet", ResourceVersion: "0"}
	var lists []func(context.Context) error
	for _, name := range memberNames {
		cfg, err := f.lab.Cluster(name).RESTConfig()
		if err != nil {
			return nil, err
		}
		cfg.UserAgent, cfg.ContentType = benchAgent, "application/vnd.kubernetes.protobuf"
		c, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return nil, err
		}
		lists = append(lists,
			func(ctx context.Context) error { _, err := c.BatchV1().Jobs("").List(ctx, ours); return err },
			func(ctx context.Context) error { _, err := c.CoreV1().ConfigMaps("").List(ctx, ours); return err },
			func(ctx context.Context) error { _, err := c.CoreV1().Secrets("").List(ctx, ours); return err },
			func(ctx context.Context) error { _, err := c.CoreV1().Services("").List(ctx, ours); return err },
		)
	}
	return append(lists, f.listHub), nil
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
