package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/dashboard"
	"github.com/minifleet/minifleet/dashboard/auth"
	"github.com/minifleet/minifleet/dashboard/web"
	"github.com/minifleet/minifleet/hack/bench/wait"
	"github.com/minifleet/minifleet/hack/lab"
)

// dashboardRows are what is measured of the dashboard.
const dashboardRows = "list,page,frames,push,tabs"

const (
	// readers is the namespace of the service accounts that read.
	readers = "readers"
	// writers is how many objects are sent to the hub at once.
	writers = 24
	// few is how many MiniClusters the floor of the page shows.
	few = 5
)

// dashboards measures the dashboard, on a hub whose objects no controller sees to, in this process.
type dashboards struct {
	*fleet
	report *report
	sample sample
	// tokens are those of people who may read everything.
	tokens []string
	// n is how many FleetMiniClusters there are.
	n       int
	served  *served
	browser *browser
	// floors are times until rows are shown of a fleet of a few.
	floors map[bool][]time.Duration
	// marked are the times at which the cache was told of marked messages.
	marked sync.Map
	number int
}

// served is a dashboard that is served.
type served struct {
	url  string
	stop func()
	// before, cached and filled is the live memory without it, with the cache, and with the store, in bytes.
	before, cached, filled float64
}

// with starts the hub, measures, and stops everything.
func (d *dashboards) with(ctx context.Context, root string) (err error) {
	defer func() { err = errors.Join(err, d.stop()) }()
	if !web.Built() {
		return errors.New("the page is not in this binary: run `make web`, and build it again")
	}
	if err := d.start(ctx, root); err != nil {
		return err
	}
	for i, n := range append([]int{few}, d.options.sizes...) {
		if err := d.grow(ctx, n); err != nil {
			return err
		}
		if err := d.serve(ctx); err != nil {
			return err
		}
		if err := d.measure(ctx, i == 0, i == len(d.options.sizes)); err != nil {
			return fmt.Errorf("%d MiniClusters: %w", n, err)
		}
		d.served.stop()
	}
	return nil
}

func (d *dashboards) stop() error {
	if d.browser != nil {
		d.browser.stop()
	}
	var errs []error
	if d.trail != nil {
		errs = append(errs, d.trail.close())
	}
	if d.lab != nil {
		errs = append(errs, d.lab.Kill())
	}
	return errors.Join(errs...)
}

// measure measures with the fleet that is there. That of a few is for floors only.
func (d *dashboards) measure(ctx context.Context, isFloor, isLast bool) error {
	if d.options.has("page,frames,push") {
		if err := d.browse(ctx); err != nil {
			return err
		}
	}
	if isFloor {
		if d.options.has("page") {
			return d.shown(ctx, true)
		}
		return nil
	}
	d.heap()
	for _, row := range []struct {
		name     string
		once     bool
		measures func(context.Context) error
	}{{"list", false, d.list}, {"page", false, func(ctx context.Context) error { return d.shown(ctx, false) }}, {"page", true, d.assets}, {"frames", false, d.frames}, {"push", false, d.push}, {"tabs", true, d.tabs}} {
		if !d.options.has(row.name) || row.once && !isLast {
			continue
		}
		if err := row.measures(ctx); err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
	}
	return nil
}

// heap reports what the store adds to each object that the cache holds.
func (d *dashboards) heap() {
	const kib, telling = 1024, 1000
	if d.n < telling {
		return // so few take less than what garbage collection leaves
	}
	each := func(from, to float64) float64 { return (to - from) / float64(d.n) / kib }
	d.report.figure(fmt.Sprintf("live memory that the dashboard adds for each of %d MiniClusters", d.n), "KiB",
		each(d.served.cached, d.served.filled), "the cache, KiB", each(d.served.before, d.served.cached))
}

// start starts the hub with members, sources and people, and no MiniCluster.
func (d *dashboards) start(ctx context.Context, root string) error {
	d.sample.began = time.Now()
	d.floors = map[bool][]time.Duration{}
	var err error
	specs := []lab.ClusterSpec{{Name: hubName, AuditLevel: d.options.auditLevel}}
	// The hub is not what is measured, and saves time of the processors for what is.
	if d.lab, err = lab.Start(context.WithoutCancel(ctx), lab.Options{Dir: filepath.Join(d.dir, "lab"), Clusters: specs, Env: lab.Hasty}); err != nil {
		return err
	}
	hub := d.lab.Cluster(hubName)
	if !hub.Owned() {
		return fmt.Errorf("the measurements read audit logs: unset %s", lab.StandInEnv)
	}
	if err := hub.ApplyCRDs(ctx, filepath.Join(root, "config", "crd", "bases")); err != nil {
		return err
	}
	if d.hubConfig, err = hub.RESTConfig(); err != nil {
		return err
	}
	d.hubConfig.UserAgent, d.hubConfig.QPS = benchAgent, -1
	scheme, err := controllers.NewScheme()
	if err != nil {
		return err
	}
	if d.hub, err = client.New(d.hubConfig, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if d.trail, err = openTrail(map[string]string{hubName: hub.AuditLog()}); err != nil {
		return err
	}
	d.trail.watches = true
	if err := d.people(ctx); err != nil {
		return err
	}
	if err := d.surroundings(ctx); err != nil {
		return err
	}
	d.say("a hub with %d members and %d people is ready", sampleMembers, len(d.tokens))
	return nil
}

// people makes service accounts that may read everything.
func (d *dashboards) people(ctx context.Context) error {
	d.tokens = make([]string, tabs)
	rule := rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}
	err := d.create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: readers}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: readers}, Rules: []rbacv1.PolicyRule{rule}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: readers},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + readers}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: readers},
		})
	if err != nil {
		return err
	}
	return many(len(d.tokens), func(i int) error {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: readers, Name: fmt.Sprintf("reader-%03d", i)}}
		if err := d.hub.Create(ctx, account); err != nil {
			return err
		}
		request := &authenticationv1.TokenRequest{}
		if err := d.hub.SubResource("token").Create(ctx, account, request); err != nil {
			return err
		}
		d.tokens[i] = request.Status.Token
		return nil
	})
}

// surroundings makes namespaces, members and sources.
func (d *dashboards) surroundings(ctx context.Context) error {
	if err := many(len(teams), func(i int) error {
		return d.hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: teams[i]}})
	}); err != nil {
		return err
	}
	if err := many(sampleMembers, func(i int) error {
		m := d.sample.member(i)
		status := m.Status
		if err := d.hub.Create(ctx, m); err != nil {
			return err
		}
		m.Status = status
		return d.hub.Status().Update(ctx, m)
	}); err != nil {
		return err
	}
	return many(len(teams)*len(sourceNames), func(i int) error {
		g := d.sample.source(i)
		status := g.Status
		if err := d.hub.Create(ctx, g); err != nil {
			return err
		}
		g.Status = status
		return d.hub.Status().Update(ctx, g)
	})
}

// grow creates FleetMiniClusters until there are n.
func (d *dashboards) grow(ctx context.Context, n int) error {
	start, from := time.Now(), d.n
	err := many(n-from, func(i int) error {
		f := d.sample.miniCluster(from + i)
		if err := d.hub.Create(ctx, f); err != nil {
			return err
		}
		f.Status = d.sample.status(from+i, version{})
		return d.hub.Status().Update(ctx, f)
	})
	d.n = n
	d.say("%d MiniClusters are on the hub, %d of them since %s", n, n-from, time.Since(start).Round(time.Second))
	return err
}

// many does something n times, some of them at once.
func many(n int, do func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, writers)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[w] == nil; i = int(next.Add(1)) - 1 {
				errs[w] = do(i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// live is the memory that is in use once garbage is collected, and that of stacks, in bytes.
func live() float64 {
	runtime.GC()
	runtime.GC() // what has a finalizer
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// rested is the live memory once it is no longer falling: what was needed to read everything is freed little by little.
func rested(ctx context.Context) (float64, error) {
	last := live()
	for range 20 {
		if err := wait.Pause(ctx, time.Second); err != nil {
			return 0, err
		}
		now := live()
		if now > last*0.999 {
			return now, nil
		}
		last = now
	}
	return last, nil
}

// serve serves the dashboard as the controller does, but that there is no limit of requests.
func (d *dashboards) serve(ctx context.Context) error {
	s := &served{}
	ctx, cancel := context.WithCancel(ctx)
	s.stop = cancel
	scheme, err := controllers.NewScheme()
	if err != nil {
		return err
	}
	if s.before, err = rested(ctx); err != nil {
		return err
	}
	cfg := rest.CopyConfig(d.hubConfig)
	cfg.UserAgent = "minifleet"
	objects, err := cache.New(cfg, cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { _ = objects.Start(ctx) })
	for _, kind := range []client.Object{&v1alpha1.MemberCluster{}, &v1alpha1.GitSource{}, &v1alpha1.FleetMiniCluster{}} {
		informer, err := objects.GetInformer(ctx, kind)
		if err != nil {
			return err
		}
		if _, isMiniCluster := kind.(*v1alpha1.FleetMiniCluster); !isMiniCluster {
			continue
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, obj any) { d.noteMarker(obj) }}); err != nil {
			return err
		}
	}
	if !objects.WaitForCacheSync(ctx) {
		return errors.New("the cache is not filled")
	}
	if s.cached, err = rested(ctx); err != nil {
		return err
	}
	reviews, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	endless := auth.Rate{PerSecond: 1e6, Burst: 1e6}
	who, err := auth.New(auth.Options{Reviews: auth.ReviewsOf(reviews), Now: time.Now, Log: logr.Discard(), Requests: endless, PersonRequests: endless, Logins: endless})
	if err != nil {
		return err
	}
	server := dashboard.New(dashboard.Options{
		Hub: objects, Cache: objects, Config: cfg, FleetID: "bench", Auth: who, Version: "bench", Now: time.Now, Log: logr.Discard(),
	})
	running.Go(func() { _ = server.Start(ctx) })
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	site := &http.Server{Handler: server.Site(web.Handler()), ReadHeaderTimeout: 10 * time.Second}
	running.Go(func() { _ = site.Serve(listener) })
	s.url = "http://" + listener.Addr().String()
	s.stop = func() {
		cancel()
		_ = site.Close()
		running.Wait()
		http.DefaultClient.CloseIdleConnections()
	}
	d.served = s
	if err := d.eventually(ctx, "the store to be filled", func(ctx context.Context) (bool, error) {
		_, _, err := d.get(ctx, "/members", true)
		return err == nil, nil
	}); err != nil {
		return err
	}
	s.filled, err = rested(ctx)
	return err
}

const marker = "MARKER-"

// noteMarker notes when the cache was told of a marked message.
func (d *dashboards) noteMarker(obj any) {
	f, ok := obj.(*v1alpha1.FleetMiniCluster)
	if !ok {
		return
	}
	for i := range f.Status.Runs {
		if _, note, found := strings.Cut(f.Status.Runs[i].Message, marker); found {
			d.marked.LoadOrStore(note, time.Now())
		}
	}
}
