package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/hack/lab"
)

const (
	managerNamespace = "minifleet-system"
	// hubUser is who MiniFleet is in all audit logs. People are admin, and what the clusters do themselves is
	// done by users of their own.
	hubUser = "minifleet"
	// canary is in a Secret that members get copies of.
	canary = "canary-5f2a91c07d3e48b6"
	// edited is what somebody writes into ConfigMaps and Secrets on members.
	edited = "edited by somebody"
	// nodeCPU is what each member has, bigCPU what a pod of a big MiniCluster wants: of two of these only one
	// fits, however large it is.
	nodeCPU, bigCPU = 64, 20
)

// zones are the labels that members have before and after a schedule.
var zones = map[string]string{"alpine": "red", "basalt": "blue", "cobalt": "red", "dolerite": "blue"}

// fleet is a hub and its members, with MiniFleet behind proxies, and these in front of gateways.
type fleet struct {
	shards    []shard
	dir       string
	binary    string
	namespace string // of the schedule
	lab       *lab.Lab
	clients   map[string]client.Client // of people, who go straight to the clusters
	proxies   map[string]*lab.Proxy    // what MiniFleet goes through to members
	gateways  map[string]*lab.Gateway  // what is behind these
	hubs      []*minifleet             // as often as it was started; which of them run varies
	hubConfig []byte                   // its kubeconfig for the hub, without a proxy
	hubMode   map[string]lab.ProxyMode // of the hub's network, by shard
	starting  sync.WaitGroup           // API servers that are about to be back
	down      map[string]bool          // clusters whose API server was killed
	failed    map[string]int           // how many requests a member's gateway had failed when it last began to
	strangers []stranger
	edited    types.UID       // of what somebody has edited last
	abandoned map[string]bool // members that were let go of with what was there
	losses
}

// minifleet is a MiniFleet with a way of its own to the hub.
type minifleet struct {
	*lab.Process
	proxy   *lab.Proxy
	gateway *lab.Gateway
	shard   string // its key
	rival   bool   // it takes no notice of others
}

// stranger is an object on a member that is not MiniFleet's.
type stranger struct {
	member string
	object client.Object
}

// newFleet starts everything. What it leaves on disk is removed, but for a test that failed.
func newFleet(t *testing.T, shards []shard) *fleet {
	t.Helper()
	root, err := lab.RepositoryRoot()
	check(t, err)
	f := &fleet{
		shards: shards, hubMode: map[string]lab.ProxyMode{},
		binary: filepath.Join(root, "bin", "minifleet"), clients: map[string]client.Client{},
		proxies: map[string]*lab.Proxy{}, gateways: map[string]*lab.Gateway{}, down: map[string]bool{}, abandoned: map[string]bool{}, failed: map[string]int{}, losses: newLosses(),
	}
	if _, err := os.Stat(f.binary); err != nil {
		t.Fatalf("%v: build it with `make build`", err)
	}
	f.dir, err = os.MkdirTemp("", "minifleet-soak-") //nolint:usetesting // it stays where a test has failed
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs and audit logs are kept in %s", f.dir)
			return
		}
		_ = os.RemoveAll(f.dir)
	})
	specs := []lab.ClusterSpec{{Name: hubName, Controllers: true, AuditLevel: "RequestResponse"}}
	for _, name := range membersOf(shards) {
		specs = append(specs, lab.ClusterSpec{Name: name, PodSeconds: 1, AuditLevel: "RequestResponse", Nodes: []lab.Node{
			nodeOf(name),
		}})
	}
	f.lab, err = lab.Start(context.WithoutCancel(t.Context()), lab.Options{Dir: filepath.Join(f.dir, "lab"), Clusters: specs, Env: lab.Hasty})
	check(t, err)
	t.Cleanup(func() { _ = f.lab.Kill() })
	t.Cleanup(func() {
		f.killHubs("")
		for _, p := range f.hubs {
			p.proxy.Close()
			p.gateway.Close()
		}
	})
	t.Cleanup(f.starting.Wait)
	for _, c := range f.lab.Clusters() {
		if !c.Owned() {
			t.Skip("API servers that are not the lab's cannot be broken, nor their audit logs read")
		}
		f.connect(t, c)
	}
	check(t, f.lab.Cluster(hubName).ApplyCRDs(t.Context(), filepath.Join(root, "config", "crd", "bases")))
	f.populate(t)
	_, err = f.startHubs("", true)
	check(t, err)
	await(t, "members to be connected", time.Minute, func() []string { return f.unconnected(t.Context()) })
	return f
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await polls until nothing is left to wait for.
func await(t *testing.T, what string, limit time.Duration, missing func() []string) {
	t.Helper()
	var left []string
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if left = missing(); len(left) == 0 {
			return
		}
	}
	t.Fatalf("waited %s for %s: %q", limit, what, left)
}

// connect makes a client for people and a proxy for MiniFleet.
func (f *fleet) connect(t *testing.T, c *lab.Cluster) {
	t.Helper()
	cfg, err := c.RESTConfig()
	check(t, err)
	cfg.Timeout = 5 * time.Second
	scheme, err := controllers.NewScheme()
	check(t, err)
	f.clients[c.Name()], err = client.New(cfg, client.Options{Scheme: scheme})
	check(t, err)
	if c.Name() == hubName {
		return // each MiniFleet has one of its own
	}
	direct, err := c.KubeconfigFor(hubUser, "system:masters")
	check(t, err)
	f.proxies[c.Name()], f.gateways[c.Name()], err = wayTo(direct)
	check(t, err)
	t.Cleanup(f.proxies[c.Name()].Close)
	t.Cleanup(f.gateways[c.Name()].Close)
}

// wayTo makes what MiniFleet goes through to a cluster: a proxy, which is the network, and behind it a gateway.
func wayTo(kubeconfig []byte) (*lab.Proxy, *lab.Gateway, error) {
	gateway, err := lab.NewGateway(kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	proxy, err := lab.NewProxy(gateway.Address())
	return proxy, gateway, err
}

// kubeconfig is MiniFleet's for a member.
func (f *fleet) kubeconfig(t *testing.T, member string) []byte {
	t.Helper()
	proxied, err := f.gateways[member].Kubeconfig(f.proxies[member].Address())
	check(t, err)
	return proxied
}

// populate makes what the hub has before MiniFleet starts.
func (f *fleet) populate(t *testing.T) {
	t.Helper()
	ctx, hub := t.Context(), f.clients[hubName]
	var err error
	f.hubConfig, err = f.lab.Cluster(hubName).KubeconfigFor(hubUser, "system:masters")
	check(t, err)
	check(t, hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}}))
	for _, name := range membersOf(f.shards) {
		check(t, hub.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: name},
			Data:       map[string][]byte{v1alpha1.KubeconfigKey: f.kubeconfig(t, name)},
		}))
		check(t, hub.Create(ctx, f.memberCluster(name)))
	}
}

// enter makes a namespace for a schedule, with a Secret that is copied, and strangers on the members.
func (f *fleet) enter(t *testing.T, namespace string) {
	t.Helper()
	f.namespace, f.backup = namespace, nil
	clear(f.unmarked)
	for _, c := range f.clients {
		check(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{v1alpha1.LabelHubNamespace: namespace}}}))
	}
	check(t, f.clients[hubName].Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "token", Labels: map[string]string{v1alpha1.LabelPropagate: "true"}},
		Data:       map[string][]byte{"token": []byte(canary)},
	}))
	f.settleStrangers(t)
}

// settleStrangers puts objects on members that are somebody else's: without any mark, with the marks of
// another fleet, and one under a name that a FleetMiniCluster has.
func (f *fleet) settleStrangers(t *testing.T) {
	t.Helper()
	job := func(m metav1.ObjectMeta) client.Object {
		j := &batchv1.Job{ObjectMeta: *m.DeepCopy(), Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
		j.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "x", Image: "example.org/x"}}}
		return j
	}
	for _, s := range f.shards {
		foreign := f.foreign(s.names[0])
		for _, member := range s.members {
			for _, obj := range []client.Object{
				job(foreign),
				&corev1.ConfigMap{ObjectMeta: *foreign.DeepCopy()},
				&corev1.Secret{ObjectMeta: *foreign.DeepCopy()},
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "unmarked"}},
			} {
				f.createStranger(t, member, obj)
			}
		}
		for _, name := range s.names {
			if member := taken[name]; member != "" {
				f.createStranger(t, member, job(metav1.ObjectMeta{Namespace: f.namespace, Name: name}))
			}
		}
	}
}

// foreign are the marks of what another fleet has for a FleetMiniCluster of that name.
func (f *fleet) foreign(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: f.namespace, Name: "theirs",
		Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelOwner: name, v1alpha1.LabelRun: "0123456789"},
		Annotations: map[string]string{
			v1alpha1.AnnotationFleetID: "another-hub", v1alpha1.AnnotationOwner: f.namespace + "/" + name, v1alpha1.AnnotationOwnerUID: "another",
		},
	}
}

func (f *fleet) createStranger(t *testing.T, member string, obj client.Object) {
	t.Helper()
	check(t, f.clients[member].Create(t.Context(), obj))
	f.strangers = append(f.strangers, stranger{member, obj})
}

// startHubs starts one more MiniFleet for a shard, or for each, beside those that run. Without an election it takes no notice
// of them.
func (f *fleet) startHubs(shard string, election bool) ([]*minifleet, error) {
	var started []*minifleet
	for _, key := range keysOf(f.shards, shard) {
		p, err := f.startHub(key, election)
		if err != nil {
			return started, err
		}
		started = append(started, p)
	}
	return started, nil
}

func (f *fleet) startHub(shard string, election bool) (*minifleet, error) {
	proxy, gateway, err := wayTo(f.hubConfig)
	if err != nil {
		return nil, err
	}
	name := suffixed(fmt.Sprintf("minifleet-%d", len(f.hubs)+1), shard)
	config := filepath.Join(f.dir, name+".kubeconfig")
	kubeconfig, err := gateway.Kubeconfig(proxy.Address())
	if err == nil {
		err = errors.Join(os.WriteFile(config, kubeconfig, 0o600), proxy.SetMode(f.hubMode[shard]))
	}
	if err != nil {
		return nil, err
	}
	p := &lab.Process{
		Name: name, Path: f.binary,
		Args: []string{"controller", "--shard", shard, "--kubeconfig", config, "--namespace", managerNamespace, fmt.Sprintf("--leader-elect=%t", election),
			"--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--log-level", "debug",
			"--git-allowed-cidrs", "127.0.0.0/8,::1/128"},
		PidsDir: filepath.Join(f.dir, "pids"), LogsDir: filepath.Join(f.dir, "logs"),
	}
	m := &minifleet{p, proxy, gateway, shard, !election}
	f.hubs = append(f.hubs, m)
	return m, p.Start()
}

// running are the MiniFleets of a shard, or of all, that run, the oldest first.
func (f *fleet) running(shard string) []*minifleet {
	keys := keysOf(f.shards, shard)
	return slices.DeleteFunc(slices.Clone(f.hubs), func(p *minifleet) bool { return !p.Running() || !slices.Contains(keys, p.shard) })
}

// setMode makes the network to a cluster good or bad: that to the hub for a shard, or for all.
func (f *fleet) setMode(cluster, shard string, mode lab.ProxyMode) error {
	if cluster != hubName {
		return f.proxies[cluster].SetMode(mode)
	}
	for _, key := range keysOf(f.shards, shard) {
		f.hubMode[key] = mode
	}
	return each(f.running(shard), func(p *minifleet) error { return p.proxy.SetMode(mode) })
}

// setTrouble makes a gateway misbehave: a member's, or those of the MiniFleets of a shard, or of all, that run now. Others that
// are started later see the hub as it is.
func (f *fleet) setTrouble(cluster, shard string, trouble lab.Trouble) {
	if cluster != hubName {
		f.failed[cluster] = f.gateways[cluster].Failed()
		f.gateways[cluster].SetTrouble(trouble)
		return
	}
	for _, p := range f.running(shard) {
		p.gateway.SetTrouble(trouble)
	}
}

func (f *fleet) killHubs(shard string) {
	for _, p := range f.running(shard) {
		_ = p.Kill()
	}
}

// superviseHub does what a Deployment does: when none of a shard runs, another is started.
func (f *fleet) superviseHub(ctx context.Context) error {
	var errs []error
	for _, s := range f.shards {
		if len(f.running(s.key)) > 0 {
			continue
		}
		errs = append(errs, f.freeLease(ctx, s.key))
		_, err := f.startHub(s.key, true)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// freeLeases takes the lease of a shard, or of each, from its holder, which is dead or paused, so that no test waits until it
// expires.
func (f *fleet) freeLeases(ctx context.Context, shard string) error {
	return each(keysOf(f.shards, shard), func(key string) error { return f.freeLease(ctx, key) })
}

func (f *fleet) freeLease(ctx context.Context, shard string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var lease coordinationv1.Lease
		if err := f.clients[hubName].Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: v1alpha1.ControllerLease(shard)}, &lease); err != nil {
			return client.IgnoreNotFound(err)
		}
		lease.Spec.HolderIdentity = ptr.To("")
		return f.clients[hubName].Update(ctx, &lease)
	})
}

// restore undoes all faults of a cluster.
func (f *fleet) restore(ctx context.Context, cluster string) error {
	if f.down[cluster] {
		f.down[cluster] = false
		f.starting.Go(func() { _ = f.lab.Cluster(cluster).StartAPIServer(context.WithoutCancel(ctx)) })
	}
	f.setTrouble(cluster, "", lab.Trouble{})
	err := f.setMode(cluster, "", lab.Forward)
	for _, p := range f.running("") {
		if cluster == hubName && p.rival {
			err = errors.Join(err, p.Kill())
		}
	}
	return err
}

// heal undoes all faults, leaves one MiniFleet of each shard running, and gives it something to do on every member: once that
// is done, it is known to be at work again.
func (f *fleet) heal(ctx context.Context) error {
	var errs []error
	for cluster := range f.clients {
		errs = append(errs, f.restore(ctx, cluster))
	}
	f.starting.Wait()
	for _, member := range membersOf(f.shards) {
		errs = append(errs, client.IgnoreNotFound(free(ctx, f, step{on: member})))
	}
	errs = append(errs, f.reregister(ctx))
	for _, name := range membersOf(f.shards) {
		errs = append(errs, f.restoreNode(ctx, name), client.IgnoreNotFound(f.label(ctx, name, zones[name])), client.IgnoreNotFound(f.drain(ctx, name, "false")))
	}
	for _, s := range f.shards {
		errs = append(errs, f.healShard(ctx, s))
	}
	return errors.Join(errs...)
}

func (f *fleet) healShard(ctx context.Context, s shard) error {
	var errs []error
	if all := f.running(s.key); len(all) > 1 {
		for _, p := range all[1:] {
			errs = append(errs, p.Kill())
		}
		errs = append(errs, f.freeLease(ctx, s.key))
	}
	errs = append(errs, f.superviseHub(ctx), create(ctx, f, step{name: s.witness(), arg: traitAll, shard: s.key}))
	return errors.Join(errs...)
}

func (f *fleet) label(ctx context.Context, member, zone string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"zone":%q}}}`, zone)
	return f.clients[hubName].Patch(ctx, &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: member}}, client.RawPatch(mergePatch, patch))
}

func (f *fleet) drain(ctx context.Context, member, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationDrain, value)
	return f.clients[hubName].Patch(ctx, &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: member}}, client.RawPatch(mergePatch, patch))
}

// unconnected are the members that the hub does not call connected, and those with something left to remove.
func (f *fleet) unconnected(ctx context.Context) []string {
	var list v1alpha1.MemberClusterList
	if err := f.clients[hubName].List(ctx, &list); err != nil {
		return []string{err.Error()}
	}
	var out []string
	if n := len(list.Items); n != len(membersOf(f.shards)) {
		out = append(out, fmt.Sprintf("%d members are registered", n))
	}
	for i := range list.Items {
		m := &list.Items[i]
		if m.DeletionTimestamp != nil {
			out = append(out, fmt.Sprintf("member %s is being deleted: %+v", m.Name, m.Status.Conditions))
		}
		c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Status != metav1.ConditionTrue {
			out = append(out, fmt.Sprintf("member %s: %+v", m.Name, c))
		}
		if n := len(m.Status.Orphans); n > 0 {
			out = append(out, fmt.Sprintf("member %s has %d orphans", m.Name, n))
		}
	}
	return out
}
