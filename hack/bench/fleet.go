package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/hack/bench/wait"
	"github.com/minifleet/minifleet/hack/lab"
)

const (
	hubName         = "hub"
	systemNamespace = "minifleet-system"
	// fleetNamespace holds the MiniClusters, floorNamespace what the floors create.
	fleetNamespace = "bench"
	floorNamespace = "floor"
	placementName  = "one-of-all"
	benchAgent     = "bench"
	// patience bounds each wait.
	patience = 20 * time.Minute
)

var memberNames = []string{"alpine", "basalt", "cinder"}

// fleet is what is measured: a hub, members, a Git server, and the controller as a process.
type fleet struct {
	options options
	dir     string
	say     func(string, ...any)
	// nodes says that members have nodes, so that Jobs run.
	nodes bool
	// hasty has servers save CPU time, and be killed in the end, and waits be as short as they may be.
	hasty bool
	// confined are members that are a namespace each, instead of a cluster each.
	confined []confined
	// proxy is before a member that can hang, nil where there is none.
	proxy *lab.Proxy
	// serial is of the next name.
	serial int

	lab        *lab.Lab
	git        *lab.GitServer
	controller *lab.Process
	metricsURL string
	// pprofURL is where the controller's profiles are, where the option asks for them.
	pprofURL string
	// receiverURL is where webhooks are sent to, without the path.
	receiverURL string
	hub         client.Client
	hubConfig   *rest.Config
	trail       *trail
	// bare are clients without anything of MiniFleet's, by cluster: protobuf, no limit on requests.
	bare map[string]*kubernetes.Clientset
}

// with starts everything, measures, and stops everything.
func (f *fleet) with(ctx context.Context, root string, measure func(context.Context) error) (err error) {
	defer func() { err = errors.Join(err, f.stop()) }()
	if err := f.start(ctx, root); err != nil {
		return errors.Join(err, f.logTail())
	}
	if err := measure(ctx); err != nil {
		return errors.Join(err, f.logTail())
	}
	return nil
}

// clusters are the hub and the members.
func (f *fleet) clusters() []lab.ClusterSpec {
	specs := []lab.ClusterSpec{{Name: hubName, Controllers: true, AuditLevel: f.options.auditLevel}}
	for _, name := range memberNames {
		spec := lab.ClusterSpec{Name: name, Controllers: true, AuditLevel: f.options.auditLevel}
		for i := range 5 {
			if f.nodes {
				spec.Nodes = append(spec.Nodes, lab.Node{Name: fmt.Sprintf("%s-%d", name, i), CPU: "4000", Memory: "8Ti"})
			}
		}
		specs = append(specs, spec)
	}
	if f.options.profiles != "" {
		for i := range specs {
			specs[i].APIServerArgs = append(specs[i].APIServerArgs, "--profiling=true")
		}
	}
	return specs
}

// start starts everything but registers no member yet.
func (f *fleet) start(ctx context.Context, root string) error {
	var err error
	o := lab.Options{Dir: filepath.Join(f.dir, "lab"), Clusters: f.clusters()}
	if f.hasty {
		o.Env = lab.Hasty
	}
	if f.lab, err = lab.Start(context.WithoutCancel(ctx), o); err != nil {
		return err
	}
	if f.git, err = lab.NewGitServer(filepath.Join(f.dir, "repositories")); err != nil {
		return err
	}
	if err := f.lab.Cluster(hubName).ApplyCRDs(ctx, filepath.Join(root, "config", "crd", "bases")); err != nil {
		return err
	}
	// As config/default has it: a hub without it would answer writes sooner.
	if err := f.lab.Cluster(hubName).ApplyPolicies(ctx, filepath.Join(root, "config", "policy")); err != nil {
		return err
	}
	if err := f.connect(ctx); err != nil {
		return err
	}
	f.say("a hub and %d members are ready", len(memberNames))
	return f.startController(ctx)
}

// startController starts the controller on addresses of its own, and waits until it serves metrics.
func (f *fleet) startController(ctx context.Context) error {
	address, err := lab.FreeAddress()
	if err != nil {
		return err
	}
	f.metricsURL = "http://" + address + "/metrics"
	receiver, err := lab.FreeAddress()
	if err != nil {
		return err
	}
	f.receiverURL = "http://" + receiver
	f.controller = &lab.Process{
		Name: "controller", Path: f.options.binary,
		Args: []string{"controller", "--kubeconfig", f.lab.Cluster(hubName).KubeconfigPath(), "--namespace", systemNamespace,
			"--leader-elect=false", "--metrics-bind-address", address, "--health-probe-bind-address", "0",
			"--git-allowed-cidrs", "127.0.0.0/8,::1/128", "--git-max-objects", "100000",
			"--receiver-bind-address", receiver},
		PidsDir: filepath.Join(f.dir, "pids"), LogsDir: filepath.Join(f.dir, "logs"),
	}
	if f.options.profiles != "" {
		pprof, err := lab.FreeAddress()
		if err != nil {
			return err
		}
		f.pprofURL = "http://" + pprof
		f.controller.Args = append(f.controller.Args, "--pprof-bind-address", pprof)
	}
	if err := f.controller.Start(); err != nil {
		return err
	}
	return f.eventually(ctx, "the controller's metrics", func(ctx context.Context) (bool, error) {
		_, err := f.metrics(ctx)
		return err == nil, nil
	})
}

// connect makes clients, the audit trail, and the namespaces and the Placement that everything is in.
func (f *fleet) connect(ctx context.Context) error {
	f.bare = map[string]*kubernetes.Clientset{}
	logs := map[string]string{}
	for _, c := range f.lab.Clusters() {
		if !c.Owned() {
			return fmt.Errorf("the measurements read audit logs: unset %s", lab.StandInEnv)
		}
		logs[c.Name()] = c.AuditLog()
		cfg, err := c.RESTConfig()
		if err != nil {
			return err
		}
		cfg.UserAgent = benchAgent
		if c.Name() == hubName {
			f.hubConfig = rest.CopyConfig(cfg)
		}
		cfg.ContentType = "application/vnd.kubernetes.protobuf"
		if f.bare[c.Name()], err = kubernetes.NewForConfig(cfg); err != nil {
			return err
		}
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: floorNamespace}}
		if _, err := f.bare[c.Name()].CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	scheme, err := controllers.NewScheme()
	if err != nil {
		return err
	}
	if f.hub, err = client.New(f.hubConfig, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if f.trail, err = openTrail(logs); err != nil {
		return err
	}
	one := int32(1)
	return f.create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetNamespace}},
		&v1alpha1.Placement{
			ObjectMeta: metav1.ObjectMeta{Namespace: fleetNamespace, Name: placementName},
			Spec:       v1alpha1.PlacementSpec{NumberOfClusters: &one},
		})
}

func (f *fleet) create(ctx context.Context, objects ...client.Object) error {
	for _, object := range objects {
		if err := f.hub.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// register registers all members and waits until they are connected.
func (f *fleet) register(ctx context.Context) error {
	for _, name := range memberNames {
		if err := f.registerOne(ctx, name, f.lab.Cluster(name).Kubeconfig(), v1alpha1.CapacityObserve); err != nil {
			return err
		}
	}
	return f.connected(ctx, len(memberNames))
}

func (f *fleet) registerOne(ctx context.Context, name string, kubeconfig []byte, capacity v1alpha1.CapacityMode) error {
	return f.create(ctx,
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: name},
			Data:       map[string][]byte{v1alpha1.KubeconfigKey: kubeconfig},
		},
		&v1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.MemberClusterSpec{Namespaces: v1alpha1.AllNamespaces(), KubeconfigSecretRef: v1alpha1.LocalReference{Name: name}, Capacity: capacity},
		})
}

// connected waits until there are n members, and all of them are connected.
func (f *fleet) connected(ctx context.Context, n int) error {
	return f.eventually(ctx, "the members to be connected", func(ctx context.Context) (bool, error) {
		var list v1alpha1.MemberClusterList
		if err := f.hub.List(ctx, &list); err != nil {
			return false, err
		}
		for i := range list.Items {
			if !meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
				return false, wait.Pause(ctx, time.Duration(n)*time.Millisecond) // many are not listed all the time
			}
		}
		return len(list.Items) == n, nil
	})
}

// onJobControllers pauses the members' Job controllers, or lets them go on.
func (f *fleet) onJobControllers(do func(*lab.Process) error) error {
	var errs []error
	for _, name := range memberNames {
		errs = append(errs, do(f.lab.Cluster(name).Component(lab.ControllerManager)))
	}
	return errors.Join(errs...)
}

// stop ends everything. The Git server is part of this process.
func (f *fleet) stop() error {
	var errs []error
	if f.controller != nil {
		errs = append(errs, f.controller.Kill())
	}
	if f.proxy != nil {
		f.proxy.Close()
	}
	if f.git != nil {
		errs = append(errs, f.git.Stop())
	}
	if f.trail != nil {
		errs = append(errs, f.trail.close())
	}
	if f.lab != nil {
		_ = f.onJobControllers((*lab.Process).Resume) // a paused process cannot end in good order
		end := (*lab.Lab).Stop
		if f.hasty {
			end = (*lab.Lab).Kill
		}
		errs = append(errs, end(f.lab))
	}
	return errors.Join(errs...)
}

// logTail is the end of the controller's log, as an error to join to another; nil before it was started.
func (f *fleet) logTail() error {
	if f.controller == nil {
		return nil
	}
	return errors.New(f.controller.LogTail())
}

// still is how long nobody writes before something counts as over.
func (f *fleet) still() time.Duration {
	if f.hasty {
		return 400 * time.Millisecond
	}
	return 2 * time.Second
}

// membersText says what the members are.
func (f *fleet) membersText() string {
	if len(f.confined) > 0 {
		return fmt.Sprintf("%d members on %d API servers", len(f.confined), len(memberNames))
	}
	return fmt.Sprintf("%d members", len(memberNames))
}

// eventually asks until the answer is yes.
func (f *fleet) eventually(ctx context.Context, what string, ask func(context.Context) (bool, error)) error {
	return wait.Until(ctx, patience, what, ask)
}
